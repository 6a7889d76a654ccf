"""The choice of a metric: rounds of a family of functions, and the regularization of each.

A round solves kernel ridge regression, and the average gradient outer product of its function is
the metric of the next one. By how well events are predicted that were not learned, all is chosen:
by those of one part, or by cross-validation where there are few events, of which a fifth is too
few to choose by, and too many to do without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.kernels import Kernel, Laplacian, Linear, PowerExponential
from streamk.landmarks.methods import block_rpcholesky, oasis
from streamk.learners.rfm.metric import (
    PRODUCTS,
    Columns,
    Metric,
    Weights,
    mean,
    mean_error,
    of_rows,
    outer_products,
    rescaled,
    sum_of,
)
from streamk.learners.rfm.ridge import (
    ExactRidge,
    NormalRidge,
    SingleRidge,
    by_eigenvalues,
    predicted,
)
from streamk.learners.rfm.splits import Splits, halves

Numbers = NDArray[Any]

RIDGES = tuple(10.0 ** (-4.0 + 0.5 * i) for i in range(12))
"""Regularizations, the variance of the noise for a function of variance 1: .0001 to 30."""
ERRORS: dict[str, Callable[[Numbers], Numbers]] = {"absolute": np.abs, "squared": np.square}
"""Errors of events held back, as rounds and families are compared."""
SELECTIONS = ("random", "rpcholesky", "oasis")
_PATIENCE = 2
"""Rounds without a smaller error after which there are no more, in batch; on a stream it is 1."""
_GRADIENTS = 10_000
"""Events at which gradients are taken, if nothing else is said."""
_PARTS = 3
"""Of cross-validation."""
_FULL = 1.01
"""Ratio of errors by which a diagonal metric may be worse than a full one, of many more numbers."""


# Functions, and events to compare them by


@dataclass(frozen=True)
class Family:
    """Functions that are compared: all but metric and regularization."""

    scale: str
    kernel: Kernel
    diagonal: bool

    @property
    def power(self) -> float:
        """The power of the columns' differences of which distances are sums."""
        if isinstance(self.kernel, PowerExponential):
            return 0.5
        return 1.0 if isinstance(self.kernel, Laplacian) else 2.0

    @property
    def handicap(self) -> float:
        """The factor of its errors where families are compared."""
        return 1.0 if self.diagonal else _FULL

    def some(self, n_gradients: int) -> int:
        """Return at how many of so many events gradients are taken: of products they take long."""
        return n_gradients // 4 if isinstance(self.kernel, PRODUCTS) else n_gradients

    def identity(self, d: int) -> Metric:
        """Return the metric of round 0."""
        return Metric(np.ones(d) if self.diagonal else np.eye(d))


@dataclass(frozen=True)
class Fold:
    """Events to learn from and others held back, on the scale of the former."""

    columns: Columns
    rows: Numbers
    """Places of those held back."""
    S: Numbers
    Q: Numbers
    """Scaled events (n, d): of both."""
    Y: Numbers
    labels: Numbers
    """Their targets (n, outputs)."""
    weights: Weights
    of_held: Weights
    middle: Numbers
    """Mean of the targets to learn from."""

    @classmethod
    def of(
        cls,
        X: Numbers,
        Y: Numbers,
        train: Numbers,
        held: Numbers,
        scale: str,
        weights: Weights = None,
    ) -> Fold:
        """Return some of the events X (n, d), NaN where missing, to learn, and others held back."""
        own, of_held = of_rows(weights, train), of_rows(weights, held)
        columns = Columns.of(X[train], scale, own)
        S, Q = columns.scaled(X[train]), columns.scaled(X[held])
        return cls(columns, held, S, Q, Y[train], Y[held], own, of_held, mean(Y[train], own))


class MetricRound(NamedTuple):
    """One round: its metric, the regularization of least error, and predictions held back."""

    number: int
    """0 is of the identity."""
    metric: Metric
    ridge: float
    error: float
    """Mean error of held-back targets, summed over outputs."""
    margins: Numbers
    """Float64 (held, outputs)."""


def least(found: Sequence[MetricRound]) -> MetricRound:
    """Return the round of least error."""
    return min(found, key=lambda one: one.error)


# From one round to the next


def ended(errors: Sequence[float], rounds: int, patience: int) -> bool:
    """Return whether there are no more rounds after those of some errors, that of round 0 first.

    Examples
    --------
    >>> ended([3.0, 2.0], 4, 1), ended([3.0, 2.0, 2.0], 4, 1), ended([3.0, 2.0], 1, 1)
    (False, True, True)
    """
    best = int(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).argmin())
    return len(errors) > rounds or len(errors) - 1 - best >= patience


