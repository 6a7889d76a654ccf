"""Events held until their labels come, in arrays: their values, and what was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, NON_NEGATIVE, Declared, Domain, taken, within
from streamk.engine.waiting.slots import Slots
from streamk.errors import StateError

__all__ = ["HeldEvents", "Limits", "Records", "record_type"]

Floats = NDArray[np.float64]
Places = Sequence[int] | NDArray[np.intp]
Records = NDArray[np.void]
"""Events as they are in a file, see `record_type`."""

_FIRST = 1024
"""Slots there is room for at first."""

_DECLARED = (
    Declared("X", "float64", ("events", "columns"), ANY),
    Declared("P", "float64", ("events", "classes"), Domain(0.0, 1.0, missing=True)),
    Declared("said", "float64", ("events",)),
    Declared("width", "int64", ("events",), NON_NEGATIVE),
    Declared("number", "int64", ("events",), NON_NEGATIVE),
    Declared("threshold", "float64", ("events",), Domain(0.0, missing=True)),
    Declared("slice", "float64", ("events",), Domain(0.0, missing=True)),
)


def record_type(columns: int, classes: int) -> np.dtype[Any]:
    """Return the layout of an event with so many columns and classes, 8 bytes each field.

    >>> record_type(3, 2).itemsize
    80
    """
    shapes = {"columns": (columns,), "classes": (classes,)}
    return np.dtype(
        [
            (each.name, f"<{each.dtype[0]}8", *(shapes[str(axis)] for axis in each.shape[1:]))
            for each in _DECLARED
        ]
    )


class HeldEvents:
    """Events in slots, which are given and freed by whoever holds them.

    Parameters
    ----------
    blank : float
        The value of a column that has come after the event: 0, or NaN where it is missing then.

    Attributes
    ----------
    slots : Slots
    X : float64 array of shape (slots, columns)
    P : float64 array of shape (slots, classes)
        Predicted probabilities; NaN of classes that were not known. No column for regression.
    said : float64 array of shape (slots,)
        The number of the predicted class, -1 for none, or the predicted number.
    width : int64 array of shape (slots,)
        Columns there were when the event came.
    number : int64 array of shape (slots,)
        Under which a learner keeps what its parts have predicted.
    threshold : float64 array of shape (slots,)
        Of the event's region, see `streamk.conformal`; NaN where it has none.
    slice : float64 array of shape (slots,)
        Number of the event's slice, see `Slices`; NaN where it has none.

    Examples
    --------
    >>> held = HeldEvents(0.0)
    >>> P = np.full((2, 2), 0.5)
    >>> held.put([0, 1], np.eye(2), [2, 2], P, [1.0, 0.0], [7, 8], np.nan, np.nan)
    >>> held.rows([1], 3)
    array([[0., 1., 0.]])
    """

    def __init__(self, blank: float) -> None:
        self._blank = blank
        self.slots = Slots()
        self._allocate(_FIRST, 0, 0)

    def _allocate(self, slots: int, columns: int, classes: int) -> None:
        self.X: Floats = np.full((slots, columns), self._blank)
        self.P: Floats = np.full((slots, classes), np.nan)
        self.said: Floats = np.zeros(slots)
        self.width = np.zeros(slots, np.int64)
        self.number = np.zeros(slots, np.int64)
        self.threshold: Floats = np.full(slots, np.nan)
        self.slice: Floats = np.full(slots, np.nan)

    def _make_room(self, slots: int, columns: int, classes: int) -> None:
        """Have room for so many slots, columns and classes at least."""
        n, d = self.X.shape
        k = self.P.shape[1]
        if slots <= n and columns <= d and classes <= k:
            return
        old = self._arrays
        larger = n if slots <= n else max(slots, n + n // 2)
        self._allocate(larger, max(columns, d), max(classes, k))
        for before, now in zip(old, self._arrays, strict=True):
            now[tuple(slice(length) for length in before.shape)] = before

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def _arrays(self) -> list[NDArray[Any]]:
        return [getattr(self, each.name) for each in _DECLARED]

    def put(
        self,
        slots: Places,
        X: Floats,
        width: Sequence[int],
        P: Floats | None,
        said: Sequence[float] | Floats,
        numbers: Sequence[int],
        thresholds: Floats | float,
        slices: Floats | float,
    ) -> None:
        """Put n events into slots.

        Parameters
        ----------
        slots : sequence of n int
        X : float64 array of shape (n, d)
            Of each event only the first `width` columns count.
        width : sequence of n int
        P : float64 array of shape (n, k), or None
        said : sequence of n float
        numbers : sequence of n int
        thresholds, slices : float64 array of shape (n,), or NaN
        """
        P = np.zeros((len(X), 0)) if P is None else P
        self._make_room(max(slots) + 1, X.shape[1], P.shape[1])
        self.X[slots] = self._blank
        for columns in sorted(set(width)):  # mostly one
            some = [i for i, w in enumerate(width) if w == columns]
            at = np.asarray(slots)[some]
            self.X[at[:, None], np.arange(columns)] = X[some, :columns]
        self.P[slots] = np.nan
        self.P[slots, : P.shape[1]] = P
        self.said[slots], self.width[slots], self.number[slots] = said, width, numbers
        self.threshold[slots], self.slice[slots] = thresholds, slices

    def rows(self, slots: Places, width: int) -> Floats:
        """Return the events in slots, float64 (n, width)."""
        found = np.full((len(slots), width), self._blank)
        shared = min(width, self.X.shape[1])
        found[:, :shared] = self.X[slots, :shared]
        return found

    # --- files and state --------------------------------------------------------------------------

    @property
    def record_bytes(self) -> int:
        """Bytes of a record now."""
        return record_type(self.X.shape[1], self.P.shape[1]).itemsize

    def records(self, slots: Places) -> Records:
        """Return what is in slots, in this order, as records (n,); of slot -1 an event of 0s."""
        picks = np.asarray(slots, np.intp)
        found = np.empty(len(picks), record_type(self.X.shape[1], self.P.shape[1]))
        for each in _DECLARED:
            found[each.name] = getattr(self, each.name)[picks]
        absent = picks < 0
        found[absent] = 0
        found["said"][absent] = -1.0  # a class 0 may not be known yet
        found["threshold"][absent] = found["slice"][absent] = np.nan
        return found

    def put_records(self, slots: Places, records: Records) -> None:
        """Put events (n,) into slots as `records` gave them, when there were as many columns."""
        columns, classes = records.dtype["X"].shape[0], records.dtype["P"].shape[0]
        self._make_room(max(slots) + 1, columns, classes)
        self.X[slots], self.P[slots] = self._blank, np.nan
        self.X[slots, :columns], self.P[slots, :classes] = records["X"], records["P"]
        for each in _DECLARED[2:]:
            getattr(self, each.name)[slots] = records[each.name]

    def arrays(self, slots: Places) -> dict[str, NDArray[Any]]:
        """Return what is in slots, in this order, by the names of the arrays."""
        picks = np.asarray(slots, np.intp)
        return {each.name: getattr(self, each.name)[picks] for each in _DECLARED}

    def restore(self, n: int, arrays: Mapping[str, NDArray[Any]], limits: Limits) -> None:
        """Go on with n events, in slots 0 to n - 1, as `arrays` gave them.

        Raises
        ------
        StateError
            If they do not fit.
        """
        found = limits.check(n, arrays)
        self.slots.begin(n)
        self._allocate(_FIRST, 0, 0)
        self._make_room(n, found["X"].shape[1], found["P"].shape[1])
        for name, array in found.items():
            getattr(self, name)[tuple(slice(length) for length in array.shape)] = array


class Limits(NamedTuple):
    """Bounds of the events that may be held.

    Attributes
    ----------
    columns : int
        Columns that there are.
    classes : int or None
        Classes that there are; None for regression.
    numbers : int
        Events that were ever held, which have the numbers below it.
    """

    columns: int
    classes: int | None
    numbers: int

    def check(self, n: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the arrays of n events, or raise `StateError` if they do not fit."""
        found, sizes = taken(_DECLARED, arrays, {"events": n}, "held events")
        columns, classes = self.columns, self.classes
        if max(sizes["columns"], int(found["width"].max(initial=0))) > columns:
            raise StateError(f"held events have more than the {columns} columns of the stream")
        if sizes["classes"] > (classes or 0):
            raise StateError(f"held events have more than the {classes or 0} classes of the model")
        if classes is not None:
            within(found["said"], Domain(-1, classes - 1, whole=True), "said", "held events")
        within(found["number"], Domain(0, self.numbers - 1), "number", "held events")
        return found

    def check_records(self, records: Records) -> None:
        """Raise `StateError` if events do not fit."""
        self.check(len(records), {each.name: records[each.name] for each in _DECLARED})
