"""MEKA against its oracle: bases, links, ranks, and what is computed with them."""

import gc
import itertools
import json
import math
import pickle
import sys
import weakref

import numpy as np
import pytest
from meka_kit import (
    EVERY,
    GAUSSIAN,
    KERNELS,
    SIZES,
    as_oracle,
    clouds,
    dense,
    factors,
    plain_kernel,
)
from reference import meka as oracle

from streamk import kernels
from streamk.factorization import Meka, meka
from streamk.factorization.meka import by_leverage, sample
from streamk.state import State

X = clouds()
N, C, K = len(X), len(SIZES), 6
PLAIN = plain_kernel(KERNELS[0][1])
G = PLAIN(X, X)
BASES = ["uniform", "k_means", "randomized_svd", "oasis", "rpcholesky"]


def made(points=X, kernel=GAUSSIAN, rank=K, n_clusters=C, dtype="float64", **options):
    return meka(points, kernel, rank=rank, n_clusters=n_clusters, dtype=dtype, **options)


@pytest.fixture(scope="module")
def model():
    return made()


@pytest.fixture(scope="module")
def indefinite():
    """Too few samples for its links, and some of them are not there."""
    m = made(link_samples=0.2, sampling="uniform", threshold=1e-4)
    assert np.linalg.eigvalsh(dense(m)).min() < -1e-2
    assert 0.0 < m.links.mean() < 1.0
    return m


def block(m, s, t, of=G):
    return of[np.ix_(m.rows(s), m.rows(t))]


# --- clusters -------------------------------------------------------------------------------


def test_clusters_share_the_points(model):
    assert (model.n, model.n_clusters) == (N, C)
    np.testing.assert_array_equal(model.points, X)
    assert model.centers.shape == (C, 3)
    assert (model.labels.shape, model.labels.dtype) == ((N,), np.int32)
    for s, rows in enumerate(oracle.rows_of(model.labels)):
        np.testing.assert_array_equal(model.rows(s), rows)
    np.testing.assert_array_equal(model.labels, oracle.nearest(X, model.centers))


def test_clusters_of_many_points_come_of_a_sample():
    many = clouds((15_000, 9_000, 6_000))
    m = made(many, rank=2, n_clusters=3, basis="uniform")
    np.testing.assert_array_equal(m.labels, oracle.nearest(many, m.centers))
    means = np.array([many[m.rows(s)].mean(axis=0) for s in range(3)])
    distance = abs(means - m.centers).max()
    assert 0.0 < distance < 0.05


