"""The store of a place: of a directory, or of an address in an object store."""

from __future__ import annotations

from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.manifests import MANIFEST, Key
from streamk.engine.checkpoints.object_path import Location, ObjectPath
from streamk.engine.checkpoints.object_store import CURRENT, ObjectStore
from streamk.engine.checkpoints.reading import epochs
from streamk.engine.checkpoints.store import Store
from streamk.errors import InvalidInput


def open_store(directory: Location, *, alone: bool, key: Key | None) -> Store:
    """Return the store of the job, or of one of its members.

    Parameters
    ----------
    directory : Path or ObjectPath
    alone : bool
        The job is that of a single process.
    key : Key, optional
        What is written is signed with it.

    Raises
    ------
    InvalidInput
        If several members would share an object store.
    EngineError
        If the directory cannot be made or written, or is in use.
    """
    if not isinstance(directory, ObjectPath):
        return DirectoryStore(directory, alone=alone, key=key)
    if not alone:
        raise InvalidInput(
            f"{directory} is an object store, which is of one process: its members of a consumer"
            " group could not tell who is running. Leave out ?group=, or give a directory"
        )
    return ObjectStore(directory, key=key)


def marker(directory: Location) -> object:
    """Return a value that is another one once there is a newer checkpoint.

    Of an object store one small object is read, of a directory the names in it.

    Parameters
    ----------
    directory : Path or ObjectPath
        The place of a job, or one inside it.

    Raises
    ------
    OSError
        If an object store is away.
    """
    if isinstance(directory, ObjectPath):
        try:
            return (directory / CURRENT).read(_LONGEST)
        except FileNotFoundError:  # of one checkpoint, or of a job that has not written any
            return epochs(directory)
    depth = (f"*/*/{MANIFEST}", f"*/{MANIFEST}", MANIFEST)
    return sorted(str(path) for names in depth for path in directory.glob(names))


_LONGEST = 4096
"""Bytes of the small object at most."""
