"""Files of text in any encoding, read as UTF-8."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import BinaryIO

from connectors.errors import BadRecord, BadURL

__all__ = ["TextFile", "encoding_named"]

_BLOCK_BYTES = 1 << 18
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def encoding_named(name: str) -> str:
    """Return the name that Python has for an encoding of text.

    Raises
    ------
    BadURL
        If there is none of this name.

    Examples
    --------
    >>> encoding_named("Latin1"), encoding_named("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        "".encode(name)  # refuses what is no encoding of text, such as base64
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise BadURL(
            f"encoding={name!r} is no encoding of text; utf-8, utf-16, latin-1 and cp1252 are some"
        ) from None


class TextFile:
    """The bytes of a file as UTF-8.

    Parameters
    ----------
    file : binary file
    path : Path
        Its name, for messages.
    encoding : str or None
        None: UTF-8, or UTF-16 if the file begins with the mark of that. What is UTF-8 is given as
        it stands: whether it is valid is found out record by record.

    A file that ends within a character may be written further: what there is of it is left.
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
        """Return at most so many bytes more; none at the end, or where there are none yet.

        Raises
        ------
        BadRecord
            If the file is not in its encoding.
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
                f"{self._path}: byte 0x{error.object[error.start]:02x} at place {at} of the file is"
                f" not {error.encoding} ({error.reason}); name the file's encoding with the option"
                " encoding, csv:PATH?encoding=latin-1 say"
            ) from None
        except UnicodeEncodeError as error:
            raise BadRecord(
                f"{self._path} holds {error.object[error.start]!r}, which is no character"
            ) from None
        except UnicodeError as error:  # such as UTF-16 without a mark
            raise BadRecord(f"{self._path} is not in the encoding that is named: {error}") from None
