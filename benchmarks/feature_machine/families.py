"""Each family of functions by itself: distances, kinds of metric, scales, and their rounds.

The errors are mean squared ones of the held-back events, in units of the targets' variance (of
classes: of targets 1 and -1, summed over classes), round after round, and the test error of the
round that was kept. The regularization is chosen in each round; bandwidth 6. One seed, 4,000 events
to learn, up to 8,000 others to test on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.feature_machine.rivals import SETS, TESTED

LEARNED = 4_000
FAMILIES = {
    "L1, diagonal": {"kernel": "laplacian", "metric": "diagonal"},
    "L2, diagonal": {"kernel": "matern", "metric": "diagonal"},
    "L2, full": {"kernel": "matern", "metric": "full"},
}


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
        for family, options in FAMILIES.items():
            if options["kernel"] == "matern":
                given = {**options, "kernel": Matern(nu=0.5, bandwidth=6.0)}
            else:
                given = {**options, "bandwidth": 6.0}
            model = kind(**given, random_state=0).fit(X[:n], y[:n])
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
                    " ".join(f"{error:.4f}" for error in figures["errors"][:6]),
                    str(figures["round"]),
                    f"{figures['error']:,.{digits}f}",
                ]
            )
    header = ["set: distance, metric", "scale", "held back, round by round", "kept", "test"]
    return common.table(header, rows)
