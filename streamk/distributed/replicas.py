"""A worker's part of a round: its shards learn on replicas, which it merges as far as it can.

All of it is a function of states and events, so that another worker can do it again with the same
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential
from streamk.learners.registry import from_state
from streamk.state import State

Span: TypeAlias = tuple[int, int]
"""The shards of a subtree: the first, and the one after the last."""
_Part = TypeVar("_Part")


def halves(span: Span) -> tuple[Span, Span]:
    """Return the two subtrees that make up a subtree of several shards.

    Examples
    --------
    >>> halves((0, 5))
    ((0, 3), (3, 5))
    """
    first, stop = span
    middle = (first + stop + 1) // 2
    return (first, middle), (middle, stop)


def subtrees(within: Span, span: Span) -> Iterator[Span]:
    """Yield the largest subtrees of a tree that lie within some consecutive shards, in their order.

    Examples
    --------
    >>> list(subtrees((0, 6), (0, 16))), list(subtrees((6, 11), (0, 16)))
    ([(0, 4), (4, 6)], [(6, 8), (8, 10), (10, 11)])
    """
    if span[0] >= within[1] or span[1] <= within[0]:
        return
    if within[0] <= span[0] and span[1] <= within[1]:
        yield span
        return
    for half in halves(span):
        yield from subtrees(within, half)


def reduced(
    span: Span,
    known: Callable[[Span], _Part | None],
    leaf: Callable[[int], _Part | None],
    join: Callable[[_Part, _Part], _Part],
) -> _Part | None:
    """Return the merged result of the shards of a subtree.

    It depends on the tree alone, not on which parts of it are `known` already. A `leaf`, a shard,
    that gives None is left out: the other half of its subtree stands for both. `join` takes the
    parts of two halves, the first one first.

    Examples
    --------
    >>> reduced((0, 5), lambda span: None, lambda s: str(s) if s != 1 else None, "({}+{})".format)
    '((0+2)+(3+4))'
    >>> reduced((0, 4), {(0, 2): "a"}.get, str, "({}+{})".format)
    '(a+(2+3))'
    """
    found = known(span)
    if found is not None:
        return found
    if span[1] - span[0] == 1:
        return leaf(span[0])
    one, two = (reduced(half, known, leaf, join) for half in halves(span))
    if one is None or two is None:
        return two if one is None else one
    return join(one, two)


class ShardBatch(NamedTuple):
    """The events of one shard in a round, X of shape (n, d)."""

    X: ArrayLike
    y: Sequence[Any] | NDArray[Any]
    """Labels (n,), None where one is not known."""
    columns: Sequence[Column] | None = None
    """Names (d,); by default those of the model, in its order. New ones become columns of the
    model, in which all events so far were zero; in those left out these events are zero."""


class Answer(NamedTuple):
    """The predictions of a shard's events."""

    prequential: Prequential
    classes: tuple[Label, ...]
    """Those that the probabilities are of."""
    n_events: int
    """Events that the replica has learned, those before the round included."""


@dataclass(frozen=True)
class Task:
    """The part of a round that a worker is asked to do."""

    state: State
    """The common one, with which every shard begins."""
    placing: Mapping[str, Any]
    """That of the replicas, see `streamk.learners.Learner.placing`."""
    shards: int
    """In all."""
    within: Span
    """The worker's: the first shard, and the one after the last."""
    batches: Mapping[int, ShardBatch]
    """By the number of the shard; a shard without events is left out."""
    begun: Mapping[int, State] = field(default_factory=dict)
    """Replicas of shards that learned in this round before, by the number of the shard."""
    merges: bool = True
    """Have shards merged as far as they are the worker's, and those that learned nothing left out;
    else the state of each shard is handed back."""


@dataclass
class Outcome:
    """The predictions and states that a worker hands back."""

    answers: dict[int, Answer] = field(default_factory=dict)
    """By the number of the shard."""
    states: dict[Span, State] = field(default_factory=dict)
    """Those of the largest subtrees that are the worker's own, or of each shard."""


def work(task: Task) -> Outcome:
    """Carry out the task of a worker.

    Raises `InvalidInput` if the events of a shard cannot be used, naming the shard.
    """
    outcome = Outcome()
    common = from_state(task.state, **task.placing)
    before = int(common.n_events)
    merged = merging(before, lambda: common)
    first, stop = task.within

    def leaf(shard: int) -> Any:
        if shard not in task.batches:
            return None
        state = task.begun.get(shard, task.state)
        # Nothing is merged with a single shard, so that the common learner can be its replica.
        is_common = stop - first == 1 and state is task.state
        learner = common if is_common else from_state(state, **task.placing)
        try:
            outcome.answers[shard] = _follow(learner, task.batches[shard])
        except InvalidInput as error:
            raise InvalidInput(f"shard {shard}: {error}") from error
        return learner if learner.n_events > before or not task.merges else None

    def nothing(_: Span) -> Any:
        return None

    spans = [(shard, shard + 1) for shard in range(first, stop)]
    for span in subtrees(task.within, (0, task.shards)) if task.merges else spans:
        found = reduced(span, nothing, leaf, merged)
        if found is not None:
            outcome.states[span] = found.state()
    return outcome


