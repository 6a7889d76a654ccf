"""Records a second through the join, memory and checkpoints, with so many events held.

Each run is one process. Events of eight numbers come as JSON until so many are held; then as many
labels come as events, in the order of the events, or in random order, so that the number held
stays. Decoding, the join and the model are in the time, source and sink are not; a second of a core
is one that the process computed, in all its threads, whatever else the machine does. "join alone"
has a model that says the same of all events. Runs are the labels, and the events, that come in a
row: the model is called once for each.

Memory is the peak of the process until all are held, with Python, numpy and the model, and what it
has gained by filling up, an event. The first checkpoint is written when all are held, the second
after the labels: its bytes are those of all files that were written since the first one. Opening is
reading the second checkpoint, checked in full, until the next event can come.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common

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


def measure(data: str | None = None, *, quick: bool, runs: Sequence[Run] = RUNS) -> dict[str, Any]:
    """Figures by model, number held, length of runs and order."""
    del data
    found = {}
    for model, held, run, order in runs:
        events = STEADY if model == MODELS[0] else STEADY // 4
        if quick:
            held, events = 1024, 1024
        common.note(f"  {model}, {held:,} held, runs of {run}, {order}")
        command = [sys.executable, "-m", "benchmarks.late_labels.one_run"]
        command += [model, str(held), str(run), order, str(events)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(common.ROOT)
        )
        found[f"{model}/{held}/{run}/{order}"] = json.loads(done.stdout)
    return found


def render(found: Mapping[str, Any]) -> str:
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
