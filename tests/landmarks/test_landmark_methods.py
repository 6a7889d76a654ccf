"""Rivals of oASIS: uniform, k-means, leverage scores, Farahat's and randomly pivoted Cholesky."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from reference import landmarks as oracle
from scipy import sparse, stats

from benchmarks.oasis import farahat
from streamk import landmarks
from streamk.errors import BackendUnavailable, InvalidInput
from streamk.kernels import Gaussian, Laplacian, Linear, Matern
from streamk.landmarks import (
    Diffusion,
    Landmarks,
    block_rpcholesky,
    k_means,
    leverage_scores,
    rpcholesky,
    uniform,
)
from streamk.landmarks.matrices import GivenMatrix

METHODS = landmarks.METHODS
Method = Callable[..., Landmarks]
OF_ROWS = {name: method for name, method in METHODS.items() if name != "k-means"}
of_all = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
of_rows = pytest.mark.parametrize("method", OF_ROWS.values(), ids=OF_ROWS)


def moons(n: int = 300, seed: int = 0) -> Any:
    return oracle.two_moons(n, np.random.default_rng(seed))


def error(found: Landmarks, K: Any) -> float:
    return oracle.relative_error(found.factor @ found.factor.T, K)


# All of them


@of_rows
def test_the_approximation_is_nystroms(method: Method) -> None:
    X, kernel = moons(), Gaussian(bandwidth=0.5)
    K = kernel.pairwise(X)
    found = method(X, kernel, max_landmarks=25)
    assert found.indices is not None
    assert len(set(found.indices.tolist())) == len(found) == 25
    assert np.allclose(found.factor @ found.factor.T, oracle.nystrom(K, found.indices), atol=1e-8)
    assert found.stopped == "count"
    used = found.indices[found.used].tolist()
    expected = [oracle.schur_complement(K, used[:t], i) for t, i in enumerate(used)]
    assert found.schur == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_centers_of_clusters_are_landmarks() -> None:
    X, kernel = moons(), Gaussian(bandwidth=0.5)
    found = k_means(X, kernel, max_landmarks=25)
    assert found.indices is None
    assert found.points is not None
    C, W = kernel.pairwise(X, found.points), kernel.pairwise(found.points)
    expected = C @ np.linalg.pinv(W, rcond=1e-13, hermitian=True) @ C.T
    assert np.allclose(found.factor @ found.factor.T, expected, atol=1e-8)
    spread = ((X[:, None] - found.points) ** 2).sum(axis=2).min(axis=1).mean()
    rows = X[uniform(X, kernel, max_landmarks=25).indices]
    assert spread < 0.5 * ((X[:, None] - rows) ** 2).sum(axis=2).min(axis=1).mean()


def test_centers_of_clusters_in_a_diffusion_kernel() -> None:
    X, kernel = moons(), Gaussian(bandwidth=0.5)
    found = k_means(X, Diffusion(kernel), max_landmarks=25)
    Z = found.points
    assert Z is not None
    assert Z.shape == (25, 2)
    sums = kernel.pairwise(X).sum(axis=1), kernel.pairwise(Z, X).sum(axis=1)
    C = kernel.pairwise(X, Z) / np.sqrt(np.outer(*sums))
    W = kernel.pairwise(Z) / np.sqrt(np.outer(sums[1], sums[1]))
    expected = C @ np.linalg.pinv(W, rcond=1e-13, hermitian=True) @ C.T
    assert np.allclose(found.C, C, atol=1e-12)
    assert np.allclose(found.factor @ found.factor.T, expected, atol=1e-8)
    assert np.array_equal(found.transform(X), found.factor)


@of_all
def test_a_matrix_of_rank_r_is_recovered(method: Method) -> None:
    X = np.random.default_rng(0).normal(size=(200, 6))
    found = method(X, Linear(), max_landmarks=12)
    assert found.rank == 6
    assert error(found, X @ X.T) < 1e-12
    if method in (landmarks.oasis, rpcholesky, block_rpcholesky):  # which adapt: in r steps
        assert (len(found), found.stopped) == (6, "rounding")


@of_rows
def test_duplicates_add_nothing(method: Method) -> None:
    X, kernel = np.repeat(moons(15), 4, axis=0), Laplacian(bandwidth=1.0)
    found = method(X, kernel, max_landmarks=60)
    assert found.rank == 15
    assert found.indices is not None
    assert len(set((found.indices[found.used] // 4).tolist())) == 15
    assert error(found, kernel.pairwise(X)) < 1e-12


@of_rows
def test_a_given_matrix_dense_or_sparse(method: Method) -> None:
    X, kernel = moons(120), Gaussian(bandwidth=0.3)
    K = kernel.pairwise(X)
    of_points = method(X, kernel, max_landmarks=10)
    of_matrix = method(K, "precomputed", max_landmarks=10)
    assert np.array_equal(of_matrix.indices, of_points.indices)
    block = sparse.block_diag([K[:60, :60], K[60:, 60:]], format="csr")
    of_dense = method(block.toarray(), "precomputed", max_landmarks=10)
    for made in (sparse.csr_matrix, sparse.csr_array):
        of_sparse = method(made(block), "precomputed", max_landmarks=10)
        assert np.array_equal(of_sparse.indices, of_dense.indices)


@of_rows
def test_a_diffusion_kernel(method: Method) -> None:
    X, kernel = moons(120), Gaussian(bandwidth=0.3)
    M = oracle.diffusion_matrix(kernel.pairwise(X))
    found = method(X, Diffusion(kernel), max_landmarks=10)
    assert np.array_equal(found.indices, method(M, "precomputed", max_landmarks=10).indices)
    assert np.allclose(found.factor @ found.factor.T, oracle.nystrom(M, found.indices), atol=1e-8)


@of_all
def test_a_factor_in_single_precision(method: Method) -> None:
    X, kernel = moons(), Gaussian(bandwidth=0.3)
    K = kernel.pairwise(X)
    found = method(X, kernel, max_landmarks=60, dtype="float32")
    assert found.factor.dtype == np.float32
    assert error(found, K) < 1.1 * error(method(X, kernel, max_landmarks=60), K) + 1e-4


@of_all
def test_the_seed_decides(method: Method) -> None:
    X, kernel = moons(), Gaussian(bandwidth=0.5)

    def points(**options: Any) -> Any:
        return method(X, kernel, max_landmarks=10, **options).points

    assert np.array_equal(points(seed=1), points(seed=1))
    assert np.array_equal(points(seed=1), points(seed=1, threads=1))
    assert not np.array_equal(points(seed=1), points(seed=2))


# Farahat


@pytest.mark.parametrize("kernel", [Gaussian(bandwidth=0.3), Matern(nu=0.5)])
def test_farahat_chooses_what_the_paper_does(kernel: Any) -> None:
    X = moons(150)
    expected, gains = oracle.farahat(kernel.pairwise(X), 80)
    # Beyond that rounding decides, in the oracle's residuals too.
    decided = int(np.sum(np.array(gains) > 1e-8 * gains[0]))
    found = farahat(X, kernel, max_landmarks=80)
    assert found.indices is not None
    assert found.indices.tolist()[:decided] == expected[:decided]
    assert decided >= 25


# Randomly pivoted Cholesky


class Uniforms:
    """The numbers from [0, 1) that the blocks take, in the oracle's order."""

    def __init__(self, seed: int, block_size: int) -> None:
        self.random = np.random.Generator(np.random.Philox(seed))
        self.block_size = block_size

    def drawing(self) -> Iterator[float]:
        while True:
            draws, _ = self.random.random((2, self.block_size))
            yield from draws


