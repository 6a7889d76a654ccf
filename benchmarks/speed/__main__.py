"""How fast, against what else could be done on the same machine in the same run.

memory   engine from memory on elec2, 1,024 features, batches of 256: at least 60,000 events/s
kafka    engine from a Kafka broker (JSON, raw float32): within 2x of polling plus learning alone
latency  event in to prediction out through Kafka at 100, 1,000 and 10,000 events/s
river    the River adapter one event at a time: at least 10 times ARF's rate
state    4 bytes a feature and output plus a constant; `import streamk` under 0.5 s

All contestants run in turn and repeatedly; tables give median and range. A broker is started by
demos/local_kafka.py, which needs Java and Maven, unless --kafka names one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common
from benchmarks.data import load
from benchmarks.speed import broker, kafka, latency, memory, model, river, state

PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "memory": memory.render,
    "kafka": kafka.render,
    "latency": latency.render,
    "river": river.render,
    "state": state.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    parts = [PARTS[name](found) for name, found in document["results"].items()]
    return "\n\n".join([*parts, common.origin(document)])


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.speed", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker to use")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of each rate of latency (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    data = load("elec2", options.data, quick=options.quick)
    rounds = 1 if options.quick else options.rounds
    measures: dict[str, Callable[[], Any]] = {
        "memory": lambda: memory.measure(data, rounds),
        "river": lambda: river.measure(data, rounds),
        "state": lambda: state.measure(rounds, quick=options.quick),
    }
    results = {}
    for name, measure in measures.items():
        if name in options.parts:
            common.note(name)
            results[name] = measure()
    if {"kafka", "latency"} & set(options.parts):
        results |= _through_kafka(options, data, rounds)
    settings = {"features": model.FEATURES, "batch": model.BATCH, "rounds": rounds}
    ordered = {name: results[name] for name in PARTS if name in results}
    common.finish("speed", options, settings, ordered, render)


def _through_kafka(options: Any, data: Any, rounds: int) -> dict[str, Any]:
    """The parts that need a broker; none if there is none."""
    results: dict[str, Any] = {}
    with broker.broker(options.kafka) as address:
        if address is None:
            return results
        if "kafka" in options.parts:
            common.note("kafka")
            results["kafka"] = kafka.measure(address, data, rounds)
        if "latency" in options.parts:
            common.note("latency")
            rates = latency.RATES[:1] if options.quick else latency.RATES
            seconds = 0.5 if options.quick else options.seconds
            results["latency"] = latency.measure(address, data, seconds, rates)
    return results


if __name__ == "__main__":
    sys.exit(common.main(run))
