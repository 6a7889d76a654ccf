"""oASIS against Algorithm 1: what it selects, and what it keeps of the matrix."""

import numpy as np
import pytest
import scipy.sparse
from landmarks_kit import CASES, KERNELS, bit_equal, following, select, worst_choice
from reference import landmarks as naive_landmarks
from reference import naive

from streamk import kernels
from streamk.backends import numba_backend, threads
from streamk.landmarks import Diffusion, oasis, selection
from streamk.landmarks import selection as factor

# --- what is selected -----------------------------------------------------------------------


@pytest.mark.parametrize("n_init", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_selects_as_algorithm_1_does(name, n_init):
    """Each choice is the largest Schur complement of the oracle that follows the choices.

    Or one that is less than 1e-10 smaller, in units of the largest diagonal entry: rounding, which
    chooses there, must not end the comparison.
    """
    case = CASES[name]
    lm = select(case, n_init=n_init)
    chosen = lm.indices.tolist()
    assert len(set(chosen)) == len(chosen) == case.count
    assert lm.stopped == "count"
    assert worst_choice(case, chosen, n_init) < 1e-10
    oracle, top = following(case, chosen, n_init), case.G.diagonal().max()
    np.testing.assert_allclose(lm.schur, oracle.schur, rtol=0, atol=1e-10 * top)


def test_equal_schur_complements_go_to_the_lowest_index():
    lm = oasis(np.eye(9), "precomputed", max_landmarks=9, seed=1)
    first = int(lm.indices[0])
    assert lm.indices[1:].tolist() == [i for i in range(9) if i != first]
    blocks = np.kron(np.eye(4), np.array([[2.0, 1.0], [1.0, 2.0]]))
    lm = oasis(blocks, "precomputed", max_landmarks=8, seed=1)
    oracle = naive_landmarks.oasis(blocks, 8, lm.indices[:1].tolist())
    assert lm.indices.tolist() == oracle.indices


def test_starting_columns_are_random_by_the_seed():
    case = CASES["gaussian 0.5"]
    for n_init in (1, 7):
        starts = [tuple(select(case, n_init=n_init, seed=s).indices[:n_init]) for s in range(12)]
        assert len(set(starts)) > 9
        assert all(len(set(start)) == n_init for start in starts)
        bit_equal(select(case, n_init=n_init, seed=5), select(case, n_init=n_init, seed=5))


# --- what is kept of the matrix -------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_factor_is_the_nystrom_approximation(name):
    case = CASES[name]
    lm = select(case)
    assert len(lm) == case.count
    assert lm.n == len(case.G)
    assert lm.nbytes >= lm.factor.nbytes
    top = case.G.diagonal().max()
    dense = lm.C.toarray() if scipy.sparse.issparse(lm.C) else lm.C
    assert dense.shape == (len(case.G), case.count)
    np.testing.assert_allclose(dense, case.G[:, lm.indices], rtol=1e-12, atol=1e-13 * top)
    W = case.G[np.ix_(lm.indices, lm.indices)]
    condition = np.linalg.cond(W)
    np.testing.assert_allclose(lm.W_inverse @ W, np.eye(len(W)), atol=1e-14 * condition)
    assert lm.factor.shape == (len(case.G), case.count)
    approximation = lm.factor @ lm.factor.T
    np.testing.assert_allclose(
        dense @ lm.W_inverse @ dense.T, approximation, rtol=0, atol=1e-14 * condition * top
    )
    oracle = naive_landmarks.nystrom(case.G, lm.indices.tolist())
    np.testing.assert_allclose(
        approximation, oracle, rtol=0, atol=max(1e-12, 1e-16 * condition) * top
    )
    np.testing.assert_allclose(  # the chosen columns are held exactly
        approximation[:, lm.indices], dense, rtol=0, atol=1e-12 * top
    )


@pytest.mark.parametrize("name", ["two moons", "borg, diffusion", "sparse", "precomputed"])
def test_the_first_landmarks_are_a_shorter_run(name):
    case = CASES[name]
    bit_equal(select(case).first(17), oasis(case.X, case.kernel, max_landmarks=17))


@pytest.mark.parametrize("name", ["two moons", "two moons, diffusion", "laplacian 0.5", "linear"])
def test_transform_of_the_points_is_the_factor(name):
    case = CASES[name]
    lm = select(case)
    np.testing.assert_array_equal(lm.transform(case.X), lm.factor)
    some = np.array([5, 3, 3, 190])
    np.testing.assert_array_equal(lm.transform(case.X[some]), lm.factor[some])


@pytest.mark.parametrize(("kernel", "oracle"), KERNELS[:-1], ids=lambda k: k.name)
def test_transform_of_new_points(kernel, oracle):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    lm = oasis(X, kernel, max_landmarks=40)
    Z = X[lm.indices]
    W = naive_landmarks.kernel_matrix(oracle, Z, Z)
    K = naive_landmarks.kernel_matrix(oracle, Y, Z)
    expected = K @ np.linalg.solve(W, naive_landmarks.kernel_matrix(oracle, Z, X))
    np.testing.assert_allclose(lm.transform(Y) @ lm.factor.T, expected, rtol=0, atol=1e-10)


def test_transform_of_new_points_on_a_diffusion():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    lm = oasis(X, Diffusion(kernels.Gaussian(bandwidth=1.2)), max_landmarks=40)
    gaussian = naive.Kernel("gaussian", 1.2)
    G = naive_landmarks.diffusion_rows(gaussian, X, X)[:, lm.indices]
    K = naive_landmarks.diffusion_rows(gaussian, Y, X)[:, lm.indices]
    expected = K @ np.linalg.solve(G[lm.indices], G.T)
    np.testing.assert_allclose(lm.transform(Y) @ lm.factor.T, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_singular_vectors_are_orthonormal(dtype):
    """The eigenvalues fall to rounding, where those of F^T F would be nothing else."""
    X = np.random.default_rng(0).normal(size=(1500, 2))
    lm = oasis(X, kernels.Gaussian(bandwidth=3.0), max_landmarks=300, dtype=dtype)
    assert lm.stopped == "rounding"
    U, s = lm.svd(lm.rank)
    assert s[-1] < 1e-6 * s[0]
    assert (np.diff(s) <= 0.0).all()
    np.testing.assert_allclose(U.T @ U, np.eye(lm.rank), atol=1e-11)
    F = lm.factor[::50].astype(np.float64)
    np.testing.assert_allclose((U[::50] * s) @ U[::50].T, F @ F.T, atol=1e-13)


def test_entries_of_the_approximation():
    lm = select(CASES["two moons"])
    full = lm.factor @ lm.factor.T
    rows, cols = np.array([0, 399, 7, 7]), np.array([1, 399, 7, 250])
    np.testing.assert_allclose(lm.approximate(rows, cols), full[rows, cols], atol=1e-14)
    np.testing.assert_allclose(lm.approximate(rows[:, None], cols), full[np.ix_(rows, cols)])
    np.testing.assert_allclose(lm.approximate(3, cols), full[3, cols], atol=1e-14)
    assert np.isclose(lm.approximate(3, 4), full[3, 4], atol=1e-14)


def test_columns_of_a_sparse_matrix_stay_sparse():
    for name in ("sparse", "sparse, scaled"):
        case = CASES[name]
        lm = select(case)
        assert scipy.sparse.issparse(lm.C)
        assert lm.C.format == "csr"
        assert lm.C.nnz == np.count_nonzero(case.G[:, lm.indices])
        dense = oasis(case.G, "precomputed", max_landmarks=case.count)
        bit_equal(lm, dense)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "bsr"])
