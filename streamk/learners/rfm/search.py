"""The ends of rounds, and of steps on a ladder of regularizations, where errors stop falling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.kernels import Kernel, Laplacian, PowerExponential
from streamk.learners.rfm.gradients import outer_products
from streamk.learners.rfm.metric import (
    Columns,
    Metric,
    Weights,
    mean,
    mean_error,
    of_rows,
    rescaled,
    sum_of,
)
from streamk.learners.rfm.ridge import (
    DirectSingle,
    Solver,
    by_eigenvalues,
    predicted,
    solver,
)


def ended(errors: Sequence[float], rounds: int, patience: int) -> bool:
    """Return whether there are no more rounds after those of some errors.

    Parameters
    ----------
    errors : sequence of float
        Of round 0 and those after it.
    rounds : int
        After round 0, at most.
    patience : int
        Rounds without a smaller error after which there are no more.

    Examples
    --------
    >>> ended([3.0, 2.0], 4, 1), ended([3.0, 2.0, 2.0], 4, 1), ended([3.0, 2.0], 1, 1)
    (False, True, True)
    """
    best = int(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).argmin())
    return len(errors) > rounds or len(errors) - 1 - best >= patience


def descended(error: Callable[[int], float], place: int, count: int) -> int:
    """Return where errors stop falling on a ladder, from a place on.

    Parameters
    ----------
    error : callable
        Takes a place, 0 to count - 1.
    place, count : int

    Examples
    --------
    >>> descended(lambda k: (k - 3) ** 2, 1, 10), descended(lambda k: -k, 2, 4)
    (3, 3)
    """
    lower = moved(error, place, count, -1)
    return moved(error, place, count, 1) if lower == place else lower


def moved(error: Callable[[int], float], place: int, count: int, step: int) -> int:
    """Return where errors stop falling on a ladder in one direction, from a place on.

    Parameters
    ----------
    error : callable
        Takes a place, 0 to count - 1.
    place, count : int
    step : {-1, 1}

    Examples
    --------
    >>> moved(lambda k: (k - 3) ** 2, 1, 10, 1), moved(lambda k: (k - 3) ** 2, 1, 10, -1)
    (3, 1)
    """
    least = error(place)
    while 0 <= place + step < count and error(place + step) < least:
        place += step
        least = error(place)
    return place


Numbers = NDArray[Any]
Indices = NDArray[np.intp]

RIDGES = tuple(10.0 ** (-4.0 + 0.5 * i) for i in range(12))
"""Regularizations, the variance of the noise for a function of variance 1: .0001 to 30."""
ERRORS: dict[str, Callable[[Numbers], Numbers]] = {"absolute": np.abs, "squared": np.square}
"""Errors of events held back, as rounds and families are compared."""
_PATIENCE = 2
"""Rounds without a smaller error after which there are no more, if nothing else is said."""
_GRADIENTS = 10_000
"""Events at which gradients are taken, if nothing else is said."""


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


@dataclass(frozen=True)
class Split:
    """Events to learn from, those held back, and the weights of all."""

    train: Indices
    held: Indices
    weights: Weights = None

    def of_train(self) -> Weights:
        """Return the weights of the events to learn from."""
        return of_rows(self.weights, self.train)

    def of_held(self) -> Weights:
        """Return the weights of those held back."""
        return of_rows(self.weights, self.held)


@dataclass(frozen=True)
class Round:
    """One round: its metric, the regularization of least error, and predictions held back.

    Attributes
    ----------
    number : int
        0 is of the identity.
    metric : Metric
    ridge : float
    error : float
        Mean error of held-back targets, summed over outputs.
    margins : float64 array of shape (held, outputs)
    """

    number: int
    metric: Metric
    ridge: float
    error: float
    margins: Numbers


def next_metric(
    family: Family, metric: Metric, P: Numbers, Z: Numbers, A: Numbers, weights: Weights = None
) -> Metric:
    """Return the metric of the next round.

    Parameters
    ----------
    family : Family
    metric : Metric
        Of the function.
    P, Z : float64 arrays of shapes (n, d) and (p, d)
        Mapped events at which gradients are taken, and centers.
    A : float64 array of shape (p, outputs)
        Coefficients.
    weights : float64 array of shape (n,), optional
        Of the events.
    """
    G = outer_products(
        family.kernel,
        P,
        Z,
        A,
        diagonal=family.diagonal,
        dtype=np.float32,
        weights=of_rows(weights, slice(len(P))),
    )
    return Metric.of(metric.unmapped(G))


def normalized(family: Family, metric: Metric, X: Numbers, weights: Weights = None) -> Metric:
    """Return the metric's multiple that keeps the mean distance of events X (n, d)."""
    M = metric.diagonal if metric.is_diagonal else metric.matrix
    return Metric.of(rescaled(M, X, power=family.power, weights=weights))


