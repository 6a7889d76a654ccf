"""Watches over numbers: for a rise against the past, and for a mean out of its bounds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from streamk.drift.rise import RiseTest
from streamk.errors import StateError

__all__ = ["Bounds", "Rise", "Signal", "Watch"]

_RECENT = 100
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


class Signal(NamedTuple):
    """Content of an alarm.

    Attributes
    ----------
    value, threshold : float
        What went beyond what.
    before, now : float
        Means of the past, or what was expected, and of the last numbers.
    """

    value: float
    threshold: float
    before: float
    now: float


class Watch(Protocol):
    """Takes in what is watched of one event after the other."""

    def update(self, number: float, expected: float, variance: float) -> Signal | None:
        """Take in a number, what was expected of it, and its variance then; return an alarm."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        ...

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        ...


class Rise:
    """Numbers that have become larger than those before.

    Parameters
    ----------
    test : RiseTest

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
        self._last: deque[float] = deque(maxlen=_RECENT)

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
        try:
            self._last = deque(map(float, data["last"]), maxlen=_RECENT)
            self._test = self._test.from_json(data["test"])
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error


class Bounds:
    """A mean of the last numbers that is further from what was expected than chance explains.

    The bound is five standard deviations of the mean, were the numbers independent, of a variance
    that is larger by 1 over the window: where next to no number is expected to be 0, or 1, a single
    one that is must not be beyond it. Every 20 numbers it is looked whether the mean is beyond it;
    that is one alarm, and the next one comes when the mean has come back to a quarter of it
    meanwhile.

    Parameters
    ----------
    window : int, default 1000
        Numbers in the mean; before that there is no alarm.
    below : bool, default False
        Only a mean that is too low is one.

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
        """Take in a number, what was expected of it, and its variance then; return an alarm."""
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
        try:
            rows = deque((float(a), float(b), float(c)) for a, b, c in data["rows"])
            self._n, self._out = int(data["n"]), data["out"]
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        finite = all(math.isfinite(x) for row in rows for x in row)
        if not finite or len(rows) > self._window or not isinstance(self._out, bool):
            raise _unreadable("its numbers are out of their domain")
        self._rows = rows


def _unreadable(reason: object) -> StateError:
    return StateError(f"what is watched for alarms cannot be read: {reason!r}")
