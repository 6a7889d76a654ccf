"""Manifests: JSON that is written in one way, with its digest and signature."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from streamk.engine.checkpoints.files import read_bytes
from streamk.engine.checkpoints.keys import Key, Untrusted
from streamk.engine.checkpoints.object_path import Location
from streamk.errors import StateError
from streamk.packing import canonical
from streamk.state import FORMAT

__all__ = ["MANIFEST", "MEMBER", "read_manifest", "sealed"]

MANIFEST = "manifest.json"
MEMBER = re.compile(r"member-(0|[1-9]\d*)")


def sealed(manifest: Mapping[str, Any], key: Key | None) -> bytes:
    """Return a manifest as it is written, signed with the key if there is one."""
    found = dict(manifest)
    if key is not None:
        found["hmac"] = key.sign("checkpoint", _signed(found))
    found["sha256"] = hashlib.sha256(canonical(found)).hexdigest()
    return canonical(found)


def read_manifest(path: Location, key: Key | None) -> dict[str, Any]:
    """Read a manifest, whose digest is checked, and its signature if there is a key.

    Parameters
    ----------
    path : path
        The file.
    key : Key, optional

    Raises
    ------
    StateError
        If it is damaged, or of another format.
    Untrusted
        If it is whole and not signed with the key.
    """
    raw = read_bytes(path)
    try:
        manifest = json.loads(raw)
    except MemoryError as error:
        raise StateError(f"{path}: is too large for the memory there is") from error
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
    return manifest


def _signed(manifest: Mapping[str, Any]) -> bytes:
    return canonical({name: part for name, part in manifest.items() if name != "hmac"})


def _check_signature(path: Location, manifest: Mapping[str, Any], key: Key) -> None:
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
