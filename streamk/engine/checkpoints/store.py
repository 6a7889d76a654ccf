"""Checkpoints: the model and the position in the stream, safe against a crash at any moment.

Each lies in a directory, or its like in an object store, whose name is its number, the epoch::

    00000007/model.safetensors  the model's arrays
    00000007/held.safetensors   events that wait for labels, where these come late
    00000007/manifest.json      everything else, with the SHA-256 of the other files

Events that wait for long, and rows of large tables (`streamk.engine.checkpoints.row_files`), are in
files that never change and that the checkpoints share, see
`streamk.engine.checkpoints.segment_files`; a checkpoint has their names, which are their digests.

It holds no code: reading one runs none, and a file that is missing, cut short, changed in a single
bit, or that has no business there is told from a good one. There is never half a one: see
`streamk.engine.checkpoints.directory_store` and
`streamk.object_store.store`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from streamk import __version__
from streamk.engine.checkpoints.files import (
    MANIFEST,
    Key,
    Untrusted,
    read_manifest,
    sealed,
    writing,
)
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import (
    HELD,
    MODEL,
    Checkpoint,
    newest_checkpoint,
    segments_of,
)
from streamk.engine.checkpoints.row_files import RowFiles, named_rows
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError, StateError
from streamk.packing import Parts, packed
from streamk.state import FORMAT, State

__all__ = ["Fenced", "NotSaved", "Store"]


class NotSaved(EngineError):
    """A checkpoint could not be written; those before it are as they were."""


class Fenced(EngineError):
    """Another job may write the checkpoints of this one, which must end."""


class Store(ABC):
    """The checkpoints of one job, or of one member of a group, which nobody else writes.

    Parameters
    ----------
    directory : Path or Remote
        The one given to the engine.
    key : Key, optional
        What is written is signed with it, and other things are refused.

    Attributes
    ----------
    keep : int
        Checkpoints that stay, at least 2: the newest may be damaged, or never be committed.
    path : Path or Remote
        Where the epochs lie.
    name : str
        Its last part.
    epoch : int
        The one that was opened or saved last; 0 before there is one.
    segments : SegmentFiles
        Files that checkpoints share, as they are on this machine.
    """

    keep: int = 2
    path: Location
    name: str
    segments: SegmentFiles

    def __init__(self, directory: Location, *, key: Key | None = None) -> None:
        self.directory: Location = directory
        self.key = key
        self.epoch = 0
        self._row_files: RowFiles | None = None
        self._named: dict[int, frozenset[str]] = {}
        """The shared files of checkpoints that were opened or saved."""

    # --- reading ----------------------------------------------------------------------------------

    def find(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """The checkpoint to go on from: the newest good one that is accepted.

        Raises
        ------
        StateError
            If there are some and none can be used.
        Untrusted
            If it is not signed with the key, or signed where there is no key.
        OSError
            If an object store is away.
        """
        found = newest_checkpoint(self.path, partial(self._is_whole, accept), key=self.key)
        if found is None:
            return None
        if found.signed and self.key is None:
            raise Untrusted(
                f"{found.path} is signed, but this run would write unsigned checkpoints; pass the "
                "same --state-key, or begin in another checkpoint directory"
            )
        self._named[found.epoch] = found.shared
        self._go_on(found.epoch)
        return found

    def _is_whole(self, accept: Callable[[Checkpoint], bool] | None, found: Checkpoint) -> bool:
        """Return whether a checkpoint is accepted.

        Raises
        ------
        StateError
            If a file that it shares with others is missing or damaged.
        """
        if accept is not None and not accept(found):
            return False
        for name in sorted(found.segments):
            self._have(name)
        return True

    def _have(self, name: str) -> None:
        """Have a shared file on this machine, checked. Raises `StateError`, and `OSError`."""
        self.segments.read(name)

    def open(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """As `find`, and move newer checkpoints out of the way of those that will be written."""
        return self.find(accept)

    @abstractmethod
    def own(self) -> bool:
        """Be the only one who writes from here on.

        False if another process has written since `find`, so ask again.

        Raises
        ------
        EngineError
            If that cannot be had.
        """

    @abstractmethod
    def peers(self) -> list[Path]:
        """The directories of the other members."""

    @abstractmethod
    def read_passes(self) -> list[Pass]:
        """Return what was noted since the current epoch, after later ones too.

        Raises
        ------
        StateError
            If that is damaged.
        """

    # --- writing ----------------------------------------------------------------------------------

    def save(self, body: Mapping[str, Any], model: State, held: State | None = None) -> int:
        """Write the next checkpoint; it is safe, and whole, when this returns its epoch.

        `held` has what waits for labels, if anything does.

        Raises
        ------
        NotSaved
            If it cannot be written; the checkpoints before it are untouched.
        EngineError
            If it could not be read again; likewise.
        Fenced
            If the place is another job's now, or may be.
        """
        comfort = f"; the checkpoint before it, epoch {self.epoch}, is intact"
        with writing(self.path, comfort, NotSaved):
            epoch = self._next_epoch()
        path = self.path / f"{epoch:08d}"
        try:
            arrays, rows = self._rows.write(model)
        except Fenced:
            raise
        except EngineError as error:
            raise NotSaved(f"{error}{comfort}") from error
        try:
            files = {MODEL: packed(arrays)}
            if held is not None:
                files[HELD] = packed(held.arrays)
        except StateError as error:
            raise EngineError(f"cannot write {path}: {error}{comfort}") from error
        manifest = {
            **self._entry(epoch),
            "files": {name: _digest(parts) for name, parts in files.items()},
            "model": model.header,
            **({"rows": rows} if rows else {}),
            **({} if held is None else {"held": held.header}),
            "engine": dict(body),
        }
        written = sealed(manifest, self.key)
        names = named_rows(manifest) | segments_of(manifest.get("held"))
        with writing(path, comfort, NotSaved):
            self._share(names)
            self._write(epoch, {**files, MANIFEST: [written]})
            self._named[epoch] = names
            self._go_on(epoch)
            self._prune()
        for name in named_rows(manifest):
            self.segments.drop(name)
        return epoch

    @property
    def _rows(self) -> RowFiles:
        if self._row_files is None:
            self._row_files = RowFiles(self.segments)
        return self._row_files

    @abstractmethod
    def write_passes(self, passes: Iterable[Pass]) -> None:
        """Note what was decided since the current epoch; it is safe when this returns.

        Raises
        ------
        EngineError
            If it cannot be written.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what is held. May be called twice."""

    def _entry(self, epoch: int) -> dict[str, Any]:
        """Return what every manifest begins with."""
        slot = {} if self.key is None else {"slot": self.name}
        return {"format": FORMAT, "streamk": __version__, "epoch": epoch, **slot}

    @abstractmethod
    def _share(self, names: Collection[str]) -> None:
        """Share files with the place of a new checkpoint. Raises `OSError`."""

    def _names_of(self, epoch: int, path: Location) -> frozenset[str]:
        """Return the names of the shared files of a checkpoint that lies at a path.

        One that cannot be read has none: nobody goes on from it.
        """
        if epoch not in self._named:
            try:
                manifest = read_manifest(path / MANIFEST, None)
            except StateError:
                return frozenset()
            self._named[epoch] = segments_of(manifest.get("held")) | named_rows(manifest)
        return self._named[epoch]

    @abstractmethod
    def _next_epoch(self) -> int:
        """Return the number of the next checkpoint. Raises `OSError`."""

    @abstractmethod
    def _write(self, epoch: int, files: Mapping[str, Parts]) -> None:
        """Write a checkpoint, of which the manifest comes last. Raises `OSError`."""

    def _go_on(self, epoch: int) -> None:
        """Follow a checkpoint."""
        self.epoch = epoch

    @abstractmethod
    def _prune(self) -> None:
        """Remove all that is older than the checkpoints to keep. Raises `OSError`."""


def _digest(parts: Parts) -> str:
    """Return the SHA-256 of a file of these parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
