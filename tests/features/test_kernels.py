"""Kernel values against their scalar formulas, options, and errors that name the fix."""

import json
import math

import numpy as np
import pytest
from reference import naive

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures

PAIRS = [
    (kernels.Gaussian(bandwidth=0.7), naive.Kernel("gaussian", 0.7)),
    (kernels.Laplacian(bandwidth=1.3), naive.Kernel("laplacian", 1.3)),
    (kernels.PowerExponential(bandwidth=1.3), naive.Kernel("power_exponential", 1.3)),
    (kernels.Matern(nu=0.5, bandwidth=0.9), naive.Kernel("matern", 0.9, 0.5)),
    (kernels.Matern(nu=1.5, bandwidth=0.9), naive.Kernel("matern", 0.9, 1.5)),
    (kernels.Matern(nu=2.5, bandwidth=0.9), naive.Kernel("matern", 0.9, 2.5)),
    (kernels.RationalQuadratic(alpha=0.5), naive.Kernel("rational_quadratic", 1.0, 0.5)),
    (
        kernels.RationalQuadratic(alpha=7.5, bandwidth=0.8),
        naive.Kernel("rational_quadratic", 0.8, 7.5),
    ),
    (kernels.Cauchy(bandwidth=1.1), naive.Kernel("cauchy", 1.1)),
    (kernels.NTK(depth=1, bandwidth=0.7), naive.Kernel("ntk", 0.7, 1)),
    (kernels.NTK(depth=5, bandwidth=1.2), naive.Kernel("ntk", 1.2, 5)),
    (kernels.NTK(depth=12), naive.Kernel("ntk", 1.0, 12)),
    (kernels.Linear(), naive.Kernel("linear")),
]
IDS = [f"{ours.name}-{theirs.nu}" for ours, theirs in PAIRS]


def formula(kernel, X, Y):
    return np.array([[naive.kernel(kernel, x, y) for y in Y] for x in X])


