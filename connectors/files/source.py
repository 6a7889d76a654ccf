"""Files of JSON (lines or an array) and CSV as sources, read once or followed as they grow.

The position of an event is its ordinal in the file, blank lines and the CSV header not counted.
A file keeps no commits: the position lives in the reader's checkpoint. Every 4,096th record's
byte is remembered while reading lines, so going back inside one process costs a short read; the
first `seek` of a new process reads the file up to there (only cutting it into records).
"""

from __future__ import annotations

import difflib
import hashlib
import os
import time
from collections import deque
from pathlib import Path

import numpy as np

from connectors.base import (
    MAX_EVENT_BYTES,
    URL,
    Chunk,
    Connector,
    EventLog,
    Sink,
    Source,
    SourceBase,
    Trouble,
)
from connectors.cells import delimiter_named, read_csv_cells
from connectors.errors import BadRecord, BadURL, ConnectorError, OffsetOutOfRange, Unavailable
from connectors.files.compression import BROKEN, compression_of, opened, plain_suffix, scheme_of
from connectors.files.json_array import JSONSplitter
from connectors.files.lines import Splitter, without_bom
from connectors.files.log import LineLog
from connectors.files.sinks import CSVSink, NDJSONSink
from connectors.files.text import TextFile, encoding_named

__all__ = ["CSV", "NDJSON", "FileSource", "existing_file", "path_of"]

_BLOCK_BYTES = 1 << 18
_INDEX_EVERY = 4096
_KNOWN_BY = 1 << 16
_FOLLOW_INTERVAL_S = 0.05