@pytest.mark.parametrize("kernel", [Gaussian(bandwidth=0.3), Matern(nu=0.5)])
@pytest.mark.parametrize("seed", [0, 2])
def test_rpcholesky_draws_as_the_oracle(kernel: Any, seed: int) -> None:
    X = moons(100)
    expected = oracle.rpcholesky(kernel.pairwise(X), 20, Uniforms(seed, 1).drawing())
    found = rpcholesky(X, kernel, max_landmarks=20, seed=seed)
    assert found.indices is not None
    assert found.indices.tolist() == expected


def test_a_block_of_one_is_the_plain_algorithm() -> None:
    X, kernel = moons(), Gaussian(bandwidth=0.5)
    one = block_rpcholesky(X, kernel, max_landmarks=20, block_size=1, seed=4)
    assert np.array_equal(one.indices, rpcholesky(X, kernel, max_landmarks=20, seed=4).indices)


SMALL = np.array(
    [[2.0, 1.2, 0.1, 0.0], [1.2, 1.0, 0.3, 0.2], [0.1, 0.3, 0.8, -0.5], [0.0, 0.2, -0.5, 1.5]]
)


def law_of_pivots(count: int) -> dict[tuple[int, ...], float]:
    """The probability of each sequence of pivots, from the residuals' diagonals."""
    law = {}
    for sequence in permutations(range(len(SMALL)), count):
        E, probability = SMALL, 1.0
        for i in sequence:
            probability *= E[i, i] / np.trace(E)
            E = oracle.without(E, i)
        law[sequence] = probability
    return law


