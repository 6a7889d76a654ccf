"""Rounds of a recursive feature machine with many events, solved for in leaves of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.metric_rounds.ladder import ended
from streamk.learners.metric_rounds.metric import Metric
from streamk.learners.metric_rounds.ridge import DirectSingle
from streamk.learners.metric_rounds.search import (
    ERRORS,
    Family,
    Round,
    error_of,
    identity,
    next_metric,
    normalized,
)
from streamk.learners.metric_trees.splits import Splits, halves

Numbers = NDArray[Any]

_PATIENCE = 1
"""Rounds without a smaller error after which there are no more."""


def rounds_in_leaves(
    family: Family,
    S: Numbers,
    Y: Numbers,
    held: Numbers,
    labels: Numbers,
    *,
    ridges: Sequence[float],
    rounds: int,
    error: str,
    size: int,
    n_gradients: int,
) -> list[Round]:
    """Go through the rounds of one family, with a function of its own for each part of space.

    The metric of a round is the average gradient outer product of all leaves' functions. To solve
    for n events takes ``n size^2 / 3`` multiplications at most.

    Parameters
    ----------
    family : Family
    S : float64 array of shape (n, d)
        Scaled events to learn from.
    Y : float64 array of shape (n, outputs)
        Their targets.
    held : float64 array of shape (m, d)
        Scaled events held back.
    labels : float64 array of shape (m, outputs)
        Their targets.
    ridges : sequence of float
        The regularization of each round, the last one for those after it, too.
    rounds : int
        After round 0, at most.
    error : str
        One of `streamk.learners.metric_rounds.search.ERRORS`.
    size : int
        Events of a leaf from which on it is divided.
    n_gradients : int
        Events of a leaf at which gradients are taken.

    Returns
    -------
    list of Round
    """
    mean, metric = Y.mean(axis=0), identity(family, S.shape[1])
    found: list[Round] = []
    while True:
        ridge = ridges[min(len(found), len(ridges) - 1)]
        P, Q = metric.mapped(S), metric.mapped(held)
        F, solved = np.tile(mean, (len(held), 1)), list[tuple[Numbers, Numbers]]()
        for rows, asked in _leaves(P, Q, size):
            A = DirectSingle(family.kernel, P[rows], Y[rows] - mean).solve(ridge)
            F[asked] += family.kernel.pairwise(Q[asked], P[rows], dtype=np.float32) @ A
            solved.append((rows, A))
        missed = error_of(ERRORS[error](F - labels))
        found.append(Round(len(found), metric, ridge, missed, F))
        if ended([one.error for one in found], rounds, _PATIENCE):
            return found
        M = np.zeros(metric.root.shape)
        for rows, A in solved:
            own = next_metric(family, metric, P[rows[:n_gradients]], P[rows], A)
            M += len(rows) * (own.diagonal if family.diagonal else own.matrix)
        metric = normalized(family, Metric.of(M / len(S)), S)


def _leaves(P: Numbers, Q: Numbers, size: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the rows of each leaf among points P (n, d), and those of points Q (m, d)."""
    points, asked = P.astype(np.float32), Q.astype(np.float32)
    splits, parts = Splits.none(P.shape[1]), {0: np.arange(len(P))}
    left = [0]
    while left:
        leaf = left.pop()
        rows = parts[leaf]
        cut = halves(points[rows]) if len(rows) >= size else None
        if cut is not None:
            direction, threshold, right = cut
            new = splits.divide(leaf, direction, threshold)
            parts[leaf], parts[new] = rows[~right], rows[right]
            left += [leaf, new]
        else:
            parts[leaf] = rows[:size]  # of many that are equal a few will do
    leaves = splits.leaves_of(asked)
    for leaf in sorted(parts):
        yield parts[leaf], np.flatnonzero(leaves == leaf)