class FileSource(SourceBase):
    """The records of a text file; one partition, named like the file.

    Parameters
    ----------
    path : Path
        It may be compressed, see `connectors.files.compression`.
    encoding : "json" or "csv"
        One JSON object a line or an array of them, or CSV whose first record is the header.
    follow : bool
        Wait for more at the end instead of finishing, as `tail -f` does. A last line without a
        newline is left until it is complete. A file that is replaced or becomes shorter raises
        `OffsetOutOfRange` once everything in the old one was read; `seek(partition, 0)` then
        begins with the new one. (A file truncated and grown past the old position between two
        looks, 50 ms apart, cannot be told from one that grew.)
    max_event_bytes : int
        Of a longer record only the beginning is kept, enough for the decoder to report it.
    delimiter : str, optional
        The character between the cells of CSV; else it is found in the header, see
        `connectors.cells.delimiter_in`.
    text_encoding : str, optional
        As Python names it; else UTF-8, or UTF-16 if the file begins with the mark of that. Records
        are UTF-8 in any case.

    Raises
    ------
    Unavailable
        If there is no such file.
    BadURL
        If it is compressed and to be followed.
    BadRecord
        If the CSV header is missing or names a column twice.
    ConnectorError
        If what is compressed is damaged.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoding: str,
        follow: bool = False,
        max_event_bytes: int = MAX_EVENT_BYTES,
        delimiter: str | None = None,
        text_encoding: str | None = None,
    ) -> None:
        self.encoding = encoding
        self._given_delimiter, self._text_encoding = delimiter, text_encoding
        self._path = path
        self._follow = follow
        self._max = max_event_bytes
        self._partition = path.name
        self._file: TextFile | None = None
        self._ordinal = 0  # of the next record to be given
        self._restart()
        if encoding == "csv":
            try:
                self.fields = self._header()
            except ConnectorError:
                self.close()
                raise

    def _restart(self) -> None:
        """Open the file that has the name now, at its beginning."""
        self.close()
        if self._follow and compression_of(existing_file(self._path)):
            raise BadURL(f"{self._path} is compressed and cannot be followed; drop follow=true")
        self._file = TextFile(
            opened(existing_file(self._path)),
            self._path,
            self._text_encoding,
            grows=self._follow,
        )
        self._delimiter = self._given_delimiter
        self._index = [0]  # the byte of record 0, 4096, 8192, ...
        self._rewind(0)

    def _rewind(self, entry: int) -> None:
        at = self._index[entry]
        assert self._file is not None
        self._file.seek(at)
        self._splitter: Splitter | JSONSplitter
        if self.encoding == "json" and not at:
            self._splitter = JSONSplitter(max_event_bytes=self._max)
        else:
            self._splitter = Splitter(
                quoted=self.encoding == "csv",
                max_event_bytes=self._max,
                delimiter=self._delimiter,
                at=at,
            )
        self._ready: deque[tuple[bytes, int]] = deque()
        self._ordinal = entry * _INDEX_EVERY
        self._exhausted = False

    def _header(self) -> tuple[str, ...]:
        """Read the header; record 0 begins behind it."""
        if not self._fill():
            raise BadRecord(f"{self._path} is empty: a CSV file begins with the column names")
        record, end = self._ready.popleft()
        self._index[0] = end
        self._delimiter = self._splitter.delimiter
        try:
            names = tuple(read_csv_cells(without_bom(record), self.delimiter))
        except BadRecord as error:
            raise BadRecord(f"the header of {self._path}: {error}") from None
        if b"\0" in record:
            raise BadRecord(
                f"the header of {self._path} holds bytes of 0, as UTF-16 has them;"
                " name the file's encoding: csv:PATH?encoding=utf-16-le"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise BadRecord(f"the header of {self._path} names {twice!r} twice")
        return names

    @property
    def delimiter(self) -> str:
        """The character between the cells of CSV."""
        return self._delimiter or ","

    def _fill(self) -> bool:
        """Have at least one record ready; False if there is none (yet)."""
        if self._file is None:
            raise ConnectorError(f"{self._path}: the source is closed")
        while not self._ready and not self._exhausted:
            try:
                block = self._file.read(_BLOCK_BYTES)
            except BROKEN as error:
                damaged = "; what is compressed is damaged or not all there"
                raise ConnectorError(
                    f"{self._path} cannot be read on after {self._ordinal} events: {error}"
                    + damaged * bool(compression_of(self._path))
                ) from None
            if block:
                self._ready.extend(self._splitter.feed(block))
            elif self._follow:
                return False
            else:
                self._ready.extend(self._splitter.finish())
                self._exhausted = True
        return bool(self._ready)

    def _next(self) -> bytes:
        record, end = self._ready.popleft()
        if self._ordinal == 0 and self.encoding == "json":
            record = without_bom(record)
        self._ordinal += 1
        if self._ordinal == len(self._index) * _INDEX_EVERY and self._splitter.anywhere:
            self._index.append(end)
        return record

    def partitions(self) -> tuple[str, ...]:
        """The file's name."""
        return (self._partition,)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next records. Raises `OffsetOutOfRange` if a followed file was replaced."""
        deadline = time.monotonic() + timeout
        while not self._fill():
            if self._exhausted:
                return []
            self._check_same_file()
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            time.sleep(min(left, _FOLLOW_INTERVAL_S))
        first = self._ordinal
        values: list[bytes] = []
        while len(values) < max_events and self._fill():
            values.append(self._next())
        offsets = np.arange(first, first + len(values), dtype=np.int64)
        return [Chunk(self._partition, offsets, offsets, values)]

    def _check_same_file(self) -> None:
        assert self._file is not None
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return  # between the removal and the creation of a rotation
        ours = os.fstat(self._file.file.fileno())
        replaced = (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)
        if replaced or ours.st_size < self._file.file.tell():
            what = "was replaced by another file" if replaced else "became shorter"
            raise OffsetOutOfRange(
                f"{self._path} {what} after {self._ordinal} events; "
                "continue at offset 0 to read it from its beginning",
                partition=self._partition,
                offset=self._ordinal,
            )

    def seek(self, partition: str, offset: int) -> None:
        """Go to a record. Raises `OffsetOutOfRange` past the end of what there is."""
        if offset == 0:
            before = self.fields, self.delimiter
            self._restart()
            if self.encoding == "csv" and (self._header(), self.delimiter) != before:
                raise BadRecord(f"{self._path} has another header than before")
            return
        self._rewind(min(max(offset, 0) // _INDEX_EVERY, len(self._index) - 1))
        while self._ordinal < offset and self._fill():
            self._next()
        if self._ordinal != offset:
            raise OffsetOutOfRange(
                f"{self._path} holds {self._ordinal} events, there is no offset {offset}",
                partition=partition,
                offset=offset,
            )

    def start(self, partition: str) -> int:
        """0."""
        return 0

    def end(self, partition: str) -> int | None:
        """The number of records, once they were all read; None before and when followed."""
        return self._ordinal if self.finished() else None

    def lag(self) -> int | None:
        """0 at the end; not known before."""
        return 0 if self.finished() else None

    def finished(self) -> bool:
        """Return whether the last record was given; never, when followed."""
        return not self._fill() and self._exhausted

    def fingerprint(self, length: int = _KNOWN_BY) -> tuple[int, str]:
        """Return how many of the first bytes there are, up to `length`, and their SHA-256.

        A file is known by them when it goes by another name; compressed or not is the same.
        """
        with opened(existing_file(self._path)) as file:
            first = file.read(length)
        return len(first), hashlib.sha256(first).hexdigest()

    def trouble(self) -> Trouble | None:
        """Tell of a JSON array that is cut off, once that is seen."""
        missing = self._splitter.unfinished
        return None if missing is None else Trouble("cut off", f"{self._path}: {missing}")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def path_of(url: URL) -> Path:
    """The file that an address names. Raises `BadURL`."""
    if url.host or not url.path:
        raise BadURL(f"{url.text!r}: a file is written {url.scheme}:PATH or {url.scheme}:///PATH")
    return Path(url.path).expanduser()


def existing_file(path: Path) -> Path:
    """`path`, if it is a file. Raises `Unavailable`, with the nearest name there is."""
    if path.is_file():
        return path
    if path.is_dir():
        raise Unavailable(f"{path} is a directory, not a file")
    names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, 1)
    raise Unavailable(f"no file {path}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _check_suffix(url: URL, path: Path) -> Path:
    scheme = scheme_of(path)
    if scheme is not None and url.scheme != scheme:
        raise BadURL(f"{url.text!r}: for a {scheme} file write {scheme}:{url.path}")
    return path


def _delimiter_of(path: Path) -> str | None:
    """Return the delimiter that a file's name tells."""
    return "\t" if plain_suffix(path) == ".tsv" else None


