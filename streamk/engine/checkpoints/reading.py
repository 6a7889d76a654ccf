"""Checkpoints read back: one is whole, as it was written, or it is refused."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamk.engine.checkpoints.files import read_bytes, reading
from streamk.engine.checkpoints.keys import Key, Untrusted
from streamk.errors import InvalidInput, StateError
from streamk.packing import canonical, header_bytes, places, unpack
from streamk.state import State

__all__ = [
    "FORMAT",
    "HELD",
    "LONGEST_MANIFEST",
    "MANIFEST",
    "MEMBER",
    "MODEL",
    "Checkpoint",
    "epochs",
    "kept_model",
    "newest_checkpoint",
    "newest_of_all",
    "read_checkpoint",
    "signature",
]

FORMAT = 1
MANIFEST = "manifest.json"
MODEL = "model.safetensors"
HELD = "held.safetensors"
"""Events that wait for their labels, where a job has late labels."""

MEMBER = re.compile(r"member-(0|[1-9]\d*)")
LONGEST_MANIFEST = 1 << 28
"""Bytes of a manifest at most, on reading and writing."""

_EPOCH = re.compile(r"\d{8}")

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint.

    Attributes
    ----------
    path : Path
    epoch : int
        Counts the checkpoints of a member, from 1.
    body : dict
        The engine's own part of the manifest, JSON data.
    model : State
    signed : bool
        Whether it has a signature, which was checked if it was read with a key.
    held : State or None
        Events that wait for their labels.
    """

    path: Path
    epoch: int
    body: dict[str, Any]
    model: State
    signed: bool = False
    held: State | None = None


def read_checkpoint(path: str | os.PathLike[str], key: Key | None = None) -> Checkpoint:
    """Read one checkpoint (the directory with the two files) and check it in full.

    Parameters
    ----------
    path : path
    key : Key, optional
        What it must be signed with; without one a signature is not checked.

    Raises
    ------
    StateError
        If anything about it is not as it was written, saying what.
    Untrusted
        If it is whole and not signed with the key.
    """
    path = Path(path)
    _check_files(path, (MODEL,), (MODEL, HELD))
    manifest = _read_manifest(path, key)
    expected = manifest.get("files")
    wanted = [MODEL, HELD] if "held" in manifest else [MODEL]
    if not isinstance(expected, dict) or sorted(expected) != sorted(wanted):
        raise StateError(
            f"{path / MANIFEST}: lists other files than {', '.join(wanted)}: {expected!r}"
        )
    _check_files(path, wanted, wanted)
    state = _read_state(path / MODEL, manifest["model"], expected[MODEL])
    held = (
        _read_state(path / HELD, manifest["held"], expected[HELD]) if "held" in manifest else None
    )
    return Checkpoint(path, manifest["epoch"], manifest["engine"], state, "hmac" in manifest, held)


def _read_state(path: Path, header: Any, digest: Any) -> State:
    """Read a state whose header is in the manifest. Raises `StateError`."""
    data = _read_arrays(path)
    if hashlib.sha256(data).hexdigest() != digest:
        raise StateError(f"{path}: is damaged, its SHA-256 is not the manifest's")
    try:
        return State(header, unpack(data, path))
    except (AttributeError, InvalidInput, RecursionError) as error:
        raise StateError(f"{path.with_name(MANIFEST)}: is not a whole manifest: {error}") from error


def newest_checkpoint(
    directory: Path,
    accept: Callable[[Checkpoint], bool] | None = None,
    *,
    key: Key | None = None,
) -> Checkpoint | None:
    """The newest good checkpoint that is accepted; None if there is none.

    Damaged ones are passed over with a warning; with a key those that are not signed are not.

    Parameters
    ----------
    directory : Path
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
    """
    members = _members(directory)
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
        except StateError as error:
            if epoch in epochs(directory):  # a running job removes older ones meanwhile
                _log.warning("passing over a damaged checkpoint: %s", error)
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