def test_every_form_of_a_sparse_matrix(form):
    case = CASES["sparse"]
    expected = oasis(case.X, "precomputed", max_landmarks=20)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        given_so = kind(case.G).asformat(form)
        bit_equal(oasis(given_so, "precomputed", max_landmarks=20), expected)


# --- the same bits --------------------------------------------------------------------------


@pytest.fixture
def many_parts(monkeypatch):
    """Divide small work too: as many parts as threads, few entries of the matrix at a time."""
    monkeypatch.setattr(threads, "PARALLEL_FLOPS", 1)
    return lambda entries: monkeypatch.setattr(factor, "_ENTRIES", entries)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["two moons", "abalone, diffusion", "sparse, scaled", "linear"])
def test_threads_and_chunks_change_no_bit(name, dtype, many_parts):
    case = CASES[name]
    lm = select(case, threads=1, dtype=dtype)
    for count, entries in ((2, 32), (3, 97), (5, 1 << 20)):
        many_parts(entries)
        bit_equal(select(case, threads=count, dtype=dtype), lm)


@pytest.mark.parametrize(("few", "part"), [(1, 2), (3, 4), (40, 2), (400, 16)])
@pytest.mark.parametrize("name", ["two moons", "borg, diffusion", "sparse"])
def test_how_lazily_the_choice_is_made_changes_no_bit(name, few, part, monkeypatch):
    lm = select(CASES[name], n_init=3)
    monkeypatch.setattr(selection, "_FEW", few)
    monkeypatch.setattr(selection, "_PART", part)
    bit_equal(select(CASES[name], n_init=3), lm)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_choosing_many_is_choosing_one_by_one(dtype):
    K = CASES["gaussian 0.5"].G[:70, :70].astype(dtype)
    F, delta = np.zeros((70, 40), dtype), np.ones(70)
    places, schur = np.empty(40, np.int64), np.empty(40)
    one, left, chosen = F.copy(), delta.copy(), []
    for m in range(40):
        place = int(left.argmax())
        chosen.append((place, left[place]))
        row = np.append(one[place, :m], np.sqrt(left[place])).astype(dtype)
        numba_backend.extend(K[place][None], row[None], one, m, left)
        left[place] = -np.inf
    count = numba_backend.choose(K, F, 0, delta, chosen[25][1], places, schur)
    assert count == 25  # which is down to that complement, and not with it
    assert numba_backend.choose(K, F, 25, delta, 0.0, places[25:], schur[25:]) == 15
    assert list(zip(places.tolist(), schur.tolist(), strict=True)) == chosen
    np.testing.assert_array_equal(F, one)
    np.testing.assert_array_equal(delta, left)
    K[places[3], 5] = np.nan  # the row after that landmark would be chosen by what is not a number
    F, delta = np.zeros((70, 40), dtype), np.ones(70)
    assert numba_backend.choose(K, F, 0, delta, 0.0, places, schur) == 4


