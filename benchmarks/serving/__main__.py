"""`streamk serve`: times of requests by the number of connections, alone and beside a job.

alone    each connection asks as fast as it is answered; the job has ended
beside   so many requests a second, while the job learns from a file as fast as it can
paced    so many requests a second, while the job learns what is written to its standard input at a
         steady rate, see `benchmarks/serving/paced.py`

A request has one event of elec2. The server, the client and the job are a process each. Times are
to the end of the answer, at the client: from the request, or with a rate from when it was due.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common, parts
from benchmarks.data import Directory
from benchmarks.engine.events import LABEL, Event, load
from benchmarks.serving.paced import paced
from benchmarks.serving.paced import render as render_paced
from benchmarks.serving.processes import (
    MODELS,
    asked,
    asked_in_rounds,
    events_of,
    learned,
    serving,
    streamk,
)

NAME = "serving"
CONNECTIONS = (1, 16, 64)
LEARNED, ASKED = 40_000, 500
SECONDS, RATES = 10.0, (500, 2000)
ROUND_SECONDS, ROUNDS = 5.0, 4
"""Of requests at a rate; the figures are medians of those of the rounds."""
REPEATS = 160
"""Times that the job's file holds the events, so that the job outlasts the requests."""


def alone(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Times by model and number of connections."""
    events = load("elec2", data, 500 if quick else LEARNED, quick=quick)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for model in MODELS:
            found[model] = {}
            with serving(learned(Path(directory), model, events)) as port:
                asked(port, events[:ASKED], 1, seconds=0.5)
                for connections in CONNECTIONS:
                    seconds = 0.5 if quick else SECONDS
                    one = asked(port, events[:ASKED], connections, seconds=seconds)
                    found[model][str(connections)] = one
                    common.note(f"  {model}, {connections}: {one}")
    return {"models": found}


def beside(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Times by model and requests a second, and events a second that the job learns."""
    events = load("elec2", data, 500 if quick else LEARNED, quick=quick)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        for model in MODELS:
            found[model] = {}
            state = learned(home, model, events)
            lines = (home / "events.ndjson").read_bytes()
            (home / "long.ndjson").write_bytes(lines * (2 if quick else REPEATS))
            for rate in (0, *RATES):
                one = _beside(home, state, model, events, rate, quick)
                found[model][str(rate)] = one
                common.note(f"  {model}, {rate}: {one}")
    return {"models": found}


def _beside(
    home: Path, state: Path, model: str, events: Sequence[Event], rate: int, quick: bool
) -> dict[str, Any]:
    """Ask a server while the job goes on from a checkpoint, or have the job alone at rate 0."""
    seconds, rounds = (0.5, 1) if quick else (ROUND_SECONDS, ROUNDS)
    going = ("run", f"file:{home / 'long.ndjson'}", "--label", LABEL, *MODELS[model], "--quiet")
    more = ("--start-from", str(state), "--checkpoint", f"{state}-{rate}")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(serving(state)) if rate else 0
        progress = home / "progress.ndjson"
        with progress.open("wb") as log:
            command = streamk(*going[:-1], "--json", *more)
            job = stack.enter_context(subprocess.Popen(command, stderr=log, stdout=log))
        stack.callback(job.kill)
        time.sleep(0.5 if quick else 4.0)
        if rate:
            how = {"seconds": seconds, "rounds": rounds, "rate": rate}
            found = asked_in_rounds(progress, port, events[:ASKED], **how)
        else:
            first, began = events_of(progress), time.monotonic()
            time.sleep(seconds)
            learned_then = events_of(progress) - first
            found = {"learned_a_second": learned_then / (time.monotonic() - began)}
        ended = job.poll() is not None
    if ended and not quick:
        raise RuntimeError(f"the job had learned all events before the end; REPEATS={REPEATS}")
    return found


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    tables = {
        "alone": _render_alone,
        "beside": _render_beside,
        "paced": render_paced,
    }
    return parts.render(document, tables)


def _render_alone(found: Mapping[str, Any]) -> str:
    rows = [
        [f"{model}, {connections}", *_cells(one)]
        for model, by in found["models"].items()
        for connections, one in by.items()
    ]
    return common.table(["model, connections", "requests/s", "p50 ms", "p99", "p99.9"], rows)


def _render_beside(found: Mapping[str, Any]) -> str:
    rows = []
    for model, by in found["models"].items():
        for rate, one in by.items():
            learned = f"{one['learned_a_second']:,.0f}"
            cells = _cells(one) if rate != "0" else ["-"] * 4
            rows.append([f"{model}, {int(rate):,} requests/s", learned, *cells])
    header = ["beside a job that learns", "events/s", "requests/s", "p50 ms", "p99", "p99.9"]
    return common.table(header, rows)


def _cells(one: Mapping[str, float]) -> list[str]:
    times = (f"{one[name]:.2f}" for name in ("p50", "p99", "p999"))
    return [f"{one['a_second']:,.0f}", *times]


def run(argv: Sequence[str] | None = None) -> None:
    parts.run(NAME, __doc__, {"alone": alone, "beside": beside, "paced": paced}, render, argv)


if __name__ == "__main__":
    sys.exit(common.main(run))
