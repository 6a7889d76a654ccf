"""The bytes of a file, decompressed (its first bytes tell the format) and encoded as UTF-8."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from connectors.errors import BadRecord, BadURL, Unavailable

_OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""Of compressed files, by the bytes that they begin with."""
_ZSTANDARD = b"(\xb5/\xfd"
_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_COMPRESSED_BYTES = 1 << 14
"""Compressed bytes that are taken at once: what they become may be a thousand times as much."""

BROKEN: tuple[type[Exception], ...] = (EOFError, lzma.LZMAError, zlib.error, OSError)
"""Errors of reading what is compressed and damaged, or ends too soon."""


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file's name, without a suffix of compression, in lower case.

    >>> plain_suffix(Path("events.CSV.gz"))
    '.csv'
    """
    name = Path(path.stem) if path.suffix.lower() in _SUFFIXES else path
    return name.suffix.lower()


def scheme_of(path: Path) -> str | None:
    """Return the scheme of the addresses of files with such a name, None where it tells none.

    >>> [scheme_of(Path(name)) for name in ("a.csv.gz", "b.jsonl", "c.parquet", "d")]
    ['csv', 'file', 'parquet', None]
    """
    schemes = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
    schemes |= dict.fromkeys((".ndjson", ".jsonl", ".json"), "file")
    return schemes.get(plain_suffix(path))


def decompressed(file: BinaryIO, path: Path) -> BinaryIO:
    """Return an object with `read` and `seek` for the contents of a file at its beginning.

    Raises `Unavailable` if it is compressed by Zstandard and there is no package for that.
    """
    first = file.read(8)
    file.seek(0)
    for magic, opener in _OPENERS.items():
        if first.startswith(magic):
            return cast("BinaryIO", opener(file, "rb"))
    return cast("BinaryIO", _Zstandard(file, path)) if first.startswith(_ZSTANDARD) else file


class _Zstandard:
    """Reads the frames of a file, and fails where one is cut, as the package's reader does not.

    It goes back by beginning anew.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise Unavailable(
                f"{path} is compressed by Zstandard, which needs the package zstandard:"
                " pip install zstandard"
            ) from None
        self._zstandard = zstandard
        self._file = file
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._frame: Any = None  # the one that is open
        self._ready = self._rest = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        while not self._ready:
            block = self._rest or self._file.read(_COMPRESSED_BYTES)
            if not block:
                break
            self._ready = self._decompressed(block)
        if not self._ready and self._frame is not None:
            raise EOFError("the last frame is not complete")
        found, self._ready = self._ready[:size], self._ready[size:]
        self._at += len(found)
        return found

    def _decompressed(self, block: bytes) -> bytes:
        frame = self._frame or self._zstandard.ZstdDecompressor().decompressobj()
        try:
            found: bytes = frame.decompress(block)
        except self._zstandard.ZstdError as error:
            raise OSError(str(error)) from None
        self._frame, self._rest = (None, frame.unused_data) if frame.eof else (frame, b"")
        return found

    def seek(self, offset: int) -> None:
        """Go to a byte from the beginning."""
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(offset - self._at):
            pass


# --- encodings ------------------------------------------------------------------------------------


_BLOCK_BYTES = 1 << 18
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def encoding_named(name: str) -> str:
    """Return the name that Python has for an encoding of text.

    Raises `BadURL` if there is none of this name.

    Examples
    --------
    >>> encoding_named("Latin1"), encoding_named("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        "".encode(name)  # refuses what is not an encoding of text, such as base64
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise BadURL(
            f"encoding={name!r} is not a text encoding; use utf-8, utf-16, latin-1 or cp1252, "
            "for example"
        ) from None


class TextFile:
    """The bytes of a file as UTF-8.

    Without an encoding it is UTF-8, or UTF-16 if it begins with the mark of that. What is UTF-8 is
    given as it is: whether it is valid is found out record by record. A file that ends within a
    character may be written further: what there is of it is left.
    """

    def __init__(self, file: BinaryIO, path: Path, encoding: str | None) -> None:
        self.file = file
        self._path, self._encoding = path, encoding
        self._begin()

    def _begin(self) -> None:
        self._taken = 0  # bytes of the file
        self._given = 0  # bytes of UTF-8
        self._decoder: codecs.IncrementalDecoder | None = None
        self._rest = b""  # read and not given

    def read(self, size: int) -> bytes:
        """Return at most so many more bytes; none at the end, or if none have been written yet.

        Raises `BadRecord` if the file is not in its encoding.
        """
        text = self._rest or self._next(size)
        text, self._rest = text[:size], text[size:]
        self._given += len(text)
        return text

    def _next(self, size: int) -> bytes:
        while block := self.file.read(size):
            if not self._taken:
                self._decoder = self._decoder_for(block)
            self._taken += len(block)
            if self._decoder is None:
                return block
            if text := self._decoded(self._decoder, block):
                return text
        return b""

    def seek(self, at: int) -> None:
        """Go to a byte of the UTF-8; what is in another encoding is decoded up to there."""
        if at and not self._taken:
            self._rest = self._next(_BLOCK_BYTES)  # which tells the encoding
        if self._decoder is None:
            self.file.seek(at)
            self._taken = self._given = at
            self._rest = b""
            return
        if at < self._given:
            self.file.seek(0)
            self._begin()
        while self._given < at and self.read(min(at - self._given, _BLOCK_BYTES)):
            pass

    def _decoder_for(self, first: bytes) -> codecs.IncrementalDecoder | None:
        """Return the decoder of a file that begins with these bytes; None for UTF-8."""
        encoding = self._encoding
        if encoding is None and first.startswith(_UTF_16_MARKS):
            encoding = "utf-16"
        if encoding in (None, "utf-8", "utf-8-sig"):
            return None
        return codecs.getincrementaldecoder(str(encoding))()

    def _decoded(self, decoder: codecs.IncrementalDecoder, block: bytes) -> bytes:
        try:
            return decoder.decode(block).encode()
        except UnicodeDecodeError as error:
            at = self._taken - len(error.object) + error.start
            raise BadRecord(
                f"{self._path}: byte 0x{error.object[error.start]:02x} at place {at} of the file "
                f"is not {error.encoding} ({error.reason}); name the file's encoding, for example "
                "csv:PATH?encoding=latin-1"
            ) from None
        except UnicodeEncodeError as error:
            raise BadRecord(
                f"{self._path} holds {error.object[error.start]!r}, which is not a character"
            ) from None
        except UnicodeError as error:  # such as UTF-16 without a mark
            raise BadRecord(f"{self._path} is not in the encoding given: {error}") from None
