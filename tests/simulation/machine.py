"""The computer of a simulation: its disk, whose writes can tear or get lost, and its clock.

The files are real; the calls of `os` that a simulated process makes below the directory pass
through here. Nothing is ever synced to a real disk. Of each file it is known how much was synced,
and of each name whether its directory was synced since: the rest may be lost.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from .world import Process, Simulated, World, current

_REAL = {
    name: getattr(os, name)
    for name in (
        *("open", "close", "fsync", "mkdir", "rename", "replace", "unlink", "remove"),
        *("rmdir", "truncate", "scandir", "listdir"),
    )
}


class NoSpace(Simulated, OSError):
    """ENOSPC, on purpose."""


class Disk:
    """What is below `root`.

    `ordered`: whether syncing anything makes all names durable that were made before, as journaling
      file systems do it; else each directory must be synced for the names in it, as POSIX says.
    """

    def __init__(self, world: World, root: Path, *, ordered: bool = True) -> None:
        self.world, self.root, self.ordered = world, str(root), ordered
        self._trash = f"{self.root}.trash"
        os.makedirs(self._trash, exist_ok=True)  # noqa: PTH103
        self._synced: dict[str, int] = {}
        self._writers: dict[str, Process] = {}
        self._names: list[tuple[str, str, str]] = []
        """What was done to names and is not durable: operation, path, and its path before."""
        self._full_until = 0.0
        self._thrown = 0

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Let calls of simulated processes pass through here."""
        with contextlib.ExitStack() as stack:
            for name in _REAL:
                stack.enter_context(mock.patch(f"os.{name}", self._hook(name)))
            try:
                yield
            finally:
                shutil.rmtree(self._trash, ignore_errors=True)

    def _hook(self, name: str) -> Callable[..., Any]:
        real, mine = _REAL[name], getattr(self, f"_{name}")

        def call(path: Any = ".", *args: Any, **options: Any) -> Any:
            if current() is None:
                return real(path, *args, **options)
            return mine(path, *args, **options)

        return call

    def unsynced(self, under: str) -> list[str]:
        """Directories made at or below a path whose names the power can take away."""
        made = [path for operation, path, _ in self._names if operation == "create"]
        top = f"{self.root}/{under}"
        return [path for path in made if path.startswith(top) and Path(path).is_dir()]

    # --- losses -----------------------------------------------------------------------------

    def after_kill(self, process: Process) -> None:
        """Let go of what a dead process held, and tear what it was writing."""
        for descriptor, path in process.descriptors.items():
            if _path_of(descriptor) == path:
                _REAL["close"](descriptor)
        process.descriptors.clear()
        for path in [path for path, writer in self._writers.items() if writer is process]:
            self._tear(path, zeros=False)
            del self._writers[path]

    def after_power_loss(self) -> None:
        """Lose what was not synced, or some of it."""
        rng = self.world.random
        if self.ordered:
            lost = self._names[rng.randint(0, len(self._names)) :]
        else:
            lost = [name for name in self._names if rng.random() < 0.5]
        for path in list(self._synced):
            self._tear(path, zeros=True)
        for operation, path, before in reversed(lost):
            with contextlib.suppress(OSError):
                self._undo(operation, path, before)
        self._names.clear()
        self._writers.clear()

    def _undo(self, operation: str, path: str, before: str) -> None:
        if operation == "create":
            self.world.note(None, "lost name", os.path.basename(path))  # noqa: PTH119
            shutil.rmtree(path) if os.path.isdir(path) else _REAL["unlink"](path)  # noqa: PTH112
        elif operation == "rename" and not os.path.lexists(before):
            self.world.note(None, "lost rename", os.path.basename(path))  # noqa: PTH119
            _REAL["rename"](path, before)
        elif operation == "unlink":
            os.link(before, path)
        elif operation == "rmdir":
            _REAL["mkdir"](path, 0o700)

    def _tear(self, path: str, *, zeros: bool) -> None:
        """Lose some of what a file holds beyond what was synced."""
        rng, synced = self.world.random, self._synced.get(path)
        if synced is None or path.endswith("/lock") or not os.path.isfile(path):  # noqa: PTH113
            return
        size = os.path.getsize(path)  # noqa: PTH202
        if size <= synced:
            return
        kept = rng.randint(synced, size)
        _REAL["truncate"](path, kept)
        if zeros and rng.random() < 0.3:
            _REAL["truncate"](path, size)
        self._synced[path] = size
        self.world.note(None, "torn", f"{os.path.basename(path)} {kept} of {size}")  # noqa: PTH119

    def _need_space(self) -> None:
        world = self.world
        if world.faults.chance("full", world.random):
            world.note(current(), "full")
            self._full_until = world.now + world.random.uniform(0.2, 4.0)
        if world.now < self._full_until and world.faults.budget > 0:
            raise NoSpace(errno.ENOSPC, "No space left on device (simulated)")

    # --- calls ------------------------------------------------------------------------------

    def _mine(self, path: str) -> bool:
        return path.startswith(self.root)

    def _step(self, call: str, path: str) -> None:
        self.world.step(f"{call}:{path[len(self.root) + 1 :]}")

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = _name(path, dir_fd)
        if not self._mine(name):
            return int(_REAL["open"](path, flags, mode, dir_fd=dir_fd))
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        new = bool(flags & os.O_CREAT) and not os.path.lexists(name)
        if writes:
            self._step("open", name)
        if new:
            self._need_space()
        descriptor = int(_REAL["open"](path, flags, mode, dir_fd=dir_fd))
        process = current()
        if new:
            self._names.append(("create", name, ""))
        if writes:
            self._synced.setdefault(name, os.fstat(descriptor).st_size)
            self._writers[name] = process
        # Files that `open` makes of a descriptor close it by themselves.
        if not flags & (os.O_EXCL | os.O_APPEND | os.O_TRUNC):
            process.descriptors[descriptor] = name
        return descriptor

    def _close(self, descriptor: int) -> None:
        process = current()
        if process is not None:
            process.descriptors.pop(descriptor, None)
        _REAL["close"](descriptor)

    def _fsync(self, descriptor: int) -> None:
        name = _path_of(descriptor)
        if not self._mine(name):
            return _REAL["fsync"](descriptor)  # type: ignore[no-any-return]
        self._step("fsync", name)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._names = [one for one in self._names if not self._durable(one, name)]
        else:
            self._synced.setdefault(name, 0)
            try:
                self._need_space()
            except NoSpace:
                self._tear(name, zeros=False)
                raise
            self._synced[name] = status.st_size
            if self.ordered:
                self._names.clear()
        self.world.step(f"synced:{name[len(self.root) + 1 :]}")
        return None

    def _durable(self, entry: tuple[str, str, str], directory: str) -> bool:
        """Whether what was done to a name is durable once a directory is synced."""
        return self.ordered or os.path.dirname(entry[1]) == directory  # noqa: PTH120

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        name = _name(path, dir_fd)
        if self._mine(name) and not os.path.lexists(name):
            self._step("mkdir", name)
            self._need_space()
            self._names.append(("create", name, ""))
        _REAL["mkdir"](path, mode, dir_fd=dir_fd)

    def _rename(self, src: Any, dst: Any, **options: Any) -> None:
        before, after = _name(src), _name(dst)
        if self._mine(after):
            self._step("rename", after)
            if os.path.isfile(after):  # noqa: PTH113
                self._names.append(("unlink", after, self._keep(after)))
            self._names.append(("rename", after, before))
        _REAL["rename"](src, dst, **options)
        for table in (self._synced, self._writers):
            for name in [one for one in table if one == before or one.startswith(f"{before}/")]:
                table[after + name[len(before) :]] = table.pop(name)  # type: ignore[assignment]
        if self._mine(after):
            self._step("renamed", after)

    _replace = _rename

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        name = _name(path, dir_fd)
        if self._mine(name) and os.path.isfile(name):  # noqa: PTH113
            self._step("unlink", name)
            self._names.append(("unlink", name, self._keep(name)))
            self._synced.pop(name, None)
            self._writers.pop(name, None)
        _REAL["unlink"](path, dir_fd=dir_fd)

    _remove = _unlink

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        name = _name(path, dir_fd)
        if self._mine(name):
            self._step("rmdir", name)
            self._names.append(("rmdir", name, ""))
        _REAL["rmdir"](path, dir_fd=dir_fd)

    def _truncate(self, path: Any, length: int) -> None:
        name = _path_of(path) if isinstance(path, int) else _name(path)
        if self._mine(name):
            self._step("truncate", name)
            self._synced[name] = min(length, self._synced.get(name, length))
        _REAL["truncate"](path, length)

    # In an order that is the same on every file system.

    def _scandir(self, path: Any) -> Any:
        entries = sorted(_REAL["scandir"](path), key=lambda entry: entry.name)
        return contextlib.closing(entry for entry in entries)

    def _listdir(self, path: Any) -> list[Any]:
        return sorted(_REAL["listdir"](path))

    def _keep(self, path: str) -> str:
        """Keep what is removed, since its removal may be lost."""
        self._thrown += 1
        kept = f"{self._trash}/{self._thrown}"
        os.link(path, kept)
        return kept


