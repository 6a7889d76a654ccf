"""What each part of `dc_pred` does, at equal shape: 64 leaves of 40 landmarks, or 16 of 16.

letter (64 x 40, one tree) and ijcnn1 (16 x 16, one tree), three seeds. "as the paper" has the parts
of its Algorithm 2 alone: clusters as 2-means gives them, weighted k-means, and weights by ridge
regression. The next lines add one part after the other, the last ones leave one out of all, or
change it. "weights of ..." takes the weights of k-means from a kernel machine on all events instead
of ridge regression in each leaf: scikit-learn's `SVC`, `BlockSVC` with a cluster for each 500
events, both with C = 10, or `KernelRegression`, that is EigenPro, with the Gaussian kernel and 3
epochs. Their time is not in that of the training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.fast_prediction.problems import Problem, problem
from benchmarks.intervals import cell, mean
from streamk.prediction import dc_pred, importance_of

SETS: dict[str, dict[str, int]] = {
    "letter": {"leaves": 64, "landmarks": 40},
    "ijcnn1": {"leaves": 16, "landmarks": 16},
}
SEEDS = 3
PLAIN: dict[str, Any] = {"halo": 0.0, "balance": 0.0, "iterations": 0, "weighted": False}
MACHINES = ("SVC", "BlockSVC", "EigenPro")
A_CLUSTER = 500
PARTS: dict[str, dict[str, Any]] = {
    "k-means, ridge": PLAIN,
    "as the paper: with weights": {**PLAIN, "weighted": True},
    "as the paper, with products": {**PLAIN, "weighted": True, "products": 80},
    "and halves": {**PLAIN, "weighted": True, "balance": 0.5},
    "and a halo of 1": {**PLAIN, "weighted": True, "balance": 0.5, "halo": 1.0},
    "and a halo of 3": {**PLAIN, "weighted": True, "balance": 0.5, "halo": 3.0},
    "and L-BFGS: all": {},
    "all, two trees": {"trees": 2},
    "all, without a halo": {"halo": 0.0},
    "all, a halo of 1": {"halo": 1.0},
    "all, without halves": {"balance": 0.0},
    "all, without weights": {"weighted": False},
    "all, with products": {"products": 80},
    "all, 300 iterations": {"iterations": 300},
    **{f"as the paper, weights of {name}": {**PLAIN, "machine": name} for name in MACHINES},
    **{f"all, weights of {name}": {"machine": name} for name in MACHINES},
}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Accuracy, cost and seconds of training by data set and parts."""
    found: dict[str, Any] = {}
    for name, shape in SETS.items():
        found[name] = {}
        problems = [problem(name, data, seed, quick=quick) for seed in range(SEEDS)]
        weights = {machine: list(map(_weights(machine), problems)) for machine in MACHINES}
        for part, given in PARTS.items():
            options = shape | given
            every = weights.get(options.pop("machine", ""), [None] * SEEDS)
            runs = [
                _run(rows, seed, {**options, "importance": importance})
                for seed, (rows, importance) in enumerate(zip(problems, every, strict=True))
            ]
            figures = {key: mean([one[key] for one in runs]) for key in runs[0]}
            found[name][part] = figures
            common.note(f"  {name}: {part}: {cell(figures['accuracy'])}")
    return found


def _weights(machine: str) -> Callable[[Problem], Any]:
    """Return what gives the squared coefficients of a kernel machine on all events."""
    from sklearn.preprocessing import LabelBinarizer
    from sklearn.svm import SVC

    from streamk.adapters.sklearn import BlockSVC, KernelRegression

    def found(rows: Problem) -> Any:
        X, y, model = rows.X, rows.y, None
        if machine == "SVC":
            model = SVC(C=10.0)
        elif machine == "BlockSVC":
            model = BlockSVC(C=10.0, n_clusters=max(1, len(X) // A_CLUSTER), random_state=0)
        else:
            model = KernelRegression("gaussian", n_epochs=3, random_state=0)
            y = LabelBinarizer(neg_label=-1).fit_transform(y)
        return importance_of(model.fit(X, y), X)

    return found


def _run(rows: Problem, seed: int, options: dict[str, Any]) -> dict[str, float]:
    began = time.perf_counter()
    model = dc_pred(rows.X, rows.y, seed=seed, **options)
    seconds = time.perf_counter() - began
    right = float(np.mean(model.predict_many(rows.test) == rows.expected))
    return {"accuracy": right, "cost": model.cost, "seconds": seconds}


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and set of parts."""
    lines = []
    for name, parts in found.items():
        for part, one in parts.items():
            figures = [cell(one["accuracy"]), cell(one["cost"], 1), cell(one["seconds"], 1)]
            lines.append([f"{name}: {part}", *figures])
    return common.table(["parts", "accuracy", "flops over linear", "s to train"], lines)
