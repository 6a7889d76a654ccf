"""The watch over the columns of events: their law becomes another one."""

from __future__ import annotations

import base64
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamk.drift import EventMMD
from streamk.drift.event_mmd import Cells, from_pairs, to_pairs
from streamk.drift.rise import Draws
from streamk.errors import InvalidInput, StateError
from streamk.packing import pack, unpack
from streamk.state import State

__all__ = ["ColumnSignal", "CovariateWatch"]

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
Name = str | int


class ColumnSignal(NamedTuple):
    """Content of an alarm.

    Attributes
    ----------
    value, threshold : float
        One over the p-value, beyond one over its level.
    before, now : float
        Means of a column in the past, and in the last events that were looked at.
    column : str or int
        The one whose distribution has changed most, by its Kolmogorov-Smirnov distance.
    """

    value: float
    threshold: float
    before: float
    now: float
    column: Name


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

    def update(self, n: int, read: Callable[[int], Cells]) -> list[tuple[int, ColumnSignal]]:
        """Take in events in their order; return the rows at which alarms were found, ascending.

        Parameters
        ----------
        n : int
            How many.
        read : function
            From a row to the columns of the event, see `streamk.encoding.alone`.
        """
        first = self._seen
        self._seen += n
        found: list[tuple[int, ColumnSignal]] = []
        while self._next < self._seen:
            row, block = self._next - first, self._next // _BLOCK
            self._next = self._place(block + 1)
            self._held.append(read(row))
            signal = self._tested() if len(self._held) == _TOGETHER else None
            if signal is not None:
                found.append((row, signal))
                self._next = self._place(block + 1 + _REST)
        return found

    def _tested(self) -> ColumnSignal | None:
        """Have the test take in what is held; what comes after an alarm is dropped."""
        taken = self._test.advance(self._held)
        self._recent += self._held[:taken]
        self._held = []
        return self._signal() if self._test.test.drift_detected else None

    def _signal(self) -> ColumnSignal:
        """Return the content of an alarm that has just come."""
        test = self._test.test
        before, now = test.sample, self._test.rows(self._recent)
        now = now[:, : before.shape[1]]
        distances = [_distance(a, b) for a, b in zip(before.T, now.T, strict=True)]
        most = int(np.argmax(distances))
        means = _mean(before[:, most]), _mean(now[:, most])
        column = self._test.name(most, self._recent)
        return ColumnSignal(1.0 / test.p_value, 1.0 / test.alpha, *means, column)

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
        try:
            seen, following, test = int(data["seen"]), int(data["next"]), data["test"]
            packed = base64.b64decode(test["arrays"], validate=True)
            arrays = unpack(packed, "what is watched of the columns")
            found = EventMMD.from_state(State(test["header"], arrays))
            held, last = (list(map(from_pairs, data[name])) for name in ("held", "last events"))
            if len(held) >= _TOGETHER or len(last) > _RECENT:
                raise ValueError("it holds more events than it may")
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise StateError(f"what is watched of the columns cannot be read: {error!r}") from error
        if not 0 <= seen <= following <= seen + _BLOCK * (_REST + 2):
            raise StateError(f"what is watched of the columns has seen {seen} events")
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
