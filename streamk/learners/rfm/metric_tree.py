"""Kernel ridge regression in a learned metric, by leaves of a tree that grows with the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import FARTHEST, loops
from streamk.declared import NON_NEGATIVE, count, number
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.centers import targets_of
from streamk.learners.common.calibration import Calibration
from streamk.learners.common.classes import MOST_CLASSES, Label
from streamk.learners.common.supervised import Asked
from streamk.learners.kernel_ridge import BLOCK
from streamk.learners.rfm.metric import Metric
from streamk.learners.rfm.metric_ridge import MetricRidge, RidgeSettings
from streamk.learners.rfm.search import Family
from streamk.learners.rfm.splits import EventMap, Splits, halves
from streamk.state import State

Numbers = NDArray[Any]

SPLITS = 3_584, 3_072
"""Events from which on a leaf is divided, while there are few leaves, and later."""
_ROOM = 512
"""Further events that a leaf has room for, until it is looked at."""
_FEW_LEAVES = 4
"""Leaves that are few: each keeps the factor of its equations. Of more it is made anew with each
block, and blocks are larger."""
_LARGEST_SUM = 1e300
"""Bound of sums of errors."""
_PERIODS = BLOCK, 4 * BLOCK
"""Events after which leaves are looked at, and probabilities adjusted: at first, and later."""
_MANY_EVENTS = 2_048
"""Events that a function has learned, from which on it is later."""
_CENTERS = 256
"""Room for them, of all leaves that a function begins with."""
_LEAST_CENTERS = 2 * BLOCK
"""Least room of a leaf for centers that learn what differs from its solution."""


class MetricTree:
    """Functions of events in a metric, each for a part of space.

    An event costs its own leaf alone, predicted or learned, so that the time for an event stays the
    same while the function goes on to grow with the stream. A leaf is `MetricRidge`. From 3,584
    events on, or 3,072 where there are 4 leaves, it is divided in the direction of the points'
    largest variance in the metric, at the median, and both halves are solved for anew. So xRFM
    (Beaglehole et al. 2025) divides a batch, there in the metric's own first direction, which had
    larger errors on covtype. A leaf whose points cannot be divided, as most of them are one, takes
    no further event into its solution; when all leaves together have `capacity` events, none does.

    It also tells how well it has predicted the events that it has learned.

    The kernel is that of what differs from the solution, see `MetricRidge`. All leaves together
    solve for `capacity` events, at most (and a block for each leaf), and have some hundred centers
    beside, the last events. Columns are None before they are known.
    """

    TYPE = "metric-tree"

    def __init__(
        self,
        kernel: Kernel,
        *,
        task: str,
        capacity: int,
        seed: int,
        columns: int | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
    ) -> None:
        self.map, self.capacity = EventMap.identity(columns or 0), capacity
        self.missed = 0.0
        """Sum of the errors of what was predicted before an event was learned, since it was last
        set to 0: of classes squared ones of margins, of numbers absolute ones."""
        self.n_events = 0
        """Events that it has learned one after the other."""
        self._options: dict[str, Any] = {"task": task, "seed": seed, "max_classes": max_classes}
        self._kernel = kernel
        self._leaves = [self._new_leaf(columns, classes, capacity)]
        self._splits = Splits.none(columns or 0)
        self._last: tuple[bytes, int, Numbers] = (b"", 0, np.zeros((1, 0), np.float32))
        """A single event, its leaf and point."""
        self._calibration = Calibration()

    def _new_leaf(
        self, columns: int | None, classes: Sequence[Label], max_centers: int
    ) -> MetricRidge:
        names = None if columns is None else range(columns)
        return MetricRidge(
            self._kernel, max_centers=max_centers, columns=names, classes=classes, **self._options
        )

    # A solution of events

    def begin(self, settings: RidgeSettings, X: Numbers, y: Numbers) -> None:
        """Solve for a function of 64 events X (n, d) or more, before others are learned.

        They are in the order they came, with labels y (n,) as numbers. Of events that cannot be
        divided, as where most of them are one point, only the last ones are taken: as many as a
        leaf has room for.
        """
        size = SPLITS[len(X) >= _FEW_LEAVES * SPLITS[0] // 2]
        self._plant(0, settings, self.map.points(X), y, (min(self.capacity, _CENTERS), size))

    def _plant(
        self,
        place: int,
        settings: RidgeSettings,
        points: Numbers,
        y: Numbers,
        room: tuple[int, int],
    ) -> None:
        """Solve for points (n, d) in place of a leaf: in one, or in several if they are many.

        The room is that for centers beside the solution, and that of a leaf before it is divided.
        A leaf that cannot be divided takes the last points alone, see `_solved`.
        """
        centers, size = room
        self._last = (b"", *self._last[1:])
        cut = halves(points) if len(points) >= size else None
        if cut is None:
            self._leaves[place] = self._solved(settings, points, y, centers)
            self._fit_leaves()  # at once: factors of many leaves are much memory
            return
        direction, threshold, right = cut
        new = self._splits.divide(place, direction, threshold)
        self._leaves.append(self._leaves[place])
        for leaf, rows in ((place, ~right), (new, right)):
            half = max(_LEAST_CENTERS, centers // 2), size
            self._plant(leaf, settings, points[rows], y[rows], half)

    def _solved(
        self, settings: RidgeSettings, points: Numbers, y: Numbers, centers: int
    ) -> MetricRidge:
        """Return a leaf of points (n, d), of the last ones if there is no room for all.

        What is left of whole blocks is learned by and by.
        """
        size = min(self.capacity, SPLITS[0] + _ROOM)
        leaf = self._new_leaf(points.shape[1], self._leaves[0].classes, centers)
        points, y = points[-size:], y[-size:]
        whole = len(points) - len(points) % BLOCK
        leaf.begin(settings, size, points[:whole], y[:whole])
        leaf.learn_points(points[whole:], y[whole:])
        return leaf

    def _divide(self, place: int) -> None:
        """Divide a leaf, or have it take no more where halves would be too uneven.

        Each half begins with half of the errors of its regularizations.
        """
        leaf = self._leaves[place]
        points, labels = leaf.solved
        if halves(points) is None:
            leaf.close()
            return
        settings: Any = leaf.settings
        half = settings._replace(errors=[one / 2.0 for one in settings.errors])
        self._plant(place, half, points, labels, (leaf.max_centers, len(points)))

    def _divide_large(self) -> None:
        """Divide leaves that are large; have none grow where all together are large enough."""
        if not self.grows:
            return
        if self.n_solved >= self.capacity:
            self.close()
            return
        for place, leaf in enumerate(tuple(self._leaves)):
            if leaf.grows and leaf.n_solved >= SPLITS[len(self._leaves) >= _FEW_LEAVES]:
                self._divide(place)

    def _fit_leaves(self) -> None:
        """Have leaves keep their factors, or not."""
        for leaf in self._leaves:
            leaf.keep_factor(len(self._leaves) <= _FEW_LEAVES)

    def forget_factors(self) -> None:
        """Free the memory of factors, which are made again when they are needed."""
        for leaf in self._leaves:
            leaf.forget_factor()

    def close(self) -> None:
        """Have no leaf's solution take further events."""
        for leaf in self._leaves:
            leaf.close()

    def calibrate(self, F: Numbers, labels: Numbers, factor: float) -> None:
        """Begin with an inverse temperature, that of outputs F (n, outputs) not learned from."""
        self._calibration.factor = factor
        self._calibration.add(F, labels)
        self._calibration.close(len(F))

    # What it is

    @property
    def is_classifier(self) -> bool:
        """True if labels are classes."""
        return self._leaves[0].is_classifier

    @property
    def columns(self) -> tuple[Any, ...] | None:
        """The numbers of the columns, None before the first."""
        return self._leaves[0].columns

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return self._leaves[0].classes

    @property
    def family(self) -> Family | None:
        """The family that the solution is of."""
        settings = self._leaves[0].settings
        if settings is None:
            return None
        scale = "ranks" if self.map.columns.knots else "standard"
        return Family(scale, settings.kernel, self.map.metric.is_diagonal)

    @property
    def solved_with(self) -> tuple[Family, Metric, float] | None:
        """Family, metric and regularization of the solution."""
        family, settings = self.family, self._leaves[0].settings
        if family is None or settings is None:
            return None
        return family, self.map.metric, settings.ridge

    @property
    def errors(self) -> list[float] | None:
        """Those of the regularizations of what differs from the solution, if that is learned.

        They are means over the leaves, since each leaf of a new function begins with them.
        """
        every = [leaf.settings for leaf in self._leaves]
        each = [settings.errors for settings in every if settings is not None]
        return (
            np.mean(np.array(each, np.float64), axis=0).tolist() if each and self.follows else None
        )

    @property
    def follows(self) -> bool:
        """False where the solution is asked alone."""
        return self._leaves[0].follows

    @property
    def n_solved(self) -> int:
        """Events of the solution."""
        return sum(leaf.n_solved for leaf in self._leaves)

    @property
    def n_centers_of_leaf(self) -> int:
        """Centers that an event is predicted by, about."""
        return self.n_centers // len(self._leaves)

    @property
    def grows(self) -> bool:
        """True while the solution takes further events."""
        return any(leaf.grows for leaf in self._leaves)

    @property
    def n_centers(self) -> int:
        """Centers of all leaves."""
        return sum(leaf.n_features for leaf in self._leaves)

    @property
    def nbytes(self) -> int:
        """Memory of centers, coefficients and factors, in bytes."""
        return sum(leaf.nbytes for leaf in self._leaves)

    # Learning and predicting

    def learn(self, X: Numbers, y: Numbers, asked: Asked | None = None) -> None:
        """Learn events X (n, d) with labels y (n,) as numbers, one after the other."""
        if len(X) == 1 and (asked is None or asked.events is None):
            F = self._learn_one(X, y)
            if asked is not None:
                asked.add(F)
            self._count_events(1)
            return
        points, others = self.map.points(X), None
        if asked is not None and asked.events is not None:
            others = self.map.points(asked.events)
        at = 0
        while at < len(points):
            period = _PERIODS[self.n_events >= _MANY_EVENTS]
            stop = min(len(points), at + period - self.n_events % period)
            some = None if others is None else others[at:stop]
            F, predicted = self._learn_rows(points[at:stop], y[at:stop], some)
            self._add_errors(F, y[at:stop])
            if asked is not None:
                asked.add(predicted)
            self._count_events(stop - at)
            at = stop

    def _learn_one(self, x: Numbers, y: Numbers) -> Numbers:
        """Learn an event (1, d) with label y (1,); return what it was predicted before."""
        leaf, point = self._placed(x)
        one = leaf.learn_point(point, y, self._error_sums)
        if one is None:
            F = leaf.learn_points(point, y)
            self._add_errors(F, y)
        else:
            F, missed = one
            self.missed = min(missed, _LARGEST_SUM)
        return F

    def _placed(self, x: Numbers) -> tuple[MetricRidge, Numbers]:
        """Return the leaf of an event (1, d), and its point; mostly it was predicted just now."""
        key = x.tobytes()
        if key != self._last[0]:
            self._last = key, *self.map.place(x, self._splits)
        _, leaf, point = self._last
        return self._leaves[leaf], point

    def _count_events(self, events: int) -> None:
        """Count events, which do not cross a period; at its end look at leaves and calibration."""
        period = _PERIODS[self.n_events >= _MANY_EVENTS]
        self.n_events += events
        if self.n_events % period == 0:
            self._calibration.close(period)
            self._divide_large()

    def _learn_rows(
        self, points: Numbers, y: Numbers, others: Numbers | None
    ) -> tuple[Numbers, Numbers]:
        """Learn events between which no leaf is divided.

        Returns their outputs before each was learned, and those of what was asked in their place.
        """
        leaves = self._splits.leaves_of(points)
        F = np.empty((len(points), self._leaves[0].n_outputs))
        if others is None:
            for leaf, rows in _grouped(leaves):
                F[rows] = self._leaves[leaf].learn_points(points[rows], y[rows])
            return F, F
        predicted, theirs = np.empty(F.shape), self._splits.leaves_of(others)
        at = 0
        for odd in (*np.flatnonzero(leaves != theirs), len(points)):  # asked in another leaf
            for leaf, some in _grouped(leaves[at:odd]):
                rows = at + some
                found: list[Numbers] = []
                asked = Asked(others[rows], found.append)
                F[rows] = self._leaves[leaf].learn_points(points[rows], y[rows], asked)
                predicted[rows] = np.concatenate(found)
            if odd < len(points):
                one = slice(odd, odd + 1)
                predicted[one] = self._leaves[theirs[odd]].decide_checked(others[one])
                F[one] = self._leaves[leaves[odd]].learn_points(points[one], y[one])
            at = odd + 1
        return F, predicted

    def _add_errors(self, F: Numbers, y: Numbers) -> None:
        """Take in how well events were predicted."""
        missed = loops.learning.missed(F, y, self.is_classifier, *self._error_sums)
        self.missed = min(missed, _LARGEST_SUM)

    @property
    def _error_sums(self) -> tuple[Any, ...]:
        """Bounds and sums that `learning.missed` takes events in by."""
        return FARTHEST, _LARGEST_SUM, self.missed, *self._calibration.sums

    def decide(self, X: Numbers) -> Numbers:
        """Return the outputs of events X (n, d), float64 (n, outputs)."""
        if self.columns is None:
            return self._leaves[0].decide_checked(X)
        if len(X) == 1:
            one, point = self._placed(X)
            return one.decide_checked(point)
        points = self.map.points(X)
        leaves = self._splits.leaves_of(points)
        F = np.empty((len(points), self._leaves[0].n_outputs))
        for leaf, rows in _grouped(leaves):
            F[rows] = self._leaves[leaf].decide_checked(points[rows])
        return F

    def probabilities(self, F: Numbers) -> Numbers:
        """Return the probabilities (n, classes) of outputs F (n, outputs)."""
        return self._calibration.probabilities(F)

    def targets(self, y: Numbers) -> Numbers:
        """Return labels as they are learned, float64 (n, outputs)."""
        leaf = self._leaves[0]
        return targets_of(y, leaf.n_outputs if leaf.is_classifier else 0)

    # Columns and outputs

    def extend(self, count: int) -> None:
        """Take up columns that were 0 in all events so far."""
        self.map, self._last = self.map.extended(count), (b"", *self._last[1:])
        self._splits.extend(count)
        for leaf in self._leaves:
            leaf.extend(count)

    def add_classes(self, labels: Sequence[Label]) -> None:
        """Append classes that are not known yet."""
        for leaf in self._leaves:
            leaf.add_classes(labels)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            "missed": self.missed,
            "n_events": self.n_events,
            "capacity": self.capacity,
            "leaves": len(self._leaves),
        }
        own = {**self.map.arrays(), **self._splits.arrays(), **self._calibration.arrays()}
        parts = {"tree": State({"type": "splits"}, own)}
        parts |= {f"leaf{place}": leaf.state() for place, leaf in enumerate(self._leaves)}
        return State.nest(parts, header)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the function of a state; raise StateError if it is damaged."""
        header: Any = state.expect(cls.TYPE).header
        many = count(header, "leaves", _OWNER, least=1)
        capacity = count(header, "capacity", _OWNER, least=BLOCK)
        leaves = [MetricRidge.from_state(state.child(f"leaf{place}")) for place in range(many)]
        first = leaves[0]
        alike = {(leaf.is_classifier, leaf.columns, leaf.classes, leaf.seed) for leaf in leaves}
        if len(alike) > 1 or (many > 1 and not all(leaf.n_solved for leaf in leaves)):
            raise StateError(f"leaves of {_OWNER} differ in task, columns, classes or seed")
        for leaf in leaves:  # what is made later takes memory for as many as a leaf may have
            if leaf.max_centers > max(_LEAST_CENTERS, capacity) or leaf.room > capacity:
                raise StateError(
                    f"a leaf of {_OWNER} has room for {leaf.max_centers} centers and {leaf.room} "
                    f"solved events, where its capacity is {capacity}"
                )
        tree = cls(
            first.kernel,
            task="classification" if first.is_classifier else "regression",
            capacity=capacity,
            seed=first.seed,
            max_classes=first.max_classes,
        )
        tree._leaves = leaves
        tree._fit_leaves()
        tree.missed = number(header, "missed", _OWNER, NON_NEGATIVE)
        tree.n_events = count(header, "n_events", _OWNER)
        own, d = state.child("tree"), len(tree.columns or ())
        tree.map = EventMap.of_arrays(own.arrays, d, _OWNER)
        tree._splits = Splits.of(own.arrays, many - 1, d, _OWNER)
        tree._calibration.load(own.arrays, _OWNER)
        return tree


def _grouped(leaves: Numbers) -> list[tuple[int, Numbers]]:
    """Return each leaf of events with the rows of its events."""
    if len(leaves) and (leaves == leaves[0]).all():
        return [(int(leaves[0]), np.arange(len(leaves)))]
    return [(int(leaf), np.flatnonzero(leaves == leaf)) for leaf in np.unique(leaves)]


_OWNER = f"this {MetricTree.TYPE!r} state"
