"""Gradients of kernel expansions and their outer products, beside the oracle and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import feature_machine as plain
from reference import naive

from streamk.backends import loops
from streamk.errors import InvalidInput
from streamk.kernels import (
    NTK,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    PowerExponential,
    RationalQuadratic,
)
from streamk.learners.rfm import metric as module
from streamk.learners.rfm.metric import outer_products

KERNELS: list[tuple[Kernel, naive.Kernel]] = [
    (Gaussian(bandwidth=1.3), naive.Kernel("gaussian", 1.3)),
    (Laplacian(bandwidth=2.0), naive.Kernel("laplacian", 2.0)),
    (PowerExponential(bandwidth=2.0), naive.Kernel("power_exponential", 2.0)),
    (Matern(nu=0.5, bandwidth=1.7), naive.Kernel("matern", 1.7, 0.5)),
    (Matern(nu=1.5, bandwidth=1.7), naive.Kernel("matern", 1.7, 1.5)),
    (Matern(nu=2.5, bandwidth=0.9), naive.Kernel("matern", 0.9, 2.5)),
    (RationalQuadratic(alpha=1.5, bandwidth=1.1), naive.Kernel("rational_quadratic", 1.1, 1.5)),
    (Cauchy(bandwidth=1.4), naive.Kernel("cauchy", 1.4)),
]
each_kernel = pytest.mark.parametrize(
    ("kernel", "k"), KERNELS, ids=lambda k: f"{k.name}-{getattr(k, 'nu', '')}"
)


def problem(seed: int = 0, n: int = 7, p: int = 9, d: int = 3, c: int = 2) -> Any:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)), random.normal(size=(p, d)), random.normal(size=(p, c))


@pytest.mark.parametrize("k", [k for _, k in KERNELS], ids=str)
def test_the_oracle_is_the_derivative(k: naive.Kernel) -> None:
    X, Z, A = problem()
    M = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
    for metric in (np.eye(3), M):
        f = plain.expansion(k, metric, Z, A)
        for x in X[:3]:
            found = plain.gradient(k, metric, Z, A, x, part=0.0)
            np.testing.assert_allclose(found, plain.differences(f, x), rtol=1e-6, atol=1e-8)


@each_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_outer_products_are_the_oracles(
    kernel: Kernel, k: naive.Kernel, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Z, A = problem(1, n=11)
    X[2] = Z[4]  # where some have no derivative
    X[3, 1] = Z[5, 1]
    each = [plain.gradient(k, np.eye(3), Z, A, x) for x in X]
    tolerance = {"rtol": 1e-9} if dtype == np.float64 else {"rtol": 2e-4, "atol": 2e-5}
    for cells, width in ((module._CELLS, module._WIDTH), (2 * len(Z), 4)):  # in blocks, too
        monkeypatch.setattr(module, "_CELLS", cells)
        monkeypatch.setattr(module, "_WIDTH", width)
        diagonal = outer_products(kernel, X, Z, A, diagonal=True, dtype=dtype)
        np.testing.assert_allclose(diagonal, np.diag(plain.agop(each)), **tolerance)
        full = outer_products(kernel, X, Z, A, dtype=dtype)
        np.testing.assert_allclose(full, plain.agop(each), **tolerance)
    one = outer_products(kernel, X, Z, A[:, 0], dtype=dtype)
    np.testing.assert_allclose(one, plain.agop([g[:1] for g in each]), **tolerance)


@each_kernel
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_mean_over_all_signs_is_the_outer_product(
    kernel: Kernel, k: naive.Kernel, diagonal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CELLS", 2 * 9)  # in blocks
    X, Z, A = problem(2)
    each = [
        outer_products(kernel, X, Z, A, diagonal=diagonal, signs=np.tile([1.0, sign], (7, 1)))
        for sign in (1.0, -1.0)
    ]
    exact = outer_products(kernel, X, Z, A, diagonal=diagonal)
    np.testing.assert_allclose(np.mean(each, axis=0), exact, rtol=1e-9)
    mixed = np.random.default_rng(0).choice([-1.0, 1.0], (7, 2))
    gradients = [plain.gradient(k, np.eye(3), Z, A, x) for x in X]
    sums = [signs[None] @ g for signs, g in zip(mixed, gradients, strict=True)]
    found = outer_products(kernel, X, Z, A, diagonal=diagonal, signs=mixed)
    expected = np.diag(plain.agop(sums)) if diagonal else plain.agop(sums)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def length(kernel: Kernel, x: Any, z: Any, dtype: Any = np.float64) -> float:
    """The length of the gradient of a kernel at a point."""
    return float(np.sqrt(outer_products(kernel, x, z, [1.0], diagonal=True, dtype=dtype).sum()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("near", [0.0, 1e-30, 1e-12, 1e-3, 1.0, 1e6])
def test_slopes_of_roots_at_all_distances(dtype: Any, near: float) -> None:
    t = np.concatenate([[0.0], np.logspace(-15, 18, 67), [1e25]]).astype(dtype)
    t = np.concatenate([-t, t])[:, None]
    size, one = np.abs(t[:, 0]).astype(float), np.ones((1, 1), dtype)
    found = np.empty((len(t), 1, 1))
    at = loops.gradients
    h, zero = np.array([near]), np.zeros((1, 1), dtype)
    at.sum_slopes(at.ROOTS, h, np.ones((len(t), 1), dtype), one, t, zero, found)
    expected = t[:, 0] * (np.maximum(size**2 + near**2, 1e-300)) ** -0.75
    np.testing.assert_allclose(found[:, 0, 0], expected, rtol=1e-14)


def test_far_points_have_no_gradient() -> None:
    for kernel, _ in KERNELS:
        assert length(kernel, [[1e5, 0.0]], [[0.0, 0.0]]) < 1e-6


@pytest.mark.parametrize("kernel", [Linear(), NTK(), Polynomial()])
def test_other_kernels_are_refused(kernel: Kernel) -> None:
    with pytest.raises(InvalidInput, match="no closed form"):
        outer_products(kernel, *problem())


def test_shapes_that_do_not_fit() -> None:
    X, Z, A = problem()
    with pytest.raises(InvalidInput, match="X has 2 columns and Z has 3"):
        outer_products(Gaussian(), X[:, :2], Z, A)
    with pytest.raises(InvalidInput, match="a row for each of 9 centers"):
        outer_products(Gaussian(), X, Z, A[:4])
    with pytest.raises(InvalidInput, match="at least one point"):
        outer_products(Gaussian(), X[:0], Z, A)
