"""Batches of events: arrays, dense or sparse, and data frames of any library."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from streamk.adapters.rows import Model, Numbers, order_of
from streamk.errors import InvalidInput

_CELLS = 1 << 20
"""Numbers of a part of a batch, about: 8 MiB."""
_EVENTS = 1024
"""Events of a part, at most."""


class EventBatch(ABC):
    """Events in order. Each becomes the same row of an array in a batch as alone."""

    width: int
    """Number of columns."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, places: NDArray[np.intp]) -> Self:
        """Return the events at these places."""

    @abstractmethod
    def numbers(self, model: Model, some: slice) -> Numbers | None:
        """Return rows for the model; None where values or columns ask for a closer look."""

    @abstractmethod
    def dicts(self, some: slice) -> list[dict[Hashable, Any]]:
        """Return events as dicts."""

    def _parts(self) -> Iterator[slice]:
        """Yield slices of all events, one at least, which need little memory as arrays."""
        size = max(1, min(_EVENTS, _CELLS // max(1, self.width)))
        for first in range(0, max(1, len(self)), size):
            yield slice(first, first + size)

    def rows(self, model: Model) -> Iterator[Numbers]:
        """Yield arrays of the events to predict."""
        for some in self._parts():
            found = self.numbers(model, some)
            yield model.rows(self.dicts(some)) if found is None else found

    @abstractmethod
    def contents(self, some: slice) -> Iterator[bytes]:
        """Yield the contents of events; equal events have equal contents."""

    def order(self, y: NDArray[Any], weights: Numbers | None) -> NDArray[np.intp]:
        """Return the places of events with labels and weights, see `order_of`."""
        labels = (label.tobytes() for label in y.astype(np.float64))
        contents = (one for some in self._parts() for one in self.contents(some))
        return order_of(map(operator.add, contents, labels), weights)

    def learn(self, model: Model, labels: Sequence[Any], weights: Numbers | None = None) -> None:
        """Learn the events with their labels, in order; other threads come between two parts.

        Weights (n,) tell how often each event is learned; what is left of fractions comes in with
        the next event of the label. Events of weight 0 are passed over.
        """
        if weights is not None and not weights.all():
            counting = np.flatnonzero(weights)
            labels, weights = [labels[i] for i in counting.tolist()], weights[counting]
            self.take(counting).learn(model, labels, weights)
            return
        for some in self._parts():
            known = list(labels[some])
            with model.lock:
                if weights is not None:
                    self._learn_weighted(model, some, known, weights[some])
                elif (found := self.numbers(model, some)) is None:
                    model.learn(self.dicts(some), known)
                elif len(found):
                    model.learner.learn_many(found, known)

    def _learn_weighted(
        self, model: Model, some: slice, labels: list[Any], weights: Numbers
    ) -> None:
        places = np.arange(len(self))[some]
        times, left = model.times(labels, weights.tolist())
        later = self.take(places[np.equal(times, 0)])
        if len(later):  # what is not usable is refused now
            list(later.rows(model))
        often = [label for label, n in zip(labels, times, strict=True) for _ in range(n)]
        self.take(np.repeat(places, times)).learn(model, often)
        model.left = left


class Array(EventBatch):
    """The rows of an array, dense or CSR, with optional names of columns."""

    def __init__(self, X: Any, names: list[Hashable] | None = None) -> None:
        self._X, self._names, self.width = X, names, int(X.shape[1])

    def __len__(self) -> int:
        return int(self._X.shape[0])

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return the rows at these places."""
        return type(self)(self._X[places], self._names)

    def _dense(self, some: slice) -> Numbers:
        rows = self._X[some]
        return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)

    def numbers(self, model: Model, some: slice) -> Numbers | None:
        """Return rows for the model; None where columns by name are new to it."""
        rows = self._dense(some)
        return rows if self._names is None else model.rows_of_columns(self._names, rows)

    def contents(self, some: slice) -> Iterator[bytes]:
        """Yield what rows are."""
        return (row.tobytes() for row in self._dense(some) + 0.0)

    def dicts(self, some: slice) -> list[dict[Hashable, Any]]:
        """Return rows as dicts, with NaN where a value is missing."""
        names = self._names or []
        return [dict(zip(names, row, strict=True)) for row in self._dense(some).tolist()]


class Frame(EventBatch):
    """The rows of a data frame of pandas, Polars, Arrow or another library that narwhals knows.

    A null is missing, a category is its text, and dates, lists, structs and maps are what Python
    has for them.
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame = frame
        self.names: list[Hashable] = list(frame.columns)
        self.width = len(self.names)
        kinds = frame.schema.values()
        self._plain = all(kind.is_numeric() or kind == nw.Boolean for kind in kinds)

    def __len__(self) -> int:
        return len(self._frame)

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return the rows at these places."""
        return type(self)(self._frame[places.tolist()])

    def numbers(self, model: Model, some: slice) -> Numbers | None:
        """Return rows for the model; None unless it has just the known columns of numbers."""
        if not self._plain:
            return None
        return model.rows_of_columns(self.names, self._cells(some))

    def _cells(self, some: slice) -> Numbers:
        """Return rows of a frame that has numbers and booleans alone."""
        frame = self._frame[some]
        if frame.implementation.is_pandas_like():
            # Nullable columns have no NumPy dtype in common unless one is asked for.
            return np.asarray(frame.to_native().to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(frame.to_numpy(), dtype=np.float64)

    def contents(self, some: slice) -> Iterator[bytes]:
        """Yield the contents of rows, as numbers where all values are numbers."""
        if self._plain:
            return (row.tobytes() for row in self._cells(some) + 0.0)
        return (repr([*row.values()]).encode() for row in self.dicts(some))

    def dicts(self, some: slice) -> list[dict[Hashable, Any]]:
        """Return rows as dicts, with None for a null."""
        frame = self._frame[some]
        columns = [
            [None if null else value for value, null in zip(values, nulls, strict=True)]
            for values, nulls in (
                (_values(series), series.is_null().to_list()) for series in frame.iter_columns()
            )
        ]
        return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(series: Any) -> list[Any]:
    try:
        values: list[Any] = series.to_list()
    except (OverflowError, ValueError) as error:  # a year past 9999
        raise InvalidInput(
            f"column {series.name!r} has a value that Python cannot hold: {error}"
        ) from error
    first = next((value for value in values if value is not None), None)
    if isinstance(first, list) and first and isinstance(first[0], tuple):  # of Arrow's maps
        values = [None if value is None else dict(value) for value in values]
    return values


def as_frame(X: Any) -> Frame | None:
    """Return the rows of a data frame, one at least; None if it is none that narwhals knows.

    >>> import numpy as np
    >>> as_frame(np.zeros((2, 2))) is None
    True
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    for what, n in zip(("sample", "feature"), frame.shape, strict=True):
        if not n:
            raise InvalidInput(f"found a data frame with 0 {what}(s); at least 1 is needed")
    return Frame(frame)
