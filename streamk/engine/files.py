"""Files that are private to their user and safe on the disk when a call returns."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from streamk.errors import EngineError, StateError

__all__ = ["private", "read_bytes", "remove_any", "sync_directory", "write_file", "writing"]


def read_bytes(path: Path) -> bytes:
    """Read a file as it is. Raises `StateError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error


def write_file(path: Path, data: bytes) -> None:
    """Write a new private file; it is on the disk when this returns. Raises `OSError`."""
    with open(path, "xb", opener=private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def private(path: str, flags: int) -> int:
    """Open a file that its owner alone may read: there are events of the stream in it."""
    return os.open(path, flags, 0o600)


def sync_directory(directory: Path) -> None:
    """Have the names in a directory on the disk. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_any(path: Path) -> None:
    """Remove a directory and what is in it, or a file, or a link and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextlib.contextmanager
def writing(path: Path, comfort: str = "", kind: type[EngineError] = EngineError) -> Iterator[None]:
    """Turn `OSError` into an error of `kind` that names the path, with `comfort` at its end."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise kind(f"cannot write {path}: {reason}{comfort}") from error
