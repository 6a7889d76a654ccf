"""Watches over numbers: for a rise against the past, and for a mean out of its bounds."""

from __future__ import annotations

import base64
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from connectors.base import Output, Sink
from connectors.fields import Field, RecordType
from streamk.declared import reading
from streamk.drift import EventMMD, RankTest, ShareTest
from streamk.drift.event_mmd import Cells, from_pairs, to_pairs
from streamk.drift.rise import Draws, RiseTest
from streamk.encoding import LoneReader, shortened
from streamk.engine.order.partitions import Batch
from streamk.engine.training.beside import Scored
from streamk.learners.common.prequential import Prequential
from streamk.packing import pack, unpack
from streamk.state import State

_RECENT_SCORES = 100
"""Numbers in the mean that an alarm about a rise tells."""
_LOOK = 20
"""Numbers between two looks at a mean, each of which takes a sum over its window."""
_DEVIATIONS = 5.0
"""Standard deviations of the mean of independent numbers at which a bound lies."""
_BACK = 0.25
"""Part of the bound to which a mean comes back before the next alarm: a model whose probabilities
are a little wrong all the time is not told of all the time."""
_LEAST = 1.0
"""Added to the variance of their sum: that of rare events is far from normal."""
_OWNER = "what is watched for alarms"


class Signal(NamedTuple):
    """Content of an alarm: a value went beyond a threshold."""

    value: float
    threshold: float
    before: float
    """Mean of the past, or what was expected."""
    now: float
    """Mean of the last numbers."""
    column: str | int | None = None
    """The one whose distribution has changed most, by its Kolmogorov-Smirnov distance; the means
    are its own then, and value and threshold one over the p-value and one over its level."""


class Rise:
    """Numbers that have become larger than those before.

    Examples
    --------
    >>> from streamk.drift import ShareTest
    >>> watch = Rise(ShareTest())
    >>> found = [watch.update(float(n >= 200), 0.0, 0.0) for n in range(300)]
    >>> [(n, signal.before < 0.1, signal.now) for n, signal in enumerate(found) if signal]
    [(203, True, 0.04)]
    """

    def __init__(self, test: RiseTest) -> None:
        self._test = test
        self._last: deque[float] = deque(maxlen=_RECENT_SCORES)

    def update(self, number: float, expected: float, variance: float) -> Signal | None:
        """Take in a number; return an alarm, after which all before is forgotten."""
        del expected, variance
        test = self._test
        self._last.append(number)
        if not test.update(number):
            return None
        now = sum(self._last) / len(self._last)
        return Signal(test.evidence, test.run_length, test.before, now)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"test": self._test.to_json(), "last": list(self._last)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        with reading(_OWNER):
            self._last = deque(map(float, data["last"]), maxlen=_RECENT_SCORES)
            self._test = self._test.from_json(data["test"])


