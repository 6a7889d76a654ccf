"""Recursive feature machines in batch (Radhakrishnan et al. 2024; xRFM, Beaglehole et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import kernels
from streamk.declared import Declared, Domain, count, flag, taken, within
from streamk.errors import InvalidInput, StateError
from streamk.factorization.checks import check_choice, check_positive
from streamk.kernels import Kernel, Laplacian, Matern, PowerExponential
from streamk.landmarks.selection import check_count
from streamk.learners.rfm.metric import (
    PRODUCTS,
    SCALES,
    Columns,
    Metric,
    Weights,
    check_kernel,
    checked,
    mean,
    of_rows,
    unit,
)
from streamk.learners.rfm.ridge import ExactRidge, predicted
from streamk.learners.rfm.search import (
    ERRORS,
    RIDGES,
    SELECTIONS,
    Explored,
    Family,
    Fold,
    MetricRound,
    SearchLimits,
    explore,
    followed,
    least,
    refine,
)
from streamk.options import Choice, Option, Real, Whole, documented

WINDOW = 256
"""Events whose mean error counts once."""
_FEWEST = 4
"""Windows from which on a deviation is known."""
_SLACK, _MOST, _ALARM = 0.5, 2.0, 4.0
"""Deviations by which a window may be above the mean, those that count at most, so that no single
window is an alarm, and the sum of those beyond the slack that is one."""
_TOTAL, _COUNT, _MEAN, _SQUARES, _RISE, _RUN = range(6)
"""Sum of errors at the end of the last window, windows, mean and sum of squares of their errors,
the cumulative sum, and windows since that was 0."""
_STORED = (Declared("watch", "float64", (6,), Domain(-1e300, 1e300)),)


class ErrorWatch:
    """Tells when the errors of a function rise, by a cumulative sum (Page 1954).

    It adds up by how many standard deviations the mean error of 256 events is above that of all
    windows before, 2 at most, less a half; a sum below 0 begins again at 0. A sum above 4 is an
    alarm, from the fifth window on.

    Examples
    --------
    >>> watch = ErrorWatch()
    >>> errors = np.array([0.10, 0.12, 0.08, 0.10, 0.11, 0.30, 0.40, 0.35])
    >>> [watch.add(float(total)) for total in 256.0 * errors.cumsum()]
    [False, False, False, False, False, False, False, True]
    >>> watch.rising
    1024
    """

    def __init__(self) -> None:
        self._known = np.zeros(6)

    def restart(self) -> None:
        """Forget all windows."""
        self._known[_COUNT:] = 0.0

    def go_on_from(self, total: float) -> None:
        """Take a sum of errors for that at the end of the last window."""
        self._known[_TOTAL] = total

    @property
    def rising(self) -> int:
        """Events since the cumulative sum was 0: those since errors began to rise."""
        return WINDOW * int(self._known[_RUN])

    def add(self, total: float, events: int = WINDOW) -> bool:
        """Take in the sum of errors at the end of a window; return whether there is an alarm.

        It is that of all errors since the sum that `go_on_from` took, or since the first event.
        """
        known = self._known
        error = (total - known[_TOTAL]) / events
        known[_TOTAL] = total
        if known[_COUNT] >= _FEWEST:
            deviation = math.sqrt(known[_SQUARES] / (known[_COUNT] - 1.0))
            above = error - known[_MEAN]
            by = above / deviation if deviation else 0.0  # of errors that were all equal
            known[_RISE] += (_MOST if above > _MOST * deviation else by) - _SLACK
        known[_RISE] = max(0.0, known[_RISE])
        known[_RUN] = known[_RUN] + 1.0 if known[_RISE] > 0.0 else 0.0
        known[_COUNT] += 1.0
        step = error - known[_MEAN]
        known[_MEAN] += step / known[_COUNT]
        known[_SQUARES] += step * (error - known[_MEAN])
        return bool(known[_RISE] > _ALARM)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything needed to go on exactly from here, by name."""
        return {"watch": self._known.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], owner: str) -> None:
        """Take back what `arrays` gave; raise StateError if it does not fit."""
        found = taken(_STORED, arrays, {}, owner)[0]["watch"]
        counts = found[[_COUNT, _RUN]]
        within(counts, Domain(0.0, 2.0**53, whole=True), "watch", owner)
        within(found[[_TOTAL, _SQUARES, _RISE]], Domain(least=0.0), "watch", owner)
        self._known[:] = found


