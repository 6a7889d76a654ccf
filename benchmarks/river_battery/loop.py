"""Progressive validation: every event is predicted, then learned, at once or some events later.

With a delay of d the label of event t is learned just before event t + d is predicted, which is
what `river.evaluate.progressive_val_score(delay=d)` does. A contestant that works in batches is
asked for a whole batch before it learns any of it, and learns what was known when the batch came.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.river_battery.contestant import Contestant
from benchmarks.river_battery.streams import Stream


@dataclass(frozen=True)
class Outcome:
    """What a contestant answered to the first `len(guess)` events of a stream.

    Of classes `guess` has the most probable label, -1 where there was no answer, and `p` the
    probability that the true label was given; in regression `guess` has the number, NaN for none,
    and `p` is empty.
    """

    guess: NDArray[Any]
    p: NDArray[np.float64]
    seconds: float
    cpu_seconds: float
    ended: str = ""
    """Why it did not come to the stream's end; empty if it did."""


def run(contestant: Contestant, stream: Stream, delay: int, limit: float) -> Outcome:
    """One contestant on one stream, for at most `limit` seconds of the processor."""
    model = contestant.make(stream)
    events = stream.events(none=contestant.none)
    answers: list[Any] = []
    ended = ""
    gc.collect()
    clock = _Clock(limit)
    try:
        if contestant.batch:
            n, alone = len(events), min(contestant.alone, len(events))
            starts = (*range(alone), *range(alone, n, contestant.batch), n)
            done = _batches(model, events, delay, answers, clock, starts)
        else:
            done = _one_by_one(model, events, delay, answers, clock, stream.task)
        ended = "" if done else "too slow"
    except Exception as error:  # a rival's failure is its result
        ended = f"failed: {type(error).__name__}: {error}"
    seconds, cpu = clock.seconds(), clock.cpu_seconds()
    return Outcome(*_scored(answers, stream), seconds, cpu, ended)


class _Clock:
    """Seconds since it was made."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._began, self._began_cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def cpu_seconds(self) -> float:
        return time.process_time() - self._began_cpu

    def over(self) -> bool:
        """Whether the limit has passed; on a busy machine the processor's seconds last longer."""
        return self.seconds() > self._limit and self.cpu_seconds() > self._limit


def _one_by_one(
    model: Any,
    events: Sequence[tuple[Any, Any]],
    delay: int,
    answers: list[Any],
    clock: _Clock,
    task: str,
) -> bool:
    """Whether the end was reached."""
    answer: Callable[[Any], Any]
    answer = model.predict_one if task == "regression" else model.predict_proba_one
    learn = model.learn_one
    for t, (x, y) in enumerate(events):
        if t >= delay > 0:
            learn(*events[t - delay])
        answers.append(answer(x))
        if not delay:
            learn(x, y)
        if clock.over():
            return False
    return True


def _batches(
    model: Any,
    events: Sequence[tuple[Any, Any]],
    delay: int,
    answers: list[Any],
    clock: _Clock,
    starts: Sequence[int],
) -> bool:
    """Return whether the end was reached; batches begin at `starts`, whose last is the end."""
    learned = 0
    for start, stop in pairwise(starts):
        known = max(start - max(delay - 1, 0), 0)
        if known > learned:
            some = events[learned:known]
            model.learn_many([x for x, _ in some], [y for _, y in some])
            learned = known
        answers += model.predict_many([x for x, _ in events[start:stop]])
        if clock.over():
            return False
    return True


# --- answers as arrays --------------------------------------------------------------------------


def _scored(answers: Sequence[Any], stream: Stream) -> tuple[NDArray[Any], NDArray[np.float64]]:
    labels = stream.y[: len(answers)].tolist()
    if stream.task == "regression":
        guess = [math.nan if answer is None else float(answer) for answer in answers]
        return np.array(guess), np.empty(0)
    likely = [_likely(answer) for answer in answers]
    p = [_finite(a.get(y, 0.0)) if a else 0.0 for a, y in zip(answers, labels, strict=True)]
    return np.array(likely, dtype=np.int16), np.array(p, dtype=np.float64)


def _likely(answer: Mapping[Any, float] | None) -> int:
    """The most probable label, -1 for none."""
    if not answer:
        return -1
    return int(max(answer, key=lambda label: _finite(answer[label])))


def _finite(p: float) -> float:
    return p if p == p else 0.0
