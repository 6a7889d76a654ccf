"""A live learner and its compiled copy: the next 10,000 events after all others of a stream.

`multi-kernel`, without its feature machine, learns a stream but for its last 10,000 events, a copy
is compiled (`LiveCompiled.renew_copy`), and both go on: each event is predicted, then its label is
learned. "learner" is the learner itself, "served" the copy mixed with what follows the labels;
"frozen" are the learner and the copy as they were when the last events began. "worst class" is the
share of the events of a class that "served" gets right, less that of the learner, of the class
where this is least, among those of 100 events or more. Microseconds are those of predicting an
event, one of 10,000 and one alone, of both in turn, one thread. Numbers are predicted with errors
in their unit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.fast_prediction.timing import times
from streamk.learners import LiveCompiled, MultiKernel

SETS = ("elec2", "covtype_subset93k", "rialto", "cadata_california_housing")
NEXT, QUICK = 10_000, 500
_MANY = 100
Numbers = NDArray[Any]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures by data set and model."""
    found = {}
    for name in SETS:
        found[name] = _set(load(name, data, quick=quick), QUICK if quick else NEXT)
        common.note(f"  {name}: {found[name]}")
    return found


def _set(stream: Dataset, following: int) -> dict[str, Any]:
    X, numbers = stream.X.astype(np.float64), stream.y.dtype.kind == "f"
    y = stream.y.astype(np.float64).tolist() if numbers else stream.y.tolist()
    n = len(X) - following
    task = "regression" if numbers else "classification"
    model = LiveCompiled(MultiKernel(task=task, threads=1, external_experts=()))
    began = time.perf_counter()
    model.learn_many(X[:n], y[:n])
    learned = time.perf_counter() - began
    began = time.perf_counter()
    model.renew_copy()
    compiled, copy = time.perf_counter() - began, model.copy
    assert copy is not None
    learner = MultiKernel.from_state(model.learner.state(), threads=1)
    served = LiveCompiled.from_state(model.state(), learner={"threads": 1})
    took = times({"learner": learner.decision_many, "served": served.decision_many}, X[n:])
    answers: dict[str, Any] = {"frozen learner": learner, "frozen copy": copy}
    said = {name: _said(one, X[n:], numbers) for name, one in answers.items()}
    said["learner"] = _prequential(model.learner, X[n:], y[n:], numbers)
    said["served"] = _prequential(served, X[n:], y[n:], numbers)
    own = {name: one.classes for name, one in answers.items()}
    figures = {
        name: (_errors if numbers else _scores)(
            found, np.array(y[n:]), own.get(name, model.classes)
        )
        for name, found in said.items()
    }
    return {
        "figures": figures,
        "worst class": None if numbers else _worst(said, np.array(y[n:]), model),
        "us": took,
        "learned s": learned,
        "compiled s": compiled,
        "cost": copy.cost,
        "shape": copy.shape,
    }


def _said(model: Any, X: Numbers, numbers: bool) -> Numbers:
    return np.asarray(model.predict_many(X) if numbers else model.predict_proba_many(X))


def _prequential(model: Any, X: Numbers, y: list[Any], numbers: bool) -> Numbers:
    found = model.predict_then_learn_many(X, y)
    return np.asarray(found.predictions if numbers else found.probabilities)


def _scores(P: Numbers, y: Numbers, classes: tuple[Any, ...]) -> dict[str, float]:
    places = np.array([classes.index(label) if label in classes else -1 for label in y.tolist()])
    P = np.nan_to_num(P)
    given = np.where(places >= 0, P[np.arange(len(y)), places], 0.0)
    return {
        "accuracy": float(np.mean(P.argmax(axis=1) == places)),
        "log loss": float(-np.log(np.maximum(given, 1e-6)).mean()),
    }


def _errors(F: Numbers, y: Numbers, _: tuple[Any, ...]) -> dict[str, float]:
    return {
        "MAE": float(np.abs(F - y).mean()),
        "RMSE": float(np.sqrt(np.square(F - y).mean())),
    }


def _worst(said: Mapping[str, Numbers], y: Numbers, model: LiveCompiled) -> float:
    right = {
        name: np.array(model.classes)[np.nan_to_num(said[name]).argmax(axis=1)] == y
        for name in ("served", "learner")
    }
    common_ones = [label for label in model.classes if np.sum(y == label) >= _MANY]
    return min(
        (
            float(right["served"][y == label].mean() - right["learner"][y == label].mean())
            for label in common_ones
        ),
        default=0.0,
    )


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and model, then a line of times for each data set."""
    lines, timed = [], []
    for name, one in found.items():
        for model in ("learner", "served", "frozen learner", "frozen copy"):
            first, second = one["figures"][model].items()
            lines.append([f"{name}: {model}", *(_figure(*pair) for pair in (first, second))])
        us, worst = one["us"], one["worst class"]
        ratio = us["learner"]["many"] / us["served"]["many"]
        timed.append(
            [
                name,
                f"{us['learner']['many']:.2f}",
                f"{us['served']['many']:.2f}",
                f"{ratio:.1f}",
                f"{us['learner']['one']:.0f}",
                f"{us['served']['one']:.0f}",
                f"{one['cost']:.1f}",
                f"{one['compiled s']:.0f}",
                "" if worst is None else f"{100 * worst:+.1f}",
            ]
        )
    head = ["", "learner us", "served us", "ratio", "alone", "served", "flops", "s", "worst class"]
    return "\n\n".join(
        [
            common.table(["the next events", "accuracy or MAE", "log loss or RMSE"], lines),
            common.table(head, timed),
        ]
    )


def _figure(name: str, value: float) -> str:
    return f"{value:,.0f}" if name in ("MAE", "RMSE") else f"{value:.4f}"
