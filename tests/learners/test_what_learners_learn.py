"""What every learner makes of streams: it learns, follows, merges, and lives with extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learners_kit import OF_ANY_LOSS, SIZES, VARIANTS, made, scaled
from numpy.typing import NDArray
from state_kit import reopened

from streamk.learners import EigenPro, MultiKernel, OnlineKernelRidge

TASKS = ("classification", "regression")
KINDS = tuple(SIZES)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TYPE)
each_task = pytest.mark.parametrize("task", TASKS)


def product(task: str, n: int, seed: int = 0, sign: float = 1.0) -> tuple[NDArray[Any], Any]:
    """Events whose labels no linear model can tell, with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 2))
    g = sign * X[:, 0] * X[:, 1] + 0.05 * rng.normal(size=n)
    return X, g if task == "regression" else np.where(g > 0, "same", "other")


def errors(model: Any, task: str, sign: float = 1.0) -> float:
    """The part of labels that are wrong, or of the variance that is missed, on new events."""
    X, y = product(task, 400, seed=1, sign=sign)
    said = model.predict_many(X)
    if task == "regression":
        return float(np.square(said - y).mean() / np.var(y))
    return float((said != y).mean())


LEARNING = [
    *("many kernels, two", "many kernels, numbers", "several steps", "adagrad", "growing"),
    *("a step an event, logistic of five", "a step an event, huber of numbers"),
    *("landmarks, newton, softmax of five", "landmarks, newton, huber of numbers"),
    *("clusters, newton, squared of numbers", "clusters, softmax of five"),
    *("hadamard", "zonal", "polynomial", "ridges", "one ridge", "a metric", "a metric, numbers"),
    *("normal equations", "projected steps, numbers", "blocks, classes", "blocks, averages"),
]
MORE: dict[str, dict[str, Any]] = {
    "landmarks": {"max_landmarks": 64},
    "clusters": {"rank": 12, "n_clusters": 3, "buffer_size": 400, "every": 500},
    "a metric": {"buffer_size": 500, "reservoir_size": 500},
    "growing": {},
    "ridge": {"max_centers": 512},
    "normal": {"n_centers": 100},
    "projected": {"n_centers": 100},
}
"""Sizes with which a learner of many events is good; of the others more features."""


@pytest.mark.parametrize("name", LEARNING)
def test_it_learns(name: str) -> None:
    variant = VARIANTS[name]
    task = "regression" if variant.labels == "numbers" else "classification"
    size = next((size for part, size in MORE.items() if part in name), {"max_features": 512})
    model = variant(**({} if isinstance(variant(), MultiKernel) else size))
    model.learn_many(*product(task, 1500))
    assert errors(model, task) < 0.2
    if task == "classification":
        X, y = product(task, 400, seed=1)
        P = model.predict_proba_many(X)
        right = P[np.arange(400), [model.classes.index(label) for label in y]]
        assert right.mean() > 0.55


@each_kind
def test_merged_learners_know_what_either_knew(kind: Any) -> None:
    task = "classification"
    X, y = product(task, 2400)
    one, other = scaled(kind, task), scaled(kind, task)
    one.learn_many(X[:1200], y[:1200])
    other.learn_many(X[1200:], y[1200:])
    before = max(errors(one, task), errors(other, task))
    one.merge(other)
    assert one.n_events == 2400
    assert errors(one, task) < before + 0.1


@each_kind
def test_what_is_learned_last_counts(kind: Any) -> None:
    model = scaled(kind)
    model.learn_many(*product("classification", 800))
    model.learn_many(*product("classification", 3000, seed=2, sign=-1.0))
    assert errors(model, "classification", sign=-1.0) < 0.35


@each_kind
def test_a_third_class_leaves_what_was_said_of_two(kind: Any) -> None:
    for name in ("softmax", "logistic", "hinge", "squared_hinge", "squared"):
        model = made(kind, **({"loss": name} if kind in OF_ANY_LOSS else {}))
        X, y = product("classification", 300)
        model.learn_many(X, y)
        before, P = model.predict_many(X), model.predict_proba_many(X)
        assert P.shape == (300, 2)
        if kind is MultiKernel:
            model.learn_one([9.0, 9.0], "third")
        else:
            model.add_classes(["third"])
        assert model.classes[2] == "third"
        after = model.predict_proba_many(X)
        np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-9)
        assert np.mean(model.predict_many(X) == before) > 0.97
        assert model.decision_many(X).shape == (300, 3)
        if kind not in OF_ANY_LOSS and kind is not MultiKernel:
            shares = after[:, :2] / after[:, :2].sum(axis=1, keepdims=True)
            np.testing.assert_allclose(shares, P, atol=1e-6 if kind is not EigenPro else 1e-2)


# --- extremes -------------------------------------------------------------------------------------


@each_task
@pytest.mark.parametrize("make", [made, scaled])
@each_kind
def test_extreme_values_leave_numbers(kind: Any, make: Any, task: str) -> None:
    for value in (3e38, -3e38, 1e-40) if make is scaled else (1e3, -1e3, 1e-40):
        X, y = product(task, 300)
        X[100:200:7, 1] = value
        if task == "regression":
            y[50:200:5] *= 1e18 if make is scaled else 1e3
        model = make(kind, task)
        model.learn_many(X, y)
        for one in (model, reopened(model)):
            decided = one.decision_many(X)
            assert np.isfinite(decided).all()
        for name, array in model.state().arrays.items():
            if array.dtype.kind == "f" and not name.endswith(
                ("scale.sample", "labels.bounds", "model.external_experts.events")
            ):
                assert np.isfinite(array).all(), name


@each_kind
def test_events_that_are_all_alike_are_learned(kind: Any) -> None:
    number = scaled(kind, "regression")
    number.learn_many(np.ones((400, 3)), np.full(400, 42.0))
    assert number.predict_one(np.ones(3)) == pytest.approx(42.0, abs=1.0)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(400) < 0.75, "often", "seldom")
    model = scaled(kind)
    model.learn_many(np.zeros((400, 3)), y)
    assert model.predict_one(np.zeros(3)) == "often"


@each_task
@each_kind
def test_memory_stays_when_all_is_there(kind: Any, task: str) -> None:
    X, y = product(task, 2400)
    model = scaled(kind, task)
    model.learn_many(X[:800], y[:800])
    before = model.nbytes
    for at in range(800, 2400, 32):
        model.learn_many(X[at : at + 32], y[at : at + 32])
        assert model.nbytes <= 1.5 * before + 60_000
    if kind is OnlineKernelRidge:
        assert (model.n_features, model.n_events) == (128 + 2400 % 64, 2400)
