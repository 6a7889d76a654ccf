"""Random features: against the oracle, against the kernels, and the same wherever they are made."""

import hashlib
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from reference import naive

from streamk import kernels
from streamk.backends import CHUNK, select
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures, column_keys

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
ALL = [*CASES, "linear"]
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


@pytest.mark.parametrize("case", ALL)
def test_columns_are_known_by_name_and_may_come_late(case):
    rng = np.random.default_rng(0)
    columns = ["age", "size", 7, "city=Rome", "größe"]
    X = rng.normal(size=(5, 5))
    order = rng.permutation(5)
    features = RandomFeatures(ours(case), seed=1, dtype="float64")
    Z = features.transform(X, 0, 200, columns=columns)
    V = features.transform(X[:, order], 0, 200, columns=[columns[j] for j in order])
    np.testing.assert_allclose(Z, V, rtol=0, atol=1e-9)
    other = features.transform(X, 0, 200, columns=["AGE", *columns[1:]])
    assert np.abs(Z - other).max() > 0.1
    wider = np.insert(X, 1, 0.0, axis=1)
    after = features.transform(wider, 0, 200, columns=[columns[0], "late", *columns[1:]])
    np.testing.assert_allclose(after, Z, rtol=0, atol=1e-9)


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
