"""Batches of events whose columns have names, and data frames of any library among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from streamk.adapters.rows import Model, Numbers
from streamk.errors import InvalidInput

__all__ = ["Batch", "Frame", "as_frame"]

_CELLS = 1 << 20
"""Numbers of a part of a batch, about: 8 MiB."""
_EVENTS = 1024
"""Events of a part, at most."""


class Batch(ABC):
    """Events in an order; each becomes the same row of an array as it would alone."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def width(self) -> int:
        """Return the number of columns."""

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
        """Yield arrays of events that are to be predicted.

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        for some in self._parts():
            found = self.numbers(model, some)
            yield model.rows(self.dicts(some)) if found is None else found

    def learn(self, model: Model, labels: Sequence[Any]) -> None:
        """Learn the events with their labels, in order; other threads come between two parts.

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it, after the events before have been learned.
        """
        for some in self._parts():
            with model.lock:
                found = self.numbers(model, some)
                if found is None:
                    model.learn(self.dicts(some), labels[some])
                elif len(found):
                    model.learner.learn_many(found, list(labels[some]))


class Frame(Batch):
    """The rows of a data frame of pandas, Polars, Arrow or another library that narwhals knows.

    A null is missing, a category is its text, and dates, lists and structs are what Python has for
    them.
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame = frame
        kinds = frame.schema.values()
        self._plain = all(kind.is_numeric() or kind == nw.Boolean for kind in kinds)

    def __len__(self) -> int:
        return len(self._frame)

    @property
    def names(self) -> list[Hashable]:
        """Return the names of the columns."""
        return list(self._frame.columns)

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.names)

    def take(self, places: NDArray[np.intp]) -> Self:
        """Return the rows at these places."""
        return type(self)(self._frame[places.tolist()])

    def numbers(self, model: Model, some: slice) -> Numbers | None:
        """Return rows for the model; None unless it has just the known columns of numbers."""
        if not self._plain:
            return None
        frame = self._frame[some]
        if frame.implementation.is_pandas_like():
            # Nullable columns have no NumPy dtype in common unless one is asked for.
            cells = frame.to_native().to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            cells = np.asarray(frame.to_numpy(), dtype=np.float64)
        return model.rows_of_columns(frame.columns, cells)

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
    return values


def as_frame(X: Any) -> Frame | None:
    """Return the rows of a data frame; None if it is none that narwhals knows.

    >>> import numpy as np
    >>> as_frame(np.zeros((2, 2))) is None
    True
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return Frame(frame) if isinstance(frame, nw.DataFrame) else None
