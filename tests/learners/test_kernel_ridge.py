"""Kernel ridge regression on a stream: the oracle, the fixed point, and bounds of its memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learners_kit import product_of_columns as stream
from learners_kit import targets
from reference import kernel_ridge as naive

from streamk import kernels
from streamk.backends import FEW, GROUP, Functions, loops
from streamk.errors import InvalidInput, StateError
from streamk.learners import OnlineKernelRidge
from streamk.learners.centers import RIDGES, own_kernels
from streamk.learners.kernel_ridge import _largest
from streamk.state import State

NTK = kernels.NTK(depth=2, bandwidth=1.5)
LAPLACIAN = kernels.Laplacian(bandwidth=1.0)
ROUGH = kernels.PowerExponential(bandwidth=3.0)
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
    X, y = stream(task, 400)
    model = learner(
        task, kernel, regularization=0.5, max_centers=capacity, corrections=corrections, seed=4
    )
    plain = naive.KernelRidge(kernel.pairwise, 0.5, capacity, 300 * corrections, seed=4)
    for i, target in enumerate(targets(task, y)):
        found = model.decision_one(X[i])
        np.testing.assert_allclose(found, plain.learn(X[i], target), atol=2e-5)
        model.learn_one(X[i], y[i])
    assert model.n_features == min(capacity, 384) + 16


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


@pytest.mark.parametrize(
    "kernel", [LAPLACIAN, ROUGH, kernels.Matern(nu=2.5), kernels.Cauchy(), NTK]
)
@pytest.mark.parametrize(
    ("n", "centers", "outputs", "ridges"), [(1, 5, 1, 1), (70, 300, 3, 3), (33, 64, 40, 5)]
)
def test_functions_are_learned_event_by_event(
    kernel: kernels.Kernel, n: int, centers: int, outputs: int, ridges: int
) -> None:
    rng = np.random.default_rng(0)
    X, Z = (rng.normal(size=(rows, 4)).astype(np.float32) for rows in (n, centers))
    lanes = 1 if outputs <= FEW else GROUP
    groups, parts = -(-centers // GROUP), -(-outputs // lanes)
    V = np.zeros((groups * GROUP, parts * lanes), np.float32)
    V[:centers, :outputs] = rng.normal(size=(centers, outputs))
    A = np.ascontiguousarray(V.reshape(-1, parts, lanes).transpose(1, 0, 2))
    numbers = kernel.numbers
    U, W = kernel.mapped(X), kernel.mapped(Z)
    compiled = loops.centers
    laid, F = np.zeros((groups, W.shape[1], GROUP), np.float32), np.empty((n, outputs))
    compiled.lay(W, np.arange(centers), laid)
    compiled.expand(numbers, U, laid, A, F)
    expected = kernel.pairwise(X, Z) @ V[:centers, :outputs]
    np.testing.assert_allclose(F, expected, atol=2e-5, rtol=1e-5)
    K, each = own_kernels(kernel, X, X), outputs // ridges
    Y = np.linspace(-1.0, 1.0, n * each).reshape(n, each)
    learned, singly = (
        Functions(np.linspace(0.5, 2.0, ridges), np.zeros((n, outputs)), np.zeros(ridges))
        for _ in range(2)
    )
    G, one_by_one = F.copy(), F.copy()
    compiled.follow(K, Y, learned, 0, G)
    coefficients = np.zeros((n, outputs))
    for i in range(n):
        f = F[i] + K[i, :i] @ coefficients[:i]
        np.testing.assert_allclose(G[i], f, atol=1e-12)
        missed = Y[i] - f.reshape(ridges, each)
        coefficients[i] = (missed / (1.0 + learned.ridges[:, None])).ravel()
    np.testing.assert_allclose(learned.A, coefficients, atol=1e-12)
    for i in range(n):
        row = slice(i, i + 1)
        compiled.follow_one(numbers, U[: i + 1], Y[row], singly, one_by_one[row])
    np.testing.assert_array_equal(one_by_one, G)
    for alone, together in zip(singly, learned, strict=True):
        np.testing.assert_array_equal(alone, together)
    squares = np.square(np.tile(Y, ridges) - G).reshape(n, ridges, -1).sum(axis=(0, 2))
    np.testing.assert_allclose(learned.errors, squares)
    last = F[-1:].copy()
    compiled.add(K, np.arange(n), learned.A, F)
    np.testing.assert_allclose(F, G, atol=1e-12)
    compiled.add_one(numbers, U[-1:], U[: n - 1], learned.A, last)
    np.testing.assert_array_equal(last[0], F[-1])
    alone = np.empty((1, outputs))
    compiled.expand(numbers, U[:1], laid, A, alone)
    compiled.add(K[:1], np.zeros(1, np.int64), learned.A, alone)
    np.testing.assert_array_equal(alone[0], F[0])


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
    with pytest.raises(InvalidInput, match="take another, such as Laplacian"):
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