def moved(error: Callable[[int], float], place: int, count: int, step: int) -> int:
    """Return where errors stop falling on a ladder, from a place on in steps of 1 or -1."""
    lowest = error(place)
    while 0 <= place + step < count and error(place + step) < lowest:
        place += step
        lowest = error(place)
    return place


def descended(error: Callable[[int], float], place: int, count: int) -> int:
    """Return where errors stop falling on a ladder, from a place on in the direction of less."""
    lower = moved(error, place, count, -1)
    return moved(error, place, count, 1) if lower == place else lower


def error_of(E: Numbers, weights: Weights = None) -> float:
    """Return the mean of errors E (n, outputs), as `mean_error`, and inf where it is NaN."""
    found = mean_error(E, weights)
    return math.inf if math.isnan(found) else found


def agop(
    family: Family, metric: Metric, P: Numbers, Z: Numbers, A: Numbers, weights: Weights = None
) -> Metric:
    """Return the average gradient outer product of a function, at mapped events P (n, d).

    It is that of centers Z (p, d), mapped by the function's metric, and coefficients A.
    """
    own, diagonal = of_rows(weights, slice(len(P))), family.diagonal
    G = outer_products(family.kernel, P, Z, A, diagonal=diagonal, dtype=np.float32, weights=own)
    return Metric.of(metric.unmapped(G))


def normalized(family: Family, metric: Metric, S: Numbers, weights: Weights = None) -> Metric:
    """Return the metric's multiple that keeps the mean distance of events S (n, d)."""
    M = metric.diagonal if metric.is_diagonal else metric.matrix
    return Metric.of(rescaled(M, S, power=family.power, weights=weights))


def sharpened(
    family: Family, metric: Metric, S: Numbers, A: Numbers, weights: Weights = None
) -> Metric:
    """Return the metric of the next round, of a function whose centers are the events S (n, d)."""
    P = metric.mapped(S)
    return normalized(family, agop(family, metric, P, P, A, weights), S, weights)


def followed(
    family: Family,
    S: Numbers,
    ridges: Sequence[float],
    solve: Callable[[Numbers, float], Numbers],
    weights: Weights = None,
) -> Metric:
    """Return the metric of events S (n, d) after rounds with known regularizations.

    The function `solve` returns the coefficients of mapped events for a regularization.
    """
    metric = family.identity(S.shape[1])
    for ridge in ridges:
        A = solve(metric.mapped(S), ridge)
        metric = sharpened(family, metric, S, A, weights)
    return metric


# All regularizations of few events


class Explored(NamedTuple):
    """The best round of a family."""

    family: Family
    ridges: tuple[float, ...]
    """Of round 0 to the best one."""
    error: float
    margins: Numbers
    """Predictions of it where events were held back, else NaN: (n, outputs)."""


def explore(
    family: Family,
    folds: Sequence[Fold],
    n: int,
    rounds: int,
    ridges: Sequence[float],
    error: str,
) -> Explored:
    """Find the best round of a family for few of n events, all regularizations at once.

    Errors are summed over the folds; each has metrics of its own.
    """
    metrics = [family.identity(fold.S.shape[1]) for fold in folds]
    count = sum(sum_of(fold.of_held, len(fold.rows)) for fold in folds)
    best, lowest, margins = 0, np.inf, np.full((n, folds[0].Y.shape[1]), np.nan)
    chosen, errors = list[float](), list[float]()
    for turn in range(rounds + 1):
        tried = [_by_all(family, *one, ridges, error) for one in zip(folds, metrics, strict=True)]
        total = np.sum([own for own, _, _ in tried], axis=0) / count
        k = int(total.argmin())
        chosen.append(ridges[k])
        if total[k] < lowest:
            best, lowest = turn, float(total[k])
            for fold, (_, F, _) in zip(folds, tried, strict=True):
                margins[fold.rows] = F[k]
        errors.append(float(total[k]))
        if ended(errors, rounds, _PATIENCE):
            break
        metrics = [
            sharpened(family, metric, fold.S, A[int(own.argmin())], fold.weights)
            for fold, metric, (own, _, A) in zip(folds, metrics, tried, strict=True)
        ]
    return Explored(family, tuple(chosen[: best + 1]), lowest, margins)


