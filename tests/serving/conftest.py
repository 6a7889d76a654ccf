"""The browser of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from live_page_kit import looking


@pytest.fixture
def page() -> Iterator[Any]:
    with looking() as found:
        yield found