def _path_of(descriptor: int) -> str:
    """The path of an open file; "" if it is closed."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return ""


def _name(path: Any, dir_fd: int | None = None) -> str:
    text = os.fsdecode(path)
    return text if dir_fd is None else f"{_path_of(dir_fd)}/{text}"


@contextmanager
def simulated_time(world: World) -> Iterator[None]:
    """Let `time.monotonic`, `time.time`, `uuid.uuid4` and `token_hex` be functions of the seed."""
    monotonic, wall, uuid4, dumps = time.monotonic, time.time, uuid.uuid4, json.dumps

    def steady() -> float:
        return world.now if current() else monotonic()

    def dated() -> float:
        return 1.7e9 + world.now if current() else wall()

    def plain(value: Any, **options: Any) -> str:
        return dumps(value, **{**options, "indent": None})

    def no_sleep(seconds: float) -> None:
        if current() is None:
            sleep(seconds)
        else:
            world.wait("sleep", seconds)

    def identifier() -> Any:
        if current() is None:
            return uuid4()
        return uuid.UUID(int=world.random.getrandbits(128), version=4)

    def token(n: int) -> str:
        if current() is None:
            return hexadecimal(n)
        return f"{world.random.getrandbits(8 * n):0{2 * n}x}"

    sleep, hexadecimal = time.sleep, secrets.token_hex
    with (
        mock.patch("time.monotonic", steady),
        mock.patch("time.time", dated),
        mock.patch("time.sleep", no_sleep),
        mock.patch("uuid.uuid4", identifier),
        mock.patch("secrets.token_hex", token),
        # Most of the time of a run would go into writing figures, and into indenting them.
        mock.patch("streamk.engine.evaluation.metrics.MOST", 8),
        mock.patch("json.dumps", plain),
    ):
        yield