def _by_all(
    family: Family, fold: Fold, metric: Metric, ridges: Sequence[float], error: str
) -> tuple[Numbers, Numbers, Numbers]:
    """Return sums of errors of each regularization, predictions held back, and coefficients."""
    P, Q = metric.mapped(fold.S), metric.mapped(fold.Q)
    A = by_eigenvalues(family.kernel, P, fold.Y - fold.middle, ridges, fold.weights)
    many, p, c = A.shape
    F = predicted(family.kernel, Q, P, A.transpose(1, 0, 2).reshape(p, -1))
    F = F.reshape(len(Q), many, c).transpose(1, 0, 2) + fold.middle
    errors = ERRORS[error](F - fold.labels).sum(axis=2)
    return errors.sum(axis=1) if fold.of_held is None else errors @ fold.of_held, F, A


# Many events, of which some are held back


@dataclass(frozen=True)
class SearchLimits:
    """Bounds of what is solved for."""

    rounds: int
    """At most, after round 0."""
    n_centers: int
    """Beyond so many events, centers are chosen."""
    selection: str
    seed: int
    error: str
    """One of `ERRORS`."""
    patience: int = _PATIENCE
    """Rounds without a smaller error after which there are no more."""
    single: bool = False
    """All events are centers, and all is computed in single precision. Rounds after the
    first then try other regularizations in one direction alone, upwards and downwards by turns."""
    n_gradients: int = _GRADIENTS
    """Events at which gradients are taken."""

    def solver(
        self, kernel: Kernel, P: Numbers, Y: Numbers, weights: Weights = None
    ) -> ExactRidge | SingleRidge | NormalRidge:
        """Return the solver for mapped events P (n, d), in random order, and targets Y."""
        if self.single:
            return SingleRidge(kernel, P, Y)
        if len(P) <= self.n_centers:
            return ExactRidge(kernel, P, Y, weights)
        if self.selection == "random":
            return NormalRidge(kernel, P, Y, P[: self.n_centers], weights)
        choose = oasis if self.selection == "oasis" else block_rpcholesky
        found = choose(P, kernel, max_landmarks=self.n_centers, seed=self.seed, dtype="float32")
        return NormalRidge(kernel, P, Y, P[found.indices], weights)

    def predictor(self, kernel: Kernel, Q: Numbers, Z: Numbers) -> Callable[[Numbers], Numbers]:
        """Return what gives ``k(Q, Z) A`` of coefficients A, of mapped points and centers."""
        if self.single:
            K = kernel.pairwise(Q, Z, dtype=np.float32)
            return lambda A: _times(K, A)
        return lambda A: predicted(kernel, Q, Z, A)


def _times(K: Numbers, A: Numbers) -> Numbers:
    """Return ``K A`` of float32 arrays, the same bits whatever BLAS does in other threads."""
    return Linear().pairwise(K, A.T, dtype=np.float32)


class Turn(NamedTuple):
    """The function of a round, with the regularization of least error of those that were tried.

    Round 0 is the same for a diagonal metric and a full one.
    """

    place: int
    """Of the regularization on its ladder."""
    error: float
    F: Numbers
    """Predictions held back, less the mean (held, outputs)."""
    coefficients: Numbers
    points: Numbers
    """Mapped events at which gradients are taken."""
    centers: Numbers


Starts: TypeAlias = dict[tuple[str, Kernel, float], Turn]
"""Round 0 of families of the same events, by scale, kernel and first regularization."""


def refine(
    family: Family,
    fold: Fold,
    limits: SearchLimits,
    ridges: Sequence[float],
    first: float,
    starts: Starts | None = None,
) -> list[MetricRound]:
    """Go through the rounds of one family with many events.

    The regularization is searched on the ladder of `ridges`, which ascend, from `first` on and then
    from that of the round before, as long as errors fall; `limits` says whether in both directions.
    Gradients are taken at the first events. Round 0 is added to `starts`, or taken from there.
    """
    metric, starts = family.identity(fold.S.shape[1]), {} if starts is None else starts
    found: list[MetricRound] = []
    place, key = list(ridges).index(first), (family.scale, family.kernel, first)
    if key not in starts:
        starts[key] = turned(family, fold, metric, limits, ridges, place, 0)
    turn = starts[key]
    while True:
        margins = turn.F + fold.middle
        found.append(MetricRound(len(found), metric, ridges[turn.place], turn.error, margins))
        if ended([one.error for one in found], limits.rounds, limits.patience):
            return found
        M = agop(family, metric, turn.points, turn.centers, turn.coefficients, fold.weights)
        metric = normalized(family, M, fold.S, fold.weights)
        turn = turned(family, fold, metric, limits, ridges, turn.place, len(found))


