"""Each family of functions by itself: distances, kinds of metric, scales, and their rounds.

The errors are those of the held-back events, round after round, and the test error of the round
that was kept. Held-back errors are absolute ones of numbers, in deviations of the targets, and
squared ones of classes, of targets 1 and -1, summed over classes. The regularization is chosen in
each round; scale and bandwidth s, 1.5 or 6 (of L1 in units of sqrt(d)), are those of the least
error. One seed, 4,000 events to learn, up to 8,000 others to test on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.feature_machine.rivals import TESTED

SETS = ("cpusmall", "house_16H", "cadata_california_housing", "letter", "covtype_subset93k")
LEARNED = 4_000
FAMILIES = {
    "L1, diagonal": ("laplacian", "diagonal"),
    "L2, diagonal": ("matern", "diagonal"),
    "L2, full": ("matern", "full"),
}
BANDWIDTHS = (1.5, 6.0)


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors by data set and family."""
    from streamk.adapters.sklearn import RFMClassifier, RFMRegressor
    from streamk.kernels import Matern

    found: dict[str, Any] = {}
    for name in SETS:
        stream = load(name, data, quick=quick)
        rows = np.random.default_rng(0).permutation(np.flatnonzero(stream.y == stream.y))
        n = min(LEARNED, len(rows) // 2)
        X, y = stream.X[rows[: n + TESTED]].astype(np.float64), stream.y[rows[: n + TESTED]]
        kind = RFMRegressor if stream.task == "regression" else RFMClassifier
        found[name] = {"learned": n}
        for family, (kernel, metric) in FAMILIES.items():
            models = []
            for s in BANDWIDTHS:
                of_kernel: dict[str, Any] = {"kernel": kernel, "bandwidth": s}
                if kernel == "matern":
                    of_kernel = {"kernel": Matern(nu=0.5, bandwidth=s)}
                models.append(kind(metric=metric, random_state=0, **of_kernel).fit(X[:n], y[:n]))
            errors = [min(one.machine_.errors) for one in models]
            best = int(np.argmin(errors))
            model = models[best]
            said = model.predict(X[n:])
            error = (
                float(np.abs(said - y[n:]).mean())
                if stream.task == "regression"
                else 100.0 * float(np.mean(said != y[n:]))
            )
            machine = model.machine_
            found[name][family] = {
                "errors": [float(f"{one:.5g}") for one in machine.errors],
                "round": machine.round,
                "scale": machine.family.scale,
                "bandwidth": BANDWIDTHS[best],
                "error": error,
                "shares": [float(f"{one:.3g}") for one in machine.metric.shares],
            }
            common.note(f"  {name}: {family}: {found[name][family]}")
    return found


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and family."""
    rows = []
    for name, one in found.items():
        for family in FAMILIES:
            figures = one[family]
            digits = 0 if figures["error"] > 1_000.0 else 2
            rows.append(
                [
                    f"{name.partition('_')[0]}: {family}",
                    figures["scale"],
                    f"{figures['bandwidth']:g}",
                    " ".join(f"{error:.4f}" for error in figures["errors"][:6]),
                    str(figures["round"]),
                    f"{figures['error']:,.{digits}f}",
                ]
            )
    header = ["set: distance, metric", "scale", "s", "held back, by round", "kept", "test"]
    return common.table(header, rows)
