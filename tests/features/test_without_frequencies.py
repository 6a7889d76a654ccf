"""Features of kernels without a Fourier law: against the oracle, and against the closed forms."""

import math
from itertools import pairwise

import numpy as np
import pytest
from reference import features as naive_features

from streamk import kernels
from streamk.backends import CHUNK, select
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures, column_keys
from streamk.features.random_features import FeatureBlocks

kernels.register_map("outer", lambda x: np.outer(x, x).ravel())

WEIGHTS = (0.1, 0.0, 0.4, 0.3, 0.0, 0.2)
CASES = {
    "polynomial-1": (
        kernels.Polynomial(degree=1, offset=0.0, bandwidth=0.8),
        naive_features.polynomial_feature(1, 0.0, 0.8),
        lambda x, y: naive_features.polynomial(1, 0.0, 0.8, x, y),
    ),
    "polynomial-2": (
        kernels.Polynomial(bandwidth=1.5),
        naive_features.polynomial_feature(2, 1.0, 1.5),
        lambda x, y: naive_features.polynomial(2, 1.0, 1.5, x, y),
    ),
    "polynomial-3": (
        kernels.Polynomial(degree=3, offset=0.5, bandwidth=2.0),
        naive_features.polynomial_feature(3, 0.5, 2.0),
        lambda x, y: naive_features.polynomial(3, 0.5, 2.0, x, y),
    ),
    **{
        f"arc_cosine-{order}": (
            kernels.ArcCosine(order=order, bandwidth=0.7),
            naive_features.arc_cosine_feature(order, 0.7),
            lambda x, y, order=order: naive_features.arc_cosine(order, 0.7, x, y),
        )
        for order in (0, 1, 2)
    },
    "zonal": (
        kernels.Zonal(weights=WEIGHTS, bandwidth=0.9),
        naive_features.zonal_feature(WEIGHTS, 0.9),
        lambda x, y: naive_features.zonal(WEIGHTS, 0.9, x, y),
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


def points(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) / math.sqrt(d)


# --- against the oracle ---------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5])
@every_case
def test_features_are_the_oracle_s(case, d):
    kernel, feature, _ = CASES[case]
    X, columns = points(2, d), ["x", 7, "größe", "y", 0][:d]
    start, stop = CHUNK - 5, CHUNK + 20
    features = RandomFeatures(kernel, seed=2**63 + 9, dtype="float64")
    Z = features.transform(X, start, stop, columns=columns)
    expected = [[feature(2**63 + 9, i, x, columns) for i in range(start, stop)] for x in X]
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-10)


@every_case
@pytest.mark.parametrize("d", [1, 3, 54])
def test_single_precision(case, d):
    kernel = CASES[case][0]
    X = points(40, d)
    exact = RandomFeatures(kernel, seed=1, dtype="float64").transform(X, 0, 300)
    size = np.abs(exact).max()
    Z = RandomFeatures(kernel, seed=1).transform(X, 0, 300)
    assert Z.dtype == np.float32
    if case == "arc_cosine-0":  # a projection near 0 may be rounded to the other side
        assert (np.abs(Z - exact) > 1e-4).mean() < 1e-4
    else:
        np.testing.assert_allclose(Z, exact, rtol=0, atol=3e-5 * size)


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


@every_case
@pytest.mark.parametrize("d", [1, 2, 5, 54])
def test_pairwise_is_the_closed_form(case, d):
    kernel, _, closed = CASES[case]
    X, Y = 2.0 * points(9, d), 2.0 * points(7, d, seed=1)
    expected = np.array([[closed(x, y) for y in Y] for x in X])
    np.testing.assert_allclose(kernel.pairwise(X, Y), expected, rtol=1e-11, atol=1e-12)
    K = kernel.pairwise(X)
    # Near equal points an angle of order 0 is the root of a rounding error.
    np.testing.assert_allclose(kernel.diagonal(X), [closed(x, x) for x in X], atol=3e-8)
    np.testing.assert_array_equal(np.diag(K), kernel.diagonal(X))
    assert np.linalg.eigvalsh(K).min() > -1e-7
    V = np.random.default_rng(2).normal(size=(7, 2))
    for dtype, most in (("float64", 1e-12), ("float32", 2e-5)):
        F = kernel.product(X, Y, V, dtype=dtype)
        np.testing.assert_allclose(F, kernel.pairwise(X, Y) @ V, atol=most * np.abs(K).max())
        np.testing.assert_array_equal(kernel.product(X[3:4], Y, V, dtype=dtype), F[3:4])


def chunk_means(kernel, X, Y, chunks, seed=1, sampler="iid", dtype="float32", size=CHUNK):
    """Means of the products of the features of independent pieces of the sequence, (n, chunks)."""
    features = RandomFeatures(kernel, seed=seed, sampler=sampler, dtype=dtype)
    Z = features.transform(np.vstack([X, Y]), 0, chunks * size).astype(np.float64)
    products = (Z[: len(X)] * Z[len(X) :]).reshape(len(X), chunks, size)
    return products.mean(axis=2)


@pytest.mark.parametrize("d", [1, 2, 8, 54])
@every_case
def test_products_of_features_are_unbiased(case, d):
    """Means over 512 chunks, in their own standard errors, look like standard normal numbers."""
    kernel, _, closed = CASES[case]
    X, Y = points(60, d), points(60, d, seed=1)
    expected = np.array([closed(x, y) for x, y in zip(X, Y, strict=True)])
    z = []
    for seed in (1, 2, 3):
        means = chunk_means(kernel, X, Y, 512, seed=seed)
        spread = means.std(axis=1) / math.sqrt(512)
        z.append((means.mean(axis=1) - expected) / np.maximum(spread, 1e-6))
    assert np.abs(z).max() < 5.0
    assert np.sqrt(np.mean(np.square(z))) < 1.6


@every_case
def test_errors_fall_as_one_over_the_root_of_the_features(case):
    kernel, _, closed = CASES[case]
    X, Y = points(60, 5), points(60, 5, seed=1)
    expected = np.array([closed(x, y) for x, y in zip(X, Y, strict=True)])
    errors = []
    for chunks in (8, 128):
        means = [chunk_means(kernel, X, Y, chunks, seed=seed).mean(axis=1) for seed in range(40)]
        errors.append(math.sqrt(np.mean(np.square(np.array(means) - expected))))
    assert 2.8 < errors[0] / errors[1] < 5.7  # 4 for 16 times the features


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [
        (kernels.Polynomial(degree=2), lambda x, y: naive_features.polynomial(2, 1.1, 1.0, x, y)),
        (kernels.Polynomial(degree=2), lambda x, y: naive_features.polynomial(2, 1.0, 1.1, x, y)),
        (kernels.ArcCosine(order=1), lambda x, y: naive_features.arc_cosine(1, 1.2, x, y)),
        (kernels.ArcCosine(order=1), lambda x, y: naive_features.arc_cosine(2, 1.0, x, y)),
        (kernels.Zonal(), lambda x, y: naive_features.zonal((1, 1, 1, 1.2), 1.0, x, y)),
    ],
)
def test_a_wrong_closed_form_would_be_found(kernel, wrong):
    X, Y = points(60, 3), points(60, 3, seed=1)
    expected = np.array([wrong(x, y) for x, y in zip(X, Y, strict=True)])
    means = chunk_means(kernel, X, Y, 1024)
    z = (means.mean(axis=1) - expected) / (means.std(axis=1) / math.sqrt(1024))
    assert np.abs(z).max() > 5.0


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_sketches_vary_as_independent_signs_do(degree):
    """The exact variance; and that of Pham and Pagh's buckets, added modulo their number."""
    rng, d = np.random.default_rng(4), 30
    X, Y = points(20, d), points(20, d, seed=1)
    kernel = kernels.Polynomial(degree=degree, offset=0.1)
    ours = chunk_means(kernel, X, Y, 8000).var(axis=1)
    U = kernel.mapped(np.vstack([X, Y]))
    exact = [naive_features.sketch_variance(degree, *pair) for pair in zip(U, U[20:], strict=False)]
    assert 0.93 < np.mean(ours / exact) < 1.07
    theirs = []
    for _ in range(3000):
        S = naive_features.fourier_sketch(rng, degree, U, CHUNK)
        theirs.append((S[:20] * S[20:]).sum(axis=1))
    assert 0.85 < np.mean(ours / np.array(theirs).var(axis=0)) < 1.15


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


