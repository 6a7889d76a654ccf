"""Files of JSON lines and CSV that are appended to: sinks, cut back to a checkpoint, and a log.

An output becomes its partition, offset and timestamp, its key if it has one, and then its value's
own entries (which win where the names are the same). An existing file is appended to.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from connectors.base import Output
from connectors.errors import BadRecord, ConnectorError, Unavailable


def flat_output(output: Output) -> dict[str, Any]:
    """An output as one flat record, position first."""
    record: dict[str, Any] = {
        "partition": output.partition,
        "offset": output.offset,
        "timestamp": output.timestamp,
    }
    if output.key is not None:
        record["key"] = output.key.decode("utf-8", "backslashreplace")
    return {**record, **output.value}


def as_json_line(output: Output) -> bytes:
    """An output as a line of JSON. Raises `BadRecord` if JSON cannot hold it."""
    try:
        return msgspec.json.encode(flat_output(output)) + b"\n"
    except (TypeError, ValueError) as error:
        raise BadRecord(
            f"the output for {output.partition} offset {output.offset} is not JSON: {error}"
        ) from error


def sync_directory(path: Path) -> None:
    """Make a file's name as durable as its bytes."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which file could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise ConnectorError(f"cannot write {path}: {error.strerror or error}") from error


class _FileSink:
    """Appending to a file; the mark is its size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.parent.is_dir():
            raise Unavailable(f"no directory {path.parent} to write {path.name} in")
        try:
            self._file = path.open("ab+")
        except OSError as error:
            raise Unavailable(f"cannot write {path}: {error.strerror}") from error
        try:
            # Held until it is closed: two that append to one file would cut each other's lines off.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise Unavailable(
                f"{path} is being written by another sink or process; stop that one, or write to"
                " another file"
            ) from error
        except OSError:  # of a file system without locks
            pass
        with suppress(PermissionError):
            # Also where it was there: the run that made it may not have come to this.
            sync_directory(path.parent)

    @property
    def address(self) -> str:
        """The file, as it was named: by it a mark is known to be of this sink."""
        return str(self._path)

    def _append(self, data: bytes) -> None:
        with writing(self._path):
            self._file.write(data)
        # For those that read along. If it fails it is told by the next `flush`, with nothing lost.
        with suppress(OSError):
            self._file.flush()

    def flush(self) -> None:
        """Durable when it returns. Raises `ConnectorError` if it cannot be made so."""
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())

    def mark(self) -> int:
        """The size in bytes, flushed."""
        self.flush()
        return self._size()

    def _size(self) -> int:
        return self._file.seek(0, io.SEEK_END)

    def rewind(self, mark: Any) -> None:
        """Cut the file back. Raises `ConnectorError` if it is shorter than the mark."""
        if mark is None:
            return
        if not isinstance(mark, int) or isinstance(mark, bool) or mark < 0:
            raise ConnectorError(f"{self._path}: {mark!r} is not the mark of a file")
        size = self._size()
        if size < mark:
            raise ConnectorError(
                f"{self._path} has {size} bytes, but {mark} were written before the checkpoint: "
                "outputs were lost. Put the file back, or write to another one"
            )
        self._file.truncate(mark)
        self.flush()

    def check_complete(self) -> None:
        """Raises `ConnectorError` if what is there does not end with a whole line."""
        size = self._size()
        if not size:
            return
        self._file.seek(size - 1)
        if self._file.read(1) != b"\n":
            raise ConnectorError(
                f"{self._path} ends in an unfinished line; remove it, or write to another file"
            )

    def close(self) -> None:
        """Flush and close."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                with suppress(OSError):  # `flush` has said it
                    self._file.close()


class NDJSONSink(_FileSink):
    """One JSON object a line. Raises `Unavailable` if the file cannot be opened for writing."""

    _checked = False

    def write(self, outputs: Sequence[Output]) -> None:
        """Append one line an output. Raises `BadRecord` for what JSON cannot hold."""
        lines = b"".join(map(as_json_line, outputs))
        if not self._checked:
            self.check_complete()
            self._checked = True
        self._append(lines)


class CSVSink(_FileSink):
    """Writes CSV. The first output gives the header, which always has a `key` column.

    An existing file's header is kept and has to match. Lists and dicts are written as JSON, None as
    an empty cell. Raises `Unavailable` if the file cannot be opened for writing.
    """

    _fields: tuple[str, ...] | None = None

    def __init__(self, path: Path, *, delimiter: str = ",") -> None:
        super().__init__(path)
        self._delimiter = delimiter

    def write(self, outputs: Sequence[Output]) -> None:
        """Append a record an output. Raises `BadRecord` if its columns are not the header's."""
        text, fields = io.StringIO(), self._fields
        writer = csv.writer(text, delimiter=self._delimiter, lineterminator="\n")
        for output in outputs:
            record = {"partition": "", "offset": 0, "timestamp": 0, "key": None}
            record |= flat_output(output)
            if fields is None:
                fields = self._header_for(tuple(record), writer)
            if set(record) != set(fields):
                odd = sorted(set(record) ^ set(fields))
                raise BadRecord(
                    f"the output for {output.partition} offset {output.offset} and the header of "
                    f"{self._path} differ in {', '.join(odd)}"
                )
            for name, cell in record.items():
                if isinstance(cell, list | dict):
                    record[name] = msgspec.json.encode(cell).decode()
            writer.writerow([record[name] for name in fields])
        self._append(text.getvalue().encode())
        self._fields = fields

    def _header_for(self, fields: tuple[str, ...], writer: Any) -> tuple[str, ...]:
        """The header that is there; `fields`, written, if there is none."""
        if self._size() == 0:
            writer.writerow(fields)
            return fields
        self.check_complete()
        self._file.seek(0)
        lines = (line.decode() for line in self._file)
        header = next(csv.reader(lines, delimiter=self._delimiter))
        self._size()
        return tuple(header)

    def rewind(self, mark: Any) -> None:
        """Cut the file back; see `NDJSONSink`."""
        super().rewind(mark)
        self._fields = None


class LineLog(_FileSink):
    """An `EventLog` that is a file, one event a line.

    Raises `Unavailable` if the file cannot be opened for writing, or another process writes to it,
    and `ConnectorError` if it ends in an unfinished line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "events.ndjson"
    >>> log = LineLog(path)
    >>> log.append([b'{"x": 1}', b'{"x": 2}'])
    >>> log.close()
    >>> path.read_text().splitlines()
    ['{"x": 1}', '{"x": 2}']
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self.check_complete()
        except BaseException:
            self.close()
            raise

    def append(self, events: Sequence[bytes]) -> None:
        """Add events, all or none, durable when it returns. Raises `ConnectorError`."""
        data = b"".join(event + b"\n" for event in events)
        file = self._file.fileno()  # whose buffer would keep what cannot be written
        with writing(self._path):
            size = os.fstat(file).st_size
            try:
                while data:
                    data = data[os.write(file, data) :]
                os.fsync(file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file, size)
                raise
