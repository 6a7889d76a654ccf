"""Orthogonal frequencies: against the oracle, against the kernels, and beside independent ones."""

import math

import numpy as np
import pytest
from reference import features as naive_features
from reference import naive

from streamk import kernels
from streamk.backends import CHUNK, select
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures, column_keys
from streamk.features.random_features import FeatureBlocks
from streamk.features.samplers import WIDEST_ORTHOGONAL, extended

CASES = {
    "gaussian": (kernels.Gaussian(bandwidth=0.8), naive.Kernel("gaussian", 0.8)),
    "matern-0.5": (kernels.Matern(nu=0.5, bandwidth=0.8), naive.Kernel("matern", 0.8, 0.5)),
    "matern-1.5": (kernels.Matern(bandwidth=0.8), naive.Kernel("matern", 0.8, 1.5)),
    "rational_quadratic": (
        kernels.RationalQuadratic(alpha=1.5, bandwidth=0.8),
        naive.Kernel("rational_quadratic", 0.8, 1.5),
    ),
    "linear": (kernels.Linear(), naive.Kernel("linear")),
}
every_case = pytest.mark.parametrize("case", CASES)


def orthogonal(kernel, **options):
    return RandomFeatures(kernel, **{"seed": 5, "sampler": "orthogonal", **options})


def pairs(n, d, distance, seed=0):
    rng = np.random.default_rng(seed)
    X, delta = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    return X, X + distance * delta / np.linalg.norm(delta, axis=1)[:, None]


# --- against the oracle ---------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 5, 64, 70])
@every_case
def test_features_are_the_oracle_s(case, d):
    kernel, plain = CASES[case]
    widths = extended((), d, WIDEST_ORTHOGONAL)
    feature = naive_features.orthogonal_feature(plain, widths)
    X = np.random.default_rng(d).normal(size=(2, d))
    stop = 4 * max(widths)
    some = [0, 1, 63, max(widths), max(widths) + 1, 2 * max(widths), stop - 1]
    Z = orthogonal(kernel, dtype="float64").transform(X, 0, stop)[:, some]
    expected = [[feature(5, i, x, range(d)) for i in some] for x in X]
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-8)


def test_several_groups_are_the_oracle_s():
    d, widths = 100, (64, 64)
    feature = naive_features.orthogonal_feature(CASES["gaussian"][1], widths)
    X = np.random.default_rng(d).normal(size=(2, d))
    blocks = FeatureBlocks(
        CASES["gaussian"][0], column_keys(range(d)), seed=5, backend=select(),
        dtype=np.dtype("float64"), cache_bytes=0, sampler="orthogonal", widths=widths,
    )  # fmt: skip
    expected = [[feature(5, i, x, range(d)) for i in (0, 65, 130, 255)] for x in X]
    assert blocks.widths == widths
    Z = blocks.features(X, 0, 4)
    np.testing.assert_allclose(Z[:, [0, 65, 130, 255]], expected, rtol=0, atol=1e-8)


@every_case
def test_single_precision(case):
    kernel = CASES[case][0]
    X = np.random.default_rng(0).normal(size=(20, 30))
    exact = orthogonal(kernel, dtype="float64").transform(X, 0, 300)
    Z = orthogonal(kernel).transform(X, 0, 300)
    # The phases of a heavy tail are long.
    most = 5e-3 if case == "matern-0.5" else 3e-4
    np.testing.assert_allclose(Z, exact, rtol=0, atol=most)


@pytest.mark.parametrize("d", [64, 256])
def test_directions_are_orthogonal_and_lengths_are_those_of_normal_vectors(d):
    W, b = np.empty((40, d, CHUNK)), np.empty((40, CHUNK))
    select().orthogonal(3, kernels.Gaussian().law, 0, 2.0 * math.pi, (d,), 0, W, b)
    rows = W.transpose(0, 2, 1).reshape(-1, d, d)
    lengths = np.linalg.norm(rows, axis=2)
    directions = rows / lengths[..., None]
    np.testing.assert_allclose(directions @ directions.transpose(0, 2, 1), np.eye(d)[None].repeat(
        len(rows), axis=0), atol=1e-11)  # fmt: skip
    assert np.mean(lengths**2) == pytest.approx(d, rel=0.02)  # chi-squared: mean d, variance 2 d
    assert np.var(lengths**2) == pytest.approx(2 * d, rel=0.2)
    assert np.abs(directions.mean(axis=(0, 1))).max() < 5 / math.sqrt(d * rows.shape[0] * d)


