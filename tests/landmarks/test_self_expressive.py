"""SEED: exact recovery, codes against a plain pursuit, clusters, noise and classes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.errors import BackendUnavailable, InvalidInput
from streamk.landmarks import SelfExpressive, self_expressive

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'streamk[sklearn]'")

Matrix = NDArray[np.float64]


def subspaces(
    *, dimensions: tuple[int, ...] = (3, 4, 2), columns: int = 30, points: int = 60, seed: int = 0
) -> tuple[Matrix, NDArray[np.int64]]:
    """Points of several lengths on independent subspaces, shuffled, and whose they are."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(points, d)) @ rng.normal(size=(d, columns)) for d in dimensions]
    lengths = np.exp(0.7 * rng.normal(size=(points * len(parts), 1)))
    order = rng.permutation(len(lengths))
    return (np.concatenate(parts) * lengths)[order], np.repeat(range(len(parts)), points)[order]


def same_partition(found: NDArray[np.int64], truth: NDArray[np.int64]) -> bool:
    pairs = set(zip(found.tolist(), truth.tolist(), strict=True))
    return len(pairs) == len(set(found.tolist())) == len(set(truth.tolist()))


def plain_pursuit(dictionary: Matrix, y: Matrix, sparsity: int, error: float) -> Matrix:
    """Orthogonal matching pursuit as it is stated, with a least-squares fit at every step."""
    code, chosen, left = np.zeros(len(dictionary)), [], y
    while len(chosen) < sparsity and np.linalg.norm(left) > max(error, 1e-9) * np.linalg.norm(y):
        chosen.append(int(np.argmax(np.abs(dictionary @ left))))
        code[chosen], *_ = np.linalg.lstsq(dictionary[chosen].T, y, rcond=None)
        left = y - code @ dictionary
    return code


X, LABELS = subspaces()
RANK = 9


@pytest.fixture(scope="module")
def seed() -> SelfExpressive:
    return self_expressive(X, max_landmarks=20, sparsity=RANK, error=0.0)


def test_as_many_landmarks_as_the_rank_recover_the_points(seed: SelfExpressive) -> None:
    assert len(seed.indices) == RANK
    assert np.linalg.matrix_rank(X[seed.indices]) == RANK
    np.testing.assert_allclose(seed.project(X), X, atol=1e-12 * np.abs(X).max())
    np.testing.assert_allclose(seed.reconstruct(), X, atol=1e-12 * np.abs(X).max())


def test_the_schur_complement_is_a_squared_distance(seed: SelfExpressive) -> None:
    for k in (1, 4, RANK - 1):
        basis, _ = np.linalg.qr(X[seed.indices[:k]].T)
        x = X[seed.indices[k]]
        assert seed.schur[k] == pytest.approx(np.sum((x - basis @ (basis.T @ x)) ** 2))


def test_tol_stops_at_a_distance() -> None:
    rng = np.random.default_rng(1)
    noisy = X + 0.01 * rng.normal(size=X.shape)
    chosen = self_expressive(noisy, max_landmarks=25, tol=0.2**2)
    assert len(chosen.indices) == RANK
    assert np.linalg.norm(noisy - chosen.project(noisy), axis=1).max() <= 0.2


@pytest.mark.parametrize(("sparsity", "error"), [(3, 0.0), (10, 0.2), (4, 0.05), (30, 1e-3)])
def test_codes_are_those_of_a_plain_pursuit(sparsity: int, error: float) -> None:
    noisy = X + 0.05 * np.random.default_rng(2).normal(size=X.shape)
    found = self_expressive(noisy, max_landmarks=30, sparsity=sparsity, error=error)
    plain = [plain_pursuit(found.dictionary, x, sparsity, error) for x in noisy]
    np.testing.assert_allclose(found.codes.toarray(), plain, atol=1e-7)
    counts = np.diff(found.codes.indptr)
    assert counts.max() <= sparsity
    left = np.linalg.norm(noisy - found.reconstruct(), axis=1)
    short = counts < min(sparsity, len(found.indices))
    assert (left[short] <= (error + 1e-9) * np.linalg.norm(noisy, axis=1)[short]).all()


def test_a_landmark_is_its_own_code(seed: SelfExpressive) -> None:
    codes = seed.codes.toarray()[seed.indices]
    lengths = np.linalg.norm(X[seed.indices], axis=1)
    np.testing.assert_allclose(codes, np.diag(lengths), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(seed.dictionary, axis=1), 1.0)


