"""Pictures of the guide, from the results: `python -m benchmarks.plots [NAME ...]`.

river_battery      the guide's front page: accuracy on every stream of classes
fast_prediction    accuracy by the time of a prediction, a panel for each data set
doubly_stochastic  the distance to the optimum by t, as Theorem 4 has it
cost               errors of the default model by events a second, for each effort
memory_of_streams  errors with and without the labels known so far
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from benchmarks import battery_tables as battery
from benchmarks import common, cost
from benchmarks import fast_prediction as fast
from benchmarks.rivals import NAME

DIRECTORY = common.ROOT / "docs" / "figures"
RC = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
}
Draw = Callable[[Mapping[str, Any]], Figure]
# Colours of Okabe and Ito, which the colour-blind tell apart; the markers differ, too.
_ORANGE, _BLUE, _SKY, _GREEN, _PINK = "#d55e00", "#0072b2", "#56b4e9", "#009e73", "#cc79a7"
_BLACK, _GREY = "#000000", "#777777"


def draw(name: str, document: Mapping[str, Any], directory: Path = DIRECTORY) -> Path:
    """Draw a picture of `PICTURES` from the results of its benchmark; return the file."""
    file, drawing, changes = PICTURES[name]
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / file
    with mpl.rc_context(RC | changes):
        canvas = io.BytesIO()
        drawing(document).savefig(canvas, dpi=110)
    # Few colours make a file a third as large.
    Image.open(canvas).convert("RGB").quantize(64).save(path, optimize=True)
    return path


# --- the river battery --------------------------------------------------------------------------

_MARKS: dict[str, dict[str, Any]] = {
    NAME: {"color": _ORANGE, "marker": "o", "markersize": 9},
    "River": {"color": _BLUE, "marker": "s", "markersize": 6},
    "CapyMOA": {"color": _GREEN, "marker": "D", "markersize": 6},
    "VW": {"color": _BLACK, "marker": "x", "markersize": 6, "markeredgewidth": 1.8},
}
_LANES = (-0.25, -0.05, 0.1, 0.28)
"""How far below the line of a stream each mark stands: marks of the same accuracy stay apart."""
_LEAST = 40


def _battery(document: Mapping[str, Any]) -> Figure:
    """The best of each library on each stream of classes."""
    figures = battery.now(document)
    streams = battery.streams_of(figures, battery.CLASSES)
    figure = Figure(figsize=(8.2, 1.6 + 0.42 * len(streams)), layout="constrained")
    panel = figure.subplots()
    rows = range(len(streams))
    panel.barh(list(rows)[::2], 100, height=1, color="#f3f3f3", zorder=0)
    zeros = [100 * battery.baseline(figures, stream) for stream in streams]
    bar = {"color": "#999999", "markersize": 17, "markeredgewidth": 2}
    panel.plot(zeros, rows, "|", label="no model", **bar)
    found = [battery.best_by_library(figures, stream) for stream in streams]
    for lane, (library, mark) in zip(_LANES, _MARKS.items(), strict=True):
        there = [row for row in rows if library in found[row]]
        values = [100 * found[row][library][0] for row in there]
        label = library if library == NAME else f"best of {library}"
        panel.plot(values, [row + lane for row in there], linestyle="", label=label, **mark)
    panel.set_yticks(rows, [battery.short_name(stream) for stream in streams])
    panel.set(xlim=(_LEAST, 101), ylim=(len(streams) - 0.5, -0.5))
    panel.set_xlabel("accuracy, %: each event is predicted before it is learned")
    panel.grid(axis="x", alpha=0.4)
    panel.spines["left"].set_visible(False)
    panel.tick_params(left=False)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


# --- fast prediction ----------------------------------------------------------------------------

_KINDS: dict[str, dict[str, Any]] = {
    "dc_pred": {"color": _ORANGE, "marker": "o", "linewidth": 2.2, "zorder": 5},
    fast.COMPILED: {"color": _BLUE, "marker": "s"},
    fast.INTERPRETED: {"color": _SKY, "marker": "D"},
    "SVC": {"color": _GREEN, "marker": "^", "markersize": 7},
    "DC-SVM": {"color": _PINK, "marker": "v", "markersize": 7},
    "linear, fused": {"color": _BLACK, "marker": "x", "markersize": 6, "markeredgewidth": 1.8},
    "LinearSVC": {"color": _GREY, "marker": "+", "markersize": 8, "markeredgewidth": 1.8},
}
_PAPER = {
    "color": "#edae49",
    "marker": "*",
    "markersize": 11,
    "markeredgecolor": _BLACK,
    "markeredgewidth": 0.6,
    "zorder": 6,
}
_COLUMNS = 2


def _fast_prediction(document: Mapping[str, Any]) -> Figure:
    """Accuracy by the time of a prediction, of the data sets of both parts."""
    sets: dict[str, Any] = {}
    for part in ("classes", "kddcup"):
        found = document["results"].get(part, {})
        sets |= {name: one for name, one in found.items() if name != "origin"}
    rows = math.ceil(len(sets) / _COLUMNS)
    figure = Figure(figsize=(9, 3.1 * rows + 0.8), layout="constrained")
    panels = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    entries: dict[str, Any] = {}
    for panel, (name, one) in zip(panels, sets.items(), strict=False):
        _panel(panel, name, one)
        lines, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, lines, strict=True))
    for panel in panels[len(sets) :]:
        panel.set_axis_off()
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
    return figure


def _panel(panel: Axes, name: str, one: Mapping[str, Any]) -> None:
    """The models of a data set, those of one kind joined by a line."""
    kinds: dict[str, list[tuple[float, float]]] = {}
    for model, got in one["models"].items():
        kind = model if model in _KINDS else model.rpartition(",")[0]
        kinds.setdefault(kind, []).append((got["many"], 100 * got["accuracy"]))
    for kind, points in kinds.items():
        panel.plot(*zip(*points, strict=True), label=kind, **_KINDS[kind])
    if name in fast.PAPER:
        ratio, accuracy, _ = fast.PAPER[name]
        microseconds = ratio * one["models"]["linear, fused"]["many"]
        label = "the paper's, of its own rows"
        panel.plot([microseconds], [100 * accuracy], linestyle="", label=label, **_PAPER)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(numticks=9))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.set(xlabel="µs for an event among 10,000", ylabel="accuracy, %")
    panel.set_title(f"{name}, {one['rows']:,} rows")


# --- doubly stochastic gradients ----------------------------------------------------------------


def _rate(document: Mapping[str, Any]) -> Figure:
    """Mean squared distances to the optimum by t, of the learner's own rule of steps."""
    found = document["results"]["rate"]
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    panel = figure.subplots()
    t = np.array(found["stops"], float)
    rows = [row for row in found["rows"] if row["rule"] == "the learner's" and row["errors"]]
    for row, colour, marker in zip(rows, (_ORANGE, _BLUE, _GREEN, _PINK), "osD^", strict=False):
        label = f"nu {row['nu']:g}: slope {row['slope']['mean']:.2f}"
        errors = [at["mean"] for at in row["errors"]]
        panel.plot(t, errors, label=label, color=colour, marker=marker)
    panel.plot(t, 1e-3 * t[0] / t, color=_BLACK, linewidth=0.8, linestyle=":", label="1 / t")
    panel.set(xscale="log", yscale="log", xlabel="t", ylabel="E |f_t - f*|²")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.legend(fontsize="small")
    return figure


