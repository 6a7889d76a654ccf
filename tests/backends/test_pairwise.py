"""Kernels between points and their product with vectors."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from reference import naive

from streamk import kernels
from streamk.backends import KernelCode, select
from streamk.backends.numba_backend.exponential import decayed
from streamk.errors import InvalidInput

CASES = {
    "gaussian": (KernelCode.GAUSSIAN, 0.0),
    "laplacian": (KernelCode.LAPLACIAN, 0.0),
    "power_exponential": (KernelCode.POWER_EXPONENTIAL, 0.0),
    "matern-0.5": (KernelCode.MATERN, 0.5),
    "matern-1.5": (KernelCode.MATERN, 1.5),
    "matern-2.5": (KernelCode.MATERN, 2.5),
    "cauchy": (KernelCode.CAUCHY, 0.0),
    "rational_quadratic-0.5": (KernelCode.RATIONAL_QUADRATIC, 0.5),
    "rational_quadratic-3": (KernelCode.RATIONAL_QUADRATIC, 3.0),
    "rational_quadratic-32": (KernelCode.RATIONAL_QUADRATIC, 32.0),
    "ntk-1": (KernelCode.NTK, 1.0),
    "ntk-5": (KernelCode.NTK, 5.0),
    "ntk-12": (KernelCode.NTK, 12.0),
    "linear": (KernelCode.LINEAR, 0.0),
}
BOUNDED = [case for case in CASES if case != "linear"]
DECAYING = [case for case in BOUNDED if not case.startswith("ntk")]
SUMS = {"laplacian": 1.0, "power_exponential": 2.0}
"""The power of the number of columns by which the bandwidth keeps a sum as it is."""

every_case = pytest.mark.parametrize("case", CASES)
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def points(n, d, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def mapped(case, *sets, bandwidth):
    if not case.startswith("ntk"):
        return sets
    return tuple(map(kernels.NTK(bandwidth=bandwidth).mapped, sets))


def matrix(case, X, Y, bandwidth=1.0):
    code, parameter = CASES[case]
    X, Y = mapped(case, X, Y, bandwidth=bandwidth)
    out = np.full((len(X), len(Y)), np.nan, X.dtype)
    select().pairwise(code, parameter, 1.0 / bandwidth, X, Y, out)
    return out


def product(case, X, Y, V, bandwidth=1.0):
    code, parameter = CASES[case]
    X, Y = mapped(case, X, Y, bandwidth=bandwidth)
    out = np.full((len(X), V.shape[1]), np.nan)
    select().pairwise_product(code, parameter, 1.0 / bandwidth, X, Y, V, out)
    return out


def formula(case, X, Y, bandwidth=1.0):
    name, _, nu = case.partition("-")
    kernel = naive.Kernel(name, bandwidth, float(nu or 0.5))
    return np.array([[naive.kernel(kernel, x, y) for y in Y] for x in X]).reshape(len(X), len(Y))


def bound(case, X, Y, bandwidth=1.0):
    """What `streamk.kernels.Kernel.product` says of the error of a value."""
    d = X.shape[1]
    unit = np.finfo(X.dtype).eps * (1.0 if X.dtype == np.float32 else 2.0)  # the oracle rounds too
    if case == "linear":
        return unit * d * np.linalg.norm(X, axis=1).max() * np.linalg.norm(Y, axis=1).max()
    if case.startswith("ntk"):
        angles = np.array([[naive.angle(bandwidth, x, y) for y in Y] for x in X])
        error = unit * (d + CASES[case][1] + 4.0)
        # The oracle finds small angles from their cosines.
        of_oracle = 16.0 * np.finfo(float).eps / np.maximum(angles, 1e-8)
        return np.minimum(error / np.cos(angles / 2.0), error**0.5) + of_oracle
    alpha = CASES[case][1] if case.startswith("rational") else 0.0
    return unit * (d + 4.0 * alpha + 3.0)


@both_types
@every_case
@pytest.mark.parametrize(
    ("n", "m", "d", "outputs"),
    [(1, 1, 1, 1), (70, 67, 3, 10), (5, 6, 54, 17), (3, 4, 784, 2)],
)
def test_the_formula(dtype, case, n, m, d, outputs):
    X, Y, V = points(n, d, dtype), points(m, d, dtype, 1), points(m, outputs, dtype, 2)
    bandwidth = 0.9 * d ** SUMS.get(case, 0.5)
    K, error = formula(case, X, Y, bandwidth), bound(case, X, Y, bandwidth)
    assert (np.abs(matrix(case, X, Y, bandwidth) - K) <= error).all()
    # Besides the kernels the sums of each 64 points are rounded.
    size = np.abs(K) @ np.abs(V)
    F = product(case, X, Y, V, bandwidth)
    error = np.broadcast_to(error, K.shape) @ np.abs(V) + 64 * np.finfo(dtype).eps * size
    assert (np.abs(F - K @ V) <= error).all()


@both_types
@every_case
def test_no_points_no_columns_no_outputs(dtype, case):
    X, none = points(3, 2, dtype), np.empty((0, 2), dtype)
    assert matrix(case, none, X).shape == (0, 3)
    assert matrix(case, X, none).shape == (3, 0)
    assert product(case, none, X, points(3, 4, dtype)).shape == (0, 4)
    assert product(case, X, X, points(3, 0, dtype)).shape == (3, 0)
    np.testing.assert_array_equal(product(case, X, none, points(0, 4, dtype)), 0.0)
    empty = np.empty((3, 0), dtype)
    np.testing.assert_array_equal(matrix(case, empty, empty), float(case != "linear"))


@both_types
@pytest.mark.parametrize("case", BOUNDED)
def test_equal_points_are_at_distance_0(dtype, case):
    # Far from the origin, where |x|^2 + |y|^2 - 2 x.y would leave nothing of a small distance.
    X = points(40, 7, dtype) + dtype(1e4)
    K = matrix(case, X, X.copy())
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_array_equal(K, K.T)
    Y = points(40, 7, dtype, 1) + dtype(1e4)
    error = np.abs(matrix(case, X, Y) - formula(case, X, Y))
    assert (error <= bound(case, X, Y)).all()


@pytest.mark.parametrize("case", DECAYING)
def test_close_points_are_told_apart_in_single_precision(case):
    x = np.full((1, 784), 1.0, np.float32)
    near = np.nextafter(x, np.float32(2.0))  # 3.3e-6 away; a matrix product sees less than 1e-2
    distance = 784.0 ** SUMS.get(case, 0.5) * 2.0**-23
    K = matrix(case, x, near, distance)
    np.testing.assert_allclose(K, formula(case, x, near, distance), rtol=5e-5)


@both_types
@pytest.mark.parametrize("case", DECAYING)
def test_huge_values_and_scales_leave_a_number(dtype, case):
    huge = float(np.finfo(dtype).max) / 4.0
    X = np.array([[0.0, 0.0], [huge, 0.0], [-huge, huge], [1.0, 1.0]], dtype)
    K = matrix(case, X, X)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    # sqrt of the largest number is as small as 1 / (1 + r^2)^(1/2) becomes before r^2 is infinite.
    assert (K[:3, :3][~np.eye(3, dtype=bool)] < 1e-15).all()
    for bandwidth in (1e-200, 1e-30, 1e30, 1e200):
        K = matrix(case, X[[0, 3]], X[[0, 3]], bandwidth)
        np.testing.assert_array_equal(np.diag(K), 1.0)
        assert abs(K[0, 1] - (bandwidth > 1.0)) < 3e-15  # sqrt(1 / bandwidth) of two columns


@every_case
def test_a_nan_stays_in_its_row(case):
    X, Y, V = points(40, 3, np.float32), points(70, 3, np.float32, 1), points(70, 2, np.float32, 2)
    clean = product(case, X, Y, V)
    X[17, 1] = np.nan
    F = product(case, X, Y, V)
    assert np.isnan(F[17]).all()
    np.testing.assert_array_equal(np.delete(F, 17, axis=0), np.delete(clean, 17, axis=0))


@both_types
@every_case
def test_a_row_is_the_same_in_whatever_batch(dtype, case):
    X, Y, V = points(301, 9, dtype), points(131, 9, dtype, 1), points(131, 11, dtype, 2)
    K, F = matrix(case, X, Y), product(case, X, Y, V)
    for rows in (slice(0, 1), slice(7, 9), slice(60, 70), slice(3, 290), slice(300, 301)):
        np.testing.assert_array_equal(matrix(case, X[rows], Y), K[rows])
        np.testing.assert_array_equal(product(case, X[rows], Y, V), F[rows])
    for columns in (slice(0, 1), slice(30, 131)):
        np.testing.assert_array_equal(matrix(case, X, Y[columns]), K[:, columns])


KERNELS = [
    kernels.Gaussian(bandwidth=7.0),
    kernels.Laplacian(bandwidth=40.0),
    kernels.PowerExponential(bandwidth=400.0),
    kernels.Matern(nu=2.5, bandwidth=7.0),
    kernels.RationalQuadratic(alpha=1.5, bandwidth=7.0),
    kernels.Cauchy(bandwidth=7.0),
    kernels.NTK(depth=3, bandwidth=7.0),
    kernels.Linear(),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=[k.name for k in KERNELS])


@every_kernel
@pytest.mark.usefixtures("many_threads")
def test_threads_change_nothing(kernel):
    X, Y, V = points(333, 54, np.float64), points(300, 54, np.float64, 1), points(300, 5, float, 2)
    alone = kernel.product(X, Y, V, threads=1)
    for count in (2, 3, 7):
        np.testing.assert_array_equal(kernel.product(X, Y, V, threads=count), alone)


@every_kernel
def test_the_product_is_that_with_the_matrix(kernel):
    X, Y, V = points(50, 6, np.float64), points(90, 6, np.float64, 1), points(90, 3, float, 2)
    expected = kernel.pairwise(X, Y) @ V
    np.testing.assert_allclose(kernel.product(X, Y, V), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        kernel.product(X, Y, V[:, 1]), expected[:, 1], rtol=1e-12, atol=1e-13
    )
    F = kernel.product(X, Y, V, dtype=np.float32)
    assert F.dtype == np.float64
    np.testing.assert_allclose(F, expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    # Views, lists and other types are as good.
    np.testing.assert_array_equal(
        kernel.product(X.T.copy().T, Y[::-1][::-1], V.tolist()), kernel.product(X, Y, V)
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda k: k.product([1.0], [[1.0]], [1.0]), ["X", "matrix", "(1,)"]),
        (lambda k: k.product([[1.0]], [[1.0, 2.0]], [1.0]), ["1 columns", "2"]),
        (lambda k: k.product([[1.0]], [[1.0]], [1.0, 2.0]), ["V", "(1,)", "(2,)"]),
        (lambda k: k.product([[1.0]], [[1.0]], 1.0), ["V", "(1,)", "()"]),
        (lambda k: k.product([[1.0]], [[1.0]], [[[1.0]]]), ["V", "(1, 1, 1)"]),
        (lambda k: k.product([[1.0]], [[1.0]], [1.0], dtype="int32"), ["int32", "float32"]),
        (lambda k: k.product([[1.0]], [[1.0]], [1.0], backend="fortran"), ["fortran", "cupy"]),
    ],
)
def test_errors_name_what_was_wrong(call, words):
    with pytest.raises(InvalidInput) as error:
        call(kernels.Gaussian())
    for word in words:
        assert word in str(error.value)


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_compiled_product_does_not_store_the_kernels():
    # What compiled code allocates, Python does not trace: the system says how much it was at most.
    code = """
