"""What the tests of the multi-kernel learner share: streams, makers and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from state_kit import assert_same as assert_same

from streamk.backends.numba_backend.experts import event as loops
from streamk.learners import MultiKernel

KINDS = ("two", "four", "numbers")
"""Two classes, four classes, regression."""


def stream(kind: str, n: int, d: int = 3, seed: int = 0) -> tuple[NDArray[np.float64], Any]:
    """Events whose labels a linear model cannot tell, with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    g = X[:, 0] * X[:, 1] + 0.05 * rng.normal(size=n)
    if kind == "numbers":
        return X, 100.0 + 10.0 * g
    if kind == "two":
        return X, np.where(g > 0, "same", "other")
    return X, np.array(["a", "b", "c", "d"])[2 * (g > 0) + (X[:, 0] > 0)]


def pool_alone(**options: Any) -> MultiKernel:
    """A learner without external experts and the one of labels, unless they are given."""
    alone: dict[str, Any] = {"external_experts": (), "memory": False}
    return MultiKernel(**alone | options)


def make(kind: str, **options: Any) -> MultiKernel:
    task = "regression" if kind == "numbers" else "classification"
    return pool_alone(**{"task": task, "seed": 1, **options})


def learned(kind: str, n: int, d: int = 3, seed: int = 0, **options: Any) -> MultiKernel:
    model = make(kind, **options)
    model.learn_many(*stream(kind, n, d, seed))
    return model


def assert_sound(model: MultiKernel) -> None:
    """Assert that nothing in a learner is NaN or infinite, but what stands for a missing value."""
    for name, array in model.state().arrays.items():
        if array.dtype.kind == "f" and name not in ("scale.sample", "external_experts.events"):
            assert np.isfinite(array).all(), name


def opinions_of(model: MultiKernel, x: NDArray[Any]) -> NDArray[Any]:
    """What each expert says of an event now, NaN if it sleeps; the learner is left as it was."""
    pool = model._mixture.pool
    seen = pool.empty_forecasts(1)
    padded = np.zeros((1, pool.capacity))
    padded[0, : len(x)] = x
    with pool.workspace() as table:
        loops.forecast(table, padded, seen, np.empty((1, pool.outputs)))
    return seen[0, : pool.experts]


def losses_of(model: MultiKernel, said: NDArray[Any], label: Any) -> NDArray[Any]:
    """What is lost by opinions on an event, numbers in their own unit, by the default loss."""
    if not model.is_classifier:
        errors = np.abs(said[:, 0] - label) * model._targets.label_scale.inverse
        return 2.0 * np.minimum(errors, 8.0)
    number = model.classes.index(label)
    if len(model.classes) == 2:
        return -np.log(np.maximum(1.0 / (1.0 + np.exp(-(2 * number - 1) * said[:, 0])), 1e-4))
    return -np.maximum(said[:, number], np.log(1e-4))
