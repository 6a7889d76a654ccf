"""Files that several checkpoints share, each written once, under the SHA-256 of what it holds."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from streamk.engine.checkpoints.files import (
    read_bytes,
    reading,
    sync_directory,
    write_file,
    writing,
)
from streamk.engine.checkpoints.places import Location
from streamk.errors import StateError

__all__ = ["SEGMENTS", "SUFFIX", "SegmentFiles", "is_name", "read_segment"]

SEGMENTS = "held"
"""The directory of them beside the checkpoints, and what their names in an object store begin
with."""
SUFFIX = ".safetensors"
_NAME = re.compile(r"[0-9a-f]{64}")


def is_name(name: object) -> bool:
    """Return whether a name may be that of a shared file."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class SegmentFiles:
    """Files of held events on a disk.

    Parameters
    ----------
    path : Path, optional
        Their directory, made with the first of them. By default one for temporary files
        (``TMPDIR``), which is removed by `close`.
    check : function, optional
        Is called before a file is written, and raises what is to keep that from being done.

    Examples
    --------
    >>> files = SegmentFiles()
    >>> name = files.write(b"events")
    >>> files.read(name)
    b'events'
    >>> files.close()
    """

    def __init__(self, path: Path | None = None, check: Callable[[], None] = lambda: None) -> None:
        self._path, self._is_temporary, self._check = path, path is None, check

    def write(self, data: bytes) -> str:
        """Write a file; it is on the disk when this returns its name.

        One that is there and damaged is written anew: a job that goes on from the checkpoint before
        it comes by the same events.

        Raises
        ------
        EngineError
            If it cannot be written.
        """
        name = hashlib.sha256(data).hexdigest()
        with writing(self._path or Path(tempfile.gettempdir())):
            self._check()
            directory = self._made()
            path = directory / f"{name}{SUFFIX}"
            if not _holds(path, data):
                beside = directory / f".new-{name}"
                beside.unlink(missing_ok=True)
                try:
                    write_file(beside, [data])
                except OSError:
                    beside.unlink(missing_ok=True)
                    raise
                beside.rename(path)
                sync_directory(directory)
        return name

    def _made(self) -> Path:
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="streamk-held-"))
        elif not self._path.is_dir():
            self._path.mkdir(0o700)
            sync_directory(self._path.parent)
        return self._path

    def place(self, name: str) -> Path:
        """Return the path of a file."""
        return self._made() / f"{name}{SUFFIX}"

    def is_lost(self, name: str) -> bool:
        """Return whether a file that was written is gone, but not by `drop`.

        Raises `EngineError` if that cannot be told.
        """
        if self._is_temporary or self._path is None:
            return False
        with writing(self._path):
            return not (self._path / f"{name}{SUFFIX}").exists()

    def read(self, name: str) -> bytes:
        """Return what a file holds. Raises `StateError` as `read_segment`."""
        return read_segment(self.place(name), name)

    def drop(self, name: str) -> None:
        """Remove a file that is not needed here; checkpoints, if there are any, keep theirs."""
        if self._is_temporary:
            self.place(name).unlink(missing_ok=True)

    def keep(self, names: Collection[str]) -> None:
        """Remove all but these files, and what a crash has left. Raises `OSError`."""
        if self._path is None or not self._path.is_dir():
            return
        for path in self._path.iterdir():
            if path.name.removesuffix(SUFFIX) not in names:
                path.unlink()

    def close(self) -> None:
        """Remove the directory, if it is a temporary one. May be called twice."""
        if self._is_temporary and self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def _holds(path: Path, data: bytes) -> bool:
    """Return whether a file is there and holds the data."""
    if not path.exists():
        return False
    try:
        with reading(path) as (file, size):
            return size == len(data) and file.read(size) == data
    except StateError:
        return False


def read_segment(path: Location, name: str) -> bytes:
    """Return what a shared file holds, which has this name in checkpoints.

    Raises
    ------
    StateError
        If it is not there, or is not what its name says.
    OSError
        If an object store is away.
    """
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != name:
        raise StateError(f"{path}: is damaged, its SHA-256 does not match its name")
    return data
