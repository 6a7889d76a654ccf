"""The interface of learners to the engine and to the adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential
from streamk.state import JSON, State

_HOLDS_NONE = "this learner keeps no predictions of held events; ask for holds_predictions first"


class Methods(Protocol):
    """Methods of learners, with the plain answer of those that cannot do more."""

    champion: str = ""
    """The name of the one among `models` that predicts."""

    def check_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        """Return the labels of n events as they are learned, or raise InvalidInput."""

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events X (n, d) with labels y (n,)."""

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Predictions and state are the same bits as those of single events, however a sequence is
        divided into calls.
        """

    def predict_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (object) or numbers (float64), shape (n,)."""

    def predict_proba_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return probabilities (n, classes), float64, rows summing to 1."""

    def choices(self, P: NDArray[Any]) -> NDArray[np.intp]:
        """Return the numbers of the predicted classes where `predict_proba_many` gave P."""

    def decision_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return the outputs before any decision, float64 (n, outputs)."""

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x (d,) with label y."""

    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label or number of one event x (d,), as `predict_many` would."""

    def predict_proba_one(self, x: ArrayLike) -> dict[Label, float]:
        """Return the probability of each class for one event x (d,)."""

    def decision_one(self, x: ArrayLike) -> NDArray[Any]:
        """Return the outputs of one event x (d,) before any decision, float64 (outputs,)."""

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns, in which all events so far were zero.

        Raises
        ------
        InvalidInput
            If a column is there already.
        """

    def state(self) -> State:
        """Return everything needed to go on exactly from here."""

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner of a state.

        Raises
        ------
        StateError
            If the state is another learner's, or is damaged.
        """

    @property
    def placing(self) -> dict[str, Any]:
        """Arguments of `from_state` for the device and the threads, which no state has."""
        return {}

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Parameters
        ----------
        other : learner of the same class
        common_events : int, default 0
            Events that the last common state had learned; 0 is a learner that has learned nothing.

        Raises
        ------
        InvalidInput
            If the two differ in what they must have in common, options, seed or columns, naming it,
            or have fewer events than that.
        """

    def merge_replica(self, other: Self, common_events: int, common: Callable[[], Self]) -> None:
        """Do `merge`; `common` returns the learner that both were, if more than that is needed."""
        self.merge(other, common_events=common_events)

    # What not all learners can

    def lent_state(self) -> State:
        """Return `state()` for whoever writes it down before this learns again.

        Large arrays may be the learner's own, in place of copies. Who overrides `state` overrides
        this one, too.
        """
        return self.state()

    @property
    def innermost(self) -> Any:
        """The learner that is inside of all others; by itself, this one."""
        return self

    @property
    def models(self) -> dict[str, Any]:
        """The learners of a contest by their names; {} of any other."""
        return {}

    @property
    def predicting(self) -> Any:
        """The learner whose predictions these are: this one, or the champion."""
        return self

    @property
    def explained(self) -> Any:
        """The learner whose columns explain its predictions, to which `looked` gives events."""
        return self

    def looked(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return events X (n, d) in the columns of `explained`."""
        return X

    @classmethod
    def initials(cls, state: State) -> dict[str, str]:  # noqa: ARG003
        """Return digests of the models of a contest before they learned, by name; {} of another."""
        return {}

    @classmethod
    def champion_state(cls, state: State) -> State:
        """Return the state of the one that predicts, of several that a state has."""
        return state

    remembers_events: bool = False
    """True if an event counts before its label comes, so that columns come with the first one."""

    @property
    def horizons(self) -> dict[str, Any]:
        """The learners of several horizons by their names; {} of one."""
        return {}

    in_shards: bool = False
    """True if the part "learner" of its state is learned in shards."""

    @property
    def sharding(self) -> dict[str, int] | None:
        """Rounds so far, and the options of shards, of a learner in shards."""
        return None

    def reopened(self, state: State, kind: Any) -> Any:
        """Return the learner of a state, in shards as this one is, or in none as it is.

        `kind` is the class of learners that have such states, None for an unknown one.
        """
        if kind is not None and kind.in_shards:
            return kind.merged_from(state, self.placing)
        return type(self).from_state(state, **self.placing)

    @property
    def standings(self) -> dict[str, Any] | None:
        """Champion, figures and promotions of a contest, as JSON data."""
        return None

    @property
    def drifts(self) -> tuple[int, ...]:
        """After how many events it began anew because of drift."""
        return ()

    @property
    def ended(self) -> tuple[str, ...]:
        """A sentence for each expert that is switched off."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each thing about its events that may be a mistake."""
        return ()

    @property
    def leading_step(self) -> float | None:
        """The size of steps that predicts, of several."""
        return None

    @property
    def events_at_once(self) -> int:
        """Events that are learned best in one call; 0 for any number."""
        return 0

    @property
    def events_left(self) -> int:
        """Events left of what is best learned in one call; 0 where that is no matter."""
        return 0

    @property
    def mixes_experts(self) -> bool:
        """True if experts are mixed: `shares` tells of them, and intervals are its own."""
        return False

    @property
    def external_experts(self) -> list[dict[str, JSON]]:
        """The options of learners that have joined the experts."""
        return []

    def shares(self, x: ArrayLike) -> dict[str, float]:
        """Return how much each kind of expert contributes for one event x (d,)."""
        return {}

    def expect_no_labels(self) -> None:
        """Predict without what follows the labels so closely that it misleads where none come."""
        return

    @property
    def errors_without_labels(self) -> NDArray[np.float64] | None:
        """Of a model that expects no labels, how far it is off (n,); None if as far as before."""
        return None

    def compile_rare_steps(self) -> None:
        """Have what happens seldom compiled, before the first event."""
        return

    def aside(self) -> AbstractContextManager[None]:
        """Predict without a trace: what is learned later is as if nothing had been asked."""
        return nullcontext()

    def finish(self) -> None:
        """Learn what has been gathered for a step."""
        return

    def for_shards(self) -> Self:
        """Return the learner as shards learn it: this one, or a new one that can be merged."""
        return self

    @property
    def holds_predictions(self) -> bool:
        """True if what its parts predict of held events is kept by numbers, as follows.

        See `streamk.learners.MultiKernel`; these predictions are not in its state.
        """
        return False

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events (n, d) in turn, and keep what is needed to learn them by it later."""
        raise InvalidInput(_HOLDS_NONE)

    def learn_held_many(
        self, X: ArrayLike, y: Sequence[Any] | NDArray[Any], numbers: Sequence[int]
    ) -> None:
        """Learn from held events (n, d) with labels y (n,), in their order.

        The number of one that is learned again, with another label, is -1.
        """
        raise InvalidInput(_HOLDS_NONE)

    @property
    def held_dropped(self) -> int:
        """Held events of which what was kept had no room in `pending_bytes`, since it was made."""
        return 0

    def held_predictions(self) -> dict[str, NDArray[Any]]:
        """Return arrays of all that is kept for held events."""
        return {}

    def restore_held_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on with what `held_predictions` gave, or raise StateError."""
        raise InvalidInput(_HOLDS_NONE)


class Learner(Methods, Protocol):
    """A model that learns from batches of events and predicts them.

    What it predicts for an event is the same, bit for bit, in whatever batch the event comes and
    whatever the number of threads; what it learns depends on the batches and their order alone.
    """

    @property
    def TYPE(self) -> str:  # noqa: N802 (a constant of the class)
        """The name of its kind, in states and on the command line."""

    @property
    def lock(self) -> RLock:
        """The lock of a thread that wants the learner to itself for several calls."""

    @property
    def is_classifier(self) -> bool:
        """True if labels are classes, False if they are numbers."""

    @property
    def takes_missing(self) -> bool:
        """True if a value may be missing (NaN)."""

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""

    @property
    def max_classes(self) -> int:
        """Classes that there may be; labels that would make more are refused."""

    @property
    def n_events(self) -> int:
        """Events learned."""

    @property
    def n_features(self) -> int:
        """Random features or landmarks in use."""

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
