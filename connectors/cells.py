"""The cells of a CSV record, and the character between them."""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from connectors.errors import BadRecord, BadURL

_NAMES = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    r"\t": "\t",
    "pipe": "|",
    "space": " ",
    "colon": ":",
}


def read_csv_cells(value: bytes, delimiter: str = ",") -> list[str]:
    """Split one CSV record into its cells.

    Raises `BadRecord` if it is not one record of UTF-8 text.

    Examples
    --------
    >>> read_csv_cells(b'1,"a,b",')
    ['1', 'a,b', '']
    >>> read_csv_cells(b'3,5;"a;b"', ";")
    ['3,5', 'a;b']
    """
    try:
        text = value.decode("utf-8")
        if not ('"' in text or "\r" in text or "\n" in text):
            return text.split(delimiter)
        records = list(_records(text, delimiter))
    except UnicodeDecodeError as error:
        raise BadRecord(
            f"byte 0x{value[error.start]:02x} at place {error.start} of the record is not UTF-8; "
            "name the encoding of the file, for example csv:PATH?encoding=latin-1"
        ) from None
    except (ValueError, csv.Error) as error:
        if "new-line character" in str(error):
            error = ValueError("a carriage return in a cell without quotes; lines end by a newline")
        raise BadRecord(str(error)) from None
    if len(records) != 1:
        raise BadRecord(f"{len(records)} CSV records, not one")
    return records[0]


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    """Return the records of a text, read by Python's csv, with cells of any length."""
    if len(text) > csv.field_size_limit():
        csv.field_size_limit(sys.maxsize)  # of the process; what limits a record is its size
    return csv.reader([text], delimiter=delimiter, strict=True)


def ends_in_quotes(line: bytes, delimiter: str) -> bool:
    """Return whether the last cell of a line was opened by a quote and not closed.

    >>> [ends_in_quotes(line, ",") for line in (b'1,"a', b'1,"a"', b'1,5"', b'"5"x,"a')]
    [True, False, False, False]
    """
    try:
        list(_records(line.decode("utf-8", "replace"), delimiter))
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False


_WITH_COMMA = re.compile(
    r"\s*[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*)(?:,\d*)?(?:[eE][+-]?\d+)?\s*", re.ASCII
)


def with_decimal_points(record: bytes, delimiter: str) -> bytes:
    """Return a CSV record with its numbers written by decimal points and without thousands.

    >>> with_decimal_points(b'3,14;1.234,5;"-,5";a,b;1.5;7', ";")
    b'3.14;1234.5;-.5;a,b;1.5;7'
    """
    if b"," not in record and b"." not in record:
        return record
    try:
        cells = read_csv_cells(record, delimiter)
    except BadRecord:
        return record  # which whoever decodes it will say
    found = [_with_point(cell) for cell in cells]
    if found == cells:
        return record
    odd = re.compile(f'["\r\n{re.escape(delimiter)}]')
    return delimiter.join(
        '"' + cell.replace('"', '""') + '"' if odd.search(cell) else cell for cell in found
    ).encode()


def _with_point(cell: str) -> str:
    is_number = _WITH_COMMA.fullmatch(cell) and any(sign.isdigit() for sign in cell)
    return cell.replace(".", "").replace(",", ".") if is_number else cell


def check_names(names: Iterable[str], where: str) -> None:
    """Raise `BadRecord` if columns have one name: the second would take the place of the first."""
    name, times = max(Counter(names).items(), key=lambda one: one[1], default=("", 0))
    if times > 1:
        raise BadRecord(f"{where} names {name!r} twice; give each column a name of its own")


def delimiter_in(header: str) -> str:
    r"""Return the character between the cells of a CSV header.

    It is a comma if there is one outside quotes; else that of semicolon, tab and `|` which is there
    most often, the first of them where two are; a comma where there is none of them.

    >>> [delimiter_in(line) for line in ("a;b,c", 'a;"b, c"', "a\tb|c|d", "a")]
    [',', ';', '|', ',']
    """
    outside = "".join(header.split('"')[::2])
    if "," in outside:
        return ","
    found = max(";\t|", key=outside.count)
    return found if found in outside else ","


def delimiter_named(text: str) -> str:
    r"""Return the delimiter that an option names: a character, or a word such as "tab".

    Raises `BadURL` if it is neither.

    Examples
    --------
    >>> delimiter_named(";"), delimiter_named("tab")
    (';', '\t')
    """
    found = _NAMES.get(text.lower(), text)
    if len(found) != 1 or found in '"\r\n':
        words = ", ".join(name for name in _NAMES if name.isalpha())
        raise BadURL(f"delimiter={text!r} is neither one character nor one of {words}")
    return found
