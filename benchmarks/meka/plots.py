"""The paper's Figures 1c, 2 to 10 and 13 as PNG files.

`python -m benchmarks.meka.plots` draws them anew from the results.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from benchmarks import common
from benchmarks.oasis import plots as style

DIRECTORY = style.DIRECTORY
_LINES: dict[str, dict[str, Any]] = {
    "MEKA": {"color": "#d1495b", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "MEKA-PSD": {"color": "#edae49", "marker": "P", "linestyle": "--"},
    "Nys": {"color": "#8d99ae", "marker": "s"},
    "RNys": {"color": "#9467bd", "marker": "v"},
    "KNys": {"color": "#2a7f62", "marker": "D"},
    "ENys": {"color": "#00798c", "marker": "^"},
    "RKS": {"color": "#30638e", "marker": "X"},
    "Fastfood": {"color": "#bc6c25", "marker": "P", "linestyle": "--"},
    "BKA": {"color": "#edae49", "marker": "^"},
    "SVD": {"color": "#333333", "marker": "", "linestyle": ":"},
    "uniform": {"color": "#8d99ae", "marker": "s"},
    "k_means": {"color": "#2a7f62", "marker": "D"},
    "randomized_svd": {"color": "#9467bd", "marker": "v"},
    "rpcholesky": {"color": "#d1495b", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "oasis": {"color": "#30638e", "marker": "X"},
    "same": {"color": "#d1495b", "marker": "o"},
    "size": {"color": "#2a7f62", "marker": "D"},
    "spectrum": {"color": "#30638e", "marker": "X"},
    "k-means": {"color": "#d1495b", "marker": "o"},
    "spectral": {"color": "#2a7f62", "marker": "D", "linestyle": "--"},
    "random": {"color": "#8d99ae", "marker": "s"},
}
_FLOOR = 1e-8
"""What an error below it is drawn as: it is rounding."""
_BYTES, _SECONDS, _ERROR = "memory, MB", "seconds", "relative error"


def draw(found: Mapping[str, Any], directory: Path = DIRECTORY) -> list[Path]:
    """Draw what `curves.measure` has found, a file for each figure or two."""
    directory.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
        "gamma": _gamma,
        "blocks": _blocks,
        "choices": _choices,
        "memory": lambda found: _compared(found, "nbytes"),
        "seconds": lambda found: _compared(found, "seconds"),
        "features": _features,
        "clusters": _clusters,
        "psd": _psd,
    }
    paths = []
    with mpl.rc_context(style.RC):
        for name, drawing in figures.items():
            paths.append(directory / f"meka_{name}.png")
            style.save(drawing(found), paths[-1])
            common.note(f"  drawn: {paths[-1].name}")
    return paths


def _gamma(found: Mapping[str, Any]) -> Figure:
    """Figures 1c and 9."""
    figure, panels = _panels(1, 3)
    one = found["1c"]
    every = {f"covtype, n={one['n']:,} (Figure 1c)": one}
    every |= {f"{_short(name)} (Figure 9)": one for name, one in found["9"].items()}
    for panel, (title, one) in zip(panels, every.items(), strict=True):
        _errors(panel, title, one["gammas"], one["errors"], "γ")
        panel.set(xscale="log")
    _legend(figure, panels[0], panels[1])
    return figure


def _blocks(found: Mapping[str, Any]) -> Figure:
    """Figures 2 and 3."""
    figure, panels = _panels(2, 2)
    for panel, (name, one) in zip(panels, found["2"].items(), strict=False):
        title = f"{_short(name)}, {one['n']} points: blocks alone (Figure 2)"
        _errors(panel, title, one["gammas"], one["errors"], "γ")
        panel.set(xscale="log", ylim=(1e-3, 1.3))
        panel.legend()
    for panel, (name, one) in zip(panels[2:], found["3"].items(), strict=True):
        for number, (line, cosines) in enumerate(one["cosines"].items()):
            panel.plot(one["counts"], cosines, marker="os"[number], label=line)
        panel.set(xlabel="leading directions", ylabel="cosine of the angles", ylim=(0, 1.03))
        panel.set_title(f"{_short(name)}, γ={one['gamma']:g} (Figure 3)")
        panel.legend()
    return figure


def _choices(found: Mapping[str, Any]) -> Figure:
    """Figures 4, 5 and 6."""
    figure, panels = _panels(3, 2)
    for column, name in enumerate(found["4"]):
        top, middle, bottom = panels[column], panels[2 + column], panels[4 + column]
        _lines(top, f"{_short(name)}: bases (Figure 4)", found["4"][name], "seconds")
        one = found["5"][name]
        middle.plot(one["seconds"], one["error"], **_LINES["MEKA"])
        for x, y, threshold in zip(one["seconds"], one["error"], one["thresholds"], strict=False):
            middle.annotate(
                f"{threshold:.2g}", (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7
            )
        middle.set(yscale="log", xlabel=_SECONDS, ylabel=_ERROR)
        _few_decades(middle.yaxis)
        middle.set_title(f"{_short(name)}: thresholds (Figure 5)")
        _lines(bottom, f"{_short(name)}: rules for ranks (Figure 6)", found["6"][name], "nbytes")
        top.legend()
        bottom.legend()
    return figure


def _compared(found: Mapping[str, Any], key: str) -> Figure:
    """Figure 7."""
    every = found["7"]
    figure, panels = _panels(2, 3)
    for column, (name, gammas) in enumerate(every.items()):
        for row, (gamma, lines) in enumerate(gammas.items()):
            shown = {one: line for one, line in lines.items() if one not in ("RKS", "Fastfood")}
            _lines(panels[3 * row + column], f"{_short(name)}, γ={gamma}", shown, key)
    _legend(figure, panels[0])
    return figure


def _features(found: Mapping[str, Any]) -> Figure:
    """Figure 8."""
    every, names = found["7"], ("MEKA", "Nys", "RKS", "Fastfood")
    figure, panels = _panels(1, 3)
    for panel, (name, gammas) in zip(panels, every.items(), strict=True):
        gamma, lines = next(iter(gammas.items()))
        _lines(panel, f"{_short(name)}, γ={gamma}", {one: lines[one] for one in names}, "nbytes")
    _legend(figure, panels[0])
    return figure


def _clusters(found: Mapping[str, Any]) -> Figure:
    """Figure 10."""
    one = found["10"]
    figure, (errors, steps) = _panels(1, 2)
    _errors(errors, "ijcnn1, γ=1", one["clusters"], one["errors"], "clusters")
    errors.legend()
    bottom = [0.0] * len(one["clusters"])
    for name, seconds in one["steps"].items():
        steps.bar([str(c) for c in one["clusters"]], seconds, bottom=bottom, label=name)
        bottom = [a + b for a, b in zip(bottom, seconds, strict=True)]
    steps.set(xlabel="clusters", ylabel=_SECONDS, title="steps of MEKA")
    steps.legend()
    return figure


def _psd(found: Mapping[str, Any]) -> Figure:
    """Figure 13."""
    figure, (memory, seconds) = _panels(1, 2)
    _lines(memory, "ijcnn1, γ=1", found["13"], "nbytes")
    _lines(seconds, "ijcnn1, γ=1", found["13"], "seconds")
    memory.legend()
    return figure


# --- panels -------------------------------------------------------------------------------------


def _panels(rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(3.3 * columns + (1.2 if columns < 3 else 0), 3 * rows + 0.4))
    figure.set_layout_engine("constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _errors(
    panel: Axes,
    title: str,
    x: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
    label: str,
) -> None:
    for name, errors in lines.items():
        shown = [math.nan if error is None else max(error, _FLOOR) for error in errors]
        panel.plot(x, shown, label=name, **_LINES[name])
    panel.set(yscale="log", xlabel=label, ylabel=_ERROR)
    panel.set_title(title)
    _few_decades(panel.yaxis)


def _lines(panel: Axes, title: str, lines: Mapping[str, Any], key: str) -> None:
    unit = 1e6 if key == "nbytes" else 1.0
    for name, one in lines.items():
        panel.plot([x / unit for x in one[key]], one["error"], label=name, **_LINES[name])
    panel.set(yscale="log", xlabel=_BYTES if key == "nbytes" else _SECONDS, ylabel=_ERROR)
    if key == "seconds":
        panel.set(xscale="log")
        _few_decades(panel.xaxis)
    panel.set_title(title)
    _few_decades(panel.yaxis)


def _few_decades(axis: Axis) -> None:
    """Numbers at 1, 2 and 5 where there are few powers of ten."""
    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, *panels: Axes) -> None:
    """One for all panels."""
    handles = {
        label: line
        for panel in panels
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=7)


def _short(name: str) -> str:
    return name.partition("_")[0]


def main() -> int:
    document = json.loads((common.RESULTS / "meka.json").read_text(encoding="utf-8"))
    draw(document["results"]["curves"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
