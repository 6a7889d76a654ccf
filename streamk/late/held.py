"""Events held in an array until their labels come: their values and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, NON_NEGATIVE, Declared, Domain, taken, within
from streamk.errors import StateError

Floats = NDArray[np.float64]
Places = Sequence[int] | NDArray[np.intp]
HeldRecords = NDArray[np.void]
"""Events, see `record_type`."""

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
_PACKED = (
    Declared("records", "uint8", ("events", "size"), ANY),
    Declared("layout", "int64", (2,), NON_NEGATIVE),
)


def record_type(columns: int, classes: int) -> np.dtype[Any]:
    """Return the layout of an event with so many columns and classes, 8 bytes each field.

    Its fields are

    X : the values of the columns
    P : predicted probabilities; NaN of classes that were not known, none for regression
    said : the number of the predicted class, -1 for none, or the predicted number
    width : columns there were when the event came
    number : under which a learner keeps what its parts have predicted
    threshold : of the event's region, see `streamk.conformal`; NaN where it has none
    slice : number of the event's slice, see `Slices`; NaN where it has none

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


def packed(records: HeldRecords) -> dict[str, NDArray[Any]]:
    """Return events (n,) as arrays of a file: their bytes, and how many columns and classes."""
    kind = records.dtype
    return {
        "records": np.frombuffer(records.tobytes(), np.uint8).reshape(len(records), kind.itemsize),
        "layout": np.array([kind["X"].shape[0], kind["P"].shape[0]], np.int64),
    }


def unpacked(arrays: dict[str, NDArray[Any]], where: str) -> HeldRecords:
    """Return the events that `packed` gave. Raises `StateError` if they are none."""
    found, sizes = taken(_PACKED, arrays, {}, where)
    kind = record_type(*found["layout"].tolist())
    if sizes["size"] != kind.itemsize:
        raise StateError(f"{where}: events of {sizes['size']} bytes do not fit their layout")
    return np.frombuffer(found["records"].astype(np.uint8).tobytes(), kind)


class HeldEvents:
    """Events in slots, which are given and freed by whoever holds them.

    Slots are numbers from 0 on, as low as may be, of the array `events`, see `record_type`. One
    that is freed is given again only after `settle`, since what is in it may still be read until
    then. A column that has come after the event has the value `blank`: 0, or NaN where it is
    missing then.

    Examples
    --------
    >>> held = HeldEvents(0.0)
    >>> held.take(), held.take(), held.free(0), held.take(), held.settle(), held.take()
    (0, 1, None, 2, None, 0)
    >>> P = np.full((2, 2), 0.5)
    >>> held.put([0, 1], np.eye(2), [2, 2], P, [1.0, 0.0], [7, 8], np.nan, np.nan)
    >>> held.rows([1], 3)
    array([[0., 1., 0.]])
    """

    def __init__(self, blank: float) -> None:
        self._blank = blank
        self._used = 0
        """Slots that were ever taken."""
        self._free: list[int] = []
        self._freed: list[int] = []
        self.events = self._blanks(_FIRST, record_type(0, 0))

    def take(self) -> int:
        """Return a slot that is free."""
        if self._free:
            return self._free.pop()
        self._used += 1
        return self._used - 1

    def free(self, slot: int) -> None:
        """Give a slot back; -1 is none."""
        if slot >= 0:
            self._freed.append(slot)

    def settle(self) -> None:
        """Have all that was freed given again: nothing that was in it is read any more."""
        self._free += self._freed
        self._freed = []

    def _blanks(self, n: int, kind: np.dtype[Any]) -> HeldRecords:
        made = np.zeros(n, kind)
        made["X"] = self._blank
        made["P"] = made["threshold"] = made["slice"] = np.nan
        made["said"] = -1.0  # a class 0 may not be known yet
        return made

    def _make_room(self, slots: int, columns: int, classes: int) -> None:
        """Have room for so many slots, columns and classes at least."""
        old, n = self.events, len(self.events)
        d, k = old.dtype["X"].shape[0], old.dtype["P"].shape[0]
        if slots <= n and columns <= d and classes <= k:
            return
        larger = n if slots <= n else max(slots, n + n // 2)
        self.events = self._blanks(larger, record_type(max(columns, d), max(classes, k)))
        self._copy(old, self.events[:n])

    @staticmethod
    def _copy(records: HeldRecords, to: HeldRecords) -> None:
        """Copy events into blank ones with as many columns and classes, or more."""
        for name in ("X", "P"):
            to[name][:, : records.dtype[name].shape[0]] = records[name]
        for each in _DECLARED[2:]:
            to[each.name] = records[each.name]

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
        """Put n events X (n, d) into slots; of each only the first `width` columns count."""
        P = np.zeros((len(X), 0)) if P is None else P
        self._make_room(max(slots) + 1, X.shape[1], P.shape[1])
        made = self._blanks(len(X), self.events.dtype)
        for columns in sorted(set(width)):  # mostly one
            some = [i for i, w in enumerate(width) if w == columns]
            made["X"][some, :columns] = X[some, :columns]
        made["P"][:, : P.shape[1]] = P
        made["said"], made["width"], made["number"] = said, width, numbers
        made["threshold"], made["slice"] = thresholds, slices
        self.events[slots] = made

    def rows(self, slots: Places, width: int) -> Floats:
        """Return the values of the events in slots, float64 (n, width)."""
        found = np.full((len(slots), width), self._blank)
        shared = min(width, self.events.dtype["X"].shape[0])
        found[:, :shared] = self.events["X"][slots, :shared]
        return found

    def records(self, slots: Places) -> HeldRecords:
        """Return the contents of slots (n,), in order; slot -1 gives a blank event."""
        picks = np.asarray(slots, np.intp)
        found = self.events[picks]
        found[picks < 0] = self._blanks(1, found.dtype)
        return found

    def put_records(self, slots: Places, records: HeldRecords) -> None:
        """Put events (n,) into slots as `records` gave them, when there were as many columns."""
        kind = records.dtype
        self._make_room(max(slots, default=-1) + 1, kind["X"].shape[0], kind["P"].shape[0])
        made = self._blanks(len(records), self.events.dtype)
        self._copy(records, made)
        self.events[slots] = made


def check_held(records: HeldRecords, columns: int, classes: int | None, numbers: int) -> None:
    """Raise `StateError` if events do not fit so many columns, classes and events ever held.

    Classes are None for regression.
    """
    arrays = {each.name: records[each.name] for each in _DECLARED}
    found, sizes = taken(_DECLARED, arrays, {"events": len(records)}, "held events")
    if max(sizes["columns"], int(found["width"].max(initial=0))) > columns:
        raise StateError(f"held events have more than the {columns} columns of the stream")
    if sizes["classes"] > (classes or 0):
        raise StateError(f"held events have more than the {classes or 0} classes of the model")
    if classes is not None:
        within(found["said"], Domain(-1, classes - 1, whole=True), "said", "held events")
    within(found["number"], Domain(0, numbers - 1), "number", "held events")