_COUNTS = ("began", "start", "origin", "changed", "looked")
"""Numbers of `Beginnings` that are part of a state."""
_FACTORS = ((512, 2), (4_096, 3), (2**62, 2))
"""Below so many events, the ratio of those of two beginnings, while there is room for the later."""
_MOST_COMPARED, _LEAST_COMPARED = 4, 8
"""Parts of the events that a new function is made of by which it is compared with the one in use:
a fourth at most, and an eighth at least."""
_ANEW = 1_536
"""Events since errors began to rise, of which a function is begun anew."""
_SETTLED = 9_216
"""Events from which on the family of functions is that of the one in use."""


class Beginnings:
    """Decides when new functions are begun, with the options of `streamk.learners.FeatureMachine`.

    There is room for so many events.
    """

    def __init__(self, first: int, every: int, swap_delay: int, room: int) -> None:
        self._first, self._every, self._swap_delay, self._room = first, every, swap_delay, room
        self.watch = ErrorWatch()
        """The watch of errors, whose arrays are part of a state."""
        self.began = 0
        """Events after which the last one was begun, 0 before the first."""
        self.start = first
        """Those of the first."""
        self.origin = 0
        """Events before it do not count, since a function was begun anew with those after it."""
        self.changed = 0
        """Event from which on errors rise, where a function is to be begun anew, or 0."""
        self.looked = 0
        """Event up to which the watch has errors."""
        self.is_anew = False
        """The last one was begun anew, not at its number of events."""

    @property
    def due(self) -> int:
        """Events after which one is begun, if errors do not rise."""
        if not self.began:
            return self.start
        last = self.began - self.origin
        soon = last * next(factor for most, factor in _FACTORS if last < most)
        later = last + max(self._every, last // 2)
        return self.origin + (min(soon, later) if soon < self._room else later)

    def is_due(self, n_events: int) -> bool:
        """Return whether one is to be begun after so many events: when it is due, or later."""
        due = self.changed + _ANEW if self.changed else self.due
        return n_events == due or (n_events > due and n_events % WINDOW == 0)

    def begin(self, n_events: int, *, anew: bool) -> None:
        """Note that one is begun, and that the errors of the one in use are summed up from 0 on."""
        self.began, self.looked, self.is_anew = n_events, n_events, anew
        self.watch.go_on_from(0.0)

    @property
    def is_late(self) -> bool:
        """True if the last one is the first, of events that were learned again."""
        return self._first < self.began == self.start

    @property
    def is_settled(self) -> bool:
        """True if the last one is of the family of the function in use."""
        return not self.is_anew and self.began - self.origin >= _SETTLED

    def delay(self, events: int) -> int:
        """Return how many events after it was begun a function of so many takes over."""
        if self.is_late:
            return 1
        least, most = events // _LEAST_COMPARED, events // _MOST_COMPARED
        return max(1, least, min(self._swap_delay, most))

    # Errors

    @staticmethod
    def window_end(n_events: int) -> int:
        """Return the event after which errors are looked at next."""
        return n_events + WINDOW - n_events % WINDOW

    def look(self, n_events: int, errors: float, *, is_known: bool) -> None:
        """Take in the sum of errors of the function in use; note where they rise.

        It is that since the last beginning. Known is a function that a beginning has made.
        """
        events = n_events - self.looked
        if n_events % WINDOW or events < WINDOW:  # of fewer the next ones are part of the window
            return
        self.looked = n_events
        if self.watch.add(errors, events) and is_known and not self.changed:
            self.changed = max(self.origin, n_events - self.watch.rising)

    def end(self, n_events: int, errors: float) -> None:
        """Note that the last one was compared, and the sum of errors of that which goes on."""
        self.looked = n_events
        if self.is_anew or not self.watch.rising:  # else a rise would be forgotten
            self.watch.restart()
        self.watch.go_on_from(errors)

    # State

    def header(self) -> dict[str, Any]:
        """Return the numbers to go on from, for JSON, by the names that they have in a state."""
        return {**{name: getattr(self, name) for name in _COUNTS}, "is_anew": self.is_anew}

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Any], n_events: int, owner: str
    ) -> None:
        """Take back what a state had; raise StateError if it does not fit so many events."""
        for name in _COUNTS:
            setattr(self, name, count(header, name, owner))
        self.is_anew = flag(header, "is_anew", owner)
        self.watch.restore(arrays, owner)
        for name in ("began", "origin", "changed", "looked"):
            if header[name] > n_events:
                raise StateError(f"{name!r} of {owner} is above its 'n_events'; it is damaged")
        if self.origin > self.began:
            raise StateError(f"'origin' of {owner} is above its 'began'; it is damaged")
        latest = max(self._first, n_events + 1)  # after events were learned again
        if not self._first <= self.start <= latest:
            raise StateError(
                f"'start' of {owner} is {self.start}, not between {self._first} and {latest}; it "
                "is damaged"
            )


