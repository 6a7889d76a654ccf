"""Table 2 of the paper: test accuracy on MNIST and FashionMNIST after one pass.

Pixels are divided by 255, the kernel is Laplace's with bandwidth 5, which is Matérn's with nu 1/2,
and the centers are given, as in the paper: random training images, or centres of clusters of all
of them (30 iterations of Lloyd's for 100, 5 for more). Each training image is learned once, in
random order. The paper's figures are of as many epochs as its authors took. Seconds are those of
learning, and of choosing the centers apart; loops are compiled before.

"chosen while it goes on" has no centers given: they are chosen among the events that came.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.intervals import cell, mean
from streamk.kernels import Matern
from streamk.landmarks.baselines import ITERATIONS, centers_of
from streamk.learners import EigenPro

SETS = ("mnist", "fashion_mnist")
KERNEL = Matern(nu=0.5, bandwidth=5.0)
SOLVERS = ("direct", "eigenpro")
PAPER = {
    ("mnist", "random"): {100: 0.8724, 1000: 0.9496, 10_000: 0.9731},
    ("mnist", "k-means"): {100: 0.9189, 1000: 0.9596, 10_000: 0.9769},
    ("fashion_mnist", "random"): {100: 0.7624, 1000: 0.8459, 10_000: 0.8784},
    ("fashion_mnist", "k-means"): {100: 0.7866, 1000: 0.8555, 10_000: 0.8813},
}
LONG = 30
"""Iterations of k-means for few centers; for 1,000 and more there are 5."""
OWN = "chosen while it goes on"
SEEDS = 5
Numbers = NDArray[Any]


def measure(
    data: Directory,
    *,
    quick: bool,
    sizes: tuple[int, ...] = (100, 1000),
    selections: tuple[str, ...] = ("random", "k-means", OWN),
    solvers: tuple[str, ...] = SOLVERS,
    seeds: int = SEEDS,
) -> dict[str, Any]:
    """Accuracy, seconds and memory by data set, selection, number of centers and solver."""
    rows = []
    compile_loops()
    for name in SETS:
        stream = load(name, data, quick=quick)
        assert stream.test is not None
        X, test = stream.X / np.float32(255), stream.test[0] / np.float32(255)
        for p in (12,) if quick else sizes:
            for selection in selections:
                found: dict[str, list[Mapping[str, float]]] = {solver: [] for solver in solvers}
                for seed in range(1 if quick else seeds):
                    order = np.random.default_rng(seed).permutation(len(X))
                    began = time.perf_counter()
                    Z = None if selection == OWN else _chosen(X, p, selection, seed)
                    choosing = time.perf_counter() - began
                    for solver in solvers:
                        one = _pass(X[order], stream.y[order], test, stream.test[1], Z, p, solver)
                        found[solver].append({**one, "choosing": choosing})
                for solver in solvers:
                    figures = {k: mean([f[k] for f in found[solver]]) for k in found[solver][0]}
                    row = {"set": name, "centers": p, "selection": selection, "solver": solver}
                    rows.append({**row, **figures})
                    common.note(f"  {row} {cell(figures['accuracy'])} {cell(figures['seconds'])}")
    return {"rows": rows}


def compile_loops() -> None:
    """Have every loop compiled or loaded that the models of this benchmark use."""
    X = np.random.default_rng(0).normal(size=(1024, 3)).astype(np.float32)
    for solver in SOLVERS:
        model = EigenPro(KERNEL, n_centers=100, solver=solver)
        model.learn_many(X, np.arange(1024) % 10)
        model.predict_many(X)


def _chosen(X: Numbers, p: int, selection: str, seed: int) -> Numbers:
    random = np.random.default_rng(seed + 100)
    if selection == "random":
        return X[random.permutation(len(X))[:p]]
    iterations = LONG if p < 1000 else ITERATIONS
    centers = centers_of(X.astype(np.float64), p, random, init="random", iterations=iterations)
    return centers.astype(np.float32)


def _pass(
    X: Numbers, y: Numbers, test: Numbers, expected: Numbers, Z: Numbers | None, p: int, solver: str
) -> dict[str, float]:
    centers: dict[str, Any] = {"n_centers": p} if Z is None else {"centers": Z}
    model = EigenPro(KERNEL, solver=solver, **centers)
    began = time.perf_counter()
    model.learn_many(X, y)
    model.finish()
    seconds = time.perf_counter() - began
    right = float(np.mean(np.asarray(model.predict_many(test)) == expected))
    return {"accuracy": right, "seconds": seconds, "megabytes": model.nbytes / 1e6}


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set, selection and number of centers, the solvers beside the paper."""
    rows: dict[tuple[str, str, int], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        key = row["set"], row["selection"], row["centers"]
        rows.setdefault(key, {})[row["solver"]] = row
    lines = []
    for (name, selection, p), of in sorted(rows.items(), key=lambda item: SETS.index(item[0][0])):
        paper = PAPER.get((name, selection), {}).get(p)
        line = [f"{name} {p:,} {selection}", "" if paper is None else f"{paper:.4f}"]
        for solver in SOLVERS:
            line += (
                [
                    cell(of[solver]["accuracy"]),
                    cell(of[solver]["seconds"], 1),
                    cell(of[solver]["megabytes"], 0),
                ]
                if solver in of
                else ["", "", ""]
            )
        lines.append(line)
    header = ["one pass", "paper", "direct", "s", "MB", "eigenpro", "s", "MB"]
    return common.table(header, lines)
