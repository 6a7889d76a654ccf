"""Standard input as a source, standard output as a sink.

Standard input cannot be read twice: positions count the records of this process, nothing is
committed, and a checkpoint of another process cannot be continued from it. Pipe through a file
or Kafka where a restart has to go on exactly.
"""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from connectors.base import URL, Chunk, Connector, Output, Sink, Source, SourceBase, Trouble
from connectors.errors import BadRecord, BadURL, OffsetOutOfRange, Unavailable
from connectors.files.records import RecordCutter, TextForm
from connectors.files.sinks import as_json_line

_PARTITION = "stdin"
_BLOCK_BYTES = 1 << 16


class StdinSource(SourceBase):
    """The records of a pipe, standard input by default; one partition, "stdin".

    The form is JSON by default. The header of CSV is waited for.
    """

    def __init__(self, stream: BinaryIO | None = None, form: TextForm | None = None) -> None:
        form = form or TextForm("json")
        self.encoding = form.encoding
        self._fd = (stream or _bytes_of(sys.stdin, "input")).fileno()
        self._records = RecordCutter(form, "standard input")
        self._ready: deque[bytes] = deque()
        self._ordinal = 0
        self._ended = False
        while form.encoding == "csv" and self._records.header is None:
            if self._ended:
                raise BadRecord("standard input is empty: CSV begins with the column names")
            self._read(None)
        if self._records.header is not None:
            self.fields = self._records.header.fields

    @property
    def delimiter(self) -> str:
        """The character between the cells of CSV."""
        header = self._records.header
        return "," if header is None else header.delimiter

    def _fill(self, timeout: float | None) -> bool:
        """Have at least one record ready, waiting for one read at most; False if there is none."""
        if not self._ready and not self._ended:
            self._read(timeout)
        return bool(self._ready)

    def _read(self, timeout: float | None) -> None:
        if select.select([self._fd], [], [], timeout)[0]:
            try:
                block = os.read(self._fd, _BLOCK_BYTES)
            except OSError as error:
                why = error.strerror or error
                raise Unavailable(f"standard input cannot be read: {why}") from error
            # The input has ended, so its last line counts without a newline.
            self._ended = not block
            records = self._records.feed(block) if block else self._records.finish()
            self._ready.extend(record for record, _ in records)

    def partitions(self) -> tuple[str, ...]:
        """("stdin",)."""
        return (_PARTITION,)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next lines, waiting for the first up to `timeout` seconds."""
        self._fill(timeout)
        values: list[bytes] = []
        while len(values) < max_events and self._fill(0.0):
            values.append(self._ready.popleft())
        if not values:
            return []
        offsets = np.arange(self._ordinal, self._ordinal + len(values), dtype=np.int64)
        self._ordinal += len(values)
        return [Chunk(_PARTITION, offsets, offsets, values)]

    def seek(self, partition: str, offset: int) -> None:
        """Stay. Raises `OffsetOutOfRange` for any position but the present one."""
        if offset != self._ordinal:
            raise OffsetOutOfRange(
                f"standard input stands at event {self._ordinal} and cannot go to {offset}: "
                "it cannot continue from a checkpoint. Begin anew, or read from a file",
                partition=partition,
                offset=offset,
            )

    def start(self, partition: str) -> int:
        """The present position: nothing before it can be read again."""
        return self._ordinal

    def end(self, partition: str) -> int | None:
        """The number of events, once the input has ended."""
        return self._ordinal if self.finished() else None

    def trouble(self) -> Trouble | None:
        """Tell of a JSON array that is cut off, once that is seen."""
        missing = self._records.unfinished
        return None if missing is None else Trouble("cut off", f"standard input: {missing}")

    def finished(self) -> bool:
        """Return whether the input has ended and all of it was given."""
        return self._ended and not self._ready


class StdoutSink:
    """One JSON object a line on standard output, or another stream, in the form of `NDJSONSink`."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = stream or _bytes_of(sys.stdout, "output")

    def write(self, outputs: Sequence[Output]) -> None:
        """Write one line an output, at once. Raises `Unavailable` if that cannot be done."""
        with _writing():
            self._stream.write(b"".join(map(as_json_line, outputs)))
            self._stream.flush()

    def flush(self) -> None:
        """Hand everything to the reader. Raises `Unavailable` if that cannot be done."""
        with _writing():
            self._stream.flush()

    def mark(self) -> None:
        """Flush and return None: written outputs cannot be taken back."""
        self.flush()

    def rewind(self, mark: Any) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Flush; the stream stays open, it belongs to the process."""
        self.flush()


def _bytes_of(stream: Any, name: str) -> BinaryIO:
    """Return the bytes of a standard stream. Raises `Unavailable` where it is closed."""
    found: BinaryIO | None = getattr(stream, "buffer", None)
    if found is None:
        raise Unavailable(f"standard {name} is closed")
    return found


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise Unavailable("the reader of standard output has gone") from error
    except OSError as error:
        why = error.strerror or error
        raise Unavailable(f"standard output cannot be written: {why}") from error


def _stdin(url: URL, *, encoding: str = "json", delimiter: str = "", decimal: str = ".") -> Source:
    _nothing_more(url)
    if encoding not in ("json", "csv"):
        raise BadURL(f"{url.text!r}: encoding must be json or csv, not {encoding!r}")
    form = TextForm("json") if encoding == "json" else TextForm.of_csv(delimiter, decimal)
    return StdinSource(form=form)


def _stdout(url: URL) -> Sink:
    _nothing_more(url)
    return StdoutSink()


def _nothing_more(url: URL) -> None:
    if url.path or url.host:
        raise BadURL(f"{url.text!r}: nothing may follow {url.scheme}:")


STDIN = Connector(source=_stdin)
STDOUT = Connector(sink=_stdout)