FEW_EVENTS, MOST_COMPARED = 512, 8_192
"""Events by which families are compared, and metrics, at most."""
_OPENING = 64_000_000_000
"""Multiplications that there are for the beginning of a stream, some seconds of one core."""
_POOL, _OF_A_CELL = 400_000, 2_000
"""Those that a pool of experts takes for an event: in any case, and for each output and column."""
_EVENT, _VALUE, _BLOCK = 300_000, 12, 300_000
"""Those that an event takes in any case, and a kernel's value beside its columns; and those by
which it is solved for in a block."""
_TRIALS, _IN_LEAVES, _GRADIENTS, _LEAF = 5, 2_500_000, 1_000, 2_304
"""Solutions of each family that are tried by few events; those operations of a search for each
event that is compared by, in leaves, and the kernel values beside which gradients are taken; and
events of a leaf that is solved for, about."""


class Budget:
    """Operations for a machine: an opening, and `effort` times what a pool of experts takes.

    Operations are counted, not timed: what is learned depends on the events alone. They are
    multiplications in single precision, of which a core does some thirty in a nanosecond. Without
    an effort (None) there is no bound.

    Examples
    --------
    >>> budget = Budget(1.0)
    >>> budget.pays(10**10), Budget(None).pays(10**15)
    (True, True)
    >>> budget.spend(10**11)
    >>> budget.pays(0)
    False
    """

    def __init__(self, effort: float | None) -> None:
        self._effort, self.spent = effort, 0
        """Operations beyond those that the effort has paid for."""

    def pays(self, cost: int) -> bool:
        """Return whether so many operations can be spent."""
        return self._effort is None or self.spent + cost <= _OPENING

    def spend(self, cost: int) -> None:
        """Take so many operations off."""
        self.spent += cost

    def learn(self, events: int, columns: int, outputs: int, *, centers: int, grows: bool) -> None:
        """Take in what a pool spends on events, and off what the machine does.

        It has so many centers for each, 0 if it rests, and solves for them if it grows.
        """
        earned = int((self._effort or 0.0) * (_POOL + _OF_A_CELL * outputs * (columns + 32)))
        cost = (_EVENT + centers * (columns + _VALUE)) * (centers > 0) + _BLOCK * grows
        self.spent = max(0, self.spent + events * (cost - earned))


def search_cost(events: int, compared: int, columns: int, outputs: int, families: int) -> int:
    """Return how many operations a new function of so many events takes, with its search.

    So many of them are compared by; if those are few, more are not solved for.
    """
    tried = _TRIALS * families * min(events, FEW_EVENTS) ** 3 // 6
    leaves = compared * (_IN_LEAVES + _GRADIENTS * (columns + _VALUE) * outputs)
    solved = events if compared == MOST_COMPARED else compared
    return tried + leaves + solved * min(solved, _LEAF) ** 2 // 6


Numbers = NDArray[Any]

