"""The lock on a member's slot: the operating system's, so that it goes when the process does."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

__all__ = ["holder", "lies_in", "lock"]


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
