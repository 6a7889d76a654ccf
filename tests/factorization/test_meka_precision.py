"""MEKA where a spectrum is steep or the rank is large: precision, memory, definiteness."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from meka_kit import EVERY, clouds, dense

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.factorization import meka, solving
from streamk.factorization.blocks import BlockDiagonal, LinkMatrix

X = clouds((150, 200, 250))
N = len(X)
STEEP = [
    kernels.Gaussian(bandwidth=3.0),
    kernels.Gaussian(bandwidth=100.0),
    kernels.Cauchy(bandwidth=5.0),
    kernels.Matern(nu=2.5, bandwidth=6.0),
]
"""Their eigenvalues fall below rounding within the rank."""


def made(kernel, points=X, rank=60, n_clusters=3, dtype="float64", **options):
    return meka(points, kernel, rank=rank, n_clusters=n_clusters, dtype=dtype, **options)


def oblique(m):
    """How far the columns of its bases are from orthonormal ones."""
    return max(
        abs(m.basis(s).T @ m.basis(s) - np.eye(k)).max() for s, k in enumerate(m.ranks.tolist())
    )


@pytest.mark.parametrize("kernel", STEEP)
@pytest.mark.parametrize("columns", ["cluster", "row"])
@pytest.mark.parametrize("basis", ["uniform", "oasis"])
def test_a_basis_is_orthonormal_however_steep_the_spectrum(kernel, columns, basis):
    m = made(kernel, columns=columns, basis=basis)
    assert oblique(m) < 1.001e-6
    single = made(kernel, columns=columns, basis=basis, dtype="float32")
    assert oblique(single) < 3e-6


def poor(dtype="float64", **options):
    """Links of few samples, which make negative eigenvalues."""
    few = {"rank": 8, "link_samples": 0.2, "sampling": "uniform", **options}
    return made(kernels.Gaussian(bandwidth=1.0), dtype=dtype, **few)


@pytest.mark.parametrize("kernel", STEEP[1:3])
@pytest.mark.parametrize("columns", ["cluster", "row"])
def test_what_is_made_orthonormal_is_the_same_approximation(monkeypatch, kernel, columns):
    """W R^-1 with R L R^T, and a map that new points agree with as far as it can be computed."""
    monkeypatch.setitem(meka.__globals__, "_ORTHONORMAL", np.inf)
    before = made(kernel, columns=columns, **EVERY)
    monkeypatch.setitem(meka.__globals__, "_ORTHONORMAL", 0.0)
    m = made(kernel, columns=columns, **EVERY)
    assert oblique(m) < 1e-13
    np.testing.assert_allclose(dense(m), dense(before), rtol=0, atol=1e-8)
    assert m.error() <= before.error() * 1.001
    labels, w = m.coordinates(X)
    for s, k in enumerate(m.ranks.tolist()):
        np.testing.assert_allclose(w[labels == s, :k], m.basis(s), rtol=0, atol=1e-5)


@pytest.mark.parametrize("columns", ["cluster", "row"])
def test_making_it_takes_little_more_memory_than_it_has(columns):
    random = np.random.default_rng(0)
    points = random.normal(size=(14_000, 3))
    options = {"rank": 64, "n_clusters": 10, "columns": columns, "dtype": "float32"}
    made(kernels.Gaussian(bandwidth=0.5), points[:200], **{**options, "rank": 2})
    tracemalloc.start()
    m = made(kernels.Gaussian(bandwidth=0.5), points, **options)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Maps keep no directions that were left out; of links and factors, one is there at a time.
    assert held < 1.1 * (m.nbytes + m.map_nbytes) + 24 * len(points)
    assert peak < 2.5 * m.nbytes


# --- weights of points ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["woodbury", "cg", "minres"])
@pytest.mark.parametrize("psd", ["clip", "shift"])
def test_weights_are_those_of_a_dense_solve(method, psd):
    m, y, lam = poor().psd(psd), np.cos(X), 0.05
    assert (m.shift > 0.0) == (psd == "shift")
    weights = np.random.default_rng(0).exponential(size=N) ** 2
    weights[::11] = 0.0
    G = dense(m) + m.shift * np.eye(N)
    expected = np.linalg.solve(lam * np.eye(N) + weights[:, None] * G, weights[:, None] * y)
    for p in (y, y[:, 0]):
        found = m.solve(lam, p, weights=weights, method=method)
        wanted = expected if p.ndim == 2 else expected[:, 0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert not found[::11].any()


@pytest.mark.parametrize("method", ["woodbury", "minres"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_weights_are_exact_in_any_precision(dtype, method):
    m, y, lam = made(kernels.Gaussian(bandwidth=1.0), dtype=dtype).psd(), np.cos(X[:, 0]), 1e-5
    roots = np.exp(np.random.default_rng(0).normal(size=N))
    found = m.solve(lam, y, weights=roots**2, method=method)
    missed = roots * (m.matvec(found) - y) + lam * found / roots
    assert np.linalg.norm(missed) < 1e-7 * np.linalg.norm(roots * y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_weights_are_of_definiteness_too(dtype):
    m = poor(dtype=dtype)
    weights = np.random.default_rng(0).uniform(size=N)
    root = np.sqrt(weights)
    smallest = np.linalg.eigvalsh(root[:, None] * dense(m) * root)[0]
    assert smallest < 0.0
    for share in (0.5, 0.99, 1.01, 2.0):
        assert m.is_definite(-share * smallest, weights=weights) == (share > 1.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(N - 1), str(N)),
        (np.ones((N, 1)), str(N)),
        (np.full(N, np.nan), "weights has the value nan in row 0"),
        (-np.ones(N), "at least 0"),
        (np.zeros(N), "weights is zero"),
        (["a"] * N, "numbers"),
    ],
)
def test_weights_that_cannot_be(weights, words):
    m = poor()
    for call in (
        lambda: m.solve(1.0, np.ones(N), weights=weights),
        lambda: m.is_definite(1.0, weights=weights),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()


# --- whether it is definite, where the rank is large ----------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Any rank is one beyond that of dense matrices, which nothing makes."""
    monkeypatch.setattr(solving, "_SMALL", 0)

    def dense_links(*_):
        raise AssertionError("a dense matrix of the rank")

    monkeypatch.setattr(LinkMatrix, "dense", dense_links)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("threshold", [0.0, 1e-3])