class Bounds:
    """A test of the mean of the last numbers: further from its expectation than chance explains.

    The bound is five standard deviations of the mean, were the numbers independent, of a variance
    that is larger by 1 over the window: where next to no number is expected to be 0, or 1, a single
    one that is must not be beyond it. Every 20 numbers it is looked whether the mean is beyond it;
    that is one alarm, and the next one comes when the mean has come back to a quarter of it
    meanwhile. Before there are as many numbers as are in the window there is no alarm; with `below`
    only a mean that is too low is one.

    Examples
    --------
    >>> watch = Bounds(window=100)
    >>> found = [watch.update(float(n < 200), 0.9, 0.09) for n in range(300)]
    >>> [(n, round(signal.now, 2)) for n, signal in enumerate(found) if signal]
    [(239, 0.6)]
    """

    def __init__(self, *, window: int = 1000, below: bool = False) -> None:
        self._window, self._below = window, below
        self._n = 0
        self._rows: deque[tuple[float, float, float]] = deque()
        self._out = False
        """The bound was crossed, and the mean has not come back."""

    def update(self, number: float, expected: float, variance: float) -> Signal | None:
        """Take in a number with its expectation and variance; return an alarm, or None."""
        self._rows.append((number, expected, variance))
        if len(self._rows) > self._window:
            self._rows.popleft()
        self._n, n = self._n + 1, len(self._rows)
        if n < self._window or self._n % _LOOK:
            return None
        # Summed anew each time: figures must not depend on what has left the window.
        now, before, spread = (math.fsum(column) for column in zip(*self._rows, strict=True))
        off = (before - now) / n if self._below else abs(now - before) / n
        bound = _DEVIATIONS * math.sqrt(spread + _LEAST) / n
        was_out, self._out = self._out, off > (_BACK * bound if self._out else bound)
        if was_out or not self._out:
            return None
        return Signal(off, bound, before / n, now / n)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"n": self._n, "rows": [list(row) for row in self._rows], "out": self._out}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        with reading(_OWNER):
            rows = deque((float(a), float(b), float(c)) for a, b, c in data["rows"])
            self._n, self._out = int(data["n"]), data["out"]
            finite = all(math.isfinite(x) for row in rows for x in row)
            if not finite or len(rows) > self._window or not isinstance(self._out, bool):
                raise ValueError("its numbers are out of their domain")
        self._rows = rows


_BLOCK = 8
"""Events of which one is looked at, drawn by the seed: more cost more than they find."""
_TOGETHER = 32
"""Events that the test takes in at once: one by one they cost several times as much."""
_REST = 1024
"""Blocks after an alarm of which none is looked at: a stream that changes all the time is not told
of all the time, and a test that begins anew costs some milliseconds."""
_MOST = 64
"""Columns of their own."""
_REFERENCE = 1024
"""Most events that the last ones are compared with."""
_FEATURES = 192
_RECENT = 50
"""Events looked at in what an alarm tells of a column."""
_SEED = 1
"""Of the test. The events are drawn by another one: which event of a block it is must not decide
whether the test trains with it."""

Floats = npt.NDArray[np.float64]


