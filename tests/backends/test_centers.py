"""Functions of centers that several ridges share, learned event by event."""

from __future__ import annotations

import numpy as np
import pytest

from streamk import kernels
from streamk.backends import FEW, GROUP, Functions, loops
from streamk.learners.centers import own_kernels


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Laplacian(bandwidth=1.0),
        kernels.PowerExponential(bandwidth=3.0),
        kernels.Matern(nu=2.5),
        kernels.Cauchy(),
        kernels.NTK(depth=2, bandwidth=1.5),
    ],
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
