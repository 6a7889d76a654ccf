"""Adult (a9a): one pass over the training rows, then the error on the test rows.

The options are chosen on training rows alone, by their mean error in five-fold cross-validation,
each fold being one pass; the four best are cross-validated three times more, on other divisions of
the rows, and the best of them is taken. It then passes once over all training rows, for each seed;
the seed decides the random features and the order of the rows. The columns are zeros and ones as in
the file, so gamma is that of exp(-gamma |x-y|^2) on them.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import DataError, load
from streamk.kernels import Gaussian
from streamk.learners import AdaGrad, DoublyStochastic

GAMMAS = (0.02, 0.05, 0.1, 0.2)
STEPS = (2.0, 4.0, 8.0, 16.0)
"""Sizes of `AdaGrad`."""
FIXED: dict[str, Any] = {
    "loss": "logistic",
    "batch_size": 1,
    "block_size": 8192,
    "max_features": 8192,
}
"""Options that the grid leaves alone."""
SEEDS = (1, 2, 3, 4, 5)
FOLDS = 5
FINALISTS, REPEATS = 4, 4
"""The best few are cross-validated again on other divisions: one alone is a coin's throw between
neighbours on the grid."""

PAPER, FULL_KERNEL = 15.3, 15.0
"""Test errors in per cent: Dai et al. 2014, one pass; and their full kernel."""

Part = tuple[NDArray[np.float32], NDArray[Any]]


def grid(gammas: Sequence[float], steps: Sequence[float]) -> Iterator[dict[str, float]]:
    """All combinations of what is chosen."""
    for gamma, step in itertools.product(gammas, steps):
        yield {"gamma": gamma, "step": step}


def error(train: Part, test: Part, seed: int, gamma: float, step: float) -> float:
    """Test error in per cent after one pass over the training rows in a random order."""
    model = DoublyStochastic(Gaussian(gamma=gamma), step=AdaGrad(step), seed=seed, **FIXED)
    order = np.random.default_rng(seed).permutation(len(train[0]))
    model.learn_many(train[0][order], train[1][order])
    return 100.0 * float(np.mean(model.predict_many(test[0]) != test[1]))


def cross_validate(train: Part, candidate: dict[str, float], repeat: int) -> float:
    """Mean error over the folds of one division of the rows."""
    X, y = train
    folds = np.array_split(np.random.default_rng(repeat).permutation(len(X)), FOLDS)
    errors = []
    for number, fold in enumerate(folds):
        rest = np.concatenate([other for other in folds if other is not fold])
        seed = FOLDS * repeat + number
        errors.append(error((X[rest], y[rest]), (X[fold], y[fold]), seed, **candidate))
    return statistics.mean(errors)


def choose(train: Part, candidates: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """The candidates with their cross-validation errors, best first, the finalists before all."""
    tried: list[tuple[list[float], dict[str, float]]] = []
    for candidate in candidates:
        tried.append(([cross_validate(train, candidate, 0)], candidate))
        common.note(f"  cross-validation: {candidate}: {tried[-1][0][0]:.3f} %")
    tried.sort(key=lambda one: one[0][0])
    for errors, candidate in tried[:FINALISTS]:
        errors += [cross_validate(train, candidate, repeat) for repeat in range(1, REPEATS)]
        common.note(f"  {REPEATS} times: {candidate}: {statistics.mean(errors):.3f} %")
    tried[:FINALISTS] = sorted(tried[:FINALISTS], key=lambda one: statistics.mean(one[0]))
    return [
        candidate
        | {"cv_error": round(statistics.mean(errors), 3), "cv": [round(e, 3) for e in errors]}
        for errors, candidate in tried
    ]


def measure(
    train: Part, test: Part, candidates: Sequence[dict[str, float]], seeds: Sequence[int]
) -> dict[str, Any]:
    """Choose, then test with every seed."""
    began = time.perf_counter()
    tried = choose(train, candidates)
    chosen = {name: tried[0][name] for name in candidates[0]}
    searched = time.perf_counter() - began
    errors = {}
    for seed in seeds:
        errors[str(seed)] = round(error(train, test, seed, **chosen), 3)
        common.note(f"  seed {seed}: {errors[str(seed)]} %")
    return {
        "training_rows": len(train[0]),
        "test_rows": len(test[0]),
        "tried": tried,
        "chosen": chosen,
        "test_errors": errors,
        "median": round(statistics.median(errors.values()), 3),
        "seconds_a_pass": round((time.perf_counter() - began - searched) / len(seeds), 2),
    }


def render(document: Mapping[str, Any]) -> str:
    """The table: our seeds beside the paper's figures."""
    found = document["results"]
    rows = [[f"streamk, seed {seed}", f"{e:.2f}"] for seed, e in found["test_errors"].items()]
    rows += [
        [f"streamk, median of {len(rows)} seeds", f"{found['median']:.2f}"],
        ["Dai et al. 2014, doubly stochastic", f"{PAPER:.2f}"],
        ["Dai et al. 2014, full kernel", f"{FULL_KERNEL:.2f}"],
    ]
    chosen = ", ".join(f"{name} {value:g}" for name, value in found["chosen"].items())
    return "\n\n".join(
        [
            common.table(["test error after one pass", "%"], rows),
            (
                f"Chosen on training rows: {chosen}.\n"
                f"A pass over {found['training_rows']:,} rows and the test take "
                f"{found['seconds_a_pass']:g} s."
            ),
            common.origin(document),
        ]
    )


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.adult", __doc__)
    parser.add_argument("--gamma", type=float, nargs="+", default=GAMMAS, metavar="G")
    parser.add_argument("--step", type=float, nargs="+", default=STEPS, metavar="S")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, metavar="N")
    options = parser.parse_args(argv)
    data = load("a9a", options.data, quick=options.quick)
    if data.test is None:
        raise DataError("data set a9a: no X_test and y_test; see docs/data.md")
    candidates = list(grid(options.gamma, options.step))
    results = measure((data.X, data.y), data.test, candidates, options.seeds)
    settings = {
        "fixed": FIXED,
        "folds": FOLDS,
        "finalists": FINALISTS,
        "repeats": REPEATS,
        "grid": candidates,
    }
    common.finish("adult", options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
