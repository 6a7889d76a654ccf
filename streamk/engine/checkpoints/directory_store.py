"""Checkpoints in a directory on a disk.

Under the directory given to the engine::

    member-0/lock              held (flock) by the process that uses this member's slot
    member-0/00000007          a checkpoint
    member-0/00000007.journal  what was decided since: see `streamk.engine.order.sequence`
    member-0/held/             files that checkpoints share: see `SegmentFiles`

The lock is of the directory and not of its path, which may lead elsewhere after somebody has moved
the directory away. So before anything is written or removed it is made sure that the lock lies at
the path.

A checkpoint is written beside the others under a temporary name, its files and its directory are
synced to the disk, and only then is it renamed into place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from streamk.engine.checkpoints.files import (
    MEMBER,
    Journal,
    Key,
    holder,
    lies_in,
    lock,
    remove_any,
    sync_directory,
    write_file,
    writing,
)
from streamk.engine.checkpoints.reading import Checkpoint, epochs
from streamk.engine.checkpoints.segment_files import SEGMENTS, SegmentFiles
from streamk.engine.checkpoints.store import Fenced, Store
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError
from streamk.packing import Parts

__all__ = ["DirectoryStore"]

_MAX_MEMBERS = 1024


class DirectoryStore(Store):
    """One member's slot in a checkpoint directory, held until `close`.

    Parameters
    ----------
    directory : path
        Made if it is not there. Several members of a group share one; each takes the first slot
        ``member-0``, ``member-1``, … that no running process holds.
    alone : bool, default False
        There is one slot only: the job is that of a single process.
    key : Key, optional
        Checkpoints and journals are signed with it, and others are refused.

    Raises
    ------
    EngineError
        If the directory cannot be made or written, or another process uses all slots.
    """

    directory: Path
    path: Path

    def __init__(
        self, directory: str | os.PathLike[str], *, alone: bool = False, key: Key | None = None
    ) -> None:
        super().__init__(Path(directory), key=key)
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
        self._journal = self._journal_of(0)
        self.segments = SegmentFiles(self.path / SEGMENTS, self._check)

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

    def open(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """As `find`, and rename newer checkpoints to ``*.set-aside``: new ones take their place."""
        found = self.find(accept)
        if found is None:
            return None
        with writing(self.path):
            self._check()
            for epoch in epochs(self.path):
                if epoch > found.epoch:
                    path = self.path / f"{epoch:08d}"
                    aside = path.with_suffix(".set-aside")
                    if os.path.lexists(aside):
                        remove_any(aside)
                    path.rename(aside)
            sync_directory(self.path)
        return found

    def own(self) -> bool:
        """Return that this process is the only one who writes: it has held the slot's lock."""
        return True

    def write_passes(self, passes: Iterable[Pass]) -> None:
        """Append to the journal of the current epoch; it is on the disk when this returns."""
        with writing(self.path):
            self._check()
        self._journal.append(passes)

    def read_passes(self) -> list[Pass]:
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

    def _check(self) -> None:
        """Raise `Fenced` unless what this process has locked lies at the path, and `OSError`."""
        if not lies_in(self.path, self._lock):
            raise Fenced(
                f"{self.path} is no longer the directory that this job locked: it was moved, "
                "removed or replaced, and another job may write there. So this job ends and "
                f"writes nothing more; its last checkpoint is epoch {self.epoch}. Put the "
                "directory back, and start the job again"
            )

    def _next_epoch(self) -> int:
        self._check()
        return 1 + max([self.epoch, *self._numbers()])

    def _share(self, names: Collection[str]) -> None:
        """Do nothing: they are there since they were written."""

    def _write(self, epoch: int, files: Mapping[str, Parts]) -> None:
        beside = self.path / f".new-{epoch:08d}"
        try:
            beside.mkdir(0o700)
            for name, parts in files.items():
                write_file(beside / name, parts)
            sync_directory(beside)
            self._check()
            beside.rename(self.path / f"{epoch:08d}")
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_directory(self.path)

    def _go_on(self, epoch: int) -> None:
        """Begin the journal that follows a checkpoint."""
        super()._go_on(epoch)
        self._journal = self._journal_of(epoch)

    def _journal_of(self, epoch: int) -> Journal:
        return Journal(self.path / f"{epoch:08d}.journal", self.key)

    def _numbers(self, suffix: str = "*") -> list[int]:
        """The epochs of which anything is left, or of which there is a file of that suffix."""
        paths = self.path.glob("[0-9]" * 8 + suffix)
        return sorted({int(path.name[:8]) for path in paths})

    def _prune(self) -> None:
        """Remove all that is older than the checkpoints to keep."""
        self._check()
        oldest = epochs(self.path)[-self.keep :][0]
        for path in self.path.glob("[0-9]" * 8 + "*"):
            if int(path.name[:8]) < oldest:
                remove_any(path)
                self._named.pop(int(path.name[:8]), None)
        # Those that were set aside too: somebody may want them back.
        left = [path for path in self.path.glob("[0-9]" * 8 + "*") if path.is_dir()]
        names = [self._names_of(int(path.name[:8]), path) for path in left]
        self.segments.keep(frozenset().union(*names))
