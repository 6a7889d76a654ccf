"""Means and ranks over the streams, and what is to be shown of ours.

What was too slow for a stream, or failed on it, is last there; means take the score of the
events that it reached. Contestants that have not been run on all of the streams have no place.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import hot
from benchmarks.river_battery import compare
from benchmarks.river_battery.field import GRIDS, OTHERS, RIVER, SINGLES
from benchmarks.river_battery.ours import NAME
from benchmarks.river_battery.streams import FILES, NUMBERS, RIVERS

Figures = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By contestant and stream."""

SECOND = FILES[:7]
"""The streams of the second table, whose rivals are not River's."""

CYCLE = "rialto"
"""Its labels run 0 to 9 without a fault: who counts them needs no columns."""
WIDE = "spam_sparse"
"""Thousands of columns, for which some of the slowest contestants are not run."""


def score(figures: Mapping[str, Any], key: str) -> float:
    """The greater the better; the least of all where there is none."""
    value = figures.get(key)
    if value is None:
        return -math.inf
    return float(value if key in ("accuracy", "balanced_accuracy", "auc") else -value)


def streams_of(figures: Figures, names: Sequence[str]) -> list[str]:
    """Those of the streams on which ours was run."""
    return [name for name in names if name in figures.get(NAME, {})]


def complete(figures: Figures, names: Sequence[str], streams: Sequence[str]) -> list[str]:
    """Those of the contestants that were run on all of the streams."""
    return [name for name in names if all(s in figures.get(name, {}) for s in streams)]


def without(streams: Sequence[str], *names: str) -> list[str]:
    """The streams but those named; none where one of these is not among them."""
    return [s for s in streams if s not in names] if set(names) <= set(streams) else []


def finished(figures: Figures, name: str, stream: str) -> bool:
    """Whether a contestant came to the end of a stream of classes, with an answer at least."""
    one = figures.get(name, {}).get(stream, {})
    return "accuracy" in one and "ended" not in one


def with_grids(figures: Figures) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """The figures, and rows that have for each stream the best setting of a grid."""
    found = dict(figures)
    for row, grid in GRIDS.items():
        best: dict[str, Mapping[str, Any]] = {}
        for name in grid:
            for stream, one in figures.get(name, {}).items():
                key = "mae" if stream in NUMBERS else "accuracy"
                if stream not in best or score(one, key) > score(best[stream], key):
                    best[stream] = one
        found[row] = best
    return found


def mean(figures: Figures, name: str, streams: Sequence[str], key: str) -> float:
    """Over the streams, of a contestant that has them all; NaN where one has no such score."""
    return statistics.fmean(figures[name][s].get(key, math.nan) for s in streams)


def mean_ranks(
    figures: Figures, streams: Sequence[str], key: str, among: Sequence[str] = SINGLES
) -> dict[str, float]:
    """Of those among the contestants that were run on all of the streams."""
    names = complete(figures, among, streams)
    if not names or not streams:
        return {}

    def place(one: Mapping[str, Any]) -> float:
        return -math.inf if "ended" in one else score(one, key)

    scores = {s: {name: place(figures[name][s]) for name in names} for s in streams}
    return compare.mean_ranks(scores, most=True)


def best_mean(figures: Figures, names: Sequence[str], streams: Sequence[str]) -> str | None:
    """The contestant of the greatest mean accuracy, of those with one on all of the streams."""
    means = {
        name: mean(figures, name, streams, "accuracy") for name in complete(figures, names, streams)
    }
    known = [name for name in means if not math.isnan(means[name])]
    return max(known, key=lambda name: means[name], default=None)


# --- goals --------------------------------------------------------------------------------------


def goals(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What ours is to reach, with what it does; in points, that is 100 times an accuracy."""
    figures: Figures = found["contestants"]
    classes = streams_of(figures, (*FILES, *RIVERS))
    second = streams_of(figures, SECOND)
    return [
        *_ahead("mean rank ahead of the next", figures, classes, "accuracy"),
        *_ahead(f"the same without {WIDE}", figures, without(classes, WIDE), "accuracy"),
        *_over("mean over the best River model's", figures, RIVER, classes),
        *_over(f"the same without {WIDE}", figures, RIVER, without(classes, WIDE)),
        *_over(f"without {WIDE} and {CYCLE}", figures, RIVER, without(classes, WIDE, CYCLE)),
        *_under(found["against_river"], classes),
        *_behind(found["against_others"], second),
        *_over("second table: mean over the best rival's", figures, OTHERS, second),
        *_over(f"the same without {CYCLE}", figures, OTHERS, without(second, CYCLE)),
        *_ahead("MAE: mean rank ahead of the next", figures, streams_of(figures, NUMBERS), "mae"),
    ]


def _ahead(case: str, figures: Figures, streams: Sequence[str], key: str) -> list[dict[str, Any]]:
    ranks = mean_ranks(figures, streams, key)
    ours = ranks.pop(NAME, None)
    if ours is None or not ranks:
        return []
    return [hot.goal(case, [min(ranks.values()) - ours], least=0)]


def _over(
    case: str, figures: Figures, rivals: Sequence[str], streams: Sequence[str]
) -> list[dict[str, Any]]:
    best = best_mean(figures, rivals, streams) if streams else None
    if best is None or best_mean(figures, [NAME], streams) is None:
        return []
    ours, theirs = (mean(figures, name, streams, "accuracy") for name in (NAME, best))
    return [hot.goal(f"{case} ({best})", [100 * (ours - theirs)], " points", least=3)]


def _under(against: Mapping[str, Any], streams: Sequence[str]) -> list[dict[str, Any]]:
    found = [against[s] for s in streams if s in against]
    if not found:
        return []
    surely = sum(one["high"] < -0.01 for one in found)
    perhaps = sum(one["low"] < -0.01 for one in found)
    case = "more than 1 point under the best River model there"
    return [
        hot.goal(f"streams surely {case}", [surely], most=0),
        hot.goal(f"streams perhaps {case}", [perhaps], most=0),
    ]


def _behind(against: Mapping[str, Any], streams: Sequence[str]) -> list[dict[str, Any]]:
    found = [against[s] for s in streams if s in against]
    if not found:
        return []
    behind = sum(one["difference"] < 0 for one in found)
    return [hot.goal("second table: columns under the best rival", [behind], most=0)]