# --- the same everywhere --------------------------------------------------------------------


@every_case
def test_pieces_equal_the_whole(case):
    X = points(21, 3)  # a tile of rows, and some
    features = RandomFeatures(CASES[case][0], seed=1)
    whole = features.transform(X, 0, 1500)
    cuts = [0, 1, 10, 63, 64, 65, 200, 200, 1499, 1500]
    pieces = [features.transform(X, a, b) for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(np.hstack(pieces), whole)
    rows = [features.transform(x[None, :], 0, 1500) for x in X]
    np.testing.assert_array_equal(np.vstack(rows), whole)


@every_case
@pytest.mark.usefixtures("many_threads")
def test_sums_of_kept_and_of_regenerated_features_are_the_same(case):
    kernel, twin, X = CASES[case][0], select(), points(21, 4)
    blocks = [
        FeatureBlocks(
            kernel, column_keys(range(4)), seed=1, backend=twin, dtype=np.dtype("float32"),
            cache_bytes=budget, threads=threads,
        )
        for budget, threads in ((0, 1), (1 << 24, 1), (1 << 12, 2))
    ]  # fmt: skip
    A = np.random.default_rng(0).normal(size=(40, 2, CHUNK)).astype(np.float32)
    U = kernel.mapped(X.astype(np.float32))
    found = [each.decide(U, A, 0.5) for each in blocks]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    single = [blocks[1].decide(u[None], A, 0.5)[0] for u in U]
    np.testing.assert_array_equal(single, found[1])
    Z = RandomFeatures(kernel, seed=1, dtype="float64").transform(X, 0, 40 * CHUNK)
    plain = 0.5 * Z @ A.transpose(0, 2, 1).reshape(-1, 2)
    np.testing.assert_allclose(found[0], plain, atol=2e-4 * np.abs(Z).max() * math.sqrt(2560))


@pytest.mark.parametrize("case", [case for case in CASES if case != "zonal"])
def test_columns_are_known_by_name_and_may_come_late(case):
    X = points(5, 3)
    features = RandomFeatures(CASES[case][0], seed=1, dtype="float64")
    Z = features.transform(X, 0, 200, columns=["a", "b", "c"])
    turned = features.transform(X[:, [2, 0, 1]], 0, 200, columns=["c", "a", "b"])
    np.testing.assert_allclose(turned, Z, atol=1e-9)
    wider = np.insert(X, 1, 0.0, axis=1)
    after = features.transform(wider, 0, 200, columns=["a", "late", "b", "c"])
    np.testing.assert_allclose(after, Z, atol=1e-9)
    assert np.abs(features.transform(X, 0, 200, columns=["A", "b", "c"]) - Z).max() > 0.1


@every_case
def test_no_columns_leave_the_constant(case):
    kernel = CASES[case][0]
    Z = RandomFeatures(kernel, seed=1, dtype="float64").transform(np.zeros((2, 0)), 0, 2**14)
    np.testing.assert_array_equal(Z[0], Z[1])
    expected = kernel.pairwise(np.zeros((1, 0)))[0, 0]
    assert np.mean(Z[0] ** 2) == pytest.approx(expected, abs=0.1 * expected)


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


@pytest.mark.parametrize(
    "kernel",
    [case[0] for case in CASES.values()]
    + [kernels.Composed(kernel=kernels.Matern(nu=0.5), map="outer")],
)
def test_json_round_trip(kernel):
    assert kernels.from_json(kernel.to_json()) == kernel
    with pytest.raises(InvalidInput, match=kernel.name):
        _ = kernel.code
