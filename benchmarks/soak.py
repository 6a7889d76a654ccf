"""`streamk run` at full load for minutes: does its memory grow, is an event lost or written twice?

A process reads events from a topic, holds them until their labels come from another one 20,000
events later, writes predictions to a third, events that are no JSON to a file, and a checkpoint
every 200,000 records. This program writes events and labels, always some tens of thousands ahead,
and looks at the memory of the process once a second. Of 50 events one has no label; it is dropped
after 20 seconds. The broker is one of demos/local_kafka.py, unless --kafka names another.

The slope of memory is that of a line through means of 12 stretches of the time, the first third of
it (two minutes at most) left out, in which tables fill; with its standard error.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common
from benchmarks.engine import Broker, Writer, broker, cpu_seconds
from connectors.kafka import KafkaSource

# --- load -----------------------------------------------------------------------------------------
#
# Events and their labels, written to topics as fast as a job takes them.

DELAY = 20_000
"""Events between one and its label."""
LABELLED = 50
"""Of so many events one has no label."""
BAD = 1000
"""Of so many events one is no JSON."""
BACKLOG = 60_000
"""Events that the job is behind, at most: enough for it never to wait."""
_AT_ONCE = 2000
_BODIES = 4096
_TOPIC = {"retention.bytes": str(1 << 29), "segment.bytes": str(1 << 25)}


@dataclass(frozen=True)
class Topics:
    """Names of the topics."""

    events: str
    labels: str
    predictions: str

    @classmethod
    def made(cls, broker: Broker) -> Topics:
        """Make them; the broker keeps half a gigabyte of each."""
        return cls(*(broker.new_topic(**_TOPIC) for _ in range(3)))


class Load:
    """Keeps topics ahead of a job.

    Attributes
    ----------
    written : int
        Events.
    """

    def __init__(self, address: str, topics: Topics) -> None:
        self.written = 0
        self._topics = topics
        self._events = Writer(address, topics.events)
        self._labels = Writer(address, topics.labels)
        self._predictions = KafkaSource((address,), topics.predictions)
        self._bodies = _bodies()

    @classmethod
    @contextlib.contextmanager
    def of(cls, address: str, topics: Topics) -> Iterator[Load]:
        """Open one, and close it."""
        load = cls(address, topics)
        try:
            yield load
        finally:
            load.close()

    def predicted(self) -> int:
        """Predictions in their topic."""
        return self._predictions.end(f"{self._topics.predictions}:0") or 0

    def ahead(self, predicted: int) -> int:
        """Events in their topic that are to be predicted, after so many that are."""
        return self.written - self.written // BAD - predicted

    def step(self) -> None:
        """Write some events and labels, or rest where there are enough."""
        if self.ahead(self.predicted()) > BACKLOG:
            time.sleep(0.01)
            return
        for n in range(self.written, self.written + _AT_ONCE):
            body = "?" if n % BAD == BAD - 1 else self._bodies[n % _BODIES][0]
            self._events.send(b'{"id": %d, %s' % (n, body.encode()), [])
            late = n - DELAY
            if late >= 0 and late % LABELLED and late % BAD != BAD - 1:
                label = self._bodies[late % _BODIES][1].encode()
                self._labels.send(b'{"id": %d, "y": %s}' % (late, label), [])
        self.written += _AT_ONCE

    def close(self) -> None:
        """Wait until everything is delivered."""
        self._events.close()
        self._labels.close()
        self._predictions.close()


def _bodies() -> list[tuple[str, str]]:
    """Fields of events behind their key, each with its label."""
    rng = random.Random(0)
    found = []
    for _ in range(_BODIES):
        values = [rng.gauss(0.0, 1.0) for _ in range(8)]
        device = rng.choice(("phone", "tablet", "desktop"))
        fields = ", ".join(f'"x{i}": {value:.4f}' for i, value in enumerate(values))
        label = values[0] * values[1] + values[2] > 0 or device == "tablet"
        found.append((f'{fields}, "device": "{device}"}}', "true" if label else "false"))
    return found


# --- memory ---------------------------------------------------------------------------------------
#
# Memory of another process, and how fast it grows.

BLOCKS = 12
"""Stretches of equal length whose means the slope is fitted to.