class CovariateWatch:
    """The columns of one event in 8 follow another law than before, see `EventMMD`.

    After an alarm the next 8,192 events are not looked at.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> X[10_000:, 1] += 1.0
    >>> watch = CovariateWatch()
    >>> ((row, signal),) = watch.update(len(X), lambda row: {"a": X[row, 0], "b": X[row, 1]})
    >>> 10_000 < row < 12_000, signal.column
    (True, 'b')
    """

    def __init__(self) -> None:
        self._seen = 0
        self._draws = Draws(0)
        self._next = self._place(0)
        self._test = EventMMD(most=_MOST, reference=_REFERENCE, max_features=_FEATURES, seed=_SEED)
        self._held: list[Cells] = []
        """Events that the test takes in next."""
        self._recent: deque[Cells] = deque(maxlen=_RECENT)

    def _place(self, block: int) -> int:
        """Return which event of a block, counted from the first of all, is looked at."""
        return block * _BLOCK + int(self._draws.take(block, 1)[0, 0] * _BLOCK)

    def update(self, n: int, read: Callable[[int], Cells]) -> list[tuple[int, Signal]]:
        """Take in n events in their order; return the rows at which alarms were found, ascending.

        `read` gives the columns of the event of a row, see `streamk.encoding.alone`.
        """
        first = self._seen
        self._seen += n
        found: list[tuple[int, Signal]] = []
        while self._next < self._seen:
            row, block = self._next - first, self._next // _BLOCK
            self._next = self._place(block + 1)
            self._held.append(read(row))
            if len(self._held) < _TOGETHER:
                continue
            taken = self._test.advance(self._held)  # what comes after an alarm is dropped
            self._recent += self._held[:taken]
            self._held = []
            if self._test.test.drift_detected:
                found.append((row, self._signal()))
                self._next = self._place(block + 1 + _REST)
        return found

    def _signal(self) -> Signal:
        """Return the content of an alarm that has just come."""
        test = self._test.test
        before, now = test.sample, self._test.rows(self._recent)
        now = now[:, : before.shape[1]]
        distances = [_distance(a, b) for a, b in zip(before.T, now.T, strict=True)]
        most = int(np.argmax(distances))
        means = _mean(before[:, most]), _mean(now[:, most])
        column = self._test.name(most, self._recent)
        return Signal(1.0 / test.p_value, 1.0 / test.alpha, *means, column)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        state = self._test.state()
        arrays = base64.b64encode(pack(state.arrays)).decode("ascii")
        return {
            "seen": self._seen,
            "next": self._next,
            "test": {"header": state.header, "arrays": arrays},
            "held": list(map(to_pairs, self._held)),
            "last events": list(map(to_pairs, self._recent)),
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        with reading("what is watched of the columns"):
            seen, following, test = int(data["seen"]), int(data["next"]), data["test"]
            packed = base64.b64decode(test["arrays"], validate=True)
            arrays = unpack(packed, "what is watched of the columns")
            found = EventMMD.from_state(State(test["header"], arrays))
            held, last = (list(map(from_pairs, data[name])) for name in ("held", "last events"))
            if len(held) >= _TOGETHER or len(last) > _RECENT:
                raise ValueError("it holds more events than it may")
            if not 0 <= seen <= following <= seen + _BLOCK * (_REST + 2):
                raise ValueError(f"it has seen {seen} events")
        self._seen, self._next = seen, following
        self._test, self._held, self._recent = found, held, deque(last, maxlen=_RECENT)


def _mean(numbers: Floats) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else math.nan


def _distance(before: Floats, now: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples, in which NaN is the largest number."""
    at = np.concatenate([before, now])
    shares = [
        np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (before, now)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


KINDS = ("error", "confidence", "calibration", "coverage", "label_delay", "covariate_drift")

Found = list[tuple[int, str, Signal]]
"""Alarms, with their rows and kinds."""

ALARM = RecordType(
    "Alarm",
    (
        Field("kind", 1, "text"),
        Field("events", 2, "integer"),
        Field("time", 3, "integer"),
        *(Field(name, number, "number") for number, name in enumerate(Signal._fields[:4], 4)),
        Field("column", 8, "label", nullable=True, optional=True),
    ),
)
"""The fields of an alarm."""

Int64s = npt.NDArray[np.int64]


class Alarms:
    """Watches over a job; each alarm is written to the sink once.

    The level is that of intervals or prediction sets, where there are any.
    """

    RECORD = ALARM

    def __init__(self, sink: Sink, classification: bool, level: float | None) -> None:
        self._sink, self._level = sink, level
        error = ShareTest() if classification else RankTest()
        watches: dict[str, Rise | Bounds] = {"error": Rise(error), "label_delay": Rise(RankTest())}
        if classification:
            watches |= {"confidence": Rise(ShareTest()), "calibration": Bounds()}
        if level is not None:
            watches["coverage"] = Bounds(below=True)
        self._watches = {kind: watches[kind] for kind in KINDS if kind in watches}
        self._columns = CovariateWatch()
        self.counts: dict[str, int] = {}
        """Alarms so far, by kind."""

    def watch(
        self,
        batch: Batch,
        first: int,
        classes: Sequence[Any],
        predicted: tuple[Int64s, Prequential],
        scored: Scored,
        alone: LoneReader,
    ) -> None:
        """Watch a batch, and write the alarms in it.

        `first` is the number of its first event in the job, from 1 on; `classes` are those of the
        probabilities, `predicted` has the rows (n,) of events that were predicted, `scored` those
        whose labels came in this batch, and `alone` reads the columns of the former.
        """
        rows, said = predicted
        columns = self._columns.update(len(rows), lambda i: alone.one(batch.values[int(rows[i])]))
        found: Found = [(int(rows[row]), "covariate_drift", signal) for row, signal in columns]
        if said.probabilities is not None:
            numbers = np.clip(1.0 - _confidences(said, classes), 0.0, 1.0)
            found += self._watched("confidence", rows, numbers)
        found += self._of_scored(classes, scored)
        found.sort(key=lambda one: (one[0], KINDS.index(one[1])))
        if found:
            self._sink.write([self._output(batch, first, *one) for one in found])

    def _of_scored(self, classes: Sequence[Any], scored: Scored) -> Found:
        answers, P = scored.prequential
        rows = scored.rows
        found: Found = []
        if P is None:
            errors = np.abs(answers - np.array(scored.labels, np.float64))
        else:
            pairs = zip(answers.tolist(), scored.labels, strict=True)
            wrong = [np.nan if answer is None else answer != label for answer, label in pairs]
            errors = np.array(wrong, np.float64)
            sure = _confidences(scored.prequential, classes)
            found += self._watched("calibration", rows, 1.0 - errors, sure, sure * (1.0 - sure))
        found += self._watched("error", rows, errors)
        if scored.measured is not None and self._level is not None:
            level = np.full(len(rows), self._level)
            variance = level * (1.0 - level)
            found += self._watched("coverage", rows, scored.measured[:, 0], level, variance)
        if scored.delays is not None:
            found += self._watched("label_delay", rows, np.array(scored.delays, np.float64))
        return found

    def _watched(
        self,
        kind: str,
        rows: Int64s,
        numbers: Floats,
        expected: Floats | None = None,
        variance: Floats | None = None,
    ) -> Found:
        """Take in what is watched of events in turn, NaN of one that has none of it."""
        nothing = np.zeros(len(rows))
        columns = (numbers, *(nothing if one is None else one for one in (expected, variance)))
        update = self._watches[kind].update
        found: Found = []
        each = zip(rows.tolist(), *(column.tolist() for column in columns), strict=True)
        for row, number, mean, spread in each:
            signal = update(number, mean, spread) if number == number else None
            if signal is not None:
                found.append((row, kind, signal))
        return found

    def _output(self, batch: Batch, first: int, row: int, kind: str, signal: Signal) -> Output:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        partition, offset = batch.position(row)
        time = int(batch.timestamps[row])
        value = {"kind": kind, "events": first + row, "time": time, **signal._asdict()}
        if signal.column is None:
            del value["column"]
        elif isinstance(signal.column, str):  # a name out of an event may be as long as that
            value["column"] = shortened(signal.column)
        # A sink tells records apart by their places; two alarms may be of one event.
        return Output(f"{partition}#{kind}", offset, time, None, value)

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        watches = {kind: watch.to_json() for kind, watch in self._every.items()}
        return {"counts": dict(self.counts), "level": self._level, "watches": watches}

    def restore(self, data: Any) -> None:
        """Go on from `to_json`; quantities that were not watched then begin anew.

        Raises `StateError` if the data is not its own.
        """
        with reading("the alarms"):
            self.counts = {str(kind): int(n) for kind, n in data["counts"].items()}
            saved = dict(data["watches"])
            if data["level"] != self._level:
                saved.pop("coverage", None)
        for kind, watch in self._every.items():
            if kind in saved:
                watch.restore(saved[kind])

    @property
    def _every(self) -> dict[str, Rise | Bounds | CovariateWatch]:
        """All watches by their kinds."""
        return {**self._watches, "covariate_drift": self._columns}


def _confidences(found: Prequential, classes: Sequence[Any]) -> Floats:
    """Return the probability of each predicted class, NaN where there was none."""
    assert found.probabilities is not None
    place = {label: k for k, label in enumerate(classes)}
    codes = np.array([place.get(one, -1) for one in found.predictions.tolist()], np.intp)
    sure = np.full(len(codes), np.nan)
    told = np.flatnonzero(codes >= 0)
    sure[told] = found.probabilities[told, codes[told]]
    return sure
