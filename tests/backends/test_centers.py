"""Functions of centers that several ridges share, learned event by event."""

from __future__ import annotations

import numpy as np
import pytest

from streamk import kernels
from streamk.backends import FEW, GROUP, Functions, loops
from streamk.learners.centers import Centers, own_kernels, targets_of


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


@pytest.mark.parametrize(("margins", "outputs"), [(0, 1), (1, 1), (3, 3), (40, 40)])
@pytest.mark.parametrize("centers", [0, 70])
def test_a_single_event_is_predicted_and_learned_as_in_a_batch(
    margins: int, outputs: int, centers: int
) -> None:
    rng, own, base = np.random.default_rng(1), kernels.Laplacian(), kernels.Matern(nu=0.5)
    X, ridges = rng.normal(size=(6, 3)).astype(np.float32), np.array([0.5, np.inf])
    parts = []
    for kernel, width in ((own, 2 * outputs), (base, outputs), (base, outputs)):
        part = Centers(kernel, 100, n_columns=3, n_outputs=width)
        Z, A = rng.normal(size=(centers, 3)), rng.normal(size=(centers, width))
        part.append(Z, np.zeros(centers), A)
        parts.append(part)
    first, done, last = (part.sum for part in parts)
    sums = (*first, *done, *last[3:])
    constant, errors = rng.normal(size=outputs), np.array([2.0, 1.0])
    learned = Functions(ridges, rng.normal(size=(6, 2 * outputs)), np.zeros(2))
    batch = Functions(ridges, learned.A.copy(), np.zeros(2))
    given, said, x = np.empty((1, 2 * outputs)), np.empty((1, outputs)), X[5:]
    points, labels, say = X * (np.arange(6) < 5)[:, None], np.zeros(6), (errors, constant, 1e300)
    loops.centers.ask_one(*sums, points, learned.A, *say, 5, x, given, said)
    of_base = parts[1].outputs(x) + parts[2].outputs(x)
    F = parts[0].outputs(x) + np.concatenate([of_base, of_base], axis=1)
    np.testing.assert_array_equal(given, F)
    Y = targets_of(np.array([1.0]), margins) - constant
    loops.centers.follow(own_kernels(own, x, X), Y, batch, 5, F)
    np.testing.assert_array_equal(said, F[:, outputs:] + constant)
    again = np.empty((1, outputs))
    known = (*first[:3], points, labels, learned.A, ridges, learned.errors)
    y, sums = np.ones(1), np.zeros(2)
    weighed = 1e18, 1e300, 0.5, 1.7, 10.0
    total = loops.centers.learn_one(*known, *say, margins, 5, x, y, given, again, *weighed, sums)
    other = np.zeros(2)
    assert total == loops.learning.missed(said, y, margins > 0, *weighed, other)
    assert sums.tolist() == other.tolist()
    np.testing.assert_array_equal(points, X)
    assert labels.tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    np.testing.assert_array_equal(given, F)
    np.testing.assert_array_equal(again, said)
    for one, other in zip(learned, batch, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_overflows_is_said_to_be_large() -> None:
    none = Centers(kernels.Laplacian(), 1, n_columns=1, n_outputs=2).sum
    x, given, said = np.zeros((1, 1), np.float32), np.zeros((1, 2)), np.empty((1, 2))
    for f, expected in ((np.inf, 1e300), (-np.inf, -1e300), (np.nan, 0.0), (2.0, 2.0)):
        constant = np.array([f, -f])
        loops.centers.ask_one(
            *none, *none, *none[3:], x, np.zeros((1, 2)), np.zeros(1), constant, 1e300,
            0, x, given, said,
        )  # fmt: skip
        assert said.tolist() == [[expected, -expected]]
