"""Figures 1c, 2 to 10 and 13 of the paper, as PNG files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.meka import accuracy, plots, runs, structure, sweeps

FIGURES: dict[str, Callable[..., dict[str, Any]]] = {
    "1c": structure.by_gamma,
    "2": structure.partitions,
    "3": structure.angles,
    "4": sweeps.bases,
    "5": sweeps.thresholds,
    "6": sweeps.rules,
    "7": sweeps.compared,
    "9": sweeps.by_gamma,
    "10": sweeps.by_clusters,
    "13": sweeps.definite,
}
"""Figure 8 is of 7's."""


def measure(data: Directory, figures: Path | None, *, quick: bool) -> dict[str, Any]:
    """All curves, drawn where `figures` is a directory."""
    runs.warm()
    found = {}
    for name, figure in FIGURES.items():
        common.note(f"  Figure {name}")
        found[name] = figure(data, quick=quick)
    if figures is not None:
        plots.draw(found, figures)
    return found


def render(found: Mapping[str, Any]) -> str:
    """Figure 1c in numbers; the rest are figures."""
    one = found["1c"]
    header = [f"Figure 1c, covtype, n={one['n']:,}, γ", *(f"{gamma:g}" for gamma in one["gammas"])]
    rows = [[name, *map(accuracy.text, errors)] for name, errors in one["errors"].items()]
    return common.table(header, rows)
