"""The tables of the river battery, at most 100 columns wide: ranks, means, the front page."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks import common, hot
from benchmarks.rivals import (
    ALL,
    BASELINES,
    CONTESTANTS,
    GRIDS,
    MOA_MODELS,
    NAME,
    PLAIN_NAME,
    RIVER,
    SEED,
    SINGLES,
)
from benchmarks.streams import FILES, NUMBERS, RIVERS, STREAMS

# --- compare --------------------------------------------------------------------------------------
#
# Ranks, and paired comparisons of two runs on the same events.

Numbers = NDArray[np.float64]
ROUNDS = 1_000
"""Resamples of a bootstrap."""


def ranks(scores: Mapping[str, float], *, most: bool) -> dict[str, float]:
    """Places from 1, equal scores share the mean of theirs; `most`: the greatest score is first."""
    values = np.array(list(scores.values()), dtype=np.float64)
    places = rankdata(-values if most else values)
    return dict(zip(scores, places.tolist(), strict=True))


def mean_places(scores: Mapping[str, Mapping[str, float]], *, most: bool) -> dict[str, float]:
    """Mean place over the streams, of scores by stream and contestant.

    All streams must have the same contestants.
    """
    places = [ranks(of_stream, most=most) for of_stream in scores.values()]
    return {name: math.fsum(p[name] for p in places) / len(places) for name in places[0]}


def paired(a: Numbers, b: Numbers, rounds: int = ROUNDS) -> dict[str, float]:
    """Mean of a - b over the same events, and the 95% interval of its bootstrap.

    Events are drawn with replacement, `rounds` times; the interval is that of the percentiles 2.5
    and 97.5. It takes the events as independent of each other.
    """
    difference = a - b
    rng = np.random.default_rng(SEED)
    n = len(difference)
    means = [difference[rng.integers(0, n, n)].mean() for _ in range(rounds)]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"difference": float(difference.mean()), "low": float(low), "high": float(high)}


def best_of(rivals: Mapping[str, Numbers], ours: Numbers, *, parts: bool) -> dict[str, Any]:
    """Ours less the rival of the least mean loss; in `parts` of that loss, or as it is."""
    name = min(rivals, key=lambda rival: rivals[rival].mean())
    scale = float(rivals[name].mean()) or 1.0 if parts else 1.0
    return {"rival": name, **paired(rivals[name] / scale, ours / scale)}


# --- standing -------------------------------------------------------------------------------------
#
# Means and ranks over the streams.
#
# What was too slow for a stream, or failed on it, is last there; means take the score of the
# events that it reached. Contestants that have not been run on all of the streams have no place.

Figures = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By contestant and stream."""

SECOND = FILES[:7]
"""The streams of the second table, whose rivals are not River's."""

WIDE = "spam_sparse"
"""Thousands of columns, for which some of the slowest contestants are not run."""


def score(figures: Mapping[str, Any], key: str) -> float:
    """The greater the better; the least of all where there is none."""
    value = figures.get(key)
    if value is None:
        return -math.inf
    return float(value if key in ("accuracy", "balanced_accuracy", "auc") else -value)


def streams_of(figures: Figures, names: Sequence[str]) -> list[str]:
    """Return the streams that have a run of ours."""
    return [name for name in names if name in figures.get(NAME, {})]


def complete(figures: Figures, names: Sequence[str], streams: Sequence[str]) -> list[str]:
    """Return the contestants that have a run on every stream."""
    return [name for name in names if all(s in figures.get(name, {}) for s in streams)]


def without(streams: Sequence[str], *names: str) -> list[str]:
    """The streams but those named; none where one of these is not among them."""
    return [s for s in streams if s not in names] if set(names) <= set(streams) else []


def finished(figures: Figures, name: str, stream: str) -> bool:
    """Return True if a contestant finished a stream of classes, with an answer at least."""
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
    """Return the mean rank of each contestant that has a run on every stream."""
    names = complete(figures, among, streams)
    if not names or not streams:
        return {}

    def place(one: Mapping[str, Any]) -> float:
        return -math.inf if "ended" in one else score(one, key)

    scores = {s: {name: place(figures[name][s]) for name in names} for s in streams}
    return mean_places(scores, most=True)


