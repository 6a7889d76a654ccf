"""Data sets as events: dicts with their labels, and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks import data as sets
from benchmarks.data import Dataset, Directory

LABEL = "label"
TEXTS = {"airlines_h2o_44k": {8: "UniqueCarrier", 9: "Origin", 10: "Dest"}}
"""Columns that the file has as numbers of texts, and under which name the list of these."""

Event = tuple[dict[str, Any], Any]


def load(name: str, directory: Directory, n: int, *, quick: bool) -> list[Event]:
    """The first n events of a set (0: all), None in place of what is missing."""
    data = sets.load(name, directory, quick=quick).first(n)
    columns = [[None if v != v else v for v in column.tolist()] for column in data.X.T]
    for j, column in TEXTS.get(name, {}).items():
        columns[j] = _texts(name, directory, column, columns[j], quick)
    rows = (dict(zip(data.columns, row, strict=True)) for row in zip(*columns, strict=True))
    return list(zip(rows, data.y.tolist(), strict=True))


def _texts(
    name: str, directory: Directory, column: str, codes: list[Any], quick: bool
) -> list[str | None]:
    """The texts of a column of codes; of generated numbers, texts made from these."""
    try:
        listed = sets.read(name, directory)[1][column].tolist()
    except sets.DataError:
        if not quick:
            raise
        return [None if code is None else f"text {round(code)}" for code in codes]
    return [None if code is None else listed[int(code)] for code in codes]


def encoded(events: Iterable[Event]) -> list[bytes]:
    """Each event as a JSON object, the label among its fields."""
    encode = msgspec.json.Encoder().encode
    return [encode({**x, LABEL: label}) for x, label in events]


def encoded_rows(data: Dataset) -> list[bytes]:
    """The events of a set of numbers alone as JSON objects."""
    rows = data.X.tolist()
    assert not np.isnan(data.X).any(), data.name
    names = data.columns
    return encoded(
        (dict(zip(names, row, strict=True)), label)
        for row, label in zip(rows, data.y.tolist(), strict=True)
    )


def write(path: Path, values: Sequence[bytes]) -> None:
    """Write values as lines."""
    path.write_bytes(b"\n".join(values) + b"\n")