# --- cost ---------------------------------------------------------------------------------------

_APART = 0.3
"""Logarithm of the ratio of rates below which points have one label."""
_RIVALS = dict(
    zip(cost.RIVALS, ((_GREEN, "^"), (_BLUE, "s"), (_PINK, "D"), (_SKY, "v")), strict=True)
)


def _cost(document: Mapping[str, Any]) -> Figure:
    """Errors relative to effort 0 by events a second: ours joined by a line, a point a rival."""
    found = cost.summary(document["results"]["runs"])
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    panel = figure.subplots()
    efforts = [name for name in found if name not in cost.RIVALS]
    points = [(found[name]["rate"], found[name]["error"]) for name in efforts]
    label = f"{NAME}, by effort"
    panel.plot(*zip(*points, strict=True), label=label, color=_ORANGE, marker="o", linewidth=2.2)
    near: list[tuple[str, tuple[float, float]]] = []
    for name, point in zip(efforts, points, strict=True):
        short = name.removeprefix("effort ")
        if near and abs(math.log(near[-1][1][0] / point[0])) < _APART:
            near[-1] = f"{near[-1][0]}, {short}", near[-1][1]
        else:
            near.append((short, point))
    for short, point in near:
        panel.annotate(short, point, (0, -16), textcoords="offset points", ha="center")
    for name, (colour, marker) in _RIVALS.items():
        if name in found:
            one = found[name]
            mark = {"color": colour, "marker": marker, "linestyle": "", "markersize": 7}
            label = f"{name} ({one['streams']} streams)"
            panel.plot([one["rate"]], [one["error"]], label=label, **mark)
    panel.margins(0.12)
    panel.set(xscale="log", xlabel="events a second of the processor")
    panel.set_ylabel("error relative to effort 0, mean over streams")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.legend()
    return figure


def _memory(document: Mapping[str, Any]) -> Figure:
    """Errors of streams of numbers relative to the model without memory, by delay of labels."""
    found = document["results"]["labels"]
    streams = [name for name in found if name != "origin"]
    who = {"LightGBM + 3 labels": (_GREY, "s"), "streamk": (_ORANGE, "o")}
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    panels: Any = figure.subplots(1, 2, sharey=True)
    for panel, delay in zip(panels, ("0", "48"), strict=True):
        for name, (colour, marker) in who.items():
            at = [n for n, stream in enumerate(streams) if name in found[stream][delay]]
            parts = [
                found[streams[n]][delay][name]["mae"] / found[streams[n]][delay]["without"]["mae"]
                for n in at
            ]
            panel.plot(parts, at, marker, color=colour, label=name, markersize=7)
        panel.axvline(1.0, color=_BLACK, linewidth=0.8)
        panel.set_yticks(range(len(streams)), streams)
        panel.set_title("labels at once" if delay == "0" else f"labels {delay} events late")
        panel.set_xlabel("MAE relative to memory=False")
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


PICTURES: dict[str, tuple[str, Draw, dict[str, Any]]] = {
    "river_battery": ("accuracy.png", _battery, {"font.size": 11, "axes.grid": False}),
    "fast_prediction": ("fast_prediction.png", _fast_prediction, {}),
    "doubly_stochastic": ("doubly_stochastic_rate.png", _rate, {}),
    "cost": ("cost.png", _cost, {}),
    "memory_of_streams": ("memory_of_streams.png", _memory, {}),
}
"""File, drawing and changes of style, by the name of the results."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(PICTURES))
    for name in parser.parse_args(argv).names or PICTURES:
        text = (common.RESULTS / f"{name}.json").read_text(encoding="utf-8")
        common.note(f"drawn: {draw(name, json.loads(text)).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
