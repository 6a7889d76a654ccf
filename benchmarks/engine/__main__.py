"""The engine and the command: what they say, how fast they are and how long an event takes.

equal    figures of `streamk run` from a file and from a topic, beside those of River's loop
rates    events/s from files and topics, beside what the client and the learner need alone
latency  event in to prediction out through Kafka, beside an echo by the same client
formats  events/s of decoding Avro, JSON Schema and Protobuf, beside JSON

How each figure is taken is at the top of the module of its name in engine/. A broker is started by
demos/local_kafka.py, which needs Java and Maven, unless --kafka names one; without any there are
the figures from files only. Contestants run in turn and repeatedly; tables give median and range.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from benchmarks import common, parts
from benchmarks.data import DataError, load
from benchmarks.engine import equal, formats, latency, rates
from benchmarks.engine.broker import Broker, broker

NAME = "engine"
PARTS: dict[str, parts.Render] = {
    "equal": equal.render,
    "rates": rates.render,
    "latency": latency.render,
    "formats": formats.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.engine", __doc__)
    parts.add_only(parser, list(PARTS), "--parts")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker to use")
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=equal.NAMES,
        default=equal.NAMES,
        metavar="SET",
        help="of equal; of " + ", ".join(equal.NAMES),
    )
    parser.add_argument(
        "--events",
        type=int,
        default=equal.EVENTS,
        metavar="N",
        help="first events of each set of equal, 0 for all (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of rates, latency and formats (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="a round of latency (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    only_formats = options.only == ["formats"]
    with nullcontext() if only_formats else broker(options.kafka) as running:
        if running is None:
            options.only = _without_kafka(options.only)
        results = parts.measured(NAME, options, _measures(options, running))
    settings = {name: getattr(options, name) for name in ("events", "rounds", "seconds")}
    common.finish(NAME, options, settings, results, render)


def _without_kafka(wanted: Sequence[str] | None) -> list[str]:
    left = [part for part in wanted or PARTS if part != "latency"]
    if not left:
        raise DataError("latency needs a broker, see --help")
    return left


def _measures(
    options: argparse.Namespace, running: Broker | None
) -> dict[str, Callable[[], dict[str, Any]]]:
    quick, rounds = options.quick, 1 if options.quick else options.rounds

    def through_kafka() -> dict[str, Any]:
        assert running is not None
        data = load("elec2", options.data, quick=quick)
        wanted = latency.RATES[:1] if quick else latency.RATES
        return latency.measure(running, data, 0.5 if quick else options.seconds, wanted, rounds)

    return {
        "equal": lambda: equal.measure(
            running, options.data, options.events, options.sets, quick=quick
        ),
        "rates": lambda: rates.measure(running, load("elec2", options.data, quick=quick), rounds),
        "latency": through_kafka,
        "formats": lambda: formats.measure(options.data, rounds, quick=quick),
    }


if __name__ == "__main__":
    sys.exit(common.main(run))
