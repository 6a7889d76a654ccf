"""Memory of another process, and how fast it grows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

BLOCKS = 12
"""Stretches of equal length whose means the slope is fitted to.

Samples that follow each other are alike, so that each for itself would make the error too small.
"""


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def slope(seconds: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The slope per second of values by least squares, and its standard error.

    >>> slope(range(24), [5.0 + 2.0 * n for n in range(24)])
    (2.0, 0.0)
    """
    x, y = (
        np.array([part.mean() for part in np.array_split(np.asarray(one, float), BLOCKS)])
        for one in (seconds, values)
    )
    x -= x.mean()
    found = float(x @ y / (x @ x))
    rest = y - y.mean() - found * x
    error = float(np.sqrt(rest @ rest / (len(x) - 2) / (x @ x)))
    return round(found, 12), round(error, 12)
