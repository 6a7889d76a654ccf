"""Gradients of kernel expansions and their outer products, beside the oracle and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from feature_machine_kit import friedman
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
from streamk.learners.rfm import metric as weights
from streamk.learners.rfm import ridge
from streamk.learners.rfm.machine import rfm
from streamk.learners.rfm.metric import Columns, outer_products, rescaled
from streamk.learners.rfm.ridge import ExactRidge, NormalRidge
from streamk.learners.rfm.solving import inverse_temperature

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
    with pytest.raises(InvalidInput, match="a point at least"):
        outer_products(Gaussian(), X[:0], Z, A)


# --- weights of the events of a recursive feature machine: events that are there more -------------


def weighted(n: int = 24, d: int = 3) -> tuple[Any, Any, Any, Any]:
    """Events with targets, how often each of them counts, and where each is when repeated."""
    random = np.random.default_rng(1)
    X = random.normal(size=(n, d))
    Y = np.column_stack([np.sin(3.0 * X[:, 0]), X[:, 1] ** 2])
    often = random.integers(1, 5, n)
    return X, Y, often, np.repeat(np.arange(n), often)


@pytest.mark.parametrize("scale", ["standard", "ranks"])
def test_columns_of_weights_are_those_of_repeated_events(scale: str) -> None:
    X, _, often, places = weighted(60)
    X[:, 0] = np.round(X[:, 0])  # several events are equal
    X[::7, 1] = np.nan
    one = Columns.of(X, scale, often.astype(np.float64))
    other = Columns.of(X[places], scale)
    np.testing.assert_array_equal(one.medians, other.medians)
    np.testing.assert_allclose(one.scaled(X), other.scaled(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("often", [[1, 1, 2], [2, 1, 1], [1, 1, 1], [3, 1, 2], [1, 3, 1], [5]])
def test_a_median_is_that_of_repeated_numbers(often: list[int]) -> None:
    v = np.array([4.0, 1.0, 2.0])[: len(often)]
    assert weights.median(v, np.array(often, float)) == np.median(np.repeat(v, often))


def test_centers_learn_weighted_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "_ROWS", 50)  # in several blocks
    X, Y, often, places = weighted(230)
    kernel, r = Gaussian(bandwidth=0.7), 0.3
    found = NormalRidge(kernel, X, Y, X[:40], often.astype(np.float64)).solve(r)
    other = NormalRidge(kernel, X[places], Y[places], X[:40]).solve(r)
    K = kernel.pairwise(X, X[:40])
    np.testing.assert_allclose(K @ found, K @ other, atol=1e-6)


@pytest.mark.parametrize("power", [2.0, 1.0, 0.5])
@pytest.mark.parametrize("full", [False, True])
def test_a_metric_keeps_the_mean_distance_of_weighted_events(power: float, full: bool) -> None:
    X, _, often, places = weighted()
    G, power = np.array([5.0, 0.1, 0.3]), 2.0 if full else power
    G = np.diag(G) + 0.1 if full else G
    found = rescaled(G, X, power=power, weights=often.astype(np.float64))
    np.testing.assert_allclose(found, rescaled(G, X[places], power=power), rtol=1e-12)


def test_outer_products_of_weighted_events() -> None:
    X, Y, often, places = weighted()
    kernel = Matern(nu=1.5, bandwidth=2.0)
    for diagonal in (False, True):
        found = outer_products(kernel, X, X, Y, diagonal=diagonal, weights=often)
        other = outer_products(kernel, X[places], X, Y, diagonal=diagonal)
        np.testing.assert_allclose(found, other, rtol=1e-12)


def test_an_event_that_counts_a_million_times_is_solved_for() -> None:
    """Of events that nearly coincide; a matrix in single precision errs by 0.01."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    X[:5] = X[0] + 1e-7 * random.normal(size=(5, 3))
    w = np.ones(200)
    w[:5] = 1e6
    Y = random.normal(size=(200, 1))
    kernel = Matern(nu=0.5, bandwidth=2.0)
    K, w = kernel.pairwise(X), w / w.mean()
    found = ExactRidge(kernel, X, Y, w).solve(1e-4)
    expected = np.linalg.solve(K + 1e-4 * np.diag(1.0 / w), Y)
    np.testing.assert_allclose(K @ found, K @ expected, atol=1e-8)


# --- all of it ------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"kernel": "matern", "bandwidth": 2.0, "metric": "diagonal", "rounds": 3}


@pytest.mark.parametrize("n", [400, 1_100])
def test_a_regularization_that_is_given_is_divided_by_the_weights(n: int) -> None:
    X, Y = friedman(n)
    found = rfm(X, Y, weights=np.full(n, 3.0), regularization=0.3, **SMALL)
    alike = rfm(X, Y, regularization=0.1, **SMALL)
    assert found.ridge == pytest.approx(0.3)
    assert found.round == alike.round
    np.testing.assert_allclose(found.predict(X), alike.predict(X), atol=1e-4)


def test_what_counts_more_is_fitted_better() -> None:
    """Of two functions of the same columns that one is learned whose events count."""
    n = 400
    X, Y = friedman(n)
    X[:, 5] = np.arange(n) % 2  # of no use, as the weights say it
    Y[1::2] = 5.0 - Y[1::2]
    w = np.where(np.arange(n) % 2, 1e-3, 1.0)
    found = rfm(X[:, :5], Y, weights=w, **SMALL)
    said = found.predict(X[:, :5])
    errors = np.abs(said - Y)[:, 0]
    assert errors[::2].mean() < 0.2
    assert errors[1::2].mean() > 2.0
    of_held = np.average(np.abs(found.margins - Y[found.held])[:, 0], weights=w[found.held])
    assert min(found.errors) == pytest.approx(of_held)


@pytest.mark.parametrize("wrong", [[1.0] * 19, [1.0] * 19 + [0.0], [1.0] * 19 + [np.nan], 2.0])
def test_weights_that_are_none(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="weights must be 20 positive numbers"):
        rfm(*friedman(20), weights=wrong)


def test_the_temperature_of_weights_is_that_of_repeated_events() -> None:
    random = np.random.default_rng(0)
    F, classes = random.normal(size=(400, 3)), random.integers(0, 3, 400)
    F[np.arange(400), classes] += 1.0
    often = random.integers(1, 4, 400)
    found = inverse_temperature(F, classes, often.astype(np.float64))
    other = inverse_temperature(F.repeat(often, axis=0), classes.repeat(often))
    # They differ by the event beside them, of one in 400 and one in 800.
    assert found == pytest.approx(other, rel=5e-3)
    assert found != pytest.approx(inverse_temperature(F, classes), rel=5e-3)
