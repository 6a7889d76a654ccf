"""A Cholesky factor that gains and loses rows."""

from __future__ import annotations

import numpy as np
import pytest

from streamk.kernels import Gaussian, Laplacian
from streamk.landmarks.incremental import GrowingCholesky


def normal(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def test_the_factor_of_a_matrix_that_gains_and_loses_rows():
    random = np.random.default_rng(7)
    points, factor = np.zeros((0, 4)), GrowingCholesky(20)
    kernel = Laplacian(bandwidth=4.0)
    for step in range(600):
        # It grows to about 40, beyond its capacity, shrinks to nothing and grows again.
        growing = 0.7 if step % 300 < 150 else 0.25
        if len(points) == 0 or random.random() < growing:
            x = random.standard_normal((1, 4))
            phi = factor.solve(kernel.pairwise(x, points))[0]
            factor.append(phi, 1.0 - float(phi @ phi))
            points = np.vstack([points, x])
        else:
            j = int(random.integers(len(points)))
            before, n = factor.lower, len(points)
            cosines, sines = factor.remove(j)
            rotated = np.delete(before, j, axis=0)
            for i, (c, s) in enumerate(zip(cosines, sines, strict=True), j):
                rotated[:, [i, i + 1]] = rotated[:, [i, i + 1]] @ np.array([[c, -s], [s, c]])
            np.testing.assert_allclose(rotated[:, : n - 1], factor.lower, atol=1e-13)
            np.testing.assert_allclose(rotated[:, n - 1], 0.0, atol=1e-13)
            points = np.delete(points, j, axis=0)
        W = kernel.pairwise(points)
        assert len(factor) == len(points)
        assert (np.diag(factor.lower) > 0.0).all()
        np.testing.assert_allclose(factor.lower @ factor.lower.T, W, atol=1e-13)
        np.testing.assert_allclose(
            factor.inverse_diagonal, np.diag(np.linalg.inv(W)), rtol=1e-10, atol=1e-12
        )
    assert factor.refactor(W) < 1e-13


def test_refactoring_repairs_the_factor_and_tells_how_wrong_it_was():
    W = Gaussian().pairwise(normal(20, 3))
    factor = GrowingCholesky.from_state(
        np.linalg.cholesky(W) + 1e-6 * np.eye(20), np.diag(np.linalg.inv(W)) + 1e-3
    )
    assert factor.refactor(W) == pytest.approx(2e-6, rel=0.1)
    assert factor.refactor(W) < 1e-15
    np.testing.assert_allclose(factor.inverse_diagonal, np.diag(np.linalg.inv(W)), rtol=1e-12)


def test_what_is_not_positive_definite_leaves_the_factor_as_it_is():
    factor = GrowingCholesky.from_state(np.eye(3), np.full(3, 7.0))
    assert factor.refactor(np.ones((3, 3))) == 1.0
    assert np.array_equal(factor.lower, np.eye(3))
    assert np.array_equal(factor.inverse_diagonal, np.ones(3))


@pytest.mark.parametrize("size", [1, 7, 16, 31, 32, 48])
def test_systems_solved_in_either_direction(size):
    L = np.tril(normal(size, size)) + 4.0 * np.eye(size)
    L *= np.sign(L.diagonal()) / np.linalg.norm(L, axis=1, keepdims=True)
    factor = GrowingCholesky.from_state(L, 1.0 / L.diagonal())
    K = normal(9, size, seed=1)
    np.testing.assert_allclose(factor.solve(K), np.linalg.solve(L, K.T).T, atol=1e-12)
    np.testing.assert_allclose(factor.solve_back(K), np.linalg.solve(L.T, K.T).T, atol=1e-12)
