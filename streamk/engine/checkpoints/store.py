"""Checkpoints: the model and the position in the stream, safe against a crash at any moment.

On disk, under the directory given to the engine::

    member-0/lock                        held (flock) by the process that uses this member's slot
    member-0/00000007/model.safetensors  the model's arrays
    member-0/00000007/held.safetensors   events that wait for labels, where these come late
    member-0/00000007/manifest.json      everything else, with the SHA-256 of the other files
    member-0/00000007.journal            what was decided since: see `streamk.engine.order.sequence`

A checkpoint is written beside the others under a temporary name, its files and its directory are
synced to the disk, and only then is it renamed into place, so that there is never half a one. It
holds no code: reading one runs none, and a file that is missing, cut short, changed in a single
bit, or that has no business there is told from a good one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from streamk import __version__
from streamk.engine.checkpoints.files import remove_any, sync_directory, write_file, writing
from streamk.engine.checkpoints.journal import Journal
from streamk.engine.checkpoints.keys import Key, Untrusted
from streamk.engine.checkpoints.locks import holder, lock
from streamk.engine.checkpoints.reading import (
    FORMAT,
    HELD,
    LONGEST_MANIFEST,
    MANIFEST,
    MEMBER,
    MODEL,
    Checkpoint,
    epochs,
    newest_checkpoint,
    signature,
)
from streamk.engine.order.sequence import IdleAdvance
from streamk.errors import EngineError, InvalidInput
from streamk.packing import canonical, pack
from streamk.state import State

__all__ = ["NotSaved", "Store"]

_MAX_MEMBERS = 1024


class NotSaved(EngineError):
    """A checkpoint could not be written; those before it are as they were."""


class Store:
    """One member's slot in a checkpoint directory, held until `close`.

    Parameters
    ----------
    directory : path
        Made if it is not there. Several members of a group share one; each takes the first slot
        ``member-0``, ``member-1``, … that no running process holds.
    keep : int, default 2
        Checkpoints that stay, at least 2: the newest may be damaged, or never be committed.
    alone : bool, default False
        There is one slot only: the job is that of a single process.
    key : Key, optional
        Checkpoints and journals are signed with it, and others are refused.

    Raises
    ------
    InvalidInput
        If `keep` is less than 2.
    EngineError
        If the directory cannot be made or written, or another process uses all slots.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep: int = 2,
        alone: bool = False,
        key: Key | None = None,
    ) -> None:
        if keep < 2:
            raise InvalidInput(f"keep={keep} checkpoints: at least 2 are needed")
        self.directory = Path(directory)
        self.keep = keep
        self.key = key
        self._lock = -1
        with writing(self.directory):
            new = [path for path in self.directory.absolute().parents if not path.exists()]
            self.path = self._claim(1 if alone else _MAX_MEMBERS)
            # A power failure may take a directory away whose name was not synced, files and all.
            for path in (self.path, self.directory.absolute(), *new):
                sync_directory(path.parent)
            for left_over in self.path.glob(".new-*"):
                remove_any(left_over)
        self.name = self.path.name
        self.epoch = 0
        """The epoch that was opened or saved last; 0 before there is one."""
        self._journal = self._journal_of(0)

    def _claim(self, slots: int) -> Path:
        for number in range(slots):
            path = self.directory / f"member-{number}"
            path.mkdir(parents=True, exist_ok=True)
            held = lock(path)
            if held is not None:
                self._lock = held
                return path
        if slots == 1:
            raise EngineError(
                f"{path} is in use by {holder(path)}: a job without a consumer group is one"
                " process; stop that one, or give this one another checkpoint directory"
            )
        raise EngineError(f"all of {slots} member slots in {self.directory} are in use")

    def peers(self) -> list[Path]:
        """The directories of the other members."""
        found = [p for p in self.directory.iterdir() if MEMBER.fullmatch(p.name) and p.is_dir()]
        return sorted(p for p in found if p != self.path)

    def find(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """The checkpoint to go on from: the newest good one that is accepted.

        Raises
        ------
        StateError
            If there are some and none can be used.
        Untrusted
            If it is not signed with the key, or signed where there is no key.
        """
        found = newest_checkpoint(self.path, accept, key=self.key)
        if found is None:
            return None
        if found.signed and self.key is None:
            raise Untrusted(
                f"{found.path} is signed, and what this run writes would not be; go on with the"
                " same --state-key, or begin in another checkpoint directory"
            )
        self._go_on(found.epoch)
        return found

    def open(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """As `find`; newer ones are set aside (renamed), because what follows replaces them."""
        found = self.find(accept)
        if found is None:
            return None
        with writing(self.path):
            for epoch in epochs(self.path):
                if epoch > found.epoch:
                    path = self.path / f"{epoch:08d}"
                    aside = path.with_suffix(".set-aside")
                    if os.path.lexists(aside):
                        remove_any(aside)
                    path.rename(aside)
            sync_directory(self.path)
        return found

    def save(self, body: Mapping[str, Any], model: State, held: State | None = None) -> int:
        """Write the next checkpoint; it is on the disk, whole, when this returns its epoch.

        `held` has what waits for labels, if anything does.

        Raises
        ------
        NotSaved
            If it cannot be written; the checkpoints before it are untouched.
        """
        epoch = 1 + max([self.epoch, *self._numbers()])
        files = {MODEL: pack(model.arrays)}
        if held is not None:
            files[HELD] = pack(held.arrays)
        manifest = {
            "format": FORMAT,
            "streamk": __version__,
            "epoch": epoch,
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
            "model": model.header,
            **({} if held is None else {"held": held.header}),
            "engine": dict(body),
        }
        if self.key is not None:
            manifest["slot"] = self.name
            manifest["hmac"] = signature(manifest, self.key)
        manifest["sha256"] = hashlib.sha256(canonical(manifest)).hexdigest()
        written = canonical(manifest)
        beside, path = self.path / f".new-{epoch:08d}", self.path / f"{epoch:08d}"
        comfort = f"; the checkpoint before it, epoch {self.epoch}, is intact"
        if len(written) > LONGEST_MANIFEST:
            raise NotSaved(
                f"cannot write {path}: {MANIFEST} would have {len(written):,} bytes, and more than"
                f" {LONGEST_MANIFEST:,} are never read{comfort}"
            )
        with writing(path, comfort, NotSaved):
            try:
                beside.mkdir(0o700)
                for name, data in files.items():
                    write_file(beside / name, data)
                write_file(beside / MANIFEST, written)
                sync_directory(beside)
                beside.rename(path)
            except OSError:
                shutil.rmtree(beside, ignore_errors=True)
                raise
            sync_directory(self.path)
            self._go_on(epoch)
            self._prune()
        return epoch

    def note(self, passes: Iterable[IdleAdvance]) -> None:
        """Append to the journal of the current epoch; it is on the disk when this returns."""
        self._journal.append(passes)

    def noted(self) -> list[IdleAdvance]:
        """Return the journals' records since the current epoch, those of later epochs included.

        A last line that a crash cut short is dropped: nothing was done yet on its word.

        Raises
        ------
        StateError
            If a journal is damaged elsewhere.
        """
        passes = []
        for epoch in self._numbers(".journal"):
            if epoch >= self.epoch:
                journal = self._journal if epoch == self.epoch else self._journal_of(epoch)
                passes += journal.read()
        return passes

    def close(self) -> None:
        """Release the slot. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _go_on(self, epoch: int) -> None:
        """Begin the journal that follows a checkpoint."""
        self.epoch, self._journal = epoch, self._journal_of(epoch)

    def _journal_of(self, epoch: int) -> Journal:
        return Journal(self.path / f"{epoch:08d}.journal", self.key)

    def _numbers(self, suffix: str = "*") -> list[int]:
        """The epochs of which anything is left, or of which there is a file of that suffix."""
        paths = self.path.glob("[0-9]" * 8 + suffix)
        return sorted({int(path.name[:8]) for path in paths})

    def _prune(self) -> None:
        """Remove all that is older than the checkpoints to keep."""
        oldest = epochs(self.path)[-self.keep :][0]
        for path in self.path.glob("[0-9]" * 8 + "*"):
            if int(path.name[:8]) < oldest:
                remove_any(path)
