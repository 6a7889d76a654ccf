"""Rivals and matrices of the papers are what their papers say: oASIS, MEKA and NORMA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import landmarks as naive_landmarks
from reference import meka as naive_meka

from benchmarks import doubly_stochastic, meka, oasis
from benchmarks.doubly_stochastic import Expansion, Norma, gaussian
from streamk import factorization
from streamk.kernels import Gaussian
from streamk.learners.common.steps import InverseTime

Numbers = NDArray[Any]


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)


# --- oASIS --------------------------------------------------------------------------------------


def test_two_moons_and_borg() -> None:
    X = oasis.two_moons(2000)
    np.testing.assert_array_equal(X, oasis.two_moons(2000))
    upper, lower = X[:1000], X[1000:]
    assert abs(np.hypot(*upper.T) - 1).max() < 6 * oasis.NOISE
    assert abs(np.hypot(*(lower - (1.0, 0.5)).T) - 1).max() < 6 * oasis.NOISE
    assert (upper[:, 1] > -0.3).all()
    assert (lower[:, 1] < 0.8).all()
    B = oasis.borg()
    assert B.shape == (7680, 8)
    apart = B.reshape(256, 30, 8)
    near = np.round(apart.mean(axis=1) / oasis.SIDE)
    assert len(np.unique(near, axis=0)) == 256
    assert apart.var(axis=1, ddof=1).mean() == pytest.approx(oasis.VARIANCE, rel=0.02)


@pytest.mark.parametrize("columns", [2, 300])
def test_the_largest_distance(columns: int) -> None:
    X = 5 + np.random.default_rng(1).standard_normal((1500, columns))
    assert oasis.largest_distance(X) == pytest.approx(naive_landmarks.largest_distance(X), rel=1e-6)


def test_matrices_are_the_papers() -> None:
    X, sigma = oasis.two_moons(50), 0.3
    N = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma**2)
    np.testing.assert_allclose(oasis.Problem("", X, sigma).matrix(), N, rtol=1e-12)
    diffusion = oasis.Problem("", X, sigma, "diffusion").matrix()
    np.testing.assert_allclose(diffusion, naive_landmarks.diffusion_matrix(N), rtol=1e-12)


def test_errors_of_landmarks() -> None:
    problem = oasis.Problem("", oasis.two_moons(700), 0.3)
    G, F = problem.matrix(), np.random.default_rng(1).standard_normal((700, 3))
    expected = naive_landmarks.relative_error(F @ F.T, G)
    assert oasis.relative(G, F) == pytest.approx(expected)
    assert [oasis.text(e) for e in (2.14e-3, 0.9, 1e-16)] == ["2.1e-3", "9.0e-1", "1.0e-16"]


def test_a_reservoir_is_uniform() -> None:
    reservoir = oasis.Reservoir(Gaussian(), 400)
    for batch in np.split(np.arange(4000.0)[:, None], 40):
        reservoir.learn_many(batch)
    kept = np.sort(reservoir.points[:, 0])
    assert len(np.unique(kept)) == 400
    # The greatest distance of the distribution from the uniform one; 1.95 / sqrt(400) is 0.1%.
    assert abs((kept + 0.5) / 4000 - (np.arange(400) + 0.5) / 400).max() < 1.95 / math.sqrt(400)


# --- MEKA ---------------------------------------------------------------------------------------


def plane(n: int = 120) -> Any:
    return np.random.default_rng(1).random((n, 2))


def nearest(X: Any, rows: Any) -> Any:
    """Numbers of some rows among X."""
    return np.abs(X[None] - rows[:, None]).sum(axis=2).argmin(axis=1)


def test_points_are_scaled_and_whole() -> None:
    found = meka.matrix("pendigits", None, 2.0, 128, 5, quick=True)
    assert (found.rank, found.clusters, len(found)) == (8, 3, meka.QUICK)
    assert found.X.min() == 0.0
    assert found.X.max() == 1.0
    as_it_is = meka.points("ijcnn1", None, quick=True)
    assert as_it_is.min() < -2.0
    np.testing.assert_array_equal(meka.unit(np.array([[1.0, 5.0], [3.0, 5.0]])), [[0, 0], [1, 0]])


def test_errors_are_on_the_rows_of_meka() -> None:
    X, kernel = plane(), Gaussian(gamma=3.0)
    found = factorization.meka(X, kernel, rank=4, n_clusters=3, dtype="float64")
    G = kernel.pairwise(X)
    every = np.arange(len(X))
    approximation = found.approximate(every[:, None], every)
    drawn = meka.rows(len(X), 40, 7)
    expected = np.linalg.norm((approximation - G)[drawn]) / np.linalg.norm(G[drawn])
    assert found.error(40, 7) == pytest.approx(expected)
    F = np.random.default_rng(2).random((len(X), 3))
    missed = np.linalg.norm((F @ F.T - G)[drawn]) / np.linalg.norm(G[drawn])
    assert meka.relative(X, kernel, F, 40, 7) == pytest.approx(missed)


def test_nystrom_rivals_are_the_oracles() -> None:
    X, kernel, rank = plane(), Gaussian(gamma=3.0), 6
    G = kernel.pairwise(X)

    def columns(count: int, seed: Any) -> Any:
        return nearest(X, meka._drawn(X, count, seed))

    drawn = columns(2 * rank, 1)
    C, M = G[:, drawn], G[np.ix_(drawn, drawn)]
    expected = {
        "Nys": naive_meka.nystrom(C, M, rank),
        "RNys": naive_meka.nystrom(C, M, rank),
        meka.CUT_LATER: naive_meka.truncated_nystrom(C, M, rank),
    }
    for name, basis in expected.items():
        F = meka.RIVALS[name](X, kernel, rank, 1).factor.astype(np.float64)
        # RNys finds leading vectors up to how far the next value is.
        tolerance = 3e-3 if name == "RNys" else 1e-5
        np.testing.assert_allclose(F @ F.T, basis.W @ basis.L @ basis.W.T, atol=tolerance)
    samples = [columns(4, [1, expert]) for expert in range(3)]
    ensemble = naive_meka.ensemble_nystrom(G, samples, rank // 3)
    F = meka.enys(X, kernel, rank, 1).factor.astype(np.float64)
    np.testing.assert_allclose(F @ F.T, ensemble, atol=1e-5)


def test_rivals_have_the_memory_and_features_of_new_points() -> None:
    X, Y, kernel, rank = plane(), plane(300)[120:], Gaussian(gamma=3.0), 12
    for name, rival in meka.RIVALS.items():
        found = rival(X, kernel, rank, 1)
        assert found.factor.dtype == np.float32, name
        assert found.nbytes == 4 * len(X) * rank, name
        np.testing.assert_allclose(found.features(X), found.factor, atol=1e-5, err_msg=name)
        few = 0.06 if "Nys" in name else 0.9
        approximate = found.features(Y) @ found.factor.T
        assert abs(approximate - kernel.pairwise(Y, X)).mean() < few, name
    assert meka.rank_of(4 * len(X) * rank + 5, len(X)) == rank


def test_random_features_are_of_the_kernel() -> None:
    X, kernel = plane(), Gaussian(gamma=3.0)
    for name in ("RKS", "Fastfood"):
        F = meka.RIVALS[name](X, kernel, 20_000, 1).factor
        assert abs(F @ F.T - kernel.pairwise(X)).mean() < 0.02, name


# --- NORMA --------------------------------------------------------------------------------------

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
    rule = InverseTime(30.0, offset=10.0)
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
    model = Norma(GAMMA, NU, InverseTime(1.0 / NU, offset=1.0 / NU))
    random = np.random.default_rng(1)
    for _ in range(60):
        rows = random.integers(0, N, N)
        model.learn(0, X[rows], y[rows])
    expected = exact_scores(X, y)
    assert np.abs(model.scores(X) - expected).mean() < 0.05
    assert risk(model.scores(X), y) == pytest.approx(risk(expected, y), abs=0.02)


def risk(scores: Numbers, y: Numbers) -> float:
    return float(np.maximum(0.0, 1.0 - y * scores).mean())


def test_the_optimum_of_the_rate_is_stationary() -> None:
    """The optimum's gradient, ``mean (f - y) k(x, .) + nu f``, vanishes at other points."""
    nu = 0.1
    X, y, other, optimum = doubly_stochastic.target(nu)
    K = np.exp(-doubly_stochastic.GAMMA * ((X[:, None] - X) ** 2).sum(axis=2))
    across = np.exp(-doubly_stochastic.GAMMA * ((other[:, None] - X) ** 2).sum(axis=2))
    f = K @ np.linalg.solve(K + len(X) * nu * np.eye(len(X)), y)
    gradient = across @ (f - y) / len(X) + nu * optimum
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
