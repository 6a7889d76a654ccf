"""Figure 3 of the paper: errors of regressions by the cost of a prediction.

cpusmall, cadata and house_16H, nine tenths against one, in three divisions. The rivals are kernel
ridge regression with the Gaussian kernel by Nyström approximation on random landmarks ("Nys") and
on centers of k-means ("KNys"), on random features ("RKS") and on structured ones ("Fastfood"); for
each of them gamma and the regularization are the best of nine pairs on a fifth of the training
rows. Their landmarks or features are as many as the budget allows by the same count of
multiply-adds, an exponential or cosine being 8 (Fastfood's, with three transforms of 64 columns or
more, 3 log2(64) additions a feature). Errors are root mean squares over the deviation of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.fast_prediction.problems import Problem, problem
from benchmarks.intervals import cell, mean
from streamk.features import RandomFeatures
from streamk.kernels import Gaussian
from streamk.landmarks import k_means, uniform
from streamk.prediction import dc_pred
from streamk.prediction.compiled import linear_cost
from streamk.prediction.local_model import EXPONENTIAL

SETS = ("cpusmall", "cadata_california_housing", "house_16H")
BUDGETS = (5.0, 10.0, 20.0, 50.0)
SEEDS = 3
GAMMAS, RIDGES = (0.1, 0.5, 2.0), (1e-4, 1e-2, 1.0)
"""Gammas in units of 1 over the number of columns."""
Map = Callable[[Any], Any]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors by data set, method and budget."""
    found: dict[str, Any] = {}
    for name in SETS:
        found[name] = {}
        for budget in BUDGETS[: 1 if quick else None]:
            runs: dict[str, list[float]] = {}
            for seed in range(1 if quick else SEEDS):
                rows = problem(name, data, seed, quick=quick)
                for method, error in _errors(rows, budget, seed).items():
                    runs.setdefault(method, []).append(error)
            figures = {method: mean(some) for method, some in runs.items()}
            found[name][f"{budget:g}"] = figures
            brief = ", ".join(f"{method} {cell(one, 3)}" for method, one in figures.items())
            common.note(f"  {name}, {budget:g}: {brief}")
    return found


def _errors(rows: Problem, budget: float, seed: int) -> dict[str, float]:
    deviation = float(rows.expected.std())
    model = dc_pred(rows.X, rows.y, task="regression", budget=budget, seed=seed)
    found = {"dc_pred": _rmse(model.predict_many(rows.test), rows.expected) / deviation}
    d = rows.X.shape[1]
    work = budget * linear_cost(d, 1)
    sizes = {
        "Nys": work / (d + EXPONENTIAL + 1),
        "KNys": work / (d + EXPONENTIAL + 1),
        "RKS": work / (d + EXPONENTIAL + 1),
        "Fastfood": work / (3 * np.log2(max(64, d)) + EXPONENTIAL + 1),
    }
    for method, size in sizes.items():
        found[method] = _ridge(rows, method, max(2, int(size)), seed) / deviation
    return found


def _ridge(rows: Problem, method: str, size: int, seed: int) -> float:
    """The error of the best gamma and regularization on a fifth of the training rows."""
    n = len(rows.X) * 4 // 5
    best: tuple[float, float, float] | None = None
    for gamma in GAMMAS:
        features = _map(rows.X[:n], method, size, gamma / rows.X.shape[1], seed)
        A, B = features(rows.X[:n]), features(rows.X[n:])
        for ridge in RIDGES:
            error = _rmse(_solved(A, rows.y[:n], ridge)(B), rows.y[n:])
            if best is None or error < best[0]:
                best = error, gamma, ridge
    assert best is not None
    _, gamma, ridge = best
    features = _map(rows.X, method, size, gamma / rows.X.shape[1], seed)
    return _rmse(_solved(features(rows.X), rows.y, ridge)(features(rows.test)), rows.expected)


def _map(X: Any, method: str, size: int, gamma: float, seed: int) -> Map:
    """Features of one of the rivals."""
    kernel = Gaussian(gamma=gamma)
    if method in ("Nys", "KNys"):
        choose = uniform if method == "Nys" else k_means
        points = choose(X, kernel, max_landmarks=min(size, len(X)), seed=seed).points
        return lambda some: kernel.pairwise(some, points)
    sampler = "iid" if method == "RKS" else "hadamard"
    features = RandomFeatures(kernel, seed=seed, sampler=sampler)
    return lambda some: np.asarray(features.transform(some, 0, size), np.float64)


def _solved(A: Any, y: Any, ridge: float) -> Map:
    center, middle = A.mean(axis=0), y.mean()
    A = A - center
    system = A.T @ A
    mean_square = max(float(np.trace(system)) / len(system), 1e-12)
    system[np.diag_indices(len(system))] += 1e-3 * ridge * mean_square
    weights = np.linalg.lstsq(system, A.T @ (y - middle), rcond=None)[0]
    return lambda B: (B - center) @ weights + middle


def _rmse(predicted: Any, expected: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted) - expected) ** 2)))


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and budget."""
    lines = []
    methods = ["dc_pred", "Nys", "KNys", "RKS", "Fastfood"]
    for name, budgets in found.items():
        for budget, errors in budgets.items():
            lines.append([f"{name}, {budget}", *(cell(errors[method], 3) for method in methods)])
    return common.table(["error, budget", *methods], lines)
