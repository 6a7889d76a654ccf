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

from streamk.errors import InvalidInput
from streamk.kernels import Kernel, Laplacian, Linear, Matern, PowerExponential
from streamk.learners.rfm.metric import (
    PRODUCTS,
    Metric,
    check_kernel,
    outer_products,
    rescaled,
)
from streamk.learners.rfm.ridge import SingleRidge
from streamk.learners.rfm.splits import Splits, halves
from streamk.scaling.fixed import SCALES, ColumnScale

Numbers = NDArray[Any]

METRICS = ("auto", "diagonal", "full")
MOST_COLUMNS = 128
"""Up to so many, "auto" compares full metrics with diagonal ones."""
BANDWIDTHS = (1.5, 6.0)
"""Those that are compared: two events are sqrt(2) apart in the root of the mean square. Of products
over the columns there is the first one alone: the metric does the rest."""
RIDGES = tuple(10.0 ** (-3.0 + 0.5 * i) for i in range(10))
"""Regularizations, the variance of the noise for a function of variance 1: .001 to 30. Coefficients
are kept in single precision, and those of less are differences of numbers too large for it."""
LEAF = 1_537
"""Events of a leaf that is divided: to solve for n takes ``n LEAF^2 / 6`` multiplications."""
_GRADIENTS, _IN_A_LEAF = 400, 256
"""Events at which gradients are taken for each of these metrics, at most: of a function, and of one
of a leaf."""
_MANY_OUTPUTS = 5
"""Outputs from which on gradients are those of their sum with random signs: the mean of its outer
products is the same, an event takes a fraction of the time, and there are twice as many events."""
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

    def identity(self, d: int) -> Metric:
        """Return the metric of round 0."""
        return Metric(np.ones(d) if self.diagonal else np.eye(d))


def families(kernel: Kernel | None, metric: str, d: int) -> list[Family]:
    """Return the families that are compared, of d columns, where no kernel or one is given.

    Raises
    ------
    InvalidInput
        If kernel and metric do not fit each other.

    Examples
    --------
    >>> [(one.scale, one.kernel.name) for one in families(None, "diagonal", 4)][:2]
    [('ranks', 'laplacian'), ('ranks', 'power_exponential')]
    """
    made: list[tuple[Kernel, Sequence[str]]]
    if kernel is not None:
        check_kernel(kernel)
        if isinstance(kernel, PRODUCTS) and metric == "full":
            raise InvalidInput(
                f"kernel {kernel.name!r} is a product over the columns and has diagonal metrics; "
                "use metric='diagonal', or another kernel, such as 'matern'"
            )
        made = [(kernel, SCALES)]
    else:
        # A column that goes on rising, as the time does, leaves the range of the events that a
        # function is made of. By ranks the events held back tell so; by deviations a product's
        # metric may rest on it, until the bound of scaled columns is reached much later.
        ranks = SCALES[1:]
        made = [] if metric == "full" else [(one, ranks) for one in _products(d)]
        made += [(Matern(nu=0.5, bandwidth=s), SCALES) for s in BANDWIDTHS]
    kinds = {"auto": (True, False) if d <= MOST_COLUMNS else (True,)}
    kinds |= {"diagonal": (True,), "full": (False,)}
    found = []
    for one, scales in made:
        each = (True,) if isinstance(one, PRODUCTS) or d == 1 else kinds[metric]
        found += [Family(scale, one, diagonal) for diagonal in each for scale in scales]
    return found


def _products(d: int) -> list[Kernel]:
    """Return products over d columns whose sums over these are as a distance, of order 1."""
    s, d = BANDWIDTHS[0], max(1, d)
    root = 4.0 / 15.0 * math.pow(d, 1.5)
    return [Laplacian(bandwidth=s * math.sqrt(d)), PowerExponential(bandwidth=s * root)]


Error: TypeAlias = Callable[[Numbers], Numbers]
"""The errors of differences, by which rounds and families are compared."""


