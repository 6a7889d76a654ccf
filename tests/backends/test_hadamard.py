"""Hadamard features of many columns, of several groups and far away; see `test_every_sampler`."""

import math

import numpy as np
import pytest
from reference import naive

from streamk import kernels
from streamk.backends import CHUNK, Hadamard, select
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures

BANDWIDTH = 0.8
GAUSSIAN, PLAIN = kernels.Gaussian(bandwidth=BANDWIDTH), naive.Kernel("gaussian", BANDWIDTH)


def hadamard(kernel, **options):
    return RandomFeatures(kernel, **{"seed": 9, "sampler": "hadamard", **options})


# --- against the oracle ---------------------------------------------------------------------


@pytest.mark.parametrize(("d", "widths"), [(784, (1024,)), (1100, (1024, 1024))])
def test_features_of_many_columns_are_the_oracle_s(d, widths):
    X = np.random.default_rng(d).normal(size=(2, d)) / math.sqrt(d)
    features = hadamard(GAUSSIAN, seed=2**63 + 9, dtype="float64")
    Z = features.transform(X, 1000, 1100)
    k = PLAIN
    expected = [
        [naive.hadamard_feature(k, 2**63 + 9, i, x, widths) for i in range(1000, 1100)] for x in X
    ]
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fewer_chunks_than_the_basis_has(dtype):
    """Groups of different widths, and sums over chunks in the middle of the widest's block."""
    rng, widths, chunks = np.random.default_rng(3), (64, 256, 128), 8
    basis = Hadamard(
        widths,
        np.empty((chunks, 3, 3), np.uint64),
        np.empty((chunks, 3, CHUNK), dtype),
        np.empty((chunks, CHUNK), dtype),
    )
    twin, (kernel, k) = select(), (GAUSSIAN, PLAIN)
    law = (kernel.law, kernel.degrees_of_freedom, kernel.frequency_scale)
    twin.rotations(9, *law, widths, 4, *basis[1:])
    X = (rng.normal(size=(5, 333)) / 10).astype(dtype)
    G = rng.normal(size=(5, 2)).astype(dtype)
    first, last = 4 * CHUNK, 9 * CHUNK
    Z = np.array(
        [[naive.hadamard_feature(k, 9, i, x, widths) for i in range(first, last)] for x in X]
    ) / math.sqrt(2.0)
    atol = 1e-9 if dtype == "float64" else 1e-4

    part = np.empty((5, 5 * CHUNK), dtype)
    twin.features(X, basis, True, False, part)
    np.testing.assert_allclose(part, Z, rtol=0, atol=atol)

    A = rng.normal(size=(5, 2, CHUNK)).astype(dtype)
    F = np.empty((5, 2))
    twin.predict(X, basis, A, True, False, 0.5, F)
    alpha = A.transpose(0, 2, 1).reshape(-1, 2)
    np.testing.assert_allclose(F, 0.5 * Z @ alpha, rtol=0, atol=20 * atol)

    g = np.empty((5, 2, CHUNK), dtype)
    twin.gradient(X, basis, G, True, False, g)
    np.testing.assert_allclose(g.transpose(0, 2, 1).reshape(-1, 2), Z.T @ G, rtol=0, atol=10 * atol)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 3e38), ("float64", 1e308)])
def test_a_phase_that_overflows_counts_as_half_a_turn(dtype, size):
    Z = hadamard(kernels.Gaussian(), dtype=dtype)
    Z = Z.transform(np.full((1, 63), size), 0, 640)
    np.testing.assert_allclose(Z, np.full((1, 640), -math.sqrt(2.0)), rtol=1e-6)


@pytest.mark.parametrize("d", [1, 100])
def test_far_away_along_a_column_a_trace_of_the_kernel_is_left(d):
    """What the guide says of it: nothing up to ten bandwidths, up to .12 beyond.

    The transform of one column takes few values, and 0 with a probability that no random length
    changes.
    """
    X = np.zeros((6, d))
    X[1:, 0] = BANDWIDTH * np.array([5.0, 10.0, 50.0, 100.0, 200.0])
    rng = np.random.default_rng(d)
    directions = rng.normal(size=(3, d))
    Y = 100.0 * BANDWIDTH * directions / np.linalg.norm(directions, axis=1)[:, None]
    m = 2**17
    Z = hadamard(GAUSSIAN).transform(np.vstack([X, Y]), 0, m).astype(np.float64)
    left = Z[1:] @ Z[0] / m
    error = 4.5 * math.sqrt(1.5 / m)
    assert np.abs(left[:2]).max() < error
    assert np.abs(left[2:5]).max() < 0.12 + error
    if d >= 54:
        assert np.abs(left[5:]).max() < error


# --- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [kernels.Laplacian(), kernels.Cauchy()])
def test_product_kernels_are_refused(kernel):
    with pytest.raises(InvalidInput) as error:
        hadamard(kernel)
    for word in (kernel.name, "hadamard", "iid", "gaussian"):
        assert word in str(error.value)
