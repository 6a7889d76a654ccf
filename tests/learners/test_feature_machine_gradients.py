"""Gradients of kernel expansions and their outer products, beside the oracle and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import feature_machine as plain
from reference import naive

from streamk.errors import InvalidInput
from streamk.features import RandomFeatures
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
from streamk.learners.rfm import gradients as module
from streamk.learners.rfm.gradients import gradients, of_waves, outer_products

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


def test_the_papers_kernel_is_that_of_the_oracle() -> None:
    M, x, z = np.diag([4.0, 1.0]), [1.0, 0.0], [0.0, 2.0]
    assert plain.laplace(M, 3.0, x, z) == pytest.approx(np.exp(-np.sqrt(8.0) / 3.0))
    assert plain.kernel(naive.Kernel("matern", 3.0, 0.5), M, x, z) == pytest.approx(
        plain.laplace(M, 3.0, x, z)
    )
    gaussian = plain.laplace(M, np.sqrt(2.0), x, z, exponent=2.0)
    assert plain.kernel(naive.Kernel("gaussian", 1.0), M, x, z) == pytest.approx(gaussian)


@each_kernel
def test_gradients_are_the_oracles(kernel: Kernel, k: naive.Kernel) -> None:
    X, Z, A = problem()
    X[2] = Z[4]  # where some have no derivative
    X[3, 1] = Z[5, 1]
    found = gradients(kernel, X, Z, A)
    expected = [plain.gradient(k, np.eye(3), Z, A, x) for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    single = gradients(kernel, X, Z, A, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=2e-5)
    assert np.array_equal(gradients(kernel, X, Z, A[:, 0]), gradients(kernel, X, Z, A[:, :1]))


@each_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_outer_products_are_the_oracles(
    kernel: Kernel, k: naive.Kernel, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Z, A = problem(1, n=11)
    expected = plain.agop([plain.gradient(k, np.eye(3), Z, A, x) for x in X])
    tolerance = {"rtol": 1e-9} if dtype == np.float64 else {"rtol": 2e-4, "atol": 2e-5}
    for cells, width in ((module._CELLS, module._WIDTH), (2 * len(Z), 4)):  # in blocks, too
        monkeypatch.setattr(module, "_CELLS", cells)
        monkeypatch.setattr(module, "_WIDTH", width)
        diagonal = outer_products(kernel, X, Z, A, diagonal=True, dtype=dtype)
        np.testing.assert_allclose(diagonal, np.diag(expected), **tolerance)
        full = outer_products(kernel, X, Z, A, dtype=dtype)
        np.testing.assert_allclose(full, expected, **tolerance)


def test_outputs_in_turns_add_up() -> None:
    X, Z, A = problem(2, d=40, c=120)  # more than a product takes
    full = outer_products(Matern(nu=0.5, bandwidth=9.0), X, Z, A)
    each = sum(outer_products(Matern(nu=0.5, bandwidth=9.0), X, Z, a) for a in A.T)
    np.testing.assert_allclose(full, each, rtol=1e-9)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in KERNELS], ids=str)
def test_the_same_bits_again(kernel: Kernel) -> None:
    X, Z, A = problem(3, n=50, p=60)
    assert np.array_equal(outer_products(kernel, X, Z, A), outer_products(kernel, X, Z, A))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("near", [0.0, 1e-300, 1e-9, 1e-5, 1e-3])
def test_the_cusp_of_laplace_at_its_center(dtype: Any, near: float) -> None:
    """The gradient is 0 at the center and at most 1 / bandwidth long near it, however near."""
    z = np.array([[3.0, -4.0]])
    x = z + np.array([near, 0.0])
    g = gradients(Matern(nu=0.5, bandwidth=2.0), x, z, [1.0], dtype=dtype)[0, 0]
    assert np.isfinite(g).all()
    if near in (0.0, 1e-300):
        assert not g.any()
    else:
        assert np.hypot(*g) < 0.51 if dtype == np.float64 else np.hypot(*g) < 0.6


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("near", [0.0, 1e-30, 1e-12, 1e-3, 1.0, 1e6])
def test_slopes_of_roots_at_all_distances(dtype: Any, near: float) -> None:
    t = np.concatenate([[0.0], np.logspace(-15, 18, 67)]).astype(dtype)
    h, size = float(dtype(near)), t.astype(float)
    expected = size * (np.maximum(size**2 + h**2, 1e-300)) ** -0.75
    for sign in (1.0, -1.0):
        found = module._slopes_of_root(dtype(sign) * t, near)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, sign * expected, rtol=8.0 * np.finfo(dtype).eps)
    farther = module._slopes_of_root(np.array([1e25, np.finfo(dtype).max], dtype), near)
    assert (np.abs(farther) < 1e-12).all()


def test_far_points_have_no_gradient() -> None:
    for kernel, _ in KERNELS:
        g = gradients(kernel, [[1e5, 0.0]], [[0.0, 0.0]], [1.0])
        assert np.isfinite(g).all()
        assert np.abs(g).max() < 1e-6


def test_of_waves_is_the_oracles() -> None:
    random = np.random.default_rng(5)
    X, Omega, b = random.normal(size=(9, 3)), random.normal(size=(6, 3)), random.uniform(size=6)
    A = random.normal(size=(6, 2))
    each = [plain.wave_gradient(Omega, b, np.sqrt(2.0), A, x) for x in X]
    np.testing.assert_allclose(of_waves(X, Omega, b, A), plain.agop(each), rtol=1e-10)
    np.testing.assert_allclose(
        of_waves(X, Omega, b, A, diagonal=True), np.diag(plain.agop(each)), rtol=1e-10
    )

    def f(x) -> np.ndarray:
        return np.sqrt(2.0) * np.cos(Omega @ x + b) @ A

    found = plain.wave_gradient(Omega, b, np.sqrt(2.0), A, X[0])
    np.testing.assert_allclose(found, plain.differences(f, X[0]), rtol=1e-6)


def test_waves_are_those_of_random_features() -> None:
    """Frequencies and phases of `RandomFeatures`, found by values of its features."""
    features = RandomFeatures(Gaussian(), seed=3, dtype="float64")
    h = 1e-4
    at = features.transform([[-h], [0.0], [h]], 0, 8) / np.sqrt(2.0)
    second = (at[0] - 2.0 * at[1] + at[2]) / h**2
    omega = np.sqrt(np.maximum(-second / at[1], 0.0))
    slope = (at[2] - at[0]) / (2.0 * h)
    phase = np.arctan2(-slope / omega, at[1])
    A = np.arange(8.0)
    f = [np.float64(features.transform([[x]], 0, 8)[0] @ A) for x in (0.3 - h, 0.3 + h)]
    expected = ((f[1] - f[0]) / (2.0 * h)) ** 2
    assert of_waves([[0.3]], omega[:, None], phase, A)[0, 0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kernel", [Linear(), NTK(), Polynomial()])
def test_other_kernels_are_refused(kernel: Kernel) -> None:
    with pytest.raises(InvalidInput, match="no closed form"):
        gradients(kernel, *problem())


def test_shapes_that_do_not_fit() -> None:
    X, Z, A = problem()
    with pytest.raises(InvalidInput, match="X has 2 columns and Z has 3"):
        gradients(Gaussian(), X[:, :2], Z, A)
    with pytest.raises(InvalidInput, match="a row for each of 9 centers"):
        gradients(Gaussian(), X, Z, A[:4])
    with pytest.raises(InvalidInput, match="a point at least"):
        outer_products(Gaussian(), X[:0], Z, A)
    with pytest.raises(InvalidInput, match="phases must have shape"):
        of_waves(X, Z, np.zeros(3), A)
