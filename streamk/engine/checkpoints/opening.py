"""The store of a place: of a directory, or of an address in an object store."""

from __future__ import annotations

from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.keys import Key
from streamk.engine.checkpoints.object_path import Location, ObjectPath
from streamk.engine.checkpoints.object_store import ObjectStore
from streamk.engine.checkpoints.store import Store
from streamk.errors import InvalidInput

__all__ = ["open_store"]


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
