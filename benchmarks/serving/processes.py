"""The processes of a measurement: a server, a job, and a client."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine.events import LABEL, Event, encoded

MODELS: dict[str, tuple[str, ...]] = {
    "multi-kernel": (),
    "multi-kernel, no metric": ("--expert", "none"),
    "doubly-stochastic": ("--model", "doubly-stochastic"),
}
"""Options of a job, by what the tables call it; "no metric" is without a feature machine."""
CONNECTIONS = 16
"""Of a client that asks at a rate."""


def streamk(*arguments: str) -> list[str]:
    """Return a command of streamk."""
    return [sys.executable, "-m", "streamk", *arguments]


def port_of(line: str) -> int:
    """Return the port in the line that says where something listens."""
    found = re.search(r":(\d+)/?$", line.strip())
    assert found is not None, line
    return int(found[1])


@contextlib.contextmanager
def serving(state: Path) -> Iterator[int]:
    """Serve a checkpoint; yield the port."""
    process = subprocess.Popen(
        streamk("serve", str(state), "--http", ":0"), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        yield port_of(process.stderr.readline())
    finally:
        process.terminate()
        process.communicate()


def asked(
    port: int,
    events: Sequence[Event],
    connections: int,
    *,
    seconds: float,
    rate: float = 0.0,
    path: str = "/predict",
) -> dict[str, Any]:
    """Return what a client measured, in milliseconds; without events it asks for a path alone."""
    given = {
        "host": "127.0.0.1",
        "port": port,
        "path": path,
        "events": [x for x, _ in events],
        "connections": connections,
        "seconds": seconds,
        "rate": rate,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving.load"],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    times, late = (1e3 * np.array(found[name]) for name in ("times", "late"))
    p50, p99, p999 = np.quantile(times, [0.5, 0.99, 0.999]).tolist()
    return {
        "requests": len(times),
        "p50": p50,
        "p99": p99,
        "p999": p999,
        "late_p99": float(np.quantile(late, 0.99)),
        "a_second": len(times) / seconds,
    }


def asked_in_rounds(
    told: Path,
    port: int,
    events: Sequence[Event],
    *,
    seconds: float,
    rate: int,
    rounds: int,
    path: str = "/predict",
) -> dict[str, Any]:
    """Return the medians of rounds, the p99 of each, and the events a second of a job meanwhile.

    `told` is the file of the job's progress.
    """
    first, began = events_of(told), time.monotonic()
    each = [
        asked(port, events, CONNECTIONS, seconds=seconds, rate=float(rate), path=path)
        for _ in range(rounds)
    ]
    learned_then, took = events_of(told) - first, time.monotonic() - began
    found: dict[str, Any] = {
        name: float(np.median([one[name] for one in each])) for name in each[0]
    }
    found["p99_of_rounds"] = [one["p99"] for one in each]
    found["learned_a_second"] = learned_then / took
    return found


def learned(home: Path, model: str, events: Sequence[Event]) -> Path:
    """Return the checkpoint of a job that has learned some events."""
    file, state = home / "events.ndjson", home / model.replace(", ", "-")
    file.write_bytes(b"".join(line + b"\n" for line in encoded(events)))
    run = ("run", f"file:{file}", "--label", LABEL, *MODELS[model], "--quiet")
    subprocess.run(streamk(*run, "--checkpoint", str(state)), check=True)
    return state


def events_of(progress: Path) -> int:
    """Return the events that the last line of a job's progress tells of."""
    found = re.findall(rb'"events": (\d+)', progress.read_bytes())
    return int(found[-1]) if found else 0