def best_mean(figures: Figures, names: Sequence[str], streams: Sequence[str]) -> str | None:
    """The contestant of the greatest mean accuracy, of those with one on all of the streams."""
    means = {
        name: mean(figures, name, streams, "accuracy") for name in complete(figures, names, streams)
    }
    known = [name for name in means if not math.isnan(means[name])]
    return max(known, key=lambda name: means[name], default=None)


# --- tables ---------------------------------------------------------------------------------------
#
# The tables of the battery, at most 100 columns wide.

ROWS = (NAME, PLAIN_NAME, *SINGLES[1 : -len(BASELINES)], *GRIDS, *BASELINES)
"""The lines of the tables."""


def render_all(document: Mapping[str, Any]) -> str:
    """All tables, by delay; then what the streams are, and where it was measured."""
    results = document["results"]
    parts = [_delayed(int(delay), found) for delay, found in results["delays"].items()]
    parts += [_notes(document), common.origin(document)]
    return "\n\n".join(part for part in parts if part)


def _delayed(delay: int, found: Mapping[str, Any]) -> str:
    figures = with_grids(found["contestants"])
    late = f"{delay} late" if delay else "at once"
    classes = streams_of(figures, (*FILES, *RIVERS))
    tables = [
        *(log_loss_table(f"log loss, {late}", figures, names) for names in (FILES, RIVERS)),
        accuracy_table(f"accuracy, %, {late}", figures, FILES, gmsc=True),
        accuracy_table(f"accuracy, %, {late}", figures, RIVERS),
        *(kappa_table(f"kappa t., {late}", figures, names) for names in (FILES, RIVERS)),
        over_streams(f"{late}, all of these", figures, classes),
        over_streams(f"{late}, without spam", figures, without(classes, WIDE)),
        where_both(f"{late}, where both finished", figures, classes),
        against_table(f"points, {late}", "best of River", found["against_river"], 100),
        _second(f"second table, {late}", figures),
        against_table(f"points, {late}", "best of others", found["against_others"], 100, SECOND),
        errors("MAE", "mae", late, figures),
        errors("RMSE", "rmse", late, figures),
        against_table(
            f"% of its MAE, {late}", "best of River", found["against_river"], 100, NUMBERS
        ),
    ]
    return "\n\n".join(table for table in tables if table)


# --- scores by stream ---------------------------------------------------------------------------


def accuracy_table(
    title: str,
    figures: Figures,
    names: Sequence[str],
    *,
    rows: Sequence[str] = ROWS,
    gmsc: bool = False,
) -> str:
    """Percents; of gmsc, where nearly all are of one class, also balanced ones and the AUC."""
    streams = streams_of(figures, names)
    columns = [(STREAMS[s][0], s, "accuracy") for s in streams]
    if gmsc and "gmsc" in streams:
        after = streams.index("gmsc") + 1
        columns[after:after] = [("bal.", "gmsc", "balanced_accuracy"), ("AUC", "gmsc", "auc")]
    lines = [
        [name, *(_percent(figures.get(name, {}).get(s), key) for _, s, key in columns)]
        for name in rows
    ]
    return _table([title, *(heading for heading, _, _ in columns)], lines)


def log_loss_table(
    title: str, figures: Figures, names: Sequence[str], *, rows: Sequence[str] = ROWS
) -> str:
    """Log losses by stream."""

    def cell(name: str, stream: str) -> str:
        return _cell(figures.get(name, {}).get(stream), "log_loss", lambda v: f"{v:.3f}"[:5])

    return _by_stream(title, figures, names, rows, cell)


def kappa_table(
    title: str, figures: Figures, names: Sequence[str], *, rows: Sequence[str] = ROWS
) -> str:
    """Kappa temporal: of what "no change" misses, the part that is right; below 0 where less is."""

    def cell(name: str, stream: str) -> str:
        if not all(finished(figures, who, stream) for who in (name, BASELINES[0])):
            return "-"
        right, unchanged = (figures[who][stream]["accuracy"] for who in (name, BASELINES[0]))
        return f"{(right - unchanged) / (1 - unchanged):.3f}"[:5].removesuffix(".")

    return _by_stream(title, figures, names, rows, cell)


