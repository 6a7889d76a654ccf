"""The engine from Kafka against the least it has to do: polling alone plus learning alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset
from benchmarks.speed import broker
from benchmarks.speed.model import BATCH, by_hand, model
from connectors.kafka import KafkaSink, KafkaSource
from streamk.engine import Engine

COPIES = 4
"""Times that the topic holds the set, for a steadier figure."""
GOAL = 2.0
"""Times the seconds of polling alone plus learning alone."""


def measure(address: str, data: Dataset, rounds: int) -> dict[str, Any]:
    """Seconds of each, by encoding, and the ratio round by round."""
    X, y = np.tile(data.X, (COPIES, 1)), np.tile(data.y.astype(int), COPIES)
    return {
        encoding: _measure(address, replace(data, X=X, y=y), encoding, rounds)
        for encoding in ("json", "float32")
    } | {"goal": GOAL}


def _measure(address: str, data: Dataset, encoding: str, rounds: int) -> dict[str, Any]:
    common.note(f"  {len(data):,} events as {encoding}")
    topic = broker.new_topic(address)
    broker.fill(address, topic, broker.encoded(data, encoding))
    output = broker.new_topic(address)
    contestants: dict[str, Callable[[], float]] = {
        "poll": lambda: _poll(address, topic, len(data)),
        "learn": lambda: common.timed(lambda: by_hand(data)),
        "engine": lambda: _engine(address, topic, encoding, data),
        "engine_and_sink": lambda: _engine(address, topic, encoding, data, output),
    }
    contestants["engine"]()  # compiles
    found = common.in_turn(contestants, rounds)
    parts = zip(found["engine"], found["poll"], found["learn"], strict=True)
    return {
        "events": len(data),
        "seconds": {name: common.spread(values) for name, values in found.items()},
        "ratio": common.spread(engine / (poll + learn) for engine, poll, learn in parts),
    }


def _poll(address: str, topic: str, n: int) -> float:
    """Seconds to poll all records, once connected."""
    with broker.consumer(address, topic) as one:
        began, left = time.perf_counter(), n
        while left:
            left -= len(broker.records(one, 1.0))
        return time.perf_counter() - began


def _engine(
    address: str, topic: str, encoding: str, data: Dataset, output: str | None = None
) -> float:
    """Seconds to poll, decode, predict and learn all of it, once connected."""
    fields = (*data.columns, broker.LABEL) if encoding == "float32" else None
    source = KafkaSource((address,), topic, encoding=encoding, fields=fields)
    sink = KafkaSink((address,), output) if output else None
    engine = Engine(
        source, model(data), label=broker.LABEL, batch_size=BATCH, sink=sink, until_end=True
    )
    began = time.perf_counter()
    report = engine.run()
    seconds = time.perf_counter() - began
    assert report.counts.learned == len(data), report.counts
    return seconds


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    names = {
        "poll": "polling alone (kafka-python)",
        "learn": "predicting and learning alone",
        "engine": "engine from Kafka",
        "engine_and_sink": "engine, predictions to Kafka",
    }
    encodings = [name for name in found if name != "goal"]
    rows = []
    for encoding in encodings:
        part = found[encoding]
        for key, name in names.items():
            figure = part["seconds"][key]
            rate = part["events"] / figure["median"]
            rows.append([f"{encoding}: {name}", *common.ranged(figure, 2), f"{rate:,.0f}"])
        ratio = [f"{encoding}: engine / (polling + learning)", *common.ranged(part["ratio"], 2)]
        rows.append([*ratio, ""])
    header = [f"{found[encodings[0]]['events']:,} events from Kafka, seconds", "median", "range"]
    return common.table([*header, "events/s"], rows) + f"\nGoal: a ratio of {found['goal']:g}."
