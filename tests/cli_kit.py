"""Running the command, and the events that its tests learn."""

from __future__ import annotations

import io
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import forked_kit
import numpy as np
import pytest

from streamk.cli import main
from streamk.engine import newest_checkpoint
from streamk.packing import fingerprint

N_EVENTS = 600


def streamk(
    *arguments: str | Path,
    cwd: Path,
    status: int = 0,
    given: bytes = b"",
    environment: dict[str, str] | None = None,
) -> tuple[str, str]:
    """Run the command in this process, as in one whose standard streams are files.

    Checks its exit status and returns what it wrote to stdout and stderr.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as stdin:
        stdin.write(given)
        stdin.seek(0)
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        patch.chdir(cwd)
        for name, value in {"COLUMNS": "80", **(environment or {})}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        found = main([*map(str, arguments)])
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    assert found == status, f"{arguments}\n{out}\n{err}"
    return out, err


def kill(folder: Path, name: str, job: Sequence[str], epochs: Iterable[int]) -> None:
    """Start a job again and again, and kill it when it has written so many checkpoints."""
    command = [sys.executable, "-m", "streamk", *job]
    for epoch in epochs:
        with forked_kit.popen(command, cwd=folder, stderr=subprocess.DEVNULL) as process:
            until = time.monotonic() + 120.0
            while process.poll() is None and time.monotonic() < until:
                found = newest_checkpoint(folder / name) if (folder / name).exists() else None
                if found is not None and found.epoch >= epoch:
                    break
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)


def click_events(n: int = N_EVENTS) -> list[dict[str, Any]]:
    randomness = random.Random(7)
    events = []
    for _ in range(n):
        age, seconds = randomness.randint(18, 80), randomness.expovariate(0.1)
        device = randomness.choice(["phone", "tablet", "desktop"])
        clicked = age / 40 + seconds / 10 > 2 or device == "tablet"
        events.append({"age": age, "seconds": seconds, "device": device, "clicked": clicked})
    return events


def ndjson(events: list[Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def crossed_events(n: int) -> list[dict[str, Any]]:
    """Events that no line tells apart, most with a label, one of no use, and a late column."""
    rng = np.random.default_rng(0)
    X, known = rng.normal(size=(n, 2)).round(3), rng.random(n) < 0.9
    events: list[dict[str, Any]] = [
        {"a": a, "b": b} | ({"y": "same" if a * b > 0 else "other"} if there else {})
        for (a, b), there in zip(X.tolist(), known.tolist(), strict=True)
    ]
    events[1500]["a"] = "none"
    events[3000]["c"] = 1.0
    return events


def results(folder: Path, name: str) -> tuple[bytes, str]:
    """The predictions of a job, and a digest of its model."""
    found = newest_checkpoint(folder / name)
    return (folder / f"{name}.out").read_bytes(), fingerprint(found.model)