@dataclass(frozen=True)
class Fold:
    """Events to learn from and others held back, on the scale of the former."""

    S: Numbers
    Q: Numbers
    """Scaled events (n, d): of both."""
    targets: Numbers
    """Those to learn, less their mean (n, outputs)."""
    middle: Numbers
    """Their mean."""
    labels: Numbers
    """Targets of those held back."""
    error: Error

    @classmethod
    def of(
        cls, X: Numbers, Y: Numbers, train: Numbers, held: Numbers, scale: str, error: Error
    ) -> Fold:
        """Return some of the events X (n, d), NaN where missing, to learn, and others held back."""
        columns, middle = ColumnScale.of(X[train], scale), Y[train].mean(axis=0)
        S, Q = columns.scaled(X[train]), columns.scaled(X[held])
        return cls(S, Q, Y[train] - middle, middle, Y[held], error)


class MetricRound(NamedTuple):
    """One round: its metric, the regularization of least error, and predictions held back."""

    metric: Metric
    ridge: float
    error: float
    """Mean error of held-back targets, summed over outputs."""
    margins: Numbers
    """Float64 (held, outputs)."""


def least(found: Sequence[MetricRound]) -> MetricRound:
    """Return the round of least error."""
    return min(found, key=lambda one: one.error)


def _mean(E: Numbers) -> float:
    """Return the mean of errors E (n, outputs), summed over outputs, and inf where it is NaN."""
    found = float(E.sum() / len(E))
    return math.inf if math.isnan(found) else found


def _times(K: Numbers, A: Numbers) -> Numbers:
    """Return ``K A`` of float32 arrays, the same bits whatever BLAS does in other threads."""
    return Linear().pairwise(K, A.T, dtype=np.float32)


# From one round to the next


def moved(error: Callable[[int], float], place: int, step: int) -> int:
    """Return where errors stop falling on the ladder, from a place on in steps of 1 or -1."""
    lowest = error(place)
    while 0 <= place + step < len(RIDGES) and error(place + step) < lowest:
        place += step
        lowest = error(place)
    return place


def descended(error: Callable[[int], float], place: int) -> int:
    """Return where errors stop falling on the ladder, from a place on in the direction of less."""
    lower = moved(error, place, -1)
    return moved(error, place, 1) if lower == place else lower


def agop(family: Family, metric: Metric, Z: Numbers, A: Numbers, most: int | None = None) -> Metric:
    """Return the average gradient outer product of a function, at so many of its centers.

    They are points Z (n, d) mapped by its metric, with coefficients A (n, outputs).
    """
    outputs, signs = A.shape[1], None
    if most is not None and isinstance(family.kernel, PRODUCTS):
        most //= 4  # they take long
    if most is not None and outputs >= _MANY_OUTPUTS:
        most = min(2 * most, len(Z))
        signs = np.random.default_rng(0).integers(0, 2, (most, outputs)) * 2.0 - 1.0
    G = outer_products(
        family.kernel, Z[:most], Z, A, diagonal=family.diagonal, dtype=np.float32, signs=signs
    )
    return Metric.of(metric.unmapped(G))


def normalized(family: Family, metric: Metric, S: Numbers) -> Metric:
    """Return the metric's multiple that keeps the mean distance of events S (n, d)."""
    M = metric.diagonal if metric.is_diagonal else metric.matrix
    return Metric.of(rescaled(M, S, power=family.power))


def sharpened(
    family: Family, metric: Metric, S: Numbers, A: Numbers, most: int | None = None
) -> Metric:
    """Return the metric of the next round, of a function whose centers are the events S (n, d).

    Gradients are taken at so many of them, see `agop`.
    """
    return normalized(family, agop(family, metric, metric.mapped(S), A, most), S)


class SolvedRound(NamedTuple):
    """The functions of a round, by the regularization of least error of those that were tried."""

    place: int
    """Of the regularization among `RIDGES`."""
    error: float
    F: Numbers
    """Predictions held back, of all folds (held, outputs)."""
    coefficients: list[Numbers]
    """Of each fold's function."""


