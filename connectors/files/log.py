"""A file of JSON lines to which events are added, for a job that follows it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from connectors.files.sinks import NDJSONSink, writing

__all__ = ["LineLog"]


class LineLog:
    """An `EventLog` that is a file, one event a line.

    Parameters
    ----------
    path : Path

    Raises
    ------
    Unavailable
        If the file cannot be opened for writing, or another process writes to it.
    ConnectorError
        If it ends in an unfinished line.

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
        self._path = path
        self._sink = NDJSONSink(path)  # which holds the lock
        try:
            self._sink.check_complete()
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except BaseException:
            self._sink.close()
            raise

    def append(self, events: Sequence[bytes]) -> None:
        """Add events, all or none, durable when it returns. Raises `ConnectorError`."""
        data = b"".join(event + b"\n" for event in events)
        with writing(self._path):
            size = os.fstat(self._file).st_size
            try:
                while data:
                    data = data[os.write(self._file, data) :]
                os.fsync(self._file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._file, size)
                raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
        self._sink.close()
