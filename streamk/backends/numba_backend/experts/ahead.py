"""The stages of an event compiled in several processes at once, before they are needed.

Each process keeps what it has compiled in numba's cache, where the others find it. Should one fail,
nothing is lost but time: whoever needs a stage that is not there compiles it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numba

from streamk.backends.first_use import FIRST_USE
from streamk.backends.numba_backend.experts.event import STAGES
from streamk.backends.numba_backend.stages import Stage

_WORK = (
    "import json, sys; paths, names = json.loads(sys.argv[1]); sys.path[:] = paths;"
    " from streamk.backends.numba_backend.experts import ahead; ahead.work(names)"
)


def missing() -> list[Stage]:
    """Return the stages that are in no cache."""
    return [stage for stage in STAGES.values() if not stage.is_cached]


def compile_all(stages: Sequence[Stage]) -> None:
    """Compile stages, on as many cores as there are, and return when all are ready."""
    processes = max(1, min(len(stages), _cores()))
    shares = [stages[n::processes] for n in range(processes)]
    with _helped(shares[:-1]):
        for stage in shares[-1]:
            _ = stage.address


def addresses() -> dict[int, int]:
    """Return where the stages are by their places in a table, compiled here unless they are cached.

    No process is begun for that: this is for whoever just learns an event.
    """
    count = len(missing())
    with FIRST_USE.expecting(count) if count else nullcontext():
        return {place: stage.address for place, stage in STAGES.items()}


def _cores() -> int:
    if not sys.executable:  # of a program with Python inside, which knows of no interpreter
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _helped(shares: Sequence[Sequence[Stage]]) -> Iterator[None]:
    """Start a process that compiles for each share, and wait for it at the end."""
    helpers = [_helper(share) for share in shares]
    listeners = [threading.Thread(target=_count, args=[helper]) for helper in helpers]
    for listener in listeners:
        listener.start()
    try:
        yield
        for helper in helpers:
            helper.wait()
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()
        for listener in listeners:
            listener.join()


def _helper(share: Sequence[Stage]) -> subprocess.Popen[str]:
    task = json.dumps([sys.path, [stage.name for stage in share]])
    environment = dict(os.environ)
    config: Any = numba.config
    if config.CACHE_DIR:
        environment["NUMBA_CACHE_DIR"] = config.CACHE_DIR
    return subprocess.Popen(
        [sys.executable, "-c", _WORK, task],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _count(helper: subprocess.Popen[str]) -> None:
    assert helper.stdout is not None
    with helper.stdout as names:
        for _ in names:
            FIRST_USE.ended()


def work(names: Sequence[str]) -> None:
    """Compile the stages of these names, and print each when it is in the cache."""
    for stage in STAGES.values():
        if stage.name in names:
            _ = stage.address
            sys.stdout.write(f"{stage.name}\n")
            sys.stdout.flush()
