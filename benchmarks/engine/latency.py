"""Event in to prediction out through Kafka, at fixed rates, beside an echo by the same client.

A process produces events at a fixed rate, a second one runs the engine with its default model, but
without a feature machine, and this one consumes the predictions. An event's latency runs from the
moment at which it was due to be sent, also where the producer was late, to the moment at which its
prediction was read. All clocks are the machine's one monotonic clock. The same with a plain loop in
place of the engine, which sends every event back as it is, shows what Kafka, its client and the
machine take; the client of that loop is the engine's, with the connector's settings. Producing and
consuming is done by the connector's first choice for all.

Engine and echo take turns. A ratio is that of a round; the table has the medians of all rounds.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common, hot
from benchmarks.data import Dataset
from benchmarks.engine import clients
from benchmarks.engine.broker import Broker
from benchmarks.engine.clients import Take
from benchmarks.engine.events import LABEL, encoded_rows
from connectors.kafka import KafkaSink, KafkaSource
from connectors.memory import MemorySource
from streamk.engine import Engine
from streamk.learners import Learner, create

RATES = (100, 1_000, 10_000, 30_000)
"""Events/s."""
GOAL = 1.5
"""Times the echo's latency, of `PERCENTILES`."""
PERCENTILES = (50, 99)
WARM_UP = 8192
"""Events that are sent at once before those that are measured."""
PATIENCE = 120.0
"""Seconds without a prediction after which the run is given up."""

Server = Callable[[str, str, str, str], None]


def measure(
    broker: Broker, data: Dataset, seconds: float, rates: Sequence[int], rounds: int
) -> dict[str, Any]:
    """Latencies at each rate by each client, and the goals."""
    values = encoded_rows(data)
    few = data.first(WARM_UP)
    # What is compiled is kept: the processes that run the engine find it.
    Engine(MemorySource((few.X, few.y), columns=few.columns), _model(), label=LABEL).run()
    # The broker compiles, too.
    _measure(broker, _echo, clients.installed()[0], values, max(rates), round(max(rates) * seconds))
    cases = []
    for rate in rates:
        for client in clients.installed():
            n = max(1, round(rate * seconds))
            common.note(f"  {rate:,} events/s, {client}")
            cases.append(_case(broker, values, rate, n, client, rounds))
    return {"seconds": seconds, "cases": cases, "goals": [g for c in cases for g in c.pop("goals")]}


def _case(
    broker: Broker, values: list[bytes], rate: int, n: int, client: str, rounds: int
) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {"engine": [], "echo": []}
    for number in range(rounds):
        for name, serve in (("engine", _serve), ("echo", _echo)):
            found[name].append(_measure(broker, serve, client, values, rate, n))
            common.note(f"    round {number + 1}: {name}: {found[name][-1]}")
    goals, ratios = [], {}
    for p in PERCENTILES:
        key = f"p{p}_ms"
        pairs = zip(found["engine"], found["echo"], strict=True)
        ratio = [ours[key] / echo[key] for ours, echo in pairs]
        ratios[f"p{p}"] = common.spread(ratio)
        goals.append(hot.goal(f"{rate:,} events/s, {client}: p{p}", ratio, "x", most=GOAL))
    return {
        "rate": rate,
        "client": client,
        "events": n,
        "figures": {
            name: {key: common.spread(one[key] for one in many) for key in many[0]}
            for name, many in found.items()
        },
        "ratios": ratios,
        "goals": goals,
    }


def _measure(
    broker: Broker, serve: Server, client: str, values: list[bytes], rate: int, n: int
) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    address, events, predictions = broker.address, broker.new_topic(), broker.new_topic()
    server = context.Process(target=serve, args=(client, address, events, predictions))
    server.start()
    mine, theirs = context.Pipe()
    warm, measured = _cut(values, 0, WARM_UP), _cut(values, WARM_UP, n)
    producer = context.Process(
        target=_produce, args=(address, events, warm, measured, rate, theirs)
    )
    producer.start()
    try:
        with clients.reader(clients.installed()[0], address, predictions) as take:
            _receive(take, WARM_UP)
            mine.send("go")
            arrived = _receive(take, n)
        began, ended = mine.recv()
    finally:
        # SIGTERM: the engine stops in order; the producer may wait for a word that never comes.
        for process in (server, producer):
            process.terminate()
            process.join()
    waited = (arrived - began - np.arange(n) * (1e9 / rate)) / 1e6
    return {
        "sent_per_s": round((n - 1) / max(ended - began, 1) * 1e9, 1),
        **{f"p{p}_ms": round(float(np.percentile(waited, p)), 3) for p in PERCENTILES},
        "max_ms": round(float(waited.max()), 3),
    }


def _cut(values: list[bytes], start: int, n: int) -> list[bytes]:
    """n values from a place on, around and around."""
    return [values[i % len(values)] for i in range(start, start + n)]


def _receive(take: Take, n: int) -> NDArray[np.int64]:
    """When each of the next n predictions arrives; they come in the order of their events."""
    arrived, done = np.empty(n, dtype=np.int64), 0
    patient_until = time.monotonic() + PATIENCE
    while done < n:
        found = len(take(0.1))
        now = time.monotonic_ns()
        assert done + found <= n, "an event was predicted twice"
        arrived[done : done + found] = now
        done += found
        if found:
            patient_until = time.monotonic() + PATIENCE
        elif time.monotonic() > patient_until:
            raise RuntimeError(f"{n - done} predictions did not come in {PATIENCE:g} s")
    return arrived


def _produce(
    address: str, topic: str, warm: list[bytes], measured: list[bytes], rate: int, pipe: Connection
) -> None:
    """Send the first events at once and, on the word, the others at the rate."""
    client = clients.installed()[0]
    writer = clients.writer(client, address, topic, linger_ms=0)
    for value in warm:
        writer.send(value, [])
    pipe.recv()
    began = time.monotonic_ns() + 10_000_000
    for number, value in enumerate(measured):
        ahead = began + number * 1_000_000_000 // rate - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / 1e9)
        writer.send(value, [])
    ended = time.monotonic_ns()
    writer.close()
    pipe.send((began, ended))


def _model() -> Learner:
    return create("multi-kernel", task="classification", external_experts=())


def _serve(client: str, address: str, events: str, predictions: str) -> None:
    """Run the engine until SIGTERM."""
    Engine(
        KafkaSource((address,), events, client=client),
        _model(),
        label=LABEL,
        sink=KafkaSink((address,), predictions, client=client),
    ).run()


def _echo(client: str, address: str, events: str, predictions: str) -> None:
    """Send each event back, until SIGTERM."""
    writer = clients.writer(client, address, predictions)
    done = 0
    with clients.reader(client, address, events) as take:
        while True:
            for value in take(0.1):
                writer.send(value, [("streamk-offset", b"%d" % done)])
                done += 1


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    rows = []
    for case in found["cases"]:
        for name, figures in case["figures"].items():
            cells = [f"{figures[key]['median']:,.1f}" for key in ("p50_ms", "p99_ms", "max_ms")]
            ratios = [f"{case['ratios'][f'p{p}']['median']:.2f}" for p in PERCENTILES]
            rows.append(
                [
                    f"{case['rate']:,} events/s, {case['client']}: {name}",
                    f"{figures['sent_per_s']['median']:,.0f}",
                    *cells,
                    *(ratios if name == "engine" else ["", ""]),
                ]
            )
    header = ["event in to prediction out, ms", "sent/s", "p50", "p99", "max", "p50 ratio", "p99"]
    return f"{common.table(header, rows)}\n\n{hot.goals_table(found['goals'])}"
