"""Requests beside a job that is held to so many events a second, by who writes to its input.

serve   `streamk serve` answers predictions, and follows the checkpoints of the job (one in five
        seconds)
page    `streamk run --http` says that the job is alive, from a thread of the job's process

A round of requests is as long as the time between two checkpoints. The figures are medians of those
of the rounds: the machine may have other work.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.engine.events import LABEL, encoded, load
from benchmarks.serving.processes import MODELS, asked_in_rounds, serving, streamk

PACE, SLOWER = 20_000, {"multi-kernel": 8_000}
"""Events a second, and those of models that cannot learn as many."""
STEP = 0.005
"""Seconds between two writes of events."""
LEARNED, ASKED = 40_000, 500
SECONDS, ROUNDS, RATES = 5.0, 6, (500, 2000)
WARM_UP = 4.0
"""Seconds before requests begin."""
EVERY = 100_000
"""Events between two checkpoints."""
PATIENCE = 120.0
"""Seconds in which the job begins, and writes a checkpoint."""


class Feeder(threading.Thread):
    """Writes lines to a pipe at a steady rate, in turn and without end."""

    def __init__(self, pipe: IO[bytes], lines: Sequence[bytes], pace: int) -> None:
        super().__init__(daemon=True)
        self._pipe, self._ended = pipe, threading.Event()
        size = max(1, round(pace * STEP))
        self._blocks = [b"".join(lines[i : i + size]) for i in range(0, len(lines), size)]
        self._every = size / pace

    def run(self) -> None:
        """Write until `end`, or the reader has gone."""
        due, n = time.monotonic(), 0
        with contextlib.suppress(BrokenPipeError, ValueError):
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                self._pipe.write(self._blocks[n % len(self._blocks)])
                due, n = due + self._every, n + 1

    def end(self) -> None:
        """Write no more."""
        self._ended.set()


@contextlib.contextmanager
def _job(home: Path, model: str, lines: Sequence[bytes], every: int, *more: str) -> Iterator[Path]:
    """Have a job learn lines at the pace, with checkpoints; yield the file of what it tells."""
    told, state = home / "told.ndjson", home / "job"
    often = ("--checkpoint-every", str(every))
    options = ("--label", LABEL, *MODELS[model], "--json", *often, *more)
    command = streamk("run", "stdin:", *options)
    with told.open("wb") as log, contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, state, ignore_errors=True)
        process = subprocess.Popen(
            [*command, "--checkpoint", str(state)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            bufsize=0,
        )
        assert process.stdin is not None
        stack.callback(process.stdin.close)
        feeder = Feeder(process.stdin, lines, SLOWER.get(model, PACE))
        feeder.start()
        # It may be writing to a pipe that is full, until nobody reads any more.
        stack.callback(feeder.join)
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.callback(feeder.end)
        yield told


def paced(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Times by model, who answers, and requests a second."""
    events = load("elec2", data, 500 if quick else LEARNED, quick=quick)
    lines = [line + b"\n" for line in encoded(events)]
    questions = {"serve": ("/predict", events[:ASKED]), "page": ("/healthz", [])}
    seconds, rounds, warm_up = (0.5, 1, 0.5) if quick else (SECONDS, ROUNDS, WARM_UP)
    every = EVERY // 100 if quick else EVERY
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for model in MODELS:
            found[model] = {}
            for who, (path, asking) in questions.items():
                of_rate = found[model][who] = {}
                with _answering(who, Path(directory), model, lines, every) as (told, port):
                    time.sleep(warm_up)
                    for rate in RATES:
                        how = {"seconds": seconds, "rounds": rounds, "rate": rate, "path": path}
                        one = asked_in_rounds(told, port, asking, **how)
                        of_rate[str(rate)] = one
                        common.note(f"  {model}, {who}, {rate}: {one}")
    return {"pace": PACE, "slower": SLOWER, "models": found}


@contextlib.contextmanager
def _answering(
    who: str, home: Path, model: str, lines: Sequence[bytes], every: int
) -> Iterator[tuple[Path, int]]:
    """Have a job learn, and somebody answer; yield the file of what the job tells, and the port."""
    if who == "serve":
        with _job(home, model, lines, every) as told:
            # The first checkpoint is of before the first event.
            _until(lambda: len(list((home / "job").glob("*/*/manifest.json"))) > 1)
            with serving(home / "job") as port:
                yield told, port
    else:
        url = re.compile(rb'"url": "[^"]*:(\d+)"')
        with _job(home, model, lines, every, "--http", ":0") as told:
            _until(lambda: url.search(told.read_bytes()) is not None)
            yield told, int(url.findall(told.read_bytes())[0])


def _until(there: Callable[[], bool]) -> None:
    """Wait for a job to come so far."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the job was not ready within {PATIENCE:g} s")
        time.sleep(0.1)


def render(found: Mapping[str, Any]) -> str:
    """The table of the times."""
    rows = []
    for model, by in found["models"].items():
        for who, rates in by.items():
            for rate, one in rates.items():
                times = (f"{one[name]:.2f}" for name in ("p50", "p99", "p999"))
                learned = f"{one['learned_a_second']:,.0f}"
                rows.append([f"{model}, {who}", learned, f"{int(rate):,}", *times])
    header = ["beside a job that is fed", "events/s", "requests/s", "p50 ms", "p99", "p99.9"]
    return common.table(header, rows)
