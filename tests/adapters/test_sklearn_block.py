"""Machines and ridge regressions of clusters: scikit-learn's own checks, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_friedman1, make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from streamk.adapters.sklearn import BlockRidge, BlockSVC
from streamk.errors import InvalidInput
from streamk.factorization import block_kernel
from streamk.kernels import Gaussian, Linear, Matern


def moons(n: int = 1_000) -> Any:
    return make_moons(n, noise=0.2, random_state=0)


def blobs(n: int = 600) -> Any:
    """Five classes of which clusters have some each."""
    X, y = make_blobs(n, centers=10, cluster_std=1.5, random_state=1)
    return X, np.array(["a", "b", "c", "d", "e"])[y % 5]


def by_hand(model: BlockSVC, X: Any, y: Any, Y: Any, **options: Any) -> Any:
    """Labels of new points from a machine in each cluster, plainly."""

    def cluster(Z: Any) -> Any:
        return ((Z[:, None] - model.cluster_centers_) ** 2).sum(axis=2).argmin(axis=1)

    own, new = cluster(X), cluster(Y)
    labels = np.empty(len(Y), y.dtype)
    for s in range(len(model.cluster_centers_)):
        known = y[own == s]
        if (new == s).any():
            labels[new == s] = (
                SVC(**options).fit(X[own == s], known).predict(Y[new == s])
                if len(np.unique(known)) > 1
                else known[0]
            )
    return labels


# The machines


@pytest.mark.parametrize("data", [moons, blobs])
def test_a_machine_in_each_cluster(data: Any) -> None:
    (X, y), Y = data(), data(1_200)[0]
    model = BlockSVC(gamma=2.0, C=8.0, n_clusters=8, random_state=0).fit(X, y)
    assert len(model.cluster_centers_) == len(model.n_support_) == 8
    assert np.array_equal(model.predict(Y), by_hand(model, X, y, Y, gamma=2.0, C=8.0))
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("data", [moons, blobs])
def test_one_cluster_is_svc(data: Any) -> None:
    X, y = data()
    model = BlockSVC(gamma=2.0, C=8.0, n_clusters=1).fit(X, y)
    whole = SVC(gamma=2.0, C=8.0).fit(X, y)
    assert np.array_equal(model.predict(X), whole.predict(X))
    assert np.allclose(model.decision_function(X), whole.decision_function(X), atol=1e-12)
    assert model.n_support_.tolist() == [len(whole.support_)]
    assert np.array_equal(model.support_, whole.support_)
    assert np.array_equal(model.dual_coef_, whole.dual_coef_)


@pytest.mark.parametrize("data", [moons, blobs])
def test_coefficients_are_of_the_decisions(data: Any) -> None:
    """The decision between two classes is a sum over their support vectors, and a constant."""
    X, y = data()
    model = BlockSVC(gamma=2.0, C=8.0, n_clusters=6, random_state=0).fit(X, y)
    numbers, first, seen = np.searchsorted(model.classes_, y), 0, set()
    for count, machine in zip(model.n_support_, model._machines, strict=True):
        mine = slice(first, first + count)
        first += count
        support, A = model.support_[mine], model.dual_coef_[:, mine]
        present = machine.present.tolist()
        K = np.exp(-2.0 * ((X[:20, None] - X[support]) ** 2).sum(axis=2))
        D = machine.pairs(X[:20], len(model.classes_))
        for place, (i, j) in enumerate(zip(*np.triu_indices(len(model.classes_), 1), strict=True)):
            if i in present and j in present:
                seen.add(len(present))
                of_i, of_j = numbers[support] == i, numbers[support] == j
                f = K[:, of_i] @ A[j - 1, of_i] + K[:, of_j] @ A[i, of_j]
                rest = D[:, place] - f * (-1.0 if len(model.classes_) == 2 else 1.0)
                np.testing.assert_allclose(rest, rest[0], atol=1e-10)
    assert len(seen) > 1 or len(model.classes_) == 2
    assert first == len(model.support_) == model.dual_coef_.shape[1]


def test_other_kernels_are_those_of_precomputed_matrices() -> None:
    (X, y), kernel = moons(), Matern(nu=2.5, bandwidth=0.4)
    model = BlockSVC(kernel=kernel, n_clusters=1).fit(X, y)
    whole = SVC(kernel="precomputed").fit(kernel.pairwise(X), y)
    Y = moons(50)[0]
    assert np.allclose(
        model.decision_function(Y), whole.decision_function(kernel.pairwise(Y, X)), atol=1e-12
    )


@pytest.mark.parametrize("data", [moons, blobs])
def test_decisions_and_labels_agree(data: Any) -> None:
    X, y = data()
    model = BlockSVC(gamma=2.0, n_clusters=12, random_state=0).fit(X, y)
    F = model.decision_function(X)
    if len(model.classes_) == 2:
        assert F.shape == (len(X),)
        assert np.array_equal(model.predict(X), model.classes_[(F > 0).astype(int)])
    else:
        assert F.shape == (len(X), 5)
        assert np.mean(model.predict(X) == model.classes_[F.argmax(axis=1)]) > 0.99
        assert F.max() < 4 + 1 / 3
        assert F.min() > -1 / 3


def test_clusters_of_one_class_say_it() -> None:
    X = np.array([[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]])
    pure = BlockSVC(gamma=1.0, n_clusters=3, random_state=0).fit(X, [0, 0, 1, 1, 0, 0])
    assert pure.n_support_.tolist() == [0, 0, 0]
    assert pure.decision_function(X).tolist() == [-1, -1, 1, 1, -1, -1]
    X[2:4] += 3.0
    mixed = BlockSVC(gamma=1.0, n_clusters=2, random_state=0).fit(X, [0, 2, 1, 1, 1, 1])
    assert mixed.predict(X).tolist() == [0, 2, 1, 1, 1, 1]
    # Where class 1 is alone it wins against both others, each of which wins against nothing.
    votes = mixed.decision_function([[7.0]])[0]
    assert votes == pytest.approx([-1 / 6, 2 + 2 / 9, -1 / 6])
    # Where it is not there, it loses against both.
    assert mixed.decision_function([[0.0]])[0][1] == pytest.approx(-2 / 9)


def test_balanced_are_the_classes_of_all_points() -> None:
    X, y = moons()
    rare = np.flatnonzero((y == 0) | (np.arange(1_000) % 10 == 0))
    X, y = X[rare], y[rare]
    factors = {k: len(y) / (2 * np.count_nonzero(y == k)) for k in (0, 1)}
    options: dict[str, Any] = {"gamma": 2.0, "n_clusters": 4, "random_state": 0}
    model = BlockSVC(class_weight="balanced", **options).fit(X, y)
    assert np.array_equal(
        model.predict(X), by_hand(model, X, y, X, gamma=2.0, class_weight=factors)
    )
    given = BlockSVC(class_weight=factors, **options).fit(X, y)
    assert np.array_equal(model.decision_function(X), given.decision_function(X))
    unweighted = BlockSVC(**options).fit(X, y)
    assert np.count_nonzero(model.predict(X)) > np.count_nonzero(unweighted.predict(X))


@pytest.mark.parametrize(("n", "parts"), [(999, 1), (1_999, 1), (3_000, 3)])
def test_by_default_a_part_has_a_thousand_points(n: int, parts: int) -> None:
    X, y = moons(n)
    assert len(BlockSVC().fit(X, y).cluster_centers_) == parts
    assert len(BlockRidge().fit(X, y).cluster_centers_) == parts


# Ridge regression


def friedman(n: int = 600) -> Any:
    return make_friedman1(n, noise=0.1, random_state=0)


def test_one_part_is_kernel_ridge() -> None:
    X, y = friedman()
    Y = np.column_stack([y, y**2])
    whole = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.01).fit(X, Y)
    model = BlockRidge(gamma=0.3, alpha=0.01).fit(X, Y)
    assert np.allclose(model.dual_coef_, whole.dual_coef_, rtol=1e-7, atol=1e-6)
    assert np.allclose(model.predict(X[:50] + 0.01), whole.predict(X[:50] + 0.01), rtol=1e-8)
    assert model.fit(X, y).predict(X).shape == (600,)


def test_a_ridge_in_each_cluster() -> None:
    X, y = friedman()
    model = BlockRidge(gamma=0.3, alpha=0.01, n_clusters=5, random_state=4).fit(X, y)
    seed = int(np.random.RandomState(4).randint(2**31))
    blocks = block_kernel(X, Gaussian(gamma=0.3), n_clusters=5, seed=seed)
    new = friedman(900)[0][600:]
    predicted = np.empty(300)
    for s in range(5):
        rows, some = blocks.rows(s), blocks.clusters.nearest(new) == s
        part = KernelRidge(kernel="rbf", gamma=0.3, alpha=0.01).fit(X[rows], y[rows])
        predicted[some] = part.predict(new[some])
    assert np.allclose(model.predict(new), predicted, rtol=1e-7)
    assert np.array_equal(model.cluster_centers_, blocks.centers)
    assert np.array_equal(model.X_fit_, X)


# What cannot be used


@pytest.mark.parametrize("made", [BlockSVC, BlockRidge])
def test_kernels_between_clusters_that_are_not_small(made: Any) -> None:
    X, y = moons()
    for kernel in ("linear", Linear()):
        with pytest.raises(InvalidInput, match="not shift-invariant"):
            made(kernel=kernel).fit(X, y)
    with pytest.raises(InvalidInput, match="precomputed"):
        made(kernel="precomputed").fit(X, y)
    with pytest.raises(InvalidInput, match="n_clusters=0"):
        made(n_clusters=0).fit(X, y)


def test_bad_options_and_data() -> None:
    X, y = moons()
    for made in (BlockSVC, BlockRidge):
        with pytest.raises(InvalidInput, match="'precomputed' must be the name of a kernel"):
            made(kernel="precomputed").fit(X, y)
        with pytest.raises(ValueError, match="NaN"):
            made().fit(np.where(X > 1, np.nan, X), y)
        with pytest.raises(ValueError, match="3 features"):
            made().fit(X, y).predict(np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match=r"one class, 1\.0;"):
        BlockSVC().fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="'C' parameter"):
        BlockSVC(C=-1.0, n_jobs=2).fit(X, y)
    with pytest.raises(ValueError, match="class_weight"):
        BlockSVC(class_weight="equal").fit(X, y)
    with pytest.raises(InvalidInput, match="alpha=-1"):
        BlockRidge(alpha=-1).fit(X, y)


def test_fewer_points_than_clusters() -> None:
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 1]
    assert BlockSVC(n_clusters=10).fit(X, y).predict(X).tolist() == [0, 1, 1]
    assert np.allclose(BlockRidge(n_clusters=10, alpha=0).fit(X, y).predict(X), y)


# Copies and tools
