"""Processes of this machine, found under /proc: those that tests kill, and those they must end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

HAS_PROC = Path("/proc/self/environ").exists()
_PATIENCE = 60.0


def with_variable(name: str, value: str) -> list[int]:
    """Return the other processes, zombies left out, that have a variable in their environment."""
    wanted, found = f"{name}={value}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = wanted in (path / "environ").read_bytes().split(b"\0")
            if ours and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def command_of(process: int) -> str:
    """Return the command line of a process, "" where there is none any more."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def kill(process: int) -> None:
    """SIGKILL, if the process is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def end_all(name: str, value: str) -> int:
    """End all other processes with a variable in their environment; return how many there were."""
    ended = 0
    until = time.monotonic() + _PATIENCE
    while found := with_variable(name, value):
        assert time.monotonic() < until, f"the processes {found} do not end"
        for process in found:
            kill(process)
        ended = max(ended, len(found))
        time.sleep(0.05)
    return ended
