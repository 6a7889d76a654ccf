"""Checkpoints in an object store: numbered manifests, each created once.

Below the address given to the engine::

    00000007/model.safetensors  the model's arrays
    00000007/manifest.json      makes the checkpoint, or something else, number 7
    held/                       files that checkpoints share, see `SegmentFiles`
    current.json                the number of the newest checkpoint

Each number belongs to whoever creates its manifest, which the store lets one process do. A job
writes the numbers that follow each other: when it starts, for a checkpoint, whose other objects are
there before, and for what a journal has where there is a directory. A job that starts takes the
next number, and the one before it, if that is still running, finds it taken and stops (`Fenced`).
So nothing is written after what a job went on from but by itself, without any lock.

Readers look for a newer checkpoint at ``current.json``, which is written last and proves nothing;
they go on from the newest manifest that fits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamk.declared import listed
from streamk.engine.checkpoints.files import MANIFEST, Key, as_pass, read_manifest, sealed, writing
from streamk.engine.checkpoints.reading import MODEL, Checkpoint, epochs
from streamk.engine.checkpoints.segment_files import SEGMENTS, SUFFIX, SegmentFiles, read_segment
from streamk.engine.checkpoints.store import Fenced, Store
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.packing import Parts, canonical

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
    """An object, or all objects below an address and a slash.

    The address is ``s3://bucket/job``, or one of another protocol of fsspec. Raises `InvalidInput`
    if it is none, holds a password, or needs a package that is missing.
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
        """Return True if the object exists, or one below. Raises `StoreUnavailable`."""
        return self.name in self.parent.sizes()

    def is_dir(self) -> bool:
        """Return True if there are objects below. Raises `StoreUnavailable`."""
        return bool(self.sizes())

    def read(self, most: int | None = None) -> bytes:
        """Return an object, or its first bytes, as many as `most`.

        Raises `FileNotFoundError` if there is none, and `StoreUnavailable`.
        """
        part = {} if most is None else {"start": 0, "end": most}
        with self._asking():
            return bytes(self._store.cat_file(self._key, **part))

    def write(self, data: bytes) -> None:
        """Write an object, and replace one of the same name. Raises `OSError`."""
        with self._asking():
            self._store.pipe_file(self._key, data)

    def create(self, data: bytes) -> None:
        """Create an object with a name that must be new.

        Raises `FileExistsError` if there is one, and `OSError`.
        """
        with self._asking():
            self._store.pipe_file(self._key, data, mode="create")

    def remove(self) -> None:
        """Remove the object if it exists. Raises `OSError`."""
        with self._asking(), contextlib.suppress(FileNotFoundError):
            self._store.rm_file(self._key)

    def store(self, key: Key | None) -> Store:
        """Return the store of the job at this place."""
        return ObjectStore(self, key=key)

    def marker(self) -> object:
        """Return a value that changes with each newer checkpoint."""
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
            f"an address of {parts.scheme}:// holds a password; put it into the environment or "
            "fsspec's configuration"
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


_START, _SILENCE = "start", "silence"
"""Kinds of numbers that are not checkpoints."""


