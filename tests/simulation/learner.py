"""A learner whose state is the list of the events it has learned: the oracle of what counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.distributed import Sharded, TaskDivision
from streamk.distributed.rounds import answered
from streamk.errors import InvalidInput
from streamk.learners import registry
from streamk.learners.common.base import Learner, Methods
from streamk.learners.common.prequential import Prequential
from streamk.state import State

_MODULUS = 2**31 - 1


class CountingLearner(Methods):
    """Keeps the first column of every event in the order of learning.

    Its prediction is a number made of all that was learned before, so that two models which have
    learned different events, or the same ones in another order, predict otherwise. `merge` appends
    what the other has besides, and takes the number of events in common at its word: where both
    have more of them than it says, those beyond it stay twice; where they have fewer, some are
    dropped.
    """

    TYPE = "counting"
    is_classifier = False
    takes_missing = True
    classes: tuple[Any, ...] = ()
    max_classes = 1000
    n_features = 0

    def __init__(self) -> None:
        self.columns: tuple[Any, ...] | None = None
        self.ids: list[int] = []
        self.digest = 0

    @property
    def n_events(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return 8 * len(self.ids)

    def check_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        return np.asarray(y, np.float64).reshape(n)

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        self.predict_then_learn_many(X, y)

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        rows = np.asarray(X, np.float64)
        self._check(rows)
        found = np.empty(len(rows))
        for i, (event, label) in enumerate(zip(rows[:, 0].astype(int).tolist(), y, strict=True)):
            found[i] = self.digest
            if label is not None:
                self._learn(event)
        return Prequential(found, None)

    def predict_many(self, X: ArrayLike) -> NDArray[Any]:
        return np.full(len(np.asarray(X)), float(self.digest))

    def add_columns(self, names: Sequence[Any]) -> None:
        self.columns = (*(self.columns or ()), *names)

    def state(self) -> State:
        columns = None if self.columns is None else list(self.columns)
        header = {"type": self.TYPE, "n_events": self.n_events, "columns": columns}
        return State(header, {"ids": np.array(self.ids, np.int64)})  # type: ignore[arg-type]

    @property
    def placing(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_state(cls, state: State) -> Self:
        state.expect(cls.TYPE)
        made = cls()
        columns: Any = state.header["columns"]
        made.columns = None if columns is None else tuple(columns)
        for event in state.arrays["ids"].tolist():
            made._learn(event)
        return made

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        if self.columns is None:
            self.columns = other.columns
        mine = set(self.ids)
        both = [event for event in other.ids if event in mine]
        new = [event for event in other.ids if event not in mine]
        for event in (new + both)[: len(other.ids) - common_events]:
            self._learn(event)

    def _learn(self, event: int) -> None:
        self.ids.append(event)
        self.digest = (self.digest * 31 + event + 1) % _MODULUS

    def _check(self, rows: NDArray[Any]) -> None:
        if self.columns is None or rows.shape[1] != len(self.columns):
            raise InvalidInput(f"rows of {rows.shape[1]} columns, known are {self.columns}")


@contextmanager
def registered() -> Iterator[None]:
    """Let states of the learner be opened by their type."""
    registry.KINDS[CountingLearner.TYPE] = CountingLearner
    try:
        yield
    finally:
        del registry.KINDS[CountingLearner.TYPE]


_COUNT = 2


class Mortal:
    """Workers that each do the parts that they are sent, some of them more than once.

    One that dies after its work, before its answer, is replaced by another that does it again.

    `happened`: of faults, by kind.
    """

    def __init__(self, seed: int, happened: Counter[str]) -> None:
        self._random = [random.Random(f"worker {place} {seed}") for place in range(_COUNT)]
        self._happened = happened

    def __len__(self) -> int:
        return _COUNT

    def answer(self, place: int, message: bytes) -> bytes:
        found = answered(message)
        while self._random[place].random() < 0.2:
            self._happened["worker killed"] += 1
            found = answered(message)
        return found

    def close(self) -> None:
        pass


def in_shards(learner: Learner, staleness: int, workers: Mortal | None = None) -> Sharded:
    """A learner in shards whose rounds are short, so that a run has many of them."""
    division = None if workers is None else TaskDivision(workers)
    return Sharded(learner, shards=2, round_events=2, staleness=staleness, workers=division)
