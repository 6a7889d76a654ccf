"""The fields of events in C: their names, texts and columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamk.features.texts import BOOLEANS, MISSING, OWN, SHARED
from streamk.prediction.export.c_literals import array, capitals, texts
from streamk.prediction.export.c_text import part
from streamk.prediction.export.fields import Field, as_utf8

__all__ = ["events"]


def events(fields: Sequence[Field], *, absent: str, name: str) -> str:
    """Return the part of a header by which fields of events become columns.

    Parameters
    ----------
    fields : sequence of Field
    absent : "zero" or "missing"
        What a field that is not there is.
    name : str
        Of the model.
    """
    numbers = [-1 if field.number is None else field.number for field in fields]
    blank = "NAN" if absent == "missing" else "0.0"
    return "".join(
        [
            "\n/* The fields of events, and their columns. */\n",
            _numbered(fields, name),
            f"#define {name.upper()}_FIELDS {len(fields)}\n",
            f"#define {name.upper()}_BLANK {blank}\n",
            texts(f"{name}_missing", MISSING),
            texts(f"{name}_booleans", list(BOOLEANS)),
            texts(f"{name}_fields", [field.name for field in fields]),
            array(f"{name}_of_texts", np.array([int(field.of_texts) for field in fields])),
            array(f"{name}_number_columns", np.array(numbers)),
            _texts(fields, name),
            _shared(fields, name),
            part("events", name),
        ]
    )


def _texts(fields: Sequence[Field], name: str) -> str:
    """Return the columns of texts: of each field those of a text, and then those that are shared.

    Texts are searched by their bytes, so they lie in that order.
    """
    found: list[str] = []
    places: list[int] = []
    starts, ends = [0], []
    for field in fields:
        own = sorted(field.texts.items(), key=_bytes)
        found += [text for text, _ in own] + [""] * len(field.shared)
        ends.append(len(places) + len(own))
        places += [place for _, place in own] + list(field.shared.values())
        starts.append(len(places))
    return "".join(
        [
            texts(f"{name}_texts", found),
            array(f"{name}_text_columns", np.array(places, np.int64)),
            array(f"{name}_text_starts", np.array(starts)),
            array(f"{name}_own_ends", np.array(ends)),
        ]
    )


def _shared(fields: Sequence[Field], name: str) -> str:
    """Return the columns that texts share, if there are any: a row for each field that has some."""
    rows = np.full((len(fields), SHARED), -1)
    for row, field in zip(rows, fields, strict=True):
        row[list(field.shared)] = list(field.shared.values())
    having = np.array([bool(field.shared) for field in fields])
    if not having.any():
        return ""
    return "".join(
        [
            f"#define {name.upper()}_SHARED {SHARED}\n#define {name.upper()}_OWN {OWN}\n",
            array(f"{name}_shared_rows", np.where(having, np.cumsum(having) - 1, -1)),
            array(f"{name}_shared_columns", rows[having]),
            part("hash", name),
        ]
    )


def _bytes(item: tuple[str, int]) -> bytes:
    return as_utf8(item[0])


def _numbered(fields: Sequence[Field], name: str) -> str:
    """Return the numbers of fields as constants that are called as they are."""
    found: dict[str, int] = {}
    for number, field in enumerate(fields):
        constant = f"{name.upper()}_FIELD_{capitals(field.name)}"
        while constant in found:
            constant += f"_{number}"
        found[constant] = number
    lines = ",\n    ".join(f"{constant} = {number}" for constant, number in found.items())
    return f"enum {name}_field_number {{\n    {lines}\n}};\n"
