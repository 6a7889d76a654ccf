"""A job whose held events are on the disk, killed again and again, beside one that is not.

Events and labels are in files, each label so many events late, in an order of its own within a
tenth of that. One process runs to the end. Another one is killed (SIGKILL) a moment after each of
its checkpoints but the last few, and started again. Predictions, model, fates, scores and the
events held at the end are compared, byte by byte.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.late_labels import records
from streamk.engine import newest_checkpoint
from streamk.packing import canonical

EVENTS, LATE, EVERY, KILLS = 500_000, 400_000, 100_000, 5


def measure(data: str | None = None, *, quick: bool) -> dict[str, Any]:
    """Kill a job and compare it with one that was not: its parts, and which are the same."""
    del data
    events, late, every, kills = (2000, 800, 500, 2) if quick else (EVENTS, LATE, EVERY, KILLS)
    with tempfile.TemporaryDirectory() as directory:
        whole, killed = Path(directory) / "whole", Path(directory) / "killed"
        for path in (whole, killed):
            path.mkdir()
            write(path, events, late)
        common.note("  undisturbed")
        assert _start(whole, every).wait() == 0
        rng, done = random.Random(0), 0
        for epoch in range(2, 2 + kills):
            common.note(f"  killed after checkpoint {epoch}")
            process = _start(killed, every)
            while process.poll() is None and _epoch(killed) < epoch:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.5))
            done += process.poll() is None
            process.kill()
            process.wait()
        assert _start(killed, every).wait() == 0
        a, b = digests(whole), digests(killed)
    return {
        "events": events,
        "held": late,
        "kills": done,
        "on_disk": a.pop("on_disk"),
        "same": {name: a[name] == b[name] for name in a},
    }


def write(path: Path, events: int, late: int) -> None:
    """Write the files of events and labels."""
    rng = random.Random(0)
    with (path / "events.ndjson").open("w") as file:
        for n in range(events):
            file.write(f'{{"at": {n}, {records.event(n).decode()[1:]}\n')
    at = sorted((n + late + rng.randrange(1 + late // 10), n) for n in range(events - late))
    with (path / "labels.ndjson").open("w") as file:
        for time_of, n in at:
            file.write(f'{{"at": {time_of}, {records.label(n).decode()[1:]}\n')


def _start(path: Path, every: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.late_labels.one_job", str(path), str(every)]
    return subprocess.Popen(command, cwd=common.ROOT)


def _epoch(path: Path) -> int:
    found = (path / "checkpoint").glob("member-0/0*")
    return max((int(one.name[:8]) for one in found), default=0)


def digests(path: Path) -> dict[str, Any]:
    """Digests of what a job has left, and how many files its held events are in."""
    found = newest_checkpoint(path / "checkpoint" / "member-0")
    assert found is not None
    assert found.held is not None
    parts = {
        "predictions": (path / "predictions.ndjson").read_bytes(),
        "model": (found.path / "model.safetensors").read_bytes(),
        "scores": canonical(found.body["training"]),
        "fates": canonical(found.held.header["fates"]),
    }
    same = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    return {**same, "on_disk": len(found.segments)}


def render(found: Mapping[str, Any]) -> str:
    """The table."""
    rows = [
        ("events", f"{found['events']:,}"),
        ("events between one and its label", f"{found['held']:,}"),
        ("files of held events in the last checkpoint", f"{found['on_disk']:,}"),
        ("times the job was killed", f"{found['kills']:,}"),
        *(
            (f"{name} the same bits", "yes" if same else "no")
            for name, same in found["same"].items()
        ),
    ]
    return common.table(("killed and resumed", ""), rows)
