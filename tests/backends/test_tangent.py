"""The neural tangent kernel: what it is, how precise it is, and points on the sphere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import naive

from streamk import kernels
from streamk.backends import DEEPEST, KernelCode, loops, select
from streamk.errors import InvalidInput
from streamk.factorization import block_kernel, meka
from streamk.features import RandomFeatures
from streamk.kernels import NTK
from streamk.learners import (
    DoublyStochastic,
    StreamingMeka,
)

both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def points(n: int, d: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, d))


# --- the definition -------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 5, DEEPEST])
def test_all_angles_are_the_oracle_s(depth: int) -> None:
    angles = np.linspace(0.0, np.pi, 501)
    U = np.column_stack([np.cos(angles), np.sin(angles)])
    expected = np.array([naive.neural_tangent(t, depth) for t in angles]) / (depth + 1)
    for dtype, error in ((np.float64, 1e-12), (np.float32, 1.2e-7 * (depth + 6))):
        W, K = U.astype(dtype), np.empty((1, 501), dtype)
        select().pairwise(KernelCode.NTK, float(depth), 1.0, W[:1], W, K)
        assert K[0, 0] == 1.0
        allowed = np.minimum(error / np.maximum(np.cos(angles / 2.0), 1e-30), error**0.5)
        assert (np.abs(K[0] - expected) <= allowed).all()


@pytest.mark.parametrize("depth", [1, 2, 5, DEEPEST])
def test_near_points_are_told_apart(depth: int) -> None:
    # 1 - K is depth theta / (2 pi), and terms of theta^2.
    theta = np.logspace(-14, -5, 10)
    U = np.column_stack([np.cos(theta), np.sin(theta)])
    K = np.empty((1, 10))
    select().pairwise(KernelCode.NTK, float(depth), 1.0, np.eye(2)[:1], U, K)
    error = np.abs(1.0 - K[0] - depth * theta / (2.0 * np.pi))
    assert (error <= depth * theta**2 + 4e-16).all()


# --- points on the sphere -------------------------------------------------------------------------


@both_types
@pytest.mark.parametrize("d", [0, 1, 15, 16, 17, 100])
def test_points_are_mapped_to_unit_vectors(dtype: Any, d: int) -> None:
    X = (points(300, d) * np.exp(3.0 * points(300, 1, 1))).astype(dtype)
    X[7:9] *= dtype(1e30)
    out, unit = np.empty((300, d + 1), dtype), np.finfo(dtype).eps
    for bandwidth in (0.7, 1e-200, 1e200):
        loops.tangent.to_sphere(X, bandwidth, out)
        whole = np.hstack([np.full((300, 1), bandwidth), X]).astype(np.longdouble)
        expected = whole / np.sqrt(np.square(whole).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(out, expected.astype(dtype), rtol=4 * unit, atol=1e-300)
        norms = np.linalg.norm(out.astype(float), axis=1)
        np.testing.assert_allclose(norms, 1.0, rtol=4 * unit)


@both_types
def test_a_mapped_point_depends_on_nothing_but_itself(dtype: Any) -> None:
    X, kernel = points(600, 37).astype(dtype), NTK(bandwidth=2.0)
    U = kernel.mapped(X)
    assert U.dtype == dtype
    for rows in (slice(0, 1), slice(3, 259), slice(599, 600)):
        np.testing.assert_array_equal(kernel.mapped(X[rows]), U[rows])
    for count in (1, 30, 100):
        longer = kernel.mapped(np.hstack([X, np.zeros((600, count), dtype)]))
        np.testing.assert_array_equal(longer[:, :38], U)
        assert not longer[:, 38:].any()


def test_other_kernels_take_points_as_they_are() -> None:
    X = points(3, 2)
    for name in kernels.KERNELS:
        mapped = ("ntk", "polynomial", "arc_cosine", "zonal")
        assert (kernels.by_name(name).mapped(X) is X) == (name not in mapped)


@both_types
@pytest.mark.parametrize("depth", [1, 4, 12])
def test_extreme_values_leave_a_number(dtype: Any, depth: int) -> None:
    huge = float(np.finfo(dtype).max) / 4.0
    X = np.array([[0.0, 0.0], [huge, 0.0], [-huge, huge], [1.0, 1.0], [-huge, 0.0]], dtype)
    half = NTK(depth=depth).pairwise([[0.0]], [[1e9]])[0, 0]  # at a right angle
    opposite = naive.neural_tangent(np.pi, depth) / (depth + 1)
    for bandwidth in (1e-200, 1e-30, 1.0, 1e30, 1e200):
        kernel, V = NTK(depth=depth, bandwidth=bandwidth), np.eye(5)
        K = kernel.product(X, X, V, dtype=dtype)
        np.testing.assert_array_equal(np.diag(K), 1.0)
        assert np.isfinite(K).all()
        if bandwidth <= 1.0:
            assert K[0, 1] == pytest.approx(half, abs=1e-6)
            assert K[1, 4] == pytest.approx(opposite, abs=1e-3 if dtype == np.float32 else 1e-7)
        if bandwidth != 1.0:
            assert K[0, 3] == pytest.approx(1.0 if bandwidth > 1.0 else half, abs=1e-6)


# --- whoever takes kernels ------------------------------------------------------------------------


_FEATURES = r"'ntk' has no random features.*EigenPro"
_CLUSTERS = r"NTK\(.*is not shift-invariant.*Gaussian"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomFeatures(NTK(), seed=0), _FEATURES),
        (lambda: RandomFeatures(NTK(), seed=0, sampler="hadamard"), _FEATURES),
        (lambda: DoublyStochastic(NTK()), _FEATURES),
        (lambda: StreamingMeka(NTK()), _CLUSTERS),
        (lambda: meka(points(50, 2), NTK(), rank=3, n_clusters=2), _CLUSTERS),
        (lambda: block_kernel(points(50, 2), NTK(), n_clusters=2), _CLUSTERS),
    ],
)
def test_random_features_and_clusters_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()
