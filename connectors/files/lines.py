"""Cutting a stream of bytes into records, with the byte where each ends."""

from __future__ import annotations

import re

from connectors.cells import delimiter_in, ends_in_quotes

__all__ = ["BOM", "Splitter", "without_bom"]

BOM = b"\xef\xbb\xbf"
_SEP = re.compile(r'"?sep=([^"\r\n])"?\r?')
"""The line that tells Excel the character between the cells, before the header."""
_SEARCHED = 16
"""A quoted cell is followed to its end over so many times the bytes of the longest record.

One that is not closed by then was opened by a stray quote, which must not swallow all that follows.
"""


class Splitter:
    r"""Cuts bytes, as they come, into lines or into CSV records with newlines in quoted cells.

    Records come without their newline; blank lines are no records, and neither is a first line
    `sep=;`, which tells the delimiter. A quoted cell that is open at the end of a line is followed
    to the line that closes it, over 16 times `max_event_bytes` at most; a line with broken quoting
    is a record of its own. Of a record longer than `max_event_bytes` one byte more than that is
    kept, enough to be recognised.

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
        self._first = quoted and not at
        self._end = at
        self._tail = b""
        self._cut = self._cut_quotes = 0  # bytes of the unfinished line that were not kept
        self._open: list[bytes] = []  # lines of a record inside a quoted cell
        self._open_bytes = 0

    def feed(self, block: bytes) -> list[tuple[bytes, int]]:
        """The records that this block completes, each with the byte after it."""
        lines = (self._tail + block).split(b"\n")
        self._tail = lines.pop()
        records: list[tuple[bytes, int]] = []
        for line in lines:
            self._end += len(line) + 1 + self._cut
            self._take(line, records)
            self._cut = self._cut_quotes = 0
        surplus = self._tail[self._max + 1 :]
        if surplus:
            self._tail = self._tail[: self._max + 1]
            self._cut += len(surplus)
            self._cut_quotes += surplus.count(b'"')
        return records

    def finish(self) -> list[tuple[bytes, int]]:
        """The last record, if it has no newline or an open quote. Nothing may be fed after."""
        records: list[tuple[bytes, int]] = []
        self._end += len(self._tail) + self._cut
        if self._tail or self._open:
            if not (self._first and self._tells_delimiter(self._tail)):
                self._open.append(self._tail)
            self._emit(records)
        return records

    def _take(self, line: bytes, records: list[tuple[bytes, int]]) -> None:
        if self._open:
            # Inside quotes every pair of quotes leaves the state as it was.
            inside = not (line.count(b'"') + self._cut_quotes) % 2
            if self._open_bytes <= self._max + 1:  # with its newline
                self._open.append(line)
            self._open_bytes += len(line) + 1 + self._cut
            inside = inside and self._open_bytes <= _SEARCHED * self._max
        elif self._first and self._tells_delimiter(line):
            return
        else:
            self._open.append(line)
            self._open_bytes = len(line) + 1 + self._cut
            inside = self._quoted and b'"' in line and self._ends_in_quotes(line)
        if not inside:
            self._emit(records)

    def _ends_in_quotes(self, line: bytes) -> bool:
        if self._cut:  # from its midst
            return bool((line.count(b'"') + self._cut_quotes) % 2)
        return ends_in_quotes(line, self.delimiter or ",")

    def _tells_delimiter(self, line: bytes) -> bool:
        """Find the delimiter in the first line that is not blank; True if that is all it tells."""
        if not line.strip():
            return False
        self._first = False
        text = without_bom(line).decode("utf-8", "replace")
        named = _SEP.fullmatch(text)
        if self.delimiter is None:
            self.delimiter = delimiter_in(text) if named is None else named[1]
        return named is not None

    def _emit(self, records: list[tuple[bytes, int]]) -> None:
        record = self._open[0] if len(self._open) == 1 else b"\n".join(self._open)
        self._open.clear()
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
