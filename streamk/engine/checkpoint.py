"""Checkpoints: the model and the position in the stream, safe against a crash at any moment.

On disk, under the directory given to the engine::

    member-0/lock                        held (flock) by the process that uses this member's slot
    member-0/00000007/model.safetensors  the model's arrays
    member-0/00000007/manifest.json      everything else, with the SHA-256 of both files
    member-0/00000007.journal            what was decided since: see `streamk.engine.sequence`

A checkpoint is written beside the others under a temporary name, its files and its directory are
synced to the disk, and only then is it renamed into place, so that there is never half a one. It
holds no code: reading one runs none, and a file that is missing, cut short, changed in a single
bit, or that has no business there is told from a good one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamk import __version__
from streamk.engine.sequence import Pass
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.state import State

__all__ = [
    "Checkpoint",
    "NotSaved",
    "Store",
    "fingerprint",
    "kept_model",
    "lock",
    "newest_checkpoint",
    "read_checkpoint",
]

FORMAT = 1
MANIFEST = "manifest.json"
MODEL = "model.safetensors"

_EPOCH = re.compile(r"\d{8}")
_MEMBER = re.compile(r"member-(0|[1-9]\d*)")
_MAX_MEMBERS = 1024

_log = logging.getLogger("streamk.engine")


class NotSaved(EngineError):
    """A checkpoint could not be written; those before it are as they were."""


@dataclass(frozen=True)
class Checkpoint:
    """What one checkpoint holds.

    Attributes
    ----------
    path : Path
    epoch : int
        Counts the checkpoints of a member, from 1.
    body : dict
        The engine's own part of the manifest, JSON data.
    model : State
    """

    path: Path
    epoch: int
    body: dict[str, Any]
    model: State


def fingerprint(state: State) -> str:
    """SHA-256 of a state: equal for equal headers and arrays, on any machine."""
    digest = hashlib.sha256(_canonical(state.header))
    digest.update(_pack(state.arrays))
    return digest.hexdigest()


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read one checkpoint (the directory with the two files) and check it in full.

    Raises
    ------
    StateError
        If anything about it is not as it was written, saying what.
    """
    path = Path(path)
    _check_files(path)
    manifest = _read_manifest(path)
    expected = manifest["files"]
    if not isinstance(expected, dict) or list(expected) != [MODEL]:
        raise StateError(f"{path / MANIFEST}: lists other files than {MODEL}: {expected!r}")
    data = _read_bytes(path / MODEL)
    if hashlib.sha256(data).hexdigest() != expected[MODEL]:
        raise StateError(f"{path / MODEL}: is damaged, its SHA-256 is not the manifest's")
    try:
        body, header = manifest["engine"], manifest["model"]
        if not (isinstance(body, dict) and isinstance(header, dict)):
            raise TypeError("its parts are no objects")
        if not isinstance(manifest["epoch"], int):
            raise TypeError(f"its epoch is {manifest['epoch']!r}")
        state = State(header, _unpack(data))
    except (KeyError, TypeError, InvalidInput) as error:
        raise StateError(f"{path / MANIFEST}: is not a whole manifest: {error}") from error
    return Checkpoint(path, manifest["epoch"], body, state)


def newest_checkpoint(
    directory: Path, accept: Callable[[Checkpoint], bool] | None = None
) -> Checkpoint | None:
    """The newest good checkpoint that is accepted; None if there is none.

    Damaged ones are passed over with a warning.

    Parameters
    ----------
    directory : Path
        That of a member, or the one given to the engine: then that of the member that has learned
        the most events.
    accept : function, optional
        Tells of a checkpoint whether the group has its offsets; by default all are accepted.

    Raises
    ------
    StateError
        If there are some and none can be used, with the reason for each.
    """
    members = _members(directory)
    if members:
        newest = [newest_checkpoint(member, accept) for member in members]
        return max(filter(None, newest), key=_learned, default=None)
    reasons = []
    for epoch in reversed(_epochs(directory)):
        try:
            found = read_checkpoint(directory / f"{epoch:08d}")
            if found.epoch != epoch:
                raise StateError(f"{found.path}: holds epoch {found.epoch}")
            if accept is not None and not accept(found):
                reasons.append(f"{found.path} holds more than the group has committed")
                continue
        except StateError as error:
            _log.warning("passing over a damaged checkpoint: %s", error)
            reasons.append(str(error))
        else:
            return found
    if reasons:
        raise StateError(
            f"no checkpoint in {directory} can be used; restore one from a copy, or remove the"
            f" directory to start anew. {'; '.join(reasons)}"
        )
    return None


