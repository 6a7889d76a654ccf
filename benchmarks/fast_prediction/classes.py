"""Table 1 and Figure 2 of the paper: accuracy by the time of a prediction.

letter with 12,000 rows to train on and 6,000 to test on, as in the paper; a9a and ijcnn1 as they
are published; covtype_subset93k (class 2 against the others) and kdd99_10pct nine tenths against
one. Columns have mean 0 and deviation 1. `dc_pred` has a budget and no other option. "x linear" is
the time for an event among 10,000 over that of a linear model of the same columns and classes in a
fused loop; "flops" the multiply-adds over that model's. SVC is scikit-learn's with C = 10 and its
default gamma, trained on 20,000 rows at most, and so are "DC-SVM", that is `BlockSVC` with one
cluster for each 500 rows, and LightGBM with its defaults, trained on all. Those predict by their
own functions, LightGBM by one thread.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.fast_prediction.problems import Problem, problem
from benchmarks.fast_prediction.timing import Predict, linear, times
from streamk.prediction import dc_pred

SETS: dict[str, tuple[float, ...]] = {
    "letter": (2.0, 4.0, 8.0, 12.8, 20.0),
    "a9a": (5.0, 12.5),
    "ijcnn1": (5.0, 20.0),
    "covtype_subset93k": (10.0, 20.0),
}
"""Budgets of each set."""
LARGE: dict[str, tuple[float, ...]] = {"kdd99_10pct": (11.8,)}
"""The same of the part "kddcup", which takes long."""
PAPER = {
    "letter": (12.8, 0.9590, 1.2),
    "a9a": (12.5, 0.839, 6.3),
    "covtype_subset93k": (18.8, 0.9519, 372.0),
    "kdd99_10pct": (11.8, 0.923, 154.0),
}
"""Time over a linear model's, accuracy and seconds of training."""
MOST, A_CLUSTER = 20_000, 500


def measure(
    data: Directory, *, quick: bool, sets: Mapping[str, tuple[float, ...]] = SETS
) -> dict[str, Any]:
    """Accuracy, time and cost of our models and of the others, by data set."""
    found = {}
    for name, budgets in sets.items():
        rows = problem(name, data, 0, quick=quick)
        found[name] = _measured(rows, budgets[:1] if quick else budgets)
    return found


def _measured(rows: Problem, budgets: tuple[float, ...]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    models: dict[str, Predict] = {}
    for name, train in {**_ours(budgets), **_others()}.items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict, labels, cost = train(rows)
            seconds = time.perf_counter() - began
            right = float(np.mean(labels(rows.test[:MOST]) == rows.expected[:MOST]))
        models[name] = predict
        found[name] = {"accuracy": right, "seconds": seconds, "cost": cost}
        common.note(f"  {rows.name}: {name}: {right:.4f} {seconds:.1f} s {cost}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = times(models, rows.test)
    for name, one in taken.items():
        found[name] |= one
    return {"rows": len(rows.X), "columns": rows.X.shape[1], "models": found}


Trained = tuple[Predict, Callable[[Any], Any], float | None]


def _ours(budgets: tuple[float, ...]) -> dict[str, Callable[[Problem], Trained]]:
    def train(budget: float) -> Callable[[Problem], Trained]:
        def trained(rows: Problem) -> Trained:
            model = dc_pred(rows.X, rows.y, budget=budget)
            return model.decision_many, model.predict_many, model.cost

        return trained

    return {f"dc_pred, budget {budget:g}": train(budget) for budget in budgets}


def _others() -> dict[str, Callable[[Problem], Trained]]:
    from sklearn.svm import SVC, LinearSVC

    from streamk.adapters.sklearn import BlockSVC

    def fitted(model: Any, rows: Problem, most: int | None = None) -> Trained:
        model.fit(rows.X[:most], rows.y[:most])
        return model.predict, model.predict, None

    def fused(rows: Problem) -> Trained:
        model = LinearSVC().fit(rows.X, rows.y)
        return linear(model.coef_, model.intercept_), model.predict, 1.0

    found = {
        "linear, fused": fused,
        "LinearSVC": lambda rows: fitted(LinearSVC(), rows),
        "SVC": lambda rows: fitted(SVC(C=10.0), rows, MOST),
        "DC-SVM": lambda rows: fitted(
            BlockSVC(C=10.0, n_clusters=max(1, min(len(rows.X), MOST) // A_CLUSTER)), rows, MOST
        ),
    }
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        boosted = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)
        found["LightGBM"] = lambda rows: fitted(boosted, rows)
    return found


def render(found: Mapping[str, Any]) -> str:
    """A table for each data set."""
    tables = []
    for name, one in found.items():
        if name == "origin":
            continue
        models = one["models"]
        unit = models["linear, fused"]["many"]
        lines = []
        if name in PAPER:
            ratio, accuracy, seconds = PAPER[name]
            times_linear = f"{ratio:.1f}"
            lines.append(
                ["the paper's", f"{accuracy:.4f}", times_linear, *[""] * 4, f"{seconds:,.1f}"]
            )
        for model, got in models.items():
            cost = "" if got["cost"] is None else f"{got['cost']:.1f}"
            lines.append(
                [
                    model,
                    f"{got['accuracy']:.4f}",
                    f"{got['many'] / unit:,.1f}",
                    cost,
                    f"{got['many']:,.3f}",
                    f"{got['one']:,.1f}",
                    f"{got['p99']:,.1f}",
                    f"{got['seconds']:,.1f}",
                ]
            )
        head = f"{name}, {one['rows']:,} rows"
        columns = [head, "accuracy", "x linear", "flops", "us", "us alone", "p99", "s to train"]
        tables.append(common.table(columns, lines))
    return "\n\n".join(tables)
