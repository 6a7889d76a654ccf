"""A learner whose stream is cut into shards that learn on replicas, which are merged in rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.declared import count
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.learners.base import Learner
from streamk.learners.common.classes import Label
from streamk.learners.common.predictor import Wrapper, one_row
from streamk.learners.common.prequential import Prequential, labels_or_none
from streamk.learners.reduction import reduced
from streamk.options import Whole
from streamk.state import JSON, State

__all__ = ["Followed", "Parallel", "Sharded"]

SHARDS = 4
"""Default of the shards of a round."""
ROUND_EVENTS = 1024
"""Default of the labelled events of a shard in a round."""
_MOST = 4096
_OWNER = "a sharded learner"
_FLOAT64 = np.dtype(np.float64)


class Followed(NamedTuple):
    """The predictions of a shard, the classes that they are of, and the replica's state."""

    prequential: Prequential
    classes: tuple[Label, ...]
    state: State


class Parallel(Protocol):
    """Workers that follow whole shards at once, see `streamk.distributed.ShardWorkers`."""

    def follow(
        self,
        state: State,
        placing: Mapping[str, Any],
        columns: Sequence[Column],
        batches: Sequence[tuple[NDArray[Any], list[Any]]],
    ) -> list[Followed]:
        """Return what a replica of the state makes of each batch."""
        ...