def turned(
    family: Family,
    fold: Fold,
    metric: Metric,
    limits: SearchLimits,
    ridges: Sequence[float],
    place: int,
    number: int,
) -> Turn:
    """Return the function in a metric, of round `number`, from a place on the ladder on."""
    P, Q = metric.mapped(fold.S), metric.mapped(fold.Q)
    equations = limits.solver(family.kernel, P, fold.Y - fold.middle, fold.weights)
    predict = limits.predictor(family.kernel, Q, equations.centers)
    targets = fold.labels - fold.middle

    @cache
    def tried(k: int) -> tuple[float, Numbers, Numbers]:
        A = equations.solve(ridges[k])
        F = predict(A)
        return error_of(ERRORS[limits.error](F - targets), fold.of_held), F, A

    def error(k: int) -> float:
        return tried(k)[0]

    if not number or not limits.single:
        place = descended(error, place, len(ridges))
    else:  # upwards and downwards by turns: one trial less
        place = moved(error, place, len(ridges), 1 if number % 2 else -1)
    count = family.some(limits.n_gradients) if limits.single else limits.n_gradients
    return Turn(place, *tried(place), P[:count], equations.centers)


# Cross-validation


def cross_validated(
    families: Sequence[Family],
    X: Numbers,
    Y: Numbers,
    *,
    rounds: int,
    ridges: Sequence[float],
    error: str,
) -> tuple[Family, MetricRound]:
    """Return the family and the round of least error, the round being made of all events.

    The events X (n, d) with targets Y (n, outputs) are cut into three parts in their order, so that
    few have their neighbors in the stream on the other side. Each part is predicted by functions,
    and in metrics, of the others. Regularizations ascend, and are searched from the middle on, as
    long as errors fall. Errors of families are multiplied by their handicaps.

    Returns
    -------
    (Family, MetricRound)
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
    ...     both, X, X[:, :1], rounds=2, ridges=[0.01, 0.1], error="squared"
    ... )
    >>> family.kernel.bandwidth, found.ridge, bool(found.metric.shares[0] > 0.9)
    (1.5, 0.01, True)
    """
    every = np.arange(len(X))
    parts = np.array_split(every, min(_PARTS, len(X)))
    folds = {
        scale: [Fold.of(X, Y, np.setdiff1d(every, part), part, scale) for part in parts]
        for scale in {family.scale for family in families}
    }
    starts: dict[tuple[str, Kernel], _Tried] = {}
    paths = [
        _path(family, folds[family.scale], Y, starts, rounds, ridges, error) for family in families
    ]
    lowest = [one.handicap * least(path).error for one, path in zip(families, paths, strict=True)]
    best = int(np.argmin(lowest))
    family, kept = families[best], least(paths[best])
    if not np.isfinite(kept.error):
        raise ValueError("no family has finite errors")
    S, targets = Columns.of(X, family.scale).scaled(X), Y - Y.mean(axis=0)
    known = [one.ridge for one in paths[best][: kept.number]]

    def solve(P: Numbers, ridge: float) -> Numbers:
        return SingleRidge(family.kernel, P, targets).solve(ridge)

    return family, kept._replace(metric=followed(family, S, known, solve))


_Tried: TypeAlias = Callable[[int], tuple[float, Numbers, list[Numbers]]]
"""Error, predictions and each part's coefficients by the place of a regularization."""


def _path(
    family: Family,
    folds: Sequence[Fold],
    Y: Numbers,
    starts: dict[tuple[str, Kernel], _Tried],
    rounds: int,
    ridges: Sequence[float],
    error: str,
) -> list[MetricRound]:
    """Return the rounds of one family, each with the metric of its first part."""
    key, place, found = (family.scale, family.kernel), len(ridges) // 2, list[MetricRound]()
    metrics = [family.identity(fold.S.shape[1]) for fold in folds]
    if key not in starts:  # round 0 is the same with a diagonal metric and a full one
        starts[key] = _left_out(family, folds, metrics, Y, ridges, error)
    tried = starts[key]

    def missed(k: int) -> float:
        return tried(k)[0]

    while True:
        place = descended(missed, place, len(ridges))
        _, F, A = tried(place)
        found.append(MetricRound(len(found), metrics[0], ridges[place], missed(place), F))
        if ended([one.error for one in found], rounds, 1):
            return found
        metrics = [
            sharpened(family, metric, fold.S, own)
            for metric, fold, own in zip(metrics, folds, A, strict=True)
        ]
        tried = _left_out(family, folds, metrics, Y, ridges, error)