class ObjectStore(Store):
    """The checkpoints of a job of one process, in an object store.

    What is written is signed with the key, if there is one, and other things are refused.
    """

    path: ObjectPath

    def __init__(self, directory: ObjectPath, *, key: Key | None = None) -> None:
        super().__init__(directory, key=key)
        self.path, self.name = directory, directory.name
        self._owner = {
            "id": uuid.uuid4().hex,
            "name": f"process {os.getpid()} on {socket.gethostname()}",
        }
        self._last = 0
        """The last number that is known to be taken."""
        self._kept: list[int] = []
        """The checkpoints that are known to be good, the newest last."""
        self.segments = SegmentFiles()
        self._shared: set[str] = set()
        """Names of the shared files that are known to be in the store."""

    # --- reading ----------------------------------------------------------------------------------

    def find(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """As `Store.find`."""
        # Before anything is read: what is written meanwhile is found by `own`.
        taken = (n for n in reversed(epochs(self.path)) if self._manifest(n).exists())
        self._last = next(taken, 0)
        return super().find(accept)

    def _have(self, name: str) -> None:
        """Copy a shared file to this machine, where its rows are read one by one."""
        self.segments.write(read_segment(self._segment(name), name))
        self._shared.add(name)

    def _segment(self, name: str) -> ObjectPath:
        return self.path / SEGMENTS / f"{name}{SUFFIX}"

    def own(self) -> bool:
        """Take the next number; False if it was taken since `find`.

        Raises `EngineError` if the store cannot be written, or lets several processes create one
        object.
        """
        number = self._last + 1
        entry = sealed({**self._entry(number), "kind": _START}, self.key)
        with writing(self.path):
            try:
                self._create(number, entry)
            except FileExistsError:
                return False
            try:
                self._manifest(number).create(entry)
            except FileExistsError:
                return True
        raise EngineError(
            f"{self.path}: this store overwrites an object that exists, so two jobs could write "
            "one checkpoint; use a store with conditional writes, such as S3, or a directory"
        )

    def peers(self) -> list[Path]:
        """Return none: a store is of one job."""
        return []

    def read_passes(self) -> list[Pass]:
        """Return the notes since the current epoch, also after later epochs.

        Raises `StateError` if that is damaged, and `OSError` if the store is away.
        """
        passes: list[Pass] = []
        for number in epochs(self.path):
            found = (self.path / f"{number:08d}").sizes() if number > self.epoch else {}
            if MANIFEST not in found or MODEL in found:
                continue
            where = self._manifest(number)
            entry = read_manifest(where, self.key)
            if entry["epoch"] != number:
                raise StateError(f"{where}: holds number {entry['epoch']}")
            if entry.get("kind") == _SILENCE:
                passes += [as_pass(record, where) for record in listed(entry, "passes", str(where))]
        return passes

    # --- writing ----------------------------------------------------------------------------------

    def write_passes(self, passes: Iterable[Pass]) -> None:
        """Write the decisions since the current epoch; durable on return.

        Raises `EngineError` if it cannot be written, and `Fenced` if another job has begun to
        write.
        """
        with writing(self.path):
            self._check_last()
        number = self._last + 1
        records = [[record.partition, record.offset, record.clock] for record in passes]
        entry = {**self._entry(number), "kind": _SILENCE, "passes": records}
        with writing(self.path):
            try:
                self._create(number, sealed(entry, self.key))
            except FileExistsError:
                raise self._fenced(number) from None

    def close(self) -> None:
        """Remove copies on this machine; the next job takes the number that follows."""
        self.segments.close()

    def _entry(self, epoch: int) -> dict[str, Any]:
        return {**super()._entry(epoch), "owner": self._owner, "written": time.time()}

    def _next_epoch(self) -> int:
        """Return the number of the next checkpoint. Raises `Fenced`, and `OSError`."""
        self._check(epochs(self.path))
        self._check_last()
        return self._last + 1

    def _check_last(self) -> None:
        """Raise `Fenced` if the number that this job took last is not its own any more.

        Where all was moved away or removed, another job begins with number 1, and what follows here
        would be newer than all that one writes. Raises `OSError`, too.
        """
        manifest = self._manifest(self._last)
        if not manifest.exists():
            raise Fenced(
                f"{manifest} is gone, though this job wrote it: the files at {self.path} were "
                "moved or removed, and another job may write there. So this job ends and writes "
                "nothing more; put the files back, and start it again"
            )
        if self._owner_of(self._last) not in (None, self._owner):
            raise self._fenced(self._last)

    def _check(self, numbers: Iterable[int]) -> None:
        """Raise `Fenced` if another job has taken one of the numbers that there are."""
        for number in numbers:
            if number > self._last and self._manifest(number).exists():
                if self._owner_of(number) != self._owner:
                    raise self._fenced(number)
                self._last = number  # the answer was lost when this one was written

    def _share(self, names: Collection[str]) -> None:
        for name in sorted(set(names) - self._shared):
            self._segment(name).write(self.segments.read(name))
            self._shared.add(name)

    def _write(self, epoch: int, files: Mapping[str, Parts]) -> None:
        path = self.path / f"{epoch:08d}"
        for name, parts in files.items():
            if name != MANIFEST:
                (path / name).write(b"".join(parts))
        try:
            self._create(epoch, b"".join(files[MANIFEST]))
        except FileExistsError:
            self._check(epochs(self.path))
            raise OSError("an attempt before this one was carried out late") from None

    def _create(self, number: int, entry: bytes) -> None:
        """Create a manifest. Raises `FileExistsError` if there is another, and `OSError`."""
        manifest = self._manifest(number)
        try:
            manifest.create(entry)
        except FileExistsError:
            if manifest.read() != entry:  # else it is this one, and the answer was lost
                raise
        self._last = number

    def _go_on(self, epoch: int) -> None:
        super()._go_on(epoch)
        self._kept = [*self._kept, epoch][-self.keep :]

    def _prune(self) -> None:
        # Listed before it is certain that no other job has begun, whose files are not among these.
        shared = (self.path / SEGMENTS).sizes() if any(self._named.values()) else {}
        numbers = epochs(self.path)
        # A process that stood still for long may have written a number that was removed before.
        self._check(numbers)
        (self.path / CURRENT).write(canonical({"epoch": self.epoch}))
        if len(self._kept) < self.keep:
            return
        for number in numbers:
            if number < self._kept[0]:
                self._manifest(number).remove()  # first, so that nobody begins to read it
                for left in (self.path / f"{number:08d}").iterdir():
                    left.remove()
                self._named.pop(number, None)
        named = frozenset().union(*(self._named.get(number, ()) for number in self._kept))
        for file in shared:
            if file.removesuffix(SUFFIX) not in named:
                (self.path / SEGMENTS / file).remove()
                self._shared.discard(file.removesuffix(SUFFIX))

    # --- other jobs -------------------------------------------------------------------------------

    def _manifest(self, number: int) -> ObjectPath:
        return self.path / f"{number:08d}" / MANIFEST

    def _owner_of(self, number: int) -> Any:
        """Return who wrote a number; None where that cannot be told."""
        try:
            return read_manifest(self._manifest(number), self.key).get("owner")
        except StateError:
            return None

    def _fenced(self, number: int) -> Fenced:
        match self._owner_of(number):
            case {"name": str(name)}:
                other = name
            case _:
                other = "another process"
        return Fenced(
            f"{other} now writes {self.path} and has taken number {number}: a job is one process, "
            "and the one that started last goes on. Stop that one, or give each job its own "
            "address"
        )
