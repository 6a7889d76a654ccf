"""Trees and local models of DC-Pred++, beside the plain ones of `naive_dc_pred`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference import dc_pred as naive

from streamk.backends import loops
from streamk.prediction.tree import (
    Lesson,
    LocalModel,
    TreeOptions,
    _k_means,
    fit_leaves,
    fit_local,
    grow,
    refine,
)

OPTIONS = TreeOptions(landmarks=6, iterations=20)


def random() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(3))


def local_model(m: int = 5, p: int = 4, q: int = 3, d: int = 2, seed: int = 0) -> LocalModel:
    draw = np.random.default_rng(seed)
    pairs = draw.integers(m, size=(p, 2))
    return LocalModel(
        np.arange(q),
        draw.normal(size=(m, d)),
        draw.uniform(0.4, 0.9, size=d),
        pairs,
        draw.normal(size=(m + p, q)),
        draw.normal(size=q),
    )


def targets(n: int, q: int, classify: bool, seed: int = 1) -> Any:
    draw = np.random.default_rng(seed)
    if not classify:
        return draw.normal(size=(n, q))
    T = draw.uniform(size=(n, q))
    return T if q == 1 else T / T.sum(axis=1, keepdims=True)


def test_scores_are_those_of_the_plain_model() -> None:
    model, Z = local_model(), np.random.default_rng(2).normal(size=(7, 2))
    np.testing.assert_allclose(model.scores(Z), [naive.scores(z, model) for z in Z], rtol=1e-10)


def loss_and_slopes(
    model: LocalModel, Z: Any, T: Any, *, classify: bool, ridge: float
) -> tuple[float, list[Any]]:
    """The loss, and its derivatives in landmarks, scale, weights and bias."""
    parts = model.landmarks, model.scale, model.weights, model.bias
    x = np.concatenate([part.ravel() for part in parts])
    m, slopes = len(model.landmarks), np.empty(len(x))
    leaf = loops.leaves.leaf(Z, T, model.pairs, m, classifies=classify, ridge=ridge, unit=1.0)
    loss = loops.leaves.learn(leaf, 0, x, slopes)
    found = np.split(slopes, np.cumsum([part.size for part in parts[:3]]))
    return loss, [one.reshape(part.shape) for one, part in zip(found, parts, strict=True)]


@pytest.mark.parametrize(("q", "classify"), [(1, True), (3, True), (1, False)])
@pytest.mark.parametrize("p", [0, 4])
def test_slopes_are_those_of_the_plain_loss(q: int, classify: bool, p: int) -> None:
    model, Z = local_model(q=q, p=p), np.random.default_rng(2).normal(size=(9, 2))
    T, ridge, step = targets(9, q, classify), 0.1, 1e-6
    loss, slopes = loss_and_slopes(model, Z, T, classify=classify, ridge=ridge)
    assert loss == pytest.approx(naive.loss(Z, T, model, ridge, classify=classify))

    def moved(name: str, place: Any, by: float) -> float:
        value = np.array(getattr(model, name), np.float64)
        value[place] += by
        other = replace(model, **{name: value})
        return naive.loss(Z, T, other, ridge, classify=classify)

    for name, found in zip(("landmarks", "scale", "weights", "bias"), slopes, strict=True):
        for place in np.ndindex(np.shape(found)):
            expected = (moved(name, place, step) - moved(name, place, -step)) / (2 * step)
            assert found[place] == pytest.approx(expected, rel=1e-4, abs=1e-6), (name, place)


@pytest.mark.parametrize(("m", "p", "q"), [(33, 0, 17), (40, 35, 2), (32, 0, 1)])
def test_slopes_of_several_groups_and_blocks(m: int, p: int, q: int) -> None:
    """Landmarks, products, outputs and points that do not fill vectors, or more than one."""
    model, Z = local_model(m, p, q, 5), np.random.default_rng(2).normal(size=(70, 5))
    T = targets(70, q, classify=True)
    loss, slopes = loss_and_slopes(model, Z, T, classify=True, ridge=0.1)
    assert loss == pytest.approx(naive.loss(Z, T, model, 0.1, classify=True))
    draw, step = np.random.default_rng(4), 1e-5
    way = [draw.normal(size=np.shape(slope)) for slope in slopes]

    def moved(by: float) -> float:
        names = ("landmarks", "scale", "weights", "bias")
        values = [getattr(model, name) + by * one for name, one in zip(names, way, strict=True)]
        other = replace(model, **dict(zip(names, values, strict=True)))
        return naive.loss(Z, T, other, 0.1, classify=True)

    expected = (moved(step) - moved(-step)) / (2 * step)
    along = sum(float(np.vdot(slope, one)) for slope, one in zip(slopes, way, strict=True))
    assert along == pytest.approx(expected, rel=1e-4)


def test_refining_lowers_the_loss() -> None:
    model, Z = local_model(q=1), np.random.default_rng(2).normal(size=(50, 2))
    T = (Z[:, :1] * Z[:, 1:] > 0.0).astype(float)
    before = naive.loss(Z, T, model, 1e-6, classify=True)
    better = refine(model, Z, T, is_classifier=True, ridge=1e-6, iterations=30)
    assert naive.loss(Z, T, better, 1e-6, classify=True) < 0.5 * before


@pytest.mark.parametrize(("q", "classify"), [(1, True), (3, True), (1, False)])
def test_refining_ends_where_scipy_does(q: int, classify: bool) -> None:
    """With a ridge there is a minimum, and SciPy on the same loss finds no lower one."""
    from scipy.optimize import minimize

    model, Z = local_model(q=q, p=0), np.random.default_rng(2).normal(size=(40, 2))
    T = targets(40, q, classify)
    better = refine(model, Z, T, is_classifier=classify, ridge=0.1, iterations=500)
    parts = better.landmarks, better.scale, better.weights, better.bias
    edges = np.cumsum([part.size for part in parts[:3]])
    names = ("landmarks", "scale", "weights", "bias")

    def made(x: Any) -> LocalModel:
        values = [one.reshape(p.shape) for one, p in zip(np.split(x, edges), parts, strict=True)]
        return replace(better, **dict(zip(names, values, strict=True)))

    def function(x: Any) -> Any:
        loss, slopes = loss_and_slopes(made(x), Z, T, classify=classify, ridge=0.1)
        return loss, np.concatenate([slope.ravel() for slope in slopes])

    x = np.concatenate([part.ravel() for part in parts])
    found = minimize(function, x, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    assert function(x)[0] == pytest.approx(found.fun, rel=1e-3)


def test_threads_learn_the_same_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = np.random.default_rng(0).normal(size=(4000, 3))
    T = (Z[:, :1] * Z[:, 1:2] > 0.0).astype(float)
    _, parts = grow(Z, 16, balance=0.5, halo=1.0, random=random())

    def learned(threads: int) -> Any:
        monkeypatch.setattr("streamk.backends.threads.cores", lambda: threads)
        monkeypatch.setattr("streamk.backends.threads.PARALLEL_FLOPS", 1_000)
        each = zip(parts, random().spawn(16), strict=True)
        lessons = [Lesson(p.learned, T[p.learned], np.zeros(1, np.int64), own) for p, own in each]
        models = fit_leaves(Z, lessons, OPTIONS, is_classifier=True)
        return np.stack([model.landmarks for model in models])

    assert np.array_equal(learned(1), learned(3))


def test_centers_are_those_of_lloyd() -> None:
    """The last ones are the weighted means of the points that are nearest to those before."""
    draw = np.random.default_rng(0)
    Z, w = draw.normal(size=(300, 2)), draw.uniform(size=300)
    centers = _k_means(Z, 7, w, random())
    first = Z[random().choice(300, 7, replace=False, p=w / w.sum())]
    for _ in range(5):
        nearest = np.array([np.square(first - z).sum(axis=1).argmin() for z in Z])
        first = np.array(
            [np.average(Z[nearest == k], axis=0, weights=w[nearest == k]) for k in range(7)]
        )
    np.testing.assert_allclose(centers, np.unique(first, axis=0))


def test_a_cluster_without_points_begins_again() -> None:
    Z = np.repeat([[0.0], [1.0], [5.0]], [50, 50, 1], axis=0)
    for seed in range(5):
        assert _k_means(Z, 3, None, np.random.default_rng(seed)).ravel().tolist() == [0, 1, 5]


def test_importance_is_that_of_kernel_ridge_regression() -> None:
    from streamk.prediction.tree import _importance

    draw = np.random.default_rng(0)
    Z, Y = draw.normal(size=(30, 2)), draw.normal(size=(30, 2))
    K = np.array([[naive.basis(a, [b * 0.4**0.5], [0.4**0.5] * 2, [])[0] for b in Z] for a in Z])
    found = _importance(Z, Y, 0.4, random())
    np.testing.assert_allclose(found, naive.importance(K, Y, 0.1), rtol=1e-6)


@pytest.mark.parametrize("balance", [0.0, 0.3, 0.5])
def test_a_tree_divides_all_points(balance: float) -> None:
    Z = np.random.default_rng(0).normal(size=(400, 3))
    tree, parts = grow(Z, 13, balance=balance, halo=1.5, random=random())
    assert tree.n_leaves == len(parts) == 13
    assert sorted(np.concatenate([part.own for part in parts]).tolist()) == list(range(400))
    leaves = tree.leaves(Z)
    for number, part in enumerate(parts):
        assert (leaves[part.own] == number).all()
        assert len(part.halo) == round(1.5 * len(part.own))
        assert not set(part.own.tolist()) & set(part.halo.tolist())
    plain = [naive.leaf_of(z, tree.normals, tree.offsets, tree.children) for z in Z]
    assert leaves.tolist() == plain


def test_balanced_leaves_have_as_many_points() -> None:
    Z = np.random.default_rng(0).normal(size=(1024, 3))
    _, parts = grow(Z, 16, balance=0.5, halo=0.0, random=random())
    assert {len(part.own) for part in parts} == {64}


def test_unbalanced_leaves_are_the_clusters() -> None:
    """The paper's own assignment: an event belongs to the nearer one of two centers."""
    draw = np.random.default_rng(0)
    Z = np.concatenate([draw.normal(size=(300, 2)), draw.normal(size=(20, 2)) + 50.0])
    _, parts = grow(Z, 2, balance=0.0, halo=0.0, random=random())
    assert sorted(len(part.own) for part in parts) == [20, 300]


