"""Workers of a job in shards that die in the midst of a round."""

from __future__ import annotations

import random
from collections import Counter

from streamk.distributed import Sharded, TaskDivision
from streamk.distributed.rounds import answered
from streamk.learners.common.base import Learner

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
