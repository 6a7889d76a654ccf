"""Events/s of the engine on elec2 as JSON, beside what the Kafka client and the learner need alone.

The set is tiled four times. Each event is decoded, predicted and learned; where predictions are
written, they go to a file of one JSON object a line or to a topic. A source is opened, and a client
connected, before the clock starts; it stops when the last prediction is delivered.

The learner alone takes arrays of 1,024 events from memory (`predict_then_learn_many`). The floors
are the client's own: "reading" is a loop over the topic; "reading and writing" sends each record
back, with one header, to another topic. Both have the connector's settings and nothing else.

Beside the rates from topic to topic stands how many cores the broker and this process used
meanwhile: where their sum is the number of cores of the machine, all of them run on it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.data import Dataset
from benchmarks.engine import clients
from benchmarks.engine.broker import Broker
from benchmarks.engine.events import LABEL, encoded_rows, write
from benchmarks.speed.model import AT_ONCE
from connectors.registry import open_sink, open_source
from streamk.engine import Engine
from streamk.learners import Learner, create

COPIES = 4
"""Times that the file and the topic hold the set, for a steadier figure."""
FEATURES = 1024


@dataclass(frozen=True)
class Model:
    """A learner by name and options, and its goals in events/s, if it has some."""

    name: str
    options: Mapping[str, Any]
    from_file: int = 0
    topic_to_topic: int = 0


MODELS = {
    "default": Model("multi-kernel", {}),
    "no metric": Model("multi-kernel", {"external_experts": ()}, 80_000, 75_000),
    "one kernel": Model(
        "doubly-stochastic",
        {"block_size": FEATURES, "max_features": FEATURES},
        200_000,
        150_000,
    ),
}
"""As the table calls them; "no metric" is `streamk run --expert none`."""
FLOORS = "client alone"
ALONE, FROM_FILE, TO_FILE = "learner alone", "file", "file to file"
READING, ECHO = "reading, {}", "reading and writing, {}"
FROM_TOPIC, TO_TOPIC = "topic, {}", "topic to topic, {}"


def make(name: str) -> Learner:
    """A new model of the table."""
    model = MODELS[name]
    return create(model.name, task="classification", **model.options)


def measure(broker: Broker | None, data: Dataset, rounds: int) -> dict[str, Any]:
    """Rates of all ways, shares of the processor, and goals."""
    data = replace(data, X=np.tile(data.X, (COPIES, 1)), y=np.tile(data.y, COPIES))
    with tempfile.TemporaryDirectory() as directory:
        bench = _Bench(broker, data, Path(directory))
        contestants = bench.contestants()
        for name in MODELS:
            contestants[f"{name}: {FROM_FILE}"]()  # compiles
        bench.cores.clear()
        rates = common.in_turn(contestants, rounds)
    return {
        "events": len(data),
        "machine_cores": os.cpu_count(),
        "events_per_s": {name: common.spread(values) for name, values in rates.items()},
        "cores": {
            name: {who: common.spread(used) for who, used in found.items()}
            for name, found in bench.cores.items()
        },
        "goals": _goals(rates),
    }


def _goals(rates: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    goals = []
    for name, model in MODELS.items():
        wanted = {FROM_FILE: model.from_file, TO_TOPIC.format("confluent"): model.topic_to_topic}
        for way, least in wanted.items():
            case = f"{name}: {way}"
            if case in rates and least:
                goals.append(hot.goal(f"{case}, events/s", rates[case], least=least))
    return goals


class _Bench:
    """The events in a file and a topic, and the ways to take them."""

    def __init__(self, broker: Broker | None, data: Dataset, directory: Path) -> None:
        self._broker, self._data = broker, data
        self._file, self._output = directory / "events.ndjson", directory / "predictions.ndjson"
        values = encoded_rows(data)
        write(self._file, values)
        self._clients = clients.installed() if broker is not None else ()
        if broker is not None:
            self._events, self._predictions = broker.new_topic(), broker.new_topic()
            clients.fill(broker.address, self._events, values)
        self.cores: dict[str, dict[str, list[float]]] = {}

    def contestants(self) -> dict[str, Callable[[], float]]:
        """Functions that return events/s, by name."""
        found: dict[str, Callable[[], float]] = {}
        for client in self._clients:
            found[f"{FLOORS}: {READING.format(client)}"] = partial(self._read, client)
            name = f"{FLOORS}: {ECHO.format(client)}"
            found[name] = partial(self._shared, name, partial(self._echo, client))
        for name in MODELS:
            found |= self._of_model(name)
        return found

    def _of_model(self, model: str) -> dict[str, Callable[[], float]]:
        source, sink = f"file:{self._file}", f"file:{self._output}"
        found: dict[str, Callable[[], float]] = {
            f"{model}: {ALONE}": partial(self._alone, model),
            f"{model}: {FROM_FILE}": partial(self._engine, model, source),
            f"{model}: {TO_FILE}": partial(self._engine, model, source, sink),
        }
        for client in self._clients:
            events = self._address(self._events, client)
            output = self._address(self._predictions, client)
            found[f"{model}: {FROM_TOPIC.format(client)}"] = partial(self._engine, model, events)
            name = f"{model}: {TO_TOPIC.format(client)}"
            work = partial(self._engine, model, events, output)
            found[name] = partial(self._shared, name, work)
        return found

    def _address(self, topic: str, client: str) -> str:
        assert self._broker is not None
        return f"kafka://{self._broker.address}/{topic}?client={client}"

    def _shared(self, name: str, work: Callable[[], float]) -> float:
        """What the work returns; notes the cores that the broker and this process used."""
        broker = self._broker
        assert broker is not None
        began, before, mine = time.perf_counter(), broker.cpu_seconds(), time.process_time()
        rate = work()
        seconds = time.perf_counter() - began
        used = self.cores.setdefault(name, {"process": []})
        used["process"].append((time.process_time() - mine) / seconds)
        after = broker.cpu_seconds()
        if before is not None and after is not None:
            used.setdefault("broker", []).append((after - before) / seconds)
        return rate

    def _alone(self, name: str) -> float:
        model, data = make(name), self._data
        X, y = data.X.astype(np.float64), data.y.tolist()
        model.add_columns(data.columns)

        def learn() -> None:
            for first in range(0, len(X), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                model.predict_then_learn_many(X[some], y[some])

        return len(data) / common.timed(learn)

    def _engine(self, name: str, source: str, sink: str | None = None) -> float:
        self._output.unlink(missing_ok=True)
        engine = Engine(
            open_source(source),
            make(name),
            label=LABEL,
            sink=None if sink is None else open_sink(sink),
            until_end=True,
        )
        began = time.perf_counter()
        report = engine.run()
        seconds = time.perf_counter() - began
        assert report.counts.learned == len(self._data), report.counts
        return len(self._data) / seconds

    def _read(self, client: str) -> float:
        assert self._broker is not None
        with clients.reader(client, self._broker.address, self._events) as take:
            began, left = time.perf_counter(), len(self._data)
            while left:
                left -= len(take(1.0))
            return len(self._data) / (time.perf_counter() - began)

    def _echo(self, client: str) -> float:
        assert self._broker is not None
        writer = clients.writer(client, self._broker.address, self._predictions)
        with clients.reader(client, self._broker.address, self._events) as take:
            began, done = time.perf_counter(), 0
            while done < len(self._data):
                for value in take(1.0):
                    writer.send(value, [("streamk-offset", b"%d" % done)])
                    done += 1
            writer.close()
            return len(self._data) / (time.perf_counter() - began)


# --- the table ----------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    rows = []
    for name, figure in found["events_per_s"].items():
        cores = found["cores"].get(name, {})
        used = [f"{cores[who]['median']:.2f}" if who in cores else "" for who in _WHO]
        rows.append([name, *common.ranged(figure), *used])
    title = f"{found['events']:,} events, events/s"
    rates = common.table([title, "median", "range", "cores", "broker's"], rows)
    text = (
        f"Events of elec2 as JSON. cores: used by this process, of {found['machine_cores']};"
        " broker's: by the broker meanwhile."
    )
    return f"{rates}\n{text}\n\n{hot.goals_table(found['goals'])}"


_WHO = ("process", "broker")
