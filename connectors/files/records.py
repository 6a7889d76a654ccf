"""Records of JSON or CSV out of a text, as it comes: lines, or elements of an array."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from connectors.base import MAX_EVENT_BYTES
from connectors.cells import (
    check_names,
    delimiter_in,
    delimiter_named,
    ends_in_quotes,
    read_csv_cells,
    with_decimal_points,
)
from connectors.errors import BadRecord, BadURL
from connectors.files.text import encoding_named

BOM = b"\xef\xbb\xbf"
_SEP = re.compile(r'"?sep=([^"\r\n])"?\r?')
"""The line that tells Excel the character between the cells, before the header."""
_SEARCHED = 16
"""A quoted cell is followed to its end over so many times the bytes of the longest record.

One that is not closed by then was opened by a stray quote, which must not swallow all that follows.
"""


class Splitter:
    r"""Cuts bytes, as they come, into lines or into CSV records with newlines in quoted cells.

    CSV is `quoted`, with a delimiter that is given or else that of the first line, see
    `connectors.cells`. Records come without their newline; blank lines are not records, and neither
    is a first line `sep=;`, which tells the delimiter. A quoted cell that is open at the end of a
    line is followed to the line that closes it, over 16 times `max_event_bytes` at most; a line
    with broken quoting is a record of its own. Of a record longer than `max_event_bytes` one byte
    more than that is kept, enough to be recognised. The first begins `at` a byte of the file.

    Examples
    --------
    >>> splitter = Splitter(quoted=True, max_event_bytes=100)
    >>> splitter.feed(b'a,"one\ntwo",b\nc')
    [(b'a,"one\ntwo",b', 14)]
    >>> splitter.finish()
    [(b'c', 15)]
    """

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
            if self._open or self._first or self._cut or (self._quoted and b'"' in line):
                self._take(line, records)
                self._cut = self._cut_quotes = 0
            elif line[-1:] > b" " and len(line) <= self._max:  # as nearly all are
                records.append((line, self._end))
            else:
                self._emit([line], records)
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
            self._emit(self._open, records)
            self._open = []
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
            self._emit(self._open, records)
            self._open = []

    def _ends_in_quotes(self, line: bytes) -> bool:
        if self._cut:  # from its midst
            return bool((line.count(b'"') + self._cut_quotes) % 2)
        return ends_in_quotes(line, self.delimiter or ",")

    def _tells_delimiter(self, line: bytes) -> bool:
        """Find the delimiter in the first line that is not blank; True if that is `sep=;`."""
        if not line.strip():
            return False
        self._first = False
        text = without_bom(line).decode("utf-8", "replace")
        named = _SEP.fullmatch(text)
        if self.delimiter is None:
            self.delimiter = delimiter_in(text) if named is None else named[1]
        return named is not None

    def _emit(self, lines: list[bytes], records: list[tuple[bytes, int]]) -> None:
        record = b"\n".join(lines).removesuffix(b"\r")
        # In CSV it may be of empty cells, with tabs between them.
        cells = self._quoted and self.delimiter and self.delimiter.encode() in record
        if record and (cells or not record.isspace()):
            records.append((record[: self._max + 1], self._end))


def without_bom(record: bytes) -> bytes:
    """A file's first record without the mark that some programs begin UTF-8 with."""
    return record.removeprefix(BOM)


# --- arrays of JSON -------------------------------------------------------------------------------


