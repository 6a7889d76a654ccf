"""Streams that are generated: no test reads the data sets of a developer."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