# --- against the kernels --------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("d", [1, 2, 5, 64, 100])
@every_case
def test_products_of_features_are_unbiased(case, d):
    """Means over independent pieces, in their own standard errors, are standard normal numbers."""
    kernel, plain = CASES[case]
    X, Y = pairs(60, d, 0.9)
    expected = [naive.kernel(plain, x, y) for x, y in zip(X, Y, strict=True)]
    # In few columns all pairs say nearly the same of one seed.
    Z = orthogonal(kernel, seed=0).transform(np.vstack([X, Y]), 0, 128 * 512).astype(np.float64)
    means = (Z[:60] * Z[60:]).reshape(60, 128, 512).mean(axis=2)
    z = (means.mean(axis=1) - expected) / (means.std(axis=1) / math.sqrt(128))
    assert np.abs(z).max() < 5.0
    assert np.sqrt(np.mean(z**2)) < 1.7


def variance(kernel, sampler, d, distance):
    """The mean squared error of the kernel by 512 features."""
    X, Y = pairs(30, d, distance)
    expected = np.diag(kernel.pairwise(X, Y))
    errors = []
    for seed in range(20):
        features = RandomFeatures(kernel, seed=seed, sampler=sampler)
        Z = features.transform(np.vstack([X, Y]), 0, 512).astype(np.float64)
        errors.append((Z[:30] * Z[30:]).mean(axis=1) - expected)
    return np.mean(np.square(errors))


@pytest.mark.parametrize("d", [2, 20, 64, 200])
@pytest.mark.parametrize(
    ("kernel", "distance", "most"),
    [
        (kernels.Gaussian(), 0.5, 0.02),
        (kernels.Gaussian(), 1.0, 0.1),
        (kernels.Gaussian(), 2.0, 0.85),
        (kernels.Matern(nu=1.5), 1.0, 0.6),
        (kernels.RationalQuadratic(alpha=2.0), 1.0, 0.4),
    ],
)
def test_products_vary_less_than_those_of_independent_features(kernel, distance, most, d):
    ratio = variance(kernel, "orthogonal", d, distance) / variance(kernel, "iid", d, distance)
    assert ratio < most


# --- the same everywhere --------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 70])
def test_pieces_equal_the_whole(d):
    X = np.random.default_rng(0).normal(size=(5, d))
    features = orthogonal(kernels.Matern())
    whole = features.transform(X, 0, 1000)
    for a, b in ((0, 1), (1, 65), (65, 300), (300, 1000), (700, 701)):
        np.testing.assert_array_equal(features.transform(X, a, b), whole[:, a:b])
    rows = [features.transform(x[None, :], 0, 1000) for x in X]
    np.testing.assert_array_equal(np.vstack(rows), whole)


@pytest.mark.parametrize("d", [3, 63])
def test_a_column_that_comes_late_was_always_zero(d):
    """In the places that are left; and in new groups, where the groups before stay as they are."""
    X = np.random.default_rng(0).normal(size=(5, d))
    before = orthogonal(kernels.Gaussian()).transform(X, 0, 300)
    wider = np.hstack([X, np.zeros((5, 1))])
    np.testing.assert_array_equal(orthogonal(kernels.Gaussian()).transform(wider, 0, 300), before)
    blocks = [
        FeatureBlocks(
            kernels.Gaussian(), column_keys(range(columns)), seed=5, backend=select(),
            dtype=np.dtype("float32"), cache_bytes=1 << 22, sampler="orthogonal", widths=(64,),
        )
        for columns in (d, 80)
    ]  # fmt: skip
    x = np.hstack([X, np.zeros((5, 80 - d))]).astype(np.float32)
    A = np.random.default_rng(1).normal(size=(8, 1, CHUNK)).astype(np.float32)
    f = blocks[0].decide(np.ascontiguousarray(x[:, :d]), A, 1.0)
    assert blocks[1].widths == (64, 64)
    blocks[1].take(blocks[0])
    np.testing.assert_array_equal(blocks[1].decide(x, A, 1.0), f)


@pytest.mark.usefixtures("many_threads")
def test_kept_and_regenerated_features_are_the_same():
    X = np.random.default_rng(0).normal(size=(9, 70)).astype(np.float32)
    A = np.random.default_rng(1).normal(size=(40, 2, CHUNK)).astype(np.float32)
    found = [
        FeatureBlocks(
            kernels.Matern(), column_keys(range(70)), seed=1, backend=select(),
            dtype=np.dtype("float32"), cache_bytes=budget, sampler="orthogonal", threads=threads,
        ).decide(X, A, 1.0)
        for budget, threads in ((0, 1), (1 << 26, 1), (1 << 18, 2))
    ]  # fmt: skip
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("kernel", [kernels.Laplacian(), kernels.Cauchy()])
def test_kernels_that_do_not_turn_are_refused(kernel):
    with pytest.raises(InvalidInput, match=f"orthogonal.*{kernel.name}.*iid"):
        orthogonal(kernel)


@pytest.mark.parametrize("width", [32, 65, 512])
def test_groups_are_powers_of_two_up_to_256(width):
    with pytest.raises(InvalidInput, match=f"{width} columns.*64 to 256"):
        extended((width,), 3, WIDEST_ORTHOGONAL)
