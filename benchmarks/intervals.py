"""Means over seeds with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy


def mean(values: Sequence[float]) -> dict[str, Any]:
    """The mean over seeds, half the width of its 95% interval (Student's t), and the values."""
    half = 0.0
    if len(values) > 1:
        error = float(np.std(values, ddof=1)) / len(values) ** 0.5
        half = float(scipy.stats.t.ppf(0.975, len(values) - 1)) * error
    kept = [float(f"{value:.6g}") for value in values]
    return {"mean": float(np.mean(values)), "half": half, "values": kept}


def cell(figure: Mapping[str, Any], digits: int = 4) -> str:
    """The mean and its interval; of one seed there is none."""
    text = f"{figure['mean']:.{digits}f}"
    return text if len(figure["values"]) == 1 else f"{text} ± {figure['half']:.{digits}f}"
