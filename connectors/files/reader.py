"""One text file: its records, from any of them on, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
import math
import os
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from connectors.cells import read_csv_cells
from connectors.errors import BadRecord, ConnectorError
from connectors.files.ordered import FileReader, Known
from connectors.files.records import Header, Record, RecordCutter, TextForm, begins_array
from connectors.files.text import BROKEN, TextFile, decompressed

_BLOCK_BYTES = 1 << 18
_INDEX_EVERY = 4096
_COMPARED = 4096
"""Bytes, at most, before those that are read next of a file that grows."""
_JSON = json.JSONDecoder()
_RECORD = itemgetter(0)
KNOWN_BY = 1 << 16
"""Bytes at the beginning of a file, and before a position in it, that tell it from others."""


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(slots=True)
class _Found:
    """The findings that readers of a file share: header, bytes of some records, first bytes."""

    header: Header | None = None
    index: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    head: bytes = b""


class TextReader(FileReader):
    """Reads a file record by record. Positions count records from 0, a header not counted.

    Every 4,096th record's byte is remembered, so going back costs a short read. Raises `BadRecord`
    if the header of CSV is missing or cannot be used, and `ConnectorError` if what is compressed is
    damaged.

    The file is at its beginning, and may be compressed. Where it `grows`, more may be written
    behind its end, so that a last line without a newline is left until it is complete. `found` is
    what another reader of the same file has found.
    """

    def __init__(
        self,
        path: Path,
        file: BinaryIO,
        form: TextForm,
        *,
        grows: bool = False,
        found: _Found | None = None,
    ) -> None:
        super().__init__(path)
        self._file, self._form, self._grows = file, form, grows
        self._text = TextFile(decompressed(file, path), path, form.text_encoding)
        self._behind: TextReader | None = None
        self._found = found or _Found()
        self._keeps_window = found is not None
        self._go_to(*self._found.index[0])
        if form.encoding == "csv" and self.header is None:
            self._find_header()

    @property
    def header(self) -> Header | None:
        """The header of CSV."""
        return self._found.header

    @property
    def is_compressed(self) -> bool:
        """Return whether it is compressed, and so does not grow."""
        return self._text.file is not self._file

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def bytes_read(self) -> int:
        """Bytes up to the next record; of a compressed file those that were read."""
        return self._file.tell() if self.is_compressed else self._at

    # --- reading --------------------------------------------------------------------------------

    def _go_to(self, ordinal: int, at: int) -> None:
        """Go to the record of this position, which begins at this byte."""
        self._read_to, self._window = max(0, at - KNOWN_BY), b""
        self._before: bytes | None = None
        with self._reading():
            self._text.seek(self._read_to)
        while self._read_to < at and (block := self._block(at - self._read_to)):
            self._window += block
        self._records = RecordCutter(self._form, str(self.path), at=at, header=self.header)
        self._ready: list[Record] = []
        self._next = 0
        self.ordinal, self._at = ordinal, at
        self._ended = False
        self.provisional = self.unfinished = None

    def _find_header(self) -> None:
        while self._records.header is None:
            block = self._block()
            if block:
                self._ready = self._records.feed(block)
            elif self._grows or self._ended:
                raise BadRecord(f"{self.path} is empty: a CSV file begins with the column names")
            else:
                self._ended = True
                self._ready = self._records.finish()
        self._at = self._records.begin
        self._found.header, self._found.index[0] = self._records.header, (0, self._at)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say which file could not be read on, and why."""
        try:
            yield
        except BROKEN as error:
            damaged = "; the compressed data is damaged or incomplete" * self.is_compressed
            raise ConnectorError(
                f"{self.path} cannot be read any further after {self.ordinal} events: "
                f"{error}{damaged}"
            ) from None

    def _block(self, size: int = _BLOCK_BYTES) -> bytes:
        """Return the next bytes of the text; none at its end."""
        with self._reading():
            block = self._text.read(size)
        if block:
            known = len(self._found.head)  # never less than where it is read anew
            if known < KNOWN_BY:
                self._found.head += block[known - self._read_to : KNOWN_BY - self._read_to]
            self._read_to += len(block)
            if self._grows:
                self._before = self._read_before()
        return block

    def fill(self) -> bool:
        """Have at least one record ready; False if there is none (yet)."""
        while self._next == len(self._ready):
            self._ready, self._next = [], 0
            block = b"" if self._ended or self._is_written_anew() else self._block()
            if not block:
                return False
            if self._keeps_window:
                self._window = self._window[-KNOWN_BY:] + block
            self._ready = self._records.feed(block)
        return True

    def _read_before(self) -> bytes:
        """Return the last of the bytes that were read, as the file has them now."""
        at = self._file.tell()
        first = max(0, at - _COMPARED)
        return os.pread(self._file.fileno(), at - first, first)

    def _is_written_anew(self) -> bool:
        """Return whether a growing file was overwritten: the last bytes read are others by now."""
        return self._before is not None and self._before != self._read_before()

    def take(self, most: int) -> list[bytes]:
        """Return at most so many of the records that are ready."""
        taken = self._ready[self._next : self._next + most]
        if not taken:
            return []
        first = self.ordinal
        self.ordinal += len(taken)
        self._next += len(taken)
        self._at = taken[-1][1]
        index = self._found.index
        while (due := (index[-1][0] // _INDEX_EVERY + 1) * _INDEX_EVERY) <= self.ordinal:
            if due <= first or not self._records.anywhere:
                break
            index.append((due, taken[due - first - 1][1]))
        return list(map(_RECORD, taken))

    def seek(self, ordinal: int) -> bool:
        """Go to a record. Returns False if the file has fewer (yet), and then stands at its end."""
        index = self._found.index
        entry = index[bisect(index, (ordinal, math.inf)) - 1]
        if ordinal < self.ordinal or entry[1] - KNOWN_BY >= self._read_to:
            self._go_to(*entry)
        while self.ordinal < ordinal and self.fill():
            self.take(ordinal - self.ordinal)
        return self.ordinal == ordinal

    def end(self, *, final: bool) -> bool:
        """Take a last line without a newline as a record. Returns True if there is one.

        Unless it is `final`, a line that is clearly incomplete is left, and one of CSV is
        provisional, since its last cell may become longer.
        """
        if self._ended:
            return False
        self._ended = True
        began = self._records.end
        self._ready, self._next = self._records.finish(), 0
        if not final:
            cut_off = self._records.unfinished
            if self._ready and not self._is_whole(self._ready[-1][0]):
                odd = self._ready.pop()[0].count(b'"') % 2 and self.header is not None
                why = " (a quoted cell is not closed)" if odd else ""
                self.unfinished = (
                    f"{self.path}: the record at byte {began} is incomplete{why}; it is read once "
                    "its line ends"
                )
            elif self._ready and self.header is not None:
                self.provisional = self.ordinal + len(self._ready) - 1
            if cut_off is not None:
                self.unfinished = f"{self.path}: {cut_off}"
        return bool(self._ready)

    def _is_whole(self, record: bytes) -> bool:
        """Return whether a record at the end of the file may be complete."""
        try:
            if self.header is None:  # what follows a whole value makes none that is not
                _JSON.raw_decode(record.decode().lstrip())
                return True
            cells = read_csv_cells(record, self.header.delimiter)
        except (BadRecord, ValueError, RecursionError):
            return False
        return len(cells) >= len(self.header.fields)

    # --- knowing the file -----------------------------------------------------------------------

    def known(self, ordinal: int) -> Known:
        """Return the fingerprint of the file up to a record that was given before.

        A second reader of the file goes there, so that this one need not keep what it has read.
        """
        if self._behind is None:
            # Opened again, with a place of its own, even if another file has the name by now.
            same = Path(f"/proc/self/fd/{self._file.fileno()}")
            with self._reading():
                again = same.open("rb")
            self._behind = TextReader(self.path, again, self._form, found=self._found)
        return self._behind._known(ordinal)

    def _known(self, ordinal: int) -> Known:
        if not ordinal:  # nothing was read yet: it is known by what it begins with
            self._read_head(KNOWN_BY)
            head = self._found.head
            return Known(len(head), digest(head), digest(head))
        if not self.seek(ordinal):
            self.end(final=True)
            self.seek(ordinal)
        at, stop = self._at, len(self._window) - (self._read_to - self._at)
        first, last = self._found.head[:at], self._window[max(0, stop - KNOWN_BY) : stop]
        return Known(at, digest(first), digest(last))

    def difference(self, ordinal: int, known: Known) -> str | None:
        """Return how the file up to a record differs from its fingerprint; None if it does not.

        If it does not, that record is the next one.
        """
        at = known.at
        self._read_head(min(at, KNOWN_BY))
        self._go_to(ordinal, at)
        if self._read_to < at or len(self._window) < min(at, KNOWN_BY):
            return f"{self.path} is shorter than the {at} bytes that were read of it"
        if digest(self._found.head[:at]) != known.first:
            return f"{self.path} begins differently from the file that was read"
        if digest(self._window) != known.last:
            return f"{self.path} differs before byte {at} from the file that was read"
        if ordinal and (self.header is not None or not begins_array(self._found.head)):
            self._found.index.append((ordinal, at))
        else:  # an array is read from its beginning
            self._go_to(*self._found.index[0])
        return None

    def _read_head(self, size: int) -> None:
        """Read at least so many of the first bytes, if there are; go to record 0."""
        self._go_to(*self._found.index[0])
        while len(self._found.head) < size and self._block():
            pass
        self._go_to(*self._found.index[0])

    def replaced(self) -> str | None:
        """Return what happened to the file of this name while it was read; None if it is there."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return None  # between the removal and the creation of a rotation
        ours = os.fstat(self._file.fileno())
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            return "was replaced by another file"
        if not self.is_compressed and ours.st_size < self._file.tell():
            return "became shorter"
        return "was rewritten" if self._is_written_anew() else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        if self._behind is not None:
            self._behind.close()