# --- W and L --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "plain"), KERNELS)
def test_where_every_point_is_a_landmark(kernel, plain):
    """Bases are leading eigenvectors, and links what W' G W says."""
    exact = plain_kernel(plain)(X, X)
    m = made(kernel=kernel, **EVERY)
    rows = [m.rows(s) for s in range(C)]
    blocks = [block(m, s, s, exact) for s in range(C)]
    bases = [oracle.truncated_nystrom(some, some, K) for some in blocks]
    expected = oracle.approximation(oracle.full_links(exact, rows, bases))
    np.testing.assert_allclose(dense(m), expected, rtol=0, atol=1e-7)
    assert m.error() == pytest.approx(oracle.relative_error(expected, exact), abs=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_links_are_symmetric(dtype):
    m = made(dtype=dtype)
    assert (m.links.shape, m.links.dtype, m.links.all()) == ((C, C), np.bool_, True)
    for s, t in itertools.product(range(C), repeat=2):
        assert m.link(s, t).shape == (m.ranks[s], m.ranks[t])
        np.testing.assert_array_equal(m.link(s, t), m.link(t, s).T)


# --- what was drawn, handed to the oracle ---------------------------------------------------


def landmarks_of(m):
    """The landmarks of each cluster."""
    arrays = m.state().arrays
    return np.split(arrays["landmarks"], np.cumsum(arrays["counts"])[:-1])


def assert_alike(m, s, basis, new):
    """The same subspace, the same approximation within it, and the same map into it."""
    W = m.basis(s)
    np.testing.assert_allclose(W @ m.link(s, s) @ W.T, basis.W @ basis.L @ basis.W.T, atol=1e-8)
    labels, w = m.coordinates(new)
    some = labels == s
    columns = PLAIN(landmarks_of(m)[s], new[some])
    Q = basis.W @ np.linalg.inv(basis.W.T @ basis.W)  # where W has no orthonormal columns
    np.testing.assert_allclose(
        W @ w[some, : m.ranks[s]].T, Q @ basis.T.T @ columns, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("basis", BASES)
def test_bases_of_the_same_landmarks(basis):
    m = made(basis=basis)
    for s, Z in enumerate(landmarks_of(m)):
        C, M = PLAIN(X[m.rows(s)], Z), PLAIN(Z, Z)
        assert len(Z) == 2 * K
        if basis == "randomized_svd":  # with p = 10 it is exact of so few landmarks
            expected = oracle.nystrom(C, M, K)
            values, V = np.linalg.eigh(expected.W.T @ expected.W)
            T = expected.T @ V / np.sqrt(values)
            expected = oracle.Basis(C @ T, np.diag(values), T)
        else:
            expected = oracle.truncated_nystrom(C, M, K)
        assert_alike(m, s, expected, X + 0.1)


@pytest.mark.parametrize("basis", ["uniform", "oasis"])
def test_bases_of_the_same_columns_of_the_row(basis):
    m = made(basis=basis, columns="row")
    for s, Z in enumerate(landmarks_of(m)):
        own = X[m.rows(s)]
        inside = (Z[:, None] == own).all(axis=2).any(axis=1)
        C, M = PLAIN(own, Z[inside]), PLAIN(Z[inside], Z[inside])
        nystrom = C @ oracle.pseudo_inverse(M) @ C.T
        share = np.where(inside, len(own) / inside.sum(), (N - len(own)) / (~inside).sum())
        assert_alike(m, s, oracle.row_basis(PLAIN(own, Z), share, nystrom, K), X + 0.1)


# The function of the same name hides the module among the package's names.
MODULE = sys.modules["streamk.factorization.meka"]


@pytest.mark.parametrize("sampling", ["leverage", "uniform"])
@pytest.mark.parametrize("rho", [0.3, 3.0])
def test_links_of_the_same_samples(monkeypatch, sampling, rho):
    drawn, draw = [], MODULE.sample

    def recording(*given):
        drawn.append(draw(*given))
        return drawn[-1]

    monkeypatch.setattr(MODULE, "sample", recording)
    m = made(sampling=sampling, link_samples=rho, threshold=1e-9)
    rows, bases, _ = as_oracle(m)
    v, weights = [], []
    for s, some in enumerate(drawn):
        equal = (some.points[:, None] == X[rows[s]]).all(axis=2)
        v.append(equal.argmax(axis=1))
        count, asked = len(v[s]), min(math.ceil((1.0 + rho) * K), len(rows[s]))
        assert len(set(v[s])) == equal.sum() == count
        assert count == asked or (sampling == "leverage" and count > asked)
        by_leverage = 1.0 / oracle.chances(bases[s].W, count)[v[s]]
        weights.append(by_leverage if sampling == "leverage" else np.ones(count))
    pairs = [pair for pair in itertools.permutations(range(C), 2) if m.links[pair]]
    plain = oracle.meka(
        G,
        rows,
        bases,
        {(s, t): (v[s], v[t]) for s, t in pairs},
        {(s, t): (weights[s], weights[t]) for s, t in pairs},
    )
    assert 4 < len(pairs) < C * (C - 1)
    for s, t in pairs:
        np.testing.assert_allclose(m.link(s, t), plain.L[s, t], rtol=1e-7, atol=1e-8)


def test_rows_are_drawn_by_their_leverage_scores():
    """The frequency of each row is its chance, and weights make the sum of squares unbiased."""
    m, times = made(), 500
    s = int(np.bincount(m.labels).argmax())
    W = m.basis(s)
    expected = oracle.chances(W, 10)
    random, seen, grams = np.random.default_rng(0), np.zeros(len(W)), []
    for _ in range(times):
        rows, _ = by_leverage(W, 10, random)
        seen[rows] += 1
        grams.append(W[rows].T @ (W[rows] / expected[rows, None]))
    deviation = np.sqrt(expected * (1.0 - expected) / times)
    np.testing.assert_array_less(abs(seen / times - expected), 4.5 * deviation + 1e-12)
    np.testing.assert_allclose(np.mean(grams, axis=0), np.eye(K), rtol=0, atol=0.2)


# --- thresholding, ranks, memory ------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_links_below_the_threshold_are_not_there(share):
    m = made(**EVERY)
    between = np.unique(PLAIN(m.centers, m.centers)[np.triu_indices(C, 1)])
    some_of = int(share * len(between))
    threshold = np.mean(between[some_of : some_of + 2])
    some = made(threshold=threshold, **EVERY)
    expected = oracle.linked(PLAIN, m.centers, threshold)
    assert not expected.all()
    np.testing.assert_array_equal(some.links, expected)
    for s, t in itertools.product(range(C), repeat=2):
        wanted = m.link(s, t) if expected[s, t] else np.zeros((K, K))
        np.testing.assert_allclose(some.link(s, t), wanted, rtol=0, atol=1e-9)
    assert some.nbytes < m.nbytes
    np.testing.assert_allclose(some.matvec(np.eye(N)), dense(some), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("threshold", [0.0, 1e-3, 1.0])
def test_nbytes_are_those_of_w_and_l(dtype, threshold):
    m = made(dtype=dtype, threshold=threshold)
    sizes, itemsize = np.bincount(m.labels), np.dtype(dtype).itemsize
    assert m.nbytes == oracle.nbytes(sizes, m.ranks, m.links, itemsize)
    assert m.map_nbytes >= C * K * itemsize


def test_the_same_rank_for_all():
    m = made(rank=25, **EVERY)
    assert sorted(m.ranks) == oracle.same_ranks(sorted(np.bincount(m.labels)), 25)


def test_ranks_in_proportion_to_sizes():
    m = made(rank_rule="size", **EVERY)
    expected = oracle.ranks_by_size(np.bincount(m.labels), K)
    assert m.ranks.sum() == K * C
    np.testing.assert_array_less(abs(m.ranks - expected), 1.0)


def test_ranks_by_the_spectrum():
    m = made(rank_rule="spectrum", **EVERY)
    expected = oracle.ranks_by_spectrum([block(m, s, s) for s in range(C)], K)
    assert m.ranks.tolist() == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("rule", ["same", "size", "spectrum"])
@pytest.mark.parametrize("rank", [1, 10])
def test_ranks_are_no_more_than_asked_for(rule, rank):
    lonely = np.vstack([X, 50.0 * (1.0 + np.arange(4.0))[:, None] * np.ones(3)])
    m = made(lonely, rank=rank, n_clusters=7, rank_rule=rule)
    sizes = np.bincount(m.labels)
    assert m.ranks.min() >= 1
    assert (m.ranks <= sizes).all()
    assert m.rank == m.ranks.sum() <= rank * 7


# --- entries and products -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("threshold", [0.0, 1e-3])
def test_entries_and_products_are_those_of_w_l_w(dtype, threshold):
    m = made(dtype=dtype, threshold=threshold)
    expected, close = dense(m), {"rtol": 0, "atol": 1e-12 if dtype == "float64" else 1e-5}
    every = np.arange(N)
    np.testing.assert_allclose(m.approximate(every[:, None], every), expected, **close)
    np.testing.assert_allclose(m.approximate(every, every[::-1]), expected[every, -1 - every])
    assert np.shape(m.approximate(3, 5)) == ()
    assert m.approximate(3, 5) == pytest.approx(expected[3, 5], abs=close["atol"])
    v = np.random.default_rng(0).normal(size=(N, 3))
    for product in (m.matvec(v), m @ v):
        assert product.dtype == np.float64
        np.testing.assert_allclose(product, expected @ v, rtol=0, atol=20 * close["atol"])
    assert m.matvec(v[:, 0]).shape == (N,)
    np.testing.assert_allclose(m @ v[:, 0], expected @ v[:, 0], rtol=0, atol=20 * close["atol"])


def test_the_error_is_that_of_all_columns_of_some_rows(model):
    whole = oracle.relative_error(dense(model), G)
    assert model.error() == pytest.approx(whole, rel=1e-6)  # there are fewer than 1000 rows
    some = [model.error(n_rows=60, seed=seed) for seed in range(20)]
    assert len(set(some)) > 1
    assert np.mean(some) == pytest.approx(whole, rel=0.1)
    assert some[3] == model.error(n_rows=60, seed=3)


# --- positive semidefinite ------------------------------------------------------------------


def test_clipping_takes_away_the_negative_eigenvalues(indefinite):
    before = dense(indefinite)
    W, L = factors(indefinite)
    m = indefinite.psd()
    assert isinstance(m, Meka)
    assert m.shift == 0.0
    np.testing.assert_allclose(factors(m)[1], oracle.clipped(L), rtol=0, atol=1e-10)
    expected = W @ oracle.clipped(L) @ W.T
    np.testing.assert_allclose(m.matvec(np.eye(N)), expected, rtol=0, atol=1e-10)
    assert np.linalg.eigvalsh(dense(m)).min() > -1e-9
    np.testing.assert_array_equal(dense(indefinite), before)
    np.testing.assert_allclose(dense(m.psd("clip")), dense(m), rtol=0, atol=1e-10)


def test_clipping_leaves_apart_what_no_link_joins():
    """Two groups of clusters, far from each other."""
    X = np.vstack([clouds(), clouds(seed=1) + 100.0])
    m = made(X, n_clusters=2 * C, link_samples=0.2, sampling="uniform", threshold=1e-4)
    clipped, L = m.psd(), factors(m)[1]
    assert np.linalg.eigvalsh(L).min() < -1e-2
    np.testing.assert_allclose(factors(clipped)[1], oracle.clipped(L), rtol=0, atol=1e-10)
    far = np.abs(m.centers[:, None, 0] - m.centers[None, :, 0]) > 50.0
    assert 0 < clipped.links.sum() <= (~far).sum()
    assert not clipped.links[far].any()


def test_a_shift_of_the_diagonal(indefinite):
    m, G0 = indefinite.psd("shift"), dense(indefinite)
    least = oracle.diagonal_shift(G0)
    assert least * (1.0 - 1e-9) <= m.shift <= 1.01 * least
    assert indefinite.shift == 0.0
    shifted = G0 + m.shift * np.eye(N)
    assert np.linalg.eigvalsh(shifted).min() > -1e-9
    every = np.arange(N)
    np.testing.assert_allclose(m.matvec(np.eye(N)), shifted, rtol=0, atol=1e-10)
    np.testing.assert_allclose(m.approximate(every[:, None], every), shifted, rtol=0, atol=1e-10)
    y = np.random.default_rng(0).normal(size=N)
    for method in ("woodbury", "cg", "minres"):
        alpha = m.solve(0.5, y, method=method)
        np.testing.assert_allclose(alpha, oracle.ridge(shifted, 0.5, y), rtol=0, atol=1e-5)
    np.testing.assert_allclose(m.eigh(3)[0], oracle.eigh(shifted, 3)[0], rtol=1e-8)
    assert m.error() == pytest.approx(oracle.relative_error(shifted, G), rel=1e-6)


# --- solving --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["woodbury", "cg", "minres"])
@pytest.mark.parametrize("lam", [0.03, 2.0])
def test_ridge_regression(method, lam):
    m = made().psd()
    rng = np.random.default_rng(0)
    y = np.sin(X @ rng.normal(size=(3, 2)))
    expected = oracle.ridge(dense(m), lam, y)
    close = {"rtol": 0, "atol": 1e-4 * abs(expected).max()}
    assert m.solve(lam, y, method=method).dtype == np.float64
    np.testing.assert_allclose(m.solve(lam, y, method=method), expected, **close)
    np.testing.assert_allclose(m.solve(lam, y[:, 0], method=method), expected[:, 0], **close)


@pytest.mark.parametrize("method", ["woodbury", "cg", "minres"])
def test_systems_of_a_large_condition_number(method):
    random = np.random.default_rng(0)
    points, y = random.uniform(size=(800, 2)), random.normal(size=800)
    m = made(points, kernels.Gaussian(bandwidth=0.3), 30, 4).psd()
    alpha = m.solve(1e-6, y, method=method)
    assert np.linalg.norm(m.matvec(alpha) + 1e-6 * alpha - y) < 2e-8 * np.linalg.norm(y)


@pytest.mark.parametrize("method", ["woodbury", "minres"])
def test_an_indefinite_system_has_a_solution_too(indefinite, method):
    lam = 0.5 * oracle.diagonal_shift(dense(indefinite))  # some eigenvalues stay below 0
    W, L = factors(indefinite)
    y = np.random.default_rng(0).normal(size=N)
    alpha = indefinite.solve(lam, y, method=method)
    system = lam * np.eye(N) + W @ L @ W.T
    assert np.linalg.norm(system @ alpha - y) < 1e-4 * np.linalg.norm(y)
    expected = oracle.woodbury(W, L, lam) @ y
    np.testing.assert_allclose(alpha, expected, rtol=0, atol=1e-3 * abs(expected).max())


# --- eigenvectors ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("which", ["as it is", "clipped"])
def test_eigenvectors(indefinite, which, dtype):
    m = made(dtype=dtype) if which == "as it is" else indefinite.psd()
    whole, close = dense(m), 1e-8 if m.basis(0).dtype == np.float64 else 1e-4
    values, vectors = m.eigh(8)
    assert (values.shape, vectors.shape) == ((8,), (N, 8))
    np.testing.assert_allclose(values, oracle.eigh(whole, 8)[0], rtol=0, atol=close)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), rtol=0, atol=close)
    np.testing.assert_allclose(whole @ vectors, vectors * values, rtol=0, atol=close * N)


def test_negative_eigenvalues_come_last(indefinite):
    values, vectors = indefinite.eigh(indefinite.rank)
    expected = np.sort(oracle.eigh(dense(indefinite), indefinite.rank)[0])[::-1]
    assert values.min() < 0.0
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-8)
    again = (vectors * values) @ vectors.T
    np.testing.assert_allclose(again, dense(indefinite), rtol=0, atol=1e-7)


