"""Files that may be compressed: gzip, bzip2, xz and Zstandard, told by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

from connectors.errors import Unavailable

__all__ = ["BROKEN", "compression_of", "decompressed", "plain_suffix", "scheme_of"]

_MAGIC = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\x00", "Zstandard": b"(\xb5/\xfd"}
_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_BLOCK_BYTES = 1 << 14
"""Compressed bytes that are taken at once: what they become may be a thousand times as much."""

BROKEN: tuple[type[Exception], ...] = (EOFError, lzma.LZMAError, zlib.error, OSError)
"""Errors of reading what is compressed and damaged, or ends too soon."""


def compression_of(file: BinaryIO) -> str | None:
    """Return the name of the compression of a file, which is at its beginning; None without any."""
    first = file.read(8)
    file.seek(0)
    return next((name for name, magic in _MAGIC.items() if first.startswith(magic)), None)


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file's name without that of a compression, in small letters.

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
    """Return what is in a file: `read`, `seek` from the beginning, `tell`, `fileno`.

    Parameters
    ----------
    file : binary file
        At its beginning.
    path : Path
        Its name, for messages.

    Raises
    ------
    Unavailable
        If it is compressed by Zstandard and there is no package for that.
    """
    compression = compression_of(file)
    if compression is None:
        return file
    if compression == "gzip":
        return cast("BinaryIO", gzip.open(file, "rb"))
    if compression == "bzip2":
        return cast("BinaryIO", bz2.open(file, "rb"))
    if compression == "xz":
        return cast("BinaryIO", lzma.open(file, "rb"))
    return cast("BinaryIO", _Zstandard(file, path))


class _Zstandard(io.RawIOBase):
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

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        while not self._ready:
            block = self._rest or self._file.read(_BLOCK_BYTES)
            if not block:
                break
            self._ready = self._decompressed(block)
        if not self._ready and self._frame is not None:
            raise EOFError("the last frame is not complete")
        size = len(self._ready) if size < 0 else size
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

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte from the beginning."""
        assert whence == io.SEEK_SET
        if offset < self._at:
            self._rewind()
        while self._at < offset and self.read(offset - self._at):
            pass
        return self._at

    def tell(self) -> int:
        """Return the byte that is read next."""
        return self._at
