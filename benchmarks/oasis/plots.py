"""The paper's Figures 5, 6 and 7 as PNG files.

`python -m benchmarks.oasis.plots` draws them anew from the results.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from benchmarks import common

DIRECTORY = common.ROOT / "docs" / "figures"
ADAPTIVE = ("oASIS", "leverage scores", "k-means", "Farahat", "RPCholesky", "RPCholesky, blocks")
_STYLE: dict[str, dict[str, Any]] = {
    "oASIS": {"color": "#d1495b", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "uniform": {"color": "#8d99ae", "marker": "s"},
    "leverage scores": {"color": "#9467bd", "marker": "v"},
    "k-means": {"color": "#edae49", "marker": "D"},
    "Farahat": {"color": "#2a7f62", "marker": "^"},
    "RPCholesky": {"color": "#00798c", "marker": "P"},
    "RPCholesky, blocks": {"color": "#30638e", "marker": "X", "linestyle": "--"},
}
_FLOOR = 1e-17
"""What an error of 0 is drawn as."""
RC = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}


def draw(found: Mapping[str, Any], directory: Path = DIRECTORY) -> list[Path]:
    """Draw what `curves.measure` has found, a file for each figure."""
    directory.mkdir(parents=True, exist_ok=True)
    figures = {"recovery": _recovery, "errors": _errors, "seconds": _seconds}
    paths = []
    with mpl.rc_context(RC):
        for name, drawing in figures.items():
            paths.append(directory / f"oasis_{name}.png")
            save(drawing(found), paths[-1])
            common.note(f"  drawn: {paths[-1].name}")
    return paths


def save(figure: Figure, path: Path) -> None:
    """As a PNG of few colours, which is a third as large."""
    canvas = io.BytesIO()
    figure.savefig(canvas, dpi=110)
    Image.open(canvas).convert("RGB").quantize(64).save(path, optimize=True)


def _recovery(found: Mapping[str, Any]) -> Figure:
    """Figure 5."""
    one = found["recovery"]
    figure = Figure(figsize=(8, 3.3), layout="constrained")
    errors, ranks = figure.subplots(1, 2)
    for number, drawn in enumerate(one["uniform"]):
        style = _STYLE["uniform"] | {"label": "uniform, five draws" if not number else None}
        steps = range(len(drawn["ranks"]))
        errors.plot(steps, _above(drawn["errors"]), alpha=0.75, **style)
        # Draws of the same rank would hide each other.
        ranks.plot(steps, [r + 0.04 * (number - 2) for r in drawn["ranks"]], alpha=0.75, **style)
    steps = range(len(one["oASIS"]["ranks"]))
    errors.plot(steps, _above(one["oASIS"]["errors"]), label="oASIS", **_STYLE["oASIS"])
    ranks.plot(steps, one["oASIS"]["ranks"], label="oASIS", **_STYLE["oASIS"])
    errors.set(yscale="log", xlabel="columns", ylabel="relative error")
    errors.set_title("Gram matrix of rank 3: error")
    ranks.set(xlabel="columns", ylabel="rank of the approximation", yticks=range(one["rank"] + 1))
    ranks.set_title("rank")
    ranks.legend(loc="lower right")
    return figure


def _errors(found: Mapping[str, Any]) -> Figure:
    """Figure 6."""
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    axes = figure.subplots(2, 2).flat
    for name, one in found["errors"].items():
        panel = next(axes)
        for method, curve in one["methods"].items():
            panel.plot(one["landmarks"], _above(curve["errors"]), **_of(method))
        panel.set(yscale="log", xlabel="columns", ylabel="relative error")
        panel.set_title(f"{name}, n={one['n']:,}")
    panel, times = next(axes), found["times"]
    for method, seconds in times["seconds"].items():
        panel.plot(times["n"][: len(seconds)], seconds, **_of(method))
    panel.set(xscale="log", yscale="log", xlabel="n", ylabel="seconds")
    panel.set_xticks(times["n"], [f"{n:,}" for n in times["n"]])
    panel.set_xticks([], minor=True)
    panel.set_title(f"Two Moons, {times['landmarks']} columns: time")
    _legend(figure, panel)
    return figure


def _seconds(found: Mapping[str, Any]) -> Figure:
    """Figure 7."""
    names = list(found["errors"])
    figure = Figure(figsize=(9, 9), layout="constrained")
    grid = figure.subplots(len(names), 2, squeeze=False)
    for (left, right), name in zip(grid, names, strict=True):
        one = found["errors"][name]
        for method in ADAPTIVE:
            curve = one["methods"][method]
            left.plot(curve["seconds"], _above(curve["errors"]), **_of(method))
            right.plot(curve["seconds"], one["landmarks"], **_of(method))
        left.set(xscale="log", yscale="log", xlabel="seconds", ylabel="relative error")
        right.set(xscale="log", xlabel="seconds", ylabel="columns")
        left.set_title(f"{name}, n={one['n']:,}: error")
        right.set_title(f"{name}: columns")
    _legend(figure, grid[0][0])
    return figure


def _legend(figure: Figure, panel: Axes) -> None:
    lines, labels = panel.get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=4)


def _of(method: str) -> dict[str, Any]:
    return {"label": method, **_STYLE[method]}


def _above(errors: list[float]) -> list[float]:
    return [max(error, _FLOOR) for error in errors]


def main() -> int:
    document = json.loads((common.RESULTS / "oasis.json").read_text(encoding="utf-8"))
    draw(document["results"]["curves"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