# --- points never seen ----------------------------------------------------------------------


def padded(m, w):
    """Coordinates at their place among the sum of the ranks."""
    labels, short = w
    starts = np.concatenate([[0], np.cumsum(m.ranks)])
    W = np.zeros((len(labels), m.rank))
    for row, s, some in zip(W, labels, short, strict=True):
        row[starts[s] : starts[s + 1]] = some[: m.ranks[s]]
        assert not some[m.ranks[s] :].any()
    return W


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("columns", ["cluster", "row"])
@pytest.mark.parametrize(("dtype", "close"), [("float64", 1e-12), ("float32", 1e-7)])
def test_the_points_themselves_have_the_rows_of_w(basis, columns, dtype, close):
    m = made(basis=basis, columns=columns, dtype=dtype, rank_rule="spectrum")
    labels, w = m.coordinates(X)
    assert w.shape == (N, m.ranks.max())
    np.testing.assert_array_equal(labels, m.labels)
    np.testing.assert_allclose(padded(m, (labels, w)), factors(m)[0], rtol=0, atol=close)


def test_predictions_are_the_approximate_kernel_times_the_coefficients(indefinite):
    m, rng = indefinite, np.random.default_rng(1)
    W, L = factors(m)
    alpha, new = rng.normal(size=(N, 2)), clouds((40,) * 5, seed=0)[:70]
    beta = m.weights(alpha)
    np.testing.assert_allclose(beta, L @ W.T @ alpha, rtol=0, atol=1e-9)
    np.testing.assert_allclose(m.predict(X, beta), m.matvec(alpha), rtol=0, atol=1e-5)
    labels, w = m.coordinates(new)
    np.testing.assert_array_equal(labels, oracle.nearest(new, m.centers))
    expected = [oracle.predict(x, L, W, alpha) for x in padded(m, (labels, w))]
    np.testing.assert_allclose(m.predict(new, beta), expected, rtol=0, atol=1e-9)
    one = m.predict(new, m.weights(alpha[:, 0]))
    np.testing.assert_allclose(np.ravel(one), np.array(expected)[:, 0], rtol=0, atol=1e-9)


