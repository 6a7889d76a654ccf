"""The job that `test_engine_resume` kills: 4 partitions in memory, predictions to a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine_kit import BATCH, WhimsicalSource, attached, learner, split

from connectors.base import Output
from connectors.files.sinks import NDJSONSink
from streamk.learners import FeatureMachine

EVENTS = 3000
MODELS: dict[str, Callable[[], Any]] = {
    "doubly-stochastic": learner,
    "feature-machine": lambda: FeatureMachine(
        buffer_size=200, reservoir_size=200, first=100, every=400, swap_delay=100
    ),
}
"""One learner that has all in its coefficients, and one that is made anew in the background."""


class SlowSink(NDJSONSink):
    """Gives a killer time to strike anywhere."""

    def write(self, outputs: Sequence[Output]) -> None:
        super().write(outputs)
        time.sleep(0.002)


def main(
    directory: str,
    whim: int,
    model: str = "doubly-stochastic",
    *,
    checkpoint: str | None = None,
    every: int = 5 * BATCH,
) -> None:
    data, times = split(EVENTS, 4)
    attached(
        WhimsicalSource(data, timestamps=times, whim=whim),
        MODELS[model](),
        label="y",
        ignore=("id",),
        until_end=True,
        sink=SlowSink(Path(directory) / "predictions.ndjson"),
        checkpoint=checkpoint or Path(directory) / "checkpoint",
        checkpoint_every=every,
    ).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
