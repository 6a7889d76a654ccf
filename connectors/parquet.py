"""Parquet: a file or a directory of files as a source, a directory as a sink. Needs pyarrow."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Generator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from connectors.base import URL, Chunk, Connector, Output, Sink, Source, SourceBase
from connectors.errors import BadRecord, ConnectorError, OffsetOutOfRange, Unavailable
from connectors.files.sinks import flat_output, sync_directory, writing
from connectors.files.source import existing_file, path_of

__all__ = ["PARQUET", "ParquetSink", "ParquetSource"]

_BATCH_ROWS = 8192
_PART = re.compile(r"part-(\d{8})\.parquet")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable("Parquet needs pyarrow: pip install 'streamk[parquet]'") from error
    return pyarrow


class _RowGroup(NamedTuple):
    """A part of a file that is read at once."""

    path: Path
    number: int


class ParquetSource(SourceBase):
    """The rows of a Parquet file, or of a directory of them, as dicts; one partition.

    The files of a directory, those below it included, are read in the order of their paths. They
    are read a row group at a time. The position of an event is its row, counted through all files,
    and `seek` goes to the row group by their own indexes: files that come later must have names
    that come later.

    Raises
    ------
    Unavailable
        If there is no such file, none in the directory, or no pyarrow.
    BadRecord
        If one is no Parquet file.
    """

    encoding = "dict"

    def __init__(self, path: Path) -> None:
        self._pyarrow = _pyarrow()
        self._partition = path.name or path.resolve().name
        self._groups: list[_RowGroup] = []
        sizes = []
        for each in _files(path):
            with self._opened(each) as file:
                metadata = file.metadata
                for number in range(metadata.num_row_groups):
                    self._groups.append(_RowGroup(each, number))
                    sizes.append(metadata.row_group(number).num_rows)
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._end = int(self._starts[-1])
        self._rows: list[dict[str, Any]] = []  # read and not given yet, from `_taken` on
        self._taken = 0
        self._batches: Generator[list[dict[str, Any]], None, None] = self._tables(0)
        self._ordinal = 0

    def _opened(self, path: Path) -> Any:
        try:
            return self._pyarrow.parquet.ParquetFile(existing_file(path))
        except self._pyarrow.ArrowInvalid as error:
            raise BadRecord(f"{path} is no Parquet file: {error}") from error

    def _tables(self, offset: int) -> Generator[list[dict[str, Any]], None, None]:
        """Lists of rows from `offset` on."""
        group = int(np.searchsorted(self._starts, offset, side="right")) - 1
        skip = offset - int(self._starts[group])
        for path, groups in groupby(self._groups[group:], key=attrgetter("path")):
            with self._opened(path) as file:
                numbers = [one.number for one in groups]
                for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=numbers):
                    if skip >= batch.num_rows:
                        skip -= batch.num_rows
                        continue
                    yield _rows(self._in_microseconds(batch.slice(skip)))
                    skip = 0

    def _in_microseconds(self, batch: Any) -> Any:
        """A batch whose times are no finer than Python's."""
        types = self._pyarrow.types
        fine = [
            (i, field)
            for i, field in enumerate(batch.schema)
            if types.is_timestamp(field.type) and field.type.unit == "ns"
        ]
        for i, field in fine:
            coarse = self._pyarrow.timestamp("us", field.type.tz)
            batch = batch.set_column(i, field.name, batch.column(i).cast(coarse, safe=False))
        return batch

    def partitions(self) -> tuple[str, ...]:
        """The name of the file, or of the directory."""
        return (self._partition,)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next rows; never waits."""
        if self._taken == len(self._rows):
            self._rows, self._taken = next(self._batches, []), 0
        values = self._rows[self._taken : self._taken + max_events]
        if not values:
            return []
        offsets = np.arange(self._ordinal, self._ordinal + len(values), dtype=np.int64)
        self._taken += len(values)
        self._ordinal += len(values)
        return [Chunk(self._partition, offsets, offsets, values)]

    def seek(self, partition: str, offset: int) -> None:
        """Go to a row. Raises `OffsetOutOfRange` where there is none."""
        if not 0 <= offset <= self._end:
            raise OffsetOutOfRange(
                f"{self._partition} holds {self._end} rows, there is no offset {offset}",
                partition=partition,
                offset=offset,
            )
        self._batches.close()
        self._ordinal, self._batches = offset, self._tables(offset)
        self._rows, self._taken = [], 0

    def start(self, partition: str) -> int:
        """0."""
        return 0

    def end(self, partition: str) -> int:
        """The number of rows."""
        return self._end

    def lag(self) -> int:
        """The rows not polled yet."""
        return self._end - self._ordinal

    def finished(self) -> bool:
        """Return whether the last row was given."""
        return self._ordinal == self._end

    def close(self) -> None:
        """Close the file that is read."""
        self._batches.close()


def _files(path: Path) -> list[Path]:
    """Return the files that an address names, in their order."""
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    if not found:
        raise Unavailable(f"{path} is a directory without a file *.parquet")
    return found


def _rows(batch: Any) -> list[dict[str, Any]]:
    """The rows as dicts. A time that Python has no year for stays one of NumPy's."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    except (KeyError, OverflowError, ValueError):
        names = batch.schema.names
        cells = ([_value(cell) for cell in column] for column in batch.columns)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    return rows