def _ndjson_source(
    url: URL, *, follow: bool = False, max_event_bytes: int = MAX_EVENT_BYTES
) -> Source:
    path = _check_suffix(url, path_of(url))
    return FileSource(path, encoding="json", follow=follow, max_event_bytes=max_event_bytes)


def _csv_source(
    url: URL,
    *,
    follow: bool = False,
    max_event_bytes: int = MAX_EVENT_BYTES,
    delimiter: str = "",
    encoding: str = "",
) -> Source:
    path = path_of(url)
    if plain_suffix(path) in (".ndjson", ".jsonl"):
        raise BadURL(f"{url.text!r}: for a file of JSON objects write file:{url.path}")
    return FileSource(
        path,
        encoding="csv",
        follow=follow,
        max_event_bytes=max_event_bytes,
        delimiter=delimiter_named(delimiter) if delimiter else _delimiter_of(path),
        text_encoding=encoding_named(encoding) if encoding else None,
    )


def _ndjson_sink(url: URL) -> Sink:
    return NDJSONSink(_check_suffix(url, path_of(url)))


def _csv_sink(url: URL) -> Sink:
    path = path_of(url)
    return CSVSink(path, delimiter=_delimiter_of(path) or ",")


def _ndjson_log(url: URL) -> EventLog:
    return LineLog(_check_suffix(url, path_of(url)))


NDJSON = Connector(source=_ndjson_source, sink=_ndjson_sink, log=_ndjson_log)
CSV = Connector(source=_csv_source, sink=_csv_sink)
