"""Accuracy by the time of a prediction, a panel for each data set, as a PNG file.

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
from matplotlib.ticker import FuncFormatter, LogLocator

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
_COLUMNS = 2


def draw(document: Mapping[str, Any], directory: Path = style.DIRECTORY) -> Path:
    """Draw the parts "classes" and "kddcup"; return the file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "fast_prediction.png"
    with mpl.rc_context(_RC):
        style.save(_accuracy(_sets(document["results"])), path)
    return path


def _sets(results: Mapping[str, Any]) -> dict[str, Any]:
    """The data sets of both parts that were measured."""
    found: dict[str, Any] = {}
    for part in ("classes", "kddcup"):
        found |= {name: one for name, one in results.get(part, {}).items() if name != "origin"}
    return found


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
    common.note(f"drawn: {draw(document).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
