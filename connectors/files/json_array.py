"""Cutting a JSON array, as it comes, into its elements."""

from __future__ import annotations

import re

from connectors.files.lines import BOM, Splitter, without_bom

__all__ = ["ArraySplitter", "JSONSplitter"]

_SPACE = b" \t\r\n"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BETWEEN = re.compile(rb'(?:[^"{}\[\],]++|' + _STRING + rb")*+", re.DOTALL)
"""Up to a bracket, a comma, or the beginning of a string that is not all there."""
_WITHIN = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
"""The same, where commas are no ends."""
_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""The rest of a string, up to its quote or half an escape."""
_ARRAY = re.compile(rb"\[(?:\s*[{\]]|[ \t\r]*\n)")


class JSONSplitter:
    """Cuts JSON into records: the elements of an array of objects, else lines.

    A file holds an array if it begins with a bracket which a line's end, an object or the other
    bracket follows. A list with something else in it is a line, and a bad event.

    Attributes
    ----------
    delimiter : None
    anywhere : bool
        Reading may begin behind any record, as it may where each is a line.
    """

    delimiter = None

    def __init__(self, *, max_event_bytes: int) -> None:
        self._max = max_event_bytes
        self._head = b""
        self._inner: Splitter | ArraySplitter | None = None

    @property
    def anywhere(self) -> bool:
        """Return whether the records are lines."""
        return not isinstance(self._inner, ArraySplitter)

    @property
    def unfinished(self) -> str | None:
        """Return the words for the missing end of an array; None if there is none."""
        return self._inner.unfinished if isinstance(self._inner, ArraySplitter) else None

    def feed(self, block: bytes) -> list[tuple[bytes, int]]:
        """Return the records that this block completes, each with the byte after it."""
        if self._inner is None:
            self._head += block
            text = without_bom(self._head).lstrip(_SPACE)
            if text.rstrip(b" \t\r") in (b"", b"[") or BOM.startswith(self._head):
                return []  # too little to tell
            block = self._begin()
        assert self._inner is not None
        return self._inner.feed(block)

    def _begin(self) -> bytes:
        """Tell what it is; return what was held back for that."""
        text = without_bom(self._head)
        if _ARRAY.match(text.lstrip(_SPACE)):
            self._inner = ArraySplitter(max_event_bytes=self._max, at=len(self._head) - len(text))
            return text
        self._inner = Splitter(quoted=False, max_event_bytes=self._max)
        return self._head

    def finish(self) -> list[tuple[bytes, int]]:
        """Return the last record, if it is not closed. Nothing may be fed after."""
        records: list[tuple[bytes, int]] = []
        if self._inner is None:
            head = self._begin()
            assert self._inner is not None
            records = self._inner.feed(head)
        return records + self._inner.finish()


class ArraySplitter:
    """Cuts bytes, as they come, into the elements of a JSON array, whatever these are.

    An element reaches to the comma or bracket after it, those inside of objects, lists and strings
    not counted, so one that is no JSON is an element too. After the array another one may follow,
    or lines. Of an element longer than `max_event_bytes` one byte more than that is kept, enough
    to be recognised.

    Parameters
    ----------
    max_event_bytes : int
    at : int
        The byte of the file where the array begins.

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
                f"it ends at byte {self._at + len(self._tail)}{within}, before the array is closed"
                " by ]; what is behind that is missing"
            )
        return records

    def _outside(self, data: bytes, at: int, records: list[tuple[bytes, int]]) -> tuple[int, int]:
        """Go on where no array is open; return where an element begins, and where to go on."""
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
