"""Rows on the disk in the order in which they came, found by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.waiting.held import Records
from streamk.engine.waiting.key_table import KeyTable, hashes_of
from streamk.engine.waiting.segment import Segment
from streamk.errors import StateError

__all__ = ["SEGMENT_ROWS", "Found", "SegmentLog"]

_BITS = 15
SEGMENT_ROWS = 1 << _BITS
"""Rows of a segment: so many are written, and dropped, at once."""
_IN_SEGMENT = SEGMENT_ROWS - 1

Rows = NDArray[np.int64]


class Found(NamedTuple):
    """A row: its number, and its entry, of which the key is first and the clock last."""

    row: int
    entry: Any


class SegmentLog:
    """Segments, the oldest first.

    Parameters
    ----------
    files : SegmentFiles
    kind : type
        Of an entry, a tuple of JSON.
    """

    def __init__(self, files: SegmentFiles, kind: Any) -> None:
        self._files, self._decoder = files, msgspec.json.Decoder(kind)
        self._segments: dict[int, Segment] = {}
        """By numbers that are used once; in the order of the rows."""
        self._next = 0
        self._table = KeyTable(self._alive)
        self._front: tuple[int, list[Found]] = -1, []
        """Number of the first segment, and its rows that waited then, the last first."""
        self._left = 0

    def __len__(self) -> int:
        """Return how many rows wait."""
        return self._left

    @property
    def nbytes(self) -> int:
        """Memory that it takes, in bytes."""
        return self._table.nbytes + sum(one.nbytes for one in self._segments.values())

    # --- rows -------------------------------------------------------------------------------------

    def find(self, keys: Sequence[str]) -> dict[str, Found]:
        """Return those of some keys that wait. Raises `StateError` if a file is damaged."""
        places, rows = self._table.find(hashes_of(keys))
        found: dict[str, Found] = {}
        for segment, number, some in self._by_segment(rows, places):
            entries = segment.entries(some[0], self._decoder)
            for row, place, entry in zip(some[0].tolist(), some[1].tolist(), entries, strict=True):
                if entry[0] == keys[place]:
                    found[entry[0]] = Found(number << _BITS | row, entry)
        return found

    def records(self, rows: Sequence[int]) -> Iterator[tuple[Rows, Records]]:
        """Yield the events of rows that wait: their places among those given, and records."""
        numbers = np.array(rows, np.int64)
        parts: dict[np.dtype[Any], tuple[list[Rows], list[Records]]] = {}
        for segment, _, (some, places) in self._by_segment(numbers, np.arange(len(rows))):
            found = segment.records(some)
            at, records = parts.setdefault(found.dtype, ([], []))
            at.append(places)
            records.append(found)
        for at, records in parts.values():
            yield np.concatenate(at), np.concatenate(records)

    def _by_segment(
        self, rows: Rows, places: Rows
    ) -> Iterator[tuple[Segment, int, tuple[Rows, Rows]]]:
        """Yield segments, their numbers, and the rows that wait there with their places."""
        order = np.argsort(rows, kind="stable")
        rows, places = rows[order], places[order]
        numbers = rows >> _BITS
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        firsts = [0, *cuts.tolist()]
        for first, last in zip(firsts, [*cuts.tolist(), len(rows)], strict=True):
            segment = self._segments.get(int(numbers[first])) if first < last else None
            if segment is None:
                continue
            some = rows[first:last] & _IN_SEGMENT
            there = np.frombuffer(segment.live, np.uint8)[some] > 0
            if there.any():
                yield segment, int(numbers[first]), (some[there], places[first:last][there])

    def is_alive(self, row: int) -> bool:
        """Return whether a row still waits."""
        segment = self._segments.get(row >> _BITS)
        return segment is not None and segment.live[row & _IN_SEGMENT] == 1

    def remove(self, row: int) -> None:
        """Remove a row that waits."""
        number = row >> _BITS
        segment = self._segments[number]
        segment.live[row & _IN_SEGMENT] = 0
        segment.left -= 1
        self._left -= 1
        if not segment.left:
            del self._segments[number]
            self._files.drop(segment.name)

    def oldest(self) -> Found | None:
        """Return the oldest row that waits. Raises `StateError` if its file is damaged."""
        if not self._segments:
            return None
        number = next(iter(self._segments))
        if self._front[0] != number:
            segment = self._segments[number]
            rows = segment.waiting
            entries = segment.entries(rows, self._decoder)
            each = zip((rows + (number << _BITS)).tolist(), entries, strict=True)
            self._front = number, [Found(*one) for one in each][::-1]
        rest = self._front[1]
        while not self.is_alive(rest[-1].row):
            rest.pop()
        return rest[-1]

    def due(self, before: int, most: int) -> list[Found]:
        """Return the oldest rows whose clocks are lower, so many at most, of one segment."""
        if self.oldest() is None:
            return []
        found: list[Found] = []
        for one in reversed(self._front[1]):
            if len(found) == most or one.entry[-1] >= before:
                break
            if self.is_alive(one.row):
                found.append(one)
        return found

    def append(self, entries: Sequence[Sequence[Any]], records: Records | None) -> None:
        """Add rows, `SEGMENT_ROWS` at most, all of them younger than those there are.

        Raises
        ------
        EngineError
            If they cannot be written.
        """
        number = self._add(Segment.written(self._files, entries, records))
        self._left += self._segments[number].left
        self._merge()

    def _add(self, segment: Segment) -> int:
        number, self._next = self._next, self._next + 1
        self._segments[number] = segment
        rows = segment.waiting
        self._table.add(segment.hashes[rows], rows + (number << _BITS))
        segment.forget_data()
        return number

    def _merge(self) -> None:
        """Put two neighbours into one where that is half full then, at most, until none are left.

        So there are at most four times as many rows in the files as wait, and two segments; and
        a row is written once more only where a file becomes free by it.
        """
        each = list(self._segments)
        while len(each) > 1:
            pair = [self._segments[number] for number in each[:2]]
            same = pair[0].type == pair[1].type
            if same and 2 * (pair[0].left + pair[1].left) <= SEGMENT_ROWS:
                each[:2] = [self._put_together(*each[:2])]
            else:
                del each[0]

    def _put_together(self, first: int, second: int) -> int:
        """Write the rows of two neighbours that wait as one segment in their place."""
        entries: list[Any] = []
        records: list[Records] = []
        pair = [self._segments[number] for number in (first, second)]
        for segment in pair:
            rows = segment.waiting
            entries += segment.entries(rows, self._decoder)
            if segment.type is not None:
                records.append(segment.records(rows))
        together = np.concatenate(records) if records else None
        before = list(self._segments)
        made = self._add(Segment.written(self._files, entries, together))
        order = [made if number == first else number for number in before if number != second]
        self._segments = {number: self._segments[number] for number in order}
        for segment in pair:
            self._files.drop(segment.name)
        return made

    def _alive(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which of rows wait."""
        if not self._segments:
            return np.zeros(len(rows), np.bool_)
        least, most = min(self._segments), max(self._segments)
        begins = np.full(most - least + 2, -1, np.int64)
        at = 0
        for number, segment in self._segments.items():
            begins[number - least] = at
            at += len(segment)
        live = np.frombuffer(b"".join(bytes(one.live) for one in self._segments.values()), np.uint8)
        found = begins[np.clip((rows >> _BITS) - least, -1, most - least + 1)]
        there: NDArray[np.bool_] = found >= 0
        there[there] = live[found[there] + (rows[there] & _IN_SEGMENT)] > 0
        return there

    # --- state ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the files, in order."""
        return [segment.name for segment in self._segments.values()]

    def live(self) -> NDArray[np.uint8]:
        """Return which rows of the files wait, as bits."""
        live = b"".join(bytes(segment.live) for segment in self._segments.values())
        return np.packbits(np.frombuffer(live, np.uint8))

    def restore(
        self,
        names: Sequence[str],
        live: NDArray[Any],
        changed: Callable[[Records], Records | None] | None,
    ) -> None:
        """Go on with the files and rows that `names` and `live` gave.

        Parameters
        ----------
        names : sequence of str
        live : uint8 array
        changed : function, optional
            Checks the events of a segment, and returns them as they are to be from now on, or None
            where that is as they are. By default there must be none.

        Raises
        ------
        StateError
            If a file is missing or damaged, or does not fit.
        """
        bits = np.unpackbits(live) if live.dtype == np.uint8 and live.ndim == 1 else live[:0]
        at = 0
        for name in names:
            segment = Segment.opened(self._files, name)
            segment.mark(bits[at : at + len(segment)])
            at += len(segment)
            if (segment.type is None) != (changed is None) or segment.left == 0:
                raise StateError(f"{name} of held events has other rows than those that wait")
            rows = segment.waiting
            other = None if changed is None else changed(segment.records(rows))
            if other is not None:
                entries = segment.entries(rows, self._decoder)
                segment = Segment.written(self._files, entries, other)
            self._add(segment)
            self._left += segment.left
        if not at <= len(bits) < at + 8:
            raise StateError("the segments of held events have other rows than those that wait")
