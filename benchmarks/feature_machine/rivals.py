"""RFM beside trees, plain kernel ridge regression and the authors' package, on six data sets.

Each method has one setting on all sets: ours and the forest their defaults, LightGBM its defaults
and, as "LightGBM, 1,000", up to 1,000 trees at a rate of .05 that stop by the error of a fifth of
the events. "Kernel ridge" is ours with `rounds=0`: kernel, bandwidth and regularization are chosen
in the same way, and the metric stays the identity. xrfm is the package of the papers' authors with
its defaults; it runs if the environment's STREAMK_XRFM is an interpreter that has it.

A seed shuffles a set; the first 8,000 events (cpusmall 6,000) are learned, up to 8,000 others are
predicted. Columns are numbers, as in the files, and no method is told which of them are codes.
Seconds are processor time of one thread of BLAS, which other work on the machine does not change;
memory is the peak beyond what the process held before, each in a process of its own.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common, process
from benchmarks.data import Dataset, Directory, load
from benchmarks.intervals import cell, mean

SEEDS = int(os.environ.get("STREAMK_SEEDS", "5"))
SETS = {
    "cpusmall": 6_000,
    "house_16H": 8_000,
    "cadata_california_housing": 8_000,
    "letter": 8_000,
    "covtype_subset93k": 8_000,
    "a9a": 8_000,
}
TESTED = 8_000
XRFM = "STREAMK_XRFM"
METHODS = ("RFM", "kernel ridge", "LightGBM", "LightGBM, 1,000", "forest", "xrfm")
Numbers = NDArray[Any]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors, seconds and bytes of each method by data set, a value for each seed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: dict[str, Any] = {}
    for name in SETS:
        methods: dict[str, list[dict[str, float]]] = {}
        for seed in range(1 if quick else SEEDS):
            for method in METHODS:
                if method == "xrfm" and not os.environ.get(XRFM):
                    continue
                order = {"set": name, "seed": seed, "method": method, "data": data, "quick": quick}
                one = run(order) if quick else process.fresh(__name__, order)
                methods.setdefault(method, []).append(one)
                common.note(f"  {name}, seed {seed}: {method}: {one}")
        found[name] = {
            "learned": one["learned"],
            "tested": one["tested"],
            "methods": {
                method: {key: mean([run[key] for run in runs]) for key in runs[0]}
                for method, runs in methods.items()
            },
        }
    return found


def run(order: Mapping[str, Any]) -> dict[str, float]:
    """Learn and predict once."""
    stream = load(order["set"], order["data"], quick=order["quick"])
    rows = np.random.default_rng(order["seed"]).permutation(np.flatnonzero(stream.y == stream.y))
    n = min(SETS[order["set"]], len(rows) // 2 if order["quick"] else len(rows))
    X, y = stream.X[rows].astype(np.float64), stream.y[rows]
    train, test = (X[:n], y[:n]), (X[n : n + TESTED], y[n : n + TESTED])
    if order["method"] == "xrfm":
        found = _authors(stream, train, test[0], order["seed"])
        said = np.array(found.pop("said"))
    else:
        found, said = _own(order["method"], stream.task, train, test[0], order["seed"])
    found |= {"learned": n, "tested": len(test[0])}
    if stream.task == "classification":
        return {"error": 100.0 * float(np.mean(said != test[1])), **found}
    errors = said - test[1]
    return {
        "error": float(np.abs(errors).mean()),
        "rmse": float(np.square(errors).mean() ** 0.5),
        **found,
    }


def _own(
    method: str, task: str, train: tuple[Numbers, Numbers], new: Numbers, seed: int
) -> tuple[dict[str, Any], Numbers]:
    """Figures and predictions of a method that runs here."""
    model = made(method, task, seed)  # imports what it needs
    if method in ("RFM", "kernel ridge"):
        model.fit(train[0][:100], train[1][:100])  # compiles it, too

    def work() -> Any:
        began = time.process_time()
        made_anew = made(method, task, seed).fit(*train)
        return made_anew, time.process_time() - began

    measured = process.peak(work, "resident")
    model, seconds = measured["found"]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM's, that columns have no names
        said = model.predict(new)
    after = time.process_time() - began
    return {"seconds": seconds, "predict_seconds": after, "bytes": measured["bytes"]}, said


def made(method: str, task: str, seed: int) -> Any:
    """A model that has not learned."""
    numbers = task == "regression"
    if method in ("RFM", "kernel ridge"):
        from streamk.adapters.sklearn import RFMClassifier, RFMRegressor

        kind = RFMRegressor if numbers else RFMClassifier
        return kind(random_state=seed) if method == "RFM" else kind(random_state=seed, rounds=0)
    if method == "forest":
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        forest = RandomForestRegressor if numbers else RandomForestClassifier
        return forest(random_state=seed)
    import lightgbm

    trees = lightgbm.LGBMRegressor if numbers else lightgbm.LGBMClassifier
    options = {"random_state": seed, "n_jobs": 1, "verbose": -1}
    if method == "LightGBM":
        return trees(**options)
    return Stopped(trees(**options, n_estimators=1_000, learning_rate=0.05), seed)


class Stopped:
    """Trees of LightGBM that stop by the error of a fifth of the events."""

    def __init__(self, trees: Any, seed: int) -> None:
        self.trees, self.seed = trees, seed

    def fit(self, X: Numbers, y: Numbers) -> Stopped:
        """Learn four fifths."""
        import lightgbm

        held = held_back(len(X), self.seed)
        self.trees.fit(
            X[~held],
            y[~held],
            **_evaluated(self.trees, X[held], y[held]),
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )
        return self

    def predict(self, X: Numbers) -> Numbers:
        """Predictions of the best number of trees."""
        return self.trees.predict(X)


def _evaluated(trees: Any, X: Numbers, y: Numbers) -> dict[str, Any]:
    """Arguments of `fit` for the events that tell when to stop; LightGBM 4.7 renamed them."""
    if "eval_X" in inspect.signature(trees.fit).parameters:
        return {"eval_X": X, "eval_y": y}
    return {"eval_set": [(X, y)]}


def held_back(n: int, seed: int) -> Numbers:
    """A fifth of the events, as a mask (n,)."""
    chosen = np.zeros(n, bool)
    chosen[np.random.default_rng(seed).permutation(n)[: n // 5]] = True
    return chosen


def _authors(
    stream: Dataset, train: tuple[Numbers, Numbers], new: Numbers, seed: int
) -> dict[str, Any]:
    """Figures and predictions of xrfm, whose classes are numbers from 0 on."""
    y, classes = train[1], None
    if stream.task == "classification":
        classes, y = np.unique(y, return_inverse=True)
    with tempfile.TemporaryDirectory() as room:
        path = Path(room) / "data.npz"
        np.savez(path, X=train[0], y=y, test_X=new, held=held_back(len(y), seed))
        done = subprocess.run(
            [
                os.environ[XRFM],
                "-m",
                "benchmarks.feature_machine.authors_package",
                str(path),
            ],
            cwd=common.ROOT,
            env=os.environ | {"PYTHONPATH": str(common.ROOT)},
            stdout=subprocess.PIPE,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    if classes is not None:
        found["said"] = classes[np.array(found["said"], np.int64)].tolist()
    return found


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and method."""
    rows = []
    for name, one in found.items():
        for method, figures in one["methods"].items():
            numbers = "rmse" in figures
            digits = 0 if figures["error"]["mean"] > 1_000.0 else 3 if numbers else 2
            rows.append(
                [
                    f"{name.partition('_')[0]}: {method}",
                    cell(figures["error"], digits) + ("" if numbers else " %"),
                    cell(figures["rmse"], digits) if numbers else "",
                    f"{figures['seconds']['mean']:.1f}",
                    f"{figures['predict_seconds']['mean']:.2f}",
                    f"{figures['bytes']['mean'] / 1e6:,.0f}",
                ]
            )
    header = ["set: method", "MAE or error", "RMSE", "s to learn", "s to predict", "MB"]
    return common.table(header, rows)


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