def error_of(E: Numbers, weights: Weights = None) -> float:
    """Return the mean of errors E (n, outputs), as `mean_error`, and inf where it is NaN."""
    found = mean_error(E, weights)
    return math.inf if math.isnan(found) else found


def identity(family: Family, d: int) -> Metric:
    """Return the metric of round 0."""
    return Metric(np.ones(d) if family.diagonal else np.eye(d))


def followed(
    family: Family,
    S: Numbers,
    Y: Numbers,
    ridges: Sequence[float],
    solver: Callable[[Kernel, Numbers, Numbers, Weights], Solver],
    weights: Weights = None,
) -> Metric:
    """Return the metric after rounds with known regularizations, that of round 0 if with none.

    Parameters
    ----------
    family : Family
    S : float64 array of shape (n, d)
        Scaled events, all of which are centers.
    Y : float64 array of shape (n, outputs)
        Their targets, of mean 0.
    ridges : sequence of float
    solver : callable
        Makes that of a round, as `Limits.solver` does.
    weights : float64 array of shape (n,), optional
        Of the events.
    """
    metric = identity(family, S.shape[1])
    for ridge in ridges:
        P = metric.mapped(S)
        A = solver(family.kernel, P, Y, weights).solve(ridge)
        metric = normalized(family, next_metric(family, metric, P, P, A, weights), S, weights)
    return metric


@dataclass(frozen=True)
class Explored:
    """The best round of a family by cross-validation.

    Attributes
    ----------
    family : Family
    ridges : tuple of float
        Of round 0 to the best one.
    error : float
        Of that.
    margins : float64 array of shape (n, outputs)
        Predictions of it where events were held back, else NaN.
    """

    family: Family
    ridges: tuple[float, ...]
    error: float
    margins: Numbers


def explore(
    family: Family,
    X: Numbers,
    Y: Numbers,
    splits: Sequence[Split],
    *,
    rounds: int,
    ridges: Sequence[float],
    error: str,
) -> Explored:
    """Find the best round of a family for few events, all regularizations at once.

    Parameters
    ----------
    family : Family
    X : float64 array of shape (n, d)
        Events, NaN where missing.
    Y : float64 array of shape (n, outputs)
        Targets.
    splits : sequence of Split
        Errors are summed over them; each has metrics of its own.
    rounds : int
        After round 0.
    ridges : sequence of float
    error : str
        One of `ERRORS`.
    """
    paths = [_Path(family, X, Y, split) for split in splits]
    count = sum(sum_of(split.of_held(), len(split.held)) for split in splits)
    best, least, margins = 0, np.inf, np.full(Y.shape, np.nan)
    chosen: list[float] = []
    errors: list[float] = []
    for turn in range(rounds + 1):
        found = [path.errors(ridges, ERRORS[error]) for path in paths]
        total = np.sum(found, axis=0) / count
        k = int(total.argmin())
        chosen.append(ridges[k])
        if total[k] < least:
            best, least = turn, float(total[k])
            for path, split in zip(paths, splits, strict=True):
                margins[split.held] = path.margins[k]
        errors.append(float(total[k]))
        if ended(errors, rounds, _PATIENCE):
            break
        for path, own in zip(paths, found, strict=True):
            path.sharpen(int(own.argmin()))
    return Explored(family, tuple(chosen[: best + 1]), least, margins)


