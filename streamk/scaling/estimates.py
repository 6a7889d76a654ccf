"""Locations, deviations and ranks of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamk.backends import HIGHEST_RANK

KNOTS = 32
"""Quantiles kept of each column."""
DECILES = 2.563
"""Distance of the first and last decile of a normal law, in standard deviations."""
LEAST = 1e-45
"""Scale up to which values count as equal: what is divided by it would not be finite."""


def quantiles(
    S: NDArray[np.float64], n: NDArray[np.intp], parts: Sequence[int], whole: int
) -> NDArray[np.float64]:
    """Quantiles at the levels parts / whole of rows whose first n values are sorted and known.

    Places between two values are found in whole numbers, so that a value that is there often is
    met exactly.
    """
    low, rest = np.divmod(np.multiply.outer(n - 1, np.asarray(parts)), whole)
    below = np.take_along_axis(S, low, axis=1)
    above = np.take_along_axis(S, np.minimum(low + 1, n[:, None] - 1), axis=1)
    return np.asarray(below + (above - below) * (rest / whole))


def location(
    S: NDArray[np.float64], n: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the medians and scales of rows whose first n values are sorted and known."""
    least, tenth, median, ninetieth, most = quantiles(S, n, (1, 10, 50, 90, 99), 100).T
    scale = (ninetieth - tenth) / DECILES
    flat = np.flatnonzero(scale == 0.0)
    if len(flat):
        S, n, least, most = S[flat], n[flat], least[flat], most[flat]
        bounded = least < most
        least = np.where(bounded, least, S[:, 0])
        most = np.where(bounded, most, S[np.arange(len(S)), n - 1])
        scale[flat] = deviation(S, n, least, most)
    return median, np.where(scale > LEAST, scale, 1.0)


def deviation(
    S: NDArray[np.float64],
    n: NDArray[np.intp],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the deviations of the rows' known values within bounds; 1 where the bounds meet."""
    known = ~np.isnan(S)
    V = np.where(known, np.clip(S, least[:, None], most[:, None]) - least[:, None], 0.0)
    mean = V.sum(axis=1) / n
    squares = np.where(known, V - mean[:, None], 0.0) ** 2
    return np.where(least < most, np.sqrt(squares.sum(axis=1) / n), 1.0)


def rank_shift(old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much any knot's rank, of the old or the new ones, moves from old to new."""
    V = np.concatenate([old, new], axis=1)
    return np.asarray(np.abs(midranks(V, old) - midranks(V, new)).max(axis=1))


def midranks(V: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of values (d, k) by the knots of their columns, as `rank_row` has them."""
    low = np.count_nonzero(knots[:, None, :] < V[:, :, None], axis=2)
    high = np.count_nonzero(knots[:, None, :] <= V[:, :, None], axis=2)
    left, right = np.maximum(low - 1, 0), np.minimum(low, KNOTS - 1)
    start = np.take_along_axis(knots, left, axis=1)
    gap = np.take_along_axis(knots, right, axis=1) - start
    level = left + (V - start) / np.where(gap > 0.0, gap, 1.0)
    level = np.where(high > low, 0.5 * (low + high - 1), level)
    level = np.where(high == 0, 0.0, np.where(low == KNOTS, KNOTS, level))
    return np.asarray(np.minimum(level / (KNOTS - 1), HIGHEST_RANK))
