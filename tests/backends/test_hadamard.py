"""Hadamard features: against the oracle, against the kernels, and in pieces."""

import math
from itertools import pairwise

import numpy as np
import pytest
from reference import naive

from streamk import kernels
from streamk.backends import CHUNK, Hadamard, select
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures
from streamk.features.samplers import extended

BANDWIDTH = 0.8
CASES = {
    name: (kernel, naive.Kernel(*known))
    for name, kernel, *known in [
        ("gaussian", kernels.Gaussian(bandwidth=BANDWIDTH), "gaussian", BANDWIDTH),
        *(
            (f"matern-{nu}", kernels.Matern(nu=nu, bandwidth=BANDWIDTH), "matern", BANDWIDTH, nu)
            for nu in (0.5, 1.5, 2.5)
        ),
        (
            *("rational-quadratic", kernels.RationalQuadratic(alpha=1.5, bandwidth=BANDWIDTH)),
            *("rational_quadratic", BANDWIDTH, 1.5),
        ),
    ]
}
ALL = {**CASES, "linear": (kernels.Linear(), naive.Kernel("linear"))}


def hadamard(kernel, **options):
    return RandomFeatures(kernel, **{"seed": 9, "sampler": "hadamard", **options})


# --- against the oracle ---------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 65])
@pytest.mark.parametrize("case", ALL)
def test_features_are_the_oracle_s(case, d):
    ours, theirs = ALL[case]
    X = np.random.default_rng(d).normal(size=(3, d))
    width = 64 if d <= 64 else 128
    start, stop = width - 23, width + 41  # across the edge of a transform
    Z = hadamard(ours, dtype="float64").transform(X, start, stop)
    expected = [
        [naive.hadamard_feature(theirs, 9, i, x, (width,)) for i in range(start, stop)] for x in X
    ]
    assert Z.shape == (3, stop - start)
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("d", "widths"), [(784, (1024,)), (1100, (1024, 1024))])
def test_features_of_many_columns_are_the_oracle_s(d, widths):
    X = np.random.default_rng(d).normal(size=(2, d)) / math.sqrt(d)
    features = hadamard(CASES["gaussian"][0], seed=2**63 + 9, dtype="float64")
    Z = features.transform(X, 1000, 1100)
    k = CASES["gaussian"][1]
    expected = [
        [naive.hadamard_feature(k, 2**63 + 9, i, x, widths) for i in range(1000, 1100)] for x in X
    ]
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("d", [7, 784])
@pytest.mark.parametrize("case", ["gaussian", "rational-quadratic", "linear"])
def test_single_precision_features_are_the_oracle_s(case, d):
    ours, theirs = ALL[case]
    X = np.random.default_rng(2).normal(size=(4, d)).astype(np.float32) / np.float32(d**0.5)
    Z = hadamard(ours).transform(X, 0, 200)
    widths = (64,) if d == 7 else (1024,)
    expected = [[naive.hadamard_feature(theirs, 9, i, x, widths) for i in range(200)] for x in X]
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, expected, rtol=0, atol=2e-5)


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
    twin, (kernel, k) = select(), CASES["gaussian"]
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


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_finite_values_cannot_poison_a_model(case, dtype):
    sizes = [1e6, 1e12, 1e30, 3e38] + ([1e100, 1e300] if dtype == "float64" else [])
    features = hadamard(CASES[case][0], dtype=dtype)
    x = np.random.default_rng(0).uniform(0.1, 1.0, size=(1, 60))
    for size in sizes:
        Z = features.transform(size * x, 0, 640)
        assert (np.abs(Z) <= math.sqrt(2.0) * (1 + 1e-5)).all(), f"at {size}"


@pytest.mark.parametrize(("dtype", "size"), [("float32", 3e38), ("float64", 1e308)])
def test_a_phase_that_overflows_counts_as_half_a_turn(dtype, size):
    Z = hadamard(kernels.Gaussian(), dtype=dtype)
    Z = Z.transform(np.full((1, 63), size), 0, 640)
    np.testing.assert_allclose(Z, np.full((1, 640), -math.sqrt(2.0)), rtol=1e-6)


# --- against the kernels --------------------------------------------------------------------


