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
from streamk.features.random_features import check_events
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

    def row(self, x: Mapping[Hashable, Any], labels: Sequence[Any] | None = None) -> Numbers:
        """Return an event as an array of shape (columns,), which the next call overwrites.

        `labels` are as of `rows`.
        """
        if self._get is not None and isinstance(x, dict) and len(x) == len(self._index):
            try:
                self._bytes[:] = self._pack(*self._get(x))
                return self._row
            except (KeyError, OverflowError, struct.error):
                pass  # another column, a string, None or a number past the range of floats
        if not hasattr(x, "items"):
            raise InvalidInput(f"an event is a dict of columns, not {x!r:.60}")
        row: Numbers = self.rows([x], labels)[0]
        return row

    def rows_of_columns(
        self, names: Sequence[Hashable], numbers: Numbers, labels: Sequence[Any] | None = None
    ) -> Numbers:
        """Return events that came as named columns of an array, of shape (events, columns).

        `labels` are as of `rows`, but those of the events alone that are learned first.
        """
        index = self._index if labels is None else self._index_with(names)
        rows = np.zeros((len(numbers), len(index)))
        for name, column in zip(names, numbers.T, strict=True):
            if name in index:
                rows[:, index[name]] = column
        if labels is not None:
            self._meet(index, rows[: len(labels)], labels)
        return rows

    def rows(
        self, events: Sequence[Mapping[Hashable, Any]], labels: Sequence[Any] | None = None
    ) -> Numbers:
        """Return events as an array of shape (events, columns).

        Parameters
        ----------
        events : sequence of mapping
        labels : sequence, optional
            Where the events are to be learned: their labels. What the events have that is new gets
            columns then, if none of them is to be refused.

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it, or, where there is something new, a label.
        """
        new: Texts = {}
        cells = [self._hot.cells(event, None if labels is None else new) for event in events]
        index = self._index
        if labels is not None:
            index = self._index_with([name for event in cells for name in event])
        rows = np.zeros((len(cells), len(index)))
        for row, event in zip(rows, cells, strict=True):
            for name, value in event.items():
                number = index.get(name)
                if number is not None:
                    row[number] = value
        if labels is not None:
            self._meet(index, rows, labels)
            self._hot.keep(new)
        return rows

    def _index_with(self, names: Sequence[Hashable]) -> dict[Hashable, int]:
        """Return the index with names not met before, in an order that is not the event's."""
        new = {name: column_name(name) for name in names if name not in self._index}
        if not new:
            return self._index
        ordered = sorted(new, key=lambda name: (isinstance(new[name], str), new[name]))
        return self._index | {name: n for n, name in enumerate(ordered, len(self._index))}

    def _meet(self, index: dict[Hashable, int], rows: Numbers, labels: Sequence[Any]) -> None:
        """Take over an index with new names, unless one of the events is to be refused."""
        learner = self.learner
        if index is self._index and learner.columns is not None:
            return
        new = [column_name(name) for name in list(index)[len(self._index) :]]
        check_events(rows, rows.dtype, (*(learner.columns or ()), *new), missing=True)
        learner.check_labels(labels, len(rows))
        learner.add_columns(new)
        self._index = index
        self._lay_out()
