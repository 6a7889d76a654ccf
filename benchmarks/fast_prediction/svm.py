"""Kernel machines of LIBSVM: scikit-learn's `SVC`, and DC-SVM, that is `BlockSVC`.

Both have the gamma and C in `SETTINGS`, and columns scaled to [0, 1], as gammas of other authors
are for. DC-SVM has a cluster for each 500 rows. The settings are the best, or within .1 points of
it, on training rows that were held back, with 25,000 rows of covtype, 12,000 of letter and ijcnn1
and 5,000 of a9a; those of kdd99_10pct were not searched for. `python -m
benchmarks.fast_prediction.svm SET ...` searches with 25,000 rows.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from benchmarks import common
from benchmarks.fast_prediction.contestants import Contestant
from benchmarks.fast_prediction.problems import Problem, problem
from streamk.adapters.sklearn import BlockSVC
from streamk.prediction.compiled import linear_cost
from streamk.prediction.local_model import EXPONENTIAL

SETTINGS: dict[str, dict[str, float]] = {
    "letter": {"gamma": 10.0, "C": 10.0},
    "a9a": {"gamma": 0.05, "C": 1.0},
    "ijcnn1": {"gamma": 8.0, "C": 10.0},
    "covtype_subset93k": {"gamma": 16.0, "C": 10.0},
    "kdd99_10pct": {"gamma": 2.0, "C": 10.0},
}
MOST = {"kdd99_10pct": 20_000}
"""Rows to train on, of sets where all of them would take hours."""
A_CLUSTER = 500
CACHE = 2000
"""Megabytes."""
GAMMAS, CS = (0.05, 0.3, 2.0, 8.0, 16.0, 32.0), (1.0, 10.0, 100.0)
SEARCHED = 20_000, 5_000
"""Rows that `search` trains on, and rows that it compares the machines on, at most."""


def svc(rows: Problem) -> Contestant:
    """LIBSVM on all rows, but for sets in `MOST`."""
    X, y = _training(rows)
    machine = SVC(cache_size=CACHE, **SETTINGS[rows.name])
    model = _scaled(machine, X, y)
    support, classes, d = len(machine.support_), len(machine.classes_), X.shape[1]
    # A support vector has a coefficient in the machine of its class and each other one.
    work = support * (d + EXPONENTIAL + classes - 1)
    cost = work / linear_cost(d, rows.outputs)
    common.note(f"  {rows.name}: SVC: {support:,} support vectors of {len(X):,} rows")
    return Contestant(model.predict, model.predict, cost)


def dc_svm(rows: Problem) -> Contestant:
    """A machine for each cluster, on the same rows."""
    X, y = _training(rows)
    clusters = max(1, len(X) // A_CLUSTER)
    model = _scaled(BlockSVC(n_clusters=clusters, **SETTINGS[rows.name]), X, y)
    return Contestant(model.predict, model.predict)


def _training(rows: Problem) -> tuple[Any, Any]:
    most = MOST.get(rows.name)
    return rows.X[:most], rows.y[:most]


def _scaled(machine: Any, X: Any, y: Any) -> Any:
    return make_pipeline(MinMaxScaler(), machine).fit(X, y)


def search(rows: Problem) -> dict[str, float]:
    """The gamma and C of the most accurate machine on training rows that are held back."""
    order = np.random.default_rng(0).permutation(len(rows.X))[: sum(SEARCHED)]
    X, y = rows.X[order], rows.y[order]
    n = len(X) * SEARCHED[0] // sum(SEARCHED)
    best: tuple[float, dict[str, float]] = (0.0, {})
    for gamma in GAMMAS:
        for C in CS:
            began = time.perf_counter()
            model = _scaled(SVC(gamma=gamma, C=C, cache_size=CACHE), X[:n], y[:n])
            right = float(np.mean(model.predict(X[n:]) == y[n:]))
            seconds = time.perf_counter() - began
            common.note(f"{rows.name}: gamma {gamma:g}, C {C:g}: {right:.4f}, {seconds:.1f} s")
            best = max(best, (right, {"gamma": gamma, "C": C}), key=lambda one: one[0])
    return best[1]


def main() -> int:
    for name in sys.argv[1:] or SETTINGS:
        print(f"{name}: {search(problem(name, None, 0, quick=False))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
