"""Checks of what several methods are given."""

from __future__ import annotations

from typing import Any

from streamk.options import Whole


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise an error unless an option is a whole number of at least so much.

    Raises
    ------
    InvalidInput
        Naming the option.
    """
    Whole(least=least, most=None).check(name, value)
