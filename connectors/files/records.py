"""Records of JSON or CSV out of a text, as it comes."""

from __future__ import annotations

from typing import NamedTuple, Self

from connectors.base import MAX_EVENT_BYTES
from connectors.cells import (
    check_names,
    delimiter_named,
    read_csv_cells,
    with_decimal_points,
)
from connectors.errors import BadRecord, BadURL
from connectors.files.json_array import JSONSplitter
from connectors.files.lines import Splitter, without_bom
from connectors.files.text import encoding_named

__all__ = ["Header", "Record", "Records", "TextForm"]

Record = tuple[bytes, int]
"""A record and the byte after it."""


class TextForm(NamedTuple):
    """The form of a text, as its address names it.

    Attributes
    ----------
    encoding : "json" or "csv"
        One JSON object a line or an array of them, or CSV whose first record is the header.
    delimiter : str or None
        The character between the cells of CSV; None: it is found in the header.
    decimal : "." or ","
        The sign before the fraction of a number in CSV.
    text_encoding : str or None
        As Python names it; None: UTF-8, or UTF-16 if the text begins with the mark of that.
    """

    encoding: str
    delimiter: str | None = None
    decimal: str = "."
    text_encoding: str | None = None

    @classmethod
    def of_csv(cls, delimiter: str, decimal: str, text_encoding: str = "") -> Self:
        """Return the form of CSV whose options have these texts. Raises `BadURL`."""
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


class Records:
    """Cuts a text into its records. The header of CSV is none of them.

    Parameters
    ----------
    form : TextForm
    name : str
        Of the text, for messages.
    at : int
        The byte where the first record begins.
    header : Header, optional
        Of CSV that was begun before; else it is the first record.

    Attributes
    ----------
    header : Header or None
        None of JSON, and of CSV before it is there.
    begin, end : int
        The byte where the first record begins, behind the header, and the one after the last.
    """

    def __init__(
        self, form: TextForm, name: str, *, at: int = 0, header: Header | None = None
    ) -> None:
        self.header = header
        self.begin = self.end = at
        self._is_csv, self._name = form.encoding == "csv", name
        self._has_commas = form.decimal == ","
        self._at_beginning = not at
        self._splitter: Splitter | JSONSplitter
        if self._is_csv or at:
            delimiter = form.delimiter if header is None else header.delimiter
            self._splitter = Splitter(
                quoted=self._is_csv, max_event_bytes=MAX_EVENT_BYTES, delimiter=delimiter, at=at
            )
        else:
            self._splitter = JSONSplitter(max_event_bytes=MAX_EVENT_BYTES)

    @property
    def anywhere(self) -> bool:
        """Return whether reading may begin behind any record."""
        return self._splitter.anywhere

    @property
    def unfinished(self) -> str | None:
        """Return the words for the missing end of an array; None if there is none."""
        return self._splitter.unfinished

    def feed(self, block: bytes) -> list[Record]:
        """Return the records that this block completes.

        Raises
        ------
        BadRecord
            If they begin with a header that cannot be used.
        """
        return self._without_header(self._splitter.feed(block))

    def finish(self) -> list[Record]:
        """Return the last records, if it has no newline or is not closed. Nothing may be fed after.

        Raises `BadRecord` as `feed`.
        """
        return self._without_header(self._splitter.finish())

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
        where, delimiter = f"the header of {self._name}", self._splitter.delimiter or ","
        try:
            fields = tuple(read_csv_cells(record, delimiter))
        except BadRecord as error:
            raise BadRecord(f"{where}: {error}") from None
        if b"\0" in record:
            raise BadRecord(
                f"{where} holds bytes of 0, as UTF-16 has them; name the file's encoding:"
                " csv:PATH?encoding=utf-16-le"
            )
        check_names(fields, where)
        return Header(fields, delimiter)
