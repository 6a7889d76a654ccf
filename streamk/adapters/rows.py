"""From events to the rows of an array that a learner takes."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import learners
from streamk.adapters.cells import OneHot, Texts, column_name
from streamk.errors import InvalidInput
from streamk.learners import Learner

Numbers = NDArray[np.float64]


class Model:
    """A learner that is fed dicts and columns of frames, and the columns it has met.

    Copies and pickles go through the learner's state.
    """

    def __init__(
        self,
        learner: Learner,
        names: Sequence[Hashable] = (),
        texts: Mapping[Hashable, Iterable[str]] | None = None,
    ) -> None:
        self.learner = learner
        self._hot = OneHot(texts)
        self._index = {name: number for number, name in enumerate(names)}
        self._lay_out()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "learner": self.learner.state(),
            "names": list(self._index),
            "texts": self._hot.state(),
        }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        learner = learners.from_state(saved["learner"])
        Model.__init__(self, learner, saved["names"], saved["texts"])

    def _lay_out(self) -> None:
        """Prepare the fast way, for events that have every column and only numbers."""
        names = tuple(self._index)
        self._row = np.zeros(len(names))
        self._bytes = self._row.data.cast("B") if names else memoryview(bytearray())
        self._pack = struct.Struct(f"{len(names)}d").pack
        # With a single name itemgetter gives no tuple.
        self._get = itemgetter(*names) if len(names) > 1 else None

    def row(self, x: Mapping[Hashable, Any], *, learn: bool) -> Numbers:
        """Return an event as an array of shape (columns,), which the next call overwrites."""
        if self._get is not None and isinstance(x, dict) and len(x) == len(self._index):
            try:
                self._bytes[:] = self._pack(*self._get(x))
                return self._row
            except (KeyError, OverflowError, struct.error):
                pass  # another column, a string, None or a number past the range of floats
        if not hasattr(x, "items"):
            raise InvalidInput(f"an event is a dict of columns, not {x!r:.60}")
        row: Numbers = self.rows([x], learn=learn)[0]
        return row

    def rows_of_columns(
        self, names: Sequence[Hashable], numbers: Numbers, *, learn: bool
    ) -> Numbers:
        """Return events that came as named columns of an array, of shape (events, columns)."""
        if learn:
            self._meet(names)
        rows = np.zeros((len(numbers), len(self._index)))
        for name, column in zip(names, numbers.T, strict=True):
            if name in self._index:
                rows[:, self._index[name]] = column
        return rows

    def rows(self, events: Sequence[Mapping[Hashable, Any]], *, learn: bool) -> Numbers:
        """Return events as an array of shape (events, columns)."""
        new: Texts | None = {} if learn else None
        cells = [self._hot.cells(event, new) for event in events]
        if new is not None:
            self._meet([name for event in cells for name in event])
            self._hot.keep(new)
        rows = np.zeros((len(cells), len(self._index)))
        for row, event in zip(rows, cells, strict=True):
            for name, value in event.items():
                number = self._index.get(name)
                if number is not None:
                    row[number] = value
        return rows

    def _meet(self, names: Sequence[Hashable]) -> None:
        """Give names not met before their columns, in an order that is not the event's."""
        new = {name: column_name(name) for name in names if name not in self._index}
        if new or self.learner.columns is None:
            ordered = sorted(new, key=lambda name: (isinstance(new[name], str), new[name]))
            self.learner.add_columns([new[name] for name in ordered])
            for name in ordered:
                self._index[name] = len(self._index)
            self._lay_out()
