"""The job that `test_late_crash` kills: events and labels in files, predictions to a file."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine_kit import attached
from late_kit import small_segments
from multi_kernel_kit import pool_alone

from connectors.base import Output
from connectors.files.sinks import NDJSONSink
from connectors.registry import open_source
from streamk.engine import Engine
from streamk.late import LateLabels

EVENTS = 500


class SlowSink(NDJSONSink):
    """Gives a killer time to strike anywhere."""

    def write(self, outputs: Sequence[Output]) -> None:
        super().write(outputs)
        time.sleep(0.1)


def records(n: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events every 10 ms, some twice, and labels: late, early, twice, otherwise, never."""
    rng = random.Random(seed)
    events, labels = [], []
    for i in range(n):
        a, b = rng.uniform(-2, 2), rng.uniform(-2, 2)
        y = "far" if a * a + b * b > 3 else "up" if a * b > 0 else "down"
        made: dict[str, Any] = {"id": i, "at": 10 * i, "a": a, "b": b, "c": rng.choice("xyz")}
        if i > n / 2:
            made["later"] = rng.uniform(-1, 1)
        events.append(made)
        if rng.random() < 0.05:
            events.append({**made, "at": 10 * i + rng.randrange(300)})
        if rng.random() < 0.9:
            labels.append({"id": str(i), "at": 10 * i + rng.randrange(-100, 1200), "y": y})
        if rng.random() < 0.1:
            labels.append({"id": i, "at": 10 * i + rng.randrange(1500), "y": rng.choice([y, "up"])})
    return tuple(sorted(some, key=lambda one: one["at"]) for some in (events, labels))


def write(directory: Path, n: int = EVENTS) -> None:
    for name, some in zip(("events", "labels"), records(n), strict=True):
        text = "".join(json.dumps(one) + "\n" for one in some)
        (directory / f"{name}.ndjson").write_text(text)


def engine(
    directory: Path,
    sink: Any,
    *,
    model: Any = None,
    revisions: Any = "ignore",
    level: float = 0.9,
    **options: Any,
) -> Engine:
    late = LateLabels(
        open_source(f"file:{directory}/labels.ndjson"),
        key="id",
        time="at",
        timeout=1.0,
        default="down",
        held_events=55,
        revisions=revisions,
    )
    return attached(
        open_source(f"file:{directory}/events.ndjson"),
        model or pool_alone(seed=1, pending_bytes=60_000),
        label="y",
        labels=late,
        ignore=("at",),
        max_skew=float("inf"),
        prediction_set=level,
        sink=sink,
        **options,
    )


def main(directory: str, rows: str = str(1 << 15)) -> None:
    """Run the job; events beyond so many rows go to segments of as many."""
    path = Path(directory)
    sink = SlowSink(path / "predictions.ndjson")
    with small_segments(int(rows)):
        engine(path, sink, checkpoint=path / "checkpoint", checkpoint_every=200).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
