"""The rules by which events become columns (`streamk.encoding.columns`), as plainly as possible.

Events are flat dicts of numbers, texts and None that are all learned, one after the other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

OWN, SHARED = 256, 64


def encode(
    events: Iterable[Mapping[str, Any]], *, absent: float = 0.0
) -> Iterator[tuple[list[str], list[float]]]:
    """Yield the columns after each event, and the event's numbers in them."""
    columns: list[tuple[str, str]] = []  # the field, and the column's name
    own: dict[str, set[str]] = {}
    for event in events:
        values: dict[str, float] = {}
        texts: set[str] = set()
        missing: set[str] = set()
        for name, value in event.items():
            number = as_number(value)
            if value is None or value == "" or (number is not None and math.isnan(number)):
                missing.add(name)
            elif number is not None:
                values[name] = number
            else:
                known = own.setdefault(name, set())
                if value not in known and len(known) >= OWN:
                    digest = hashlib.blake2b(value.encode(), digest_size=8).digest()
                    column = f"{name}=#{int.from_bytes(digest, 'little') % SHARED}"
                else:
                    known.add(value)
                    column = f"{name}={value}"
                values[column] = 1.0
                texts.add(name)
        fields = {name: name for name in event}
        fields |= {column: column.partition("=")[0] for column in values if column not in event}
        known_columns = {column for _, column in columns}
        new = sorted(column for column in values if column not in known_columns)
        columns += [(fields[column], column) for column in new]
        row = []
        for field, column in columns:
            if column in values:
                row.append(values[column])
            elif field in missing:
                row.append(math.nan)
            elif field not in event:
                row.append(absent)
            else:  # another text, or a number where this is a text, or the reverse
                row.append(math.nan if column == field and field in texts else 0.0)
        yield [column for _, column in columns], row


def as_number(value: Any) -> float | None:
    """Return a number, or one that a text reads as."""
    if isinstance(value, str):
        try:
            return float(value) if "_" not in value else None
        except ValueError:
            return None
    return None if value is None else float(value)
