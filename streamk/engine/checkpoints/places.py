"""Places of checkpoints: directories, and those that an extension brings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable
from urllib.parse import unquote, urlsplit

from streamk.errors import InvalidInput
from streamk.extensions import all_of

__all__ = ["Location", "Remote", "location"]


@runtime_checkable
class Remote(Protocol):
    """A place that is not a directory: so much of `pathlib.Path` as checkpoints take.

    All raise `OSError` where it is away.
    """

    @property
    def name(self) -> str:
        """The last part of the address."""

    @property
    def parent(self) -> Self:
        """The address without its last part."""

    def __truediv__(self, name: str) -> Self: ...

    def sizes(self) -> dict[str, int | None]:
        """Return the next parts of all addresses below: of objects with their sizes in bytes."""

    def iterdir(self) -> Iterator[Self]:
        """Yield what `sizes` names."""

    def exists(self) -> bool:
        """Return whether there is something of this name, or below."""

    def is_dir(self) -> bool:
        """Return whether there is something below."""

    def read(self, most: int | None = None) -> bytes:
        """Return the bytes there, or the first of them. Raises `FileNotFoundError`."""

    def store(self, key: Any) -> Any:
        """Return the store of the job whose place this is, signed with a `Key` or None."""

    def marker(self) -> object:
        """Return a value that changes once there is a newer checkpoint."""


Location = Path | Remote
"""A directory or a file, or their like elsewhere."""


def location(address: str | os.PathLike[str] | Remote) -> Location:
    """Return the place of a path or of an address.

    Parameters
    ----------
    address : path, or str
        A text with ``://`` is the address of an object store, ``file://`` that of a directory;
        ``~`` is the user's home.

    Raises
    ------
    InvalidInput
        If it is an address that cannot be used.

    Examples
    --------
    >>> location("state"), location("file:///var/state")
    (PosixPath('state'), PosixPath('/var/state'))
    """
    if isinstance(address, Remote):
        return address
    if not isinstance(address, str) or "://" not in address:
        return Path(address).expanduser()
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    for _, opened in all_of("places"):
        found: Remote = opened(address)
        return found
    raise InvalidInput(f"{address}: addresses need streamk/object_store, which is not installed")
