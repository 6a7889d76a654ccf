"""The picture of the guide's front page: accuracy on every stream of classes, as a PNG file.

`python -m benchmarks.river_battery.plots` draws it anew from the results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks import common
from benchmarks.oasis import plots as style
from benchmarks.river_battery import front, standing
from benchmarks.river_battery.ours import NAME

# Colours of Okabe and Ito, which the colour-blind tell apart; the markers differ, too.
_MARKS: dict[str, dict[str, Any]] = {
    NAME: {"color": "#d55e00", "marker": "o", "markersize": 9},
    "River": {"color": "#0072b2", "marker": "s", "markersize": 6},
    "CapyMOA": {"color": "#009e73", "marker": "D", "markersize": 6},
    "VW": {"color": "#000000", "marker": "x", "markersize": 6, "markeredgewidth": 1.8},
}
_LANES = (-0.25, -0.05, 0.1, 0.28)
"""How far below the line of a stream each mark stands: marks of the same accuracy stay apart."""
_LEAST = 40
_RC = style.RC | {"font.size": 11, "axes.grid": False}


def draw(document: Mapping[str, Any], directory: Path = style.DIRECTORY) -> Path:
    """Draw the best of each library on each stream; return the file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "accuracy.png"
    with mpl.rc_context(_RC):
        style.save(_accuracy(front.now(document)), path)
    return path


def _accuracy(figures: front.Figures) -> Figure:
    streams = standing.streams_of(figures, front.CLASSES)
    figure = Figure(figsize=(8.2, 1.6 + 0.42 * len(streams)), layout="constrained")
    panel = figure.subplots()
    rows = range(len(streams))
    panel.barh(list(rows)[::2], 100, height=1, color="#f3f3f3", zorder=0)
    zeros = [100 * front.baseline(figures, stream) for stream in streams]
    bar = {"color": "#999999", "markersize": 17, "markeredgewidth": 2}
    panel.plot(zeros, rows, "|", label="no model", **bar)
    found = [front.best(figures, stream) for stream in streams]
    for lane, (library, mark) in zip(_LANES, _MARKS.items(), strict=True):
        there = [row for row in rows if library in found[row]]
        values = [100 * found[row][library][0] for row in there]
        label = library if library == NAME else f"best of {library}"
        panel.plot(values, [row + lane for row in there], linestyle="", label=label, **mark)
    panel.set_yticks(rows, [front.short(stream) for stream in streams])
    panel.set(xlim=(_LEAST, 101), ylim=(len(streams) - 0.5, -0.5))
    panel.set_xlabel("accuracy, %: each event is predicted before it is learned")
    panel.grid(axis="x", alpha=0.4)
    panel.spines["left"].set_visible(False)
    panel.tick_params(left=False)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def main() -> int:
    document = json.loads((common.RESULTS / "river_battery.json").read_text(encoding="utf-8"))
    common.note(f"drawn: {draw(document).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
