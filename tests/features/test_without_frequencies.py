"""Kernels without a Fourier law: sketches, zonal harmonics, maps of the user, and errors."""

import math

import numpy as np
import pytest
from reference import features as naive_features

from streamk import kernels
from streamk.backends import CHUNK
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures

kernels.register_map("outer", lambda x: np.outer(x, x).ravel())


def points(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) / math.sqrt(d)


# --- against the oracle ---------------------------------------------------------------------


@pytest.mark.parametrize("degree", [1, 7, 16])
def test_sketches_of_every_degree(degree):
    kernel = kernels.Polynomial(degree=degree, offset=1.0)
    Z = RandomFeatures(kernel, seed=1, dtype="float64").transform([[0.3]], 0, 200)
    factors = np.ones(200)
    for factor in range(degree):
        for i in range(200):
            chunk, k = divmod(i, CHUNK)
            u = zip(naive_features.keys_of([0]), (1.0, 0.3), strict=True)
            total = 0.0
            for key, value in u:
                b, sign = naive_features.bucket(1, chunk, factor, key)
                total += sign * (-1) ** (k & b).bit_count() * value
            factors[i] *= total
    np.testing.assert_allclose(Z[0], factors, rtol=1e-12)


# --- against the closed forms ---------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 5, 30])
def test_a_gaussian_on_the_sphere_has_these_harmonics(columns):
    """exp(-|u - v|^2 / 2) is a function of u.v; what is left out is of degree 11 and more."""
    kernel = kernels.Zonal.of(lambda t: np.exp(t - 1.0), columns=columns, degrees=10)
    X = points(30, columns)
    U = kernel.mapped(X)
    np.testing.assert_allclose(kernel.pairwise(X), np.exp(U @ U.T - 1.0), atol=2e-8)
    assert min(kernel.weights) >= 0.0


def test_a_function_that_is_no_kernel_has_a_negative_weight():
    with pytest.raises(InvalidInput, match="degree 1 is -"):
        kernels.Zonal.of(lambda t: 1.0 - t, columns=2)


# --- maps of the user -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner", [kernels.Gaussian(bandwidth=1.3), kernels.Laplacian(), kernels.Linear(),
              kernels.ArcCosine(), kernels.Zonal(), kernels.Polynomial()],
    ids=lambda kernel: kernel.name,
)  # fmt: skip
def test_features_of_a_map_are_those_of_the_kernel_at_its_points(inner):
    """cos(w.psi(x) + b): Theorem 3, for any psi."""
    kernel, X = kernels.Composed(kernel=inner, map="outer"), points(9, 3)
    psi = np.array([np.outer(x, x).ravel() for x in X])
    features = RandomFeatures(kernel, seed=1, dtype="float64")
    plain = RandomFeatures(inner, seed=1, dtype="float64")
    Z = features.transform(X, 0, 300, columns=["a", "b", "c"])
    np.testing.assert_array_equal(Z, plain.transform(psi, 0, 300))
    np.testing.assert_array_equal(kernel.pairwise(X), inner.pairwise(psi))
    np.testing.assert_array_equal(kernel.diagonal(X), inner.diagonal(psi))
    V = np.ones(9)
    np.testing.assert_array_equal(kernel.product(X, X, V), inner.product(psi, psi, V))


@pytest.mark.parametrize("sampler", ["hadamard", "orthogonal"])
def test_a_map_takes_the_samplers_of_its_kernel(sampler):
    kernel = kernels.Composed(kernel=kernels.Gaussian(), map="outer")
    X, options = points(4, 3), {"seed": 1, "sampler": sampler}
    psi = np.array([np.outer(x, x).ravel() for x in X.astype(np.float32).astype(float)])
    Z = RandomFeatures(kernel, **options).transform(X, 0, 200)
    plain = RandomFeatures(kernels.Gaussian(), **options).transform(psi, 0, 200)
    np.testing.assert_array_equal(Z, plain)


