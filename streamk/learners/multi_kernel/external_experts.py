"""Learners of one kernel whose predictions are mixed with those of a pool's experts."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends.threads import sum_of_squares
from streamk.declared import FINITE, Declared, Domain, count, flag, reading, taken
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.learners.common.classes import Label
from streamk.learners.common.merging import check_mergeable
from streamk.learners.common.supervised import Asked
from streamk.learners.multi_kernel.label_expert import TYPE as MEMORY
from streamk.learners.multi_kernel.label_expert import LabelExpert
from streamk.learners.multi_kernel.pending import PendingPredictions
from streamk.learners.multi_kernel.rests import REST_REVIEW_EVERY, Change, EarlyEvents, Rests
from streamk.learners.multi_kernel.units import LARGEST_TARGET, Unit
from streamk.learners.rfm.feature_machine import FeatureMachine
from streamk.learners.scaled import TYPES, OfOneKernel, restored
from streamk.scaling.hysteresis import HysteresisScaler
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import JSON, State

Floats = NDArray[np.float64]
WIDEST = 256
"""Columns and classes, together, up to which it learns: what it keeps grows with them."""
EFFORT = 1.0
"""Operations that it may spend, relative to those of the others."""
_LEAST = 1e-30
"""Least probability whose logarithm is taken; scores have bounds of their own."""
_OTHER = 8.0
"""Change of the labels' unit after which external experts begin anew: what a loss's parameter, or
the first steps, were to a label is then another thing."""
_NOISE = 0.3
"""Factor by which two estimates of a unit from one stream may differ."""
_OWNER = "external_experts"
_SPARED, _SPARED_BY_LABELS = 0.02, 0.01
"""Parts of the loss: of learners, which take several times the time of the pool, and of the expert
of labels, which takes about as much."""
_LEAST_UNIT = 1e-9


def check_can_join(learner: OfOneKernel, name: str, is_classifier: bool) -> None:
    """Raise InvalidInput if a learner cannot join."""
    if not isinstance(learner, tuple(TYPES.values())):
        kinds = " or ".join(kind.__name__ for kind in TYPES.values())
        raise InvalidInput(
            f"{name} is a {type(learner).__name__}; give a {kinds}, without scaling: the experts "
            "share one"
        )
    if learner.is_classifier != is_classifier:
        one, other = ("classes", "numbers") if learner.is_classifier else ("numbers", "classes")
        task, loss = ("classification", "softmax") if is_classifier else ("regression", "squared")
        fix = f"make it with task={task!r}"
        if "loss" in learner.OPTIONS:
            fix = f"give it a loss of {other}, such as loss={loss!r}"
        raise InvalidInput(
            f"{name} learns {one}, the experts {other}; {fix}, or change the task of the experts"
        )
    if learner.n_events or learner.columns or learner.classes:
        raise InvalidInput(
            f"{name} has learned {learner.n_events} events, or knows columns or classes; "
            "give a new one, which gets those of the stream"
        )


def default_experts(*, task: str, seed: int, effort: float | None) -> list[FeatureMachine]:
    """Return the learners that join the experts by default: a feature machine, or none.

    Parameters
    ----------
    task : {"classification", "regression"}
    seed : int
        Of the learner that they join.
    effort : float or None
        As of `FeatureMachine`; none joins if it is 0.

    Examples
    --------
    >>> [one.max_width for one in default_experts(task="regression", seed=1, effort=1.0)]
    [256]
    >>> default_experts(task="regression", seed=1, effort=0.0)
    []
    """
    if effort == 0.0:
        return []
    return [FeatureMachine(task=task, seed=seed, max_width=WIDEST, effort=effort)]


class ExternalExperts:
    """Learners that see the events of a pool of experts in its scale, and its targets as labels.

    They know the columns and the classes of the pool, in its order. Columns are in units of their
    spread, 0 where missing, and the median distance of two events is the root of 2. The first
    estimates of that scale are poor, so whenever it changes among the first 512 events, external
    experts learn these anew. Later they keep the scale that they have, but for columns whose center
    has moved by more than a scale, or whose scale by more than a factor of 2.

    So it is with the unit of numbers. Later ones are converted to the unit in which the external
    experts began, and what they predict back again, so that a change of it changes no prediction.
    They begin anew where it has changed by more than a factor of 8.

    The last one may be the expert of labels (`streamk.learners.multi_kernel.label_expert`), which
    takes events and labels as they are.

    A feature machine and that one rest where the mixture is about as good without them, see
    `streamk.learners.multi_kernel.rests`: they predict nothing then, and keep events or labels
    alone.

    They are made of learners of one kernel that have not learned and stay as they are: copies join.
    `InvalidInput` is raised if one is of another task or kind, or is not new.
    """

    TYPE = "external-experts"

    def __init__(
        self,
        learners: Sequence[OfOneKernel],
        *,
        is_classifier: bool,
        memory: LabelExpert | None = None,
    ) -> None:
        if not isinstance(learners, list | tuple):
            raise InvalidInput(
                f"external_experts={learners!r} must be a list of learners, such as "
                "[OnlineNystrom()]; give [] for none"
            )
        for place, learner in enumerate(learners):
            check_can_join(learner, f"external_experts[{place}]", is_classifier)
        self._initial_states = [learner.state() for learner in learners]
        self.placings = [learner.placing for learner in learners]
        """Device and threads of each, as of `Learner.placing`."""
        self._columns: tuple[Column, ...] = ()
        self._classes: tuple[Label, ...] = ()
        self._is_classifier = is_classifier
        self._scale = HysteresisScaler()
        self._early = EarlyEvents()
        self.memory = memory
        """The expert of labels, None where there is none."""
        self._rests = Rests([*(one.can_rest for one in learners), *([True] if memory else [])])
        self._all_rest = self._are_held = False
        self._alarms = 0
        """Drifts that the pool had found at the last review."""
        self._begin(0)

    def _begin(self, n_events: int) -> None:
        """Begin anew, after so many events of the pool."""
        self._learners = self._new_learners()
        self._rests.begin()
        if self.memory is not None:
            self.memory.active = True
        self._unit, self._born = np.array([1.0, 0.0]), n_events

    def _again(self) -> None:
        """Learn the first events anew, in another scale or unit."""
        self._begin(self._born)
        if len(self._early):
            self._learn_scaled(self._early.events, self._early.targets, again=True)

    def _new_learners(self) -> list[OfOneKernel]:
        return [self._new(place) for place in range(len(self._initial_states))]

    def _new(self, place: int) -> OfOneKernel:
        """Return a learner that has not learned, of the columns and classes of the pool."""
        learner = _as_expert(restored(self._initial_states[place], **self.placings[place]))
        learner.add_columns(self._columns)
        if self._classes:
            learner.add_classes(self._classes)
        return learner

    def __len__(self) -> int:
        return len(self._initial_states) + (self.memory is not None)

    # What they are

    @property
    def names(self) -> tuple[str, ...]:
        """The types of the learners."""
        learners = (state.type for state in self._initial_states)
        return (*learners, *([] if self.memory is None else [MEMORY]))

    def new_ones(self) -> list[OfOneKernel]:
        """Return learners as they were given, of the same devices and threads."""
        pairs = zip(self._initial_states, self.placings, strict=True)
        return [restored(state, **placing) for state, placing in pairs]

    @property
    def least_spared(self) -> list[float]:
        """The part of the loss that each has to spare the others to be worth its time."""
        return [_SPARED] * len(self._learners) + [_SPARED_BY_LABELS] * (self.memory is not None)

    @property
    def options(self) -> list[dict[str, JSON]]:
        """The options of the learners."""
        return [state.header for state in self._initial_states]

    @property
    def n_features(self) -> int:
        """Random features or landmarks in use."""
        return sum(learner.n_features for learner in self._learners)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return (
            self._scale.nbytes
            + self._early.nbytes
            + sum(learner.nbytes for learner in self._learners)
            + (0 if self.memory is None else self.memory.nbytes)
        )

    @property
    def active(self) -> list[bool]:
        """True for each learner that does not rest."""
        wide = [*self._too_wide, *([] if self.memory is None else [False])]
        return [on and not too_wide for on, too_wide in zip(self._rests.active, wide, strict=True)]

    @property
    def _too_wide(self) -> list[bool]:
        """True for each learner that is switched off."""
        return [one.is_too_wide for one in self._learners]

    @property
    def ended(self) -> tuple[str, ...]:
        """A sentence for each learner that is switched off."""
        width = len(self._columns) + len(self._classes)
        return tuple(
            f"{one.type} is off: {width:,} columns and classes exceed "
            f"max_width={one.header['max_width']} (--expert {one.type}:max_width=N raises the "
            "limit)"
            for one, ended in zip(self._initial_states, self._too_wide, strict=True)
            if ended
        )

    def review(self, worth: Floats, alarms: int) -> None:
        """Decide which learners rest, by what each was worth (n,) since the last review.

        Alarms are the drifts that the pool has found by now.
        """
        changed = self._rests.review(worth, alarm=alarms > self._alarms)
        self._alarms = alarms
        anew = [change.place for change in changed if change.action == "begin"]
        for change in changed:
            self._apply(change)
        # What is known of the weight of one that begins anew is of another learner.
        if anew and all(place in anew for place, on in enumerate(self.active) if on):
            self._all_rest = True

    def _apply(self, change: Change) -> None:
        """Do what a review calls for."""
        if change.place == len(self._learners) and self.memory is not None:
            self.memory.active = change.action != "rest"
            if change.action == "begin":
                self.memory.begin()
            return
        learner: Any = self._learners[change.place]  # one that can rest
        if change.action == "rest":
            learner.rest()
        elif change.action == "wake":
            learner.wake()
        else:
            X, labels = learner.last_events(change.reviews * REST_REVIEW_EVERY)
            new: Any = self._new(change.place)
            if len(labels):
                new.learn_again(X, labels)
            self._learners[change.place] = new

    def have_woken(self) -> bool:
        """Return whether some are active now, and all rested when this was asked before."""
        before, self._all_rest = self._all_rest, not any(self.active)
        return before and not self._all_rest

    def _apply_rests(self) -> None:
        """Have those learners rest that are to."""
        learners: list[Any] = self._learners
        for learner, active in zip(learners, self._rests.active[: len(learners)], strict=True):
            if learner.can_rest and learner.rests == active:
                learner.wake() if active else learner.rest()
        if self.memory is not None:
            self.memory.active = self._rests.active[-1]

    # Growing

    def update_columns_and_classes(
        self, columns: Sequence[Column], classes: Sequence[Label], scale: RunningQuantiles
    ) -> None:
        """Take over the columns and classes of the pool; those known come first."""
        self._scale.add_columns(scale)
        new, more = columns[len(self._columns) :], len(classes) > len(self._classes)
        self._columns, self._classes = tuple(columns), tuple(classes)
        self._early.add_columns(len(new))
        for learner in self._learners:
            if new:
                learner.add_columns(new)
            if more:
                learner.add_classes(self._classes)
        if self.memory is not None:
            self.memory.add_columns(new)
        if len(self) and all(self._too_wide):
            self._early.end()

    def check(self, columns: tuple[Column, ...], classes: tuple[Label, ...]) -> None:
        """Raise ValueError unless these are the columns and classes."""
        if (self._columns, self._classes) != (columns, classes):
            raise ValueError(
                f"external_experts know columns {self._columns} and classes {self._classes}, "
                f"not {columns} and {classes}"
            )

    def adapt(self, scale: RunningQuantiles) -> None:
        """Follow a change of the columns' scale."""
        if self._early.are_kept:
            self._scale.take(scale)
            self._again()
        else:
            self._scale.follow(scale)

    def shift_labels(self, factor: float, shift: float, n_events: int) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were.

        With a factor of 0, what was learned by now is noise.
        """
        self._unit *= factor
        self._unit[1] += shift
        if self._early.are_kept and factor:
            self._early.shift_labels(factor, shift)
            self._again()
        elif not (
            1.0 / _OTHER <= self._unit[0] <= _OTHER
            and abs(self._unit[1]) <= _OTHER * max(1.0, self._unit[0])
        ):
            self._early.clear()
            self._begin(n_events)

    # Learning and predicting

    def known_now(self, events: Floats) -> Floats:
        """Return what the expert of labels knows now for each of events (n, d), (n, 0) without."""
        if self.memory is None:
            return np.zeros((len(events), 0))
        return self.memory.remembered(events)

    @contextmanager
    def numbering(
        self, predicted: Sequence[int] = (), learned: Sequence[int] | None = None
    ) -> Iterator[None]:
        """Have the next events that are predicted, or learned, be held ones of these numbers."""
        self._are_held = learned is not None
        if self.memory is not None:
            self.memory.numbers, self.memory.held = predicted, learned
        try:
            yield
        finally:
            self._are_held = False
            if self.memory is not None:
                self.memory.numbers, self.memory.held = (), None

    def keeping(self, pending: PendingPredictions) -> AbstractContextManager[None]:
        """Have the expert of labels keep its forecasts in those inside `pending` for a while."""
        return nullcontext() if self.memory is None else self.memory.keeping(pending.inner)

    def use_unit(self, unit: Unit) -> None:
        """Have the expert of labels predict in this unit, which is the mixture's from now on."""
        if self.memory is not None:
            self.memory.unit = unit

    def join_held(self, held: PendingPredictions) -> None:
        """Have the expert of labels keep its forecasts of held events in those inside these."""
        if self.memory is not None:
            self.memory.join_held(held.inner)

    def outputs(
        self, events: Floats, n_outputs: int, known: Floats | None = None
    ) -> NDArray[np.float32]:
        """Return the scores (n, experts, n_outputs) of raw events, NaN of those that rest.

        Known (n, numbers) is what `known_now` gave when they were predicted; None if that is now.
        """
        out, active = np.empty((len(events), len(self), n_outputs), np.float32), self.active
        Z = self._scale.transform(events) if True in active[: len(self._learners)] else events
        if self.memory is not None:
            known = self.known_now(events) if known is None else known
            out[:, -1, 0] = self.memory.outputs(events, known)
        for place, learner in enumerate(self._learners):
            if active[place]:
                F = learner.decide_checked(np.ascontiguousarray(Z, learner.dtype))
                out[:, place] = self._scores(learner, F, n_outputs)
            else:
                out[:, place] = np.nan
        return out

    def _scores(self, learner: OfOneKernel, F: Floats, n_outputs: int) -> Floats:
        """Return the scores (n, n_outputs) of a learner's outputs F, as it is now."""
        if learner.can_diverge and not math.isfinite(sum_of_squares(F)):
            F = np.nan_to_num(F)
        if not self._is_classifier:
            F = F * self._unit[0] + self._unit[1]
            return np.asarray(np.clip(F, -LARGEST_TARGET, LARGEST_TARGET))
        if len(self._classes) < 2:
            return np.zeros((len(F), n_outputs))
        L: Floats = np.log(np.maximum(learner.probabilities(F), _LEAST))
        return L if n_outputs > 1 else L[:, 1:] - L[:, :1]

    def predict_then_learn(
        self,
        events: Floats,
        labels: Floats,
        targets: Floats,
        n_outputs: int,
        known: Sequence[Floats | None],
        lags: NDArray[np.int64],
        *,
        anew: bool,
    ) -> NDArray[np.float32]:
        """Learn raw events (n, d) with labels and targets (n,), each predicted before.

        Known is of each event what `known_now` gave when its label was still to come, or None, and
        lags (n,) say how many were learned since. If `anew`, each is weighed by what is predicted
        now, see `LabelExpert.learn`.
        Returned are the scores (n, external experts, n_outputs), bit for bit those of events that
        come alone, and NaN of those that rest.
        """
        out = np.full((len(events), len(self), n_outputs), np.nan, np.float32)
        if self.memory is not None:
            out[:, -1, 0] = self.memory.learn_many(events, labels, known, anew=anew)
        if all(self._too_wide):
            return out
        Z, numbers = self._scale.transform(events), self._labels_of(targets)
        for place, (learner, active) in enumerate(zip(self._learners, self.active, strict=False)):
            X = np.ascontiguousarray(Z, learner.dtype)
            if lags.any() or self._are_held:
                self._tell_lags(learner, lags)
            if not active:
                learner.learn_encoded(X, numbers)
                continue
            if not learner.can_diverge:
                out[:, place] = self._predict_then_learn_by(learner, X, numbers, n_outputs)
                continue
            for row in range(len(X)):
                some, one = slice(row, row + 1), self._learners[place]
                out[some, place] = self._scores(one, one.decide_checked(X[some]), n_outputs)
                self._learn_by(place, X[some], numbers[some])
        self._early.keep(events, targets)
        return out

    def _predict_then_learn_by(
        self, learner: OfOneKernel, X: NDArray[Any], labels: NDArray[Any], n_outputs: int
    ) -> Floats:
        """Have a learner learn events; return the scores of each before it was learned."""
        parts: list[Floats] = []

        def note(F: Floats) -> None:
            parts.append(self._scores(learner, F, n_outputs))

        learner.learn_encoded(X, labels, Asked(None, note))
        return np.concatenate(parts)

    def _tell_lags(self, learner: OfOneKernel, lags: NDArray[np.int64]) -> None:
        """Tell a feature machine how late the labels of the next events come.

        That is not known of events that were held where their forecast is forgotten.
        """
        if isinstance(learner, FeatureMachine):
            learner.lags = lags if not self._are_held else np.where(lags > 0, lags, -1)

    def learn(
        self, events: Floats, label: Any, target: float, known: Floats | None, lag: int
    ) -> None:
        """Learn from a raw event (1, d) with a label and target.

        It is learned by what was known when it was predicted, so many learned events ago, or by
        what is known now.
        """
        if lag or self._are_held:
            for learner in self._learners:
                self._tell_lags(learner, np.array([lag]))
        targets = np.array([target])
        if self.memory is not None:
            self.memory.learn_one(events, float(label), known)
        self._learn_scaled(events, targets)
        self._early.keep(events, targets)

    def _labels_of(self, targets: Floats) -> NDArray[Any]:
        """Return labels as the learners take them; their classes are in the order of the pool's."""
        if self._is_classifier:
            return targets
        return np.asarray((targets - self._unit[1]) / self._unit[0])

    def _learn_scaled(self, events: Floats, targets: Floats, *, again: bool = False) -> None:
        if all(self._too_wide):
            return
        Z, labels = self._scale.transform(events), self._labels_of(targets)
        for place, learner in enumerate(self._learners):
            self._learn_by(place, np.ascontiguousarray(Z, learner.dtype), labels, again=again)

    def _learn_by(
        self, place: int, X: NDArray[Any], labels: NDArray[Any], *, again: bool = False
    ) -> None:
        learner = self._learners[place]
        try:
            learner.learn_again(X, labels) if again else learner.learn_encoded(X, labels)
        except InvalidInput:  # its steps are too long: the others go on
            self._learners[place] = self._new(place)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        parts = {f"learner-{n}": learner.state() for n, learner in enumerate(self._learners)}
        parts |= {f"fresh-{n}": state for n, state in enumerate(self._initial_states)}
        if self.memory is not None:
            parts[MEMORY] = self.memory.state()
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "learners": len(self._learners),
            "born": self._born,
            "alarms": self._alarms,
            "early": self._early.are_kept,
        }
        nested = State.nest(parts, header)
        own = {"unit": self._unit.copy(), **self._early.arrays(), **self._scale.arrays()}
        return State(nested.header, {**nested.arrays, **own, **self._rests.arrays()})

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        is_classifier: bool,
        memory: LabelExpert | None = None,
        placings: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return the external experts of a state, or raise StateError.

        The expert of labels is a new one. They are on the devices and threads of `placings`, by
        default those of new ones.
        """
        header: Any = state.expect(cls.TYPE).header
        places = range(count(header, "learners", _OWNER, least=0 if memory else 1))
        with reading(_OWNER):
            how = placings if len(placings) == len(places) else [{} for _ in places]
            initial = [restored(state.child(f"fresh-{n}"), **how[n]) for n in places]
            external_experts = cls(initial, is_classifier=is_classifier, memory=memory)
            external_experts._learners = [
                _as_expert(restored(state.child(f"learner-{n}"), **how[n])) for n in places
            ]
            for learner, new in zip(external_experts._learners, initial, strict=True):
                check_mergeable(learner, new, ("is_classifier", "kernel", "loss"))
            known = {
                (learner.columns or (), learner.classes) for learner in external_experts._learners
            }
            if memory is not None:
                memory.restore(state.child(MEMORY))
                known.add((memory.columns, ()))
            ((external_experts._columns, external_experts._classes),) = known
        external_experts._born = count(header, "born", _OWNER)
        external_experts._alarms = count(header, "alarms", _OWNER)
        external_experts._rests.restore(state.arrays, _OWNER)
        external_experts._restore_arrays(state, early=flag(header, "early", _OWNER))
        if memory is not None:
            memory.active = external_experts._rests.active[-1]
        external_experts._all_rest = not any(external_experts.active)
        return external_experts

    def _restore_arrays(self, state: State, *, early: bool) -> None:
        """Take the arrays of a state, when columns and classes are known."""
        targets = FINITE
        if self._is_classifier:
            targets = Domain(0, len(self._classes) - 1, whole=True)
        columns = len(self._columns)
        unit = Declared("unit", "float64", (2,), Domain(least=-1e9, most=1e9))
        found, _ = taken((unit,), state.arrays, {}, _OWNER)
        if not found["unit"][0] >= _LEAST_UNIT:
            raise StateError(f"array 'unit' of {_OWNER} begins with {found['unit'][0]}")
        self._unit = found["unit"].copy()
        self._early.restore(state.arrays, columns, targets, _OWNER, are_kept=early)
        self._scale.restore(state.arrays)
        if len(self._scale.center) != columns:
            raise StateError(
                f"array 'center' of {_OWNER} must have {columns} numbers, not "
                f"{len(self._scale.center)}"
            )

    # Merging

    def merge(
        self,
        other: ExternalExperts,
        common_events: int,
        apart: tuple[int, int],
        both: NDArray[np.bool_],
        unit: tuple[float, float],
        *,
        ahead: bool,
    ) -> None:
        """Merge what the external experts of another pool learned since the two were one.

        Where scale or unit differ by more than two estimates of one stream may, the external
        experts are those of the one pool from then on.

        Parameters
        ----------
        other : ExternalExperts
            Of the same options. These here know its columns and classes.
        common_events : int
            Of the pools.
        apart : int, int
            Events that each pool has learned besides, this one's and the other's.
        both : bool array of shape (d,)
            Columns that both have met.
        unit : float, float
            Factor and shift from labels of the other pool to those of this one.
        ahead : bool
            Whether the other pool has learned more, and the scale of labels is its own from now on.
        """
        self._early.end()
        if self.memory is not None and other.memory is not None:
            self.memory.merge(other.memory, apart, ahead=ahead)
        # As the pools do: else those that the other has had would be new at the next review.
        self._alarms = max(self._alarms, other._alarms)
        places = {name: place for place, name in enumerate(other._columns)}
        scale = other._scale.select([places.get(name) for name in self._columns], self._scale)
        factor, shift = unit
        theirs = other._unit * factor + (0.0, shift)
        away = abs(theirs[0] / self._unit[0] - 1.0), abs(theirs[1] - self._unit[1])
        alike = self._scale.near(scale, both) and max(away) <= _NOISE
        if not (alike or ahead):
            return
        if not alike:
            self._learners = self._new_learners()
            self._rests.begin()
        common = common_events - self._born if self._born == other._born else 0
        for mine, its in zip(self._learners, other._learners, strict=True):
            learner: Any = mine
            events = max(0, min(common, mine.n_events, its.n_events))
            learner.merge(its, common_events=events)
        if ahead:
            self._scale, self._unit, self._born = scale, other._unit.copy(), other._born
            self._rests = copy.deepcopy(other._rests)
        self._apply_rests()


def _as_expert(learner: OfOneKernel) -> OfOneKernel:
    """Return a learner that does not begin anew by itself: the pool's alarms say when."""
    learner.watches = False
    return learner
