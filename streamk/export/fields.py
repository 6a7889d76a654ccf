"""The fields of events, and the columns that their values fill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamk.encoding import ColumnTable, Schema
from streamk.errors import InvalidInput
from streamk.features.columns import Column, is_shared
from streamk.memory import ENTITY

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass
class ExportField:
    """A field and its columns."""

    name: str
    of_texts: bool = False
    """True if whatever it holds is a text."""
    number: int | None = None
    """Place of the column of its numbers."""
    texts: dict[str, int] = field(default_factory=dict)
    """Place of the column of each text that has its own."""
    shared: dict[int, int] = field(default_factory=dict)
    """Place of each of the columns that other texts share, by number."""


def fields_of(schema: Schema, columns: Sequence[Column] | None, width: int) -> list[ExportField]:
    """Return the fields of a schema, in the order of their first columns.

    Raises `InvalidInput` if the schema's columns are not the model's, of which there are `width`,
    or one is made from times or words, or is an entity.
    """
    own = list(schema.columns)
    _check_same(own, range(width) if columns is None else columns, named=columns is not None)
    found: dict[Column, ExportField] = {}
    table = ColumnTable(schema)
    for place, column in enumerate(own):
        owner = schema.owner(column)
        mine = found.setdefault(owner, ExportField(str(owner), table.is_of_texts(owner)))
        if column == owner:
            mine.number = place
            continue
        mark, text = str(column)[len(mine.name)], str(column)[len(mine.name) + 1 :]
        if mark + text == ENTITY:
            raise _refused(column, "is an entity, whose past the written model does not know")
        if mark == "@":
            raise _refused(column, "is made from times")
        if mark == ":":
            raise _refused(column, "is made from words")
        if is_shared(text):
            mine.shared[int(text[1:])] = place
            continue
        if _DATE.match(text) and not mine.of_texts:
            raise _refused(column, "stands for a text in lists that alone would be read as a time")
        mine.texts[text] = place
    return list(found.values())


def as_text(label: Column | bool) -> str:
    """Return a class or column as a text: a boolean as JSON has it.

    >>> as_text("a"), as_text(3), as_text(True)
    ('a', '3', 'true')
    """
    return str(label).lower() if isinstance(label, bool) else str(label)


def as_utf8(text: str) -> bytes:
    r"""Return a text's bytes; raise InvalidInput if C and ONNX would give another one back.

    >>> as_utf8("é")
    b'\xc3\xa9'
    """
    try:
        found = text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"the name {text[:40]!r} has half of a surrogate pair, which UTF-8 cannot encode; "
            "rename it"
        ) from None
    if b"\0" in found:
        raise InvalidInput(
            f"the name {text[:40]!r} has a null character, which would end it; rename it"
        )
    return found


def _check_same(ours: Sequence[Column], columns: Sequence[Column], *, named: bool) -> None:
    advice = "give the schema by which the model's events were encoded"
    if len(ours) != len(columns):
        raise InvalidInput(
            f"the schema has {len(ours)} columns, and the model {len(columns)}; {advice}"
        )
    for place, (one, other) in enumerate(zip(ours, columns, strict=True)):
        if named and one != other:
            raise InvalidInput(
                f"column {place} is {one!r} in the schema, and {other!r} in the model; {advice}"
            )


def _refused(column: Column, reason: str) -> InvalidInput:
    return InvalidInput(
        f"column {column!r} {reason}, which cannot be exported: encode events before the model "
        "(leave out schema=), or train without this column's field"
    )
