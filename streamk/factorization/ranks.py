"""How many directions each cluster gets: the three rules of MEKA (§5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

RULES = ("same", "size", "spectrum")


def by_size(rank: int, sizes: Sequence[int]) -> list[int]:
    """Return ranks of at least 1 in proportion to sizes, in all ``rank * clusters``.

    Examples
    --------
    >>> by_size(10, [10, 30])
    [5, 15]
    """
    wanted = rank * len(sizes) * np.asarray(sizes) / sum(sizes)
    found = np.floor(wanted)
    most = np.argsort(found - wanted, kind="stable")
    found[most[: round(float(wanted.sum() - found.sum()))]] += 1
    return [max(1, int(k)) for k in found]


def by_spectrum(rank: int, spectra: Sequence[NDArray[Any]]) -> list[int]:
    """Return how many of each cluster's values are among the largest ``rank * clusters`` of all.

    Each gets at least one.

    Examples
    --------
    >>> by_spectrum(2, [np.array([9.0, 3.0, 2.0]), np.array([5.0, 1.0])])
    [3, 1]
    """
    values = np.concatenate(spectra)
    owners = np.repeat(np.arange(len(spectra)), [len(s) for s in spectra])
    largest = np.argsort(-values, kind="stable")[: rank * len(spectra)]
    counts = np.bincount(owners[largest], minlength=len(spectra))
    return [max(1, int(k)) for k in counts]
