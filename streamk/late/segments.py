"""Rows on the disk in the order in which they came, found by their keys.

They are in segments, files of some thousand rows that never change: checkpoints share them, a
digest in a signed checkpoint tells that each is whole, and an object store gets each once. Rows in
SQLite that carry the checkpoints at which they came and left were measured in their place, put and
taken with a million held: 65,000 records a second of a core where segments have 153,000, in random
order 45,000 where they have 93,000, which with the rest of a job is less than the goal of 50,000.
The file was twice as large, would go to an object store whole with each checkpoint, and has no
digests.

A segment is a file of safetensors::

    rows     uint8 (bytes,)     of each row its key, label and clock as JSON, and its event's record
    starts   int64 (rows + 1,)  where each begins, and where the last one ends
    hashes   uint64 (rows,)     of the keys, see `hashes_of`
    layout   int64 (2,)         columns and classes of the events; -1 without events
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, NON_NEGATIVE, Declared, Domain, taken
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.errors import StateError
from streamk.late.held import HeldRecords, record_type
from streamk.packing import header_bytes, pack, places, unpack

_BITS = 15
SEGMENT_ROWS = 1 << _BITS
"""Rows of a segment: so many are written, and dropped, at once."""
_IN_SEGMENT = SEGMENT_ROWS - 1
_NEAR = 8
"""Rows are read in one piece where that is so many times longer than they are, or less."""

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]


def hashes_of(keys: Sequence[str]) -> Hashes:
    """Return 64 bits of BLAKE2b of each key, equal on any machine and in any process."""
    digests = [blake2b(key.encode(), digest_size=8).digest() for key in keys]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64, copy=False)


class KeyIndex:
    """Rows by the hashes of their keys, in sorted runs, each more than twice as long as the next.

    Rows that are there no more, as `alive` tells of rows (n,), are left out when two runs become
    one: 16 bytes a row, and as many for each of those, where a dict takes 200. Two keys may have
    one hash, so what is found is a candidate.

    Examples
    --------
    >>> index = KeyIndex(lambda rows: np.full(len(rows), True))
    >>> index.add(hashes_of(["a", "b"]), np.array([7, 8]))
    >>> index.find(hashes_of(["b", "c", "a"]))
    (array([2, 0]), array([7, 8]))
    """

    def __init__(self, alive: Callable[[Rows], NDArray[np.bool_]]) -> None:
        self._alive = alive
        self._runs: list[tuple[Hashes, Rows]] = []

    def find(self, hashes: Hashes) -> tuple[NDArray[np.int64], Rows]:
        """Return candidates for hashes (n,): places in 0 to n - 1, and rows, which rise."""
        order = np.argsort(hashes)
        asked = hashes[order]
        found, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for known, rows in self._runs:
            first = np.searchsorted(known, asked)
            hit = np.flatnonzero(known[np.minimum(first, len(known) - 1)] == asked)
            n = np.searchsorted(known, asked[hit], "right") - first[hit]  # mostly one
            at = np.repeat(first[hit] - np.cumsum(n) + n, n) + np.arange(n.sum())
            found.append(rows[at])
            places.append(order[np.repeat(hit, n)])
        candidates = np.concatenate(found)
        order = np.argsort(candidates, kind="stable")
        return np.concatenate(places)[order], candidates[order]

    def add(self, hashes: Hashes, rows: Rows) -> None:
        """Add new rows (n,) with the hashes of their keys."""
        while self._runs and len(self._runs[-1][0]) <= 2 * len(hashes):
            before, others = self._runs.pop()
            there = self._alive(others)
            hashes = np.concatenate([before[there], hashes])
            rows = np.concatenate([others[there], rows])
        if len(hashes):
            order = np.argsort(hashes, kind="stable")  # quick where two parts are sorted
            self._runs.append((hashes[order], rows[order]))


_DECLARED = (
    Declared("rows", "uint8", ("bytes",), ANY),
    Declared("starts", "int64", (("rows", 1),), NON_NEGATIVE),
    Declared("hashes", "uint64", ("rows",), ANY),
    Declared("layout", "int64", (2,), Domain(-1)),
)


class Segment:
    """Rows of a file, and which of them still wait; `written` and `opened` make one.

    The data that the file holds is not kept. Raises `StateError` if it is not that of a segment.

    `hashes` (rows,) are those of the keys, which whoever has put them into an index drops; `type`
    is that of the events, see `record_type`, None without; `live` is of each row 1 where it waits,
    0 where it is over, and `left` counts the rows that wait.
    """

    def __init__(self, files: SegmentFiles, name: str, data: bytes) -> None:
        self.name, self._files = name, files
        where = f"{name} of held events"
        found, sizes = taken(_DECLARED, unpack(data, where), {}, where)
        starts, layout = found["starts"], found["layout"].tolist()
        self.type = None if -1 in layout else record_type(*layout)
        ends, size = int(starts[-1]), self._size
        if int(starts[0]) != 0 or ends != len(found["rows"]) or (np.diff(starts) < size).any():
            raise StateError(f"{where}: its rows do not fit; it was not written by streamk")
        begin = next(one.start for one in places(data, len(data), where) if one.name == "rows")
        self._at = header_bytes(data, len(data), where) + begin
        self._starts = starts.astype(np.uint32 if ends < 1 << 32 else np.int64)
        self.hashes: Hashes = found["hashes"]
        self.left = sizes["rows"]
        self.live = bytearray(b"\1") * self.left

    @classmethod
    def written(
        cls, files: SegmentFiles, entries: Sequence[Sequence[Any]], records: HeldRecords | None
    ) -> Segment:
        """Write rows, of each the key first in its entry. Raises `EngineError`."""
        rows, layout = [msgspec.json.encode(entry) for entry in entries], (-1, -1)
        if records is not None:
            rows = [row + record.tobytes() for row, record in zip(rows, records, strict=True)]
            layout = (records.dtype["X"].shape[0], records.dtype["P"].shape[0])
        data = pack(
            {
                "rows": np.frombuffer(b"".join(rows), np.uint8),
                "starts": np.cumsum([0, *map(len, rows)], dtype=np.int64),
                "hashes": hashes_of([str(entry[0]) for entry in entries]),
                "layout": np.array(layout, np.int64),
            }
        )
        return cls(files, files.write(data), data)

    @classmethod
    def opened(cls, files: SegmentFiles, name: str, live: NDArray[np.uint8]) -> Segment:
        """Open a segment of a checkpoint; 0 or 1 for each of the first rows tells if it waits.

        Raises `StateError` if it is damaged.
        """
        segment = cls(files, name, files.read(name))
        if len(live) < len(segment):
            raise StateError(f"{name} of held events has more rows than its checkpoint says")
        segment.live = bytearray(live[: len(segment)].tobytes())
        segment.left = sum(segment.live)
        return segment

    def __len__(self) -> int:
        return len(self.live)

    @property
    def _size(self) -> int:
        """Bytes of a record."""
        return 0 if self.type is None else self.type.itemsize

    @property
    def waiting(self) -> Rows:
        """The rows that wait, in order."""
        return np.flatnonzero(np.frombuffer(self.live, np.uint8))

    def read(self, rows: Rows, decoder: msgspec.json.Decoder[Any]) -> tuple[list[Any], list[bytes]]:
        """Return the entries and records of rows (n,), which rise.

        Raises `StateError` if they cannot be read.
        """
        starts = self._starts.astype(np.int64)
        pieces = self._pieces(starts[rows], starts[rows + 1])
        cuts = [len(piece) - self._size for piece in pieces]
        try:
            entries = [decoder.decode(piece[:n]) for piece, n in zip(pieces, cuts, strict=True)]
        except msgspec.MsgspecError as error:
            raise StateError(f"{self._files.place(self.name)}: cannot be read: {error}") from error
        return entries, [piece[n:] for piece, n in zip(pieces, cuts, strict=True)]

    def records(self, rows: Rows) -> HeldRecords:
        """Return the events of rows (n,), which rise. Raises `StateError` as `read`."""
        ends = self._starts.astype(np.int64)[rows + 1]
        return np.frombuffer(b"".join(self._pieces(ends - self._size, ends)), self.type)

    def _pieces(self, begin: Rows, end: Rows) -> list[bytes]:
        """Read pieces of the file, that are given by where they begin and end among the rows."""
        path = self._files.place(self.name)
        first, span = int(begin[0]), int(end[-1] - begin[0])
        pieces = zip(begin.tolist(), end.tolist(), strict=True)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                if span <= _NEAR * int((end - begin).sum()):
                    whole = _exactly(file.fileno(), span, self._at + first)
                    return [whole[i - first : j - first] for i, j in pieces]
                return [_exactly(file.fileno(), j - i, self._at + i) for i, j in pieces]
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error


def _exactly(descriptor: int, size: int, at: int) -> bytes:
    """Read so many bytes from a place on; one call gives 2 GiB at most. Raises `OSError`."""
    found = os.pread(descriptor, size, at)
    while len(found) < size:
        more = os.pread(descriptor, size - len(found), at + len(found))
        if not more:
            raise OSError("it was cut short")
        found += more
    return found


class Found(NamedTuple):
    """A row that waits.

    Its entry has the key first, and the clock last; the record is its event, of that type, if any.
    """

    row: int
    entry: Any
    record: bytes
    type: np.dtype[Any] | None

    @property
    def key(self) -> str:
        """The key."""
        return str(self.entry[0])


class SegmentLog:
    """Segments, the oldest first, with entries that are tuples of JSON of one kind."""

    def __init__(self, files: SegmentFiles, kind: Any) -> None:
        self._files, self._decoder = files, msgspec.json.Decoder(kind)
        self._segments: dict[int, Segment] = {}
        """By numbers that are used once; in the order of the rows."""
        self._next = 0
        self._index = KeyIndex(self._alive)
        self._front: tuple[int, list[Found]] = -1, []
        """Number of the first segment, and its rows that waited then, the last first."""
        self._left = 0

    def __len__(self) -> int:
        """Return how many rows wait."""
        return self._left

    # --- rows -------------------------------------------------------------------------------------

    def find(self, keys: Sequence[str]) -> dict[str, Found]:
        """Return the waiting entries of some keys. Raises `StateError` if a file is damaged."""
        asked, rows = self._index.find(hashes_of(keys))
        there = self._alive(rows)
        asked, rows = asked[there], rows[there]
        cuts = np.flatnonzero(np.diff(rows >> _BITS)) + 1
        found: dict[str, Found] = {}
        for at, some in zip(np.split(asked, cuts), np.split(rows, cuts), strict=True):
            for place, one in zip(at.tolist(), self._read(some), strict=True):
                if one.key == keys[place]:
                    found[one.key] = one
        return found

    def _read(self, rows: Rows) -> list[Found]:
        """Read rows of one segment, which rise."""
        if not len(rows):
            return []
        segment = self._segments[int(rows[0]) >> _BITS]
        entries, records = segment.read(rows & _IN_SEGMENT, self._decoder)
        each = zip(rows.tolist(), entries, records, strict=True)
        return [Found(*one, segment.type) for one in each]

    def _waiting(self, number: int) -> list[Found]:
        """Read all rows of a segment that wait."""
        return self._read(self._segments[number].waiting + (number << _BITS))

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
        return next(iter(self.due(None, 1)), None)

    def due(self, before: int | None, most: int) -> list[Found]:
        """Return the oldest rows of one segment with lower clocks, at most so many."""
        if not self._segments:
            return []
        number = next(iter(self._segments))
        if self._front[0] != number:
            self._front = number, self._waiting(number)[::-1]
        live, rest = self._segments[number].live, self._front[1]
        while not live[rest[-1].row & _IN_SEGMENT]:
            rest.pop()
        found: list[Found] = []
        for one in reversed(rest):
            if len(found) == most or (before is not None and one.entry[-1] >= before):
                break
            if live[one.row & _IN_SEGMENT]:
                found.append(one)
        return found

    def append(self, entries: Sequence[Sequence[Any]], records: HeldRecords | None) -> None:
        """Add rows, at most `SEGMENT_ROWS`, all younger than the existing ones.

        Raises `EngineError` if they cannot be written.
        """
        self._left += len(entries)
        self._add(Segment.written(self._files, entries, records))
        self._merge()

    def _add(self, segment: Segment) -> int:
        number, self._next = self._next, self._next + 1
        self._segments[number] = segment
        rows = segment.waiting
        self._index.add(segment.hashes[rows], rows + (number << _BITS))
        del segment.hashes  # which are in the index now
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
        rows, kind = self._waiting(first) + self._waiting(second), self._segments[first].type
        records = None
        if kind is not None:
            records = np.frombuffer(b"".join(one.record for one in rows), kind)
        segment = Segment.written(self._files, [one.entry for one in rows], records)
        order = list(self._segments)
        order[order.index(first)] = made = self._add(segment)
        for number in (first, second):
            self._files.drop(self._segments.pop(number).name)
        order.remove(second)
        self._segments = {number: self._segments[number] for number in order}
        return made

    def _alive(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which of rows wait."""
        segments = sorted(self._segments.items())
        numbers = np.array([*(number for number, _ in segments), self._next])
        firsts = np.cumsum([0, *(len(segment) for _, segment in segments)])
        live = np.frombuffer(b"".join([*(one.live for _, one in segments), b"\0"]), np.uint8)
        at = np.searchsorted(numbers, rows >> _BITS)
        there = numbers[at] == rows >> _BITS
        alive: NDArray[np.bool_] = live[np.where(there, firsts[at] + (rows & _IN_SEGMENT), -1)] > 0
        return alive

    # --- state ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the files, in order."""
        return [segment.name for segment in self._segments.values()]

    def live(self) -> NDArray[np.uint8]:
        """Return which rows of the files wait, as bits."""
        live = b"".join(segment.live for segment in self._segments.values())
        return np.packbits(np.frombuffer(live, np.uint8))

    def restore(
        self, names: Sequence[str], live: NDArray[Any], check: Callable[[HeldRecords], None] | None
    ) -> None:
        """Go on with the files and rows that `names` and `live` gave.

        Without a `check` of events there must be none. Raises `StateError` if a file is missing or
        damaged, or does not fit.
        """
        bits = np.unpackbits(live) if live.dtype == np.uint8 and live.ndim == 1 else live[:0]
        for name in names:
            segment = Segment.opened(self._files, name, bits)
            bits = bits[len(segment) :]
            if (segment.type is None) != (check is None) or segment.left == 0:
                raise StateError(f"{name} of held events does not have the rows that wait")
            self._left += segment.left
            self._add(segment)
            if check is not None:
                check(segment.records(segment.waiting))
        if len(bits) >= 8:
            raise StateError("the segments of held events do not have the rows that wait")
