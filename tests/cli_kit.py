"""Running the command, and the events that its tests learn."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import forked_kit

N_EVENTS = 600


def streamk(
    *arguments: str | Path,
    cwd: Path,
    status: int = 0,
    given: bytes = b"",
    environment: dict[str, str] | None = None,
) -> tuple[str, str]:
    """Run the command, check its exit status and return what it wrote to stdout and stderr."""
    done = forked_kit.run(
        [sys.executable, "-m", "streamk", *map(str, arguments)],
        cwd=cwd,
        input=given,
        capture_output=True,
        env={**os.environ, "COLUMNS": "80", **(environment or {})},
        timeout=300,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == status, f"{arguments}\n{out}\n{err}"
    return out, err


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
