"""Files that may be compressed: gzip, bzip2, xz and Zstandard, told by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from connectors.errors import Unavailable

__all__ = ["BROKEN", "compression_of", "opened", "plain_suffix"]

_MAGIC = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\x00", "Zstandard": b"(\xb5/\xfd"}
_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_BLOCK_BYTES = 1 << 18

BROKEN: tuple[type[Exception], ...] = (EOFError, lzma.LZMAError, zlib.error, OSError, ValueError)
"""Errors of reading what is compressed and damaged, or ends too soon."""


def compression_of(path: Path) -> str | None:
    """Return the name of a file's compression, None if it has none."""
    with path.open("rb") as file:
        first = file.read(8)
    return next((name for name, magic in _MAGIC.items() if first.startswith(magic)), None)


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file's name without that of a compression, in small letters.

    >>> plain_suffix(Path("events.CSV.gz"))
    '.csv'
    """
    name = Path(path.stem) if path.suffix.lower() in _SUFFIXES else path
    return name.suffix.lower()


def opened(path: Path) -> BinaryIO:
    """Open a file for reading what is in it, by bytes of that.

    Raises
    ------
    Unavailable
        If it is compressed by Zstandard and there is no package for that.
    """
    compression = compression_of(path)
    if compression is None:
        return path.open("rb")
    if compression == "gzip":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if compression == "bzip2":
        return cast("BinaryIO", bz2.open(path, "rb"))
    if compression == "xz":
        return cast("BinaryIO", lzma.open(path, "rb"))
    try:
        import zstandard
    except ImportError:
        raise Unavailable(
            f"{path} is compressed by Zstandard, which needs the package zstandard:"
            " pip install zstandard"
        ) from None

    def begin() -> BinaryIO:
        reader = zstandard.ZstdDecompressor().stream_reader(
            path.open("rb"), read_across_frames=True, closefd=True
        )
        return cast("BinaryIO", reader)

    return cast("BinaryIO", _Rewinding(begin))


class _Rewinding(io.RawIOBase):
    """A stream that goes back by beginning anew."""

    def __init__(self, begin: Callable[[], BinaryIO]) -> None:
        self._begin = begin
        self._stream, self._at = begin(), 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`."""
        block = self._stream.read(size)
        self._at += len(block)
        return block

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte from the beginning."""
        assert whence == io.SEEK_SET
        if offset < self._at:
            self._stream.close()
            self._stream, self._at = self._begin(), 0
        while self._at < offset and self.read(min(_BLOCK_BYTES, offset - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        """Return the byte that is read next."""
        return self._at

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()