def test_clusters_are_the_subspaces(seed: SelfExpressive) -> None:
    labels = seed.cluster(3)
    assert labels.dtype == np.int64
    assert same_partition(labels, LABELS)
    assert np.array_equal(labels, seed.cluster(3))
    noisy = X + 0.05 * np.random.default_rng(3).normal(size=X.shape)
    found = self_expressive(noisy, max_landmarks=12, sparsity=4).cluster(3)
    shares = [np.bincount(LABELS[found == c]).max() for c in range(3)]
    assert sum(shares) >= 0.97 * len(X)


def test_affinity_is_what_scikit_learn_clusters_alike(seed: SelfExpressive) -> None:
    from sklearn.cluster import SpectralClustering

    A = seed.affinity()
    assert A.shape == (len(X), len(X))
    assert A.toarray().min() >= 0
    assert A.toarray().max() <= 1 + 1e-12
    np.testing.assert_allclose(A.diagonal(), 1.0)
    np.testing.assert_array_equal(A.toarray(), A.toarray().T)
    assert A.toarray()[LABELS[:, None] != LABELS].max() < 1e-12
    connected = A.toarray() + 1e-6  # scikit-learn warns of a graph in parts, which is the truth
    labels = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(connected)
    assert same_partition(labels, seed.cluster(3))


def test_other_points_are_classified_by_their_residual(seed: SelfExpressive) -> None:
    rng = np.random.default_rng(5)
    names = np.array(["plane", "space", "line"])
    Y = np.concatenate([rng.normal(size=(20, 12)) @ X[c == LABELS][:12] for c in range(3)])
    noisy = Y + 0.05 * np.abs(Y).mean() * rng.normal(size=Y.shape)
    found = seed.classify(noisy, names[LABELS])
    assert (found == np.repeat(names, 20)).mean() >= 0.97
    assert (seed.classify(Y, names[LABELS]) == np.repeat(names, 20)).all()
    assert (seed.classify(X, LABELS) == LABELS).all()
    assert seed.classify(np.zeros((1, 30)), LABELS).tolist() == [0]


def test_codes_do_not_depend_on_the_batch(seed: SelfExpressive) -> None:
    Y = np.random.default_rng(6).normal(size=(1500, 30))
    whole = seed.encode(Y).toarray()
    for rows in (slice(0, 1), slice(7, 40), slice(900, 1400)):
        assert np.array_equal(seed.encode(Y[rows]).toarray(), whole[rows])
        assert np.array_equal(seed.reconstruct(Y[rows]), seed.reconstruct(Y)[rows])
    assert np.array_equal(seed.encode(X).toarray(), seed.codes.toarray())


def test_points_without_length_and_twins() -> None:
    Y = np.concatenate([np.zeros((2, 4)), np.eye(4)[[0, 0, 1, 1]], [[0.0, -3.0, 0.0, 0.0]]])
    found = self_expressive(Y, max_landmarks=4)
    assert len(found.indices) == 2
    assert found.codes[:2].nnz == 0
    assert np.array_equal(found.reconstruct(), Y)
    assert same_partition(found.cluster(2)[2:], np.array([0, 0, 1, 1, 1]))
    assert found.affinity()[:2].nnz == 0


@pytest.mark.parametrize(
    ("points", "options", "says"),
    [
        (np.zeros((3, 2)), {}, "all zero"),
        (np.ones(3), {}, "matrix"),
        ([[1.0], [np.nan]], {}, "row 1"),
        (X, {"sparsity": 0}, "sparsity=0"),
        (X, {"sparsity": 1.5}, r"sparsity=1\.5"),
        (X, {"error": "small"}, "error='small'"),
        (X, {"error": 1.0}, r"error=1\.0"),
        (X, {"max_landmarks": 0}, "max_landmarks"),
    ],
)
def test_bad_input_is_explained(points: Matrix, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        self_expressive(points, **({"max_landmarks": 3} | options))  # type: ignore[arg-type]


def test_a_wrong_question_is_explained(seed: SelfExpressive) -> None:
    with pytest.raises(InvalidInput, match="Y has 29 columns and the landmarks 30"):
        seed.encode(X[:, 1:])
    with pytest.raises(InvalidInput, match="n_clusters=10 must be at most the 9 landmarks"):
        seed.cluster(10)
    with pytest.raises(InvalidInput, match="labels must be one for each of the 180 points"):
        seed.classify(X, LABELS[:5])
    others = np.where(np.arange(len(X)) == np.setdiff1d(np.arange(len(X)), seed.indices)[0], 7, 0)
    with pytest.raises(InvalidInput, match="no landmark is of class 7"):
        seed.classify(X, others)


def test_scikit_learn_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'streamk\[sklearn\]'"):
        self_expressive(X, max_landmarks=3)