Samples that follow each other are alike, so that each for itself would make the error too small.
"""


def slope(seconds: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """The slope per second of values by least squares, and its standard error.

    >>> slope(range(24), [5.0 + 2.0 * n for n in range(24)])
    (2.0, 0.0)
    """
    x, y = (
        np.array([part.mean() for part in np.array_split(np.asarray(one, float), BLOCKS)])
        for one in (seconds, values)
    )
    x -= x.mean()
    found = float(x @ y / (x @ x))
    rest = y - y.mean() - found * x
    error = float(np.sqrt(rest @ rest / (len(x) - 2) / (x @ x)))
    return round(found, 12), round(error, 12)


# --- the parts ------------------------------------------------------------------------------------

NAME = "soak"
MODEL = "multi-kernel"
"""It has no feature machine here."""
MINUTES = 30.0
QUICK_SECONDS = 8.0
_WARM_SECONDS = 120.0
_MIB = 1 << 20
_KEPT = 120
"""Samples in the results; the figures are of all."""


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments(f"benchmarks.{NAME}", __doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="default: %(default)s")
    parser.add_argument("--model", default=MODEL, help="default: %(default)s")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker to use")
    options = parser.parse_args(argv)
    seconds = QUICK_SECONDS if options.quick else 60 * options.minutes
    with broker(options.kafka) as running:
        if running is None:
            return
        found = soak(running, seconds, options.model)
    settings = {
        "model": options.model,
        "minutes": round(seconds / 60, 2),
        "label_delay": DELAY,
        "labelled": f"{LABELLED - 1} of {LABELLED}",
        "bad": f"1 of {BAD}",
    }
    common.finish(NAME, options, settings, found, render)


class Sample(NamedTuple):
    """A look at the job: seconds since it began, bytes, and seconds of one core that it has used.

    `ahead` are the events in the topic that are not predicted yet.
    """

    passed: float
    used: int
    cpu: float
    predicted: int
    ahead: int

    @classmethod
    def of(cls, pid: int, passed: float, load: Load) -> Sample:
        """Look now."""
        predicted = load.predicted()
        used, cpu = common.resident(process=pid), cpu_seconds(pid)
        return cls(passed, used, cpu, predicted, load.ahead(predicted))


def soak(running: Broker, seconds: float, model: str) -> dict[str, Any]:
    """Samples of memory, what the job says at its end, and what stands in its topic."""
    topics = Topics.made(running)
    samples: list[Sample] = []
    with (
        tempfile.TemporaryDirectory() as home,
        Load.of(running.address, topics) as load,
        _job(Path(home), running.address, topics, model) as job,
    ):
        while not load.predicted():
            _alive(job, Path(home))
            load.step()
        began = time.monotonic()
        # A machine that is slow beyond measure goes on until there is something to fit.
        while (passed := time.monotonic() - began) < seconds or (
            len(_steady(samples, seconds)) < BLOCKS
        ):
            load.step()
            if passed >= len(samples) * seconds / max(60, min(1800, seconds)):
                _alive(job, Path(home))
                samples.append(Sample.of(job.pid, round(passed, 2), load))
                if len(samples) % 60 == 0:
                    _note(samples)
        job.send_signal(signal.SIGTERM)
        job.wait(120)
        _alive(job, Path(home), status=0)
        report = json.loads((Path(home) / "report.json").read_text().splitlines()[-1])
        dead = (Path(home) / "dead.ndjson").read_text().count("\n")
        return {**_figures(samples, seconds), **_counts(report, dead, load.predicted())}


@contextlib.contextmanager
def _job(home: Path, address: str, topics: Topics, model: str) -> Iterator[subprocess.Popen[bytes]]:
    at = f"kafka://{address}/"
    command = [sys.executable, "-m", "streamk", "run", at + topics.events, "--label", "y"]
    command += ["--labels", at + topics.labels, "--key", "id", "--label-timeout", "20s"]
    command += ["--to", at + topics.predictions, "--dead-letters", f"file:{home}/dead.ndjson"]
    command += ["--checkpoint", f"{home}/state", "--checkpoint-every", "200000"]
    command += ["--model", model, "--json", "--quiet"]
    command += ["--expert", "none"] if model == MODEL else []
    with (home / "report.json").open("wb") as out, (home / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=common.ROOT, stdout=out, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _alive(job: subprocess.Popen[bytes], home: Path, status: int | None = None) -> None:
    if job.poll() != status:
        raise RuntimeError(f"status {job.returncode}; the log:\n{(home / 'log').read_text()}")


def _note(samples: Sequence[Sample]) -> None:
    last = samples[-1]
    rate = last.predicted / last.passed
    common.note(f"  {last.passed / 60:.1f} min: {last.used / _MIB:.0f} MiB, {rate:,.0f} events/s")


def _warm_seconds(seconds: float) -> float:
    return min(_WARM_SECONDS, seconds / 3)


def _steady(samples: Sequence[Sample], seconds: float) -> list[Sample]:
    """Samples of after the beginning."""
    warm = _warm_seconds(seconds)
    return [sample for sample in samples if sample.passed >= warm]


def _figures(samples: Sequence[Sample], seconds: float) -> dict[str, Any]:
    steady = _steady(samples, seconds)
    growth, error = slope([one.passed for one in steady], [one.used for one in steady])
    per_hour = 3600 / 1e6
    half = len(steady) // 2
    return {
        "events_per_s": _rate(samples, "passed"),
        "events_per_cpu_s": [_rate(steady[: half + 1], "cpu"), _rate(steady[half:], "cpu")],
        "ahead": min(one.ahead for one in steady),
        "mb_per_hour": float(f"{growth * per_hour:.4g}"),
        "mb_per_hour_error": float(f"{error * per_hour:.4g}"),
        "least_bytes": min(one.used for one in steady),
        "most_bytes": max(one.used for one in steady),
        "warm_seconds": _warm_seconds(seconds),
        "samples": [list(one) for one in samples[:: max(1, len(samples) // _KEPT)]],
    }


def _rate(samples: Sequence[Sample], by: str) -> float:
    """Events by a unit of time, on the clock or of the processor."""
    first, last = samples[0], samples[-1]
    return round((last.predicted - first.predicted) / (getattr(last, by) - getattr(first, by)), 1)


def _counts(report: Mapping[str, Any], dead: int, predictions: int) -> dict[str, Any]:
    fates = report["fates"]
    taken = sum(fates[name] for name in ("joined", "held", "missing", "overflow"))
    return {
        "events": taken,
        "predictions_in_topic": predictions,
        "learned": report["learned"],
        "fates": fates,
        "bad": sum(report["bad"].values()),
        "dead_letters": dead,
        "lost": report["lost"],
        "window": report["window"],
    }


def render(document: Mapping[str, Any]) -> str:
    """The table."""
    found, settings = document["results"], document["settings"]
    least, most = found["least_bytes"] / _MIB, found["most_bytes"] / _MIB
    fates = found["fates"]
    rows = [
        ["minutes", f"{settings['minutes']:g}"],
        ["events/s", f"{found['events_per_s']:,.0f}"],
        [
            "events a second of a core, first and second half",
            " and ".join(f"{rate:,.0f}" for rate in found["events_per_cpu_s"]),
        ],
        ["events in the topic ahead of the job, at least", f"{found['ahead']:,}"],
        ["memory, MiB, least to most", f"{least:,.0f} to {most:,.0f}"],
        [
            "memory, MB/h, and its standard error",
            f"{found['mb_per_hour']:+,.1f} ± {found['mb_per_hour_error']:,.1f}",
        ],
        ["events", f"{found['events']:,}"],
        ["predictions in the topic", f"{found['predictions_in_topic']:,}"],
        ["events learned with their label", f"{fates['joined']:,}"],
        ["events held at the end", f"{fates['held']:,}"],
        ["events whose label never came", f"{fates['missing']:,}"],
        ["events that are no JSON", f"{found['bad']:,}"],
        ["dead letters", f"{found['dead_letters']:,}"],
    ]
    return common.table([f"soak, {settings['model']}", ""], rows) + "\n\n" + common.origin(document)


if __name__ == "__main__":
    sys.exit(common.main(run))
