"""Checks of what several methods are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.options import Whole


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise an error unless an option is a whole number of at least so much.

    Raises
    ------
    InvalidInput
        Naming the option.
    """
    Whole(least=least, most=None).check(name, value)


def numbers(X: Any, name: str) -> NDArray[np.float64]:
    """Return an array of float64.

    Raises
    ------
    InvalidInput
        If it is sparse, complex or holds what is no number.
    """
    if hasattr(X, "tocsr"):
        raise InvalidInput(
            f"{name} is sparse, and points must be dense: pass what its toarray() returns"
        )
    try:
        if not np.iscomplexobj(X):
            return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} must be an array of numbers: {error}; encode texts as numbers first"
        ) from None
    raise InvalidInput(f"{name} is complex; pass real and imaginary parts as columns")
