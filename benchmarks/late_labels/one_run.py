"""One run of `benchmarks.late_labels.rates`, whose memory is that of its process.

python -m benchmarks.late_labels.one_run MODEL HELD RUN EVENTS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.late_labels import records
from streamk.learners import MultiKernel
from streamk.learners.common.prequential import Prequential
from streamk.packing import pack
from streamk.state import State


class Same:
    """A model that says the same of all events, and takes no time."""

    is_classifier, takes_missing, max_classes = True, True, 2
    classes = (False, True)

    def __init__(self) -> None:
        self.columns: tuple[Any, ...] | None = None
        self.n_events = 0

    def add_columns(self, names: Sequence[Any]) -> None:
        self.columns = (*(self.columns or ()), *names)

    def predict_then_learn_many(self, X: Any, y: Any) -> Prequential:
        del y
        answers = np.full(len(X), False, object)
        return Prequential(answers, np.full((len(X), 2), 0.5))

    def learn_many(self, X: Any, y: Any) -> None:
        del y
        self.n_events += len(X)


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main(argv: Sequence[str]) -> None:
    name, held, run, events = argv[0], int(argv[1]), int(argv[2]), int(argv[3])
    model: Any = Same() if name == "join alone" else MultiKernel(seed=0, threads=1)
    trainer = records.trainer(model, held)
    for batch in (*records.filling(records.BATCH), *records.steady(records.BATCH, 512, run)):
        trainer.take(batch)  # what is compiled or made at first
    trainer.settle()
    trainer = records.trainer(Same() if name == "join alone" else model, held)
    before = resident()
    filling = _seconds(trainer, records.filling(held))
    gained = resident() - before
    steady = _seconds(trainer, records.steady(held, events, run))
    state = trainer.held_state()
    assert state is not None
    began = time.perf_counter()
    data = pack(trainer.held_state().arrays)  # type: ignore[union-attr]
    packed = time.perf_counter()
    trainer.restore_held(State(state.header, state.arrays))
    opened = time.perf_counter()
    print(
        json.dumps(
            {
                "filling_per_s": held / filling,
                "steady_per_s": 2 * events / steady,
                "bytes_in_memory": gained / held,
                "bytes_on_disk": len(data) / trainer.fates.held,
                "seconds_to_save": packed - began,
                "seconds_to_open": opened - packed,
            }
        )
    )


def _seconds(trainer: Any, batches: Any) -> float:
    """Seconds that batches take, without making them."""
    total = 0.0
    for batch in batches:
        began = time.perf_counter()
        trainer.take(batch)
        total += time.perf_counter() - began
    began = time.perf_counter()
    trainer.settle()
    return total + time.perf_counter() - began


if __name__ == "__main__":
    main(sys.argv[1:])
