"""Where oASIS stops, and what it says of input that it cannot use."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from landmarks_kit import CASES
from reference import landmarks as naive_landmarks

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.landmarks import Diffusion, block_rpcholesky, nystrom, oasis, uniform

# --- where it stops -------------------------------------------------------------------------


def left(case, lm):
    """The largest Schur complement of what was not chosen, by plain linear algebra."""
    rest = case.G - naive_landmarks.nystrom(case.G, lm.indices.tolist())
    return np.delete(rest.diagonal(), lm.indices).max()


@pytest.mark.parametrize("name", ["two moons, wide", "abalone", "gaussian 0.5", "sparse, scaled"])
@pytest.mark.parametrize("share", [0.05])
def test_stops_by_tolerance(name, share):
    case = CASES[name]
    tol = share * case.G.diagonal().max()
    lm = oasis(case.X, case.kernel, max_landmarks=len(case.G), tol=tol)
    assert lm.stopped == "tolerance"
    assert lm.schur[1:].min() > tol
    assert left(case, lm) <= tol * (1.0 + 1e-9)
    oracle = naive_landmarks.oasis(case.G, len(case.G), lm.indices[:1].tolist(), tol=tol)
    assert len(oracle.indices) == len(lm)


def test_a_tolerance_above_all_leaves_the_start():
    lm = oasis(np.eye(5), "precomputed", max_landmarks=5, tol=2.0, n_init=2)
    assert (len(lm), lm.stopped) == (2, "tolerance")


@pytest.mark.parametrize("n_init", [0, 1, 30])
def test_duplicates_are_taken_once(n_init):
    X = np.repeat(np.random.default_rng(0).normal(size=(12, 3)), 5, axis=0)
    for kernel in (kernels.Gaussian(bandwidth=0.5), Diffusion(kernels.Laplacian(bandwidth=1.0))):
        lm = oasis(X, kernel, max_landmarks=60, n_init=n_init)
        assert (len(lm), lm.stopped) == (12, "rounding")
        assert set(lm.indices // 5) == set(range(12))
        assert np.isfinite(lm.factor).all()
        assert np.isfinite(lm.W_inverse).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("tol", [0.0, 1e-18])
def test_a_tolerance_below_rounding_stops_at_rounding(tol, dtype):
    X = np.linspace(0.0, 1.0, 300)[:, None]  # a wide kernel on a line: of low rank in all but name
    lm = oasis(X, kernels.Gaussian(bandwidth=1.0), max_landmarks=300, tol=tol, dtype=dtype)
    assert lm.stopped == "rounding"
    assert 3 < len(lm) < 30
    G = kernels.Gaussian(bandwidth=1.0).pairwise(X)
    F = lm.factor.astype(np.float64)
    assert abs(F @ F.T - G).max() < 100 * np.finfo(dtype).eps
    assert (np.diff(lm.schur) <= 1e-12).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_starting_columns_that_nearly_span_each_other(dtype):
    """All of them, in the order drawn, would blow up the rounding of the rows far from them."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    X[300:] *= 4.0
    kernel = kernels.Gaussian(bandwidth=4.0)
    for n_init in (50, 400):
        for seed in range(2):
            lm = oasis(X, kernel, max_landmarks=400, n_init=n_init, seed=seed, dtype=dtype)
            assert lm.stopped == "rounding"
            F = lm.factor.astype(np.float64)
            assert abs(F @ F.T - kernel.pairwise(X)).max() < 2000 * np.finfo(dtype).eps


# --- bad input ------------------------------------------------------------------------------

GAUSSIAN = kernels.Gaussian(bandwidth=1.0)


