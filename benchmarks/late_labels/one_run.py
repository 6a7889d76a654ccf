"""One run of `benchmarks.late_labels.rates`, whose memory is that of its process.

python -m benchmarks.late_labels.one_run MODEL HELD RUN ORDER EVENTS
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.late_labels import records
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.order.batch import Batch
from streamk.learners import MultiKernel
from streamk.learners.common.methods import Methods
from streamk.learners.common.prequential import Prequential
from streamk.state import State

_AT_ONCE = 32
"""Batches that are made before they are taken."""


class Same(Methods):
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

    def state(self) -> State:
        return State({"type": "same"}, {})


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main(argv: Sequence[str]) -> None:
    name, order = argv[0], argv[3]
    held, run, events = (int(argv[n]) for n in (1, 2, 4))
    model: Any = (
        Same() if name == "join alone" else MultiKernel(seed=0, threads=1, external_experts=())
    )
    trainer = records.trainer(model, held)
    for batch in (*records.filling(records.BATCH), *records.steady(records.BATCH, 512, run)):
        trainer.take(batch)  # what is compiled or made at first
    trainer.settle()
    trainer.close()
    with tempfile.TemporaryDirectory() as directory:
        store = DirectoryStore(directory, alone=True)
        trainer = records.trainer(Same() if name == "join alone" else model, held)
        trainer.hold_in(store.segments)
        before = resident()
        seconds, cores = _seconds(trainer, records.filling(held))
        figures: dict[str, Any] = {
            "filling_per_s": held / seconds,
            "filling_per_core_s": held / cores,
            "bytes_in_memory": (resident() - before) / held,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        figures |= _saved(store, trainer, "first")
        batches = records.steady(held, events, run, shuffled=order == "random")
        seconds, cores = _seconds(trainer, batches)
        figures["steady_per_s"], figures["steady_per_core_s"] = (
            2 * events / spent for spent in (seconds, cores)
        )
        figures |= _saved(store, trainer, "second")
        began = time.perf_counter()
        found = store.find()
        assert found is not None
        trainer.restore_held(found.held)
        figures["seconds_to_open"] = time.perf_counter() - began
        store.close()
    print(json.dumps(figures))


def _saved(store: DirectoryStore, trainer: Any, which: str) -> dict[str, float]:
    """Write a checkpoint; the seconds, and the bytes of files that were not in the one before."""
    before = _files(store.path)
    began = time.perf_counter()
    store.save({}, trainer.model.state(), trainer.held_state())
    seconds = time.perf_counter() - began
    written = sum(size for path, size in _files(store.path).items() if path not in before)
    if which == "first":
        written += sum(before.values())  # segments, as they became full
    return {f"{which}_seconds": seconds, f"{which}_bytes": written}


def _files(path: Path) -> dict[Path, int]:
    return {one: one.stat().st_size for one in path.rglob("*") if one.is_file()}


def _seconds(trainer: Any, batches: Iterable[Batch]) -> tuple[float, float]:
    """Seconds, and seconds of a core, that batches take, without making them."""
    spent, left = np.zeros(2), iter(batches)
    while some := list(islice(left, _AT_ONCE)):
        began = _now()
        for batch in some:
            trainer.take(batch)
        trainer.settle()  # so that nothing goes on while the next ones are made
        spent += _now() - began
    return float(spent[0]), float(spent[1])


def _now() -> NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


if __name__ == "__main__":
    main(sys.argv[1:])