class Sharded(Wrapper):
    """A learner that learns in rounds, each of so many shards of consecutive labelled events.

    Every shard begins with a replica of the learner as it was at the beginning of the round. An
    event is predicted by the replica of its shard, which has learned the earlier events of that
    shard alone; an event without a label is predicted by the shard of the next label. At the end
    of the round the replicas are merged in a fixed binary tree. Predictions and states depend on
    shards, their length and the events, neither on batches nor on workers. Predictions that wait
    for their labels are dropped at the end of a shard.

    Parameters
    ----------
    learner : Learner
        A new one.
    shards : int, default 4
        Shards of a round, up to 4096.
    round_events : int, default 1024
        Labelled events of a shard in a round.
    workers : Parallel, optional
        They follow shards of which all events come in one call. It is not part of the state.

    Raises
    ------
    InvalidInput
        If the learner has learned already, or a number is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import create
    >>> X = np.random.default_rng(0).normal(size=(64, 2))
    >>> y = np.where(X[:, 0] > 0.0, "right", "left").tolist()
    >>> inner = create("doubly-stochastic", task="classification", block_size=64, max_features=64)
    >>> model = Sharded(inner, shards=2, round_events=8)
    >>> model.predict_then_learn_many(X, y).predictions.shape, model.n_events
    ((64,), 64)
    """

    TYPE = "sharded"
    FORMAT = 1
    INNER: ClassVar[dict[str, Any]] = {}
    """Learners by the types of their states; `streamk.learners.registry` knows them."""

    def __init__(
        self,
        learner: Learner,
        *,
        shards: int = SHARDS,
        round_events: int = ROUND_EVENTS,
        workers: Parallel | None = None,
    ) -> None:
        Whole(least=1, most=_MOST).check("shards", shards)
        Whole(least=1).check("round_events", round_events)
        if learner.n_events:
            raise InvalidInput(
                f"the learner has learned {learner.n_events} events already; give a new one"
            )
        self.learner: Any = learner
        self.shards, self.round_events, self._workers = shards, round_events, workers
        self._restart(learner.state())

    def _restart(self, common: State) -> None:
        """Begin a round with this state, which the open replica has already."""
        self._common, self._done = common, list[State]()
        self._position, self._fresh, self._events = 0, True, int(self.learner.n_events)
        self._classes: list[Label] = list(self.learner.classes)

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """Whether a value may be missing (NaN)."""
        return bool(self.learner.takes_missing)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return tuple(self._classes)

    @property
    def n_events(self) -> int:
        """Events learned by all shards."""
        return self._events + len(self._done) * self.round_events + self._position

    @property
    def nbytes(self) -> int:
        """Memory of the open replica and of the states of the others, in bytes."""
        held = sum(state.nbytes for state in (self._common, *self._done))
        return int(self.learner.nbytes) + held

    @property
    def events_at_once(self) -> int:
        """Events of a round, which come in one call where so many are there."""
        return self.shards * self.round_events

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        self.learner.add_columns(names)
        self._fresh = False

    # Learning

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events X (n, d) with labels y (n,). Raises `InvalidInput` before learning."""
        self.check_labels(y, len(np.asarray(X)))
        self.predict_then_learn_many(X, y)

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x (d,) with label y."""
        self.learn_many(one_row(x), [y])

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Raises
        ------
        InvalidInput
            If events or labels cannot be used, before anything is learned.
        """
        events = check_events(X, _FLOAT64, self.columns, missing=self.takes_missing)
        checked, known = labels_or_none(self, y, len(events))
        pairs = zip(checked.tolist(), known.tolist(), strict=True)
        labels = [label if there else None for label, there in pairs]
        self._check_classes(labels)
        found: list[tuple[Prequential, tuple[Label, ...]]] = []
        ends = np.cumsum(known)
        first = 0
        while first < len(events):
            bounds = self._whole(ends, first)
            if len(bounds) > 1:
                found += self._in_parallel(events, labels, bounds)
                first = bounds[-1][1]
                continue
            before = int(ends[first - 1]) if first else 0
            stop = 1 + int(np.searchsorted(ends, before + self.round_events - self._position))
            part = slice(first, min(stop, len(events)))
            found.append(self._inline(events[part], labels[part]))
            first = part.stop
        return self._joined(found, len(events))

    def _check_classes(self, labels: list[Any]) -> None:
        if self.is_classifier:
            classes = set(self._classes) | {label for label in labels if label is not None}
            if len(classes) > self.max_classes:
                raise InvalidInput(
                    f"{len(classes)} classes are more than max_classes={self.max_classes}; raise it"
                )

    def _whole(self, ends: NDArray[Any], first: int) -> list[tuple[int, int]]:
        """Return the bounds of the shards of this round whose events are all there."""
        if self._workers is None or not self._fresh or self.columns is None:
            return []
        bounds, before = [], int(ends[first - 1]) if first else 0
        for _ in range(self.shards - len(self._done)):
            before += self.round_events
            if before > ends[-1]:
                break
            stop = 1 + int(np.searchsorted(ends, before))
            bounds.append((first, stop))
            first = stop
        return bounds

    def _in_parallel(
        self, X: NDArray[Any], y: list[Any], bounds: list[tuple[int, int]]
    ) -> list[tuple[Prequential, tuple[Label, ...]]]:
        """Have the workers follow whole shards."""
        assert self._workers is not None
        batches = [(X[first:stop], y[first:stop]) for first, stop in bounds]
        columns = self.columns or ()
        answers = self._workers.follow(self._common, self.learner.placing, columns, batches)
        for answer in answers:
            self._meet(answer.classes)
            self._done.append(answer.state)
        self._next(columns)
        return [(answer.prequential, answer.classes) for answer in answers]

    def _inline(self, X: NDArray[Any], y: list[Any]) -> tuple[Prequential, tuple[Label, ...]]:
        """Have the open replica follow events of its shard."""
        self._fresh = False
        found = self.learner.predict_then_learn_many(X, y)
        classes = tuple(self.learner.classes)
        self._meet(classes)
        self._position += sum(label is not None for label in y)
        if self._position == self.round_events:
            self._done.append(self.learner.state())
            self._next(self.columns)
        return found, classes

    def _meet(self, classes: Sequence[Label]) -> None:
        self._classes += [label for label in classes if label not in self._classes]

    def _open(self, state: State) -> Learner:
        learner: Learner = type(self.learner).from_state(state, **self.learner.placing)
        return learner

    def _next(self, columns: Sequence[Column] | None) -> None:
        """Open the replica of the next shard, of the next round after the last."""
        self._position = 0
        if len(self._done) == self.shards:
            self.learner = self._merged(self._done)
            self._restart(self.learner.state())
            return
        self.learner, self._fresh = self._open(self._common), True
        if columns is not None and self.learner.columns != columns:
            known = set(self.learner.columns or ())
            self.learner.add_columns([name for name in columns if name not in known])

    def _merged(self, states: Sequence[State]) -> Learner:
        """Return what the replicas of the shards come to."""

        def nothing(_: tuple[int, int]) -> Learner | None:
            return None

        def joined(one: Learner, two: Learner) -> Learner:
            one.merge(two, common_events=self._events)
            return one

        merged = reduced((0, len(states)), nothing, lambda n: self._open(states[n]), joined)
        assert merged is not None
        return merged

    def _joined(self, found: list[tuple[Prequential, tuple[Label, ...]]], n: int) -> Prequential:
        """Join predictions, with probabilities of all classes; NaN where one was not known."""
        dtype: Any = object if self.is_classifier else np.float64
        predictions = np.empty(n, dtype)
        P = np.full((n, len(self._classes)), np.nan) if self.is_classifier else None
        first = 0
        for (labels, given), classes in found:
            part = slice(first, first + len(labels))
            predictions[part], first = labels, part.stop
            if P is not None and given is not None and classes:
                P[part, [self._classes.index(label) for label in classes]] = given
        return Prequential(predictions, P)

    # Predicting, by the open replica

    def _spread(self, P: NDArray[Any]) -> NDArray[np.float64]:
        """Return probabilities of all classes, zero of those that the replica does not know."""
        if not self.is_classifier or tuple(self.learner.classes) == self.classes:
            return np.asarray(P)
        spread = np.zeros((*P.shape[:-1], len(self._classes)))
        spread[..., [self._classes.index(label) for label in self.learner.classes]] = P
        return spread

    def predict_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (object) or numbers (float64), shape (n,)."""
        return np.asarray(self.learner.predict_many(X))

    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label or number of one event x (d,)."""
        return self.learner.predict_one(x)

    def predict_proba_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return probabilities (n, classes), float64, rows summing to 1."""
        return self._spread(self.learner.predict_proba_many(X))

    def predict_proba_one(self, x: ArrayLike) -> dict[Label, float]:
        """Return the probability of each class for one event x (d,)."""
        row = self.predict_proba_many(one_row(x))[0].tolist()
        return dict(zip(self.classes, row, strict=True))

    def choices(self, P: NDArray[Any]) -> NDArray[np.intp]:
        """Return the numbers of the predicted classes where `predict_proba_many` gave P."""
        if tuple(self.learner.classes) == self.classes:
            return np.asarray(self.learner.choices(P))
        places = [self._classes.index(label) for label in self.learner.classes]
        return np.asarray(places)[self.learner.choices(np.asarray(P)[:, places])]

    def decision_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return the open replica's outputs before any decision, float64 (n, outputs)."""
        return np.asarray(self.learner.decision_many(X))

    def decision_one(self, x: ArrayLike) -> NDArray[Any]:
        """Return the outputs of one event x (d,) before any decision, float64 (outputs,)."""
        return np.asarray(self.learner.decision_one(x))

    def __repr__(self) -> str:
        return f"Sharded({self.learner!r}, shards={self.shards}, round_events={self.round_events})"

    # State

    def state(self) -> State:
        """Return everything needed to go on exactly from here, in the midst of a round too."""
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "format": self.FORMAT,
            "shards": self.shards,
            "round_events": self.round_events,
            "position": self._position,
            "done": len(self._done),
            "fresh": self._fresh,
            "events": self._events,
            "classes": [_plain(label) for label in self._classes],
        }
        parts = {"learner": self.learner.state(), "common": self._common}
        parts |= {f"shard{n}": state for n, state in enumerate(self._done)}
        return State.nest(parts, header)

    @property
    def placing(self) -> dict[str, Any]:
        """That of the learner, and the workers."""
        return {"learner": self.learner.placing, "workers": self._workers}

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        learner: dict[str, Any] | None = None,
        workers: Parallel | None = None,
    ) -> Self:
        """Return the learner whose state this is, with any workers.

        Raises
        ------
        StateError
            If the state is another learner's, of a newer format, or does not fit.
        """
        header: Any = state.expect(cls.TYPE, format=cls.FORMAT).header
        model = cls.__new__(cls)
        model.shards = count(header, "shards", _OWNER, least=1)
        model.round_events = count(header, "round_events", _OWNER, least=1)
        model._position = count(header, "position", _OWNER)
        model._events = count(header, "events", _OWNER)
        done = count(header, "done", _OWNER)
        classes = header.get("classes")
        if (
            done >= model.shards
            or model._position >= model.round_events
            or not isinstance(classes, list)
        ):
            raise StateError(f"the state of {_OWNER} does not fit its shards; take another one")
        open_: Callable[[State], Any] = lambda part: _inner(cls, part, learner or {})  # noqa: E731
        model.learner = open_(state.child("learner"))
        model._common = state.child("common")
        model._done = [state.child(f"shard{n}") for n in range(done)]
        for part in (model._common, *model._done):
            open_(part)  # which refuses what is damaged, now and not at the end of the round
        model._fresh, model._workers = header.get("fresh") is True, workers
        model._classes = list(classes)
        if not set(model.learner.classes) <= set(classes):
            raise StateError(f"the classes of {_OWNER} lack some of its learner")
        return model

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one; both end their rounds.

        Raises
        ------
        InvalidInput
            If the two differ in an option, naming it.
        """
        for name in ("shards", "round_events"):
            if getattr(self, name) != getattr(other, name):
                raise InvalidInput(f"learners that merge must have the same {name}")
        mine, its = self._ended(), other._ended()
        mine.merge(its, common_events=common_events)
        self.learner = mine
        self._restart(mine.state())

    def _ended(self) -> Learner:
        """Return what the shards come to so far."""
        if not self._position and self._done:
            return self._merged(self._done)
        return self._merged([*self._done, self.learner.state()])


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _inner(cls: type[Sharded], part: State, placing: Mapping[str, Any]) -> Any:
    if part.type not in cls.INNER:
        raise StateError(f"{_OWNER} cannot be around a learner of the type {part.type!r}")
    return cls.INNER[part.type].from_state(part, **placing)