def newest_of_all(directory: Path, key: Key | None = None) -> Checkpoint:
    """Return the newest good checkpoint of the member that has learned the most events.

    Parameters
    ----------
    directory : Path
        The one given to the engine, or that of a member or an epoch inside it.
    key : Key, optional
        What it must be signed with.

    Raises
    ------
    InvalidInput
        If there is none, or it is no such directory.
    StateError
        If there are some and none can be used, or one is not signed with the key.
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
        raise StateError(f"{found.path / MANIFEST}: is not a whole manifest: {error!r}") from error


def _members(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("member-*") if path.is_dir())


def kept_model(directory: Path, key: Key | None = None) -> Mapping[str, Any] | None:
    """The header of the model that a directory given to the engine holds; None if it holds none.

    It is any member's, since all have models of one kind. The arrays are not read, and damaged
    checkpoints are passed over: the engine checks what it goes on from. Raises `Untrusted` for one
    that is not signed with the key, if there is a key.
    """
    for member in _members(directory):
        for epoch in reversed(epochs(member)):
            try:
                found: Mapping[str, Any] = _read_manifest(member / f"{epoch:08d}", key)["model"]
            except Untrusted:
                raise
            except StateError:
                continue
            return found
    return None


def epochs(directory: Path) -> list[int]:
    """Return the numbers of the checkpoints in a member's directory, in order."""
    return sorted(int(p.name) for p in directory.iterdir() if _EPOCH.fullmatch(p.name))


def _check_files(path: Path, needed: Collection[str], allowed: Collection[str]) -> None:
    try:
        found = {file.name: file.lstat().st_mode for file in sorted(path.iterdir())}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    for name in (MANIFEST, *needed):
        if name not in found:
            raise StateError(f"{path / name}: is missing")
    for name, mode in found.items():
        if name not in (MANIFEST, *allowed):
            raise StateError(f"{path / name}: does not belong into a checkpoint")
        if not stat.S_ISREG(mode):
            raise StateError(f"{path / name}: is not a regular file")


def _read_arrays(path: Path) -> bytes:
    """Read the arrays' file, once its header has shown to fit its size."""
    with reading(path) as (file, size):
        beginning = file.read(8)
        beginning += file.read(header_bytes(beginning, size, path) - 8)
        places(beginning, size, path)
        file.seek(0)
        return file.read(size)


def _read_manifest(path: Path, key: Key | None) -> dict[str, Any]:
    path /= MANIFEST
    raw = read_bytes(path, LONGEST_MANIFEST)
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
    try:
        found = hashlib.sha256(canonical(manifest)).hexdigest()
        # Written in one way only, so that any change shows, a space or a second key of one name.
        fits = found == claimed and raw == canonical({**manifest, "sha256": claimed})
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path}: is damaged, streamk writes no such JSON: {error}") from error
    if not fits:
        raise StateError(f"{path}: is damaged, its SHA-256 does not fit")
    if key is not None:
        _check_signature(path, manifest, key)
    parts = {"engine": dict, "model": dict, "epoch": int}
    for name, kind in parts.items():
        if not isinstance(manifest.get(name), kind):
            raise StateError(f"{path}: is not a whole manifest: {name!r} is missing or no {kind}")
    return manifest


def signature(manifest: Mapping[str, Any], key: Key) -> str:
    """Return the signature of a manifest, which holds the digests of all other files."""
    return key.sign("checkpoint", _signed(manifest))


def _signed(manifest: Mapping[str, Any]) -> bytes:
    return canonical({name: part for name, part in manifest.items() if name != "hmac"})


def _check_signature(path: Path, manifest: Mapping[str, Any], key: Key) -> None:
    """Raise `Untrusted` unless a manifest is signed, and lies where it was written."""
    if "hmac" not in manifest:
        raise Untrusted(
            f"{path}: is not signed, and this run takes what was signed with {key.path} only. If"
            " you trust it, leave out --state-key; a job that is to be signed begins in another"
            " checkpoint directory"
        )
    if not key.fits(manifest["hmac"], "checkpoint", _signed(manifest)):
        raise Untrusted(
            f"{path}: was signed with another key than {key.path}, or forged. Give the key of the"
            " job that wrote it, or restore the directory from a copy that you trust"
        )
    member = path.parent.parent.name
    if MEMBER.fullmatch(member) and manifest.get("slot") != member:
        raise Untrusted(
            f"{path}: was written as {manifest.get('slot')}, not as {member}; move it back"
        )
