"""Figure 1 of the paper with our figures, and the rate of Theorem 4, as PNG files.

`python -m benchmarks.doubly_stochastic.plots` draws them anew from the results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks import common
from benchmarks.doubly_stochastic import mnist, mnist_long, rate
from benchmarks.doubly_stochastic.figure1 import NAMES
from benchmarks.oasis import plots as style

# Colours of Okabe and Ito, which the colour-blind tell apart; the markers differ, too.
_STYLE: dict[str, dict[str, Any]] = {
    "doubly stochastic": {"color": "#d55e00", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "2^13 features, all in each step": {"color": "#edae49", "marker": "D", "linewidth": 2.0},
    "NORMA": {"color": "#0072b2", "marker": "s"},
    "k-SDCA": {"color": "#56b4e9", "marker": "^"},
    "r-Pegasos": {"color": "#009e73", "marker": "v"},
    "r-SDCA": {"color": "#009e73", "marker": "x", "linestyle": "--"},
    "n-Pegasos": {"color": "#777777", "marker": "P"},
    "n-SDCA": {"color": "#777777", "marker": "+", "linestyle": "--"},
}
_PARTS = ("figure1", "figure1_mnist", "figure1_forest")


def draw(document: Mapping[str, Any], directory: Path = style.DIRECTORY) -> list[Path]:
    """Draw the parts that were measured; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    results = document["results"]
    races = [results[part] for part in _PARTS if part in results]
    drawn = {
        "doubly_stochastic": (_races, races),
        "doubly_stochastic_rate": (_rate, results.get("rate")),
        "doubly_stochastic_molecules": (_molecules, results.get("qm7")),
        "doubly_stochastic_hour": (_hour, results.get("mnist_hour")),
    }
    paths = []
    with mpl.rc_context(style.RC):
        for name, (drawing, found) in drawn.items():
            if found:
                paths.append(directory / f"{name}.png")
                style.save(drawing(found), paths[-1])
    return paths


def _races(races: list[Mapping[str, Any]]) -> Figure:
    """Errors by events of the first pass, above, and by seconds, below."""
    figure = Figure(figsize=(3.4 * len(races) + 0.6, 6.4), layout="constrained")
    rows = figure.subplots(2, len(races), squeeze=False)
    for (above, below), one in zip(rows.T, races, strict=True):
        for method, of in one["methods"].items():
            first, curve = _first_pass(of["runs"], one["events"]), _by_seconds(of["runs"])
            above.plot(*zip(*first, strict=True), label=method, **_STYLE[method])
            below.plot(*zip(*curve, strict=True), **_STYLE[method])
        above.set(title=NAMES[one["set"]], xlabel="events of the first pass", xscale="log")
        _whole_numbers(above)
        below.set(xlabel="seconds of learning", xscale="log")
        below.axvline(one["budget"], color="#000000", linewidth=0.8, linestyle=":")
        for panel in (above, below):
            _error_axis(panel)
    rows[0, 0].set_ylabel("test error, %")
    rows[1, 0].set_ylabel("test error, %")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _first_pass(runs: list[Mapping[str, Any]], n: int) -> list[tuple[float, float]]:
    """Events and mean errors at the stops that all runs have."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for events, _, error in run["curve"]:
            if events <= n:
                found.setdefault(events, []).append(error)
    return [(e, float(np.mean(at))) for e, at in sorted(found.items()) if len(at) == len(runs)]


def _by_seconds(runs: list[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Mean errors at seconds that all runs come to, on straight lines between their tests."""
    curves = [np.array(run["curve"]) for run in runs]
    first = max(curve[0, 1] for curve in curves)
    last = max(min(curve[-1, 1] for curve in curves), first)
    found = []
    for time in np.geomspace(first, last, 12):
        errors = [np.interp(np.log(time), np.log(curve[:, 1]), curve[:, 2]) for curve in curves]
        found.append((float(time), float(np.mean(errors))))
    return found


def _whole_numbers(panel: Any) -> None:
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.xaxis.set_minor_locator(NullLocator())


def _error_axis(panel: Axes) -> None:
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())


def _rate(found: Mapping[str, Any]) -> Figure:
    """Mean squared distances to the optimum by t."""
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    panel = figure.subplots()
    t = np.array(found["stops"], float)
    colours = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
    regularizations = list(dict.fromkeys(row["nu"] for row in found["rows"]))
    for row in found["rows"]:
        place = regularizations.index(row["nu"])
        errors = row["errors"] and np.array([at["mean"] for at in row["errors"]])
        # Of the rules of one line each the learner's own is shown.
        if errors is None or errors[0] > 1e3 or row["rule"] != rate.DEFAULT:
            continue
        label = f"nu {row['nu']:g}: slope {row['slope']['mean']:.2f}"
        panel.plot(t, errors, label=label, color=colours[place], marker="osD^"[place])
    panel.plot(t, 1e-3 * t[0] / t, color="#000000", linewidth=0.8, linestyle=":", label="1 / t")
    panel.set(xscale="log", yscale="log", xlabel="t", ylabel="E |f_t - f*|²")
    _whole_numbers(panel)
    panel.legend(fontsize="small")
    return figure


def _hour(found: Mapping[str, Any]) -> Figure:
    """Errors of ten classes by seconds, with the passes above."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    panel = figure.subplots()
    events, seconds, errors = np.array(found["curve"]).T
    panel.plot(seconds, errors, color="#d55e00", marker="o", markersize=3)
    for error, name, style_ in (
        (mnist_long.GOAL, "the goal", "--"),
        (mnist.PAPER, "the paper", ":"),
    ):
        panel.axhline(error, color="#000000", linewidth=0.8, linestyle=style_, label=name)
    panel.set(xscale="log", xlabel="seconds of processor time", ylabel="test error, %")
    _whole_numbers(panel)
    _error_axis(panel)
    panel.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0))
    )
    passes = events[-1] / found["events"] / seconds[-1]
    by_events = panel.secondary_xaxis("top", functions=(lambda s: s * passes, lambda p: p / passes))
    _whole_numbers(by_events)
    by_events.set_xlabel("passes")
    panel.legend(fontsize="small")
    return figure


_SHOWN = 500.0


def _molecules(found: Mapping[str, Any]) -> Figure:
    """Errors in energies by passes."""
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    panel = figure.subplots()
    for (name, one), colour in zip(
        found["methods"].items(),
        ("#d55e00", "#edae49", "#999999", "#009e73", "#cc79a7"),
        strict=True,
    ):
        runs = np.array(one["runs"])
        passes, errors = runs[0, :, 0], runs[:, :, 3].mean(axis=0)
        shown = errors < _SHOWN  # what diverges leaves the picture
        panel.plot(passes[shown], errors[shown], label=name, color=colour, marker="o")
    exact = found["exact"]["error"]
    panel.axhline(exact, color="#0072b2", linestyle="--", label="exact kernel ridge, sorted")
    exact = found["laplacian"]["error"]
    panel.axhline(exact, color="#0072b2", linestyle=":", label="the same, Laplacian kernel")
    panel.axhline(2.97, color="#000000", linestyle=":", label="the paper")
    panel.set(xscale="log", xlabel="passes", ylabel="mean absolute error, kcal/mol")
    _whole_numbers(panel)
    _error_axis(panel)
    panel.legend(fontsize="small")
    return figure


def main() -> int:
    path = common.RESULTS / "doubly_stochastic.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    common.note(f"drawn: {', '.join(path.name for path in draw(document))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
