"""One learner for each of several horizons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.declared import listed, reading
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.learners.common.predictor import OwnClasses, inside
from streamk.learners.common.prequential import Followed, Prequential, joined_by_class, nothing
from streamk.learners.registry import inner
from streamk.state import State

_OWNER = "the learner of several horizons"
_SAID = "_of_"


class Horizons(OwnClasses):
    """A learner for each of several horizons; all learn the same events.

    Events are held under numbers: k, k + n, k + 2n, ... are those of the k-th of n horizons. What
    is predicted without one is of the first.

    Parameters
    ----------
    learner : Learner
        That of the first horizon, which has not learned yet; the others begin as it is.
    horizons : sequence of str
        Their names, at least two.
    """

    TYPE = "horizons"
    holds_predictions = True
    drifts = inside("drifts")
    ended = inside("ended")
    external_experts = inside("external_experts")
    remembers_events = inside("remembers_events")
    placing = inside("placing")

    def __init__(self, learner: Any, horizons: Sequence[str]) -> None:
        if learner.n_events:
            raise InvalidInput(f"the learner has learned {learner.n_events} events; give a new one")
        more = [inner(learner.state(), learner.placing, _OWNER) for _ in horizons[1:]]
        self._horizons = dict(zip(horizons, (learner, *more), strict=True))
        self._classes = list(learner.classes)
        self._columns: tuple[Column, ...] | None = learner.columns

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    @property
    def horizons(self) -> dict[str, Any]:
        """The learners by the names of their horizons."""
        return self._horizons

    @property
    def learners(self) -> tuple[Any, ...]:
        """The same in their order."""
        return tuple(self._horizons.values())

    @property
    def learner(self) -> Any:
        """The learner of the first horizon."""
        return self.learners[0]

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        return sum(learner.nbytes for learner in self.learners)

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero.

        A learner has them from the first event that it learns, or remembers.
        """
        self._columns = (*(self._columns or ()), *names)
        for learner in self.learners:
            if learner.columns is not None or learner.remembers_events:
                learner.add_columns(names)

    def expect_no_labels(self) -> None:
        """Predict without what follows the labels closely."""
        for learner in self.learners:
            learner.expect_no_labels()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Predict without a trace: later learning is the same as without the call."""
        with ExitStack() as stack:
            for learner in self.learners:
                stack.enter_context(learner.aside())
            yield

    # --- events -----------------------------------------------------------------------------------

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events (n, d) in turn, each for the horizon of its number."""
        events, found = np.asarray(X, np.float64), list[Followed]()
        for learner, some, held in self._runs(events, numbers):
            if learner.columns is None:
                told = nothing(learner, len(some))
            elif learner.holds_predictions:
                told = learner.predict_held_many(some, held)
            else:
                told = learner.predict_then_learn_many(some, [None] * len(some))
            found.append(Followed(told, learner.classes))
        return joined_by_class(found, self.classes if self.is_classifier else None)

    def learn_held_many(
        self, X: ArrayLike, y: Sequence[Any] | NDArray[Any], numbers: Sequence[int]
    ) -> None:
        """Learn from held events (n, d) with labels y (n,), each for the horizon of its number."""
        first = 0
        for learner, some, held in self._runs(np.asarray(X, np.float64), numbers):
            labels = y[first : first + len(some)]
            first += len(some)
            if learner.columns is None:
                learner.add_columns(self._columns or ())
            if learner.holds_predictions:
                learner.learn_held_many(some, labels, held)
            else:
                learner.predict_then_learn_many(some, labels)
            self._met(learner.classes)

    def _runs(
        self, events: NDArray[np.float64], numbers: Sequence[int]
    ) -> Iterator[tuple[Any, NDArray[np.float64], list[int]]]:
        """Yield consecutive events of one horizon, with its learner and their numbers there."""
        n = len(self.learners)
        for k, run in groupby(enumerate(numbers), lambda pair: pair[1] % n):
            places, held = map(list, zip(*run, strict=True))
            # Learners count events by the numbers that are held.
            yield self.learners[k], events[places], [number // n for number in held]

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict events X (n, d) that are not learned, for the first horizon.

        Raises `InvalidInput` for one that has a label, which is of another event.
        """
        if any(label is not None for label in y):
            raise InvalidInput("the events of several horizons are held until their labels come")
        learner = self.learner
        found = nothing(learner, len(y))
        if learner.columns is not None:
            with self.aside():
                found = learner.predict_then_learn_many(X, y)
        return joined_by_class(
            [Followed(found, learner.classes)], self.classes if self.is_classifier else None
        )

    @property
    def held_dropped(self) -> int:
        """The sum over all learners."""
        return sum(learner.held_dropped for learner in self.learners)

    # --- state ------------------------------------------------------------------------------------

    def held_predictions(self) -> dict[str, NDArray[Any]]:
        """Return arrays of all that is kept for held events."""
        return {
            f"{k}{_SAID}{name}": array
            for k, learner in enumerate(self.learners)
            if learner.holds_predictions
            for name, array in learner.held_predictions().items()
        }

    def restore_held_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on with what `held_predictions` gave, or raise StateError."""
        for k, learner in enumerate(self.learners):
            if learner.holds_predictions:
                start = f"{k}{_SAID}"
                own = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
                learner.restore_held_predictions(own)

    def state(self) -> State:
        """Return the state to go on exactly from here, without held events."""
        return self._state([learner.state() for learner in self.learners])

    def lent_state(self) -> State:
        """Return `state()` for whoever writes it down before this learns again."""
        return self._state([learner.lent_state() for learner in self.learners])

    def _state(self, states: Sequence[State]) -> State:
        header: Any = {
            "type": self.TYPE,
            "horizons": list(self.horizons),
            "classes": list(self._classes),
            "columns": None if self._columns is None else list(self._columns),
        }
        return State.nest({_part(k): state for k, state in enumerate(states)}, header)

    @classmethod
    def from_state(cls, state: State, **placing: Any) -> Self:
        """Return the learner of a state, or raise StateError."""
        header: Any = state.expect(cls.TYPE).header
        model = cls.__new__(cls)
        with reading(_OWNER):
            horizons = tuple(map(str, listed(header, "horizons", _OWNER)))
            model._classes = listed(header, "classes", _OWNER)
            columns = header["columns"]
            model._columns = None if columns is None else tuple(listed(header, "columns", _OWNER))
        model._horizons = {
            name: inner(state.child(_part(k)), placing, _OWNER) for k, name in enumerate(horizons)
        }
        odd = {learner.columns for learner in model.learners} - {None, model._columns}
        known = {label for learner in model.learners for label in learner.classes}
        if len(model.learners) < 2 or odd or not known <= set(model._classes):
            raise StateError(f"the parts of {_OWNER} do not fit together; take another checkpoint")
        return model

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Raise `InvalidInput`: a job with a horizon is one process."""
        raise InvalidInput("the learners of several horizons cannot be merged")


def _part(k: int) -> str:
    """Return the name of the part of a state that has the k-th learner."""
    return f"learner-{k}" if k else "learner"
