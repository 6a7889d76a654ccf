"""Manifests: JSON that is written in one way, with its digest and signature."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamk.engine.checkpoints.files import read_bytes
from streamk.engine.checkpoints.places import Location
from streamk.errors import InvalidInput, StateError
from streamk.packing import canonical
from streamk.state import FORMAT

LEAST = 32
"""Bytes of a key at least, those of the digest: fewer would be the weaker part."""
MOST = 1 << 16
"""Bytes of a key at most: a larger file is something else."""


class Untrusted(StateError):
    """An intact state that was not signed with the key of this run. It is never passed over."""


class Key:
    """A secret to sign with, which shows itself nowhere.

    Parameters
    ----------
    secret : bytes
    path : Path
        The file that it came from, for messages.
    """

    __slots__ = ("_secret", "path")

    def __init__(self, secret: bytes, path: Path) -> None:
        self._secret, self.path = secret, path

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Key:
        """Read a key: every byte of a file, a line's end too.

        Raises
        ------
        InvalidInput
            If the file cannot be read, is readable by others, or is too short or too long.
        """
        path = Path(path).expanduser()
        name = shlex.quote(str(path))
        make = f"make one: (umask 077; head -c 32 /dev/urandom > {name})"
        try:
            with open(path, "rb", opener=_at_once) as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise InvalidInput(f"the state key {path} is not a regular file; {make}")
                if mode & 0o077:
                    raise InvalidInput(
                        f"the state key {path} is open to others than its owner (mode"
                        f" {stat.S_IMODE(mode):04o}); run: chmod 600 {name}"
                    )
                secret = file.read(MOST + 1)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidInput(f"the state key {path} cannot be read: {reason}; {make}") from error
        if not LEAST <= len(secret) <= MOST:
            raise InvalidInput(
                f"the state key {path} has {'over ' if len(secret) > MOST else ''}"
                f"{min(len(secret), MOST):,} bytes, where {LEAST} to {MOST:,} are needed; {make}"
            )
        return cls(secret, path)

    def sign(self, kind: str, data: bytes) -> str:
        """Return the HMAC-SHA256, in hexadecimal, of data of a kind: of no other kind it fits."""
        return hmac.new(self._secret, f"streamk {kind}\n".encode() + data, "sha256").hexdigest()

    def fits(self, signature: object, kind: str, data: bytes) -> bool:
        """Return whether a signature is that of the data, in a time that tells nothing of it."""
        given = signature.encode(errors="replace") if isinstance(signature, str) else b""
        return hmac.compare_digest(given, self.sign(kind, data).encode())

    def __repr__(self) -> str:
        return f"Key({str(self.path)!r})"


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe, which is refused later."""
    return os.open(path, flags | os.O_NONBLOCK)


def key_of(path: str | os.PathLike[str] | Key | None) -> Key | None:
    """Return the key in a file; None, or a key, as it is. Raises `InvalidInput`."""
    return path if path is None or isinstance(path, Key) else Key.read(path)


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
