"""Places in an object store, through fsspec: so much of `pathlib.Path` as checkpoints take."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from streamk.errors import InvalidInput
from streamk.extensions import find

__all__ = ["CURRENT", "ObjectPath", "StoreUnavailable"]

CURRENT = "current.json"
"""The small object that another one takes the place of with each checkpoint."""
_LONGEST = 4096
"""Its bytes at most."""
_EXTRA = "pip install 'streamk[object-store]'"


class StoreUnavailable(OSError):
    """An object store does not answer, or refuses: it is away, or the credentials do not do."""

    def __init__(self, address: object, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.strerror = reason


class ObjectPath:
    """An object, or all those whose names begin with the same address and a slash.

    Parameters
    ----------
    address : str
        ``s3://bucket/job``, or another protocol of fsspec.

    Raises
    ------
    InvalidInput
        If it is no such address, holds a password, or needs a package that is missing.
    """

    __slots__ = ("_address", "_key", "_store")

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._store, self._key = _opened(self._address)

    @classmethod
    def _of(cls, store: Any, key: str, address: str) -> ObjectPath:
        made = cls.__new__(cls)
        made._store, made._key, made._address = store, key, address
        return made

    def __truediv__(self, name: str) -> ObjectPath:
        return self._of(self._store, f"{self._key}/{name}", f"{self._address}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._address.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """The address without its last part."""
        key, address = (text.rpartition("/")[0] for text in (self._key, self._address))
        return self._of(self._store, key, address)

    def sizes(self) -> dict[str, int | None]:
        """Return the next parts of all addresses below: of objects with their sizes in bytes.

        Empty where there are none; those of which there are objects below have None. Raises
        `StoreUnavailable`.
        """
        with self._asking():
            try:
                self._store.invalidate_cache()
                listed = self._store.ls(self._key, detail=True)
            except FileNotFoundError:
                return {}
        below = [one for one in listed if one["name"].strip("/") != self._key.strip("/")]
        return {
            one["name"].rstrip("/").rpartition("/")[2]: (
                one["size"] if one["type"] == "file" else None
            )
            for one in below
        }

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield what `sizes` names. Raises `StoreUnavailable`."""
        return (self / name for name in self.sizes())

    def exists(self) -> bool:
        """Return whether there is such an object, or one below. Raises `StoreUnavailable`."""
        return self.name in self.parent.sizes()

    def is_dir(self) -> bool:
        """Return whether there are objects below. Raises `StoreUnavailable`."""
        return bool(self.sizes())

    def read(self, most: int | None = None) -> bytes:
        """Return an object, or its first bytes, as many as `most`.

        Raises
        ------
        FileNotFoundError
            If there is none.
        StoreUnavailable
        """
        part = {} if most is None else {"start": 0, "end": most}
        with self._asking():
            return bytes(self._store.cat_file(self._key, **part))

    def write(self, data: bytes) -> None:
        """Write an object, in the place of one of the same name. Raises `OSError`."""
        with self._asking():
            self._store.pipe_file(self._key, data)

    def create(self, data: bytes) -> None:
        """Write an object where there is none of this name.

        Raises
        ------
        FileExistsError
            If there is one.
        OSError
        """
        with self._asking():
            self._store.pipe_file(self._key, data, mode="create")

    def remove(self) -> None:
        """Remove the object, if there is one. Raises `OSError`."""
        with self._asking(), contextlib.suppress(FileNotFoundError):
            self._store.rm_file(self._key)

    def store(self, key: Any) -> Any:
        """Return the store of the job whose place this is."""
        return find("stores", "object_store")(self, key=key)

    def marker(self) -> object:
        """Return a value that is another one once there is a newer checkpoint."""
        try:
            return (self / CURRENT).read(_LONGEST)
        except FileNotFoundError:  # of one checkpoint, or of a job that has not written any
            return sorted(self.sizes())

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn the errors of the store, which are the protocol's own, into `StoreUnavailable`."""
        try:
            yield
        except (FileNotFoundError, FileExistsError, MemoryError):
            raise
        except Exception as error:
            raise StoreUnavailable(self._address, _reason(error)) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and self._address == other._address

    def __hash__(self) -> int:
        return hash(self._address)

    def __str__(self) -> str:
        return self._address

    def __repr__(self) -> str:
        return f"ObjectPath({self._address!r})"


def _opened(address: str) -> tuple[Any, str]:
    """Return the store of an address, and the key in it."""
    parts = urlsplit(address)
    if parts.password is not None:
        raise InvalidInput(
            f"an address of {parts.scheme}:// holds a password; leave it to the environment or the"
            " configuration of fsspec"
        )
    if not parts.netloc + parts.path.strip("/"):
        raise InvalidInput(f"{address} names no place; write {parts.scheme}://BUCKET/NAME")
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise InvalidInput(f"{address}: object stores need the package fsspec: {_EXTRA}") from None
    try:
        # Listings that are kept would hide what another process has written.
        store, key = url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise InvalidInput(f"{address}: {error} ({_EXTRA} brings s3://)") from error
    except ValueError as error:
        raise InvalidInput(f"{address}: {error}") from error
    except Exception as error:
        raise StoreUnavailable(address, _reason(error)) from error
    return store, str(key).rstrip("/")


def _reason(error: Exception) -> str:
    """Return the reason of an error of a store, with the place of credentials where they lack."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, PermissionError) or "credential" in f"{type(error)} {reason}".lower():
        reason += (
            "; credentials come from the environment or the files of the store's own tools, for"
            " s3:// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws"
        )
    return reason
