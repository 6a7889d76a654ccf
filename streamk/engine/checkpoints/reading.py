"""Checkpoints read back: one is whole, as it was written, or it is refused."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from streamk.engine.checkpoints.files import MANIFEST, Key, Untrusted, read_manifest, reading, sizes
from streamk.engine.checkpoints.places import Location, Remote, location
from streamk.engine.checkpoints.row_files import named_rows, with_rows
from streamk.engine.checkpoints.segment_files import SEGMENTS, SUFFIX, is_name, read_segment
from streamk.errors import InvalidInput, StateError
from streamk.packing import header_bytes, places, unpack
from streamk.state import State

__all__ = [
    "HELD",
    "MODEL",
    "Checkpoint",
    "NotACheckpoint",
    "check_segments",
    "epochs",
    "kept_model",
    "newest_checkpoint",
    "newest_of_all",
    "read_checkpoint",
    "segment_bytes",
    "segments_of",
    "shared_file",
]

MODEL = "model.safetensors"
HELD = "held.safetensors"
"""Events that wait for their labels, where a job has late labels."""

_EPOCH = re.compile(r"\d{8}")

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint.

    Attributes
    ----------
    path : Location
    epoch : int
        Counts the checkpoints of a member, from 1.
    body : dict
        The engine's own part of the manifest, JSON data.
    model : State
    signed : bool
        Whether it has a signature, which was checked if it was read with a key.
    held : State or None
        Events that wait for their labels.
    written : float
        When it was written, in seconds since 1970, by the clock of who wrote it.
    rows : frozenset of str
        Names of the files of its rows, see `streamk.engine.checkpoints.row_files`.
    """

    path: Location
    epoch: int
    body: dict[str, Any]
    model: State
    signed: bool = False
    held: State | None = None
    written: float = 0.0

    rows: frozenset[str] = frozenset()

    @property
    def segments(self) -> frozenset[str]:
        """Names of the files of held events that it shares with others, see `SegmentFiles`."""
        return frozenset() if self.held is None else segments_of(self.held.header)

    @property
    def shared(self) -> frozenset[str]:
        """Names of all files that it shares with other checkpoints."""
        return self.segments | self.rows


def check_segments(found: Checkpoint) -> None:
    """Check the files that a checkpoint shares with others, beside which it lies.

    Raises
    ------
    StateError
        If one is missing or damaged.
    OSError
        If an object store is away.
    """
    for name in sorted(found.segments):
        read_segment(shared_file(found.path, name), name)


def shared_file(path: Location, name: str) -> Location:
    """Return where a file lies that the checkpoint there shares with others."""
    return path.parent / SEGMENTS / f"{name}{SUFFIX}"


def segment_bytes(found: Checkpoint) -> int:
    """Return the bytes of the files that a checkpoint shares with others, as `check_segments`."""
    listed = sizes(found.path.parent / SEGMENTS) if found.shared else {}
    return sum(listed.get(f"{name}{SUFFIX}") or 0 for name in found.shared)


def segments_of(held: Any) -> frozenset[str]:
    """Return the names of shared files in the header of held events; none in another header."""
    match held:
        case {"segments": dict(queues)}:
            names = [name for some in queues.values() if isinstance(some, list) for name in some]
            return frozenset(name for name in names if is_name(name))
    return frozenset()


class NotACheckpoint(StateError):
    """A number of an object store under which something else than a checkpoint was written."""


def read_checkpoint(path: str | os.PathLike[str] | Remote, key: Key | None = None) -> Checkpoint:
    """Read one checkpoint (the directory with its files) and check it in full.

    Files of held events that it shares with other checkpoints are not read: `Engine` does that,
    and `streamk inspect`.

    Parameters
    ----------
    path : path, or address in an object store
    key : Key, optional
        What it must be signed with; without one a signature is not checked.

    Raises
    ------
    StateError
        If anything about it is not as it was written, saying what.
    Untrusted
        If it is whole and not signed with the key.
    OSError
        If an object store is away.
    """
    path = location(path)
    found = _files(path)
    manifest = _read_manifest(path, key)
    expected = manifest.get("files")
    wanted = [MODEL, HELD] if "held" in manifest else [MODEL]
    if not isinstance(expected, dict) or sorted(expected) != sorted(wanted):
        raise StateError(
            f"{path / MANIFEST}: lists other files than {', '.join(wanted)}: {expected!r}"
        )
    _check_files(path, found, wanted, wanted)
    state = _read_state(path / MODEL, manifest["model"], expected[MODEL])
    if "rows" in manifest:
        files = partial(shared_file, path)
        state = with_rows(state, manifest["rows"], lambda name: read_segment(files(name), name))
    held = None
    if "held" in manifest:
        held = _read_state(path / HELD, manifest["held"], expected[HELD])
    epoch, body, signed = manifest["epoch"], manifest["engine"], "hmac" in manifest
    written, rows = _written(path, manifest), named_rows(manifest)
    return Checkpoint(path, epoch, body, state, signed, held, written, rows)


def _written(path: Location, manifest: Mapping[str, Any]) -> float:
    if not isinstance(path, Path):
        found = manifest.get("written")
        if not isinstance(found, float):
            raise StateError(f"{path / MANIFEST}: does not say when it was written")
        return found
    try:
        return (path / MANIFEST).stat().st_mtime
    except FileNotFoundError:  # the job has removed it since
        return time.time()


def _read_state(path: Location, header: Any, digest: Any) -> State:
    """Read a state whose header is in the manifest. Raises `StateError`."""
    with reading(path) as (file, size):  # whole, once its header has shown to fit its size
        beginning = file.read(8)
        beginning += file.read(header_bytes(beginning, size, path) - 8)
        places(beginning, size, path)
        file.seek(0)
        data = file.read(size)
    if hashlib.sha256(data).hexdigest() != digest:
        raise StateError(f"{path}: is damaged, its SHA-256 does not match the manifest")
    try:
        return State(header, unpack(data, path))
    except (AttributeError, InvalidInput, RecursionError) as error:
        raise StateError(
            f"{path.parent / MANIFEST}: is not a complete manifest: {error}"
        ) from error


