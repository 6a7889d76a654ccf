"""A segment: some thousand rows in a file that never changes, and which of them still wait.

A file of safetensors::

    entries  uint8 (bytes,)       of each row its key, label and clock as JSON
    starts   int64 (rows + 1,)    where each begins in them, and where the last one ends
    hashes   uint64 (rows,)       of the keys, see `hashes_of`
    records  uint8 (rows, size)   of each row its event, see `HeldEvents.records`; size 0 without
    layout   int64 (2,)           columns and classes of the events
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, NON_NEGATIVE, Declared, taken
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.waiting.held import Records, record_type
from streamk.engine.waiting.key_table import hashes_of
from streamk.errors import StateError
from streamk.packing import header_bytes, pack, places, unpack

__all__ = ["Segment"]

Rows = NDArray[np.int64]

_OWNER = "held events"
_DECLARED = (
    Declared("entries", "uint8", ("bytes",), ANY),
    Declared("starts", "int64", (("rows", 1),), NON_NEGATIVE),
    Declared("hashes", "uint64", ("rows",), ANY),
    Declared("records", "uint8", ("rows", "size"), ANY),
    Declared("layout", "int64", (2,), NON_NEGATIVE),
)
_NEAR = 8
"""Rows are read in one piece where that is so many times longer than they are, or less."""


class Segment:
    """Rows of a file; `written` and `opened` make one.

    Parameters
    ----------
    files : SegmentFiles
    name : str
        Of the file.
    data : bytes
        What it holds; they are not kept beyond `forget_data`.

    Attributes
    ----------
    name : str
    hashes : uint64 array of shape (rows,)
        Of the keys; they are not kept beyond `forget_data`.
    live : bytearray
        Of each row 1 where it waits, 0 where it is over.
    left : int
        Rows that wait.

    Raises
    ------
    StateError
        If the data is not that of a segment.
    """

    def __init__(self, files: SegmentFiles, name: str, data: bytes) -> None:
        self.name, self._files = name, files
        where = f"{name} of held events"
        found, sizes = taken(_DECLARED, unpack(data, where), {}, where)
        starts, layout = found["starts"], found["layout"].tolist()
        self.type = record_type(*layout) if sizes["size"] else None
        first, ends = int(starts[0]), int(starts[-1])
        wrong = first != 0 or ends != len(found["entries"]) or (np.diff(starts) < 0).any()
        if wrong or sizes["size"] != (0 if self.type is None else self.type.itemsize):
            raise StateError(f"{where}: its rows do not fit; it was not written by streamk")
        begin = {place.name: place.start for place in places(data, len(data), where)}
        offset = header_bytes(data, len(data), where)
        self._starts = starts.astype(np.uint32 if ends < 1 << 32 else np.int64)
        self._entries_at, self._records_at = offset + begin["entries"], offset + begin["records"]
        self.hashes: NDArray[np.uint64] = found["hashes"]
        self._data: NDArray[np.uint8] | None = found["records"]
        self.left = sizes["rows"]
        self.live = bytearray(b"\1") * self.left

    @classmethod
    def written(
        cls, files: SegmentFiles, entries: Sequence[Sequence[Any]], records: Records | None
    ) -> Segment:
        """Write rows, of each the key first in its entry. Raises `EngineError`."""
        texts = [msgspec.json.encode(entry) for entry in entries]
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
        size = 0 if records is None else records.dtype.itemsize
        layout = (0, 0)
        if records is not None:
            layout = (records.dtype["X"].shape[0], records.dtype["P"].shape[0])
        data = pack(
            {
                "entries": np.frombuffer(b"".join(texts), np.uint8),
                "starts": starts.astype(np.int64),
                "hashes": hashes_of([str(entry[0]) for entry in entries]),
                "records": np.zeros((len(texts), 0), np.uint8)
                if records is None
                else np.ascontiguousarray(records).view(np.uint8).reshape(len(texts), size),
                "layout": np.array(layout, np.int64),
            }
        )
        return cls(files, files.write(data), data)

    @classmethod
    def opened(cls, files: SegmentFiles, name: str) -> Segment:
        """Open a segment of a checkpoint. Raises `StateError` if it is damaged."""
        return cls(files, name, files.read(name))

    def __len__(self) -> int:
        return len(self.live)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, in bytes."""
        return self._starts.nbytes + len(self.live)

    @property
    def waiting(self) -> Rows:
        """The rows that wait, in order."""
        return np.flatnonzero(np.frombuffer(self.live, np.uint8))

    def mark(self, live: NDArray[np.uint8]) -> None:
        """Take over which rows wait, 0 or 1 of each. Raises `StateError` for too few."""
        if len(live) != len(self.live):
            raise StateError(f"{self.name} of held events has more rows than were told of")
        self.live, self.left = bytearray(live.tobytes()), int(live.sum())

    def forget_data(self) -> None:
        """Give back the memory of the hashes, which are in a table now, and of the events."""
        self.hashes, self._data = np.zeros(0, np.uint64), None

    def entries(self, rows: Rows, decoder: msgspec.json.Decoder[Any]) -> list[Any]:
        """Return the entries of rows (n,), which rise. Raises `StateError` if they are none."""
        starts = self._starts.astype(np.int64)
        texts = self._read(self._entries_at, starts[rows], starts[rows + 1])
        try:
            return [decoder.decode(text) for text in texts]
        except msgspec.MsgspecError as error:
            raise StateError(f"{self._files.place(self.name)}: cannot be read: {error}") from error

    def records(self, rows: Rows) -> Records:
        """Return the events of rows (n,), which rise."""
        assert self.type is not None
        if self._data is not None:
            return self._data[rows].view(self.type)[:, 0]
        size = self.type.itemsize
        parts = self._read(self._records_at, rows * size, (rows + 1) * size)
        return np.frombuffer(b"".join(parts), self.type)

    def _read(self, base: int, begin: Rows, end: Rows) -> list[bytes]:
        """Read pieces of the file, that are given by where they begin and end after `base`."""
        path = self._files.place(self.name)
        first, span = int(begin[0]), int(end[-1] - begin[0])
        pieces = zip(begin.tolist(), end.tolist(), strict=True)
        try:
            with open(path, "rb", buffering=0, opener=_unlinked) as file:
                if span <= _NEAR * int((end - begin).sum()):
                    whole = _exactly(file.fileno(), span, base + first)
                    return [whole[i - first : j - first] for i, j in pieces]
                return [_exactly(file.fileno(), j - i, base + i) for i, j in pieces]
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error


def _unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _exactly(descriptor: int, size: int, at: int) -> bytes:
    """Read so many bytes from a place on; one call gives 2 GiB at most. Raises `OSError`."""
    found = os.pread(descriptor, size, at)
    while len(found) < size:
        more = os.pread(descriptor, size - len(found), at + len(found))
        if not more:
            raise OSError("it was cut short")
        found += more
    return found
