"""A model to serve, and the browser of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_kit import events, learned
from live_page_kit import looking


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a job that has learned 200 events."""
    directory = tmp_path_factory.mktemp("state")
    learned(directory, events(200, seed=3))
    return directory


@pytest.fixture
def page() -> Iterator[Any]:
    with looking() as found:
        yield found