def newest_of_all(directory: Path) -> Checkpoint:
    """Return the newest good checkpoint of the member that has learned the most events.

    Parameters
    ----------
    directory : Path
        The one given to the engine, or that of a member or an epoch inside it.

    Raises
    ------
    InvalidInput
        If there is none, or it is no such directory.
    StateError
        If there are some and none can be used.
    """
    if _EPOCH.fullmatch(directory.name) and (directory / MANIFEST).exists():
        return read_checkpoint(directory)
    best = newest_checkpoint(directory) if directory.is_dir() else None
    if best is None:
        raise InvalidInput(
            f"{directory} holds no checkpoint; give the directory that `streamk run --checkpoint`"
            " was given"
        )
    return best


def _learned(found: Checkpoint) -> int:
    try:
        return int(found.body["training"]["counts"]["learned"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{found.path / MANIFEST}: is not a whole manifest: {error!r}") from error


def _members(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("member-*") if path.is_dir())


def kept_model(directory: Path) -> Mapping[str, Any] | None:
    """The header of the model that a directory given to the engine holds; None if it holds none.

    It is any member's, since all have models of one kind. The arrays are not read, and damaged
    checkpoints are passed over: the engine checks what it goes on from.
    """
    for member in _members(directory):
        for epoch in reversed(_epochs(member)):
            with contextlib.suppress(StateError):
                found: Mapping[str, Any] = _read_manifest(member / f"{epoch:08d}")["model"]
                return found
    return None


def lock(directory: Path) -> int | None:
    """Lock a member's directory for this process; None if another one holds it.

    Returns the file descriptor that holds the lock; closing it, or the process's end, lets go.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(directory / "lock", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return descriptor


def _holder(directory: Path) -> str:
    """Return which process holds the lock of a member's directory, as far as it says so."""
    try:
        with (directory / "lock").open(encoding="utf-8", errors="replace") as file:
            return file.readline(200).strip() or "another process"
    except OSError:
        return "another process"


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

    Raises
    ------
    InvalidInput
        If `keep` is less than 2.
    EngineError
        If the directory cannot be made or written, or another process uses all slots.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, keep: int = 2, alone: bool = False
    ) -> None:
        if keep < 2:
            raise InvalidInput(f"keep={keep} checkpoints: at least 2 are needed")
        self.directory = Path(directory)
        self.keep = keep
        self._lock = -1
        with _writing(self.directory):
            self.path = self._claim(1 if alone else _MAX_MEMBERS)
            for left_over in self.path.glob(".new-*"):
                _remove(left_over)
        self.name = self.path.name
        self.epoch = 0
        """The epoch that was opened or saved last; 0 before there is one."""

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
                f"{path} is in use by {_holder(path)}: a job without a consumer group is one"
                " process; stop that one, or give this one another checkpoint directory"
            )
        raise EngineError(f"all of {slots} member slots in {self.directory} are in use")

    def peers(self) -> list[Path]:
        """The directories of the other members."""
        found = [p for p in self.directory.iterdir() if _MEMBER.fullmatch(p.name) and p.is_dir()]
        return sorted(p for p in found if p != self.path)

    def find(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """The checkpoint to go on from: the newest good one that is accepted.

        Raises
        ------
        StateError
            If there are some and none can be used.
        """
        found = newest_checkpoint(self.path, accept)
        if found is not None:
            self.epoch = found.epoch
        return found

    def open(self, accept: Callable[[Checkpoint], bool] | None = None) -> Checkpoint | None:
        """As `find`; newer ones are set aside (renamed), because what follows replaces them."""
        found = self.find(accept)
        if found is None:
            return None
        with _writing(self.path):
            for epoch in _epochs(self.path):
                if epoch > found.epoch:
                    path = self.path / f"{epoch:08d}"
                    aside = path.with_suffix(".set-aside")
                    if os.path.lexists(aside):
                        _remove(aside)
                    path.rename(aside)
            _sync(self.path)
        return found

    def save(self, body: Mapping[str, Any], model: State) -> int:
        """Write the next checkpoint; it is on the disk, whole, when this returns its epoch.

        Raises
        ------
        NotSaved
            If it cannot be written; the checkpoints before it are untouched.
        """
        epoch = 1 + max([self.epoch, *self._numbers()])
        data = _pack(model.arrays)
        manifest = {
            "format": FORMAT,
            "streamk": __version__,
            "epoch": epoch,
            "files": {MODEL: hashlib.sha256(data).hexdigest()},
            "model": model.header,
            "engine": dict(body),
        }
        manifest["sha256"] = hashlib.sha256(_canonical(manifest)).hexdigest()
        beside, path = self.path / f".new-{epoch:08d}", self.path / f"{epoch:08d}"
        comfort = f"; the checkpoint before it, epoch {self.epoch}, is intact"
        with _writing(path, comfort, NotSaved):
            try:
                beside.mkdir(0o700)
                _write(beside / MODEL, data)
                _write(beside / MANIFEST, _canonical(manifest))
                _sync(beside)
                beside.rename(path)
            except OSError:
                shutil.rmtree(beside, ignore_errors=True)
                raise
            _sync(self.path)
            self.epoch = epoch
            self._prune()
        return epoch

    def note(self, passes: Iterable[Pass]) -> None:
        """Append to the journal of the current epoch; it is on the disk when this returns."""
        path = self._journal(self.epoch)
        with _writing(path):
            new = not path.exists()
            with open(path, "ab", opener=_private) as file:
                for record in passes:
                    line = _canonical([record.partition, record.offset, record.clock], None)
                    file.write(b"%08x %s\n" % (zlib.crc32(line), line))
                file.flush()
                os.fsync(file.fileno())
            if new:
                _sync(self.path)

    def noted(self) -> list[Pass]:
        """What the journals hold since the current epoch, later epochs' included.

        A last line that a crash cut short is dropped: nothing was done yet on its word.

        Raises
        ------
        StateError
            If a journal is damaged elsewhere.
        """
        passes = []
        for epoch in self._numbers(".journal"):
            if epoch >= self.epoch:
                passes += _read_journal(self._journal(epoch))
        return passes

    def close(self) -> None:
        """Let go of the slot. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _journal(self, epoch: int) -> Path:
        return self.path / f"{epoch:08d}.journal"

    def _numbers(self, suffix: str = "*") -> list[int]:
        """The epochs of which anything is left, or of which there is a file of that suffix."""
        paths = self.path.glob("[0-9]" * 8 + suffix)
        return sorted({int(path.name[:8]) for path in paths})

    def _prune(self) -> None:
        """Remove all that is older than the checkpoints to keep."""
        oldest = _epochs(self.path)[-self.keep :][0]
        for path in self.path.glob("[0-9]" * 8 + "*"):
            if int(path.name[:8]) < oldest:
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a directory and what is in it, or a file, or a link and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _epochs(directory: Path) -> list[int]:
    return sorted(int(p.name) for p in directory.iterdir() if _EPOCH.fullmatch(p.name))


def _check_files(path: Path) -> None:
    try:
        found = {file.name: file.lstat().st_mode for file in sorted(path.iterdir())}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    for name in (MANIFEST, MODEL):
        if name not in found:
            raise StateError(f"{path / name}: is missing")
    for name, mode in found.items():
        if name not in (MANIFEST, MODEL):
            raise StateError(f"{path / name}: does not belong into a checkpoint")
        if not stat.S_ISREG(mode):
            raise StateError(f"{path / name}: is not a regular file")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    path /= MANIFEST
    raw = _read_bytes(path)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path}: is damaged, it is no JSON: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise StateError(f'{path}: is damaged, it is no object with a "format"')
    if manifest["format"] != FORMAT:
        raise StateError(
            f"{path}: has format {manifest['format']}, this version of streamk reads {FORMAT};"
            f" it was written by streamk {manifest.get('streamk')}"
        )
    claimed = manifest.pop("sha256", None)
    # Written in one way only, so that any change shows, a space or a second key of one name too.
    if hashlib.sha256(_canonical(manifest)).hexdigest() != claimed or raw != _canonical(
        {**manifest, "sha256": claimed}
    ):
        raise StateError(f"{path}: is damaged, its SHA-256 does not fit")
    return manifest


def _read_journal(path: Path) -> list[Pass]:
    lines = _read_bytes(path).split(b"\n")
    passes, good = [], 0
    for number, line in enumerate(lines[:-1], 1):
        crc, _, text = line.partition(b" ")
        if b"%08x" % zlib.crc32(text) != crc:
            if number < len(lines) - 1:
                raise StateError(f"{path}: is damaged in line {number}")
            break
        passes.append(_pass_of(text, f"{path}: line {number}"))
        good += len(line) + 1
    with _writing(path):
        os.truncate(path, good)
    return passes


def _pass_of(text: bytes, where: str) -> Pass:
    try:
        match json.loads(text):
            case [str(partition), int(offset), int(clock)] if bool not in map(
                type, (offset, clock)
            ):
                return Pass(partition, offset, clock)
    except (ValueError, RecursionError):
        pass
    raise StateError(f"{where} is no partition, offset and clock; it was not written by streamk")


def _canonical(data: Any, indent: int | None = 1) -> bytes:
    return json.dumps(data, indent=indent, sort_keys=True, allow_nan=False).encode()


def _pack(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    from safetensors.numpy import save

    plain = {}
    for name, array in sorted(arrays.items()):
        # Written as they lie in memory, so they have to lie there in order and little-endian.
        ordered = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        plain[name] = ordered.reshape(array.shape)
    return bytes(save(plain))


def _unpack(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except SafetensorError as error:
        raise TypeError(f"{MODEL}: {error}") from error
    return {name: a if a.flags.writeable else a.copy() for name, a in arrays.items()}


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    """Open a file that its owner alone may read: there are events of the stream in it."""
    return os.open(path, flags, 0o600)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writing(path: Path, comfort: str = "", kind: type[EngineError] = EngineError) -> Any:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise kind(f"cannot write {path}: {reason}{comfort}") from error
