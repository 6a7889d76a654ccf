"""Event in to prediction out through Kafka, at fixed rates.

A process produces events at a fixed rate, a second one runs the engine, and this one consumes the
predictions. An event's latency runs from the moment at which it was due to be sent, also where the
producer was late, to the moment at which a poll has brought its prediction. All clocks are the
machine's one monotonic clock. The same with a plain loop of kafka-python's clients in place of the
engine, which sends every event back as it is, shows what Kafka and the machine take.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset
from benchmarks.speed import broker
from benchmarks.speed.model import BATCH, model
from connectors.kafka import KafkaSink, KafkaSource
from streamk.engine import Engine

RATES = (100, 1_000, 10_000)
"""Events/s."""
FLUSH_INTERVAL = 0.001
"""Seconds: how long the engine lets events wait for a batch to fill. At 10,000 events/s one fills
in 26 ms, at 100 in 2.6 s, so nearly all events are predicted by a flush."""
WARM_UP = 8 * BATCH
Server = Callable[[str, str, str, Dataset], None]

PATIENCE = 60.0
"""Seconds without a prediction after which the run is given up."""


def measure(address: str, data: Dataset, seconds: float, rates: tuple[int, ...]) -> dict[str, Any]:
    """Latencies at each rate."""
    values = broker.encoded(data, "json")
    rows = []
    for rate in rates:
        for name, serve in (("engine", _serve), ("plain echo", _echo)):
            n = max(1, round(rate * seconds))
            rows.append({"name": name} | _measure(address, serve, data, values, rate, n))
            common.note(f"  {rows[-1]}")
    return {"flush_interval_s": FLUSH_INTERVAL, "rates": rows}


def _measure(
    address: str, serve: Server, data: Dataset, values: list[bytes], rate: int, n: int
) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    events, predictions = broker.new_topic(address), broker.new_topic(address)
    server = context.Process(target=serve, args=(address, events, predictions, data))
    server.start()
    mine, theirs = context.Pipe()
    warm, measured = _cut(values, 0, WARM_UP), _cut(values, WARM_UP, n)
    producer = context.Process(
        target=_produce, args=(address, events, warm, measured, rate, theirs)
    )
    producer.start()
    try:
        with broker.consumer(address, predictions) as one:
            arrived = np.zeros(WARM_UP + n, dtype=np.int64)
            _receive(one, arrived, WARM_UP)
            mine.send("go")
            _receive(one, arrived, WARM_UP + n)
        began, ended = mine.recv()
    finally:
        # SIGTERM: the engine stops in order; the producer may wait for a word that never comes.
        for process in (server, producer):
            process.terminate()
            process.join()
    due = began + np.arange(n) * (1e9 / rate)
    waited = (arrived[WARM_UP:] - due) / 1e6
    return {
        "rate": rate,
        "events": n,
        "achieved_rate": round((n - 1) / max(ended - began, 1) * 1e9, 1),
        **{f"p{p}_ms": round(float(np.percentile(waited, p)), 3) for p in (50, 90, 99)},
        "max_ms": round(float(waited.max()), 3),
    }


def _cut(values: list[bytes], start: int, n: int) -> list[bytes]:
    """n values from a place on, around and around."""
    return [values[i % len(values)] for i in range(start, start + n)]


def _receive(one: Any, arrived: Any, stop: int) -> None:
    """Note when the prediction of each offset arrives, until all before `stop` have."""
    left = stop - int(np.count_nonzero(arrived))
    patient_until = time.monotonic() + PATIENCE
    while left > 0:
        found = broker.records(one, 0.1)
        now = time.monotonic_ns()
        for record in found:
            offset = int(dict(record.headers)["streamk-offset"])
            assert not arrived[offset], f"the event at offset {offset} was predicted twice"
            arrived[offset] = now
        left -= len(found)
        if found:
            patient_until = time.monotonic() + PATIENCE
        elif time.monotonic() > patient_until:
            raise RuntimeError(f"{left} predictions did not come in {PATIENCE:g} s")


def _produce(
    address: str, topic: str, warm: list[bytes], measured: list[bytes], rate: int, pipe: Connection
) -> None:
    """Send the first events at once and, on the word, the others at the rate."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address)
    for value in warm:
        producer.send(topic, value)
    producer.flush()
    pipe.recv()
    began = time.monotonic_ns() + 10_000_000
    for number, value in enumerate(measured):
        ahead = began + number * 1_000_000_000 // rate - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / 1e9)
        producer.send(topic, value)
    ended = time.monotonic_ns()
    producer.flush()
    pipe.send((began, ended))
    producer.close()


def _serve(address: str, events: str, predictions: str, data: Dataset) -> None:
    """Run the engine until SIGTERM."""
    Engine(
        KafkaSource((address,), events),
        model(data),
        label=broker.LABEL,
        batch_size=BATCH,
        sink=KafkaSink((address,), predictions),
        flush_interval=FLUSH_INTERVAL,
    ).run()


def _echo(address: str, events: str, predictions: str, _: Dataset) -> None:
    """Send each event back, until SIGTERM."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address)
    with broker.consumer(address, events) as one:
        while True:
            for record in broker.records(one, 0.1):
                position = ("streamk-offset", b"%d" % record.offset)
                producer.send(predictions, record.value, headers=[position])


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [
        [
            f"{row['rate']:,} events/s, {row['name']}",
            f"{row['events']:,}",
            f"{row['achieved_rate']:,.0f}",
            *(f"{row[key]:,.1f}" for key in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
        ]
        for row in found["rates"]
    ]
    title = "event in to prediction out, ms"
    text = common.table([title, "events", "sent/s", "p50", "p90", "p99", "max"], rows)
    return f"{text}\nFlush interval {1000 * found['flush_interval_s']:g} ms."
