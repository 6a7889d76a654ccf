"""The landmarks as scikit-learn transformers: scikit-learn's own checks, and what they compute."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_array
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from streamk import landmarks
from streamk.adapters.sklearn import (
    KMeansNystroem,
    LeverageNystroem,
    OasisNystroem,
    RPCholeskyNystroem,
    UniformNystroem,
)
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.landmarks import Diffusion

ALL = [
    OasisNystroem,
    UniformNystroem,
    KMeansNystroem,
    LeverageNystroem,
    RPCholeskyNystroem,
]
OF_ROWS = [made for made in ALL if made is not KMeansNystroem]


def moons(n: int = 300) -> Any:
    return make_moons(n, noise=0.1, random_state=0)[0]


def error(features: Any, K: Any) -> float:
    return float(np.linalg.norm(features @ features.T - K) / np.linalg.norm(K))


# What it computes


@pytest.mark.parametrize("made", ALL)
def test_products_of_features_approximate_the_kernel(made: Any) -> None:
    X = moons()
    model = made(gamma=1.0, n_components=60, random_state=0)
    features = model.fit_transform(X)
    assert features.shape == (300, len(model.components_))
    assert error(features, rbf_kernel(X, gamma=1.0)) < 1e-3
    assert model.kernel_ == Gaussian(gamma=1.0)
    Y = moons(50) + 0.01
    new = model.transform(Y)
    assert np.allclose(new @ features.T, rbf_kernel(Y, X, gamma=1.0), atol=1e-2)


@pytest.mark.parametrize("made", ALL)
def test_fit_then_transform_is_fit_transform(made: Any) -> None:
    X = moons()
    together = made(n_components=40, random_state=3).fit_transform(X)
    apart = made(n_components=40, random_state=3).fit(X).transform(X)
    assert np.array_equal(together, apart)


@pytest.mark.parametrize("made", OF_ROWS)
def test_components_are_rows(made: Any) -> None:
    X = moons()
    model = made(n_components=30).fit(X)
    assert model.component_indices_.shape == (30,)
    assert np.array_equal(model.components_, X[model.component_indices_])
    assert len(set(model.component_indices_.tolist())) == 30
    assert model.get_feature_names_out()[-1] == f"{made.__name__.lower()}29"


def test_centers_are_no_rows() -> None:
    model = KMeansNystroem(n_components=30, random_state=0).fit(moons())
    assert model.component_indices_ is None
    assert model.components_.shape == (30, 2)


def test_the_landmarks_are_those_of_the_function() -> None:
    X = moons()
    model = OasisNystroem(gamma=2.0, n_components=25, n_init=2, random_state=5).fit(X)
    seed = int(np.random.RandomState(5).randint(2**31))
    found = landmarks.oasis(X, Gaussian(gamma=2.0), max_landmarks=25, n_init=2, seed=seed)
    assert np.array_equal(model.component_indices_, found.indices)
    assert np.array_equal(model.transform(X), found.transform(X))


def test_the_default_bandwidth_is_that_of_sklearn() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    for name, kernel in (("gaussian", rbf_kernel), ("laplacian", laplacian_kernel)):
        features = OasisNystroem(kernel=name, n_components=40).fit_transform(X)
        assert np.allclose(features @ features.T, kernel(X), atol=1e-10)


def test_a_default_bandwidth_of_square_roots() -> None:
    """Whatever the number of columns, the sum of two points' is the mean of their roots."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    once, twice = (
        OasisNystroem(kernel="power_exponential", n_components=40).fit_transform(points)
        for points in (X, np.hstack([X, X]))
    )
    roots = np.sqrt(abs(X[:, None] - X)).mean(axis=2)
    for features in (once, twice):
        assert np.allclose(features @ features.T, np.exp(-roots), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_precomputed_kernel(dtype: Any) -> None:
    X, Y = moons(), moons(50) + 0.01
    plain = RPCholeskyNystroem(gamma=1.0, n_components=50, random_state=0).fit(X)
    given = RPCholeskyNystroem(kernel="precomputed", n_components=50, random_state=0)
    features = given.fit_transform(rbf_kernel(X, gamma=1.0).astype(dtype))
    assert features.dtype == dtype
    assert given.components_ is None
    new = given.transform(rbf_kernel(Y, X, gamma=1.0).astype(dtype))
    assert np.allclose(new @ features.T, rbf_kernel(Y, X, gamma=1.0), atol=1e-2)
    if dtype == np.float64:
        assert np.array_equal(given.component_indices_, plain.component_indices_)
        assert np.allclose(new, plain.transform(Y), atol=1e-6)


@pytest.mark.parametrize("made", OF_ROWS)
def test_a_sparse_precomputed_kernel(made: Any) -> None:
    x = np.linspace(0.0, 30.0, 90)
    K = np.maximum(0.0, 1.0 - abs(x[:, None] - x))  # a triangle is a kernel on a line
    dense, given = (made(kernel="precomputed", n_components=40) for _ in range(2))
    if made in ALL:
        dense.random_state = given.random_state = 0
    expected, features = dense.fit_transform(K), given.fit_transform(csc_array(K))
    assert np.array_equal(given.component_indices_, dense.component_indices_)
    assert np.allclose(features, expected, atol=1e-10)
    assert np.allclose(given.transform(csc_array(K[:7])), dense.transform(K[:7]), atol=1e-10)


def test_rows_that_are_spanned_bring_no_feature() -> None:
    X = np.repeat(moons(20), 3, axis=0)
    for made in OF_ROWS:
        features = made(n_components=60).fit_transform(X)
        assert features.shape == (60, 20)


# What it refuses


def test_bad_options() -> None:
    X = moons(30)
    for options, match in (
        ({"n_components": 0}, "n_components=0"),
        ({"kernel": "precomputed"}, "must be square"),
        ({"kernel": Diffusion(Gaussian())}, r"landmarks\.oasis"),
    ):
        with pytest.raises(InvalidInput, match=match):
            UniformNystroem(**options).fit(X)
    with pytest.raises(InvalidInput, match="block_size=0"):
        RPCholeskyNystroem(block_size=0).fit(X)
    with pytest.raises(InvalidInput, match="rank=0"):
        LeverageNystroem(rank=0).fit(X)
    with pytest.raises(InvalidInput, match="needs points"):
        KMeansNystroem(kernel="precomputed").fit(np.eye(5))
    with pytest.raises(TypeError, match=r"toarray\(\)"):
        OasisNystroem().fit(csc_array(X))
    with pytest.raises(ValueError, match="NaN"):
        OasisNystroem().fit(np.where(X > 1, np.nan, X))


# Copies and tools


def test_what_is_kept_does_not_grow_with_the_rows() -> None:
    few, many = (
        len(pickle.dumps(OasisNystroem(n_components=10).fit(moons(n)))) for n in (200, 2000)
    )
    assert many == few


def test_frames_in_and_out() -> None:
    frame = pd.DataFrame(moons(), columns=["a", "b"])
    model = OasisNystroem(n_components=3, random_state=0).set_output(transform="pandas")
    features = model.fit_transform(frame)
    assert features.columns.tolist() == ["oasisnystroem0", "oasisnystroem1", "oasisnystroem2"]
    assert np.array_equal(model.transform(frame), features)
    assert model.feature_names_in_.tolist() == ["a", "b"]