METRICS = ("auto", "diagonal", "full")
BANDWIDTHS = (1.5, 6.0)
"""Those that are compared: two events are sqrt(2) apart in the root of the mean square."""
_PRODUCTS = (Laplacian.name, PowerExponential.name)
_OF_PRODUCTS = 1.5
"""That of the products among the kernels that are compared: the metric does the rest."""
MOST_COLUMNS = 128
"""Up to so many, "auto" compares full metrics with diagonal ones."""
_FEW = 1_000
"""Up to so many events all rounds are found by cross-validation; of more, so many are a sample in
which families are compared."""
_FOLDS = 3
_HELD = 0.2
_MOST_HELD = 4_000
_EXPLORED = 2
"""Rounds after round 0 in the sample."""
_FINALISTS, _MORE = 3, 3_000
"""Families that are compared once more, with all their rounds, on so many events."""


@dataclass(frozen=True)
class RFM:
    """A recursive feature machine: kernel ridge regression in a metric that was learned.

    Made by `rfm`.

    Attributes
    ----------
    family : Family
        Scale of the columns, kernel, and whether the metric is diagonal.
    columns : Columns
    metric : Metric
        Of scaled columns.
    centers : float64 array of shape (p, d)
        Events that carry the function, mapped by the metric.
    coefficients : float64 array of shape (p, outputs)
    constant : float64 array of shape (outputs,)
    ridge : float
    errors : tuple of float
        Mean errors of held-back events, summed over outputs: of each round, or of the one that was
        kept where cross-validation found it.
    round : int
        The round that was kept; 0 has the identity for a metric.
    held : array of shape (m,)
        Events that were held back when rounds were compared.
    margins : float64 array of shape (m, outputs)
        What they were predicted then.
    """

    family: Family
    columns: Columns
    metric: Metric
    centers: Numbers
    coefficients: Numbers
    constant: Numbers
    ridge: float
    errors: tuple[float, ...]
    round: int
    held: Numbers
    margins: Numbers

    def predict(self, X: ArrayLike) -> Numbers:
        """Return the outputs for events X (n, d), NaN where missing: float64 (n, outputs)."""
        P = self.metric.mapped(self.columns.scaled(np.asarray(X, np.float64)))
        found = predicted(self.family.kernel, P, self.centers, self.coefficients)
        return np.asarray(found + self.constant)


OPTIONS = {
    "kernel": Option(
        type="str or Kernel",
        doc='"gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", '
        '"cauchy", one of `streamk.kernels` of these, or "auto": the best one of "laplacian", '
        '"power_exponential" and ``Matern(nu=0.5)``, the Laplace kernel of the L2 distance.',
    ),
    "bandwidth": Real(
        doc="Of a kernel given by name, in units of the scaled columns, of which two events are "
        'sqrt(2) apart in the root of the mean square; sqrt(d) times as much for "laplacian", and '
        '4 d^1.5 / 15 times for "power_exponential". 1.5 and 6 are compared by default, and "auto" '
        "takes 1.5 for these two.",
    ),
    "regularization": Real(
        doc="The variance of the targets' noise for a function of variance 1; .0001 to 30 by "
        "default.",
    ),
    "metric": Choice(
        choices=METRICS,
        doc='"laplacian", "power_exponential" and "cauchy" have diagonal ones only. "auto" '
        "compares both up to 128 columns; of more it is diagonal.",
    ),
    "rounds": Whole(
        doc="At most so many after the first, which is plain kernel ridge regression; two without "
        "a smaller error are the last ones.",
    ),
    "n_centers": Whole(
        doc="Up to so many events, each is a center; of more, these are chosen, and all events "
        "learned.",
    ),
    "selection": Choice(choices=SELECTIONS, doc="How centers are chosen."),
}
"""Options that the estimators have, too."""
_GIVEN = {
    "X": Option(
        type="array of shape (n, d)",
        doc="Events, at least 2; NaN is missing and counts as the column's median.",
    ),
    "Y": Option(type="array of shape (n, outputs)", doc="Their targets."),
    "error": Choice(
        choices=tuple(ERRORS),
        doc="By which all is compared on held-back events; few large numbers decide on squared "
        "ones.",
    ),
    "seed": Whole(),
    "weights": Option(
        type="array of shape (n,)",
        doc="How often each event counts, positive: in means and scales, the sum of squares that "
        "is solved for, the AGOP, and errors. Leave out events that are not to count.",
    ),
}


