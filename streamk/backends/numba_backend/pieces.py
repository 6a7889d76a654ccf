"""Parts of a batch that take microseconds each, for loops that keep the interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NUMBERS = 1 << 15
"""Numbers of a part: another thread can have the interpreter between two of them."""


def pieces(X: Any) -> Iterable[slice]:
    """Return the parts of the rows of X (n, d), one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> pieces(np.zeros((40_000, 2)))
    [slice(0, 16384, None), slice(16384, 32768, None), slice(32768, 49152, None)]
    """
    step = max(1, _NUMBERS // max(1, X.shape[1]))
    return [slice(first, first + step) for first in range(0, len(X), step)]