def pairs_of_points(d, n=20):
    """Pairs whose kernel values spread over (0, 1)."""
    rng = np.random.default_rng(100 + d)
    X, delta = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    distance = BANDWIDTH * np.linspace(0.1, 2.5, n)
    return X, X + delta * (distance / np.linalg.norm(delta, axis=1))[:, None]


def block_means(kernel, X, Y, *, seeds=4, m=2**15):
    """The kernel's estimates by each block of features, and the block's width; (pairs, blocks).

    Features of a block are orthogonal and so not independent; blocks are.
    """
    width = extended((), X.shape[1])[0]
    means = []
    for seed in range(seeds):
        Z = hadamard(kernel, seed=seed).transform(np.vstack([X, Y]), 0, m).astype(np.float64)
        means.append((Z[: len(X)] * Z[len(X) :]).reshape(len(X), -1, width).mean(axis=2))
    return np.hstack(means), width


def standard_errors(means, k, X, Y):
    """How many standard errors the mean of all blocks is off the kernel."""
    value = np.array([naive.kernel(k, x, y) for x, y in zip(X, Y, strict=True)])
    return (means.mean(axis=1) - value) * math.sqrt(means.shape[1]) / means.std(axis=1, ddof=1)


def agrees(z):
    return np.sqrt(np.mean(z**2)) < 1.7 and np.abs(z).max() < 4.0


DIMENSIONS = [1, 54]


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("case", CASES)
def test_products_of_features_converge_to_the_kernel(case, d):
    """Within the Monte-Carlo error, and with a variance that is no larger than of iid features."""
    (ours, k), (X, Y) = CASES[case], pairs_of_points(d)
    means, width = block_means(ours, X, Y)
    assert agrees(standard_errors(means, k, X, Y))
    # phi(x) phi(y) = cos(w.(x - y)) + cos(w.(x + y) + 2 b), and cos^2 = (1 + cos 2)/2.
    value, double = (
        np.array([naive.kernel(k, c * x, c * y) for x, y in zip(X, Y, strict=True)])
        for c in (1.0, 2.0)
    )
    ratio = width * means.var(axis=1, ddof=1) / (1.0 + 0.5 * double - value**2)
    error = math.sqrt(2.0 / means.shape[1])  # of a variance, relative to it
    assert ratio.max() < 1.0 + 4.5 * error
    assert ratio.mean() < 1.0 + error
    if case == "gaussian":
        assert ratio.min() < 0.85, "orthogonality should pay"


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
    Z = hadamard(CASES["gaussian"][0]).transform(np.vstack([X, Y]), 0, m).astype(np.float64)
    left = Z[1:] @ Z[0] / m
    error = 4.5 * math.sqrt(1.5 / m)
    assert np.abs(left[:2]).max() < error
    assert np.abs(left[2:5]).max() < 0.12 + error
    if d >= 54:
        assert np.abs(left[5:]).max() < error


# --- blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 1200])
@pytest.mark.parametrize("case", ["gaussian", "matern-1.5", "linear"])
def test_pieces_equal_the_whole(case, d):
    X = np.random.default_rng(0).normal(size=(5, d))
    features = hadamard(ALL[case][0])
    whole = features.transform(X, 0, 2500)
    cuts = [0, 1, 10, 63, 64, 65, 200, 200, 499, 1030, 2050, 2499, 2500]
    pieces = [features.transform(X, a, b) for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(np.hstack(pieces), whole)
    rows = [features.transform(x[None, :], 0, 2500) for x in X]
    np.testing.assert_array_equal(np.vstack(rows), whole)
    assert len(np.unique(whole[0])) > 2400


def test_no_columns_leave_the_phase_alone():
    Z = hadamard(kernels.Gaussian(), dtype="float64").transform(np.zeros((1, 0)), 0, 10)
    phases = np.array([naive.uniform(9, naive.PHASE, i, 0) for i in range(10)])
    np.testing.assert_allclose(Z[0], math.sqrt(2.0) * np.cos(2.0 * np.pi * phases))


# --- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [kernels.Laplacian(), kernels.Cauchy()])
def test_product_kernels_are_refused(kernel):
    with pytest.raises(InvalidInput) as error:
        hadamard(kernel)
    for word in (kernel.name, "hadamard", "iid", "gaussian"):
        assert word in str(error.value)
