"""Numbers of directions of the clusters: the three rules of MEKA (§5.2)."""

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
    total = rank * len(sizes)
    wanted = total * np.asarray(sizes) / sum(sizes)
    found = np.maximum(1.0, np.floor(wanted))
    while found.sum() < total:
        found[np.argmax(wanted - found)] += 1
    while found.sum() > total:
        found[np.argmax(np.where(found > 1, found - wanted, -np.inf))] -= 1
    return [int(k) for k in found]


def by_spectrum(rank: int, spectra: Sequence[NDArray[Any]]) -> list[int]:
    """Return how many of each cluster's values are among the largest ``rank * clusters`` of all.

    The largest of each cluster is one of them in any case.

    Examples
    --------
    >>> by_spectrum(2, [np.array([9.0, 3.0, 2.0]), np.array([5.0, 1.0])])
    [3, 1]
    """
    others = np.concatenate([values[1:] for values in spectra])
    owners = np.repeat(np.arange(len(spectra)), [len(values) - 1 for values in spectra])
    largest = np.argsort(-others, kind="stable")[: (rank - 1) * len(spectra)]
    counts = 1 + np.bincount(owners[largest], minlength=len(spectra))
    return [int(k) for k in counts]
