"""The rivals of doubly stochastic gradients come to the exact solution, which scikit-learn has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn", reason="the exact solution is scikit-learn's")

from benchmarks.doubly_stochastic.rivals import pegasos
from benchmarks.doubly_stochastic.rivals.expansion import BLOCK, Expansion, gaussian
from benchmarks.doubly_stochastic.rivals.norma import Norma
from benchmarks.doubly_stochastic.rivals.sdca import KernelSDCA, LinearSDCA
from benchmarks.doubly_stochastic.steps import inverse_time

Numbers = NDArray[Any]
N, GAMMA, NU = 300, 0.7, 0.02


@pytest.fixture(scope="module")
def events() -> tuple[Numbers, Numbers]:
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 3)).astype(np.float32)
    noise = 0.3 * random.normal(size=N)
    return X, np.where(X[:, 0] * X[:, 1] + noise > 0, 1.0, -1.0)


def exact(Z: Numbers, y: Numbers) -> Numbers:
    """Weights of the minimum of ``mean hinge + NU/2 |w|^2``, without an intercept."""
    from sklearn.svm import LinearSVC

    model = LinearSVC(
        loss="hinge", C=1.0 / (NU * len(y)), fit_intercept=False, tol=1e-9, max_iter=1_000_000
    )
    return np.asarray(model.fit(Z, y).coef_[0])


def exact_scores(X: Numbers, y: Numbers) -> Numbers:
    """f of the exact kernel machine on its own events: linear in a root of the kernel matrix."""
    K = gaussian(X.astype(np.float64), X.astype(np.float64), GAMMA)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(X)))
    return np.asarray(root @ exact(root, y))


def test_kernel_values_are_those_of_the_formula(events: tuple[Numbers, Numbers]) -> None:
    X, _ = events
    squares = ((X[:, None].astype(np.float64) - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(gaussian(X, X, GAMMA), np.exp(-GAMMA * squares), atol=1e-5)


def test_an_expansion_is_the_sum_of_its_kernels(events: tuple[Numbers, Numbers]) -> None:
    X, y = events
    sums = Expansion(GAMMA)
    for at in range(0, N, 70):
        sums.add(X[at : at + 70], y[at : at + 70])
    assert sums.size == N
    assert sums.nbytes == N * (4 * 3 + 8)
    np.testing.assert_allclose(sums.scores(X), gaussian(X, X, GAMMA) @ y, atol=1e-4)


def test_norma_takes_the_steps_of_its_paper(events: tuple[Numbers, Numbers]) -> None:
    X, y = events
    rule = inverse_time(30.0, 10.0)
    model = Norma(GAMMA, NU, rule)
    for at in range(0, N, 110):
        model.learn(at, X[at : at + 110], y[at : at + 110])
    K = gaussian(X.astype(np.float64), X.astype(np.float64), GAMMA)
    numbers = np.zeros(N)
    for t in range(N):
        score = K[t] @ numbers
        numbers *= 1.0 - rule.size(t + 1) * NU
        if y[t] * score < 1.0:
            numbers[t] = rule.size(t + 1) * y[t]
    np.testing.assert_allclose(model.scores(X), K @ numbers, atol=1e-3)
    assert model.expansion.size == np.count_nonzero(numbers) < N


def test_norma_comes_to_the_exact_machine(events: tuple[Numbers, Numbers]) -> None:
    X, y = events
    model = Norma(GAMMA, NU, inverse_time(1.0 / NU, 1.0 / NU))
    random = np.random.default_rng(1)
    for _ in range(60):
        rows = random.integers(0, N, N)
        model.learn(0, X[rows], y[rows])
    expected = exact_scores(X, y)
    assert np.abs(model.scores(X) - expected).mean() < 0.05
    assert risk(model.scores(X), y) == pytest.approx(risk(expected, y), abs=0.02)


def risk(scores: Numbers, y: Numbers) -> float:
    return float(np.maximum(0.0, 1.0 - y * scores).mean())


@pytest.mark.parametrize("cut", [N, BLOCK, 37])
def test_kernel_sdca_comes_to_the_exact_machine(events: tuple[Numbers, Numbers], cut: int) -> None:
    X, y = events
    model = KernelSDCA(GAMMA, NU, N)
    for _ in range(150):
        for at in range(0, N, cut):
            model.learn(at, X[at : at + cut], y[at : at + cut])
    assert model.expansion.size <= N
    np.testing.assert_allclose(model.scores(X), exact_scores(X, y), atol=5e-3)


def test_sdca_on_features_comes_to_the_exact_machine(events: tuple[Numbers, Numbers]) -> None:
    X, y = events
    model = LinearSDCA(NU, N)
    for _ in range(300):
        model.learn(0, X, y)
    np.testing.assert_allclose(model.weights, exact(X, y), atol=2e-3)


@pytest.mark.parametrize("fit", [pegasos.random_features, pegasos.nystroem])
def test_pegasos_on_features_comes_to_the_exact_machine(
    events: tuple[Numbers, Numbers], fit: Any
) -> None:
    X, y = events
    features = fit(GAMMA, X, 0)
    model = pegasos.OnFeatures(features, pegasos.Pegasos(NU, 0))
    for _ in range(300):
        model.learn(0, X, y)
    expected = features.transform(X) @ exact(features.transform(X), y)
    assert np.abs(model.scores(X) - expected).mean() < 0.05


def test_fixed_features_are_as_many_as_in_the_paper(events: tuple[Numbers, Numbers]) -> None:
    X, _ = events
    assert pegasos.FEATURES == 256
    assert pegasos.random_features(GAMMA, X, 0).transform(X).shape == (N, 256)
    approximate = pegasos.nystroem(GAMMA, X, 0).transform(X)
    # An event far from all others that is none of Nyström's points has its diagonal wrong.
    assert np.abs(approximate @ approximate.T - gaussian(X, X, GAMMA)).mean() < 1e-3
