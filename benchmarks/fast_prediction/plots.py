"""Accuracy by time, and errors by cost, of predictions: a panel for each data set, as PNG files.

`python -m benchmarks.fast_prediction.plots` draws it anew from the results.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks import common
from benchmarks.fast_prediction import boosting
from benchmarks.fast_prediction.classes import PAPER
from benchmarks.oasis import plots as style

# Colours of Okabe and Ito, which the colour-blind tell apart; the markers differ, too.
_STYLE: dict[str, dict[str, Any]] = {
    "dc_pred": {"color": "#d55e00", "marker": "o", "linewidth": 2.2, "zorder": 5},
    boosting.COMPILED: {"color": "#0072b2", "marker": "s"},
    boosting.INTERPRETED: {"color": "#56b4e9", "marker": "D"},
    "SVC": {"color": "#009e73", "marker": "^", "markersize": 7},
    "DC-SVM": {"color": "#cc79a7", "marker": "v", "markersize": 7},
    "linear, fused": {"color": "#000000", "marker": "x", "markersize": 6, "markeredgewidth": 1.8},
    "LinearSVC": {"color": "#777777", "marker": "+", "markersize": 8, "markeredgewidth": 1.8},
}
_PAPER = {
    "color": "#edae49",
    "marker": "*",
    "markersize": 11,
    "markeredgecolor": "#000000",
    "markeredgewidth": 0.6,
    "zorder": 6,
}
_RC = style.RC | {"lines.markersize": 5}
_COLUMNS, _ACROSS = 2, 3


def draw(document: Mapping[str, Any], directory: Path = style.DIRECTORY) -> list[Path]:
    """Draw accuracies of the parts "classes" and "kddcup", then errors; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    results = document["results"]
    accuracies, errors = (directory / f"fast_prediction{suffix}.png" for suffix in ("", "_errors"))
    with mpl.rc_context(_RC):
        style.save(_accuracy(_sets(results)), accuracies)
        style.save(_errors(_regressions(results["numbers"]), _kernels(results)), errors)
    return [accuracies, errors]


def _sets(results: Mapping[str, Any]) -> dict[str, Any]:
    """The data sets of both parts that were measured."""
    found: dict[str, Any] = {}
    for part in ("classes", "kddcup"):
        found |= {name: one for name, one in results.get(part, {}).items() if name != "origin"}
    return found


Lines = dict[str, list[tuple[float, float]]]
"""Points by the name of their line."""


def _regressions(found: Mapping[str, Any]) -> dict[str, Lines]:
    """Budgets and errors of each data set, as in the paper's Figure 3."""
    return {
        name: {
            model: [(float(budget), at[model]["mean"]) for budget, at in one.items()]
            for model in next(iter(one.values()))
        }
        for name, one in found.items()
        if name != "origin"
    }


def _kernels(results: Mapping[str, Any]) -> dict[str, Lines]:
    """Costs and errors of approximate kernels, as in the paper's Figure 1."""
    return {
        f"{one['set']}, bandwidth {one['bandwidth']['mean']:.3g}": {
            label: [(at["cost"]["mean"], at["error"]["mean"]) for at in points.values()]
            for label, points in one["lines"].items()
        }
        for one in results["approximation"]["sets"]
    }


def _errors(regressions: Mapping[str, Lines], kernels: Mapping[str, Lines]) -> Figure:
    rows = math.ceil(len(kernels) / _ACROSS)
    figure = Figure(figsize=(9, 3.2 * (1 + rows)), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, rows])
    flops = "multiply-adds over a linear model's"
    _grid(above, regressions, "error of regressions", f"{flops}, at most")
    _grid(below, kernels, "error of the kernel matrix", flops)
    return figure


def _grid(figure: Any, sets: Mapping[str, Lines], ylabel: str, xlabel: str) -> None:
    """A panel for each data set, and one legend."""
    rows = math.ceil(len(sets) / _ACROSS)
    panels = figure.subplots(rows, _ACROSS, squeeze=False)
    colours = [each["color"] for each in _STYLE.values()]
    for panel, (name, lines) in zip(panels.flat, sets.items(), strict=True):
        for (label, points), colour, marker in zip(lines.items(), colours, "osD^v+x", strict=False):
            panel.plot(*zip(*points, strict=True), label=label, color=colour, marker=marker)
        panel.set(xscale="log", yscale="log")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        panel.set_title(name.replace("_california_housing", ""))
    panels[-1, _ACROSS // 2].set_xlabel(xlabel)
    figure.supylabel(ylabel, fontsize="medium")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _accuracy(sets: Mapping[str, Any]) -> Figure:
    rows = math.ceil(len(sets) / _COLUMNS)
    figure = Figure(figsize=(9, 3.1 * rows + 0.8), layout="constrained")
    panels = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for panel, (name, one) in zip(panels, sets.items(), strict=False):
        _panel(panel, name, one)
    for panel in panels[len(sets) :]:
        panel.set_axis_off()
    entries = {
        label: line
        for panel in panels[: len(sets)]
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
    return figure


def _panel(panel: Axes, name: str, one: Mapping[str, Any]) -> None:
    """The models of a data set, those of one kind joined by a line."""
    for kind, points in _kinds(one["models"]).items():
        panel.plot(*zip(*points, strict=True), label=kind, **_STYLE[kind])
    if name in PAPER:
        ratio, accuracy, _ = PAPER[name]
        microseconds = ratio * one["models"]["linear, fused"]["many"]
        label = "the paper's, of its own rows"
        panel.plot([microseconds], [100 * accuracy], linestyle="", label=label, **_PAPER)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(numticks=9))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.set(xlabel="µs for an event among 10,000", ylabel="accuracy, %")
    panel.set_title(f"{name}, {one['rows']:,} rows")


def _kinds(models: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Microseconds and percents by kind of model; names are a kind, or it and a size."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, got in models.items():
        kind = name if name in _STYLE else name.rpartition(",")[0]
        found.setdefault(kind, []).append((got["many"], 100 * got["accuracy"]))
    return found


def main() -> int:
    document = json.loads((common.RESULTS / "fast_prediction.json").read_text(encoding="utf-8"))
    common.note(f"drawn: {', '.join(path.name for path in draw(document))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