def newest_checkpoint(
    directory: Location,
    accept: Callable[[Checkpoint], bool] | None = None,
    *,
    key: Key | None = None,
) -> Checkpoint | None:
    """The newest good checkpoint that is accepted; None if there is none.

    Damaged ones are passed over with a warning; with a key those that are not signed are not.

    Parameters
    ----------
    directory : Location
        That of a member, or the one given to the engine: then that of the member that has learned
        the most events.
    accept : function, optional
        Tells of a checkpoint whether the group has its offsets; by default all are accepted.
    key : Key, optional
        What they must be signed with.

    Raises
    ------
    StateError
        If there are some and none can be used, with the reason for each.
    Untrusted
        If the newest whole one is not signed with the key.
    OSError
        If an object store is away.
    """
    members = members_of(directory)
    if members:
        newest = [newest_checkpoint(member, accept, key=key) for member in members]
        return max(filter(None, newest), key=_learned, default=None)
    reasons, listed = [], epochs(directory)
    for epoch in reversed(listed):
        try:
            found = read_checkpoint(directory / f"{epoch:08d}", key)
            if found.epoch != epoch:
                raise StateError(f"{found.path}: holds epoch {found.epoch}")
            if accept is not None and not accept(found):
                reasons.append(f"{found.path} holds more than the group has committed")
                continue
        except Untrusted:
            raise
        except NotACheckpoint:
            continue
        except StateError as error:
            if epoch in epochs(directory):  # a running job removes older ones meanwhile
                _log.warning("skipping a damaged checkpoint: %s", error)
                reasons.append(str(error))
        else:
            return found
    if epochs(directory)[-1:] != listed[-1:]:  # written while those listed were read
        return newest_checkpoint(directory, accept, key=key)
    if reasons:
        raise StateError(
            f"no checkpoint in {directory} can be used; restore one from a copy, or remove the"
            f" directory to start anew. {'; '.join(reasons)}"
        )
    return None


def newest_of_all(directory: Location, key: Key | None = None) -> Checkpoint:
    """Return the newest good checkpoint of the member that has learned the most events.

    Parameters
    ----------
    directory : Location
        The one given to the engine, or that of a member or an epoch inside it.
    key : Key, optional
        What it must be signed with.

    Raises
    ------
    InvalidInput
        If there is none, or it is no such directory.
    StateError
        If there are some and none can be used, or one is not signed with the key.
    OSError
        If an object store is away.
    """
    if _EPOCH.fullmatch(directory.name) and (directory / MANIFEST).exists():
        return read_checkpoint(directory, key)
    best = newest_checkpoint(directory, key=key) if directory.is_dir() else None
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
        raise StateError(
            f"{found.path / MANIFEST}: is not a complete manifest: {error!r}"
        ) from error


def members_of(directory: Location) -> list[Location]:
    """Return the directories of members in order; none of an object store, which has one job."""
    if not isinstance(directory, Path):
        return []
    found = [path for path in directory.glob("member-*") if path.is_dir()]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def kept_model(directory: Location, key: Key | None = None) -> Mapping[str, Any] | None:
    """The header of the model that a directory given to the engine holds; None if it holds none.

    It is any member's, since all have models of one kind. The arrays are not read, and damaged
    checkpoints are passed over: the engine checks what it goes on from. Raises `Untrusted` for one
    that is not signed with the key, if there is a key.
    """
    members = [directory] if not isinstance(directory, Path) else members_of(directory)
    for member in members:
        for epoch in reversed(epochs(member)):
            try:
                found: Mapping[str, Any] = _read_manifest(member / f"{epoch:08d}", key)["model"]
            except Untrusted:
                raise
            except StateError:
                continue
            return found
    return None


def epochs(directory: Location) -> list[int]:
    """Return the numbers of the checkpoints in a member's directory, in order."""
    return sorted(int(p.name) for p in directory.iterdir() if _EPOCH.fullmatch(p.name))


def _files(path: Location) -> dict[str, int | None]:
    """Return the sizes of the files of a checkpoint, among which there must be a manifest."""
    found = sizes(path)
    if not isinstance(path, Path):
        if MANIFEST not in found:  # it is written last, and a job may be writing
            raise NotACheckpoint(f"{path / MANIFEST}: is missing")
        return found
    _check_files(path, found, (MODEL,), (MODEL, HELD))
    return found


def _check_files(
    path: Location,
    found: Mapping[str, int | None],
    needed: Collection[str],
    allowed: Collection[str],
) -> None:
    for name in (MANIFEST, *needed):
        if name not in found:
            raise StateError(f"{path / name}: is missing")
    for name, size in found.items():
        if name not in (MANIFEST, *allowed):
            raise StateError(f"{path / name}: does not belong in a checkpoint")
        if size is None:
            raise StateError(f"{path / name}: is not a regular file")


def _read_manifest(path: Location, key: Key | None) -> dict[str, Any]:
    """Read the manifest of a checkpoint."""
    path /= MANIFEST
    manifest = read_manifest(path, key)
    if "kind" in manifest:
        raise NotACheckpoint(f"{path}: is the {manifest['kind']} of a run, not a checkpoint")
    parts = {"engine": dict, "model": dict, "epoch": int}
    for name, kind in parts.items():
        if not isinstance(manifest.get(name), kind):
            raise StateError(
                f"{path}: is not a complete manifest: {name!r} is missing or not a {kind}"
            )
    return manifest