_SPACE = b" \t\r\n"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BETWEEN = re.compile(rb'(?:[^"{}\[\],]++|' + _STRING + rb")*+", re.DOTALL)
"""Up to a bracket, a comma, or the beginning of a string that is not all there."""
_WITHIN = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
"""The same, where commas are not ends."""
_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""The rest of a string, up to its quote or half an escape."""
_ARRAY = re.compile(rb"\[(?:\s*[{\]]|[ \t\r]*\n)")


def begins_array(text: bytes) -> bool:
    """Return whether JSON that begins so is an array of objects, not lines."""
    return _ARRAY.match(without_bom(text).lstrip(_SPACE)) is not None


class ArraySplitter:
    """Cuts bytes, as they come, into the elements of a JSON array, of any type.

    An element reaches to the comma or bracket after it, those inside of objects, lists and strings
    not counted, so one that is not JSON is an element too. After the array another one may follow,
    or lines. Of an element longer than `max_event_bytes` one byte more than that is kept, enough
    to be recognised. The array begins `at` a byte of the file.

    Examples
    --------
    >>> splitter = ArraySplitter(max_event_bytes=100)
    >>> splitter.feed(b'[{"a": [1, 2]}, {"b":')
    [(b'{"a": [1, 2]}', 14)]
    >>> splitter.feed(b' "]"}]')
    [(b'{"b": "]"}', 26)]
    """

    def __init__(self, *, max_event_bytes: int, at: int = 0) -> None:
        self.unfinished: str | None = None
        self._max = max_event_bytes
        self._at = at  # of what is fed next
        self._began = at  # the element that is open
        self._tail = b""
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._inside = self._in_string = False
        self._depth = 0  # of objects and lists in the element

    def feed(self, block: bytes) -> list[tuple[bytes, int]]:
        """Return the elements that this block completes, each with the byte it ends before."""
        data, self._tail = self._tail + block, b""
        records: list[tuple[bytes, int]] = []
        start = at = 0
        while at < len(data):
            if not self._inside:
                start, at = self._outside(data, at, records)
            elif self._in_string:
                rest = _REST.match(data, at)
                assert rest is not None
                at = rest.end()
                if data[at : at + 1] == b"\\":  # half an escape
                    self._tail = data[at:]
                    data = data[:at]
                elif at < len(data):
                    self._in_string = False
                    at += 1
            else:
                plain = (_WITHIN if self._depth else _BETWEEN).match(data, at)
                assert plain is not None
                at = plain.end()
                if at < len(data) and self._ends(data[at : at + 1]):
                    self._emit(data[start:at], at, records)
                    start = at + 1
                at += 1
        self._hold(data[start:], self._at + start)
        self._at += len(data)
        return records

    def finish(self) -> list[tuple[bytes, int]]:
        """Return the last element, if it is not closed. Nothing may be fed after."""
        records: list[tuple[bytes, int]] = []
        self._emit(self._tail, len(self._tail), records)
        if self._inside:
            within = f" within the element that begins at byte {self._began}" if records else ""
            self.unfinished = (
                f"it ends at byte {self._at + len(self._tail)}{within}, before the array is "
                "closed by ]; the rest is missing"
            )
        return records

    def _outside(self, data: bytes, at: int, records: list[tuple[bytes, int]]) -> tuple[int, int]:
        """Read on outside an array; return where an element begins, and where to read on."""
        if not self._open:
            at = len(data) - len(data[at:].lstrip(_SPACE))
            if data[at : at + 1] == b"[":
                self._inside = True
                return at + 1, at + 1
        end = data.find(b"\n", at)
        if end < 0:
            return at, len(data)
        self._emit(data[at:end], end + 1, records)
        return end + 1, end + 1

    def _ends(self, mark: bytes) -> bool:
        """Take note of a bracket, comma or quote; return whether the element ends before it."""
        if mark == b'"':
            self._in_string = True
        elif mark in b"{[":
            self._depth += 1
        elif self._depth:
            self._depth -= 1
        elif mark == b"]":
            self._inside = False
            return True
        return mark == b"," and not self._depth

    def _hold(self, piece: bytes, at: int) -> None:
        """Keep the beginning of an element, or more of it, that begins at this byte."""
        if not self._open:
            whole, piece = len(piece), piece.lstrip(_SPACE)
            self._began = at + whole - len(piece)
        piece = piece[: self._max + 1 - self._open_bytes]
        if piece:
            self._open.append(piece)
            self._open_bytes += len(piece)

    def _emit(self, piece: bytes, at: int, records: list[tuple[bytes, int]]) -> None:
        record = b"".join((*self._open, piece)).strip(_SPACE)[: self._max + 1]
        self._open.clear()
        self._open_bytes = self._depth = 0
        if record:
            records.append((record, self._at + at))


# --- records --------------------------------------------------------------------------------------


Record = tuple[bytes, int]
"""A record and the byte after it."""


class TextForm(NamedTuple):
    """The form of a text, as its address names it."""

    encoding: str
    """JSON, one object a line or an array of them, or CSV whose first record is the header."""
    delimiter: str | None = None
    """The character between the cells of CSV; None: it is found in the header."""
    decimal: str = "."
    """The sign before the fraction of a number in CSV, ``.`` or ``,``."""
    text_encoding: str | None = None
    """As Python names it; None: UTF-8, or UTF-16 if the text begins with the mark of that."""

    @classmethod
    def of_csv(cls, delimiter: str, decimal: str, text_encoding: str = "") -> Self:
        """Return the form of CSV that these options give. Raises `BadURL`."""
        if decimal not in (".", ","):
            raise BadURL(f"decimal={decimal!r} is neither . nor ,")
        return cls(
            "csv",
            delimiter_named(delimiter) if delimiter else None,
            decimal,
            encoding_named(text_encoding) if text_encoding else None,
        )


class Header(NamedTuple):
    """The first record of CSV: the names of the columns and the character between the cells."""

    fields: tuple[str, ...]
    delimiter: str


class RecordCutter:
    """Cuts a text, of a name for messages, into its records, without the header of CSV.

    JSON holds an array of objects, whose elements are the records, if it begins with a bracket
    which a line's end, an object or the other bracket follows; else each line is one. A list with
    something else in it is a line, and a bad event.

    The `header` is of CSV that was begun before, else it is the first record; None of JSON. The
    first record begins `at` a byte; `begin` is the one behind the header, and `end` the one after
    the last record.
    """

    def __init__(
        self, form: TextForm, name: str, *, at: int = 0, header: Header | None = None
    ) -> None:
        self.header = header
        self.begin = self.end = at
        self._is_csv, self._name = form.encoding == "csv", name
        self._has_commas = form.decimal == ","
        self._at_beginning = not at
        self._head = b""  # which does not tell yet whether it is of an array
        self._splitter: Splitter | ArraySplitter | None = None
        if self._is_csv or at:
            delimiter = form.delimiter if header is None else header.delimiter
            self._splitter = Splitter(
                quoted=self._is_csv, max_event_bytes=MAX_EVENT_BYTES, delimiter=delimiter, at=at
            )

    @property
    def anywhere(self) -> bool:
        """Return whether reading may begin behind any record."""
        return not isinstance(self._splitter, ArraySplitter)

    @property
    def unfinished(self) -> str | None:
        """Describe the missing end of an array; None if nothing is missing."""
        return self._splitter.unfinished if isinstance(self._splitter, ArraySplitter) else None

    def feed(self, block: bytes) -> list[Record]:
        """Return the records that this block completes.

        Raises `BadRecord` if they begin with a header that cannot be used.
        """
        if self._splitter is None:
            self._head += block
            text = without_bom(self._head).lstrip(_SPACE)
            if text.rstrip(b" \t\r") in (b"", b"[") or BOM.startswith(self._head):
                return []  # too little to tell
            return self._without_header(self._begin())
        return self._without_header(self._splitter.feed(block))

    def finish(self) -> list[Record]:
        """Return the last record, if it has no newline or is not closed. Nothing may be fed after.

        Raises `BadRecord` as `feed`.
        """
        records = self._begin() if self._splitter is None else []
        assert self._splitter is not None
        return self._without_header(records + self._splitter.finish())

    def _begin(self) -> list[Record]:
        """Choose lines or an array, and cut what was held back for that."""
        text = without_bom(self._head)
        if begins_array(text):
            at = len(self._head) - len(text)
            self._splitter = ArraySplitter(max_event_bytes=MAX_EVENT_BYTES, at=at)
            return self._splitter.feed(text)
        self._splitter = Splitter(quoted=False, max_event_bytes=MAX_EVENT_BYTES)
        return self._splitter.feed(self._head)

    def _without_header(self, records: list[Record]) -> list[Record]:
        if not records:
            return records
        self.end = records[-1][1]
        if self._at_beginning:
            self._at_beginning = False
            first, end = records[0]
            records[0] = without_bom(first), end
        if self._is_csv and self.header is None:
            first, self.begin = records.pop(0)
            self.header = self._read_header(first)
        if self._has_commas and self.header is not None:
            return [(self._with_points(record), end) for record, end in records]
        return records

    def _with_points(self, record: bytes) -> bytes:
        """Return a record of CSV with decimal points; one that is too large stays that."""
        if len(record) > MAX_EVENT_BYTES or self.header is None:
            return record
        return with_decimal_points(record, self.header.delimiter)

    def _read_header(self, record: bytes) -> Header:
        assert isinstance(self._splitter, Splitter)
        where, delimiter = f"the header of {self._name}", self._splitter.delimiter or ","
        try:
            fields = tuple(read_csv_cells(record, delimiter))
        except BadRecord as error:
            raise BadRecord(f"{where}: {error}") from None
        if b"\0" in record:
            raise BadRecord(
                f"{where} holds null bytes, as UTF-16 does; name the file's encoding: "
                "csv:PATH?encoding=utf-16-le"
            )
        check_names(fields, where)
        return Header(fields, delimiter)
