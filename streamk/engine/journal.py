"""The journal of a checkpoint: which partitions were passed over since it was written."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

from streamk.engine.files import private, read_bytes, sync_directory, writing
from streamk.engine.packing import canonical
from streamk.engine.sequence import Pass
from streamk.errors import StateError

__all__ = ["append_journal", "read_journal"]


def append_journal(path: Path, passes: Iterable[Pass]) -> None:
    """Append to a journal, made if it is not there; it is on the disk when this returns.

    Raises
    ------
    EngineError
        If it cannot be written.
    """
    with writing(path):
        new = not path.exists()
        with open(path, "ab", opener=private) as file:
            for record in passes:
                line = canonical([record.partition, record.offset, record.clock], None)
                file.write(b"%08x %s\n" % (zlib.crc32(line), line))
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_directory(path.parent)


def read_journal(path: Path) -> list[Pass]:
    """Read a journal; a last line that a crash cut short is dropped, from the file too.

    Raises
    ------
    StateError
        If it is damaged elsewhere.
    EngineError
        If it cannot be cut back.
    """
    lines = read_bytes(path).split(b"\n")
    passes, good = [], 0
    for number, line in enumerate(lines[:-1], 1):
        crc, _, text = line.partition(b" ")
        if b"%08x" % zlib.crc32(text) != crc:
            if number < len(lines) - 1:
                raise StateError(f"{path}: is damaged in line {number}")
            break
        passes.append(_pass_of(text, f"{path}: line {number}"))
        good += len(line) + 1
    with writing(path):
        os.truncate(path, good)
    return passes


def _pass_of(text: bytes, where: str) -> Pass:
    try:
        match json.loads(text):
            case [str(partition), int(offset), int(clock)] if bool not in map(
                type, (offset, clock)
            ):
                return Pass(partition, offset, clock)
    except (ValueError, RecursionError):
        pass
    raise StateError(f"{where} is no partition, offset and clock; it was not written by streamk")
