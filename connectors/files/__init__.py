"""Files of JSON (lines or an array) and CSV as sources, read once or followed, and as sinks.

The position of an event is its ordinal in the file, blank lines and the CSV header not counted; of
several files, in all of them one after the other. A file keeps no commits: the position lives in
the reader's checkpoint, together with what the file is known by.
"""

from __future__ import annotations

from pathlib import Path

from connectors.base import URL, Connector, Sink, Source
from connectors.errors import BadRecord, BadURL
from connectors.files.ordered import Files, FilesSource, existing_file
from connectors.files.reader import TextReader
from connectors.files.records import Header, TextForm
from connectors.files.sinks import CSVSink, LineLog, NDJSONSink
from connectors.files.text import plain_suffix, scheme_of

__all__ = ["CSV", "NDJSON", "FileSource", "path_of"]


class FileSource(FilesSource):
    """The records of a text file, or of many; one partition, named like the file.

    Parameters
    ----------
    place : Path
        A file, or a pattern with `*`. Files may be compressed, see `connectors.files.text`.
        Those of CSV have the same header.
    form : TextForm
    follow : bool
        Wait for more at the end, see `FilesSource`. A last line without a newline is left until it
        is complete.

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

    def __init__(self, place: Path, form: TextForm, *, follow: bool = False) -> None:
        self.encoding, self._form = form.encoding, form
        self._header: Header | None = None
        super().__init__(Files(place), follow=follow)

    def _opened(self, path: Path) -> TextReader:
        """Return a reader of a file; raise `BadRecord` if its header differs from the others."""
        file = existing_file(path).open("rb")
        try:
            reader = TextReader(path, file, self._form, grows=self._follow)
            if self._follow and reader.is_compressed and not self._files.are_many:
                raise BadURL(f"{path} is compressed and cannot be followed; drop follow=true")
            if self._header is not None and reader.header != self._header:
                raise BadRecord(
                    f"{path} has another header than before: {_shown(reader.header)}, not"
                    f" {_shown(self._header)}"
                )
        except BaseException:
            file.close()
            raise
        self._header = reader.header
        self.fields = None if reader.header is None else reader.header.fields
        return reader

    @property
    def delimiter(self) -> str:
        """The character between the cells of CSV."""
        return "," if self._header is None else self._header.delimiter


def _shown(header: Header | None) -> str:
    return "none" if header is None else repr(header.delimiter.join(header.fields))


def path_of(url: URL) -> Path:
    """The file that an address names. Raises `BadURL`."""
    if url.host or not url.path:
        raise BadURL(f"{url.text!r}: a file is written {url.scheme}:PATH or {url.scheme}:///PATH")
    return Path(url.path).expanduser()


def _ndjson_path(url: URL) -> Path:
    path = path_of(url)
    scheme = scheme_of(path)
    if scheme is not None and url.scheme != scheme:
        raise BadURL(f"{url.text!r}: for a {scheme} file write {scheme}:{url.path}")
    return path


def _delimiter_of(path: Path) -> str | None:
    return "\t" if plain_suffix(path) == ".tsv" else None


def _ndjson_source(url: URL, *, follow: bool = False) -> Source:
    return FileSource(_ndjson_path(url), TextForm("json"), follow=follow)


def _csv_source(
    url: URL, *, follow: bool = False, delimiter: str = "", decimal: str = ".", encoding: str = ""
) -> Source:
    path = path_of(url)
    if plain_suffix(path) in (".ndjson", ".jsonl"):
        raise BadURL(f"{url.text!r}: for a file of JSON objects write file:{url.path}")
    form = TextForm.of_csv(delimiter or _delimiter_of(path) or "", decimal, encoding)
    return FileSource(path, form, follow=follow)


def _csv_sink(url: URL) -> Sink:
    path = path_of(url)
    return CSVSink(path, delimiter=_delimiter_of(path) or ",")


NDJSON = Connector(
    source=_ndjson_source,
    sink=lambda url: NDJSONSink(_ndjson_path(url)),
    log=lambda url: LineLog(_ndjson_path(url)),
)
CSV = Connector(source=_csv_source, sink=_csv_sink)
