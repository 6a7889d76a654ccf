"""Files that are private to their user and safe on the disk when a call returns."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import io
import json
import os
import re
import shlex
import shutil
import socket
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from streamk.engine.checkpoints.places import Location
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.packing import Parts, canonical
from streamk.state import FORMAT


@contextlib.contextmanager
def reading(path: Location) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file or an object to be read, with its size in bytes.

    A link is not followed and a pipe not waited for, whatever took the place of the file.

    Raises
    ------
    StateError
        If it cannot be opened or read, is not a regular file, or is larger than the memory.
    OSError
        If an object store is away.
    """
    try:
        if not isinstance(path, Path):
            data = path.read()
            yield io.BytesIO(data), len(data)
            return
        with open(path, "rb", opener=_plain) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise StateError(f"{path}: is not a regular file")
            yield file, found.st_size
    except OSError as error:
        if not isinstance(path, Path) and not isinstance(error, FileNotFoundError):
            raise
        raise StateError(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise StateError(f"{path}: is too large for the available memory") from error


def read_bytes(path: Location) -> bytes:
    """Read a whole file. Raises `StateError`, and `OSError` as `reading`."""
    with reading(path) as (file, size):
        return file.read(size)


def sizes(path: Location) -> dict[str, int | None]:
    """Return the sizes in bytes of the files in a directory; None for what is not a regular file.

    Raises
    ------
    StateError
        If the directory cannot be read.
    OSError
        If an object store is away.
    """
    if not isinstance(path, Path):
        return path.sizes()
    try:
        found = {file.name: file.lstat() for file in sorted(path.iterdir())}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    return {name: one.st_size if stat.S_ISREG(one.st_mode) else None for name, one in found.items()}


def write_file(path: Path, parts: Parts) -> None:
    """Write a new private file; it is on the disk when this returns. Raises `OSError`."""
    with open(path, "xb", opener=private) as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())


def _plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def private(path: str, flags: int) -> int:
    """Open a file that its owner alone may read: there are events of the stream in it."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def sync_directory(directory: Path) -> None:
    """Have the names in a directory on the disk. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_any(path: Path) -> None:
    """Remove a directory and what is in it, or a file, or a link and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


@contextlib.contextmanager
def writing(
    path: Location, comfort: str = "", kind: type[EngineError] = EngineError
) -> Iterator[None]:
    """Turn `OSError` into an error of `kind` that names the path, with `comfort` at its end."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise kind(f"cannot write {path}: {reason}{comfort}") from error


_NAME = "lock"


def lock(directory: Path) -> int | None:
    """Lock a member's directory for this process; None if another one holds it.

    Returns the file descriptor that holds the lock; closing it, or the process's end, lets go.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(directory / _NAME, flags, 0o600)
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


def lies_in(directory: Path, descriptor: int) -> bool:
    """Return whether a lock that is held is that of a directory, as its path leads there now.

    Raises
    ------
    OSError
        If that cannot be told.
    """
    try:
        found = (directory / _NAME).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def holder(directory: Path) -> str:
    """Return the name of the process that holds the lock of a member's directory."""
    try:
        with (directory / _NAME).open(encoding="utf-8", errors="replace") as file:
            return file.readline(200).strip() or "another process"
    except OSError:
        return "another process"


LEAST = 32
"""Bytes of a key at least, those of the digest: fewer would be the weaker part."""
MOST = 1 << 16
"""Bytes of a key at most: a larger file is something else."""


class Untrusted(StateError):
    """An intact state that was not signed with the key of this run. It is never passed over."""