@pytest.mark.parametrize(
    ("X", "kernel", "message"),
    [
        ([1.0, 2.0], GAUSSIAN, "matrix of shape"),
        (np.zeros((2, 2, 2)), GAUSSIAN, "matrix of shape"),
        ([[0.0, 1.0], [math.nan, 2.0]], GAUSSIAN, "nan in row 1, column 0"),
        ([[0.0, 1.0], [1.0, -math.inf]], GAUSSIAN, "inf in row 1, column 1"),
        ([[0.0, 1.0], [1.0, math.inf]], Diffusion(GAUSSIAN), "inf in row 1, column 1"),
        ([[1.0], [-1.0], [-1.0]], Diffusion(kernels.Linear()), "positive row sums"),
        ([[1.0]], None, "kernel=None"),
        (np.zeros((0, 0)), "precomputed", "must be square"),
        (np.zeros((2, 3)), "precomputed", "must be square"),
        (scipy.sparse.csr_array((2, 3)), "precomputed", "must be square"),
        ([1.0, 2.0], "precomputed", "must be square"),
        ([[1.0, 0.0], [0.0, -1.0]], "precomputed", "diagonal entry 1"),
        ([[math.nan, 0.0], [0.0, 1.0]], "precomputed", "diagonal entry 0"),
        ([[1.0, math.nan], [math.nan, 1.0]], "precomputed", "nan"),
        ([[1.0, math.inf], [math.inf, 1.0]], "precomputed", "inf"),
        (scipy.sparse.csr_array([[1.0, math.nan], [math.nan, 1.0]]), "precomputed", "nan"),
        ([[1.0, 2.0], [2.0, 1.0]], "precomputed", "not positive semidefinite"),
        ([[1.0, 0.5, 0.9], [0.5, 1.0, -0.9], [0.9, -0.9, 1.0]], "precomputed", "semidefinite"),
        (scipy.sparse.csr_array([[1.0, 2.0], [2.0, 1.0]]), "precomputed", "semidefinite"),
        ([[1.0, 0.5, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]], "precomputed", "symmetric"),
        (scipy.sparse.csr_array([[1.0, 0.5], [0.1, 1.0]]), "precomputed", "symmetric"),
    ],
)
def test_what_cannot_be_used_is_named(X, kernel, message):
    for dtype in ("float64", "float32"):
        with pytest.raises(InvalidInput, match=message):
            oasis(X, kernel, max_landmarks=3, dtype=dtype)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tol", -1e-9),
        ("tol", math.nan),
        ("tol", "small"),
        ("n_init", -1),
        ("n_init", 2.0),
        ("dtype", int),
        ("dtype", "double precision"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(option, value):
    with pytest.raises(InvalidInput, match=option):
        oasis(np.eye(3), "precomputed", **{"max_landmarks": 3, option: value})


@pytest.mark.parametrize("n", [100, 700])  # more than stay up to date at every landmark
def test_single_precision_that_cannot_hold_the_points_or_entries(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    X[3, 1], X[n - 5, 0] = 1e39, -1e39
    for kernel in (GAUSSIAN, Diffusion(GAUSSIAN)):
        for method in (oasis, block_rpcholesky, uniform):
            with pytest.raises(InvalidInput, match=r"1e\+39 in row 3, column 1.*float32"):
                method(X, kernel, max_landmarks=20, dtype="float32")
    assert oasis(X, GAUSSIAN, max_landmarks=20).stopped == "count"
    G = np.eye(n)
    G[5, :5] = G[:5, 5] = 1e39
    for n_init in (0, 1):
        with pytest.raises(InvalidInput, match=r"row 5 is nan.*not positive semidefinite"):
            oasis(G, "precomputed", max_landmarks=n, n_init=n_init, dtype="float32")


@pytest.mark.parametrize(("dtype", "small"), [("float64", 1e-160), ("float32", 1e-20)])
def test_rows_that_are_next_to_nothing(dtype, small):
    X = np.random.default_rng(0).normal(size=(100, 3))
    whole = oasis(X[50:], kernels.Linear(), max_landmarks=9, dtype=dtype)
    X[:50] *= small
    for seed in range(4):  # that begin with either kind of row
        lm = oasis(X, kernels.Linear(), max_landmarks=9, seed=seed, dtype=dtype)
        assert (len(lm), lm.stopped) == (3, "rounding")
        assert (lm.indices >= 50).all()
    few = nystrom(X, kernels.Linear(), indices=[3, 60, 70, 80], dtype=dtype)
    assert (few.rank, 3 in few.indices[few.used]) == (3, False)
    assert nystrom(X, kernels.Linear(), indices=[3], dtype=dtype).rank <= 1
    batch = whole.transform(X)
    np.testing.assert_array_equal(np.vstack([whole.transform(x[None]) for x in X]), batch)
    with pytest.raises(InvalidInput, match="largest diagonal entry"):
        oasis(X[:50], kernels.Linear(), max_landmarks=9, dtype=dtype)


@pytest.mark.parametrize("kernel", [GAUSSIAN, Diffusion(GAUSSIAN), "precomputed"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_rows_have_no_features(kernel, dtype):
    lm = oasis(np.eye(3), kernel, max_landmarks=3, dtype=dtype)
    features = lm.transform(np.zeros((0, 3)))
    assert (features.shape, features.dtype) == ((0, lm.rank), np.float64)
    with pytest.raises(InvalidInput, match="columns"):
        lm.transform(np.zeros((0, 2)))


def test_what_cannot_be_asked_of_landmarks():
    lm = oasis([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], GAUSSIAN, max_landmarks=2)
    assert repr(lm) == "<2 landmarks of 3 rows, rank 2, 'count'>"
    assert {lm: lm == lm.first(1)} == {lm: False}
    for Y, message in (
        ([[1.0]], "columns"),
        ([1.0, 2.0], "matrix of shape"),
        ([[math.nan, 0.0]], "nan in row 0, column 0"),
    ):
        with pytest.raises(InvalidInput, match=message):
            lm.transform(Y)
    with pytest.raises(InvalidInput, match="2 landmarks"):
        oasis(np.eye(3), "precomputed", max_landmarks=2).transform(np.eye(3))
    for k in (0, 3, -1, 1.5, "1"):
        with pytest.raises(InvalidInput, match="k="):
            lm.svd(k)
    for k in (3, -1, 1.5, "1"):
        with pytest.raises(InvalidInput, match="k="):
            lm.first(k)
    for rows, columns in (([0], [3]), ([-4], [0]), ([0.5], [0])):
        with pytest.raises((InvalidInput, IndexError)):
            lm.approximate(rows, columns)


# --- whatever comes -------------------------------------------------------------------------

small = st.integers(-3, 3).map(float)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(float, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=small))
def test_gram_matrices_of_small_integers(Z):
    """As many landmarks as the rank, which is exact, and the matrix is recovered."""
    G = Z @ Z.T
    rank = np.linalg.matrix_rank(Z)
    for X, kernel in ((Z, kernels.Linear()), (G, "precomputed")):
        lm = oasis(X, kernel, max_landmarks=12)
        assert len(lm) == rank
        assert lm.stopped == (
            "all" if rank == len(Z) < 12 else "count" if rank == 12 else "rounding"
        )
        np.testing.assert_allclose(lm.factor @ lm.factor.T, G, rtol=0, atol=1e-12 * (1 + G.max()))


anything = st.one_of(
    st.floats(-10.0, 10.0), st.sampled_from([0.0, -0.0, 1e-300, 1e300, math.nan, math.inf])
)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 7).flatmap(lambda n: hnp.arrays(float, (n, n), elements=anything)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["float64", "float32"]),
)
def test_any_matrix_gives_landmarks_or_an_error(A, symmetric, sparse, dtype):
    G = np.triu(A) + np.triu(A, 1).T if symmetric else A
    X = scipy.sparse.csr_array(G) if sparse else G
    try:
        lm = oasis(X, "precomputed", max_landmarks=5, dtype=dtype)
    except InvalidInput:
        return
    assert len(lm) <= min(5, len(G))
    assert lm.stopped in ("count", "rounding", "all")
    assert (lm.schur > 0.0).all()
    assert np.isfinite(lm.factor).all()
    assert np.isfinite(lm.W_inverse).all()
    held = (lm.factor.astype(np.float64) ** 2).sum(axis=1)  # no more than there is
    assert (held <= G.diagonal() + 1e-3 * G.diagonal().max()).all()


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        float,
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.one_of(small, st.floats(-1e6, 1e6), st.sampled_from([1e-200, 1e150, 1e200])),
    ),
    st.sampled_from([GAUSSIAN, kernels.Laplacian(), kernels.Matern(nu=2.5), Diffusion(GAUSSIAN)]),
    st.integers(1, 10),
)
def test_any_points_give_landmarks_that_span_what_they_say(X, kernel, count):
    lm = oasis(X, kernel, max_landmarks=count)
    assert 1 <= len(lm) <= count
    assert np.isfinite(lm.factor).all()
    assert (lm.schur > 0.0).all()
    own = (lm.factor[lm.indices] ** 2).sum(axis=1)
    diagonal = lm.factor[lm.indices] @ lm.factor[lm.indices].T
    np.testing.assert_allclose(own, diagonal.diagonal())
    if isinstance(kernel, kernels.Kernel):  # a kernel of 1 at distance 0
        np.testing.assert_allclose(own, 1.0, atol=1e-12)
        assert ((lm.factor**2).sum(axis=1) <= 1.0 + 1e-9).all()