def test_large_ranks_are_definite_where_small_ones_are(dtype, threshold):
    m = poor(dtype=dtype, threshold=threshold)
    smallest = np.linalg.eigvalsh(dense(m))[0]
    for share in (1e-3, 0.5, 0.999, 1.001, 2.0, 100.0):
        assert m.is_definite(-share * smallest) == (share > 1.0)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("shift", [1e-3, 10.0])
def test_a_shift_counts(shift):
    m = poor()
    smallest = np.linalg.eigvalsh(dense(m))[0]
    shifted = replace(m, shift=shift)
    for lam in (0.1, 1.0, 10.0):
        assert shifted.is_definite(lam) == (smallest + shift + lam > 0.0)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("part", [0.1, 1e-4, 1e-7])
def test_a_direction_that_the_random_vector_hardly_has_is_seen(part):
    b = np.random.Generator(np.random.Philox(0)).normal(size=50)
    across = np.eye(50)[0] - b[0] * b / (b @ b)
    v = part * b / np.linalg.norm(b) + np.sqrt(1.0 - part**2) * across / np.linalg.norm(across)
    W = BlockDiagonal(np.eye(50).reshape(-1), [np.arange(50)], [50])
    for smallest in (-1.01, -0.99):
        L = LinkMatrix((np.eye(50) + (smallest - 1.0) * np.outer(v, v)).reshape(-1), [[0, 0]], [50])
        assert solving.definite(W, L, 1.0) == (smallest > -1.0)


@pytest.mark.usefixtures("large")
def test_what_steps_do_not_tell_is_not_definite(monkeypatch):
    m = poor()
    lam = -1.01 * np.linalg.eigvalsh(dense(m))[0]
    assert m.is_definite(lam)
    monkeypatch.setattr(solving, "_ITERATIONS", 3)
    assert not m.is_definite(lam)


@pytest.mark.usefixtures("large")
def test_conjugate_gradients_of_a_large_rank():
    m, y = poor(), np.cos(X)
    values = np.linalg.eigvalsh(dense(m))
    with pytest.raises(InvalidInput, match="minres"):
        m.solve(-0.5 * values[0], y, method="cg")
    lam = -2.0 * values[0]
    expected = np.linalg.solve(lam * np.eye(N) + dense(m), y)
    np.testing.assert_allclose(m.solve(lam, y, method="cg"), expected, rtol=0, atol=1e-5)
