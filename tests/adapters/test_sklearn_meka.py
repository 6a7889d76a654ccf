"""Ridge regression on MEKA: scikit-learn's own checks, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.class_weight import compute_sample_weight

from streamk.adapters.sklearn import MekaClassifier, MekaRidge
from streamk.errors import InvalidInput
from streamk.factorization import Meka, meka
from streamk.kernels import Gaussian, Linear


def friedman(n: int = 800) -> Any:
    return make_friedman1(n, random_state=0)


def full(**options: Any) -> Any:
    """Options with which it is kernel ridge regression, up to single precision."""
    fixed = {"gamma": 0.5, "rank": 300, "n_clusters": 1, "basis": "uniform", "random_state": 0}
    return {**fixed, **options}


SINGLE: Any = {"rtol": 1e-4, "atol": 1e-3}


@pytest.mark.parametrize("solver", ["woodbury", "cg", "minres"])
def test_weights_are_those_of_kernel_ridge(solver: str) -> None:
    X, y = friedman(300)
    both = np.column_stack([y, -(y**2)])
    weights = np.random.default_rng(0).exponential(size=200) ** 2
    weights[::9] = 0.0
    plain = KernelRidge(kernel="rbf", gamma=0.5, alpha=0.5).fit(X[:200], both[:200], weights)
    ours = MekaRidge(**full(alpha=0.5, solver=solver)).fit(X[:200], both[:200], weights)
    np.testing.assert_allclose(ours.predict(X[200:]), plain.predict(X[200:]), **SINGLE)


def test_points_of_weight_0_are_not_there_and_weights_alike_are_another_alpha() -> None:
    X, y = friedman()
    weights = np.arange(800.0) % 3
    options: Any = {"gamma": 0.3, "alpha": 0.2, "rank": 20, "n_clusters": 4, "random_state": 0}
    counting, new = weights > 0, X[:50] + 0.1
    some = MekaRidge(**options).fit(X[counting], y[counting], weights[counting]).predict(new)
    assert np.array_equal(MekaRidge(**options).fit(X, y, weights).predict(new), some)
    four = MekaRidge(**options).fit(X, y, np.full(800, 4.0)).predict(new)
    assert np.array_equal(MekaRidge(**{**options, "alpha": 0.05}).fit(X, y).predict(new), four)


def test_whether_to_clip_is_asked_with_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = friedman(400)
    asked, is_definite = [], Meka.is_definite

    def asking(self: Meka, lam: float, **options: Any) -> bool:
        asked.append(is_definite(self, lam, **options))
        return asked[-1]

    monkeypatch.setattr(Meka, "is_definite", asking)
    options: Any = {"gamma": 0.3, "rank": 20, "n_clusters": 4, "random_state": 0}
    plain = MekaRidge(alpha=2.0**-4, **options).fit(X, y)
    alike = MekaRidge(alpha=2.0**12, **options).fit(X, y, np.full(400, 2.0**16))
    MekaRidge(alpha=2.0**12, **options).fit(X, y)
    assert asked == [False, False, True]
    assert np.array_equal(alike.predict(X), plain.predict(X))


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 5.0, "c": 0.2}])
def test_weights_of_classes_are_those_of_their_points(class_weight: Any) -> None:
    X, numbers = make_friedman1(300, random_state=0)
    labels = np.array(["a", "b", "c"])[np.digitize(numbers, [9.0, 20.0])]
    own = np.random.default_rng(1).uniform(size=300)
    targets = np.where(labels[:, None] == np.array(["a", "b", "c"]), 1.0, -1.0)
    for given in (None, own):
        weights = np.ones(300) if given is None else own
        if class_weight == "balanced":
            sums = {label: weights[labels == label].sum() for label in "abc"}
            weights = weights / [sums[label] for label in labels] * weights.sum() / 3
        else:
            weights = weights * compute_sample_weight(class_weight, labels)
        plain = KernelRidge(kernel="rbf", gamma=0.5).fit(X, targets, weights)
        model = MekaClassifier(**full(class_weight=class_weight)).fit(X, labels, given)
        np.testing.assert_allclose(model.decision_function(X), plain.predict(X), **SINGLE)


@pytest.mark.parametrize("weights", [{True: -1.0}, {True: np.nan}, {True: 0.0, False: 0.0}])
def test_weights_of_classes_that_cannot_be(weights: Any) -> None:
    X, y = friedman(50)
    for own in (None, np.ones(50)):
        with pytest.raises(InvalidInput, match="class_weight"):
            MekaClassifier(rank=8, class_weight=weights).fit(X, y > 14.0, own)


def test_it_solves_with_the_approximation_and_predicts_by_it() -> None:
    X, y = friedman()
    model = MekaRidge(gamma=0.3, alpha=0.2, rank=20, n_clusters=4, random_state=3).fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31))
    found = meka(X, Gaussian(gamma=0.3), rank=20, n_clusters=4, seed=seed)
    if not found.is_definite(0.1):
        found = found.psd()
    alpha = found.solve(0.2, y)
    assert np.array_equal(model.coef_, found.weights(alpha))
    np.testing.assert_allclose(model.predict(X), found @ alpha, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": Linear()}, "shift-invariant"),
        ({"kernel": "precomputed"}, "must be the name of a kernel"),
        ({"rank": 0}, "rank=0"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"alpha": 0.0}, "alpha=0.0 must be a number above 0"),
        ({"alpha": None}, "alpha=None must be a number above 0"),
        ({"alpha": "1"}, "alpha='1' must be a number above 0"),
        ({"solver": "qr"}, "woodbury, cg, minres"),
        ({"basis": "best"}, "basis='best'"),
    ],
)
def test_bad_options_are_named(options: Any, words: str) -> None:
    X, y = friedman(50)
    with pytest.raises(InvalidInput, match=words):
        MekaRidge(**options).fit(X, y)


def test_an_alpha_that_is_too_small_is_named() -> None:
    X, y = friedman(50)
    with pytest.raises(InvalidInput, match="alpha=1e-300 is too small"):
        MekaRidge(alpha=1e-300, rank=10, n_clusters=2, random_state=0).fit(X, y)


def test_one_class_is_none_to_tell_apart() -> None:
    with pytest.raises(InvalidInput, match=r"one class, 'a';"):
        MekaClassifier().fit([[0.0], [1.0]], ["a", "a"])
