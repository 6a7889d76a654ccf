"""Texts in fields: those that stand for something else, and the columns that the others have."""

from __future__ import annotations

import re

__all__ = ["BOOLEANS", "MISSING", "OWN", "SHARED", "is_shared"]

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
