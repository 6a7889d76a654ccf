"""Entities of a saved model: what is known of one, as `streamk inspect` tells it."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from streamk.cli.arguments import UsageError, nearest
from streamk.cli.report import columns
from streamk.encoding.values import entity_of, plain
from streamk.learners.remembering import EntityMemory
from streamk.memory import EntityTable
from streamk.memory.entities import span_name


def tables_of(model: Any, field: str) -> list[EntityTable]:
    """Return the tables of a field, of a contest one for each model.

    Raises `UsageError` if the model has none.
    """
    models = model.models.values() or [model]
    tables = [one for each in models if isinstance(each, EntityMemory) for one in each.tables]
    found = [table for table in tables if table.name == field]
    if not found:
        names = [table.name for table in tables]
        there = f"there are {', '.join(dict.fromkeys(names))}" if names else "it has none"
        raise UsageError(f"the model has no entities of {field!r}{nearest(field, names)}; {there}")
    return found


def field_entity(text: str) -> tuple[str, str]:
    """Read FIELD=ENTITY.

    >>> field_entity("user=42")
    ('user', '42')
    """
    field, _, entity = text.partition("=")
    if plain(entity) is None or not field:
        raise argparse.ArgumentTypeError("it is written FIELD=ENTITY, for example user=42")
    return field, entity


def number_of(text: str) -> float:
    """Return the number of an entity as it is written on the command line."""
    number = entity_of(text)
    assert number is not None
    return number


def told(models: Mapping[str, Any], field: str, text: str, *, as_json: bool) -> str:
    """Return what models know of an entity, by where they lie.

    Raises `UsageError` if none knows it, or has no such table.
    """
    found, size = {}, 0
    for path, model in models.items():
        (table, *_) = tables_of(model, field)
        row, size = table.row(number_of(text)), size + len(table)
        if row is not None:
            found[path] = table, row
    if not found:
        raise UsageError(
            f"no {field} {text!r} is known, of {size:,}; one that was seen long ago may have made"
            " room"
        )
    if as_json:
        rows = [
            {"path": path} | {name: None if math.isnan(x) else x for name, x in row.items()}
            for path, (_, row) in found.items()
        ]
        return json.dumps({"field": field, "entity": text, "rows": rows}, indent=1)
    return "\n".join(
        f"{path}: {field} {text!r}, {_text(table, row)}" for path, (table, row) in found.items()
    )


def _shown(x: float) -> str:
    """Return a number for people: what is next to nothing is 0."""
    return f"{x:.6g}" if abs(x) >= 1e-6 else "0"


def _text(table: EntityTable, row: Mapping[str, float]) -> str:
    """Return a row for people."""
    said = f"{row['count']:,.0f} events"
    if not math.isnan(row["time"]):
        last = datetime.fromtimestamp(row["time"], UTC).isoformat(" ", "seconds")
        said += f", the last at {last.removesuffix('+00:00')}"
    names = [name.removesuffix(".last") for name in row if name.endswith(".last")]
    lines: list[tuple[str, ...]] = [("", "weight", "mean", "spread", "last")]
    for name in names:
        for time in ("", *(f"_{span_name(span)}" for span in table.spans)):
            weight, mean, variance = (
                row[f"{name}.{one}{time}"] for one in ("weight", "mean", "variance")
            )
            last = "" if time or math.isnan(x := row[f"{name}.last"]) else _shown(x)
            cells = (weight, mean, math.sqrt(variance))
            lines.append((f"{name}{time}", *(_shown(x) for x in cells), last))
    return f"{said}\n{columns(lines, indent='  ', numbers=True)}"
