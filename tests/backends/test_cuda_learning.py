"""The CuPy backend's learning and kernels against the host's; see `cuda_kit`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_kit import (
    PLACES,
    TYPES,
    backend_at,
    basis_of,
    both,
    columns_of,
    points,
    put,
    some_of,
    tolerance,
)

from streamk.backends import CHUNK, LANES, KernelCode, numba_backend
from streamk.kernels import NTK, Laplacian, base
from streamk.losses import LossCode


@pytest.fixture(params=PLACES)
def backend(request: pytest.FixtureRequest) -> Any:
    return backend_at(request.param)


LOSSES = [
    (LossCode.SQUARED, 0.0, False),
    (LossCode.SQUARED, 0.0, True),
    (LossCode.HINGE, 0.0, True),
    (LossCode.SQUARED_HINGE, 0.0, True),
    (LossCode.LOGISTIC, 0.0, True),
    (LossCode.SOFTMAX, 0.0, True),
    (LossCode.HUBER, 0.7, False),
    (LossCode.EPSILON_INSENSITIVE, 0.3, False),
    (LossCode.QUANTILE, 0.8, False),
]


def labels(n: int, outputs: int, loss: tuple[LossCode, float, bool]) -> Any:
    rng = np.random.default_rng(1)
    if not loss[2]:
        return rng.normal(size=n)
    classes = outputs if loss[0] == LossCode.SOFTMAX else max(2, outputs)
    return rng.integers(0, classes, n).astype(float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_loss_gradients(
    backend: Any, loss: tuple[LossCode, float, bool], outputs: int, dtype: str
) -> None:
    n, y = 300, labels(300, outputs, loss)
    F = points(n, outputs, "float64") * 2.0
    F[0], F[1] = 800.0, -800.0
    F[2] = y[2]
    G = np.empty((n, outputs), dtype)
    found, expected = both(backend, "loss_gradient", *loss, F, y, 0.25, G)
    rtol = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_descent_is_the_same_bit_for_bit(backend: Any, dtype: str, adaptive: bool) -> None:
    shape = (3, 2, CHUNK)
    A, g = (points(6, CHUNK, dtype, seed).reshape(shape) for seed in (1, 2))
    squares = np.abs(points(6, CHUNK, dtype, 3)).reshape(shape)[: 3 if adaptive else 0]
    there = [backend.put(array) for array in (A, squares, g)]
    numba_backend.descend(A, squares, g, 0.1, 10, 150)
    backend.descend(*there, 0.1, 10, 150)
    np.testing.assert_array_equal(backend.get(there[0]), A)
    np.testing.assert_array_equal(backend.get(there[1]), squares)


def test_decay_is_the_same_bit_for_bit(backend: Any) -> None:
    A = points(4, CHUNK, "float32")
    there = backend.put(A)
    numba_backend.decay(A, 0.3)
    backend.decay(there, 0.3)
    np.testing.assert_array_equal(backend.get(there), A)


def test_sums_are_finished_in_double_precision(backend: Any) -> None:
    acc = points(300, LANES, "float32").reshape(100, 3, LANES)
    np.testing.assert_array_equal(*both(backend, "finish", acc, 0.3, np.empty((100, 3))))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize(("dtype", "wide"), TYPES)
@pytest.mark.parametrize("widths", [(), (256, 64)])
def test_step(
    backend: Any, widths: tuple[int, ...], dtype: str, wide: bool, adaptive: bool
) -> None:
    n, outputs, d, chunks = 70, 3, columns_of(widths), 8
    X, basis = points(n, d, dtype), basis_of(widths, d, chunks, dtype)
    A = points(chunks * outputs, CHUNK, dtype).reshape(chunks, outputs, CHUNK)
    squares = np.ones((chunks if adaptive else 0, outputs, CHUNK), dtype)
    # A block that begins and ends within chunks, and within a transform.
    block, loss = (2, 20, 180), (LossCode.SOFTMAX, 0.0, True)
    y = labels(n, outputs, loss)
    there = [backend.put(array) for array in (X, y, A, squares)]
    F = np.empty((n, outputs))
    F2 = backend.xp.empty(F.shape, np.float64)
    before = A.copy()
    rest = (block, True, wide, (int(loss[0]), *loss[1:]), 0.1, 0.2, 0.3)
    assert numba_backend.step(X, y, basis, A, squares, *rest, F)
    assert backend.step(*there[:2], put(backend, basis), *there[2:], *rest, F2)
    atol = 300 * tolerance(dtype)
    np.testing.assert_allclose(backend.get(F2), F, atol=atol)
    np.testing.assert_allclose(backend.get(there[2]), A, atol=atol)
    np.testing.assert_allclose(backend.get(there[3]), squares, atol=atol)
    changed = (backend.get(there[2]) != before).any(axis=1).ravel()
    assert changed[2 * CHUNK + 20 : 2 * CHUNK + 180].all()
    assert not changed[: 2 * CHUNK + 20].any()
    assert not changed[2 * CHUNK + 180 :].any()


@pytest.mark.parametrize("widths", [(), (64,)])
def test_a_step_in_one_call_is_that_in_parts_bit_for_bit(
    backend: Any, widths: tuple[int, ...]
) -> None:
    n, outputs, d, chunks = 70, 2, columns_of(widths), 4
    X = backend.put(points(n, d, "float32"))
    basis = put(backend, basis_of(widths, d, chunks, "float32"))
    loss = (LossCode.SOFTMAX, 0.0, True)
    y = backend.put(labels(n, outputs, loss))
    shape = (chunks, outputs, CHUNK)
    one, parts = (
        backend.put(points(chunks * outputs, CHUNK, "float32").reshape(shape)) for _ in range(2)
    )
    squares = backend.xp.zeros((0, outputs, CHUNK), np.float32)
    F = backend.xp.empty((n, outputs), np.float64)
    assert backend.step(X, y, basis, one, squares, (1, 0, 128), True, False, loss, 0.1, 0.2, 0.3, F)
    backend.predict(X, basis, parts, True, False, 0.1, F)
    G = backend.xp.empty((n, outputs), np.float32)
    backend.loss_gradient(*loss, F, y, 0.2, G)
    g = backend.xp.empty((2, outputs, CHUNK), np.float32)
    backend.gradient(X, some_of(basis, slice(1, 3)), G, True, False, g)
    backend.descend(parts[1:3], squares[1:3], g, 0.3, 0, 128)
    np.testing.assert_array_equal(backend.get(one), backend.get(parts))


def test_nothing_is_learned_from_predictions_that_overflow(backend: Any) -> None:
    n, d = 5, 13
    X, basis = points(n, d, "float32"), basis_of((), d, 2, "float32")
    A = np.full((2, 1, CHUNK), np.finfo(np.float32).max, np.float32)
    there = backend.put(A)
    squares = backend.xp.zeros((0, 1, CHUNK), np.float32)
    F = backend.xp.empty((n, 1), np.float64)
    given = *(put(backend, one) for one in (X, np.zeros(n), basis)), there, squares
    loss = (LossCode.SQUARED, 0.0, False)
    done = backend.step(*given, (0, 0, 128), True, False, loss, 1.0, 1.0, 0.1, F)
    assert done is False
    np.testing.assert_array_equal(backend.get(there), A)


# Kernels between points

KERNELS = [
    (KernelCode.GAUSSIAN, 0.0),
    (KernelCode.LAPLACIAN, 0.0),
    (KernelCode.POWER_EXPONENTIAL, 0.0),
    (KernelCode.MATERN, 0.5),
    (KernelCode.MATERN, 1.5),
    (KernelCode.MATERN, 2.5),
    (KernelCode.CAUCHY, 0.0),
    (KernelCode.RATIONAL_QUADRATIC, 2.5),
    (KernelCode.NTK, 1.0),
    (KernelCode.NTK, 5.0),
    (KernelCode.LINEAR, 0.0),
]


@pytest.mark.parametrize(("n", "m", "d"), [(67, 130, 9), (3, 1100, 17)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("code", "parameter"), KERNELS)
def test_kernels_between_points(
    backend: Any, code: KernelCode, parameter: float, dtype: str, n: int, m: int, d: int
) -> None:
    X, Y, V = points(n, d, dtype), points(m, d, dtype, 1), points(m, 18, dtype, 2)
    Y[: min(n, m)] = X[: min(n, m)]
    if code == KernelCode.NTK:
        X, Y = NTK(bandwidth=2.0).mapped(X), NTK(bandwidth=2.0).mapped(Y)
    kernel, rtol = (code, parameter, 0.4), 4 * tolerance(dtype)
    found, K = both(backend, "pairwise", *kernel, X, Y, np.empty((n, m), dtype))
    np.testing.assert_allclose(found, K, rtol=rtol, atol=rtol * np.abs(K).max())
    found, product = both(backend, "pairwise_product", *kernel, X, Y, V, np.empty((n, 18)))
    atol = rtol * np.abs(K).max() * np.sqrt(m) * 4
    np.testing.assert_allclose(found, product, rtol=rtol, atol=atol)
    # A row by itself is the same as in its batch.
    one, _ = both(backend, "pairwise_product", *kernel, X[n - 1 :], Y, V, np.empty((1, 18)))
    np.testing.assert_array_equal(one[0], found[n - 1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_multiplies_on_the_device(
    backend: Any, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    X, Y, V = points(37, 4, dtype), points(70, 4, dtype, 1), points(70, 2, dtype, 2)
    expected = Laplacian().product(X, Y, V)
    monkeypatch.setattr(base, "select", lambda _: backend)
    found = Laplacian().product(X, Y, V, dtype=dtype, backend="cupy")
    assert found.dtype == np.float64
    atol = 4 * tolerance(dtype) * np.sqrt(70) * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=atol)


def test_a_product_with_no_centers_is_zero(backend: Any) -> None:
    X, none, no_values = points(3, 2, "float32"), *(np.empty((0, k), np.float32) for k in (2, 1))
    given = KernelCode.GAUSSIAN, 0.0, 1.0, X, none, no_values, np.empty((3, 1))
    np.testing.assert_array_equal(both(backend, "pairwise_product", *given)[0], np.zeros((3, 1)))
