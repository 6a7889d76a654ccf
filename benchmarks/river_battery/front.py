"""The guide's front page: streamk beside the best of each library, stream by stream.

The best of a library is picked for each stream in hindsight: of River's ten models, of CapyMOA's
three, of the twelve settings of Vowpal Wabbit. All of streamk's figures are of one setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import common
from benchmarks.river_battery import moa, standing
from benchmarks.river_battery.field import BASELINES, GRIDS, RIVER
from benchmarks.river_battery.ours import NAME
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
    """The table, what it leaves out, and how often each library is ahead."""
    figures = now(document)
    rows = []
    for stream in shown(figures):
        found, about = best(figures, stream), document["results"]["streams"][stream]
        cells = [f"{100 * found[library][0]:.2f}" for library in LIBRARIES]
        zero = f"{100 * baseline(figures, stream):.2f}"
        rows.append([short(stream), str(about["classes"]), *cells, zero])
    table = common.table(["accuracy, %", "classes", *LIBRARIES, "no model"], rows)
    return "\n\n".join((table, _over_all(figures), common.origin(document)))


def _over_all(figures: Figures) -> str:
    """Over all streams of classes: who is first, and where streamk is not; then the numbers."""
    streams = standing.streams_of(figures, CLASSES)
    first = dict.fromkeys(LIBRARIES, 0)
    behind = []
    for stream in streams:
        found = best(figures, stream)
        ours = found.pop(NAME)
        ahead = max(((*one, library) for library, one in found.items()), default=(0.0, "", ""))
        first[NAME if ours[0] >= ahead[0] else ahead[2]] += 1
        if ours[0] < ahead[0]:
            points = 100 * (ahead[0] - ours[0])
            behind.append(f"  {short(stream):<12}{points:.2f} points behind {ahead[1]}")
    ranks = standing.mean_ranks(figures, streams, "accuracy")
    errors = standing.mean_ranks(figures, standing.streams_of(figures, NUMBERS), "mae")
    counts = ", ".join(f"{library} {count}" for library, count in first.items())
    return "\n".join(
        [
            f"The most accurate of all {len(streams)} streams of classes: {counts}.",
            f"{NAME} is not the first on:",
            *behind,
            _rank(f"accuracy, {len(streams)} streams", ranks),
            _rank(f"mean absolute error, {len(NUMBERS)} streams of numbers", errors),
        ]
    )


def _rank(title: str, ranks: Mapping[str, float]) -> str:
    ours = ranks[NAME]
    second, name = min((rank, name) for name, rank in ranks.items() if name != NAME)
    return f"Mean rank, {title}: {ours:.2f} of {len(ranks)}; the next, {name}, {second:.2f}."
