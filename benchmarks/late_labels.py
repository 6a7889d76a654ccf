"""The cost of holding events until their labels come.

rates   records a second, memory and checkpoints, by how many are held
length  the same with ten million

How each figure is taken stands above its part.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from connectors.memory import MemorySource
from streamk.engine import Stream
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.order.partitions import Batch
from streamk.late import LateLabels
from streamk.late.source import JoinedSource
from streamk.late.trainer import LateTrainer
from streamk.learners import MultiKernel
from streamk.learners.common.base import Learner
from streamk.learners.common.prequential import Prequential
from streamk.state import State

# --- records --------------------------------------------------------------------------------------
#
# Events and labels whose labels are so many events late, as batches of the sequence.

COLUMNS = tuple("abcdefgh")
"""Of each event, numbers."""
BATCH = 1024
NAMES = ("labels/0", "stream/0")
_NUMBERS = [f"{i / 997:.4f}" for i in range(997)]
_EVENT = '{"id": %d, ' + ", ".join(f'"{name}": %s' for name in COLUMNS) + "}"


def make_trainer(model: Learner, held: int) -> LateTrainer:
    """A trainer of such records that may hold so many events."""
    labels = MemorySource([b'{"id": 0, "y": true}'])
    late = LateLabels(labels, key="id", held_events=held + BATCH)
    events = MemorySource([b'{"id": 0}'])
    return LateTrainer(
        model,
        JoinedSource(events, labels),
        Stream(label="y"),
        late=late,
    )


def event(n: int) -> bytes:
    """The JSON of event n."""
    return (_EVENT % (n, *(_NUMBERS[n * (i + 3) % 997] for i in range(len(COLUMNS))))).encode()


def label(n: int) -> bytes:
    """The JSON of the label of event n."""
    return f'{{"id": {n}, "y": {"true" if n * 3 % 997 > 498 else "false"}}}'.encode()


def filling(held: int) -> Iterator[Batch]:
    """Events alone."""
    for first in range(0, held, BATCH):
        yield _batch([(1, n) for n in range(first, min(held, first + BATCH))])


def steady(held: int, events: int, run: int, *, shuffled: bool = False) -> Iterator[Batch]:
    """Events, and as many labels of those that are held, in runs of so many.

    They are of the events that came `held` before, or of any, in random order.
    """
    of = random.Random(0).sample(range(held), events) if shuffled else range(events)
    for first in range(0, events, BATCH // 2):
        records: list[tuple[int, int]] = []
        for start in range(first, min(events, first + BATCH // 2), run):
            some = range(start, min(events, start + run))
            records += [(0, of[n]) for n in some]
            records += [(1, held + n) for n in some]
        yield _batch(records)


def _batch(records: list[tuple[int, int]]) -> Batch:
    numbers = np.array([n for _, n in records], np.int64)
    values = [event(n) if kind else label(n) for kind, n in records]
    codes = np.array([kind for kind, _ in records], np.intp)
    times = np.full(len(records), records[-1][1], np.int64)
    return Batch(NAMES, codes, numbers, times, times, values)


# --- one_run --------------------------------------------------------------------------------------
#
# One run, whose memory is that of its process.

_AT_ONCE = 32
"""Batches that are made before they are taken."""


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

    def state(self) -> State:
        return State({"type": "same", "format": 1}, {})

    lent_state = state


def one_run(model: str, held: int, run: int, order: str, events: int) -> dict[str, Any]:
    """Figures of one run, in a process that does nothing else."""

    def made() -> Any:
        if model == MODELS[0]:
            return Same()
        return MultiKernel(seed=0, threads=1, external_experts=())

    trainer = make_trainer(made(), held)
    for batch in (*filling(BATCH), *steady(BATCH, 512, run)):
        trainer.process(batch)  # what is compiled or made at first
    trainer.drain()
    trainer.close()
    with tempfile.TemporaryDirectory() as directory:
        store = DirectoryStore(directory, alone=True)
        trainer = make_trainer(made(), held)
        trainer.hold_in(store.segments)
        before = common.resident()
        seconds, cores = _seconds(trainer, filling(held))
        figures: dict[str, Any] = {
            "filling_per_s": held / seconds,
            "filling_per_core_s": held / cores,
            "bytes_in_memory": (common.resident() - before) / held,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        figures |= _saved(store, trainer, "first")
        batches = steady(held, events, run, shuffled=order == "random")
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
    return figures


def _saved(store: DirectoryStore, trainer: Any, which: str) -> dict[str, float]:
    """Write a checkpoint; the seconds, and the bytes of files that were not in the one before."""
    before = _files(store.path)
    began = time.perf_counter()
    store.save({}, trainer.model.lent_state(), trainer.held_state())
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
            trainer.process(batch)
        trainer.drain()  # so that nothing goes on while the next ones are made
        spent += _now() - began
    return float(spent[0]), float(spent[1])


def _now() -> NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


# --- rates ----------------------------------------------------------------------------------------
#
# Records a second through the join, memory and checkpoints, with so many events held.
#
# Each run is one process. Events of eight numbers come as JSON until so many are held; then as many
# labels come as events, in the order of the events, or in random order, so that the number held
# stays. Decoding, the join and the model are in the time, source and sink are not; a second of a
# core is one that the process computed, in all its threads, whatever else the machine does. "join
# alone" has a model that says the same of all events. Runs are the labels, and the events, that
# come in a row: the model is called once for each.
#
# Memory is the peak of the process until all are held, with Python, numpy and the model, and what
# it has gained by filling up, an event. The first checkpoint is written when all are held, the
# second after the labels: its bytes are those of all files that were written since the first one.
# Opening is reading the second checkpoint, checked in full, until the next event can come.

Run = tuple[str, int, int, str]

MODELS = ("join alone", "multi-kernel")
RUNS = (
    *((MODELS[0], 100_000, 64, "in order"), (MODELS[0], 1_000_000, 1, "in order")),
    *((MODELS[0], 1_000_000, 64, "in order"), (MODELS[0], 1_000_000, 64, "random")),
    *((MODELS[1], 100_000, 1, "in order"), (MODELS[1], 100_000, 64, "in order")),
    (MODELS[1], 1_000_000, 64, "in order"),
)
"""Model, events held, length of runs, order of the labels."""
LONG = ((MODELS[0], 10_000_000, 64, "in order"),)
STEADY = 200_000


def measure(*, quick: bool, runs: Sequence[Run] = RUNS) -> dict[str, Any]:
    """Figures by model, number held, length of runs and order."""
    found = {}
    for model, held, run, order in runs:
        events = STEADY if model == MODELS[0] else STEADY // 4
        if quick:
            held, events = 1024, 1024
        common.note(f"  {model}, {held:,} held, runs of {run}, {order}")
        given = {"model": model, "held": held, "run": run, "order": order, "events": events}
        found[f"{model}/{held}/{run}/{order}"] = common.fresh(one_run, given)
    return found


def render_rates(found: Mapping[str, Any]) -> str:
    """The table."""
    rows = []
    for name, one in found.items():
        model, held, run, order = name.split("/")
        rows.append(
            (
                f"{model.removesuffix(' alone')}, {int(held):,}, {run}, {order}",
                f"{one['filling_per_core_s']:,.0f}",
                f"{one['steady_per_core_s']:,.0f}",
                f"{one['peak_mib']:,.0f}",
                f"{one['bytes_in_memory']:,.0f}",
                *(
                    text
                    for which in ("first", "second")
                    for text in (
                        f"{one[f'{which}_seconds']:.1f}",
                        f"{one[f'{which}_bytes'] / 1e6:,.0f}",
                    )
                ),
                f"{one['seconds_to_open']:.1f}",
            )
        )
    header = (
        *("model, held, run, order", "events/s", "records/s", "MiB", "B/event"),
        *("1st, s", "MB", "2nd, s", "MB", "open, s"),
    )
    return common.table(header, rows)


# --- the parts ------------------------------------------------------------------------------------

NAME = "late_labels"
PARTS = {
    "rates": Part(lambda o: measure(quick=o.quick), render_rates),
    "length": Part(lambda o: measure(quick=o.quick, runs=LONG), render_rates),
}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
