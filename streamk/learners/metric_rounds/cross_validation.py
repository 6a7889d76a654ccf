"""The choice of a family and of its rounds by cross-validation, where there are few events.

Of a few dozen events a fifth is too few to choose by, and too many to do without.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.kernels import Kernel
from streamk.learners.metric_rounds.columns import Columns
from streamk.learners.metric_rounds.ladder import descended, ended
from streamk.learners.metric_rounds.ridge import DirectSingle
from streamk.learners.metric_rounds.search import (
    ERRORS,
    Family,
    Round,
    followed,
    identity,
    next_metric,
    normalized,
)
from streamk.learners.metric_rounds.weights import Weights

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
        One of `streamk.learners.metric_rounds.search.ERRORS`.

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