import resource
import numpy as np
from streamk.kernels import Gaussian
def product(n):
    X = np.zeros((n, 2))
    Gaussian().product(X, X, X[:, 0], dtype="float32")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = product(3000)
print(1024 * (product(12000) - before))
"""
    assert int(run(code)) < 12000 * 12000 * 4 / 20


CPUS = {"avx2": ("haswell", "+avx,+avx2,+fma,+sse4.2"), "sse2": ("generic", "+sse2")}


@pytest.mark.nightly
@pytest.mark.parametrize("cpu", CPUS)
def test_machines_without_wide_vectors(cpu, tmp_path):
    code = """
import numpy as np
from streamk import kernels
rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    X, Y, V = rng.normal(size=(70, 9)), rng.normal(size=(67, 9)), rng.normal(size=(67, 6))
    X, Y, V = X.astype(dtype), Y.astype(dtype), V.astype(dtype)
    for kernel in (kernels.Gaussian(bandwidth=3.0), kernels.Matern(), kernels.Laplacian(),
                   kernels.PowerExponential(bandwidth=99.0), kernels.RationalQuadratic(),
                   kernels.Cauchy(), kernels.NTK(depth=2), kernels.NTK(depth=12),
                   kernels.Linear()):
        F = kernel.product(X, Y, V, dtype=dtype)
        alone = [kernel.product(X[i : i + 1], Y, V, dtype=dtype)[0] for i in range(0, 70, 10)]
        assert (F[::10] == alone).all(), kernel
        expected = kernel.pairwise(X, Y) @ V
        worst = np.abs(F - expected).max() / np.abs(expected).max()
        assert worst < 20 * np.finfo(dtype).eps, (kernel, worst)
"""
    name, features = CPUS[cpu]
    run(
        code,
        NUMBA_CPU_NAME=name,
        NUMBA_CPU_FEATURES=features,
        NUMBA_CACHE_DIR=str(tmp_path),
    )


@both_types
def test_the_exponential_is_within_two_units_in_the_last_place(dtype):
    @numba.njit(fastmath={"contract"})
    def of(x, out):
        for i in range(x.shape[0]):
            out[i] = decayed(x[i])

    smallest = np.finfo(dtype).tiny
    least = float(np.log(smallest))
    x = np.concatenate([np.linspace(least, 0.0, 200_001), -np.logspace(-40, 1, 20_001)])
    x = x.astype(dtype)
    x = x[x > least * (1.0 - 1e-6)]
    out, true = np.empty_like(x), np.exp(x.astype(np.longdouble))
    of(x, out)
    units = np.abs(out - true) / np.spacing(true.astype(dtype)).astype(np.longdouble)
    assert units.max() < 2.0
    special = np.array([0.0, -0.0, least * 1.01, -1e30, -np.inf, np.nan], dtype)
    out = np.empty_like(special)
    of(special, out)
    np.testing.assert_array_equal(out, [1.0, 1.0, 0.0, 0.0, 0.0, np.nan])
