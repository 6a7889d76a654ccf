"""A two-sample test of events with columns that may appear along the stream."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.declared import Declared, count, listed, reading, taken
from streamk.drift.streaming_mmd import WARM_UP, StreamingMMD
from streamk.errors import StateError
from streamk.features.columns import Column, column_key, column_keys
from streamk.state import State

Cells = Mapping[Column, float]
"""The columns of an event that are not 0, and their numbers; NaN is missing."""

SHARED = 64
"""Columns that those without one of their own share. One text of 2,000 that comes in 30% of the
events is found after 92 of them; with 16 columns after 192, with 8 after 278."""
_OTHERS = ("(others)",) * SHARED + ("(new)",)
"""Names of the shared columns; the last counts what no first event had."""
_OFTEN = 2
"""First events that have a column which gets one of its own: ids of events, which come once each,
would be as many columns that are 0 for ever."""
_OWNER = "a two-sample test of events"


class EventMMD:
    """Test whether events go on to come from one law, whatever columns they have.

    An event becomes a point by the first 64 events of the run, and by nothing that comes later:

    - A column that two of those have is a column, up to `most` of them, the frequent ones first.
    - Any other adds 1, unless it is 0, to one of 64 that they share, by the hash of its name, and
      to one more if none of the first 64 events had it.

    So events that are exchangeable are so as points, given the first 64. These are training events
    of the test, see `streamk.drift`: what it promises holds for texts that come once each, for
    fields that come late and for rare ones. An encoding that goes on to make columns as they come,
    as that of the models, would turn the order of the events into a difference between them.

    Parameters
    ----------
    most : int
        Most columns of their own.
    options
        Those of `StreamingMMD`.

    Attributes
    ----------
    test : StreamingMMD

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> rng, test = np.random.default_rng(0), EventMMD(most=64)
    >>> usual = [{f"id={n}": 1.0, "a": a} for n, a in enumerate(rng.normal(size=2000))]
    >>> test.advance(usual), test.test.drift_detected
    (2000, False)
    >>> 20 < test.advance([{"id=0": 1.0, "a": a} for a in rng.normal(size=1000)]) < 200
    True
    """

    TYPE = "event-mmd"

    def __init__(self, *, most: int, **options: Any) -> None:
        self.test = StreamingMMD(0, **options)
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._first: list[Cells] = []
        """The first events of the run, as long as they are not all there."""
        self._own: dict[Column, int] = {}
        """Places of the columns of their own, which come before the shared ones."""
        self._known: frozenset[int] | None = None
        """Keys of the columns that the first events had, once these are all there."""
        self._shared: dict[Column, int] = {}
        """Shared places of columns that came again: hashing takes a microsecond."""

    def name(self, at: int, events: Sequence[Cells]) -> Column:
        """Return the name of a column of the test, by its number.

        One that is shared is the column that most of these events which have it mean; if none is
        most of them it is "(others)", or "(new)".
        """
        if at < len(self._own):
            return list(self._own)[at]
        pairs = ((column, {column: x}) for cells in events for column, x in cells.items())
        counts = Counter(column for column, alone in pairs if self._row(alone)[at])
        for column, n in counts.most_common(1):
            if 2 * n > counts.total():
                return column
        return _OTHERS[at - len(self._own)]

    def advance(self, events: Sequence[Cells]) -> int:
        """Take in events up to the first that is an alarm; return how many were taken in.

        Where it is one, `test.drift_detected` says so; the next event begins a new run.
        """
        if events and self.test.drift_detected:
            self.test.begin(())
            self._begin()
        taken = 0
        while taken < len(events) and not self.test.drift_detected:
            some = events[taken:]
            taken += self._hold(some) if self._known is None else self._follow(some)
        return taken

    def _hold(self, events: Sequence[Cells]) -> int:
        """Hold the first events of a run until they are all there; return how many were held."""
        some = events[: WARM_UP - len(self._first)]
        self._first += some
        if len(self._first) == WARM_UP:
            counts = Counter(
                column for cells in self._first for column, x in cells.items() if x == x
            )
            own = [column for column, n in counts.most_common(self._most) if n >= _OFTEN]
            self._use(own, frozenset(map(column_key, counts)))
            X = self.rows(self._first)
            columns = self._columns(shared=bool(X[:, len(own) :].any()))
            self.test.begin(columns)
            self.test.advance(X[:, : len(columns)])
            self._first = []
        return len(some)

    def _use(self, own: Sequence[Column], known: frozenset[int]) -> None:
        self._own = {column: place for place, column in enumerate(own)}
        self._known = known

    def _follow(self, events: Sequence[Cells]) -> int:
        """Test events, up to the first in a shared column where there are none yet."""
        X, own = self.rows(events), len(self._own)
        if len(self.test.columns) == own:
            sharing = np.flatnonzero(X[:, own:].any(axis=1))
            n = int(sharing[0]) if len(sharing) else len(X)
            if n:
                return self.test.advance(X[:n, :own])
            self.test.add_columns(self._columns(shared=True)[own:])
        return self.test.advance(X)

    def _columns(self, *, shared: bool) -> list[int]:
        """Return what the test's columns are called."""
        return [*range(len(self._own)), *range(self._most, self._most + shared * len(_OTHERS))]

    def _row(self, cells: Cells) -> list[float]:
        """Return an event as its numbers in the columns of their own, and the shared ones."""
        own, shared = self._own, self._shared
        n = len(own)
        row = [0.0] * (n + len(_OTHERS))
        for column, x in cells.items():
            if column in own:
                row[own[column]] = x
            elif x == x and x != 0.0:
                place = shared.get(column)
                if place is None:
                    key = column_key(column)
                    place = n + key % SHARED
                    if key in (self._known or ()):
                        shared[column] = place
                    else:
                        row[-1] += 1.0
                row[place] += 1.0
        return row

    def rows(self, events: Sequence[Cells]) -> NDArray[np.float64]:
        """Return events in the columns of their own, and the shared ones, (n, d)."""
        rows = list(map(self._row, events))
        return np.array(rows).reshape(len(rows), len(self._own) + len(_OTHERS))

    # --- state ------------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            "most": self._most,
            "first": [to_pairs(cells) for cells in self._first],
            "own": None if self._known is None else list(self._own),
        }
        known = np.array(sorted(self._known or ()), np.uint64)
        return State.nest({"test": self.test.state()}, header, {"known": known})

    def __reduce__(self) -> tuple[Any, ...]:
        return EventMMD.from_state, (self.state(),)

    @classmethod
    def from_state(cls, state: State) -> EventMMD:
        """Return the test of a state.

        Raises `StateError` if the state is something else's or its parts do not fit, and
        `InvalidInput` if an option in it is out of its domain.
        """
        header = state.expect(cls.TYPE).header
        events = cls(most=count(header, "most", _OWNER))
        events.test = StreamingMMD.from_state(state.child("test"))
        arrays, _ = taken(_DECLARED, state.arrays, {}, _OWNER)
        with reading(_OWNER):
            events._first = [from_pairs(cells) for cells in listed(header, "first", _OWNER)]
        if header.get("own") is not None:
            own = listed(header, "own", _OWNER)
            with reading(_OWNER):
                column_keys(own)
            events._use(own, frozenset(arrays["known"].tolist()))
        held, begun = len(events._first), events._known is not None
        columns = [events._columns(shared=shared) for shared in (False, True)]
        if (
            list(events.test.columns) not in columns[: 1 + begun]
            or held > (0 if begun else WARM_UP - 1)
            or len(events._own) > events._most
        ):
            raise StateError(f"the columns of {_OWNER} contradict each other; it is damaged")
        return events


_DECLARED = (Declared("known", "uint64", ("known",)),)


def to_pairs(cells: Cells) -> list[Any]:
    """Return an event as JSON data."""
    return [[column, None if x != x else x] for column, x in cells.items()]


def from_pairs(pairs: Any) -> Cells:
    """Return the event that `to_pairs` wrote. Bad data raises the error that it causes."""
    cells = {column: math.nan if x is None else float(x) for column, x in pairs}
    column_keys(cells)
    if any(abs(x) > LARGEST for x in cells.values()):
        raise ValueError(f"it holds a number past {LARGEST:g}")
    return cells