class _Path:
    """Rounds of a family on one split, all regularizations at once."""

    def __init__(self, family: Family, X: Numbers, Y: Numbers, split: Split) -> None:
        self._family = family
        self._weights, self._of_held = split.of_train(), split.of_held()
        columns = Columns.of(X[split.train], family.scale, self._weights)
        self._S, self._held = columns.scaled(X[split.train]), columns.scaled(X[split.held])
        self._mean = mean(Y[split.train], self._weights)
        self._Y, self._labels = Y[split.train] - self._mean, Y[split.held]
        self._metric = identity(family, X.shape[1])

    def errors(self, ridges: Sequence[float], of: Callable[[Numbers], Numbers]) -> Numbers:
        """Return the sum of errors of held-back events by each regularization."""
        P, Q = self._metric.mapped(self._S), self._metric.mapped(self._held)
        A = by_eigenvalues(self._family.kernel, P, self._Y, ridges, self._weights)
        many, p, c = A.shape
        F = predicted(self._family.kernel, Q, P, A.transpose(1, 0, 2).reshape(p, -1))
        self.margins = F.reshape(len(Q), many, c).transpose(1, 0, 2) + self._mean
        self._coefficients = A
        errors = of(self.margins - self._labels).sum(axis=2)
        return np.asarray(errors.sum(axis=1) if self._of_held is None else errors @ self._of_held)

    def sharpen(self, k: int) -> None:
        """Take the metric of the function with one of these regularizations."""
        P = self._metric.mapped(self._S)
        A, weights = self._coefficients[k], self._weights
        found = next_metric(self._family, self._metric, P, P, A, weights)
        self._metric = normalized(self._family, found, self._S, weights)


@dataclass(frozen=True)
class Limits:
    """Bounds of what is solved for.

    Attributes
    ----------
    rounds : int
        At most, after round 0.
    n_centers : int
        Beyond so many events, centers are chosen.
    selection : str
    seed : int
    error : str
        One of `ERRORS`.
    patience : int
        Rounds without a smaller error after which there are no more.
    single : bool
        Whether all events are centers, and all is computed in single precision. Rounds after the
        first then try other regularizations in one direction alone, upwards and downwards by turns.
    ladder : bool
        Whether each of these rounds searches its regularization. If not, round 0 does it for all.
    n_gradients : int
        Events at which gradients are taken.
    """

    rounds: int
    n_centers: int
    selection: str
    seed: int
    error: str
    patience: int = _PATIENCE
    single: bool = False
    ladder: bool = True
    n_gradients: int = _GRADIENTS

    def solver(self, kernel: Kernel, P: Numbers, Y: Numbers, weights: Weights = None) -> Solver:
        """Return the solver for mapped events P (n, d) and targets Y (n, outputs)."""
        if self.single:
            return DirectSingle(kernel, P, Y)
        return solver(
            kernel,
            P,
            Y,
            n_centers=self.n_centers,
            selection=self.selection,
            seed=self.seed,
            weights=weights,
        )

    def predictor(self, kernel: Kernel, Q: Numbers, Z: Numbers) -> Callable[[Numbers], Numbers]:
        """Return what gives ``k(Q, Z) A`` of coefficients A, of mapped points and centers."""
        if self.single:
            K = kernel.pairwise(Q, Z, dtype=np.float32)
            return lambda A: K @ A
        return lambda A: predicted(kernel, Q, Z, A)