@documented(OPTIONS | _GIVEN)
def rfm(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    kernel: str | Kernel = "auto",
    bandwidth: float | None = None,
    regularization: float | None = None,
    metric: str = "auto",
    rounds: int = 8,
    n_centers: int = 10_000,
    selection: str = "random",
    error: str = "absolute",
    seed: int = 0,
    weights: ArrayLike | None = None,
) -> RFM:
    """Learn a metric of the columns, and kernel ridge regression in it.

    The algorithm of Radhakrishnan et al. 2024: ridge regression, then the average gradient outer
    product (AGOP) of its function as the metric of the next one, from the identity on. Beyond it:
    each metric is divided by the mean distance that it gives, so that the bandwidth keeps its
    meaning; a fifth of the events, 4,000 at most, is held back, and of all rounds that of the least
    error there is solved for again with all events. Scale of the columns, kernel, bandwidth and
    kind of metric are compared on 1,000 events, for all regularizations at once, and the best three
    of them on 3,000; up to 1,000 events, everything is chosen by cross-validation in three parts.

    A round of n events takes ``n^3 / 3`` multiplications for each of about three regularizations.
    Beyond `n_centers` events, centers p are chosen among them, and n p^2 + p^3 are needed.

    Returns
    -------
    RFM

    Raises
    ------
    InvalidInput
        If an option is out of its domain, there are fewer than 2 events, or shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> found = rfm(X, np.sin(2 * X[:, :1]), metric="diagonal")
    >>> bool(found.round > 0), bool(found.metric.shares[0] > 0.9)
    (True, True)
    """
    events, targets = np.asarray(X, np.float64), np.asarray(Y, np.float64)
    if events.ndim != 2 or targets.ndim != 2 or len(events) != len(targets) or len(events) < 2:
        raise InvalidInput(
            f"X and Y must be matrices of as many rows, at least 2, not of shapes {events.shape} "
            f"and {targets.shape}"
        )
    check_count("rounds", rounds, least=0)
    check_count("n_centers", n_centers)
    check_choice("selection", selection, SELECTIONS)
    check_choice("error", error, tuple(ERRORS))
    given = checked(weights, len(events))
    scale = unit(given)
    chosen, ridges = families(kernel, bandwidth, metric, events.shape[1]), RIDGES
    if regularization is not None:
        check_positive("regularization", regularization)
        ridges = (float(regularization) / scale,)
    limits = SearchLimits(rounds, n_centers, selection, seed, error)
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    order = random.permutation(len(events))
    data = _Data(events, targets, None if given is None else given / scale, order)
    work = _by_parts if len(events) <= min(_FEW, n_centers) else _by_held_back
    found = work(data, chosen, ridges, limits)
    return replace(found, ridge=found.ridge * scale)


class _Data(NamedTuple):
    """Events, their targets and weights, and a random order of them."""

    X: Numbers
    Y: Numbers
    weights: Weights
    order: Numbers

    def explored(
        self,
        families: Sequence[Family],
        splits: Sequence[tuple[Numbers, Numbers]],
        ridges: Sequence[float],
        rounds: int,
        error: str,
    ) -> list[Explored]:
        """Return families in the order of their errors, by all regularizations of few events.

        Splits are events to learn from and others held back.
        """
        found = []
        for family in families:
            folds = [self.fold(family, *split) for split in splits]
            found.append(explore(family, folds, len(self.X), rounds, ridges, error))
        return sorted(found, key=lambda one: one.error)

    def fold(self, family: Family, train: Numbers, held: Numbers) -> Fold:
        """Return events to learn from and others held back, on the scale of a family."""
        return Fold.of(self.X, self.Y, train, held, family.scale, self.weights)


def _by_parts(
    data: _Data, families: Sequence[Family], ridges: Sequence[float], limits: SearchLimits
) -> RFM:
    """Choose everything by cross-validation, and do the rounds again with all events."""
    X, Y, weights, order = data
    parts = np.array_split(order, min(_FOLDS, len(X)))
    splits = [(np.concatenate([one for one in parts if one is not part]), part) for part in parts]
    best = data.explored(families, splits, ridges, limits.rounds, limits.error)[0]
    family, ridge = best.family, best.ridges[-1]
    columns, constant = Columns.of(X, family.scale, weights), mean(Y, weights)
    S, targets = columns.scaled(X), Y - constant

    def solve(P: Numbers, ridge: float) -> Numbers:
        return ExactRidge(family.kernel, P, targets, weights).solve(ridge)

    metric = followed(family, S, best.ridges[:-1], solve, weights)
    P = metric.mapped(S)
    A, held, turn = solve(P, ridge), np.arange(len(X)), len(best.ridges) - 1
    return RFM(
        family, columns, metric, P, A, constant, ridge, (best.error,), turn, held, best.margins
    )