def test_a_halo_has_the_nearest_points() -> None:
    Z = np.linspace(0.0, 1.0, 64)[:, None]
    _, parts = grow(Z, 4, balance=0.5, halo=0.5, random=random())
    for part in parts:
        low, high = part.own.min(), part.own.max()
        nearest = sorted(
            set(range(64)) - set(part.own.tolist()), key=lambda i: max(low - i, i - high)
        )
        assert set(part.halo.tolist()) <= set(nearest[:10])


@pytest.mark.parametrize("points", [np.zeros((20, 2)), np.ones((1, 2))])
def test_points_that_do_not_differ_are_one_leaf(points: Any) -> None:
    tree, parts = grow(points, 8, balance=0.5, halo=1.0, random=random())
    assert tree.n_leaves == len(parts) == 1
    assert (tree.leaves(points) == 0).all()


def test_a_leaf_of_one_class_is_constant() -> None:
    Z = np.random.default_rng(0).normal(size=(10, 2))
    binary = fit_local(
        Z, np.ones((10, 1)), np.zeros(1, np.int64), OPTIONS, random(), is_classifier=True
    )
    assert binary.landmarks.shape == (0, 2)
    assert binary.scores(Z)[:, 0] == pytest.approx(np.log(10.5 / 0.5))
    one = fit_local(Z, np.ones((10, 1)), np.array([4]), OPTIONS, random(), is_classifier=True)
    assert one.outputs.tolist() == [4]


def test_fewer_points_than_landmarks() -> None:
    Z = np.array([[0.0], [1.0], [1.0], [2.0]])
    model = fit_local(
        Z,
        np.array([[0.0], [1.0], [1.0], [0.0]]),
        np.zeros(1, np.int64),
        OPTIONS,
        random(),
        is_classifier=True,
    )
    assert model.landmarks.shape == (3, 1)
    assert (model.scores(Z)[:, 0] > 0).tolist() == [False, True, True, False]
