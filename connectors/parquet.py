"""Parquet: a file or a directory of files as a source, a directory as a sink. Needs pyarrow."""

from __future__ import annotations

import os
import re
import warnings
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np

from connectors.base import URL, Connector, Output, Source
from connectors.cells import check_names
from connectors.errors import BadRecord, BadURL, ConnectorError, Unavailable
from connectors.files import path_of
from connectors.files.ordered import FileReader, Files, FilesSource, Known, existing_file
from connectors.files.reader import KNOWN_BY, digest
from connectors.files.sinks import flat_output, sync_directory, writing

_BATCH_ROWS = 8192
_PART = re.compile(r"part-(\d{8})\.parquet")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable("Parquet needs pyarrow: pip install 'streamk[parquet]'") from error
    return pyarrow


class ParquetSource(FilesSource):
    """The rows of a Parquet file, or of many, as dicts; one partition.

    The place is a file, a pattern with `*`, or a directory: all files `*.parquet` below it. The
    position of an event is its row, counted through all files. With `follow` it waits for later
    files, which must be whole when they get their names. Raises `Unavailable` if there is no such
    file, none in the directory, or no pyarrow; `BadURL` if it is one file and to be followed; and
    `BadRecord` if one is not a Parquet file, or names a column twice.
    """

    encoding = "dict"

    def __init__(self, place: Path, *, follow: bool = False) -> None:
        self._pyarrow = _pyarrow()
        files = Files(place, below="*.parquet")
        if follow and not files.are_many:
            raise BadURL(f"{place} is one Parquet file, which does not grow; drop follow=true")
        self._rows: dict[str, int] = {}
        super().__init__(files, follow=follow)
        try:
            self._count()  # which finds what cannot be read before anything is learned
        except ConnectorError:
            self.close()
            raise

    def _opened(self, path: Path) -> _ParquetReader:
        file = existing_file(path).open("rb")
        try:
            return _ParquetReader(self._pyarrow, path, file)
        except BaseException:
            file.close()
            raise

    def _count(self) -> int:
        """Return the rows of the present file and those after it."""
        later = bisect_left(self._order, PurePath(self._begun[-1][1]).parts)
        names = self._listed[later:]
        for name in names:
            if name not in self._rows:
                with closing(self._opened(self._files.path(name))) as reader:
                    self._rows[name] = reader.rows
        return sum(self._rows[name] for name in names)

    def end(self, partition: str) -> int | None:
        """The number of rows; None when followed."""
        return None if self._follow else self._begun[-1][0] + self._count()

    def lag(self) -> int | None:
        """The rows not polled yet; None when followed."""
        end = self.end(self._files.name)
        return None if end is None else end - self._position


class _ParquetReader(FileReader):
    """Reads a Parquet file by its row groups."""

    def __init__(self, pyarrow: Any, path: Path, file: BinaryIO) -> None:
        super().__init__(path)
        self._pyarrow, self._bytes = pyarrow, file
        try:
            self._file = pyarrow.parquet.ParquetFile(file)
        except pyarrow.ArrowInvalid as error:
            raise BadRecord(f"{path} is not a Parquet file: {error}") from error
        check_names(_names(self._file.schema_arrow), str(path))
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.rows = int(self._starts[-1])
        self._ready: list[dict[str, Any]] = []  # from `_next` on
        self._next = 0
        self._batches = self._tables(0)

    @property
    def size(self) -> int:
        return os.fstat(self._bytes.fileno()).st_size

    @property
    def bytes_read(self) -> int:
        """Share of the bytes that the rows read have of all rows."""
        return self.size * self.ordinal // max(1, self.rows)

    def _tables(self, ordinal: int) -> Generator[list[dict[str, Any]], None, None]:
        """Yield lists of rows from this one on."""
        group = int(np.searchsorted(self._starts, ordinal, side="right")) - 1
        skip = ordinal - int(self._starts[group])
        groups = list(range(group, len(self._starts) - 1))
        if not groups:
            return
        for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            yield _rows(self._in_microseconds(batch.slice(skip)))
            skip = 0

    def _in_microseconds(self, batch: Any) -> Any:
        """Return a batch with times and durations in microseconds, as Python has them."""
        arrow, types = self._pyarrow, self._pyarrow.types
        for i, field in enumerate(batch.schema):
            is_time = types.is_timestamp(field.type)
            if (is_time or types.is_duration(field.type)) and field.type.unit == "ns":
                coarse = arrow.timestamp("us", field.type.tz) if is_time else arrow.duration("us")
                batch = batch.set_column(i, field.name, batch.column(i).cast(coarse, safe=False))
        return batch

    def fill(self) -> bool:
        while self._next == len(self._ready):
            ready = next(self._batches, None)
            if ready is None:
                return False
            self._ready, self._next = ready, 0
        return True

    def take(self, most: int) -> list[dict[str, Any]]:
        taken = self._ready[self._next : self._next + most]
        self._next += len(taken)
        self.ordinal += len(taken)
        return taken

    def seek(self, ordinal: int) -> bool:
        self._batches.close()
        self.ordinal = min(ordinal, self.rows)
        self._batches = self._tables(self.ordinal)
        self._ready, self._next = [], 0
        return self.ordinal == ordinal

    def known(self, ordinal: int) -> Known:
        # The same for every row: the file never grows.
        size = self.size
        first = os.pread(self._bytes.fileno(), KNOWN_BY, 0)
        last = os.pread(self._bytes.fileno(), KNOWN_BY, max(0, size - KNOWN_BY))
        return Known(size, digest(first), digest(last))

    def difference(self, ordinal: int, known: Known) -> str | None:
        now = self.known(ordinal)
        if now == known:
            return None
        sizes = f", of {known.at} bytes, not {now.at}" * (now.at != known.at)
        return f"{self.path} is another file than the one that was read{sizes}"

    def close(self) -> None:
        self._batches.close()
        self._bytes.close()


def _names(fields: Iterable[Any], before: str = "") -> Iterator[str]:
    """Yield the names of columns as events have them, with dots for structs."""
    for field in fields:
        nested = [field.type.field(i) for i in range(field.type.num_fields)]
        if nested and str(field.type).startswith("struct"):
            yield from _names(nested, f"{before}{field.name}.")
        else:
            yield f"{before}{field.name}"


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

    A Parquet file cannot be appended to and is unreadable until it is finished; many finished ones
    are one data set to everything that reads Parquet. The mark is the number of files. Raises
    `Unavailable` if the directory cannot be made, or there is no pyarrow.
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
        return sorted(part for part in self._path.iterdir() if _PART.fullmatch(part.name))

    def write(self, outputs: Sequence[Output]) -> None:
        """Keep the outputs for the next flush."""
        self._waiting.extend(map(flat_output, outputs))

    def flush(self) -> None:
        """Write the waiting outputs as one more file. It is durable on return."""
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
        """Remove the files after the mark. Raises `ConnectorError` if files before it are gone."""
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


def _source(url: URL, *, follow: bool = False) -> Source:
    return ParquetSource(path_of(url), follow=follow)


PARQUET = Connector(source=_source, sink=lambda url: ParquetSink(path_of(url)))