class Key:
    """A secret to sign with, which shows itself nowhere; messages name the file it came from."""

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
                        f"the state key {path} is open to other users than its owner (mode "
                        f"{stat.S_IMODE(mode):04o}); run: chmod 600 {name}"
                    )
                secret = file.read(MOST + 1)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidInput(f"the state key {path} cannot be read: {reason}; {make}") from error
        if not LEAST <= len(secret) <= MOST:
            raise InvalidInput(
                f"the state key {path} has "
                f"{('over ' if len(secret) > MOST else '')}{min(len(secret), MOST):,} bytes, but "
                f"needs {LEAST} to {MOST:,}; {make}"
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
        raise StateError(f"{path}: is too large for the available memory") from error
    except (ValueError, RecursionError) as error:
        raise StateError(f"{path}: is damaged, invalid JSON: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise StateError(f'{path}: is damaged, it is not an object with a "format"')
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
        raise StateError(
            f"{path}: is damaged, it is not JSON as streamk writes it: {error}"
        ) from error
    if not fits:
        raise StateError(f"{path}: is damaged, its SHA-256 does not match")
    if key is not None:
        _check_signature(path, manifest, key)
    return manifest


def _signed(manifest: Mapping[str, Any]) -> bytes:
    return canonical({name: part for name, part in manifest.items() if name != "hmac"})


def _check_signature(path: Location, manifest: Mapping[str, Any], key: Key) -> None:
    """Raise `Untrusted` unless a manifest is signed, and lies where it was written."""
    if "hmac" not in manifest:
        raise Untrusted(
            f"{path}: is not signed, but this run accepts only checkpoints signed with "
            f"{key.path}. If you trust it, leave out --state-key; to sign a job, begin it in "
            "another checkpoint directory"
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


_LONGEST_LINE = 1 << 16
_HEXADECIMAL = 64
"""Digits of a signature."""


class Journal:
    """The journal of one checkpoint, whose lines are signed if there is a key.

    Its file, ``member-0/00000007.journal``, need not be there yet.
    """

    def __init__(self, path: Path, key: Key | None = None) -> None:
        self._path, self._key = path, key
        self._lines: int | None = None
        """Lines in the file; None: not counted yet."""

    def append(self, passes: Iterable[Pass]) -> None:
        """Append records, to a new file if there is none; they are on the disk at the end.

        Raises
        ------
        EngineError
            If the file cannot be written.
        StateError
            If it is damaged.
        """
        new = not self._path.exists()
        number = self._lines
        if number is None:
            number = 0 if new else len(self.read())
        self._lines = None  # to be counted where writing fails half way
        with writing(self._path):
            with open(self._path, "ab", opener=private) as file:
                for record in passes:
                    line = canonical([record.partition, record.offset, record.clock], None)
                    number += 1
                    if self._key is not None:
                        signature = self._key.sign("journal", self._signed(number, line))
                        line = signature.encode() + b" " + line
                    file.write(b"%08x %s\n" % (zlib.crc32(line), line))
                file.flush()
                os.fsync(file.fileno())
            if new:
                sync_directory(self._path.parent)
        self._lines = number

    def read(self) -> list[Pass]:
        """Return the records; a last line that a crash cut short is dropped, from the file too.

        Raises
        ------
        StateError
            If the file is damaged elsewhere.
        Untrusted
            If a line is whole and not signed with the key, or signed and there is no key.
        EngineError
            If it cannot be cut back.
        """
        passes: list[Pass] = []
        good = torn = 0
        with reading(self._path) as (file, _):
            while line := file.readline(_LONGEST_LINE):
                number = len(passes) + 1
                crc, _, text = line.removesuffix(b"\n").partition(b" ")
                ended = line.endswith(b"\n")
                whole = ended and b"%08x" % zlib.crc32(text) == crc
                if (torn and ended) or (not whole and len(line) == _LONGEST_LINE):
                    raise StateError(f"{self._path}: is damaged in line {torn or number}")
                if not whole:
                    torn = number
                    continue
                passes.append(self._parsed(number, text))
                good += len(line)
        if torn:
            with writing(self._path):
                os.truncate(self._path, good)
        self._lines = len(passes)
        return passes

    def _signed(self, number: int, line: bytes) -> bytes:
        """Return what the signature of a line is of."""
        return canonical([self._path.parent.name, self._path.stem, number], None) + b"\n" + line

    def _parsed(self, number: int, text: bytes) -> Pass:
        where = f"{self._path}: line {number}"
        signature, line = b"", text
        if text[_HEXADECIMAL : _HEXADECIMAL + 2] == b" [":
            signature, line = text[:_HEXADECIMAL], text[_HEXADECIMAL + 1 :]
        if self._key is None and signature:
            raise Untrusted(f"{where} is signed; give the key of this job with --state-key")
        if self._key is not None and not self._key.fits(
            signature.decode(errors="replace"), "journal", self._signed(number, line)
        ):
            raise Untrusted(
                f"{where} is not signed with {self._key.path}; restore the directory from a copy"
                " that you trust"
            )
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        return as_pass(record, where)


def as_pass(record: Any, where: object) -> Pass:
    """Return a record that was read. Raises `StateError`, naming the place, if it is none."""
    match record:
        case [str(partition), int(offset), int(clock)] if bool not in map(type, (offset, clock)):
            return Pass(partition, offset, clock)
    raise StateError(f"{where} is not a partition, offset and clock; it was not written by streamk")
