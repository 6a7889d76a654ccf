"""Orthogonal frequencies: their groups, and what they are; see `test_every_sampler`."""

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


def orthogonal(kernel, **options):
    return RandomFeatures(kernel, **{"seed": 5, "sampler": "orthogonal", **options})


# --- against the oracle ---------------------------------------------------------------------


def test_several_groups_are_the_oracle_s():
    d, widths = 100, (64, 64)
    feature = naive_features.orthogonal_feature(naive.Kernel("gaussian", 0.8), widths)
    X = np.random.default_rng(d).normal(size=(2, d))
    blocks = FeatureBlocks(
        kernels.Gaussian(bandwidth=0.8), column_keys(range(d)), seed=5, backend=select(),
        dtype=np.dtype("float64"), cache_bytes=0, sampler="orthogonal", widths=widths,
    )  # fmt: skip
    expected = [[feature(5, i, x, range(d)) for i in (0, 65, 130, 255)] for x in X]
    assert blocks.widths == widths
    Z = blocks.features(X, 0, 4)
    np.testing.assert_allclose(Z[:, [0, 65, 130, 255]], expected, rtol=0, atol=1e-8)


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


# --- the same everywhere --------------------------------------------------------------------


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


@pytest.mark.parametrize("kernel", [kernels.Laplacian(), kernels.Cauchy()])
def test_kernels_that_do_not_turn_are_refused(kernel):
    with pytest.raises(InvalidInput, match=f"orthogonal.*{kernel.name}.*iid"):
        orthogonal(kernel)


@pytest.mark.parametrize("width", [32, 65, 512])
def test_groups_are_powers_of_two_up_to_256(width):
    with pytest.raises(InvalidInput, match=f"{width} columns.*64 to 256"):
        extended((width,), 3, WIDEST_ORTHOGONAL)