@pytest.mark.parametrize("d", [1, 5, 54])
@pytest.mark.parametrize(("kernel", "oracle"), PAIRS, ids=IDS)
def test_pairwise_is_the_formula(kernel, oracle, d):
    rng = np.random.default_rng(d)
    X, Y = rng.normal(size=(9, d)), rng.normal(size=(7, d))
    K = kernel.pairwise(X, Y)
    assert K.dtype == np.float64
    assert K.shape == (9, 7)
    np.testing.assert_allclose(K, formula(oracle, X, Y), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.pairwise(X), formula(oracle, X, X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("kernel", "oracle"), PAIRS, ids=IDS)
def test_diagonal_and_symmetry(kernel, oracle):
    X = np.random.default_rng(3).normal(size=(8, 4))
    expected = [naive.kernel(oracle, x, x) for x in X]
    np.testing.assert_allclose(kernel.diagonal(X), expected, rtol=1e-13)
    K = kernel.pairwise(X)
    np.testing.assert_array_equal(np.diag(K), kernel.diagonal(X))
    np.testing.assert_array_equal(K, K.T)
    of_two_sets = kernel.pairwise(X, X.copy())
    np.testing.assert_allclose(np.diag(of_two_sets), kernel.diagonal(X), rtol=1e-15)
    np.testing.assert_array_equal(of_two_sets, of_two_sets.T)
    assert np.linalg.eigvalsh(K).min() > -1e-10


@pytest.mark.parametrize(("kernel", "oracle"), PAIRS[:-1], ids=IDS[:-1])
def test_far_from_the_origin_nothing_cancels(kernel, oracle):
    rng = np.random.default_rng(4)
    X = rng.integers(-64, 64, size=(6, 3)) / 64.0 + 1048576.0  # exact in float64
    Y = rng.integers(-64, 64, size=(5, 3)) / 64.0 + 1048576.0
    # The oracle of NTK finds the small angles of its layers from their cosines.
    rtol = 5e-9 if oracle.name == "ntk" else 1e-9
    np.testing.assert_allclose(kernel.pairwise(X, Y), formula(oracle, X, Y), rtol=rtol)


def test_which_kernels_turn_with_the_points():
    turn, _ = np.linalg.qr(np.random.default_rng(8).normal(size=(3, 3)))
    X = np.random.default_rng(9).normal(size=(6, 3))
    for kernel, _ in PAIRS:
        same = np.allclose(kernel.pairwise(X @ turn), kernel.pairwise(X), atol=1e-9)
        assert same == kernel.isotropic, kernel
    assert {kernel.name for kernel, _ in PAIRS if kernel.heavy_tailed} == {"laplacian", "matern"}


@pytest.mark.parametrize("sampler", ["iid", "hadamard", "orthogonal"])
def test_the_power_exponential_kernel_has_no_random_features(sampler):
    with pytest.raises(InvalidInput, match=r"'power_exponential' has no random features.*EigenPro"):
        RandomFeatures(kernels.PowerExponential(), seed=0, sampler=sampler)


def test_gamma_is_the_field_s_notation():
    x, y = [[0.0, 0.0]], [[0.3, -0.4]]
    assert kernels.Gaussian(gamma=2.0).pairwise(x, y)[0, 0] == pytest.approx(math.exp(-2.0 * 0.25))
    assert kernels.Laplacian(gamma=2.0).pairwise(x, y)[0, 0] == pytest.approx(math.exp(-2.0 * 0.7))
    assert kernels.Gaussian(gamma=2.0) == kernels.Gaussian(bandwidth=0.5)
    assert kernels.Laplacian(gamma=2.0) == kernels.Laplacian(bandwidth=0.5)


@pytest.mark.parametrize(("kernel", "oracle"), PAIRS, ids=IDS)
def test_json_round_trip(kernel, oracle):
    data = json.loads(json.dumps(kernel.to_json()))
    assert kernels.from_json(data) == kernel
    assert data["kernel"] == oracle.name


def test_by_name():
    assert kernels.by_name("gaussian") == kernels.Gaussian()
    assert kernels.by_name("gaussian", gamma=0.5) == kernels.Gaussian(bandwidth=1.0)
    made = kernels.by_name("rational_quadratic", alpha=2)
    assert made == kernels.RationalQuadratic(alpha=2.0)
    assert kernels.by_name("matern", nu=2.5, bandwidth=2) == kernels.Matern(nu=2.5, bandwidth=2)
    assert kernels.by_name("ntk", depth=2) == kernels.NTK(depth=2, bandwidth=1.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: kernels.Gaussian(bandwidth=-1.0), ["bandwidth=-1.0", "positive"]),
        (lambda: kernels.Gaussian(bandwidth=0.0), ["bandwidth=0.0", "positive"]),
        (lambda: kernels.Gaussian(bandwidth=math.nan), ["bandwidth=nan", "positive"]),
        (lambda: kernels.Gaussian(bandwidth=math.inf), ["bandwidth=inf", "positive"]),
        (lambda: kernels.Gaussian(gamma=-2.0), ["gamma=-2.0", "positive"]),
        (lambda: kernels.Gaussian(gamma=1.0, bandwidth=1.0), ["bandwidth", "gamma", "not both"]),
        (lambda: kernels.Laplacian(gamma=0.0), ["gamma=0.0", "positive"]),
        (lambda: kernels.Laplacian(bandwidth=-3), ["bandwidth=-3", "positive"]),
        (lambda: kernels.PowerExponential(bandwidth=0), ["bandwidth=0", "PowerExponential"]),
        (lambda: kernels.by_name("power_exponential", gamma=1.0), ["power_exponential", "gamma"]),
        (lambda: kernels.Matern(nu=1.0), ["nu=1.0", "0.5, 1.5 or 2.5"]),
        (lambda: kernels.RationalQuadratic(alpha=0.7), ["alpha=0.7", "multiple of 1/2", "32"]),
        (lambda: kernels.RationalQuadratic(alpha=-1.0), ["alpha=-1.0"]),
        (lambda: kernels.RationalQuadratic(alpha=32.5), ["alpha=32.5", "at most 32"]),
        (lambda: kernels.RationalQuadratic(alpha=math.nan), ["alpha=nan"]),
        (lambda: kernels.RationalQuadratic(alpha="1"), ["alpha='1'"]),
        (lambda: kernels.Cauchy(bandwidth=-1.0), ["bandwidth=-1.0", "Cauchy"]),
        (lambda: kernels.NTK(depth=0), ["depth=0", "NTK", "1 to 12"]),
        (lambda: kernels.NTK(depth=13), ["depth=13", "1 to 12"]),
        (lambda: kernels.NTK(depth=2.5), ["depth=2.5", "whole number"]),
        (lambda: kernels.NTK(depth=True), ["depth=True", "whole number"]),
        (lambda: kernels.NTK(depth="3"), ["depth='3'", "whole number"]),
        (lambda: kernels.NTK(bandwidth=0.0), ["bandwidth=0.0", "NTK"]),
        (lambda: kernels.by_name("matern", depth=3), ["matern", "depth"]),
        (lambda: kernels.by_name("gausian"), ["gausian", "gaussian", "matern"]),
        (lambda: kernels.by_name("linear", bandwidth=1.0), ["linear", "bandwidth"]),
        (lambda: kernels.from_json({"bandwidth": 1.0}), ["kernel"]),
        (lambda: kernels.Gaussian().pairwise([1.0, 2.0]), ["matrix", "(2,)"]),
        (lambda: kernels.Gaussian().pairwise([[1.0, 2.0]], [[1.0]]), ["2 columns", "1"]),
        (lambda: kernels.Linear().diagonal(3.0), ["matrix"]),
    ],
)
def test_errors_name_what_was_wrong_and_the_fix(make, words):
    with pytest.raises(InvalidInput) as error:
        make()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("value", ["1", None, [1.0]])
def test_an_option_of_the_wrong_type_is_invalid_input(value):
    with pytest.raises(InvalidInput, match="bandwidth"):
        kernels.Matern(bandwidth=value)
