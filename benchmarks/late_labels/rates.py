"""Records a second through the join, memory and checkpoints, with so many events held.

Each run is one process. Events of eight numbers come as JSON until so many are held; then as many
labels come as events, each of the event that came that many before, so that the number held stays.
Decoding, the join and the model are in the time, source and sink are not. "join alone" has a model
that says the same of all events. Runs are the labels, and the events, that come in a row: the model
is called once for each. Memory is what the process has gained by filling up, an event; that of a
checkpoint is what its file of held events has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import common

HELD = (100_000, 1_000_000)
MODELS = ("join alone", "multi-kernel")
RUNS = (1, 64)
STEADY = 200_000


def measure(data: str | None = None, *, quick: bool) -> dict[str, Any]:
    """Figures by model, number held and length of runs."""
    del data
    found = {}
    for model in MODELS:
        for held in (1024,) if quick else HELD:
            for run in RUNS:
                common.note(f"  {model}, {held:,} held, runs of {run}")
                events = 1024 if quick else STEADY if model == MODELS[0] else STEADY // 4
                command = [sys.executable, "-m", "benchmarks.late_labels.one_run"]
                command += [model, str(held), str(run), str(events)]
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, cwd=Path(common.ROOT)
                )
                found[f"{model}/{held}/{run}"] = json.loads(done.stdout)
    return found


def render(found: Mapping[str, Any]) -> str:
    """The table."""
    rows = []
    for name, one in found.items():
        model, held, run = name.split("/")
        rows.append(
            (
                f"{model}, {int(held):,} held, runs of {run}",
                f"{one['filling_per_s']:,.0f}",
                f"{one['steady_per_s']:,.0f}",
                f"{one['bytes_in_memory']:,.0f}",
                f"{one['bytes_on_disk']:,.0f}",
                f"{one['seconds_to_save']:.2f}",
                f"{one['seconds_to_open']:.2f}",
            )
        )
    header = (
        *("", "events/s alone", "records/s", "bytes an event", "in a checkpoint"),
        *("s to pack", "s to open"),
    )
    return common.table(header, rows)