def refine(
    family: Family,
    S: Numbers,
    Y: Numbers,
    held: Numbers,
    labels: Numbers,
    limits: Limits,
    ridges: Sequence[float],
    first: float,
    weights: tuple[Weights, Weights] = (None, None),
    starts: Starts | None = None,
) -> list[Round]:
    """Go through the rounds of one family with many events.

    The regularization is searched on the ladder of `ridges`, from that of the round before, as long
    as errors fall; `limits` says in which rounds, and whether in both directions.

    Parameters
    ----------
    family : Family
    S : float64 array of shape (n, d)
        Scaled events to learn from. Gradients are taken at the first ones.
    Y : float64 array of shape (n, outputs)
        Their targets.
    held : float64 array of shape (m, d)
        Scaled events held back.
    labels : float64 array of shape (m, outputs)
        Their targets.
    limits : Limits
    ridges : sequence of float
        Ascending.
    first : float
        One of them.
    weights : tuple of two float64 arrays, optional
        Of the events to learn from, and of those held back.
    starts : dict, optional
        Round 0 of other families of these events, by scale, kernel and `first`; that of this one is
        added.

    Returns
    -------
    list of Round
        Those that were made, up to `limits.rounds` after round 0.
    """
    data, metric = _HeldBack(S, Y, held, labels, *weights), identity(family, S.shape[1])
    found: list[Round] = []
    place, key = list(ridges).index(first), (family.scale, family.kernel, first)
    starts = {} if starts is None else starts
    if key not in starts:
        starts[key] = data.turn(family, metric, limits, ridges, place, 0)
    turn = starts[key]
    while True:
        margins = turn.F + data.middle
        found.append(Round(len(found), metric, ridges[turn.place], turn.error, margins))
        if ended([one.error for one in found], limits.rounds, limits.patience):
            return found
        A = turn.coefficients
        sharper = next_metric(family, metric, turn.points, turn.centers, A, data.weights)
        metric = normalized(family, sharper, S, data.weights)
        turn = data.turn(family, metric, limits, ridges, turn.place, len(found))


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


@dataclass(frozen=True)
class _HeldBack:
    """Scaled events to learn from and others held back, with the targets and weights of both."""

    S: Numbers
    Y: Numbers
    held: Numbers
    labels: Numbers
    weights: Weights
    of_held: Weights

    @property
    def middle(self) -> Numbers:
        """The mean of the targets to learn from."""
        return mean(self.Y, self.weights)

    def turn(
        self,
        family: Family,
        metric: Metric,
        limits: Limits,
        ridges: Sequence[float],
        place: int,
        number: int,
    ) -> Turn:
        """Return the function in a metric, of round `number`, from a place on the ladder on."""
        trials = self.trials(family, metric, limits, ridges)
        if not number or not limits.single:
            place = descended(trials.error, place, len(ridges))
        elif limits.ladder:  # upwards and downwards by turns: one trial less
            place = moved(trials.error, place, len(ridges), 1 if number % 2 else -1)
        points = trials.points[: limits.n_gradients]
        return Turn(place, *trials.of(place), points, trials.centers)

    def trials(
        self, family: Family, metric: Metric, limits: Limits, ridges: Sequence[float]
    ) -> _Trials:
        """Return what tries regularizations in a metric."""
        middle = self.middle
        P, Q = metric.mapped(self.S), metric.mapped(self.held)
        equations = limits.solver(family.kernel, P, self.Y - middle, self.weights)
        predict = limits.predictor(family.kernel, Q, equations.centers)
        targets = self.labels - middle
        return _Trials(P, predict, equations, ridges, targets, limits.error, self.of_held)


class _Trials:
    """Regularizations of a ladder that were tried.

    Attributes
    ----------
    points : float64 array of shape (n, d)
        The events to learn from, mapped.
    """

    def __init__(
        self,
        points: Numbers,
        predict: Callable[[Numbers], Numbers],
        equations: Solver,
        ridges: Sequence[float],
        targets: Numbers,
        error: str,
        weights: Weights,
    ) -> None:
        self.points = points
        self._predict, self._equations, self._ridges = predict, equations, ridges
        self._targets, self._weights = targets, weights
        self._error_of = ERRORS[error]
        self._known: dict[int, tuple[float, Numbers, Numbers]] = {}

    @property
    def centers(self) -> Numbers:
        """The centers of all their functions, mapped points (p, d)."""
        return self._equations.centers

    def of(self, place: int) -> tuple[float, Numbers, Numbers]:
        """Return the error of one, its predictions (held, outputs) and coefficients."""
        if place not in self._known:
            A = self._equations.solve(self._ridges[place])
            F = self._predict(A)
            error = error_of(self._error_of(F - self._targets), self._weights)
            self._known[place] = (error, F, A)
        return self._known[place]

    def error(self, place: int) -> float:
        """Return the mean error of held-back events."""
        return self.of(place)[0]
