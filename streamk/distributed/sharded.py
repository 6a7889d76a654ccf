"""A learner that learns the shards of a stream on replicas, which are merged in rounds."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

from numpy.typing import ArrayLike, NDArray

from streamk.declared import count, listed
from streamk.distributed.replicas import (
    Common,
    Outcome,
    ShardBatch,
    ShardRound,
    Span,
    Task,
    give_columns,
    merging,
    plan,
    reduced,
)
from streamk.errors import StateError
from streamk.features.columns import Column
from streamk.learners.common.merging import check_mergeable
from streamk.learners.common.predictor import OwnClasses
from streamk.learners.common.prequential import Followed, Prequential, joined_by_class
from streamk.learners.registry import check_kind, inner
from streamk.options import Whole
from streamk.state import JSON, State

SHARDS = 4
"""Default of the shards of a round."""
ROUND_EVENTS = 4096
"""Default of the events of a shard in a round, at most."""
MOST_SHARDS = 4096
MOST_STALE = 16
OPTIONS = "shards", "round_events", "staleness"
"""Names of the attributes that say how a stream is cut, and how old a result may be."""
_OWNER = "a sharded learner"


class Workers(Protocol):
    """Workers that learn shards of a round at once, see `streamk.distributed.TaskDivision`."""

    def begin(self, task: Task) -> Callable[[], Outcome]:
        """Begin what `streamk.distributed.replicas.work` does; return what waits for it."""


class Sharded(OwnClasses):
    """A learner that learns in rounds, each of several shards of consecutive events.

    Every shard of a round begins with a replica of the learner as it was at the beginning of the
    round. An event is predicted by the replica of its shard, which has learned the earlier events
    of that shard and nothing of the other shards. At the end of the round the replicas are merged
    in a fixed binary tree (`streamk.distributed.replicas`), and the next round begins with
    the result.

    A round has an eighth as many events as were learned before it, up to `round_events` for each
    shard, so that little is new to the learner in it. Until that is 256 events for each shard, or
    `round_events` if these are fewer, the learner learns as it would without shards. With one shard
    it always does.

    With `staleness` s a round begins with the result of the round s + 1 before it, so that up to
    s + 1 rounds are learned at once, and no worker waits for a merge or for a slower one. The
    result of a round is merged with that of the round before it, as two replicas are.

    Predictions and states are the same bits whatever the batches and the workers. Nothing is kept
    of predictions without a label: an event whose label comes later is learned as if it had been
    predicted just then.

    Parameters
    ----------
    learner : Learner
        The first replica is this one, no copy; instead of one of many kernels that is new
        there is one without the external expert by default, since two of these are poorly merged.
        Those that it was given are learned in shards, too.
    shards : int, default 4
        Shards of a round, up to 4096.
    round_events : int, default 4096
        Events of a shard in a round, at most.
    staleness : int, default 0
        Rounds before it that the replicas of a round do not know, up to 16.
    workers : Workers, optional
        They learn several shards at once where their events come in one call. Not part of the
        state.

    Raises
    ------
    InvalidInput
        If it is not a learner that can be in shards, or a number is out of its domain.

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

    def __init__(
        self,
        learner: Any,
        *,
        shards: int = SHARDS,
        round_events: int = ROUND_EVENTS,
        staleness: int = 0,
        workers: Workers | None = None,
    ) -> None:
        Whole(least=1, most=MOST_SHARDS).check("shards", shards)
        Whole(least=1).check("round_events", round_events)
        Whole(least=0, most=MOST_STALE).check("staleness", staleness)
        check_kind(learner, f"{learner!r} cannot learn in shards")
        self.learner: Any = learner.for_shards()
        self.shards, self.round_events, self.staleness = shards, round_events, staleness
        self.workers = workers
        self.rounds = 0
        self._classes = list(self.learner.classes)
        self._restart()

    def _restart(self) -> None:
        """Begin a round with the open replica, which nothing goes beyond."""
        before, space = int(self.learner.n_events), self.staleness + 1
        length, count = plan(before, self.shards, self.round_events)
        self._results: deque[Common] = deque(maxlen=space)
        """Those of the last rounds, the newest last; none where there are no rounds yet."""
        if count == 1:
            self._round = ShardRound(None, before, length, count)
        else:
            self._results.extend([Common(self.learner.state(), before)] * space)
            self._round = self._planned(0)

    def _planned(self, begun: int) -> ShardRound:
        """Return the next round, where some are begun already."""
        base = self._results[begun]
        length, count = plan(base.n_events, self.shards, self.round_events)
        return ShardRound(base, base.n_events, length, count)

    # What it is

    @property
    def n_events(self) -> int:
        """Events learned by all shards."""
        now = self._round
        before = self._results[-1].n_events if self._results else now.before
        return before + sum(now.learned) + int(self.learner.n_events) - now.before

    @property
    def nbytes(self) -> int:
        """Memory of the open replica and of the states of the others, in bytes."""
        held = [*self._round.done, *(common.state for common in self._distinct())]
        return int(self.learner.nbytes) + sum(state.nbytes for state in held)

    @property
    def events_at_once(self) -> int:
        """Events with which workers have enough to do in a call: of one round, or of several."""
        return self.shards * self.round_events * self._rounds_at_once

    @property
    def events_left(self) -> int:
        """Events until the end of this round, or of the last one that is best in the same call."""
        return self._round.left + self._round.events * (self._rounds_at_once - 1)

    @property
    def _rounds_at_once(self) -> int:
        """Rounds of a call: twice as many as may be learned at once, since its end waits."""
        return 2 * (self.staleness + 1) if self.staleness and self._results else 1

    def _distinct(self) -> list[Common]:
        """Return the results that are held, each once."""
        return list({id(common): common for common in self._results}.values())

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        self.learner.add_columns(names)

    # Learning

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Raises
        ------
        InvalidInput
            If events or labels cannot be used, before anything is learned.
        WorkerLost
            If workers die too often. Rounds that ended before are learned.
        """
        events, labels, _ = self._checked(X, y)
        found: list[Followed] = []
        first = 0
        while first < len(events):
            ends = self._round.ends(len(events) - first)
            if self.workers is None or len(ends) == 1:
                found.append(
                    self._follow(events[first : first + ends[0]], labels[first:][: ends[0]])
                )
                first += ends[0]
            elif self._round.is_new and ends[-1] == self._round.events:
                first += self._follow_rounds(events[first:], labels[first:], found)
            else:
                part = slice(first, first + ends[-1])
                found += self._follow_together(events[part], labels[part], ends)
                first = part.stop
        return joined_by_class(found, self._classes if self.is_classifier else None)

    def _follow(self, X: NDArray[Any], y: list[Any]) -> Followed:
        """Have the open replica follow events of its shard."""
        found = self.learner.predict_then_learn_many(X, y)
        self._round.position += len(X)
        followed = Followed(found, self._met(self.learner.classes))
        if self._round.position == self._round.length:
            if self._round.base is None:
                self._restart()
            else:
                self._round.end_shard(self.learner.state(), int(self.learner.n_events))
                self._go_on(self.columns)
        return followed

    def _follow_together(self, X: NDArray[Any], y: list[Any], ends: list[int]) -> list[Followed]:
        """Have the workers follow the events of several shards of the open round."""
        assert self.workers is not None
        columns, now = self.columns, self._round
        begun = {len(now.done): self.learner.state()} if now.position else {}
        task = self._task(now, X, y, ends, begun)
        left = now.length - (ends[-1] - ends[-2])  # of the last shard, in later calls
        outcome = self.workers.begin(task)()
        first, stop = task.within
        answers = [outcome.answers[shard] for shard in range(first, stop)]
        if task.merges:
            self._end_round(outcome.states, columns)
        else:
            states = [outcome.states[shard, shard + 1] for shard in range(first, stop)]
            whole = len(states) - 1 if left else len(states)
            for state, answer in zip(states[:whole], answers, strict=False):
                now.end_shard(state, answer.n_events)
            if left:
                self.learner, now.position = self._opened(states[-1]), now.length - left
            else:
                self._go_on(columns)
        return [Followed(found, self._met(classes)) for found, classes, _ in answers]

    def _follow_rounds(self, X: NDArray[Any], y: list[Any], found: list[Followed]) -> int:
        """Have the workers follow whole rounds, several at once where they may be stale.

        Append what they predict to `found`, and return the number of their events.
        """
        assert self.workers is not None
        begun: deque[tuple[ShardRound, Callable[[], Outcome]]] = deque()
        first = 0
        try:
            while True:
                now = self._planned(len(begun))
                if first + now.events > len(X):
                    break
                part = slice(first, first + now.events)
                task = self._task(now, X[part], y[part], now.ends(now.events), {})
                begun.append((now, self.workers.begin(task)))
                first = part.stop
                if len(begun) > self.staleness:
                    found += self._take(*begun.popleft())
            while begun:
                found += self._take(*begun.popleft())
        finally:
            for _, outcome in begun:  # after an error: they are learned by nobody
                with contextlib.suppress(Exception):
                    outcome()
            self._open_round(self.columns)
        return first

    def _take(self, now: ShardRound, waited: Callable[[], Outcome]) -> list[Followed]:
        """Wait for a round of the workers, and merge its result with that of the round before."""
        outcome = waited()
        self._round = now
        self._add_result(self._merged(outcome.states, self.columns))
        answers = [outcome.answers[shard] for shard in range(now.count)]
        return [Followed(found, self._met(classes)) for found, classes, _ in answers]

    def _task(
        self,
        now: ShardRound,
        X: NDArray[Any],
        y: list[Any],
        ends: list[int],
        begun: Mapping[int, State],
    ) -> Task:
        """Return the task to follow events of the next shards of a round, which end there."""
        assert now.base is not None
        first = len(now.done)
        within = first, first + len(ends)
        batches = {
            first + n: ShardBatch(X[start:end], y[start:end], self.columns)
            for n, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
        }
        is_last = now.left == ends[-1]
        placing = self.learner.placing
        return Task(now.base.state, placing, now.count, within, batches, begun, merges=is_last)

    def _go_on(self, columns: Sequence[Column] | None) -> None:
        """Open the replica of the next shard, of the next round after the last one."""
        now = self._round
        if len(now.done) == now.count:
            self._end_round({}, columns)
            return
        assert now.base is not None
        self.learner = self._opened(now.base.state)
        give_columns(self.learner, columns)

    def _end_round(self, states: Mapping[Span, State], columns: Sequence[Column] | None) -> None:
        """Merge all shards, of which some subtrees may be merged already."""
        self._add_result(self._merged(states, columns))
        self._open_round(columns)

    def _add_result(self, merged: Any) -> None:
        self.learner = merged
        self._results.append(Common(merged.state(), int(merged.n_events)))
        self.rounds += 1

    def _open_round(self, columns: Sequence[Column] | None) -> None:
        """Begin the next round."""
        self._round = self._planned(0)
        if self.staleness:
            self.learner = self._opened(self._results[0].state)
            give_columns(self.learner, columns)

    def _merged(self, states: Mapping[Span, State], columns: Sequence[Column] | None) -> Any:
        """Return what the replicas and the rounds before them come to, with these columns."""
        now = self._round
        assert now.base is not None
        common = now.base
        base = functools.cache(lambda: self._opened(common.state))

        def known(span: Span) -> Any:
            return self._opened(states[span]) if span in states else None

        def leaf(shard: int) -> Any:
            there = shard < len(now.done) and now.learned[shard] > 0
            return self._opened(now.done[shard]) if there else None

        merge = merging(common.n_events, base)
        found = reduced((0, now.count), known, leaf, merge)
        before = self._results[-1]
        if before is now.base:
            merged = base() if found is None else found
        else:
            merged = self._opened(before.state)
            if found is not None:
                merge(merged, found)
        give_columns(merged, columns)
        return merged

    def _opened(self, state: State) -> Any:
        return type(self.learner).from_state(state, **self.learner.placing)

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one; both end their rounds."""
        check_mergeable(self, other, OPTIONS)
        mine = self.merged()
        mine.merge(other.merged(), common_events=common_events)
        self.learner = mine
        self._met(mine.classes)
        self._restart()

    def merged(self) -> Any:
        """Return the learner that the shards come to so far; this one must not go on after that."""
        now = self._round
        if now.base is None:
            return self.learner
        if now.position:
            now.end_shard(self.learner.state(), int(self.learner.n_events))
        return self._merged({}, self.columns)

    def __repr__(self) -> str:
        return f"Sharded({self.learner!r}, shards={self.shards}, round_events={self.round_events})"

    # State

    def state(self) -> State:
        """Return everything needed to go on exactly from here, in the midst of a round too."""
        now, held = self._round, self._distinct()
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "shards": self.shards,
            "round_events": self.round_events,
            "staleness": self.staleness,
            "rounds": self.rounds,
            "before": now.before,
            "position": now.position,
            "learned": list[JSON](now.learned),
            "results": [common.n_events for common in held],
            "classes": list[JSON](self._classes),
        }
        parts = {"learner": self.learner.state()}
        parts |= {f"result{n}": common.state for n, common in enumerate(held)}
        parts |= {f"shard{n}": state for n, state in enumerate(now.done)}
        return State.nest(parts, header)

    @property
    def placing(self) -> dict[str, Any]:
        """The placing of the learner, and the workers."""
        return {"learner": self.learner.placing, "workers": self.workers}

    @classmethod
    def from_state(
        cls, state: State, *, learner: dict[str, Any] | None = None, workers: Workers | None = None
    ) -> Self:
        """Return the learner of a state.

        Raises `StateError` if the state is another learner's or does not fit.

        Parameters
        ----------
        state : State
        learner : dict, optional
            `Learner.placing` of the learner.
        workers : Workers, optional
            See above.
        """
        header: Any = state.expect(cls.TYPE).header
        model = cls.__new__(cls)
        model.learner = inner(state.child("learner"), learner, _OWNER)
        model.workers = workers
        model.shards = count(header, "shards", _OWNER, least=1)
        model.round_events = count(header, "round_events", _OWNER, least=1)
        model.staleness = count(header, "staleness", _OWNER)
        model.rounds = count(header, "rounds", _OWNER)
        model._classes = listed(header, "classes", _OWNER)
        if not all(isinstance(label, str | int | float) for label in model._classes):
            raise _misfit()
        held = [
            Common(state.child(f"result{n}"), n_events)
            for n, n_events in enumerate(_counts(header, "results"))
        ]
        before, space = count(header, "before", _OWNER), model.staleness + 1
        if model.staleness > MOST_STALE or len(held) > space:
            raise _misfit()
        model._results = deque(held[:1] * (space - len(held)) + held, space)
        if held:
            model._round = model._planned(0)
        else:
            length, _ = plan(before, model.shards, model.round_events)
            model._round = ShardRound(None, before, length, 1)
        model._round.position = count(header, "position", _OWNER)
        model._round.learned = _counts(header, "learned")
        model._round.done = [state.child(f"shard{n}") for n in range(len(model._round.learned))]
        model._check(before)
        return model

    in_shards = True

    @property
    def sharding(self) -> dict[str, int]:
        """Rounds so far, and the options of shards."""
        options = {name: getattr(self, name) for name in OPTIONS}
        return {"count": self.rounds, **options}

    @classmethod
    def merged_from(cls, state: State, placing: dict[str, Any]) -> Any:
        """Return the learner of a state, placed as asked, merged from all its shards."""
        return cls.from_state(state, learner=placing).merged()

    def reopened(self, state: State, kind: Any) -> Sharded:
        """Return the learner of a state, in shards as this one is.

        A round that is open goes on where both have the same shards. Else it ends: what the shards
        have learned is merged, and that begins anew in shards. Raises `StateError` if it is not a
        state of such a learner.

        Examples
        --------
        >>> from streamk.learners import create
        >>> plain = create("kernel-ridge", task="regression")
        >>> Sharded(plain, shards=2).reopened(plain.state(), type(plain)).shards
        2
        >>> type(plain.reopened(Sharded(plain).state(), Sharded)) is type(plain)
        True
        """
        options = {name: getattr(self, name) for name in OPTIONS}
        if state.type != self.TYPE:
            learner = self.learner.reopened(state, kind)
            return Sharded(learner, **options, workers=self.workers)
        found = Sharded.from_state(state, **self.placing)
        if found.sharding | {"count": 0} == self.sharding | {"count": 0}:
            return found
        return Sharded(found.merged(), **options, workers=self.workers)

    def _check(self, before: int) -> None:
        """Raise StateError unless the parts of a state fit together."""
        now, held = self._round, self._distinct()
        fits = (
            self.shards <= MOST_SHARDS
            and len(now.done) < now.count
            and now.position < now.length
            and now.before == before
            and set(self.learner.classes) <= set(self._classes)
        )
        begun = int(self.learner.n_events)
        fits = fits and now.before <= begun <= now.before + now.position
        parts = [(common.state, common.n_events) for common in held]
        done = zip(now.done, now.learned, strict=True)
        for part, n_events in (*parts, *((part, now.before + n) for part, n in done)):
            replica = self._opened(part)  # which refuses a damaged one now
            fits = fits and replica.n_events == n_events
            fits = fits and set(replica.classes) <= set(self._classes)
        if not fits:
            raise _misfit()


def _counts(header: Mapping[str, Any], name: str) -> list[int]:
    """Return a list of counts of a header; raise StateError unless it is one."""
    found = listed(header, name, _OWNER)
    if not all(type(n) is int and n >= 0 for n in found):
        raise StateError(f"{name!r} of {_OWNER} must be counts, not {found!r}")
    return found


def _misfit() -> StateError:
    return StateError(f"the parts of {_OWNER} do not fit together; take another checkpoint")
