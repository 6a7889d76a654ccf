"""The tables of the battery, at most 100 columns wide."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common, hot
from benchmarks.river_battery import standing
from benchmarks.river_battery.contestant import ALL
from benchmarks.river_battery.field import BASELINES, CONTESTANTS, GRIDS, RIVER, SINGLES
from benchmarks.river_battery.ours import NAME, PLAIN_NAME
from benchmarks.river_battery.standing import Figures
from benchmarks.river_battery.streams import FILES, NUMBERS, RIVERS, STREAMS

ROWS = (NAME, PLAIN_NAME, *SINGLES[1 : -len(BASELINES)], *GRIDS, *BASELINES)
"""The lines of the tables."""


def render(document: Mapping[str, Any]) -> str:
    """All tables, by delay; then the goals, what the streams are, and where it was measured."""
    results = document["results"]
    parts = [_delayed(int(delay), found) for delay, found in results["delays"].items()]
    parts += [_notes(document), common.origin(document)]
    return "\n\n".join(part for part in parts if part)


def _delayed(delay: int, found: Mapping[str, Any]) -> str:
    figures = standing.with_grids(found["contestants"])
    late = f"{delay} late" if delay else "at once"
    classes = standing.streams_of(figures, (*FILES, *RIVERS))
    tables = [
        accuracy(f"accuracy, %, {late}", figures, FILES, gmsc=True),
        accuracy(f"accuracy, %, {late}", figures, RIVERS),
        over_streams(f"{late}, all of these", figures, classes),
        over_streams(f"{late}, without spam", figures, standing.without(classes, standing.WIDE)),
        where_both(f"{late}, where both finished", figures, classes),
        against(f"points, {late}", "best of River", found["against_river"], 100),
        _second(f"second table, {late}", figures),
        against(f"points, {late}", "best of others", found["against_others"], 100, standing.SECOND),
        errors("MAE", "mae", late, figures),
        errors("RMSE", "rmse", late, figures),
        against(f"% of its MAE, {late}", "best of River", found["against_river"], 100, NUMBERS),
        _goals(f"goals, {late}", found["goals"]),
    ]
    return "\n\n".join(table for table in tables if table)


# --- scores by stream ---------------------------------------------------------------------------


def accuracy(
    title: str,
    figures: Figures,
    names: Sequence[str],
    *,
    rows: Sequence[str] = ROWS,
    gmsc: bool = False,
) -> str:
    """Percents; of gmsc, where nearly all are of one class, also balanced ones and the AUC."""
    streams = standing.streams_of(figures, names)
    columns = [(STREAMS[s][0], s, "accuracy") for s in streams]
    if gmsc and "gmsc" in streams:
        after = streams.index("gmsc") + 1
        columns[after:after] = [("bal.", "gmsc", "balanced_accuracy"), ("AUC", "gmsc", "auc")]
    lines = [
        [name, *(_percent(figures.get(name, {}).get(s), key) for _, s, key in columns)]
        for name in rows
    ]
    return _table([title, *(heading for heading, _, _ in columns)], lines)


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
    streams = standing.streams_of(figures, NUMBERS)
    ranks = standing.mean_ranks(figures, streams, key, _ranked(rows))
    lines = []
    for name in rows:
        found = figures.get(name, {})
        cells = [_cell(found.get(s), key, short) for s in streams]
        lines.append([name, *cells, _place(ranks, name)])
    header = [f"{title}, {late}", *(STREAMS[s][0] for s in streams), "mean rank"]
    return _table(header, lines) if streams else ""


def _ranked(rows: Sequence[str]) -> list[str]:
    """Those of one setting, ours with its defaults alone."""
    return [name for name in rows if name not in (*GRIDS, PLAIN_NAME)]


def short(value: float) -> str:
    return f"{value:.0e}" if value >= 1e7 else hot.short(value)


def _place(ranks: Mapping[str, float], name: str) -> str:
    return f"{ranks[name]:.2f}" if name in ranks else "-"


# --- over the streams ---------------------------------------------------------------------------

_MEANS = (("accuracy", 100, ".2f"), ("balanced_accuracy", 100, ".2f"), ("log_loss", 1, ".3f"))


def over_streams(
    title: str, figures: Figures, streams: Sequence[str], *, rows: Sequence[str] = ROWS
) -> str:
    """Means over streams of classes, by mean rank, of the contestants that were run on all."""
    if not streams:
        return ""
    ranks = standing.mean_ranks(figures, streams, "accuracy", _ranked(rows))
    lines = []
    for name in standing.complete(figures, rows, streams):
        means = [standing.mean(figures, name, streams, key) for key, _, _ in _MEANS]
        cells = [
            _known(factor * value, form)
            for value, (_, factor, form) in zip(means, _MEANS, strict=True)
        ]
        rate = statistics.median(figures[name][s]["events_per_cpu_s"] for s in streams)
        lines.append([name, _place(ranks, name), *cells, f"{rate:,.0f}"])
    lines.sort(key=lambda line: ranks.get(line[0], math.inf))
    header = [title, "mean rank", "mean %", "balanced %", "log loss", "events/CPU s"]
    return _table(header, lines)


def where_both(
    title: str, figures: Figures, streams: Sequence[str], *, rows: Sequence[str] = ROWS
) -> str:
    """Means of ours and of each contestant with one setting, on the streams that both finished."""
    lines = []
    for name in (name for name in rows if name not in GRIDS):
        both = (NAME, name)
        there = [s for s in streams if all(standing.finished(figures, who, s) for who in both)]
        if name != NAME and there:
            ours, theirs = (standing.mean(figures, who, there, "accuracy") for who in both)
            cells = [f"{100 * value:.2f}" for value in (ours, theirs)]
            lines.append([name, str(len(there)), *cells, f"{100 * (ours - theirs):+.2f}"])
    return _table([title, "streams", "ours %", "theirs %", "points"], lines)


def _known(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def against(
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
    streams = standing.streams_of(figures, standing.SECOND)
    if not streams:
        return ""
    lines: list[tuple[str, str]] = [(NAME, NAME)]
    lines += [(n, n) for n in ROWS if n != NAME and n not in (*RIVER, *BASELINES, *GRIDS)]
    for row, grid in GRIDS.items():
        best = standing.best_mean(figures, grid, streams)
        lines += [(row, row), *([(best, best)] if best and best not in dict(lines) else [])]
    lines += [(n, n) for n in BASELINES]
    rows = []
    for name, label in lines:
        found = figures.get(name, {})
        whole = all(s in found for s in streams)
        average = 100 * standing.mean(figures, name, streams, "accuracy") if whole else math.nan
        cells = [_percent(found.get(s), "accuracy") for s in streams]
        rows.append([label, *cells, _known(average, ".2f")])
    return _table([title, *(STREAMS[s][0] for s in streams), "mean"], rows)


# --- goals and notes ----------------------------------------------------------------------------


def _goals(title: str, goals: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            one["case"],
            f"{one['figure']['median']:.4g}",
            one["goal"],
            "yes" if one["reached"] else "no",
        ]
        for one in goals
    ]
    return _table([title, "figure", "goal", "reached"], rows)


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