def law_of_draws(weights: Any, count: int) -> dict[tuple[int, ...], float]:
    """The probability of each sequence of draws without replacement in proportion to weights."""
    law = {}
    for sequence in permutations(range(len(weights)), count):
        left, probability = 1.0, 1.0
        for i in sequence:
            probability *= weights[i] / left
            left -= weights[i]
        law[sequence] = probability
    return law


def assert_law(law: dict[tuple[int, ...], float], draw: Callable[[int], Landmarks]) -> None:
    times = 1000
    seen: Counter[tuple[int, ...]] = Counter()
    for seed in range(times):
        found = draw(seed)
        assert found.indices is not None
        seen[tuple(found.indices.tolist())] += 1
    assert sum(law.values()) == pytest.approx(1.0)
    assert seen.keys() <= law.keys()
    sequences = list(law)
    expected = [times * law[sequence] for sequence in sequences]
    observed = [seen[sequence] for sequence in sequences]
    assert min(expected) > 2
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("block_size", [2, 16])
def test_blocks_of_any_size_have_the_same_law(block_size: int | None) -> None:
    assert_law(
        law_of_pivots(3),
        lambda seed: block_rpcholesky(
            SMALL, "precomputed", max_landmarks=3, block_size=block_size, seed=seed, threads=1
        ),
    )


@pytest.mark.slow
def test_the_law_of_leverage_scores() -> None:
    rank = 2
    scores = oracle.leverage_scores(SMALL, rank)
    assert_law(
        law_of_draws(scores / scores.sum(), 3),
        lambda seed: leverage_scores(SMALL, "precomputed", max_landmarks=3, rank=rank, seed=seed),
    )


def test_blocks_of_any_size_stop_where_only_rounding_is_left() -> None:
    X, kernel = moons(), Gaussian(gamma=0.05)
    for block_size in (1, 7, None):
        found = block_rpcholesky(X, kernel, max_landmarks=200, block_size=block_size)
        assert found.stopped == "rounding"
        assert error(found, kernel.pairwise(X)) < 1e-12


# What they refuse


@of_all
def test_bad_arguments(method: Method) -> None:
    X = moons(30)
    for count in (0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="max_landmarks="):
            method(X, Gaussian(), max_landmarks=count)
    with pytest.raises(InvalidInput, match="row 3, column 1"):
        method(np.where(np.arange(60).reshape(30, 2) == 7, np.nan, X), Gaussian(), max_landmarks=5)
    with pytest.raises(InvalidInput, match="dtype"):
        method(X, Gaussian(), max_landmarks=5, dtype="float16")
    for threads in (0, -1, 1.5, "a", True):
        with pytest.raises(InvalidInput, match=f"threads={threads!r} must be a whole number"):
            method(X, Gaussian(), max_landmarks=5, threads=threads)
    far = np.where(np.arange(60).reshape(30, 2) == 7, 1e99, X)
    for kernel in (Gaussian(), *([Diffusion(Gaussian())] if method != k_means else [])):
        with pytest.raises(InvalidInput, match="column 1 is beyond the range of float32"):
            method(far, kernel, max_landmarks=5, dtype="float32")
    with pytest.raises(InvalidInput, match="kernel='gaussian'"):
        method(X, "gaussian", max_landmarks=5)
    with pytest.raises(InvalidInput, match=r"Diffusion\(kernel='gaussian'\) must be of a streamk"):
        method(X, Diffusion("gaussian"), max_landmarks=5)  # type: ignore[arg-type]
    for seed in (-1, 0.5, None):
        with pytest.raises(InvalidInput, match="seed="):
            method(X, Gaussian(), max_landmarks=5, seed=seed)