FirstRounds: TypeAlias = dict[tuple[str, Kernel], SolvedRound]
"""Round 0 by scale and kernel: it is the same with a diagonal metric and a full one."""


def refine(
    family: Family, folds: Sequence[Fold], rounds: int, first_rounds: FirstRounds | None = None
) -> list[MetricRound]:
    """Go through the rounds of one family, each with the metric of the first fold.

    Regularizations are searched from the middle on, and then from that of the round before, as long
    as errors fall: upwards alone from round 1 on, which takes a trial less, unless there are
    several folds, of few events. Round 0 is added to `first_rounds`, or taken from there.
    """
    key, found = (family.scale, family.kernel), list[MetricRound]()
    first_rounds = {} if first_rounds is None else first_rounds
    metrics = [family.identity(fold.S.shape[1]) for fold in folds]
    if key not in first_rounds:
        first_rounds[key] = solved_round(family, folds, metrics, len(RIDGES) // 2)
    turn = first_rounds[key]
    while True:
        found.append(MetricRound(metrics[0], RIDGES[turn.place], turn.error, turn.F))
        if len(found) > rounds:
            return found
        metrics = [
            sharpened(family, metric, fold.S, A, _GRADIENTS)
            for metric, fold, A in zip(metrics, folds, turn.coefficients, strict=True)
        ]
        turn = solved_round(family, folds, metrics, turn.place, upwards=len(folds) == 1)


def solved_round(
    family: Family,
    folds: Sequence[Fold],
    metrics: Sequence[Metric],
    place: int,
    *,
    upwards: bool = False,
) -> SolvedRound:
    """Return the functions of a family in a metric of each fold, from a place on the ladder on."""
    kernel, each = family.kernel, list[tuple[SingleRidge, Numbers]]()
    for fold, metric in zip(folds, metrics, strict=True):
        P, Q = metric.mapped(fold.S), metric.mapped(fold.Q)
        K = kernel.pairwise(Q, P, dtype=np.float32)
        each.append((SingleRidge(kernel, P, fold.targets), K))
    labels, error = np.concatenate([fold.labels for fold in folds]), folds[0].error

    @cache
    def tried(k: int) -> SolvedRound:
        A = [equations.solve(RIDGES[k]) for equations, _ in each]
        own = zip(folds, each, A, strict=True)
        F = np.concatenate([_times(K, one) + fold.middle for fold, (_, K), one in own])
        return SolvedRound(k, _mean(error(F - labels)), F, A)

    def missed(k: int) -> float:
        return tried(k).error

    return tried(moved(missed, place, 1) if upwards else descended(missed, place))


def cross_validated(
    families: Sequence[Family], X: Numbers, Y: Numbers, rounds: int, error: Error
) -> tuple[Family, MetricRound]:
    """Return the family and the round of least error, the round being made of all events.

    The events X (n, d) with targets Y (n, outputs) are cut into three parts in their order, so that
    few have their neighbors in the stream on the other side. Each part is predicted by functions,
    and in metrics, of the others. Errors of families are multiplied by their handicaps.

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
    >>> family, found = cross_validated(both, X, X[:, :1], 2, np.square)
    >>> family.kernel.bandwidth, bool(found.metric.shares[0] > 0.9)
    (1.5, True)
    """
    every, first_rounds = np.arange(len(X)), FirstRounds()
    parts = np.array_split(every, min(_PARTS, len(X)))
    folds = {
        scale: [Fold.of(X, Y, np.setdiff1d(every, part), part, scale, error) for part in parts]
        for scale in {family.scale for family in families}
    }
    paths = [refine(family, folds[family.scale], rounds, first_rounds) for family in families]
    lowest = [one.handicap * least(path).error for one, path in zip(families, paths, strict=True)]
    best = int(np.argmin(lowest))
    family, path = families[best], paths[best]
    number = int(np.argmin([one.error for one in path]))
    if not np.isfinite(path[number].error):
        raise ValueError("no family has finite errors")
    S, targets = ColumnScale.of(X, family.scale).scaled(X), Y - Y.mean(axis=0)
    metric = family.identity(S.shape[1])
    for one in path[:number]:
        A = SingleRidge(family.kernel, metric.mapped(S), targets).solve(one.ridge)
        metric = sharpened(family, metric, S, A)
    return family, path[number]._replace(metric=metric)


# A function for each part of space


class SearchStart(NamedTuple):
    """A beginning of rounds in leaves: a family, its events, a metric and a regularization."""

    family: Family
    fold: Fold
    metric: Metric
    ridge: float


def best_in_leaves(starts: Sequence[SearchStart]) -> SearchStart:
    """Return the start of least error, with a function for each part of space."""
    if len(starts) == 1:
        return starts[0]
    errors = [one.family.handicap * solved_in_leaves(one, (0,))[0].error for one in starts]
    return starts[int(np.argmin(errors))]


def rounds_in_leaves(start: SearchStart, rounds: int) -> list[MetricRound]:
    """Go through rounds from a metric on, with a function for each part of space.

    The metric of a round is the average gradient outer product of all leaves' functions, at some
    events of each. The regularization goes up or down the ladder, by a step a round, and there are
    no more rounds after one without less error.
    """
    family, fold, *_ = start
    turn, solved, step = solved_in_leaves(start, (0, -1, 1))
    found = [turn]
    while len(found) <= rounds and least(found) is turn:
        M = np.zeros(turn.metric.root.shape)
        for P, A in solved:
            own = agop(family, turn.metric, P, A, _IN_A_LEAF)
            M += len(P) * (own.diagonal if family.diagonal else own.matrix)
        metric = normalized(family, Metric.of(M / len(fold.S)), fold.S)
        start, steps = SearchStart(family, fold, metric, turn.ridge), (0, step) if step else (0,)
        turn, solved, step = solved_in_leaves(start, steps)
        found.append(turn)
    return found


def solved_in_leaves(
    start: SearchStart, steps: Sequence[int]
) -> tuple[MetricRound, list[tuple[Numbers, Numbers]], int]:
    """Solve for functions in leaves, by regularizations that are so many steps up the ladder.

    Returns the best round, the points and coefficients of each of its leaves, and its step.
    """
    family, fold, metric, ridge = start
    place = RIDGES.index(ridge)
    steps = [step for step in steps if 0 <= place + step < len(RIDGES)]
    tried = [RIDGES[place + step] for step in steps]
    P, Q = metric.mapped(fold.S), metric.mapped(fold.Q)
    F, solved = np.zeros((len(tried), *fold.labels.shape)), list[tuple[Numbers, list[Numbers]]]()
    for rows, asked in _leaves(P, Q):
        leaf = SingleRidge(family.kernel, P[rows], fold.targets[rows])
        K = family.kernel.pairwise(Q[asked], P[rows], dtype=np.float32)
        each = [leaf.solve(one) for one in tried]
        F[:, asked] = [_times(K, A) for A in each]
        solved.append((P[rows], each))
    F += fold.middle
    errors = [_mean(fold.error(own - fold.labels)) for own in F]
    best = int(np.argmin(errors))
    turn = MetricRound(metric, tried[best], errors[best], F[best])
    return turn, [(points, each[best]) for points, each in solved], steps[best]


def _leaves(P: Numbers, Q: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the rows of each leaf among points P (n, d), and those of points Q (m, d)."""
    points, asked = P.astype(np.float32), Q.astype(np.float32)
    splits, parts = Splits.none(P.shape[1]), {0: np.arange(len(P))}
    left = [0]
    while left:
        leaf = left.pop()
        rows = parts[leaf]
        cut = halves(points[rows]) if len(rows) >= LEAF else None
        if cut is not None:
            direction, threshold, right = cut
            new = splits.divide(leaf, direction, threshold)
            parts[leaf], parts[new] = rows[~right], rows[right]
            left += [leaf, new]
        else:
            parts[leaf] = rows[:LEAF]  # of many that are equal a few will do
    leaves = splits.leaves_of(asked)
    for leaf in sorted(parts):
        yield parts[leaf], np.flatnonzero(leaves == leaf)
