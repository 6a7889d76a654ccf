"""Cutting a stream of bytes into records, with the byte where each ends."""

from __future__ import annotations

import csv

from connectors.cells import delimiter_in

__all__ = ["BOM", "Splitter", "without_bom"]

BOM = b"\xef\xbb\xbf"


class Splitter:
    r"""Cuts bytes, as they come, into lines or into CSV records with newlines in quoted cells.

    Records come without their newline; blank lines are no records. A quoted cell that is open at
    the end of a line is followed to the line that closes it; a line with broken quoting is a
    record of its own. Of a record longer than `max_event_bytes` one byte more than that is kept,
    enough to be recognised.

    Parameters
    ----------
    quoted : bool
        CSV records instead of lines.
    max_event_bytes : int
    delimiter : str, optional
        The character between cells; else that of the first line, see `connectors.cells`.
    at : int
        The byte of the file where the first record begins.

    Attributes
    ----------
    delimiter : str or None
        None before the first line.

    Examples
    --------
    >>> splitter = Splitter(quoted=True, max_event_bytes=100)
    >>> splitter.feed(b'a,"one\ntwo",b\nc')
    [(b'a,"one\ntwo",b', 14)]
    >>> splitter.finish()
    [(b'c', 15)]
    """

    anywhere = True
    """Reading may begin behind any record."""
    unfinished = None

    def __init__(
        self, *, quoted: bool, max_event_bytes: int, delimiter: str | None = None, at: int = 0
    ) -> None:
        self.delimiter = delimiter
        self._quoted = quoted
        self._max = max_event_bytes
        self._end = at
        self._tail = b""
        self._cut = 0  # bytes of the unfinished line that were not kept
        self._open: list[bytes] = []  # lines of a record inside a quoted cell
        self._open_bytes = 0

    def feed(self, block: bytes) -> list[tuple[bytes, int]]:
        """The records that this block completes, each with the byte after it."""
        lines = (self._tail + block).split(b"\n")
        self._tail = lines.pop()
        records: list[tuple[bytes, int]] = []
        for line in lines:
            self._end += len(line) + 1 + self._cut
            self._cut = 0
            self._take(line, records)
        surplus = len(self._tail) - self._max - 1
        if surplus > 0:
            self._tail = self._tail[: self._max + 1]
            self._cut += surplus
        return records

    def finish(self) -> list[tuple[bytes, int]]:
        """The last record, if it has no newline or an open quote. Nothing may be fed after."""
        records: list[tuple[bytes, int]] = []
        self._end += len(self._tail) + self._cut
        if self._tail or self._open:
            self._look_at(self._tail)
            self._open.append(self._tail)
            self._emit(records)
        return records

    def _take(self, line: bytes, records: list[tuple[bytes, int]]) -> None:
        self._open_bytes += len(line) + 1
        if self._open:
            self._open.append(line)
            # Inside quotes every pair of quotes leaves the state as it was.
            if line.count(b'"') % 2 or self._open_bytes > self._max:
                self._emit(records)
        else:
            self._look_at(line)
            self._open.append(line)
            if not (self._quoted and b'"' in line and self._ends_in_quotes(line)):
                self._emit(records)

    def _look_at(self, line: bytes) -> None:
        """Find the delimiter in the first line that is not blank."""
        if self.delimiter is None and self._quoted and line.strip():
            self.delimiter = delimiter_in(line.decode("utf-8", "replace"))

    def _ends_in_quotes(self, line: bytes) -> bool:
        """Return whether the last cell of a line was opened by a quote and not closed."""
        text = line.decode("utf-8", "replace")
        try:
            list(csv.reader([text], delimiter=self.delimiter or ",", strict=True))
        except csv.Error as error:
            return "unexpected end of data" in str(error)
        return False

    def _emit(self, records: list[tuple[bytes, int]]) -> None:
        record = self._open[0] if len(self._open) == 1 else b"\n".join(self._open)
        self._open.clear()
        self._open_bytes = 0
        if record.endswith(b"\r"):
            record = record[:-1]
        if not self._is_blank(record):
            records.append((record[: self._max + 1], self._end))

    def _is_blank(self, record: bytes) -> bool:
        if not record.isspace():
            return not record
        # Of empty cells, with tabs between them.
        return not (self._quoted and self.delimiter and self.delimiter.encode() in record)


def without_bom(record: bytes) -> bytes:
    """A file's first record without the mark that some programs begin UTF-8 with."""
    return record.removeprefix(BOM)
