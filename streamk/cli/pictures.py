"""Pictures are drawn by matplotlib, which is an extra: the commands need it for nothing else."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from streamk.cli.parsing.arguments import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LACKING", "can_draw", "new_figure"]

LACKING = "pictures need matplotlib: pip install 'streamk[plot]'"


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, that is drawn without a display.

    Raises
    ------
    UsageError
        If matplotlib is not installed.
    """
    if not can_draw():
        raise UsageError(LACKING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
