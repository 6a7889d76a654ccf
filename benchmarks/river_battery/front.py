"""The guide's front page: streamk beside the best of each library, stream by stream.

The best of a library is picked for each stream in hindsight: of River's ten models, of CapyMOA's
three, of the twelve settings of Vowpal Wabbit. All of streamk's figures are of its
defaults, those of "no metric" without a feature machine among its experts.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common
from benchmarks.river_battery import moa, standing
from benchmarks.river_battery.field import BASELINES, GRIDS, RIVER
from benchmarks.river_battery.ours import NAME, PLAIN_NAME
from benchmarks.river_battery.standing import Figures
from benchmarks.river_battery.streams import FILES, NUMBERS, RIVERS

LIBRARIES: dict[str, tuple[str, ...]] = {
    NAME: (NAME,),
    "River": RIVER,
    "CapyMOA": tuple(contestant.name for contestant in moa.CONTESTANTS),
    "VW": GRIDS["VW, best of 12"],
}
CLASSES = (*FILES, *RIVERS)
GENERATED = ("Bananas", "RandomRBFDrift", "Hyperplane", "Agrawal", "SEA", "LEDDrift", "Waveform")


def now(document: Mapping[str, Any]) -> Figures:
    """The figures where every label is known at once."""
    found: Figures = document["results"]["delays"]["0"]["contestants"]
    return found


def best(figures: Figures, stream: str) -> dict[str, tuple[float, str]]:
    """The best accuracy of each library on a stream, and whose it is; nothing of what failed."""
    found = {}
    for library, names in LIBRARIES.items():
        ended = [name for name in names if standing.finished(figures, name, stream)]
        if ended:
            found[library] = max((figures[n][stream]["accuracy"], n) for n in ended)
    return found


def short(stream: str) -> str:
    """The name of a stream without what says which copy of it this is."""
    return stream.partition("_")[0]


def baseline(figures: Figures, stream: str) -> float:
    """The accuracy of the most frequent class, or of the last label, whichever is greater."""
    return max(float(figures[name][stream]["accuracy"]) for name in BASELINES)


def shown(figures: Figures) -> list[str]:
    """The streams of recorded data that all libraries were run on."""
    return [
        s
        for s in standing.streams_of(figures, CLASSES)
        if s not in GENERATED and len(best(figures, s)) == len(LIBRARIES)
    ]


def render(document: Mapping[str, Any]) -> str:
    """The table, and what holds over all streams."""
    figures = now(document)
    rows = []
    for stream in shown(figures):
        found, about = best(figures, stream), document["results"]["streams"][stream]
        cells = [f"{100 * found[library][0]:.2f}" for library in LIBRARIES]
        if PLAIN_NAME in figures:
            cells.insert(1, f"{100 * figures[PLAIN_NAME][stream]['accuracy']:.2f}")
        zero = f"{100 * baseline(figures, stream):.2f}"
        rows.append([short(stream), str(about["classes"]), *cells, zero])
    columns = list(LIBRARIES)
    if PLAIN_NAME in figures:
        columns.insert(1, PLAIN_NAME.removeprefix(f"{NAME}, "))
    table = common.table(["accuracy, %", "classes", *columns, "no model"], rows)
    delays = document["results"]["delays"]
    lines = [_first(delays), *_behind(figures), *_unsure(delays["0"])]
    return "\n\n".join((table, "\n".join([*lines, *_ranks(figures), *_rates(figures)])))


def _first(delays: Mapping[str, Any]) -> str:
    """Count how often each library has the most accurate model, by delay of the labels."""
    rows = []
    for delay, found in delays.items():
        counts = dict.fromkeys(LIBRARIES, 0)
        for stream in standing.streams_of(found["contestants"], CLASSES):
            accuracies = best(found["contestants"], stream)
            counts[max(accuracies, key=lambda library: accuracies[library][0])] += 1
        late = f"labels {delay} events late" if int(delay) else "labels at once"
        rows.append([late, *map(str, counts.values())])
    return common.table(["streams on which it is first", *LIBRARIES], rows) + "\n"


def _behind(figures: Figures) -> list[str]:
    lines = [f"{NAME} is not the first, labels at once, on:"]
    for stream in standing.streams_of(figures, CLASSES):
        found = best(figures, stream)
        ours = found.pop(NAME)[0]
        value, name = max(found.values())
        if ours < value:
            points = f"{100 * (value - ours):.2f} points behind {name}"
            lines.append(f"  {short(stream):<12}{points}")
    return lines


def _unsure(found: Mapping[str, Any]) -> list[str]:
    """The streams where the interval of the difference to the best rival has 0 in it."""
    lines = []
    for rivals, key in (("River's best", "against_river"), ("the others'", "against_others")):
        unsure = [
            short(stream)
            for stream, one in found[key].items()
            if stream in CLASSES and one["low"] <= 0 <= one["high"]
        ]
        lines.append(f"No difference to {rivals} for sure (95%): {', '.join(unsure) or 'none'}.")
    return lines


def _ranks(figures: Figures) -> list[str]:
    classes, numbers = (standing.streams_of(figures, names) for names in (CLASSES, NUMBERS))
    return [
        _rank(f"Mean rank, accuracy, {len(classes)} streams", figures, classes, "accuracy"),
        _rank(f"Mean rank, MAE, {len(numbers)} streams of numbers", figures, numbers, "mae"),
    ]


def _rank(title: str, figures: Figures, streams: Sequence[str], key: str) -> str:
    ranks = standing.mean_ranks(figures, streams, key)
    second, name = min((rank, name) for name, rank in ranks.items() if name != NAME)
    return f"{title}: {ranks[NAME]:.2f} of {len(ranks)}; the next, {name}: {second:.2f}."


def _rates(figures: Figures) -> list[str]:
    """Medians over the streams: of each library the slowest and the fastest model."""
    lines = ["Events a second of one core, the slowest and the fastest model:"]
    for library, names in {**LIBRARIES, PLAIN_NAME: (PLAIN_NAME,)}.items():
        rates = [_rate(figures[name]) for name in names if name in figures]
        each = dict.fromkeys(f"{rate:,.0f}" for rate in rates and (min(rates), max(rates)))
        if each:
            lines.append(f"  {library:<20}{' to '.join(each)}")
    return lines


def _rate(found: Mapping[str, Mapping[str, Any]]) -> float:
    return statistics.median(one["events_per_cpu_s"] for s, one in found.items() if s in CLASSES)
