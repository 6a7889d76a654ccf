"""The default model beside gradient boosted trees: trained anew all the time, or trained once.

at_once     each event predicted, then learned; trees trained anew every 1,000 events
late        the same with labels that come 48 events late
whole       labels at once, and the whole length of streams that have more than 20,000 events
shuffled    labels at once, 20,000 events of these streams in random order
last_tenth  trees trained once on nine tenths of each stream, beside ours on the last tenth

Runs are kept in the user's cache directory as those of the river battery; those of ours, too, until
the code changes.
With --only the other parts stay in the results as they were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.retrained import last_tenth, progressive
from benchmarks.retrained.contestants import CONTESTANTS
from benchmarks.river_battery import tables
from benchmarks.river_battery.contestant import SEED
from benchmarks.river_battery.streams import STREAMS

NAME = "retrained"
_MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "at_once": progressive.measure,
    "late": partial(progressive.measure, delay=48),
    "whole": partial(progressive.measure, whole=True),
    "shuffled": partial(progressive.measure, shuffled=True),
    "last_tenth": last_tenth.measure,
}
_PARTS: dict[str, parts.Render] = {
    "at_once": progressive.render,
    "late": progressive.render,
    "whole": progressive.render,
    "shuffled": progressive.render,
    "last_tenth": last_tenth.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured; then what was not run, and the packages."""
    lines = []
    for part in ("at_once", "late", "whole", "shuffled"):
        found = document["results"].get(part)
        if found is None:
            continue
        if missing := progressive.missing(found):
            lines.append(f"Not run in {part}: {missing}.")
        limit = f"{found['limit_s']:,.0f} s of the processor"
        slow = progressive.slow(found)
        lines.append(
            f"Not at the end within {limit} in {part}: {slow}."
            if slow
            else f"All that were run in {part} came to the end of their streams within {limit}."
        )
    packages = document["settings"]["packages"]
    lines.append(", ".join(f"{name} {version}" for name, version in packages.items()) + ".")
    return "\n\n".join([parts.render(document, _PARTS), tables.wrapped(lines)])


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments(f"benchmarks.{NAME}", __doc__)
    parts.add_only(parser, list(_MEASURES))
    parser.add_argument(
        "--streams", nargs="+", choices=STREAMS, default=list(STREAMS), metavar="STREAM"
    )
    parser.add_argument("--cached", action="store_true", help="run nothing, show what is kept")
    options = parser.parse_args(argv)
    measures = {
        name: partial(
            measure,
            options.data,
            quick=options.quick,
            cached=options.cached,
            names=options.streams,
        )
        for name, measure in _MEASURES.items()
    }
    everyone = [*CONTESTANTS.values(), *last_tenth.LIMITS.values()]
    settings = {
        "seed": SEED,
        "events": progressive.EVENTS,
        "limit_s": progressive.LIMIT,
        "whole_limit_s": progressive.WHOLE_LIMIT,
        "packages": {one.package: one.version or "not installed" for one in everyone},
        "contestants": {one.name: one.settings for one in everyone},
    }
    results = parts.measured(NAME, options, measures)
    common.finish(NAME, options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