def _by_stream(
    title: str,
    figures: Figures,
    names: Sequence[str],
    rows: Sequence[str],
    cell: Callable[[str, str], str],
) -> str:
    streams = streams_of(figures, names)
    lines = [[name, *(cell(name, s) for s in streams)] for name in rows]
    return _table([title, *(STREAMS[s][0] for s in streams)], lines)


def _percent(one: Mapping[str, Any] | None, key: str) -> str:
    """At most five characters, so that a column of them is not wider than its heading."""
    return _cell(one, key, lambda value: f"{100 * value:.2f}")[:5]


def _cell(one: Mapping[str, Any] | None, key: str, form: Any) -> str:
    """A dash where there was no run, a tilde before what is of a part of the stream."""
    if one is None:
        return "-"
    ended = one.get("ended", "")
    if key not in one:
        return "slow" if ended == "too slow" else "fail."
    return ("~" if ended else "") + str(form(one[key]))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Nothing without columns; no row of which nothing is known."""
    known = [row for row in rows if set(row[1:]) - {"-"}]
    return common.table(header, known) if len(header) > 1 and known else ""


def errors(title: str, key: str, late: str, figures: Figures, *, rows: Sequence[str] = ROWS) -> str:
    """Errors of numbers by stream, and the mean rank."""
    streams = streams_of(figures, NUMBERS)
    ranks = mean_ranks(figures, streams, key, _ranked(rows))
    lines = []
    for name in rows:
        found = figures.get(name, {})
        cells = [_cell(found.get(s), key, short) for s in streams]
        lines.append([name, *cells, _place(ranks, name)])
    header = [f"{title}, {late}", *(STREAMS[s][0] for s in streams), "mean rank"]
    return _table(header, lines) if streams else ""


def _ranked(rows: Sequence[str]) -> list[str]:
    """Return the contestants that take part in ranks: with one setting, and ours by default."""
    return [name for name in rows if name not in (*GRIDS, PLAIN_NAME)]


def short(value: float) -> str:
    return f"{value:.0e}" if value >= 1e7 else hot.short(value)


def _place(ranks: Mapping[str, float], name: str) -> str:
    return f"{ranks[name]:.2f}" if name in ranks else "-"


# --- over the streams ---------------------------------------------------------------------------

_MEANS = (("log_loss", 1, ".3f"), ("accuracy", 100, ".2f"), ("balanced_accuracy", 100, ".2f"))


def over_streams(
    title: str, figures: Figures, streams: Sequence[str], *, rows: Sequence[str] = ROWS
) -> str:
    """Means over streams of classes, of contestants that were run on all, by rank of log loss."""
    if not streams:
        return ""
    by_loss, by_accuracy = (
        mean_ranks(figures, streams, key, _ranked(rows)) for key in ("log_loss", "accuracy")
    )
    lines = []
    for name in complete(figures, rows, streams):
        means = [mean(figures, name, streams, key) for key, _, _ in _MEANS]
        cells = [
            _known(factor * value, form)
            for value, (_, factor, form) in zip(means, _MEANS, strict=True)
        ]
        rate = statistics.median(figures[name][s]["events_per_cpu_s"] for s in streams)
        cells[1:1], cells[0:0] = [_place(by_accuracy, name)], [_place(by_loss, name)]
        lines.append([name, *cells, f"{rate:,.0f}"])
    lines.sort(key=lambda line: by_loss.get(line[0], math.inf))
    header = ["rank", "log loss", "rank", "accuracy, %", "balanced, %", "events/CPU s"]
    return _table([title, *header], lines)


def where_both(
    title: str, figures: Figures, streams: Sequence[str], *, rows: Sequence[str] = ROWS
) -> str:
    """Means of ours and of each contestant with one setting, on the streams that both finished."""
    lines = []
    for name in (name for name in rows if name not in GRIDS):
        both = (NAME, name)
        there = [s for s in streams if all(finished(figures, who, s) for who in both)]
        if name != NAME and there:
            ours, theirs = (mean(figures, who, there, "accuracy") for who in both)
            cells = [f"{100 * value:.2f}" for value in (ours, theirs)]
            lines.append([name, str(len(there)), *cells, f"{100 * (ours - theirs):+.2f}"])
    return _table([title, "streams", "ours %", "theirs %", "points"], lines)


def _known(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def against_table(
    title: str,
    rivals: str,
    found: Mapping[str, Any],
    factor: float,
    names: Sequence[str] = (*FILES, *RIVERS),
) -> str:
    """Ours less the best rival of each stream, with the interval of the bootstrap."""
    rows = []
    for name in names:
        if name in found:
            one = found[name]
            low, high = factor * one["low"], factor * one["high"]
            verdict = "no" if high < -1 else "yes" if low >= -1 else "open"
            cells = [f"{factor * one['difference']:+.2f}", f"{low:+.2f} to {high:+.2f}", verdict]
            rows.append([name, one["rival"], *cells])
    return _table([title, rivals, "ours less it", "95%", "at most 1 under"], rows)


def _second(title: str, figures: Figures) -> str:
    """The rivals that are not River's; of each grid also the setting of the greatest mean."""
    streams = streams_of(figures, SECOND)
    if not streams:
        return ""
    lines: list[tuple[str, str]] = [(NAME, NAME)]
    lines += [(n, n) for n in ROWS if n != NAME and n not in (*RIVER, *BASELINES, *GRIDS)]
    for row, grid in GRIDS.items():
        best = best_mean(figures, grid, streams)
        lines += [(row, row), *([(best, best)] if best and best not in dict(lines) else [])]
    lines += [(n, n) for n in BASELINES]
    rows = []
    for name, label in lines:
        found = figures.get(name, {})
        whole = all(s in found for s in streams)
        average = 100 * mean(figures, name, streams, "accuracy") if whole else math.nan
        cells = [_percent(found.get(s), "accuracy") for s in streams]
        rows.append([label, *cells, _known(average, ".2f")])
    return _table([title, *(STREAMS[s][0] for s in streams), "mean"], rows)


