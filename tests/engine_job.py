"""The job that tests kill: 4 partitions in memory, predictions to a file."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine_kit import BATCH, WhimsicalSource, attached, learner, split

from connectors.base import Output
from connectors.files.sinks import NDJSONSink
from streamk.learners import FeatureMachine
from streamk.object_store.store import ObjectPath

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


def strike_at(number: int, moment: str) -> None:
    """Have this process kill itself while it saves in an object store.

    That is at so many writes (from 1), and "before" or "after" the last of them, or "half", with
    half of its bytes there. With "pause" it says so and waits for a line instead, and goes on.
    """
    left = number

    def struck(real: Callable[..., Any], *, whole: bool) -> Callable[..., Any]:
        def call(self: ObjectPath, *data: bytes) -> None:
            nonlocal left
            left -= 1
            if left == 0 and moment == "pause":
                print("waiting", flush=True)
                sys.stdin.readline()
            elif left == 0:
                if moment == "after":
                    real(self, *data)
                elif moment == "half" and not whole:
                    real(self, data[0][: len(data[0]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, *data)

        return call

    # An object that is created is there whole or not at all, as the store promises.
    for name in ("write", "create", "remove"):
        method = struck(getattr(ObjectPath, name), whole=name != "write")
        setattr(ObjectPath, name, method)


if __name__ == "__main__":
    directory, whim, model, *store = sys.argv[1:]
    if store:
        address, number, moment = store
        strike_at(int(number), moment)
        main(directory, int(whim), model, checkpoint=address, every=25 * BATCH)
    else:
        main(directory, int(whim), model)
