"""The job that `benchmarks.late_labels.kills` kills: events and labels in files, with checkpoints.

python -m benchmarks.late_labels.one_job DIRECTORY EVERY
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from connectors.files.sinks import NDJSONSink
from connectors.registry import open_source
from streamk.engine import Engine
from streamk.engine.late import LateLabels
from streamk.learners import create


def main(argv: Sequence[str]) -> None:
    path, every = Path(argv[0]), int(argv[1])
    late = LateLabels(
        open_source(f"file:{path}/labels.ndjson"), key="id", time="at", held_events=10_000_000
    )
    Engine(
        open_source(f"file:{path}/events.ndjson"),
        create("doubly-stochastic", task="classification", seed=1, max_features=32),
        label="y",
        labels=late,
        ignore=("at",),
        max_skew=float("inf"),
        sink=NDJSONSink(path / "predictions.ndjson"),
        checkpoint=path / "checkpoint",
        checkpoint_every=every,
    ).run()


if __name__ == "__main__":
    main(sys.argv[1:])
