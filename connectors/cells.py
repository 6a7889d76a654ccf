"""The cells of a CSV record."""

from __future__ import annotations

import csv

from connectors.errors import BadRecord

__all__ = ["read_csv_cells"]


def read_csv_cells(value: bytes) -> list[str]:
    """Split one CSV record into its cells.

    Raises
    ------
    BadRecord
        If it is not one record of UTF-8 text.

    Examples
    --------
    >>> read_csv_cells(b'1,"a,b",')
    ['1', 'a,b', '']
    """
    try:
        text = value.decode("utf-8")
        if not ('"' in text or "\r" in text or "\n" in text):
            return text.split(",")
        records = list(csv.reader([text], strict=True))
    except (ValueError, csv.Error) as error:
        raise BadRecord(str(error)) from None
    if len(records) != 1:
        raise BadRecord(f"{len(records)} CSV records where one belongs")
    return records[0]
