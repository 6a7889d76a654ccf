"""Learners of one kernel whose opinions are mixed with those of a pool's experts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.features.quantiles import RunningQuantiles
from streamk.learners.classes import Label
from streamk.learners.expert_pool import CLOSEST, FURTHEST
from streamk.learners.scaled import TYPES, OfOneKernel, restored
from streamk.state import JSON, State

_LEAST = 1e-30
"""Least probability whose logarithm is taken; opinions have bounds of their own."""
_OTHER = 8.0
"""Change of the labels' unit after which guests begin anew: what a loss's parameter, or the first
steps, were to a label is then another thing."""
_NOISE = 0.3
"""By which two estimates of a unit from one stream may differ, see `RunningQuantiles.differ`."""


class Guests:
    """Learners that see the events of a pool of experts in its scale, and its labels in its terms.

    They know the columns and the classes of the pool, in its order. Columns are in units of their
    spread, 0 where missing, and the median distance of two events is the root of 2. What a guest
    has learned stays when that scale changes, as it does for the pool's own random features.

    Numbers are in the unit of the labels' spread in which the guests began. What they say is
    converted to the unit of now, so that a change of it changes no prediction. They begin anew
    where it has changed by more than a factor of 8.

    Parameters
    ----------
    learners : sequence of learners of one kernel
        They have not learned, and stay as they are: copies join.
    is_classifier : bool

    Raises
    ------
    InvalidInput
        If a learner is of another task or kind, or is not new.
    """

    TYPE = "guests"
    FORMAT = 1

    def __init__(self, learners: Sequence[OfOneKernel], *, is_classifier: bool) -> None:
        for place, learner in enumerate(learners):
            _check(learner, f"guests[{place}]", is_classifier)
        self._fresh = [learner.state() for learner in learners]
        self._columns: tuple[Column, ...] = ()
        self._classes: tuple[Label, ...] = ()
        self._is_classifier = is_classifier
        self._begin(0)

    def _begin(self, n_events: int) -> None:
        """Begin anew, after so many events of the pool."""
        self._learners = [self._new(place) for place in range(len(self))]
        self._unit, self._born = np.array([1.0, 0.0]), n_events

    def _new(self, place: int) -> OfOneKernel:
        """Return a learner that has not learned, of the columns and classes of the pool."""
        learner = restored(self._fresh[place])
        learner.add_columns(self._columns)
        if self._classes:
            learner.add_classes(self._classes)
        return learner

    def __len__(self) -> int:
        return len(self._fresh)

    # What they are

    @property
    def names(self) -> tuple[str, ...]:
        """The types of the learners."""
        return tuple(state.type for state in self._fresh)

    @property
    def options(self) -> list[dict[str, JSON]]:
        """What the learners were made of."""
        return [state.header for state in self._fresh]

    @property
    def n_features(self) -> int:
        """Random features or landmarks in use."""
        return sum(learner.n_features for learner in self._learners)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return sum(learner.nbytes for learner in self._learners)

    # Growing

    def meet(self, columns: Sequence[Column], classes: Sequence[Label]) -> None:
        """Take over the columns and classes of the pool; those known come first."""
        known, self._columns = len(self._columns), tuple(columns)
        new, self._classes = len(classes) > len(self._classes), tuple(classes)
        for learner in self._learners:
            learner.add_columns(self._columns[known:])
            if new:
                learner.add_classes(self._classes)

    def lack(self, classes: int) -> bool:
        """Whether there are guests, and they have not met so many classes."""
        return len(self) > 0 and classes > len(self._classes)

    def check(self, columns: tuple[Column, ...], classes: tuple[Label, ...]) -> None:
        """Raise ValueError unless these are the columns and classes."""
        if (self._columns, self._classes) != (columns, classes):
            raise ValueError(
                f"guests know columns {self._columns} and classes {self._classes}, "
                f"not {columns} and {classes}"
            )

    def shift_labels(self, factor: float, shift: float, n_events: int) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        self._unit *= factor
        self._unit[1] += shift
        if not 1.0 / _OTHER <= self._unit[0] <= _OTHER:
            self._begin(n_events)

    # Learning and predicting

    def outputs(
        self, events: NDArray[np.float64], scale: RunningQuantiles, n_outputs: int
    ) -> NDArray[np.float32]:
        """Return logits, log-probabilities or numbers, shape (n, guests, outputs), of raw events.

        Parameters
        ----------
        events : float64 array of shape (n, d)
        scale : RunningQuantiles
            Of the pool's columns.
        n_outputs : int
            Of the pool's experts.
        """
        Z = _scaled(events, scale)
        out = np.zeros((len(events), len(self), n_outputs), np.float32)
        for place, learner in enumerate(self._learners):
            F = learner.decide_checked(Z.astype(learner.dtype, copy=False))
            if not self._is_classifier:
                out[:, place] = np.clip(F * self._unit[0] + self._unit[1], -FURTHEST, FURTHEST)
            elif len(self._classes) > 1:
                L = np.log(np.maximum(learner.probabilities(F), _LEAST))
                out[:, place] = L if n_outputs > 1 else L[:, 1:] - L[:, :1]
        return out

    def learn(self, events: NDArray[np.float64], scale: RunningQuantiles, number: float) -> None:
        """Learn from a raw event (1, d) whose label is in the pool's terms."""
        Z = _scaled(events, scale)
        if self._is_classifier:
            label = np.array([self._classes[int(number)]], dtype=object)
        else:
            label = np.array([(number - self._unit[1]) / self._unit[0]])
        for learner in self._learners:
            learner.learn_checked(Z.astype(learner.dtype, copy=False), label)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        parts = {f"learner-{n}": learner.state() for n, learner in enumerate(self._learners)}
        parts |= {f"fresh-{n}": state for n, state in enumerate(self._fresh)}
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "format": self.FORMAT,
            "learners": len(self),
            "born": self._born,
            "unit": self._unit.tolist(),
        }
        return State.nest(parts, header)

    @classmethod
    def from_state(cls, state: State, *, is_classifier: bool) -> Self:
        """Return the guests whose state this is.

        Raises
        ------
        StateError
            If the state is something else's, of a newer format, or is damaged.
        """
        header: Any = state.expect(cls.TYPE, format=cls.FORMAT).header
        try:
            places = range(header["learners"])
            fresh = [restored(state.child(f"fresh-{n}")) for n in places]
            guests = cls(fresh, is_classifier=is_classifier)
            guests._learners = [restored(state.child(f"learner-{n}")) for n in places]
            guests._born = int(header["born"])
            factor, shift = header["unit"]
            guests._unit = np.array([factor, shift], dtype=np.float64)
            known = {(learner.columns or (), learner.classes) for learner in guests._learners}
            ((guests._columns, guests._classes),) = known
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"the header of this {cls.TYPE!r} state does not fit: {error!r}; "
                "it is damaged or was changed by hand"
            ) from error
        return guests

    # Merging

    def agree(self, other: Guests, factor: float, shift: float) -> bool:
        """Whether another's unit of numbers is that of these, but for the noise of estimates.

        Labels there are ``factor * label + shift`` here.
        """
        there = other._unit * factor
        return bool(
            abs(there[0] / self._unit[0] - 1.0) <= _NOISE
            and abs(there[1] + shift - self._unit[1]) <= _NOISE
        )

    def merge(self, other: Guests, common_events: int, *, ahead: bool, alike: bool) -> None:
        """Take in what the guests of another pool learned since the two pools were one.

        Parameters
        ----------
        other : Guests
            Of the same options. These here know its columns and classes.
        common_events : int
            Of the pools.
        ahead : bool
            Whether the scales are the other's from now on.
        alike : bool
            Whether both learned in one scale and unit, but for the noise of estimates. Else the
            guests stay, or become, those of the pool whose scale it is.
        """
        if not (alike or ahead):
            return
        if not alike:
            self._learners = [self._new(place) for place in range(len(self))]
        common = common_events - self._born if self._born == other._born else 0
        for mine, theirs in zip(self._learners, other._learners, strict=True):
            learner: Any = mine
            events = max(0, min(common, mine.n_events, theirs.n_events))
            learner.merge(theirs, common_events=events)
        if ahead:
            self._unit, self._born = other._unit.copy(), other._born


def _scaled(events: NDArray[np.float64], scale: RunningQuantiles) -> NDArray[np.float64]:
    """Return raw events in the unit in which the median distance of two is the root of 2."""
    return scale.transform(events) * (math.sqrt(2.0) / max(scale.distance, CLOSEST))


def _check(learner: OfOneKernel, name: str, is_classifier: bool) -> None:
    """Raise InvalidInput if a learner cannot join."""
    if not isinstance(learner, tuple(TYPES.values())):
        kinds = " or ".join(kind.__name__ for kind in TYPES.values())
        raise InvalidInput(
            f"{name} is a {type(learner).__name__}; give a {kinds}, without scaling: "
            "the experts have a common one"
        )
    if learner.is_classifier != is_classifier:
        mine, own = ("numbers", "classes") if learner.is_classifier else ("classes", "numbers")
        raise InvalidInput(f"{name} learns {own}, the experts {mine}; change the task of one")
    if learner.n_events or learner.columns or learner.classes:
        raise InvalidInput(
            f"{name} has learned {learner.n_events} events, or knows columns or classes; "
            "give a new one, which gets those of the stream"
        )
