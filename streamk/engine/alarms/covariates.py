"""The watch over the columns of events: their law becomes another one."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamk.backends import LARGEST
from streamk.declared import Declared, Domain, taken
from streamk.drift import StreamingMMD
from streamk.drift.draws import Draws
from streamk.errors import InvalidInput, StateError
from streamk.packing import pack, unpack
from streamk.state import State

__all__ = ["ColumnSignal", "CovariateWatch", "Covariates"]

_BLOCK = 8
"""Events of which one is looked at, drawn by the seed: more cost more than they find."""
_TOGETHER = 32
"""Events that the test takes in at once: one by one they cost several times as much."""
_REST = 1024
"""Blocks after an alarm of which none is looked at: a stream that changes all the time is not told
of all the time, and a test that begins anew costs some milliseconds."""
_MOST = 64
"""Columns that are watched, the first ones."""
_REFERENCE = 1024
"""Most events that the last ones are compared with."""
_FEATURES = 192
_RECENT = 50
"""Events looked at in what an alarm tells of a column."""
_SEED = 1
"""Of the test. The events are drawn by another one: which event of a block it is must not decide
whether the test trains with it."""

_EVENTS = Domain(-LARGEST, LARGEST)
_DECLARED = (
    Declared("held", "float64", ("held", "columns"), _EVENTS),
    Declared("last events", "float64", ("last", "columns"), _EVENTS),
)

Floats = npt.NDArray[np.float64]
Name = str | int


class Covariates(NamedTuple):
    """The columns of events.

    Attributes
    ----------
    X : float64 array (n, d)
    width : int64 array (n,)
        Columns that there were when each event had come.
    names : sequence of str or int
        Of columns, d at least.
    """

    X: Floats
    width: npt.NDArray[np.int64]
    names: Sequence[Name]


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
    """The columns of one event in 8 follow another law than before, see `StreamingMMD`.

    Of the first 64 columns. What is missing counts as 0. After an alarm the next 8,192 events are
    not looked at.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> X[10_000:, 1] += 1.0
    >>> watch, width = CovariateWatch(), np.full(len(X), 2)
    >>> ((row, signal),) = watch.update(Covariates(X, width, ("a", "b")))
    >>> 10_000 < row < 12_000, signal.column
    (True, 'b')
    """

    def __init__(self) -> None:
        self._seen = 0
        self._draws = Draws(0)
        self._next = self._place(0)
        self._test: StreamingMMD | None = None
        self._held: Floats = np.zeros((0, 0))
        """Events that the test takes in next."""
        self._recent: Floats = np.zeros((0, 0))

    def _place(self, block: int) -> int:
        """Return which event of a block, counted from the first of all, is looked at."""
        return block * _BLOCK + int(self._draws.take(block, 1)[0, 0] * _BLOCK)

    def update(self, some: Covariates) -> list[tuple[int, ColumnSignal]]:
        """Take in events in their order; return the rows at which alarms were found, ascending."""
        first, stop = self._seen, self._seen + len(some.X)
        self._seen = stop
        found: list[tuple[int, ColumnSignal]] = []
        while self._next < stop:
            rows = self._rows(some.width, first)
            width = min(int(some.width[rows[0]]), _MOST)
            if not width:
                continue
            test = self._test_of(tuple(some.names[:width]))
            X = np.clip(np.nan_to_num(some.X[rows, :width]), -LARGEST, LARGEST)
            self._held = np.concatenate([self._held, X])
            signal = self._tested(test) if len(self._held) == _TOGETHER else None
            if signal is not None:
                found.append((rows[-1], signal))
                self._next = self._place(self._next // _BLOCK + _REST)
        return found

    def _rows(self, width: npt.NDArray[np.int64], first: int) -> list[int]:
        """Return the next rows to be looked at, of one width and not more than are tested next."""
        rows: list[int] = []
        room, stop = _TOGETHER - len(self._held), first + len(width)
        while self._next < stop and len(rows) < room:
            row = self._next - first
            if rows and width[row] != width[rows[0]]:
                break
            rows.append(row)
            self._next = self._place(self._next // _BLOCK + 1)
        return rows

    def _test_of(self, names: tuple[Name, ...]) -> StreamingMMD:
        """Return the test of these columns; of others than before it begins anew."""
        test = self._test
        known = () if test is None else test.columns
        if test is None or names[: len(known)] != known:
            test = self._test = StreamingMMD(
                names, reference=_REFERENCE, max_features=_FEATURES, seed=_SEED
            )
            self._held = self._recent = np.zeros((0, len(names)))
        elif len(names) > len(known):
            test.add_columns(names[len(known) :])
            more = ((0, 0), (0, len(names) - len(known)))
            self._held, self._recent = np.pad(self._held, more), np.pad(self._recent, more)
        return test

    def _tested(self, test: StreamingMMD) -> ColumnSignal | None:
        """Have the test take in what is held; what comes after an alarm is dropped."""
        taken_in = self._held[: test.advance(self._held)]
        self._recent = np.concatenate([self._recent, taken_in])[-_RECENT:]
        self._held = self._held[:0]
        return self._signal(test) if test.drift_detected else None

    def _signal(self, test: StreamingMMD) -> ColumnSignal:
        """Return the content of an alarm that has just come."""
        before, now = test.sample, self._recent
        distances = [_distance(a, b) for a, b in zip(before.T, now.T, strict=True)]
        most = int(np.argmax(distances))
        means = float(before[:, most].mean()), float(now[:, most].mean())
        return ColumnSignal(1.0 / test.p_value, 1.0 / test.alpha, *means, test.columns[most])

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        found: dict[str, Any] = {"seen": self._seen, "next": self._next, "test": None}
        if self._test is not None:
            state = self._test.state()
            own = {"held": self._held, "last events": self._recent}
            arrays = pack({**state.arrays, **own})
            found["test"] = {
                "header": state.header,
                "arrays": base64.b64encode(arrays).decode("ascii"),
            }
        return found

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        try:
            seen, following, test = int(data["seen"]), int(data["next"]), data["test"]
            if test is not None:
                packed = base64.b64decode(test["arrays"], validate=True)
                arrays = unpack(packed, "what is watched of the columns")
                found = StreamingMMD.from_state(State(test["header"], arrays))
                sizes = {"columns": len(found.columns)}
                own, sizes = taken(_DECLARED, arrays, sizes, "what is watched of the columns")
                if sizes["held"] >= _TOGETHER or sizes["last"] > _RECENT:
                    raise ValueError("it holds more events than it may")
                self._test, self._held, self._recent = found, own["held"], own["last events"]
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise StateError(f"what is watched of the columns cannot be read: {error!r}") from error
        if not 0 <= seen <= following <= seen + _BLOCK * (_REST + 2):
            raise StateError(f"what is watched of the columns has seen {seen} events")
        self._seen, self._next = seen, following


def _distance(before: Floats, now: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples."""
    at = np.concatenate([before, now])
    shares = [
        np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (before, now)
    ]
    return float(np.abs(shares[0] - shares[1]).max())