def _by_held_back(
    data: _Data, families: Sequence[Family], ridges: Sequence[float], limits: SearchLimits
) -> RFM:
    """Choose the family in a sample and the round by held-back events; solve with all of them."""
    X, Y, weights, order = data
    count = min(int(_HELD * len(X)), _MOST_HELD)
    held, train = order[:count], order[count:]
    family, first = families[0], ridges[len(ridges) // 2]

    def refined(family: Family, rows: Numbers, first: float) -> tuple[list[MetricRound], Fold]:
        fold = data.fold(family, rows, held)
        return refine(family, fold, limits, ridges, first), fold

    if len(families) > 1 or len(ridges) > 1:
        turns = min(limits.rounds, _EXPLORED)
        best = data.explored(families, [(train[:_FEW], held)], ridges, turns, limits.error)
        family, first = best[0].family, best[0].ridges[0]
        if len(train) > _MORE:
            more = []
            for one in best[:_FINALISTS]:
                made, _ = refined(one.family, train[:_MORE], one.ridges[0])
                more.append((least(made).error, one.family, made[0].ridge))
            _, family, first = min(more, key=lambda one: one[0])
    found, fold = refined(family, train, first)
    kept, constant = least(found), mean(Y, weights)
    P, every = kept.metric.mapped(np.concatenate([fold.S, fold.Q])), np.concatenate([train, held])
    equations = limits.solver(family.kernel, P, Y[every] - constant, of_rows(weights, every))
    return RFM(
        family,
        fold.columns,
        kept.metric,
        equations.centers,
        equations.solve(kept.ridge),
        constant,
        kept.ridge,
        tuple(one.error for one in found),
        kept.number,
        held,
        kept.margins,
    )


def families(kernel: str | Kernel, bandwidth: float | None, metric: str, d: int) -> list[Family]:
    """Return the families that options of `rfm` leave to be compared, of d columns.

    Raises
    ------
    InvalidInput
        If one is out of its domain, or kernel and metric do not fit each other.
    """
    check_choice("metric", metric, METRICS)
    made: list[Kernel]
    if isinstance(kernel, Kernel):
        kernels.check_scales(kernel, bandwidth=bandwidth)
        made = [kernel]
    else:
        each = BANDWIDTHS if bandwidth is None else (bandwidth,)
        if kernel == "auto":
            s = _OF_PRODUCTS if bandwidth is None else bandwidth
            made = [kernels.by_name(name, bandwidth=s * _unit(name, d)) for name in _PRODUCTS]
            made += [Matern(nu=0.5, bandwidth=s) for s in each]
        else:
            made = [kernels.by_name(kernel, bandwidth=s * _unit(kernel, d)) for s in each]
    kinds = {"auto": (True, False) if d <= MOST_COLUMNS else (True,)}
    kinds |= {"diagonal": (True,), "full": (False,)}
    found = []
    for one in made:
        check_kernel(one)
        products = isinstance(one, PRODUCTS)
        if products and metric == "full":
            if kernel == "auto":
                continue
            raise InvalidInput(
                f"kernel {one.name!r} is a product over the columns and has diagonal metrics; take "
                "metric='diagonal', or another kernel, such as 'matern'"
            )
        for diagonal in (True,) if products or d == 1 else kinds[metric]:
            found += [Family(scale, one, diagonal) for scale in SCALES]
    return found


def _unit(kernel: str, d: int) -> float:
    """Return the bandwidth by which a kernel's sum of d columns is as a distance, of order 1."""
    if kernel == PowerExponential.name:
        return 4.0 / 15.0 * math.pow(max(1, d), 1.5)
    return math.sqrt(max(1, d)) if kernel == Laplacian.name else 1.0
