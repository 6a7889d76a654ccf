"""A look for a newer checkpoint, which reads as little as possible."""

from __future__ import annotations

from streamk.engine.checkpoints.manifests import MANIFEST
from streamk.engine.checkpoints.object_path import Location, ObjectPath
from streamk.engine.checkpoints.object_store import CURRENT
from streamk.engine.checkpoints.reading import epochs

__all__ = ["marker"]


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
