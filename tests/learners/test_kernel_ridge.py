"""Kernel ridge regression on a stream: the oracle, the fixed point, and bounds of its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learners_kit import product_of_columns as stream
from learners_kit import targets
from reference import kernel_ridge as naive

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.learners import OnlineKernelRidge
from streamk.learners.centers import RIDGES
from streamk.learners.kernel_ridge import _largest
from streamk.state import State

NTK = kernels.NTK(depth=2, bandwidth=1.5)
LAPLACIAN = kernels.Laplacian(bandwidth=1.0)
TASKS = ("two", "three", "numbers")


def learner(task: str, kernel: kernels.Kernel = LAPLACIAN, **options: Any) -> OnlineKernelRidge:
    if task == "numbers":
        return OnlineKernelRidge(kernel, task="regression", **options)
    return OnlineKernelRidge(kernel, classes=["a", "b", "c"][: 2 + (task == "three")], **options)


# --- the oracle -----------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kernel", [LAPLACIAN, kernels.Matern(nu=0.5), kernels.Gaussian(), NTK])
@pytest.mark.parametrize("capacity", [64, 150, 1000])
@pytest.mark.parametrize("task", TASKS)
def test_outputs_are_the_oracle_s(
    task: str, capacity: int, kernel: kernels.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrections = {64: 1, 150: 2, 1000: 3}[capacity]
    monkeypatch.setattr(OnlineKernelRidge, "WORK", 300)
    X, y = stream(task, 272)
    model = learner(
        task, kernel, regularization=0.5, max_centers=capacity, corrections=corrections, seed=4
    )
    plain = naive.KernelRidge(kernel.pairwise, 0.5, capacity, 300 * corrections, seed=4)
    for i, target in enumerate(targets(task, y)):
        found = model.decision_one(X[i])
        np.testing.assert_allclose(found, plain.learn(X[i], target), atol=2e-5)
        model.learn_one(X[i], y[i])
    assert model.n_features == min(capacity, 256) + 16


def test_the_constant_is_the_mean_of_the_events_up_to_the_last_that_settle_it() -> None:
    X, y = stream("numbers", 512)
    model = learner("numbers")
    model._settled = 256
    model.learn_many(X, y)
    np.testing.assert_allclose(model._constant, np.mean(y[:256]))


@pytest.mark.parametrize("task", TASKS)
def test_corrections_go_to_the_solution(task: str) -> None:
    X, y = stream(task, 256)
    model = learner(task, regularization=0.5)
    model.learn_many(X, y)
    for turn in range(400):
        model._correct(np.random.default_rng(turn).permutation(256)[:64])
    expected = naive.solution(LAPLACIAN.pairwise, X, targets(task, y) - model._constant, 0.5)
    np.testing.assert_allclose(model._centers.coefficients(np.arange(256)), expected, atol=1e-5)


def test_each_ridge_is_the_function_that_it_would_be_alone() -> None:
    X, y = stream("three", 300)
    model = learner("three")  # the events that go are chosen for all together
    model.learn_many(X, y)
    F = model._answers(X[:20], 0).reshape(20, len(RIDGES), 3)
    for place, ridge in enumerate(RIDGES):
        alone = learner("three", regularization=ridge)
        alone.learn_many(X, y)
        np.testing.assert_allclose(
            F[:, place] + model._constant, alone.decision_many(X[:20]), atol=2e-5
        )
    assert model.chosen_regularization == RIDGES[np.argmin(model._errors)]


@pytest.mark.parametrize(("noise", "ridges"), [(0.01, {0.1}), (3.0, {8.0})])
def test_noise_decides_on_the_ridge(noise: float, ridges: set[float]) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1500, 2))
    model = OnlineKernelRidge(kernels.Gaussian(bandwidth=0.3), task="regression")
    model.learn_many(X, np.sin(4 * X[:, 0]) + noise * rng.normal(size=1500))
    assert model.chosen_regularization in ridges


def test_the_largest_are_those_of_a_stable_order() -> None:
    rng = np.random.default_rng(0)
    for numbers in (rng.normal(size=300), rng.integers(3, size=300), np.zeros(300)):
        for count in (1, 64, 300):
            first = np.argsort(-numbers, kind="stable")[:count]
            assert np.array_equal(_largest(numbers, count), np.sort(first))


# --- streams --------------------------------------------------------------------------------------


def test_a_copy_that_learned_on_is_taken_over_and_another_s_events_are_learned() -> None:
    X, y = stream("three", 600)
    model = learner("three", max_centers=256)
    model.learn_many(X[:200], y[:200])
    ahead = OnlineKernelRidge.from_state(model.state())
    ahead.learn_many(X[200:400], y[200:400])
    behind = OnlineKernelRidge.from_state(model.state())
    behind.merge(ahead, common_events=200)
    np.testing.assert_array_equal(behind.decision_many(X), ahead.decision_many(X))
    model.learn_many(X[400:], y[400:])
    model.merge(ahead, common_events=200)
    assert model.n_events == 600
    assert (model.predict_many(X) == np.array(y, object)).mean() > 0.85
    with pytest.raises(InvalidInput, match="differ in regularization"):
        model.merge(learner("three", max_centers=256, regularization=1.0))


# --- options and states ---------------------------------------------------------------------------


def test_a_kernel_without_a_bound_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs a bounded one, such as Laplacian"):
        OnlineKernelRidge(kernels.Linear())


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("coefficients", np.zeros((64, 3), np.float32)),
        ("points", np.zeros((63, 3), np.float32)),
        ("labels", np.full(64, 7.0)),
        ("errors", np.full(4, -1.0)),
        ("calibration", np.full(3, -1.0)),
    ],
)
def test_a_damaged_state_is_refused(name: str, array: Any) -> None:
    X, y = stream("two", 100)
    model = learner("two")
    model.learn_many(X, y)
    state = model.state()
    with pytest.raises(StateError, match="kernel-ridge"):
        OnlineKernelRidge.from_state(State(state.header, {**state.arrays, name: array}))