def broken(name, function):
    kernels.register_map(name, function)
    return kernels.Composed(kernel=kernels.Gaussian(), map=name)


def ragged(x):
    return np.ones(1 + int(x[0]))


def failing(x):
    raise KeyError(f"patch {len(x)}")


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("ragged", ragged, ["ragged", "different numbers"]),
        ("failing", failing, ["failing", "patch 1", "1 columns"]),
        ("infinite", lambda x: x / 0.0 if x[0] else x, ["infinite", "row 1", "bound"]),
        ("square", lambda x: np.ones((2, 2)) * x[0], ["square", "(2, 2)", "(q,)"]),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_map_that_fails_is_named(name, function, words):
    with pytest.raises(InvalidInput) as error:
        RandomFeatures(broken(name, function), seed=1).transform([[0.0], [1.0]], 0, 10)
    for word in words:
        assert word in str(error.value)


# --- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: kernels.Polynomial(degree=0), ["degree=0", "1 to 16"]),
        (lambda: kernels.Polynomial(degree=17), ["degree=17"]),
        (lambda: kernels.Polynomial(degree=True), ["degree=True", "whole"]),
        (lambda: kernels.Polynomial(offset=-1.0), ["offset=-1.0", "from 0"]),
        (lambda: kernels.Polynomial(offset=math.inf), ["offset=inf"]),
        (lambda: kernels.Polynomial(offset="1"), ["offset='1'"]),
        (lambda: kernels.Polynomial(bandwidth=0.0), ["bandwidth=0.0", "Polynomial"]),
        (lambda: kernels.ArcCosine(order=3), ["order=3", "0, 1 or 2"]),
        (lambda: kernels.ArcCosine(order=1.0), ["order=1.0"]),
        (lambda: kernels.Zonal(weights=[]), ["weights=[]", "1 to 11"]),
        (lambda: kernels.Zonal(weights=[0.0]), ["weights=[0.0]", "not all 0"]),
        (lambda: kernels.Zonal(weights=[1.0, -0.1]), ["-0.1", "from 0"]),
        (lambda: kernels.Zonal(weights=[1.0] * 12), ["1 to 11"]),
        (lambda: kernels.Zonal(weights="1"), ["weights='1'"]),
        (lambda: kernels.Zonal.of(np.exp, columns=0), ["columns=0"]),
        (lambda: kernels.Composed(kernel=kernels.NTK(), map="outer"), ["NTK", "features"]),
        (lambda: kernels.Composed(kernel="gaussian", map="outer"), ["gaussian", "Kernel"]),
        (lambda: kernels.Composed(kernel=kernels.Gaussian(), map="none"), ["none", "register_map"]),
        (lambda: kernels.register_map("outer", abs), ["outer", "another"]),
        (lambda: kernels.register_map("not one", abs), ["not one", "identifier"]),
        (lambda: kernels.register_map("number", 3), ["number", "3"]),
        (lambda: kernels.from_json({"kernel": "composed", "map": "outer"}), ["of", "map"]),
        (lambda: RandomFeatures(kernels.Polynomial(), seed=1, sampler="hadamard"), ["polynomial"]),
        (lambda: RandomFeatures(kernels.Zonal(), seed=1, sampler="orthogonal"), ["zonal", "iid"]),
        (
            lambda: RandomFeatures(kernels.Cauchy(), seed=1, sampler="orthogonal"),
            ["orthogonal", "cauchy", "iid"],
        ),
    ],
)
def test_errors_name_what_was_wrong_and_the_fix(make, words):
    with pytest.raises(InvalidInput) as error:
        make()
    for word in words:
        assert word in str(error.value)


def test_a_composed_kernel_comes_back_from_json():
    kernel = kernels.Composed(kernel=kernels.Matern(nu=0.5), map="outer")
    assert kernels.from_json(kernel.to_json()) == kernel
    with pytest.raises(InvalidInput, match=kernel.name):
        _ = kernel.code
