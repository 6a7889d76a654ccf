"""All contestants on all streams: who is best, with labels at once and 48 events late.

With --speed, something else: events/s of ours and of ARF in turn, on every stream.

Runs of rivals take hours; each is kept in a directory when it is done, and taken from there the
next time. Ours run anew every time, with their defaults and without a metric; with --ours they are
all that is run. Interrupted, it goes on where it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.data import DataError
from benchmarks.river_battery import speed, tables, units
from benchmarks.river_battery.contestant import SEED
from benchmarks.river_battery.field import CONTESTANTS
from benchmarks.river_battery.measure import Battery, measure
from benchmarks.river_battery.ours import OURS, PLAIN
from benchmarks.river_battery.streams import STREAMS, load

EVENTS = 20_000
DELAYS = (0, 48)
LIMIT = 600.0
render = tables.render


def run(argv: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(argv)
    streams = [
        load(name, options.data, quick=options.quick, events=options.events)
        for name in options.streams
    ]
    if options.speed:
        about = {"seed": SEED, "rounds": speed.ROUNDS, "warm_up": speed.WARM}
        common.finish(speed.NAME, options, about, speed.measure(streams), speed.render)
        return
    batteries = [
        Battery(
            streams, delay, options.cache, options.limit, fresh=options.fresh, idle=options.cached
        )
        for delay in options.delays
    ]
    before = _before(options) if options.ours else None
    names = [OURS.name, PLAIN.name] if options.ours else options.contestants
    results = measure(streams, names, batteries, before and before["results"])
    packages = {c.package: c.version or "not installed" for c in CONTESTANTS.values()}
    if before is not None:
        packages = before["settings"]["packages"]
        names = [*names, *(name for name in before["settings"]["contestants"] if name not in names)]
    settings: dict[str, Any] = {
        "events": options.events,
        "seed": SEED,
        "limit_s": options.limit,
        "packages": packages,
        "contestants": {name: CONTESTANTS[name].settings for name in names},
    }
    common.finish("river_battery", options, settings, results, render)


def _before(options: Any) -> Any:
    """The results of an earlier run, of as many streams and delays."""
    path = options.out or common.RESULTS / "river_battery.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    there = document["results"]
    known = set(options.streams) == set(there["streams"]) and {*map(str, options.delays)} == set(
        there["delays"]
    )
    if not known or document["settings"]["events"] != options.events:
        raise DataError(f"{path} has other streams, delays or events; --ours needs the same")
    return document


def _parser() -> Any:
    parser = common.arguments("benchmarks.river_battery", __doc__)
    parser.add_argument(
        "--events",
        type=int,
        default=EVENTS,
        metavar="N",
        help="first events of each stream, 0 for all (default: %(default)s)",
    )
    parser.add_argument(
        "--streams", nargs="+", choices=STREAMS, default=list(STREAMS), metavar="STREAM"
    )
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=CONTESTANTS,
        default=list(CONTESTANTS),
        metavar="CONTESTANT",
    )
    parser.add_argument(
        "--delays",
        nargs="+",
        type=int,
        default=list(DELAYS),
        metavar="N",
        help="events after which a label comes (default: 0 48)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="S",
        help="seconds of the processor for a contestant on a stream (default: %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=units.directory(),
        metavar="DIR",
        help="where runs of rivals are kept (default: in the user's cache directory)",
    )
    taking = parser.add_mutually_exclusive_group()
    taking.add_argument("--fresh", action="store_true", help="run what is kept, too")
    taking.add_argument(
        "--ours",
        action="store_true",
        help="run ours alone; of rivals, whose figures stay as they were in the results, the best"
        " of each stream if its run is not kept",
    )
    taking.add_argument("--cached", action="store_true", help="run no rival, show what is kept")
    parser.add_argument(
        "--speed", action="store_true", help="measure events/s against ARF instead, in turn"
    )
    return parser


if __name__ == "__main__":
    sys.exit(common.main(run))