def merging(n_events: int, common: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that merges two learners which began as a common one into the first.

    It merges by `streamk.learners.Learner.merge_replica`, which may ask for the `common` one, that
    had learned `n_events`.
    """

    def merged(one: Any, two: Any) -> Any:
        one.merge_replica(two, n_events, common)
        return one

    return merged


def _follow(learner: Any, batch: ShardBatch) -> Answer:
    """Predict the events of a batch in turn, then learn each."""
    X = np.asarray(batch.X)
    if batch.columns is not None:
        X = _arranged(learner, X, batch.columns)
    found = learner.predict_then_learn_many(X, batch.y)
    return Answer(found, tuple(learner.classes), int(learner.n_events))


def give_columns(learner: Any, names: Sequence[Column] | None) -> None:
    """Give a learner the columns that are new to it; None means no columns yet."""
    if names is None:
        return
    known = set(learner.columns or ())
    new = [name for name in names if name not in known]
    if new or learner.columns is None:
        learner.add_columns(new)


def _arranged(learner: Any, X: NDArray[Any], names: Sequence[Column]) -> NDArray[Any]:
    """Return events with the columns of a learner, which is given those that it has not met."""
    if X.ndim != 2 or X.shape[1] != len(names) or len(set(names)) != len(names):
        raise InvalidInput(
            f"events of shape {X.shape} came with {len(names)} names of columns; each column "
            "needs a name of its own"
        )
    give_columns(learner, names)
    places = {name: place for place, name in enumerate(learner.columns or ())}
    arranged = np.zeros((len(X), len(places)), X.dtype)
    arranged[:, [places[name] for name in names]] = X
    return arranged


_LEAST = 256
"""Events of a shard in a round at least, where `round_events` is not less."""
_BEFORE = 8
"""Events learned before a round, at least, as a multiple of those of the round."""


class Common(NamedTuple):
    """The learner after a round, as far as all shards go."""

    state: State
    n_events: int


def plan(n_events: int, shards: int, round_events: int) -> tuple[int, int]:
    """Return the events of a shard and the shards of a round that begins after some events.

    Examples
    --------
    >>> plan(0, 4, 4096), plan(8192, 4, 4096), plan(80_000, 4, 4096), plan(10**6, 4, 4096)
    ((8192, 1), (256, 4), (2500, 4), (4096, 4))
    >>> plan(10**6, 1, 4096)
    (4096, 1)
    """
    each = _BEFORE * shards
    first = each * min(_LEAST, round_events)
    if n_events < first:
        return first - n_events, 1
    if shards == 1:  # nothing is merged at its end
        return round_events, 1
    return min(round_events, n_events // each), shards


@dataclass
class ShardRound:
    """A round, as far as it has come."""

    base: Common | None
    """The beginning of each shard; None where a learner learns without shards."""
    before: int
    """Events that the learner had learned at its begin."""
    length: int
    """Events of a shard."""
    count: int
    """Shards."""
    done: list[State] = field(default_factory=list)
    """States of the replicas of the shards that ended."""
    learned: list[int] = field(default_factory=list)
    """Events that each of them learned."""
    position: int = 0
    """Events of the open shard so far, those without a label included."""

    @property
    def events(self) -> int:
        """Events of the whole round."""
        return self.length * self.count

    @property
    def left(self) -> int:
        """Events until its end."""
        return self.length * (self.count - len(self.done)) - self.position

    @property
    def is_new(self) -> bool:
        """True if it has no event yet."""
        return not self.done and not self.position

    def ends(self, n: int) -> list[int]:
        """Return where its shards end among the next n events; the last one may go on.

        Examples
        --------
        >>> ShardRound(None, 0, 4, 3, position=1).ends(9), ShardRound(None, 0, 4, 3).ends(100)
        ([3, 7, 9], [4, 8, 12])
        """
        ends = [min(n, self.length - self.position)]
        for _ in range(self.count - len(self.done) - 1):
            if ends[-1] == n:
                break
            ends.append(min(n, ends[-1] + self.length))
        return ends

    def end_shard(self, state: State, n_events: int) -> None:
        """Take the replica of the open shard, which has learned so many events in all."""
        self.done.append(state)
        self.learned.append(n_events - self.before)
        self.position = 0