@of_all
@pytest.mark.parametrize(
    ("X", "says"),
    [
        ([["a", "b"]], "X must be an array of numbers: could not convert string to float: 'a'"),
        ([[1.0, 2.0], [3.0]], "X must be an array of numbers"),
        (np.array([[1.0 + 2.0j]]), "X is complex"),
        (sparse.csr_array(np.eye(3)), r"X is sparse.*toarray\(\)"),
        (np.zeros((4, 0)), "X has no columns"),
        (np.zeros((0, 4)), "X has no points"),
    ],
)
def test_points_that_cannot_be(method: Method, X: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        method(X, Gaussian(), max_landmarks=2)


@pytest.mark.parametrize(
    ("method", "points", "seed"), [(rpcholesky, 1, 1), (block_rpcholesky, 2, 6)]
)
def test_rounding_in_single_precision_is_not_taken_for_a_negative_eigenvalue(
    method: Method, points: int, seed: int
) -> None:
    """Pivots near rounding, among points that are close, spoil rows that are far from them."""
    X = np.random.default_rng(points).standard_t(3, size=(3000, 3))
    found = method(X, Gaussian(bandwidth=30.0), max_landmarks=100, seed=seed, dtype="float32")
    assert found.stopped == "rounding"


@of_rows
def test_a_small_negative_eigenvalue_is_found_in_single_precision(
    method: Method,
) -> None:
    random = np.random.default_rng(0)
    v = random.normal(size=400)
    K = Gaussian(bandwidth=1.0).pairwise(random.normal(size=(400, 2)))
    G = K - 5e-4 * np.outer(v, v)
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        method(G, "precomputed", max_landmarks=200, dtype="float32")


@of_all
def test_a_matrix_of_zeros_has_no_landmarks(method: Method) -> None:
    found = method(np.zeros((5, 2)), Linear(), max_landmarks=3)
    assert found.factor.shape == (5, 0)
    assert found.W_inverse.shape == (len(found), len(found))


def test_a_matrix_that_is_too_large_is_not_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"whole matrix, which would take 10\.1 GiB .*oasis"):
        leverage_scores(np.zeros((36_800, 1)), Gaussian(), max_landmarks=3)
    monkeypatch.setattr(sys.modules["streamk.landmarks.methods"], "LIMIT", 8 * 30**2)
    assert len(leverage_scores(moons(30), Gaussian(), max_landmarks=3)) == 3
    with pytest.raises(InvalidInput, match="whole matrix"):
        leverage_scores(moons(31), Gaussian(), max_landmarks=3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kernel", [Gaussian(), Diffusion(Gaussian()), "precomputed"])
def test_a_whole_matrix_takes_the_memory_that_is_stated(kernel: Any) -> None:
    n = 1500
    X = sparse.eye_array(n, format="csr") if kernel == "precomputed" else moons(n)
    leverage_scores(X, kernel, max_landmarks=3)  # what is compiled and imported is not counted
    tracemalloc.start()
    try:
        leverage_scores(X, kernel, max_landmarks=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.6 * 8 * n**2  # a few rows at a time besides


@of_rows
def test_a_landmark_of_a_given_matrix_is_checked_once(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    monkeypatch.setattr(GivenMatrix, "_check_symmetry", lambda _, i, __: checked.append(int(i)))
    K = Gaussian(bandwidth=0.5).pairwise(moons(50))
    found = method(K, "precomputed", max_landmarks=5)
    assert found.indices is not None
    assert checked == found.indices.tolist()


def test_a_given_matrix_is_not_written_to() -> None:
    K = Gaussian(bandwidth=0.5).pairwise(moons(50))
    before = K.copy()
    for method in OF_ROWS.values():
        method(K, "precomputed", max_landmarks=5)
    assert np.array_equal(K, before)


def test_options_of_one_method() -> None:
    X = moons(30)
    with pytest.raises(InvalidInput, match="block_size=0"):
        block_rpcholesky(X, Gaussian(), max_landmarks=5, block_size=0)
    with pytest.raises(InvalidInput, match="rank=0"):
        leverage_scores(X, Gaussian(), max_landmarks=5, rank=0)
    with pytest.raises(InvalidInput, match="needs points"):
        k_means(np.eye(3), "precomputed", max_landmarks=2)


def test_k_means_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'streamk\[sklearn\]'"):
        k_means(moons(30), Gaussian(), max_landmarks=2)