# --- notes --------------------------------------------------------------------------------------


def _notes(document: Mapping[str, Any]) -> str:
    results = document["results"]
    counts: dict[int, list[str]] = {}
    for name, about in results["streams"].items():
        counts.setdefault(about["events"], []).append(name)
    lines = [f"{events:,} events: {', '.join(names)}." for events, names in counts.items()]
    for delay, found in results["delays"].items():
        missing = _missing(found["contestants"], list(results["streams"]))
        if missing:
            lines.append(f"Not run with delay {delay}: {'; '.join(missing)}.")
    packages = document["settings"]["packages"]
    lines.append(", ".join(f"{name} {version}" for name, version in packages.items()) + ".")
    return wrapped(lines)


def wrapped(lines: Sequence[str]) -> str:
    """Lines of at most 100 characters."""
    return "\n".join(
        "\n".join(textwrap.wrap(line, 100, subsequent_indent="  ", break_on_hyphens=False))
        for line in lines
    )


def _missing(figures: Figures, streams: Sequence[str]) -> list[str]:
    """Contestants and how many of their streams lack, grids and how many of their settings."""
    found = []
    for name in (*SINGLES, PLAIN_NAME):
        takes = [s for s in streams if CONTESTANTS[name].tasks == ALL or s not in NUMBERS]
        lacking = sum(s not in figures.get(name, {}) for s in takes)
        if lacking:
            found.append(name + (f" ({lacking} streams)" if lacking < len(takes) else ""))
    for row, grid in GRIDS.items():
        lacking = sum(any(s not in figures.get(name, {}) for s in streams) for name in grid)
        if lacking:
            found.append(f"{row} ({lacking} settings)")
    return found


