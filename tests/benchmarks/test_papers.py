"""Rivals and matrices of the papers are what their papers say: oASIS, MEKA and NORMA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import landmarks as naive_landmarks
from reference import meka as naive_meka

from benchmarks import meka, oasis
from benchmarks.doubly_stochastic import Norma, gaussian
from streamk import factorization
from streamk.kernels import Gaussian
from streamk.learners.common.steps import InverseTime

Numbers = NDArray[Any]


# --- oASIS --------------------------------------------------------------------------------------


def test_matrices_are_the_papers() -> None:
    X, sigma = oasis.two_moons(50), 0.3
    N = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma**2)
    np.testing.assert_allclose(oasis.Problem("", X, sigma).matrix(), N, rtol=1e-12)
    diffusion = oasis.Problem("", X, sigma, "diffusion").matrix()
    np.testing.assert_allclose(diffusion, naive_landmarks.diffusion_matrix(N), rtol=1e-12)


# --- MEKA ---------------------------------------------------------------------------------------


def plane(n: int = 120) -> Any:
    return np.random.default_rng(1).random((n, 2))


def nearest(X: Any, rows: Any) -> Any:
    """Numbers of some rows among X."""
    return np.abs(X[None] - rows[:, None]).sum(axis=2).argmin(axis=1)


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


# --- NORMA --------------------------------------------------------------------------------------

N, GAMMA, NU = 300, 0.7, 0.02


@pytest.fixture(scope="module")
def events() -> tuple[Numbers, Numbers]:
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 3)).astype(np.float32)
    noise = 0.3 * random.normal(size=N)
    return X, np.where(X[:, 0] * X[:, 1] + noise > 0, 1.0, -1.0)


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
