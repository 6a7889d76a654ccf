"""The key that checkpoints are signed with: HMAC-SHA256 under a secret that is kept in a file.

A SHA-256 tells damage; whoever can write a file can write its digest too. Only who has the key can
write a signature that fits. It hides nothing: a signed checkpoint is as readable as another.
"""

from __future__ import annotations

import hmac
import os
import shlex
import stat
from pathlib import Path

from streamk.errors import InvalidInput, StateError

__all__ = ["Key", "Untrusted", "key_of"]

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
