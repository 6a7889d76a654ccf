"""Files that are private to their user and safe on the disk when a call returns."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamk.engine.checkpoints.places import Location
from streamk.errors import EngineError, StateError


@contextlib.contextmanager
def reading(path: Location) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file or an object to be read, with its size in bytes.

    A link is not followed and a pipe not waited for, whatever took the place of the file.

    Raises
    ------
    StateError
        If it cannot be opened or read, is not a regular file, or is larger than the memory.
    OSError
        If an object store is away.
    """
    try:
        if not isinstance(path, Path):
            data = path.read()
            yield io.BytesIO(data), len(data)
            return
        with open(path, "rb", opener=_plain) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise StateError(f"{path}: is not a regular file")
            yield file, found.st_size
    except OSError as error:
        if not isinstance(path, Path) and not isinstance(error, FileNotFoundError):
            raise
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise StateError(f"{path}: is too large for the memory there is") from error


def read_bytes(path: Location) -> bytes:
    """Read a whole file. Raises `StateError`, and `OSError` as `reading`."""
    with reading(path) as (file, size):
        return file.read(size)


def sizes(path: Location) -> dict[str, int | None]:
    """Return the sizes in bytes of the files in a directory; None for what is no regular file.

    Raises
    ------
    StateError
        If the directory cannot be read.
    OSError
        If an object store is away.
    """
    if not isinstance(path, Path):
        return path.sizes()
    try:
        found = {file.name: file.lstat() for file in sorted(path.iterdir())}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    return {name: one.st_size if stat.S_ISREG(one.st_mode) else None for name, one in found.items()}


def write_file(path: Path, data: bytes) -> None:
    """Write a new private file; it is on the disk when this returns. Raises `OSError`."""
    with open(path, "xb", opener=private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def private(path: str, flags: int) -> int:
    """Open a file that its owner alone may read: there are events of the stream in it."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


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
def writing(
    path: Location, comfort: str = "", kind: type[EngineError] = EngineError
) -> Iterator[None]:
    """Turn `OSError` into an error of `kind` that names the path, with `comfort` at its end."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise kind(f"cannot write {path}: {reason}{comfort}") from error


_NAME = "lock"


def lock(directory: Path) -> int | None:
    """Lock a member's directory for this process; None if another one holds it.

    Returns the file descriptor that holds the lock; closing it, or the process's end, lets go.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(directory / _NAME, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return descriptor


def lies_in(directory: Path, descriptor: int) -> bool:
    """Return whether a lock that is held is that of a directory, as its path leads there now.

    Raises
    ------
    OSError
        If that cannot be told.
    """
    try:
        found = (directory / _NAME).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def holder(directory: Path) -> str:
    """Return the name of the process that holds the lock of a member's directory."""
    try:
        with (directory / _NAME).open(encoding="utf-8", errors="replace") as file:
            return file.readline(200).strip() or "another process"
    except OSError:
        return "another process"