# --- front ----------------------------------------------------------------------------------------
#
# The guide's front page: streamk beside the best of each library.
#
# The best of a library is picked for each stream in hindsight: of River's ten models, of CapyMOA's
# three, of the twelve settings of Vowpal Wabbit. All of streamk's figures are of its defaults.

LIBRARIES: dict[str, tuple[str, ...]] = {
    NAME: (NAME,),
    "River": RIVER,
    "CapyMOA": tuple(contestant.name for contestant in MOA_MODELS),
    "VW": GRIDS["VW, best of 12"],
}
CLASSES = (*FILES, *RIVERS)


def now(document: Mapping[str, Any]) -> Figures:
    """The figures where every label is known at once."""
    found: Figures = document["results"]["delays"]["0"]["contestants"]
    return found


def best_by_library(figures: Figures, stream: str) -> dict[str, tuple[float, str]]:
    """The best accuracy of each library on a stream, and whose it is; nothing of what failed."""
    found = {}
    for library, names in LIBRARIES.items():
        ended = [name for name in names if finished(figures, name, stream)]
        if ended:
            found[library] = max((figures[n][stream]["accuracy"], n) for n in ended)
    return found


def short_name(stream: str) -> str:
    """The name of a stream without what says which copy of it this is."""
    return stream.partition("_")[0]


def baseline(figures: Figures, stream: str) -> float:
    """The accuracy of the most frequent class, or of the last label, whichever is greater."""
    return max(float(figures[name][stream]["accuracy"]) for name in BASELINES)


def front(document: Mapping[str, Any]) -> str:
    """Lines on all streams: where ours is first, where not, and where nobody is significantly."""
    figures, delays = now(document), document["results"]["delays"]
    lines = [_first(delays), *_behind(figures), *_unsure(delays["0"]), *_ranks(figures)]
    return "\n".join(lines)


def _first(delays: Mapping[str, Any]) -> str:
    """Count how often each library has the most accurate model, by delay of the labels."""
    rows = []
    for delay, found in delays.items():
        counts = dict.fromkeys(LIBRARIES, 0)
        for stream in streams_of(found["contestants"], CLASSES):
            accuracies = best_by_library(found["contestants"], stream)
            counts[max(accuracies, key=lambda library: accuracies[library][0])] += 1
        late = f"labels {delay} events late" if int(delay) else "labels at once"
        rows.append([late, *map(str, counts.values())])
    return common.table(["streams on which it is first", *LIBRARIES], rows) + "\n"


def _behind(figures: Figures) -> list[str]:
    lines = [f"{NAME} is not the first, labels at once, on:"]
    for stream in streams_of(figures, CLASSES):
        found = best_by_library(figures, stream)
        ours = found.pop(NAME)[0]
        value, name = max(found.values())
        if ours < value:
            points = f"{100 * (value - ours):.2f} points behind {name}"
            lines.append(f"  {short_name(stream):<12}{points}")
    return lines


def _unsure(found: Mapping[str, Any]) -> list[str]:
    """The streams where the interval of the difference to the best rival has 0 in it."""
    lines = []
    for rivals, key in (("River's best", "against_river"), ("the others'", "against_others")):
        unsure = [
            short_name(stream)
            for stream, one in found[key].items()
            if stream in CLASSES and one["low"] <= 0 <= one["high"]
        ]
        lines.append(
            f"Not significantly different from {rivals} (95%): {', '.join(unsure) or 'none'}."
        )
    return lines


def _ranks(figures: Figures) -> list[str]:
    classes, numbers = (streams_of(figures, names) for names in (CLASSES, NUMBERS))
    return [
        _rank(f"Mean rank, accuracy, {len(classes)} streams", figures, classes, "accuracy"),
        _rank(f"Mean rank, MAE, {len(numbers)} streams of numbers", figures, numbers, "mae"),
    ]


def _rank(title: str, figures: Figures, streams: Sequence[str], key: str) -> str:
    ranks = mean_ranks(figures, streams, key)
    second, name = min((rank, name) for name, rank in ranks.items() if name != NAME)
    return f"{title}: {ranks[NAME]:.2f} of {len(ranks)}; the next, {name}: {second:.2f}."
