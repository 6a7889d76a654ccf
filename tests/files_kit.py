"""Files of events in every form, and sources that are read to their end."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connectors.base import Chunk, Source
from connectors.registry import open_source


def arrow() -> tuple[Any, Any]:
    """PyArrow, and its module for Parquet."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    return pyarrow, pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")


def write(
    path: Path,
    events: list[dict[str, Any]],
    *,
    columns: Sequence[str] = (),
    encoding: str = "utf-8",
    rows: int = 700,
) -> Path:
    """Write events in the form that a file's name tells; `rows` are those of a group of Parquet.

    Where there are no events, they would have whole numbers in these columns.
    """
    path.parent.mkdir(exist_ok=True)
    form = path.name.removesuffix(".gz").rpartition(".")[2]
    if form == "parquet":
        pyarrow, parquet = arrow()
        nothing = pyarrow.table({name: pyarrow.array([], "int64") for name in columns})
        table = pyarrow.Table.from_pylist(events) if events else nothing
        parquet.write_table(table, path, row_group_size=rows)
        return path
    if form == "csv":
        file = io.StringIO()
        writer = csv.DictWriter(file, columns or events[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(events)
        text = file.getvalue()
    elif form == "json":
        text = json.dumps(events)
    else:
        text = "".join(json.dumps(event, default=str) + "\n" for event in events)
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def drain(source: Source, step: int = 1000) -> list[Chunk]:
    """Return all that comes until a source is finished."""
    chunks = []
    while not source.finished():
        chunks += source.poll(step, 0.0)
    return chunks


def values(chunks: list[Chunk]) -> list[Any]:
    return [value for chunk in chunks for value in chunk.values]


def offsets(chunks: list[Chunk], partition: str | None = None) -> list[int]:
    """Return the offsets of all partitions, or of one."""
    some = [chunk for chunk in chunks if partition in (None, chunk.partition)]
    return [offset for chunk in some for offset in chunk.offsets.tolist()]


def everything(url: str, step: int = 170) -> tuple[Any, list[bytes]]:
    """Return the source at an address, which is closed, and all its values in their order."""
    with closing(open_source(url)) as source:
        chunks = drain(source, step)
        assert offsets(chunks) == list(range(len(values(chunks))))
        return source, values(chunks)