def test_features_have_the_clipped_approximation_as_products(indefinite):
    Phi = indefinite.features(X)
    assert (Phi.shape, Phi.dtype) == ((N, indefinite.rank), np.float64)
    np.testing.assert_allclose(Phi @ Phi.T, dense(indefinite.psd()), rtol=0, atol=1e-5)
    new = clouds((40,) * 5, seed=0)[:70]
    W, L = padded(indefinite, indefinite.coordinates(new)), factors(indefinite)[1]
    Phi = indefinite.features(new)
    np.testing.assert_allclose(Phi @ Phi.T, W @ oracle.clipped(L) @ W.T, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(indefinite.psd("shift").features(new), Phi)


def test_the_approximate_kernel_between_new_points(indefinite):
    new, others = X[:40] + 0.1, X[50:80] - 0.1
    W, L = padded(indefinite, indefinite.coordinates(new)), factors(indefinite)[1]
    V = padded(indefinite, indefinite.coordinates(others))
    close = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(indefinite.pairwise(new, others), W @ L @ V.T, **close)
    np.testing.assert_allclose(indefinite.pairwise(new), W @ L @ W.T, **close)


def test_what_new_points_need_is_enough_for_them(model):
    new, beta = X[:40] + 0.1, model.weights(np.cos(X))
    small = model.compact()
    for one in (small, Meka.from_state(small.state())):
        np.testing.assert_array_equal(one.predict(new, beta), model.predict(new, beta))
        np.testing.assert_array_equal(one.features(new), model.features(new))
        np.testing.assert_array_equal(one.coordinates(new)[1], model.coordinates(new)[1])
        assert (one.n, one.rank, one.n_clusters) == (0, model.rank, C)


@pytest.mark.parametrize("p", [(), (2,)])
def test_a_predictor_keeps_what_one_prediction_needs(model, p):
    new, beta = X[:40] + 0.1, model.weights(np.cos(X[:, :2] if p else X[:, 0]))
    predictor = model.predictor(beta)
    np.testing.assert_array_equal(predictor(new), model.predict(new, beta))
    assert predictor(new[:0]).shape == model.predict(new[:0], beta).shape == (0, *p)
    assert len(pickle.dumps(predictor)) < len(pickle.dumps(model.compact()))


def test_what_new_points_do_not_need_is_let_go():
    m = made()
    W, small = weakref.ref(m.basis(0).base), m.compact()
    assert W().nbytes == 8 * N * K
    del m
    gc.collect()
    assert W() is None
    assert small.n == 0


# --- bit for bit ----------------------------------------------------------------------------


def everything(m):
    """All that can be asked of it."""
    new, y = X[:50] + 0.1, np.cos(X)
    found = [m.labels, m.centers, m.ranks, m.links, m.points]
    found += [m.basis(s) for s in range(m.n_clusters)]
    found += [m.link(s, t) for s, t in itertools.product(range(m.n_clusters), repeat=2)]
    found += [m.matvec(y[:, 0]), m.matvec(y), m.solve(0.1, y), *m.eigh(3), *m.coordinates(new)]
    return [*found, m.predict(new, m.weights(y)), m.features(new), m.shift, m.error()]


def bit_equal(a, b):
    pairs = zip(everything(a), everything(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("basis", BASES)
def test_it_comes_back_from_its_state(basis, dtype):
    m = made(basis=basis, dtype=dtype, threshold=1e-4, rank_rule="size")
    for one in (m, m.psd("shift")):
        state = one.state()
        again = Meka.from_state(State(json.loads(json.dumps(state.header)), dict(state.arrays)))
        assert bit_equal(again, one)
        assert (again.nbytes, again.map_nbytes) == (one.nbytes, one.map_nbytes)


@pytest.mark.parametrize(
    ("basis", "columns"), [("uniform", "row"), *((b, "cluster") for b in BASES)]
)
@pytest.mark.usefixtures("many_threads")
def test_the_seed_decides_and_not_the_threads(basis, columns):
    first = made(basis=basis, columns=columns, seed=1, threads=1)
    assert bit_equal(first, made(basis=basis, columns=columns, seed=1, threads=2))
    assert not bit_equal(first, made(basis=basis, columns=columns, seed=2))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_point_is_the_same_in_any_batch(dtype):
    m, new = made(dtype=dtype), X + 0.1
    beta = m.weights(np.cos(X))
    calls = (m.features, lambda Y: m.coordinates(Y)[1], lambda Y: m.predict(Y, beta))
    for call in calls:
        alone = np.vstack([call(x[None]) for x in new])
        np.testing.assert_array_equal(alone, call(new))
        np.testing.assert_array_equal(call(new[::-3]), call(new)[::-3])


def test_rows_are_drawn_until_they_see_every_direction():
    """One that few points have is missed by few rows, and a link may then say anything of it."""
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(2_000, 12)) * rng.pareto(0.7, size=(2_000, 1)))[0]
    for seed in range(20):
        random = np.random.Generator(np.random.Philox(seed))
        found = sample(W, W, "leverage", 13, random)
        assert np.linalg.norm(found.inverse @ found.points - np.eye(12)) < 1e-9
        assert len(found.points) > 13
        # What is no part of the basis comes in by little: the inverse of .4 at most, times weights.
        assert np.linalg.norm(found.inverse, 2) < 2.5 * np.sqrt(2_000 * 2)
