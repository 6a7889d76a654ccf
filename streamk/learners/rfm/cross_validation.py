"""The choice of a family and of its rounds by cross-validation, where there are few events.

Of a few dozen events a fifth is too few to choose by, and too many to do without.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.kernels import Kernel
from streamk.learners.rfm.metric import Columns, Metric, Weights
from streamk.learners.rfm.ridge import DirectSingle
from streamk.learners.rfm.search import (
    ERRORS,
    Family,
    Round,
    descended,
    ended,
    error_of,
    followed,
    identity,
    next_metric,
    normalized,
)
from streamk.learners.rfm.splits import Splits, halves

Numbers = NDArray[Any]

_PARTS = 3
_PATIENCE = 1
"""Rounds without a smaller error after which there are no more."""


def cross_validated(
    families: Sequence[Family],
    handicaps: Sequence[float],
    X: Numbers,
    Y: Numbers,
    *,
    rounds: int,
    ridges: Sequence[float],
    error: str,
) -> tuple[Family, Round]:
    """Return the family and the round of least error, the round being made of all events.

    The events are cut into three parts in their order, so that few have their neighbors in the
    stream on the other side. Each part is predicted by functions, and in metrics, of the others.

    Parameters
    ----------
    families : sequence of Family
    handicaps : sequence of float
        Factors of their errors.
    X : float64 array of shape (n, d)
    Y : float64 array of shape (n, outputs)
        Targets.
    rounds : int
        After round 0, at most.
    ridges : sequence of float
        Regularizations, ascending; searched from the middle on, as long as errors fall.
    error : str
        One of `streamk.learners.rfm.search.ERRORS`.

    Returns
    -------
    (Family, Round)
        The round's margins are those of all events (n, outputs), when they were left out.

    Raises
    ------
    ValueError
        If numbers overflow.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> both = [Family("standard", Gaussian(bandwidth=s), True) for s in (0.01, 1.5)]
    >>> family, found = cross_validated(
    ...     both, [1.0, 1.0], X, X[:, :1], rounds=2, ridges=[0.01, 0.1], error="squared"
    ... )
    >>> family.kernel.bandwidth, found.ridge, bool(found.metric.shares[0] > 0.9)
    (1.5, 0.01, True)
    """
    paths, starts = list[_Path](), dict[tuple[str, Kernel], _Start]()
    for family in families:
        key = family.scale, family.kernel
        if key not in starts:
            starts[key] = _Start(family, X, Y)
        paths.append(_Path(family, Y, ridges, error, starts[key]).followed(rounds))
    errors = [factor * path.least for factor, path in zip(handicaps, paths, strict=True)]
    best = paths[int(np.argmin(errors))]
    if not np.isfinite(best.least):
        raise ValueError("no family has finite errors")
    return best.family, best.made(X, Y)


class _Fold:
    """A round of one family that some events are predicted in by the others."""

    def __init__(self, family: Family, X: Numbers, Y: Numbers, held: Numbers) -> None:
        self.held, rest = held, np.setdiff1d(np.arange(len(X)), held)
        columns = Columns.of(X[rest], family.scale)
        self._family, self._S, self._Q = family, columns.scaled(X[rest]), columns.scaled(X[held])
        self._mean = Y[rest].mean(axis=0)
        self._targets = Y[rest] - self._mean
        self._metric = identity(family, X.shape[1])
        self._begin()

    def of(self, family: Family) -> _Fold:
        """Return the same with another kind of metric, in round 0."""
        new = copy.copy(self)
        new._family, new._metric = family, identity(family, self._S.shape[1])
        return new

    def _begin(self) -> None:
        self._P = self._metric.mapped(self._S)
        self._equations = DirectSingle(self._family.kernel, self._P, self._targets)
        points = self._metric.mapped(self._Q)
        self._K = self._family.kernel.pairwise(points, self._P, dtype=np.float32)

    def margins(self, ridge: float) -> Numbers:
        """Return the predictions of the events that are left out."""
        return np.asarray(self._K @ self._equations.solve(ridge) + self._mean)

    def sharpen(self, ridge: float) -> None:
        """Go on to the next round."""
        A = self._equations.solve(ridge)
        found = next_metric(self._family, self._metric, self._P, self._P, A)
        self._metric = normalized(self._family, found, self._S)
        self._begin()


def _single(kernel: Kernel, P: Numbers, Y: Numbers, _: Weights) -> DirectSingle:
    """Return the solver for mapped events P (n, d) and targets Y (n, outputs)."""
    return DirectSingle(kernel, P, Y)


class _Start:
    """Round 0, which is the same with a diagonal metric and a full one."""

    def __init__(self, family: Family, X: Numbers, Y: Numbers) -> None:
        parts = np.array_split(np.arange(len(X)), min(_PARTS, len(X)))
        self.folds = [_Fold(family, X, Y, part) for part in parts]
        self.tried: dict[int, tuple[float, Numbers]] = {}
        """Errors and margins of the regularizations that were tried."""


class _Path:
    """The rounds of one family."""

    def __init__(
        self, family: Family, Y: Numbers, ridges: Sequence[float], error: str, start: _Start
    ) -> None:
        self.family, self._Y, self._ridges, self._error = family, Y, ridges, error
        self._folds = [fold.of(family) for fold in start.folds]
        self._tried = start.tried
        self._chosen: list[float] = []
        self.least, self._margins, self._best = np.inf, Y, 0

    def followed(self, rounds: int) -> _Path:
        """Take up to so many rounds after the first; return itself."""
        place, errors = len(self._ridges) // 2, list[float]()
        for turn in range(rounds + 1):
            place = descended(self._error_of, place, len(self._ridges))
            error, margins = self._tried[place]
            self._chosen.append(self._ridges[place])
            if error < self.least:
                self.least, self._margins, self._best = error, margins, turn
            errors.append(error)
            if ended(errors, rounds, _PATIENCE):
                break
            for fold in self._folds:
                fold.sharpen(self._ridges[place])
            self._tried = {}
        self._folds = []  # their matrices are no longer needed
        return self

    def _error_of(self, place: int) -> float:
        """Return the mean error of a regularization in this round."""
        if place not in self._tried:
            F = np.empty(self._Y.shape)
            for fold in self._folds:
                F[fold.held] = fold.margins(self._ridges[place])
            self._tried[place] = (float(ERRORS[self._error](F - self._Y).sum() / len(F)), F)
        return self._tried[place][0]

    def made(self, X: Numbers, Y: Numbers) -> Round:
        """Return the best round, made of all events with the regularizations of its path."""
        S, targets = Columns.of(X, self.family.scale).scaled(X), Y - Y.mean(axis=0)
        ridges, ridge = self._chosen[: self._best], self._chosen[self._best]
        metric = followed(self.family, S, targets, ridges, _single)
        return Round(self._best, metric, ridge, self.least, self._margins)


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
        One of `streamk.learners.rfm.search.ERRORS`.
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
