"""Checkpoints read back: one is whole, as it was written, or it is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamk.engine.files import read_bytes
from streamk.engine.packing import canonical, unpack
from streamk.errors import InvalidInput, StateError
from streamk.state import State

__all__ = [
    "FORMAT",
    "MANIFEST",
    "MODEL",
    "Checkpoint",
    "epochs",
    "kept_model",
    "newest_checkpoint",
    "newest_of_all",
    "read_checkpoint",
]

FORMAT = 1
MANIFEST = "manifest.json"
MODEL = "model.safetensors"

_EPOCH = re.compile(r"\d{8}")

_log = logging.getLogger("streamk.engine")


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


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read one checkpoint (the directory with the two files) and check it in full.

    Raises
    ------
    StateError
        If anything about it is not as it was written, saying what.
    """
    path = Path(path)
    _check_files(path)
    manifest = read_manifest(path)
    expected = manifest["files"]
    if not isinstance(expected, dict) or list(expected) != [MODEL]:
        raise StateError(f"{path / MANIFEST}: lists other files than {MODEL}: {expected!r}")
    data = read_bytes(path / MODEL)
    if hashlib.sha256(data).hexdigest() != expected[MODEL]:
        raise StateError(f"{path / MODEL}: is damaged, its SHA-256 is not the manifest's")
    try:
        body, header = manifest["engine"], manifest["model"]
        if not (isinstance(body, dict) and isinstance(header, dict)):
            raise TypeError("its parts are no objects")
        if not isinstance(manifest["epoch"], int):
            raise TypeError(f"its epoch is {manifest['epoch']!r}")
        state = State(header, unpack(data, path / MODEL))
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
    for epoch in reversed(epochs(directory)):
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
        for epoch in reversed(epochs(member)):
            with contextlib.suppress(StateError):
                found: Mapping[str, Any] = read_manifest(member / f"{epoch:08d}")["model"]
                return found
    return None


def epochs(directory: Path) -> list[int]:
    """Return the numbers of the checkpoints in a member's directory, in order."""
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


def read_manifest(path: Path) -> dict[str, Any]:
    path /= MANIFEST
    raw = read_bytes(path)
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
    if hashlib.sha256(canonical(manifest)).hexdigest() != claimed or raw != canonical(
        {**manifest, "sha256": claimed}
    ):
        raise StateError(f"{path}: is damaged, its SHA-256 does not fit")
    return manifest