def _left_out(
    family: Family,
    folds: Sequence[Fold],
    metrics: Sequence[Metric],
    Y: Numbers,
    ridges: Sequence[float],
    error: str,
) -> _Tried:
    """Return what tries a regularization for the functions that predict each part by the others."""
    kernel, solvers, matrices = family.kernel, list[SingleRidge](), list[Numbers]()
    for fold, metric in zip(folds, metrics, strict=True):
        P = metric.mapped(fold.S)
        solvers.append(SingleRidge(kernel, P, fold.Y - fold.middle))
        matrices.append(kernel.pairwise(metric.mapped(fold.Q), P, dtype=np.float32))

    @cache
    def tried(k: int) -> tuple[float, Numbers, list[Numbers]]:
        F, A = np.empty(Y.shape), [solver.solve(ridges[k]) for solver in solvers]
        for fold, K, own in zip(folds, matrices, A, strict=True):
            F[fold.rows] = _times(K, own) + fold.middle
        return error_of(ERRORS[error](F - Y)), F, A

    return tried


# A function for each part of space


class Start(NamedTuple):
    """A beginning of rounds in leaves: a family, its events, a metric and a regularization."""

    family: Family
    fold: Fold
    metric: Metric
    ridge: float


def best_in_leaves(
    starts: Sequence[Start], ridges: Sequence[float], error: str, size: int
) -> Start:
    """Return the start of least error, with a function for each part of space."""
    if len(starts) == 1:
        return starts[0]
    each = [solved_in_leaves(one, ridges, (0,), size, error)[0].error for one in starts]
    errors = [one.family.handicap * own for one, own in zip(starts, each, strict=True)]
    return starts[int(np.argmin(errors))]


def rounds_in_leaves(
    start: Start,
    *,
    ridges: Sequence[float],
    rounds: int,
    error: str,
    size: int,
    n_gradients: int,
) -> list[MetricRound]:
    """Go through rounds from a metric on, with a function for each part of space.

    The metric of a round is the average gradient outer product of all leaves' functions, at so many
    events of each. A leaf is divided from `size` events on: to solve for n events takes
    ``n size^2 / 6`` multiplications at most. The regularization goes up or down the ladder of
    `ridges`, by a step a round, as long as errors fall.
    """
    family, fold, *_ = start
    turn, solved, step = solved_in_leaves(start, ridges, (0, -1, 1), size, error)
    found = [turn]
    while not ended([one.error for one in found], rounds, 1):
        M = np.zeros(turn.metric.root.shape)
        for P, A in solved:
            own = agop(family, turn.metric, P[: family.some(n_gradients)], P, A)
            M += len(P) * (own.diagonal if family.diagonal else own.matrix)
        metric = normalized(family, Metric.of(M / len(fold.S)), fold.S)
        start, steps = Start(family, fold, metric, turn.ridge), (0, step) if step else (0,)
        turn, solved, step = solved_in_leaves(start, ridges, steps, size, error)
        found.append(turn._replace(number=len(found)))
    return found


def solved_in_leaves(
    start: Start, ridges: Sequence[float], steps: Sequence[int], size: int, error: str
) -> tuple[MetricRound, list[tuple[Numbers, Numbers]], int]:
    """Solve for functions in leaves, by regularizations that are so many steps up a ladder.

    Returns the best round, the points and coefficients of each of its leaves, and its step.
    """
    family, fold, metric, ridge = start
    place = list(ridges).index(ridge)
    steps = [step for step in steps if 0 <= place + step < len(ridges)]
    tried = [ridges[place + step] for step in steps]
    P, Q = metric.mapped(fold.S), metric.mapped(fold.Q)
    F, solved = np.zeros((len(tried), *fold.labels.shape)), list[tuple[Numbers, list[Numbers]]]()
    for rows, asked in _leaves(P, Q, size):
        leaf = SingleRidge(family.kernel, P[rows], fold.Y[rows] - fold.middle)
        K = family.kernel.pairwise(Q[asked], P[rows], dtype=np.float32)
        each = [leaf.solve(one) for one in tried]
        F[:, asked] = [_times(K, A) for A in each]
        solved.append((P[rows], each))
    F += fold.middle
    errors = [error_of(ERRORS[error](own - fold.labels)) for own in F]
    best = int(np.argmin(errors))
    turn = MetricRound(0, metric, tried[best], errors[best], F[best])
    return turn, [(points, each[best]) for points, each in solved], steps[best]


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
