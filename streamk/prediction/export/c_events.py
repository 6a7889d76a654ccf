"""The fields of events in C: their names, texts and columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamk.prediction.export.c_literals import array, capitals, texts
from streamk.prediction.export.c_text import part
from streamk.prediction.export.fields import MISSING, Field

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
    # Texts are searched by their bytes, so they lie in that order.
    ordered = [sorted(field.texts.items(), key=_bytes) for field in fields]
    places = [place for some in ordered for _, place in some]
    starts = np.cumsum([0, *map(len, ordered)])
    numbers = [-1 if field.number is None else field.number for field in fields]
    blank = "NAN" if absent == "missing" else "0.0"
    return "".join(
        [
            "\n/* The fields of events, and their columns. */\n",
            _numbered(fields, name),
            f"#define {name.upper()}_FIELDS {len(fields)}\n",
            f"#define {name.upper()}_BLANK {blank}\n",
            texts(f"{name}_missing", MISSING),
            texts(f"{name}_fields", [field.name for field in fields]),
            texts(f"{name}_texts", [text for some in ordered for text, _ in some]),
            array(f"{name}_text_columns", np.array(places, np.int64)),
            array(f"{name}_text_starts", starts),
            array(f"{name}_number_columns", np.array(numbers)),
            part("events", name),
        ]
    )


def _bytes(item: tuple[str, int]) -> bytes:
    return item[0].encode("utf-8", "surrogatepass")


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
