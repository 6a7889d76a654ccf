"""The journal of a checkpoint: which partitions were passed over since it was written.

A line is a CRC-32, with a key a signature, and JSON. The signature is of the line, its number, the
slot and the epoch, so that no line can be written, moved or taken out of the middle by others; that
the last ones are gone is not to be seen, as after a crash.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamk.engine.checkpoints.files import private, reading, sync_directory, writing
from streamk.engine.checkpoints.manifests import Key, Untrusted
from streamk.engine.order.sequence import IdleAdvance
from streamk.errors import StateError
from streamk.packing import canonical

__all__ = ["Journal", "as_pass"]

_LONGEST_LINE = 1 << 16
_HEXADECIMAL = 64
"""Digits of a signature."""


class Journal:
    """The journal of one checkpoint.

    Parameters
    ----------
    path : Path
        ``member-0/00000007.journal``; it need not be there yet.
    key : Key, optional
        What its lines are signed with.
    """

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path, self._key = path, key
        self._lines: int | None = None
        """Lines in the file; None: not counted yet."""

    def append(self, passes: Iterable[IdleAdvance]) -> None:
        """Append records, to a new file if there is none; they are on the disk at the end.

        Raises
        ------
        EngineError
            If the file cannot be written.
        StateError
            If it is damaged.
        """
        new = not self._path.exists()
        number = self._lines
        if number is None:
            number = 0 if new else len(self.read())
        self._lines = None  # to be counted where writing fails half way
        with writing(self._path):
            with open(self._path, "ab", opener=private) as file:
                for record in passes:
                    line = canonical([record.partition, record.offset, record.clock], None)
                    number += 1
                    if self._key is not None:
                        signature = self._key.sign("journal", self._signed(number, line))
                        line = signature.encode() + b" " + line
                    file.write(b"%08x %s\n" % (zlib.crc32(line), line))
                file.flush()
                os.fsync(file.fileno())
            if new:
                sync_directory(self._path.parent)
        self._lines = number

    def read(self) -> list[IdleAdvance]:
        """Return the records; a last line that a crash cut short is dropped, from the file too.

        Raises
        ------
        StateError
            If the file is damaged elsewhere.
        Untrusted
            If a line is whole and not signed with the key, or signed and there is no key.
        EngineError
            If it cannot be cut back.
        """
        passes: list[IdleAdvance] = []
        good = torn = 0
        with reading(self._path) as (file, _):
            while line := file.readline(_LONGEST_LINE):
                number = len(passes) + 1
                crc, _, text = line.removesuffix(b"\n").partition(b" ")
                ended = line.endswith(b"\n")
                whole = ended and b"%08x" % zlib.crc32(text) == crc
                if (torn and ended) or (not whole and len(line) == _LONGEST_LINE):
                    raise StateError(f"{self._path}: is damaged in line {torn or number}")
                if not whole:
                    torn = number
                    continue
                passes.append(self._pass_of(number, text))
                good += len(line)
        if torn:
            with writing(self._path):
                os.truncate(self._path, good)
        self._lines = len(passes)
        return passes

    def _signed(self, number: int, line: bytes) -> bytes:
        """Return what the signature of a line is of."""
        return canonical([self._path.parent.name, self._path.stem, number], None) + b"\n" + line

    def _pass_of(self, number: int, text: bytes) -> IdleAdvance:
        where = f"{self._path}: line {number}"
        signature, line = b"", text
        if text[_HEXADECIMAL : _HEXADECIMAL + 2] == b" [":
            signature, line = text[:_HEXADECIMAL], text[_HEXADECIMAL + 1 :]
        if self._key is None and signature:
            raise Untrusted(f"{where} is signed; give the key of this job with --state-key")
        if self._key is not None and not self._key.fits(
            signature.decode(errors="replace"), "journal", self._signed(number, line)
        ):
            raise Untrusted(
                f"{where} is not signed with {self._key.path}; restore the directory from a copy"
                " that you trust"
            )
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        return as_pass(record, where)


def as_pass(record: Any, where: object) -> IdleAdvance:
    """Return a record that was read. Raises `StateError`, naming the place, if it is none."""
    match record:
        case [str(partition), int(offset), int(clock)] if bool not in map(type, (offset, clock)):
            return IdleAdvance(partition, offset, clock)
    raise StateError(f"{where} is no partition, offset and clock; it was not written by streamk")