def _value(cell: Any) -> Any:
    try:
        with warnings.catch_warnings():  # of a key that stands twice in a map, the last counts
            warnings.simplefilter("ignore")
            return cell.as_py(maps_as_pydicts="lossy")
    except (OverflowError, ValueError):
        if isinstance(cell, Mapping):
            return {name: _value(cell[name]) for name in cell}
        if isinstance(cell, Sequence):
            return [_value(item) for item in cell]
        if not isinstance(cell.value, int):  # of a dictionary
            return _value(cell.value)
        kind = str(cell.type)
        unit: Any = "D" if kind.startswith("date32") else getattr(cell.type, "unit", "ms")
        return (np.timedelta64 if kind.startswith("duration") else np.datetime64)(cell.value, unit)


class ParquetSink:
    """A directory of Parquet files, one a flush, in the form of `NDJSONSink`'s records.

    A Parquet file cannot be appended to and is unreadable until it is finished; many finished
    ones are one data set to everything that reads Parquet. The mark is the number of files.

    Raises
    ------
    Unavailable
        If the directory cannot be made, or there is no pyarrow.
    """

    def __init__(self, path: Path) -> None:
        self._pyarrow = _pyarrow()
        self._path = path
        self._waiting: list[dict[str, Any]] = []
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot make the directory {path}: {error.strerror}") from error
        sync_directory(path.parent)

    def _parts(self) -> list[Path]:
        """The finished files, in order."""
        return sorted(part for part in self._path.iterdir() if _PART.fullmatch(part.name))

    def write(self, outputs: Sequence[Output]) -> None:
        """Keep the outputs for the next flush."""
        self._waiting.extend(map(flat_output, outputs))

    def flush(self) -> None:
        """Write what is waiting as one more file, durable when it returns."""
        if not self._waiting:
            return
        names = dict.fromkeys(name for record in self._waiting for name in record)
        try:
            columns = {
                name: self._pyarrow.array([_cell(record.get(name)) for record in self._waiting])
                for name in names
                if name != "key"
            }
            # Named its type: a file in which no output has a key must still fit the others.
            keys = [record.get("key") for record in self._waiting]
            columns["key"] = self._pyarrow.array(keys, type=self._pyarrow.string())
        except (self._pyarrow.ArrowInvalid, self._pyarrow.ArrowTypeError) as error:
            raise BadRecord(f"outputs of mixed types in one Parquet column: {error}") from error
        table = self._pyarrow.table(columns)
        part = self._path / f"part-{len(self._parts()):08d}.parquet"
        beside = part.with_suffix(".unfinished")
        with writing(part):
            with beside.open("wb") as file:
                self._pyarrow.parquet.write_table(table, file)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(part)
            sync_directory(self._path)
        self._waiting.clear()

    @property
    def address(self) -> str:
        """The directory, as it was named: by it a mark is known to be of this sink."""
        return str(self._path)

    def mark(self) -> int:
        """The number of files, flushed."""
        self.flush()
        return len(self._parts())

    def rewind(self, mark: Any) -> None:
        """Remove the files after the mark. Raises `ConnectorError` if there are fewer."""
        self._waiting.clear()
        if mark is None:
            return
        parts = self._parts()
        if not isinstance(mark, int) or not 0 <= mark <= len(parts):
            raise ConnectorError(
                f"{self._path} holds {len(parts)} files, the checkpoint says {mark!r}: outputs "
                "were lost. Put them back, or write to another directory"
            )
        for part in parts[mark:]:
            part.unlink()
        sync_directory(self._path)

    def close(self) -> None:
        """Flush."""
        self.flush()


def _cell(value: Any) -> Any:
    """Return a value as Parquet holds it, which has no object without fields."""
    return None if value == {} else value


def _source(url: URL) -> Source:
    return ParquetSource(path_of(url))


def _sink(url: URL) -> Sink:
    return ParquetSink(path_of(url))


PARQUET = Connector(source=_source, sink=_sink)
