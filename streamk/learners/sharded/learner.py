"""A learner that learns the shards of a stream on replicas, which are merged in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.declared import count, listed
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.learners.common.classes import Label, check_most
from streamk.learners.common.predictor import Wrapper, aside, one_row
from streamk.learners.common.prequential import Prequential, labels_or_none, with_gaps
from streamk.learners.sharded.predictions import Followed, joined
from streamk.learners.sharded.reduction import Span, reduced
from streamk.learners.sharded.replicas import Batch, Outcome, Task, give_columns, merging
from streamk.options import Whole
from streamk.state import JSON, State

__all__ = ["MOST_SHARDS", "ROUND_EVENTS", "SHARDS", "Sharded", "Workers"]

SHARDS = 4
"""Default of the shards of a round."""
ROUND_EVENTS = 4096
"""Default of the events of a shard in a round, at most."""
MOST_SHARDS = 4096
_LEAST = 256
"""Events of a shard in a round at least, where `round_events` is not less."""
_BEFORE = 8
"""How many times the events of a round must have been learned before it."""
_OWNER = "a sharded learner"
_FLOAT64 = np.dtype(np.float64)


class Workers(Protocol):
    """Workers that learn shards of a round at once, see `streamk.distributed.TaskDivision`."""

    def work(self, task: Task) -> Outcome:
        """Do what `streamk.learners.sharded.replicas.work` does."""
        ...


class Sharded(Wrapper):
    """A learner that learns in rounds, each of several shards of consecutive events.

    Every shard of a round begins with a replica of the learner as it was at the beginning of the
    round. An event is predicted by the replica of its shard, which has learned the earlier events
    of that shard and nothing of the other shards. At the end of the round the replicas are merged
    in a fixed binary tree (`streamk.learners.sharded.reduction`), and the next round begins with
    the result.

    A round has an eighth as many events as were learned before it, up to `round_events` for each
    shard, so that little is new to the learner in it. Until that is 256 events for each shard, the
    learner learns as it would without shards.

    Predictions and states are the same bits whatever the batches and the workers. Predictions that
    wait for their labels are dropped at the end of a shard.

    Parameters
    ----------
    learner : Learner
    shards : int, default 4
        Shards of a round, up to 4096.
    round_events : int, default 4096
        Events of a shard in a round, at most.
    workers : Workers, optional
        They learn several shards at once where their events come in one call. Not part of the
        state.

    Raises
    ------
    InvalidInput
        If it is no learner that can be in shards, or a number is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import create
    >>> X = np.random.default_rng(0).normal(size=(256, 2))
    >>> y = np.where(X[:, 0] > 0.0, "right", "left").tolist()
    >>> inner = create("doubly-stochastic", task="classification", block_size=64, max_features=64)
    >>> model = Sharded(inner, shards=2, round_events=8)
    >>> model.predict_then_learn_many(X, y).predictions.shape, model.n_events, model.rounds
    ((256,), 256, 8)
    """

    TYPE = "sharded"
    FORMAT = 1

    def __init__(
        self,
        learner: Any,
        *,
        shards: int = SHARDS,
        round_events: int = ROUND_EVENTS,
        workers: Workers | None = None,
    ) -> None:
        Whole(least=1, most=MOST_SHARDS).check("shards", shards)
        Whole(least=1).check("round_events", round_events)
        if getattr(learner, "TYPE", None) not in self.INNER:
            raise InvalidInput(
                f"{learner!r} cannot learn in shards; give one of the learners of streamk, such as "
                "MultiKernel()"
            )
        self.learner: Any = learner
        self.shards, self.round_events, self.workers = shards, round_events, workers
        self.rounds = 0
        self._restart()

    def _restart(self) -> None:
        """Begin a round with the open replica."""
        self._before, self._position = int(self.learner.n_events), 0
        self._length, self._count = self._plan(self._before)
        self._common = self.learner.state() if self._count > 1 else None
        self._done, self._learned = list[State](), list[int]()
        self._classes: list[Label] = list(self.learner.classes)

    def _plan(self, n_events: int) -> tuple[int, int]:
        """Return the events of a shard and the shards of a round that begins after `n_events`."""
        each = _BEFORE * self.shards
        first = each * min(_LEAST, self.round_events)
        if self.shards == 1 or n_events < first:
            return max(1, first - n_events), 1
        return min(self.round_events, n_events // each), self.shards

    # What it is

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
        return int(sum(self._learned) + self.learner.n_events)

    @property
    def nbytes(self) -> int:
        """Memory of the open replica and of the states of the others, in bytes."""
        held = sum(state.nbytes for state in self._done)
        common = 0 if self._common is None else self._common.nbytes
        return int(self.learner.nbytes) + held + common

    @property
    def events_at_once(self) -> int:
        """Events of the largest round: with so many in a call, workers have enough to do."""
        return self.shards * self.round_events

    @property
    def events_left(self) -> int:
        """Events until the end of this round."""
        return self._length * (self._count - len(self._done)) - self._position

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        self.learner.add_columns(names)

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
        WorkerLost
            If workers die too often. Rounds that ended before are learned.
        """
        events = check_events(X, _FLOAT64, self.columns, missing=self.takes_missing)
        checked, known = labels_or_none(self, y, len(events))
        labels = with_gaps(checked, known)
        if self.is_classifier:
            check_most(set(self._classes), labels, self.max_classes)
        found: list[Followed] = []
        first = 0
        while first < len(events):
            ends = self._ends(len(events) - first)
            if self.workers is None or len(ends) == 1:
                ends = ends[:1]
            part = slice(first, first + ends[-1])
            if len(ends) > 1:
                found += self._follow_together(events[part], labels[part], ends)
            else:
                found.append(self._follow(events[part], labels[part]))
            first = part.stop
        return joined(found, self._classes if self.is_classifier else None)

    def _ends(self, n: int) -> list[int]:
        """Return where shards of this round end among the next n events; the last one may go on."""
        ends = [min(n, self._length - self._position)]
        for _ in range(self._count - len(self._done) - 1):
            if ends[-1] == n:
                break
            ends.append(min(n, ends[-1] + self._length))
        return ends

    def _follow(self, X: NDArray[Any], y: list[Any]) -> Followed:
        """Have the open replica follow events of its shard."""
        found = self.learner.predict_then_learn_many(X, y)
        self._position += len(X)
        followed = Followed(found, self._met(self.learner.classes))
        if self._position == self._length:
            if self._count == 1:
                self._restart()
            else:
                self._end_shard(self.learner.state(), int(self.learner.n_events))
                self._go_on(self.columns)
        return followed

    def _follow_together(self, X: NDArray[Any], y: list[Any], ends: list[int]) -> list[Followed]:
        """Have the workers follow the events of several shards."""
        assert self.workers is not None
        assert self._common is not None
        columns, first = self.columns, len(self._done)
        left = self._length - (ends[-1] - ends[-2])  # of the last shard, in later calls
        is_last = first + len(ends) == self._count and not left
        starts = [0, *ends[:-1]]
        batches = {
            first + n: Batch(X[start:end], y[start:end], columns)
            for n, (start, end) in enumerate(zip(starts, ends, strict=True))
        }
        begun = {first: self.learner.state()} if self._position else {}
        within = first, first + len(ends)
        placing = self.learner.placing
        task = Task(self._common, placing, self._count, within, batches, begun, merges=is_last)
        outcome = self.workers.work(task)
        answers = [outcome.answers[shard] for shard in range(*within)]
        followed = [Followed(found, self._met(classes)) for found, classes, _ in answers]
        if is_last:
            self._end_round(outcome.states, columns)
            return followed
        states = [outcome.states[shard, shard + 1] for shard in range(*within)]
        whole = len(states) - 1 if left else len(states)
        for state, answer in zip(states[:whole], answers, strict=False):
            self._end_shard(state, answer.n_events)
        if left:
            self.learner, self._position = self._opened(states[-1]), self._length - left
        else:
            self._go_on(columns)
        return followed

    def _met(self, classes: Sequence[Label]) -> tuple[Label, ...]:
        """Add classes to those that are known; return them."""
        self._classes += [label for label in classes if label not in self._classes]
        return tuple(classes)

    def _end_shard(self, state: State, n_events: int) -> None:
        self._done.append(state)
        self._learned.append(n_events - self._before)

    def _go_on(self, columns: Sequence[Column] | None) -> None:
        """Open the replica of the next shard, of the next round after the last one."""
        if len(self._done) == self._count:
            self._end_round({}, columns)
            return
        assert self._common is not None
        self.learner, self._position = self._opened(self._common), 0
        give_columns(self.learner, columns)

    def _end_round(self, states: Mapping[Span, State], columns: Sequence[Column] | None) -> None:
        """Merge all shards, of which some subtrees may be merged already."""
        self.learner = self._merged(states, columns)
        self.rounds += 1
        self._restart()

    def _merged(self, states: Mapping[Span, State], columns: Sequence[Column] | None) -> Any:
        """Return what the replicas come to, with these columns: the common one, if nothing."""
        assert self._common is not None
        common = self._opened(self._common)

        def known(span: Span) -> Any:
            return self._opened(states[span]) if span in states else None

        def leaf(shard: int) -> Any:
            there = shard < len(self._done) and self._learned[shard] > 0
            return self._opened(self._done[shard]) if there else None

        found = reduced((0, self._count), known, leaf, merging(common))
        merged = common if found is None else found
        give_columns(merged, columns)
        return merged

    def _opened(self, state: State) -> Any:
        return type(self.learner).from_state(state, **self.learner.placing)

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
        mine = self._ended()
        mine.merge(other._ended(), common_events=common_events)
        self.learner = mine
        self._restart()

    def _ended(self) -> Any:
        """Return what the shards come to so far."""
        if self._common is None:
            return self.learner
        if self._position:
            self._end_shard(self.learner.state(), int(self.learner.n_events))
            self._position = 0
        return self._merged({}, self.columns)

    # Predicting, by the open replica

    def aside(self) -> AbstractContextManager[None]:
        """Predict without a trace, see `MultiKernel.aside`."""
        return aside(self.learner)

    def predict_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return labels (object) or numbers (float64), shape (n,)."""
        return np.asarray(self.learner.predict_many(X))

    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label or number of one event x (d,)."""
        return self.learner.predict_one(x)

    def predict_proba_many(self, X: ArrayLike) -> NDArray[Any]:
        """Return probabilities (n, classes), float64, rows summing to 1."""
        P = np.asarray(self.learner.predict_proba_many(X))
        if tuple(self.learner.classes) == self.classes:
            return P
        spread = np.zeros((len(P), len(self._classes)))
        spread[:, self._places()] = P
        return spread

    def predict_proba_one(self, x: ArrayLike) -> dict[Label, float]:
        """Return the probability of each class for one event x (d,)."""
        row = self.predict_proba_many(one_row(x))[0].tolist()
        return dict(zip(self.classes, row, strict=True))

    def choices(self, P: NDArray[Any]) -> NDArray[np.intp]:
        """Return the numbers of the predicted classes where `predict_proba_many` gave P."""
        places = np.array(self._places(), np.intp)
        found: NDArray[np.intp] = places[self.learner.choices(np.asarray(P)[:, places])]
        return found

    def _places(self) -> list[int]:
        """Return the numbers of the classes that the open replica knows."""
        return [self._classes.index(label) for label in self.learner.classes]

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
            "rounds": self.rounds,
            "before": self._before,
            "position": self._position,
            "learned": list[JSON](self._learned),
            "classes": list[JSON](self._classes),
        }
        parts = {"learner": self.learner.state()}
        if self._common is not None:
            parts["common"] = self._common
        parts |= {f"shard{n}": state for n, state in enumerate(self._done)}
        return State.nest(parts, header)

    @property
    def placing(self) -> dict[str, Any]:
        """That of the learner, and the workers."""
        return {"learner": self.learner.placing, "workers": self.workers}

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        learner: dict[str, Any] | None = None,
        workers: Workers | None = None,
    ) -> Self:
        """Return the learner whose state this is.

        Parameters
        ----------
        state : State
        learner : dict, optional
            `Learner.placing` of the learner.
        workers : Workers, optional
            See above.

        Raises
        ------
        StateError
            If the state is another learner's, of a newer format, or does not fit.
        """
        header: Any = state.expect(cls.TYPE, format=cls.FORMAT).header
        model = cls.__new__(cls)
        model.learner = cls._inside(state, learner, _OWNER)
        model.workers = workers
        model.shards = count(header, "shards", _OWNER, least=1)
        model.round_events = count(header, "round_events", _OWNER, least=1)
        model.rounds = count(header, "rounds", _OWNER)
        model._before = count(header, "before", _OWNER)
        model._position = count(header, "position", _OWNER)
        model._classes = listed(header, "classes", _OWNER)
        model._learned = listed(header, "learned", _OWNER)
        model._length, model._count = model._plan(model._before)
        there = model._count > 1
        model._common = state.child("common") if there else None
        model._done = [state.child(f"shard{n}") for n in range(len(model._learned))]
        model._check()
        return model

    def _check(self) -> None:
        """Raise StateError unless the parts of a state fit together."""
        fits = (
            self.shards <= MOST_SHARDS
            and len(self._done) < self._count
            and self._position < self._length
            and set(self.learner.classes) <= set(self._classes)
        )
        begun = int(self.learner.n_events)
        fits = fits and self._before <= begun <= self._before + self._position
        parts = [] if self._common is None else [(self._common, 0)]
        for part, learned in (*parts, *zip(self._done, self._learned, strict=True)):
            replica = self._opened(part)  # which refuses a damaged one now
            fits = fits and replica.n_events == self._before + learned
            fits = fits and set(replica.classes) <= set(self._classes)
        if not fits:
            raise StateError(f"the parts of {_OWNER} do not fit together; take another checkpoint")
