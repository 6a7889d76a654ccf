"""Checks of options that several methods have."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.errors import InvalidInput


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise an error unless an option is a whole number of at least so much.

    Raises
    ------
    InvalidInput
        Naming the option.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{name}={value!r} must be a whole number of at least {least}")