def test_all_rows_of_a_part_may_become_landmarks(monkeypatch):
    monkeypatch.setattr(selection, "_FEW", 4)
    monkeypatch.setattr(selection, "_PART", 8)
    d = np.ones(600)
    d[:75] = 100.0  # just the eighth that is the first part
    lm = oasis(np.diag(d), "precomputed", max_landmarks=90, n_init=0)
    assert lm.indices.tolist() == list(range(90))


@pytest.mark.parametrize("name", ["two moons", "laplacian 0.5", "borg, diffusion", "linear"])
def test_a_row_has_the_same_features_in_every_batch(name):
    case = CASES[name]
    lm = select(case)
    whole = lm.transform(case.X)
    np.testing.assert_array_equal(np.vstack([lm.transform(x[None]) for x in case.X[:9]]), whole[:9])
    for size in (2, 31, 32, 33):
        np.testing.assert_array_equal(lm.transform(case.X[5 : 5 + size]), whole[5 : 5 + size])


def test_what_is_given_is_left_as_it_is():
    case = CASES["abalone"]
    for X, kernel in ((case.X.copy(), case.kernel), (case.G.copy(), "precomputed")):
        before = X.copy()
        lm = oasis(X, kernel, max_landmarks=20)
        np.testing.assert_array_equal(X, before)
        bit_equal(oasis(np.asfortranarray(X), kernel, max_landmarks=20), lm)
        bit_equal(oasis(np.repeat(X, 2, axis=0)[::2], kernel, max_landmarks=20), lm)
        bit_equal(oasis(X.tolist(), kernel, max_landmarks=20), lm)


# --- single precision -----------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name):
    """Half the memory; each choice is the best up to what single precision can tell."""
    case = CASES[name]
    lm, double = select(case, dtype="float32"), select(case)
    assert lm.factor.dtype == np.float32
    assert lm.factor.nbytes == double.factor.nbytes * len(lm) // (2 * len(double))
    chosen = lm.indices.tolist()
    assert worst_choice(case, chosen) < 1e-5
    top = case.G.diagonal().max()
    oracle = following(case, chosen)
    np.testing.assert_allclose(lm.schur, oracle.schur, rtol=0, atol=1e-5 * top)
    approximation = lm.factor.astype(np.float64) @ lm.factor.T.astype(np.float64)
    nystrom = naive_landmarks.nystrom(case.G, chosen)
    np.testing.assert_allclose(approximation, nystrom, rtol=0, atol=1e-5 * top)
    if len(chosen) < case.count:
        assert lm.stopped == "rounding"
        assert double.schur[len(chosen)] < 1e-4 * top
