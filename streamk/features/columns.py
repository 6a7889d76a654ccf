"""Columns and the keys that tie them to their random frequencies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput

Column = str | int
"""Name of a column: a string, or its number where columns have no names."""


def column_key(column: Column) -> int:
    """Return the 64-bit key under which the generator knows a column.

    A number is its own key and a name's key is a hash of it, the same in every process, so that
    the features of an event do not depend on the order in which its columns come. Raises
    `InvalidInput` if the column is neither a string nor a number from 0 to 2^64 - 1.

    Examples
    --------
    >>> column_key(3), column_key("price") == column_key("price")
    (3, True)
    """
    if isinstance(column, str):
        digest = hashlib.blake2b(column.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little")
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if 0 <= column < 2**64:
            return int(column)
        raise InvalidInput(f"column {column} is out of range; number columns from 0")
    raise InvalidInput(f"column {column!r} is neither a name nor a number; name it by a string")


def column_keys(columns: Iterable[Column]) -> NDArray[np.uint64]:
    """Return the keys of several columns, uint64 (d,), or raise InvalidInput.

    That is if a column comes twice, or as for `column_key`.
    """
    names = list(columns)
    keys = np.array([column_key(name) for name in names], dtype=np.uint64)
    if len(set(keys.tolist())) < len(keys):
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        raise InvalidInput(f"columns come twice: {', '.join(twice) or 'a name and its hash'}")
    return keys


MISSING = (
    *("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "#N/A N/A"),
    *("NULL", "null", "None", "NaN", "nan", "NAN", "-NaN", "-nan", "-NAN"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Texts that stand for a missing value: those of `pandas.read_csv`, and "NAN" as C writes it."""

BOOLEANS = {
    spelled(word): word == "true"
    for word in ("true", "false")
    for spelled in (str.lower, str.title, str.upper)
}
"""Texts that stand for a boolean, as JSON, Python, R and spreadsheets write them."""

OWN = 256
"""Texts of a field, at most, that have a column each."""

SHARED = 64
"""Columns that texts of a field share, by a hash of theirs, which have none of their own."""
_SHARED = re.compile(r"#\d\d?", re.ASCII)


def is_shared(text: str) -> bool:
    """Return whether "c=text" is a column that texts of a field share.

    >>> is_shared("#63"), is_shared("#64"), is_shared("red")
    (True, False, False)
    """
    return _SHARED.fullmatch(text) is not None and int(text[1:]) < SHARED
