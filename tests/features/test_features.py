"""Random features: against the oracle, against the kernels, and the same wherever they are made."""

import hashlib
import math
import os
import subprocess
import sys
from fractions import Fraction

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

# One line for each law of frequencies: the kernel, and the oracle's name for it.
CASES = {
    "gaussian": (kernels.Gaussian, {}),
    "laplacian": (kernels.Laplacian, {}),
    "matern-0.5": (kernels.Matern, {"nu": 0.5}),
    "matern-1.5": (kernels.Matern, {"nu": 1.5}),
    "matern-2.5": (kernels.Matern, {"nu": 2.5}),
    "rational_quadratic-1.5": (kernels.RationalQuadratic, {"alpha": 1.5}),
    "cauchy": (kernels.Cauchy, {}),
}
BANDWIDTH = 0.8


def ours(case, bandwidth=BANDWIDTH):
    if case == "linear":
        return kernels.Linear()
    make, options = CASES[case]
    return make(bandwidth=bandwidth, **options)


def oracle(case, bandwidth=BANDWIDTH):
    if case == "linear":
        return naive.Kernel("linear")
    name, *shape = case.split("-")
    return naive.Kernel(name, bandwidth, *map(float, shape))


# --- against the oracle ---------------------------------------------------------------------


def turns(case, d, m, *, seed, dtype="float32"):
    """Frequencies (m, d) and phases (m,) of the first features, in turns."""
    kernel, chunks = ours(case), -(-m // CHUNK)
    W, b = np.empty((chunks, d, CHUNK), dtype), np.empty((chunks, CHUNK), dtype)
    select().frequencies(
        seed, kernel.law, kernel.degrees_of_freedom, kernel.frequency_scale,
        column_keys(range(d)), 0, W, b,
    )  # fmt: skip
    return W.transpose(0, 2, 1).reshape(-1, d)[:m], b.ravel()[:m]


def exact(case, X, m, *, seed, dtype="float32"):
    """Features of the frequencies as stored, in rational arithmetic; and their phases in turns."""
    W, b = turns(case, X.shape[1], m, seed=seed, dtype=dtype)
    Z, phases = np.empty((len(X), m)), np.empty((len(X), m))
    for r, x in enumerate(X):
        for i in range(m):
            phase = Fraction(float(b[i]))
            for w, v in zip(W[i], x, strict=True):
                phase += Fraction(float(w)) * Fraction(float(v))
            turn = float(phase - math.floor(phase))
            phases[r, i] = float(phase)
            Z[r, i] = math.sqrt(2.0) * math.cos(2.0 * math.pi * turn)
    if case == "linear":
        Z = 2.0 * math.pi * phases
    return Z, phases


@pytest.mark.parametrize("case", ["laplacian", "matern-0.5", "matern-1.5"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_phases_of_many_turns_keep_their_fraction(case, dtype):
    """The trap of a Cauchy law: at 1e5 turns a float32 phase is only good to .008."""
    size = {"matern-1.5": 1e5}.get(case, 3e3)
    X = size * np.random.default_rng(8).normal(size=(6, 4)).astype(dtype)
    Z = RandomFeatures(ours(case), seed=4, dtype=dtype).transform(X, 0, 250)
    expected, phases = exact(case, X, 250, seed=4, dtype=dtype)
    assert np.median(np.abs(phases)) > 1e3
    assert np.abs(phases).max() > 1e5
    within = np.abs(phases) < 1e7
    limit = 3e-6 if dtype == "float32" else 1e-12 * (10 + np.abs(phases[within]))
    assert (np.abs(Z - expected)[within] <= limit).all()
    # The test can tell: the same sum rounded once to float32 misses by far.
    rounded = math.sqrt(2.0) * np.cos(2.0 * np.pi * phases.astype(np.float32).astype(float))
    assert np.abs(rounded - expected).max() > 0.01


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_finite_values_cannot_poison_a_model(case, dtype):
    """However large, a feature stays within sqrt(2): one inf would end a model for good."""
    sizes = [1e6, 1e8, 1e12, 1e20, 1e30, 3e38] + ([1e100, 1e300] if dtype == "float64" else [])
    features = RandomFeatures(ours(case), seed=4, dtype=dtype)
    for size in sizes:
        Z = features.transform(size * np.array([[1.0, -0.7, 0.3, 0.9, 0.5]]), 0, 640)
        assert (np.abs(Z) <= math.sqrt(2.0) * (1 + 1e-5)).all(), f"at {size}"


@pytest.mark.parametrize("start", [2**17 + 1, 2**31, 2**33 - 2])
def test_later_features_are_the_oracle_s(start):
    x = [0.3, -1.2]
    Z = RandomFeatures(ours("gaussian"), seed=1, dtype="float64").transform([x], start, start + 4)
    expected = [
        naive.feature(oracle("gaussian"), 1, i, x, range(2)) for i in range(start, start + 4)
    ]
    np.testing.assert_allclose(Z[0], expected, rtol=0, atol=1e-9)


# --- the same everywhere --------------------------------------------------------------------


SCRIPT = """
import hashlib
import numpy as np
from streamk import kernels
from streamk.features import RandomFeatures
columns = sorted({"age", "size", "city=Rome", "größe"})
X = (np.arange(20.0) - 9.5).reshape(5, 4) / 7.0
digest = hashlib.sha256()
for kernel in (kernels.Gaussian(), kernels.Laplacian(), kernels.Matern(nu=1.5), kernels.Cauchy()):
    digest.update(RandomFeatures(kernel, seed=2**63 + 1).transform(X, 5, 300, columns).tobytes())
"""


def test_the_same_bits_in_another_process_with_another_hash_seed():
    here: dict[str, object] = {}
    exec(SCRIPT, here)
    expected = here["digest"].hexdigest()
    assert expected != hashlib.sha256().hexdigest()
    there = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", SCRIPT + "print(digest.hexdigest())"],
        env={**os.environ, "PYTHONHASHSEED": "4000000000"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == expected


def test_shapes_and_types():
    features = RandomFeatures(kernels.Gaussian(), seed=1)
    assert features.transform(np.zeros((0, 3)), 0, 70).shape == (0, 70)
    assert features.transform(np.zeros((2, 3)), 70, 70).shape == (2, 0)
    rows = np.random.default_rng(0).integers(-3, 3, size=(4, 6))
    Z = features.transform(rows, 0, 70)
    for same in (rows.tolist(), rows.astype(np.int8), np.asfortranarray(rows), rows.astype(float)):
        np.testing.assert_array_equal(features.transform(same, 0, 70), Z)
    np.testing.assert_array_equal(features.transform(rows.repeat(2, axis=1)[:, ::2], 0, 70), Z)


def test_no_columns_leave_the_phase_alone():
    Z = RandomFeatures(kernels.Gaussian(), seed=1, dtype="float64").transform(
        np.zeros((2, 0)), 0, 10
    )
    phases = [naive.uniform(1, naive.PHASE, i, 0) for i in range(10)]
    np.testing.assert_allclose(Z[0], math.sqrt(2.0) * np.cos(2.0 * np.pi * np.array(phases)))
    np.testing.assert_array_equal(Z[0], Z[1])


# --- errors ---------------------------------------------------------------------------------


def make(**options):
    return RandomFeatures(kernels.Gaussian(), **{"seed": 1, **options})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make(sampler="halton"), ["halton", "iid"]),
        (lambda: make(seed=-1), ["seed=-1", "2^64"]),
        (lambda: make(seed=2**64), ["seed=", "2^64"]),
        (lambda: make(seed=1.5), ["seed=1.5", "whole"]),
        (lambda: make(seed=None), ["seed=None", "whole"]),
        (lambda: make(dtype="float16"), ["float16", "float32", "float64"]),
        (lambda: make(dtype="nonsense"), ["nonsense", "float32"]),
        (lambda: make(backend="fortran"), ["fortran", "auto", "cupy"]),
        (lambda: make().transform([[1, 2], [0, math.nan]], 0, 4), ["row 1", "column 1", "nan"]),
        (lambda: make().transform([[math.inf, 2.0]], 0, 4), ["row 0", "column 0", "inf"]),
        (lambda: make().transform(np.array([[1e300]]), 0, 4), ["row 0", "column 0"]),
        (lambda: make().transform([[1.0]], 5, 4), ["start=5", "stop=4"]),
        (lambda: make().transform([[1.0]], -1, 4), ["start=-1"]),
        (lambda: make().transform([1.0, 2.0], 0, 4), ["(2,)", "[x]"]),
        (lambda: make().transform([["a"]], 0, 4), ["numbers"]),
        (lambda: make().transform([[1.0, 2.0]], 0, 4, columns=["a"]), ["2 columns", "1"]),
        (lambda: make().transform([[1.0, 2.0]], 0, 4, columns=["a", "a"]), ["twice", "a"]),
        (lambda: make().transform([[1.0]], 0, 4, columns=[1.5]), ["1.5", "string"]),
    ],
)
def test_errors_name_what_was_wrong_and_the_fix(call, words):
    with pytest.raises(InvalidInput) as error:
        call()
    for word in words:
        assert word in str(error.value)


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
        ("ragged", ragged, ["ragged", "different lengths"]),
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
        (lambda: kernels.Polynomial(offset=-1.0), ["offset=-1.0", "at least 0"]),
        (lambda: kernels.Polynomial(offset=math.inf), ["offset=inf"]),
        (lambda: kernels.Polynomial(offset="1"), ["offset='1'"]),
        (lambda: kernels.Polynomial(bandwidth=0.0), ["bandwidth=0.0", "Polynomial"]),
        (lambda: kernels.ArcCosine(order=3), ["order=3", "0, 1 or 2"]),
        (lambda: kernels.ArcCosine(order=1.0), ["order=1.0"]),
        (lambda: kernels.Zonal(weights=[]), ["weights=[]", "1 to 11"]),
        (lambda: kernels.Zonal(weights=[0.0]), ["weights=[0.0]", "not all 0"]),
        (lambda: kernels.Zonal(weights=[1.0, -0.1]), ["-0.1", "at least 0"]),
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
def test_errors_of_kernels_without_frequencies_name_the_fix(make, words):
    with pytest.raises(InvalidInput) as error:
        make()
    for word in words:
        assert word in str(error.value)


def test_a_composed_kernel_comes_back_from_json():
    kernel = kernels.Composed(kernel=kernels.Matern(nu=0.5), map="outer")
    assert kernels.from_json(kernel.to_json()) == kernel
    with pytest.raises(InvalidInput, match=kernel.name):
        _ = kernel.code
