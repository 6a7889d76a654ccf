"""Arrays of many rows, of which a checkpoint writes those that have changed.

Tables of millions of entities would otherwise be written whole with each checkpoint. Rows are in
files that checkpoints share, of at most `FILE_ROWS` rows, which never change (`SegmentFiles`). A
checkpoint has, in place of the array, of each row the file and the place in it, and their names are
in its manifest. Each file is at least half in use, and there are few small ones: a row is
written once more where less than half of its file is in use, and where `_SMALL` files have become
small. What is known of the files ends with the process: the first checkpoint of each writes all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from streamk.engine.checkpoints.segment_files import SegmentFiles, is_name
from streamk.errors import StateError
from streamk.packing import pack, unpack
from streamk.state import State

__all__ = ["FILE_ROWS", "LEAST", "RowFiles", "named_rows", "with_rows"]

LEAST = 1 << 22
"""Bytes of an array from which on it is written by its rows."""
_BITS = 14
FILE_ROWS = 1 << _BITS
"""Rows of a file at most."""
_SMALL = 32
"""Files of which less than half could be in use before they are put together."""

Places = NDArray[np.int64]


@dataclass
class _Written:
    """Places of the rows of an array: a file's number in the upper bits, and the row in it.

    `files` has by their numbers, which rise, the names and how many rows they have.
    """

    changed: NDArray[Any]
    width: int
    places: Places
    files: dict[int, tuple[str, int]]


class RowFiles:
    """Such arrays, as one job has written them into these files."""

    def __init__(self, files: SegmentFiles) -> None:
        self._files = files
        self._written: dict[str, _Written] = {}

    def write(self, state: State) -> tuple[dict[str, NDArray[Any]], dict[str, list[str]]]:
        """Write changed rows; return a state's arrays, and the files of those with places for rows.

        Rows that are written count as unchanged, whether a checkpoint comes of it or not.

        Raises
        ------
        EngineError
            If one cannot be written.
        """
        arrays, names = dict(state.arrays), {}
        large = {name for name in state.changed if arrays[name].nbytes >= LEAST}
        self._written = {name: one for name, one in self._written.items() if name in large}
        for name in sorted(large):
            now = self._follow(name, arrays[name], state.changed[name])
            at = np.searchsorted([*now.files], now.places >> _BITS)
            arrays[name] = (at << _BITS) + (now.places & (FILE_ROWS - 1))
            names[name] = [file for file, _ in now.files.values()]
        return arrays, names

    def _follow(self, name: str, rows: NDArray[Any], changed: NDArray[Any]) -> _Written:
        n, width = rows.shape
        one = self._written.get(name)
        # One that was made anew, or is of another model that has taken the name, is another array.
        # Where others have written rows since, these count as unchanged, but are not in files here.
        last = _WRITERS.get(id(changed))
        if one is None or one.changed is not changed or one.width != width or last is not self:
            _WRITERS[id(changed)] = self
            one = self._written[name] = _Written(changed, width, np.empty(0, np.int64), {})
        known = one.places[:n]
        one.places = places = np.full(n, -1)
        places[: len(known)] = np.where(changed[: len(known)], -1, known)
        lost = [number for number, (file, _) in one.files.items() if self._files.is_lost(file)]
        for number in {*_worn(places, one.files), *lost}:
            del one.files[number]
            places[places >> _BITS == number] = -1
        missing, number = np.flatnonzero(places < 0), max(one.files, default=-1) + 1
        for first in range(0, len(missing), FILE_ROWS):
            some = missing[first : first + FILE_ROWS]
            one.files[number] = self._files.write(pack({"rows": rows[some]})), len(some)
            places[some] = (number << _BITS) + np.arange(len(some))
            changed[some] = 0
            number += 1
        return one


_WRITERS: WeakValueDictionary[int, RowFiles] = WeakValueDictionary()
"""Ids of arrays that say which rows have changed, and who wrote those rows last."""


def _worn(places: Places, files: Mapping[int, tuple[str, int]]) -> list[int]:
    """Return the files whose used rows must be rewritten."""
    used = np.bincount(places[places >= 0] >> _BITS, minlength=max(files, default=-1) + 1)
    worn = [number for number, (_, size) in files.items() if 2 * used[number] < size]
    small = [number for number in files if 2 * used[number] < FILE_ROWS]
    return small if len(small) > _SMALL else worn


def named_rows(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of files of rows in a manifest; none where it has no such."""
    match manifest.get("rows"):
        case dict(arrays):
            names = [name for some in arrays.values() if isinstance(some, list) for name in some]
            return frozenset(name for name in names if is_name(name))
    return frozenset()


def with_rows(state: State, names: Any, read: Callable[[str], bytes]) -> State:
    """Return a state with rows instead of places; `read` reads a file by its name.

    Raises
    ------
    StateError
        If a file is missing or damaged, or does not fit.
    """
    if not isinstance(names, dict) or not names.keys() <= state.arrays.keys():
        raise StateError("the row files in the manifest do not match its arrays")
    rows = {name: _joined(name, state.arrays[name], files, read) for name, files in names.items()}
    return replace(state, arrays={**state.arrays, **rows})


def _joined(name: str, places: Places, files: Any, read: Callable[[str], bytes]) -> NDArray[Any]:
    """Return the rows of an array. Raises `StateError`."""
    if not isinstance(files, list) or not files or not all(map(is_name, files)):
        raise StateError(f"the row files of {name!r} in the manifest are not file names")
    if places.ndim != 1 or places.dtype != np.int64 or not len(places):
        raise StateError(f"array {name!r} lacks the places of its rows")
    order = np.argsort(places, kind="stable")
    cuts = np.searchsorted(places[order], np.arange(len(files) + 1) << _BITS)
    if cuts[0] or cuts[-1] != len(places):
        raise StateError(f"array {name!r} has places in no file")
    rows: NDArray[Any] | None = None
    for number, file in enumerate(files):
        part = unpack(read(file), file).get("rows")
        mine = order[cuts[number] : cuts[number + 1]]
        if part is None or part.ndim != 2:
            raise StateError(f"{file} has no rows")
        if rows is None:
            rows = np.empty((len(places), part.shape[1]), part.dtype)
        at = places[mine] - (number << _BITS)
        fits = part.dtype == rows.dtype and part.shape[1] == rows.shape[1]
        if not fits or at.max(initial=-1) >= len(part):
            raise StateError(f"{file} lacks the rows of {name!r}")
        rows[mine] = part[at]
    assert rows is not None
    return rows
