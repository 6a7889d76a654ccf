"""`streamk.prediction.importance_of`: squared coefficients of fitted kernel machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamk.errors import InvalidInput
from streamk.prediction import dc_pred, importance_of

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")

from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC

from streamk.adapters.sklearn import (
    BlockRidge,
    BlockSVC,
    EigenProClassifier,
    EigenProRegressor,
    KernelRegression,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NystromClassifier,
)
from streamk.kernels import Gaussian
from streamk.learners import EigenPro, OnlineKernelRidge, OnlineNystrom, Scaled


def events(n: int = 120, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 2))


def classes(X: Any, count: int) -> Any:
    return ((np.arctan2(X[:, 0], X[:, 1]) + np.pi) / (2.001 * np.pi) * count).astype(int)


def number(X: Any) -> Any:
    return np.sin(3.0 * X[:, 0]) * X[:, 1]


@pytest.mark.parametrize("kind", [SVC, NuSVC])
def test_a_machine_of_two_classes(kind: Any) -> None:
    X = events()
    model = kind().fit(X, classes(X, 2))
    found = importance_of(model, X)
    assert np.flatnonzero(found).tolist() == sorted(model.support_)
    np.testing.assert_allclose(found[model.support_], model.dual_coef_[0] ** 2)


def test_a_machine_of_many_classes_sums_over_its_pairs() -> None:
    X = events()
    y, expected = classes(X, 4), np.zeros(len(X))
    for a in range(4):
        for b in range(a):
            rows = np.flatnonzero((y == a) | (y == b))
            pair = SVC(gamma=1.0, tol=1e-9).fit(X[rows], y[rows])
            expected[rows[pair.support_]] += pair.dual_coef_[0] ** 2
    found = importance_of(SVC(gamma=1.0, tol=1e-9).fit(X, y), X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


def test_machines_of_clusters_sum_over_their_pairs() -> None:
    X = events()
    y, expected = classes(X, 4), np.zeros(len(X))
    model = BlockSVC(gamma=1.0, n_clusters=5, random_state=0).fit(X, y)
    own = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2).argmin(axis=1)
    for cluster in range(5):
        rows = np.flatnonzero(own == cluster)
        if len(np.unique(y[rows])) > 1:
            alone = SVC(gamma=1.0).fit(X[rows], y[rows])
            expected[rows[alone.support_]] = np.square(alone.dual_coef_).sum(axis=0)
    np.testing.assert_allclose(importance_of(model, X), expected)


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(kernel="rbf"),
        BlockRidge(n_clusters=3, random_state=0),
        KernelRegression(random_state=0),
    ],
)
def test_regressions_have_a_coefficient_for_each_event(model: Any) -> None:
    X = events()
    model.fit(X, number(X))
    np.testing.assert_allclose(importance_of(model, X), model.dual_coef_**2)
    model.fit(X, np.stack([number(X), X[:, 0]], axis=1))
    np.testing.assert_allclose(importance_of(model, X), (model.dual_coef_**2).sum(axis=1))
    with pytest.raises(InvalidInput, match="for 120 events, not for the 5"):
        importance_of(model, X[:5])


def test_support_vector_regression() -> None:
    X = events()
    model = SVR().fit(X, number(X))
    found = importance_of(model, X)
    np.testing.assert_allclose(found[model.support_], model.dual_coef_[0] ** 2)
    assert np.count_nonzero(found) == len(model.support_)


def test_centers_count_for_the_events_that_they_are() -> None:
    """A learner's function is that of the coefficients of its events, and a constant."""
    X, Y = events(), events(40, seed=1)
    kernel = Gaussian(bandwidth=0.7)
    for made in (
        lambda: OnlineKernelRidge(kernel, task="regression", regularization=0.5),
        lambda: EigenPro(
            kernel, task="regression", n_centers=30, batch_size=40, regularization=0.5
        ),
    ):
        learner = made()
        learner.learn_many(X, number(X))
        A = learner.coefficients_of(X)
        assert A.shape == (120, 1)
        f = kernel.product(Y, X, A)[:, 0]
        np.testing.assert_allclose(
            learner.decision_many(Y)[:, 0] - f, learner.decision_many(Y)[0, 0] - f[0], atol=1e-4
        )
        np.testing.assert_allclose(importance_of(learner, X), A[:, 0] ** 2)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (EigenProClassifier(n_centers=30, selection="k-means", random_state=0), 3),
        (EigenProClassifier(n_centers=30, solver="eigenpro", random_state=0), 3),
        (EigenProRegressor(n_centers=30, random_state=0), 0),
        (KernelRidgeRegressor(random_state=0), 0),
    ],
)
def test_estimators_on_centers(model: Any, count: int) -> None:
    X = events(600)
    model.fit(X, classes(X, count) if count else number(X))
    found = importance_of(model, X)
    assert found.shape == (600,)
    assert np.isfinite(found).all()
    assert (found >= 0.0).all()
    if hasattr(model, "n_centers"):
        assert 15 < np.count_nonzero(found) <= 30
    else:  # some of the first events, in the scale of their time, are now nearer to another one
        assert np.count_nonzero(found) > 400


def test_models_without_coefficients_of_events() -> None:
    X = events()
    y = classes(X, 2)
    for model in (
        LinearSVC().fit(X, y),
        LogisticRegression().fit(X, y),
        SVC(),
        BlockSVC(),
        KernelRidgeClassifier(),
    ):
        with pytest.raises(InvalidInput, match="has no dual_coef_"):
            importance_of(model, X)
    with pytest.raises(InvalidInput, match=r"OnlineNystrom.* has no coefficients of events"):
        importance_of(NystromClassifier().fit(X, y), X)
    for learner in (
        Scaled(OnlineKernelRidge(Gaussian())),
        OnlineKernelRidge(Gaussian()),
    ):
        with pytest.raises(InvalidInput, match="learned"):
            importance_of(learner, X)
    with pytest.raises(InvalidInput, match="OnlineNystrom"):
        importance_of(Scaled(OnlineNystrom(Gaussian())), X)


def test_other_events_than_the_model_was_fitted_to() -> None:
    X = events()
    y = classes(X, 3)
    with pytest.raises(InvalidInput, match="for 120 events, not for the 7"):
        importance_of(SVC().fit(X, y), X[:7])
    model = BlockSVC(n_clusters=3, random_state=0).fit(X, y)
    last = int(model.support_.max())
    with pytest.raises(InvalidInput, match=f"in row {last}, and {last} events"):
        importance_of(model, X[:last])


@pytest.mark.parametrize(
    "importance",
    [
        np.eye(1, 400)[0],
        np.zeros(400),
        np.full(400, 1e308),
        np.full(400, 1e-310),
        10.0 ** np.random.default_rng(0).uniform(-300.0, 300.0, 400),
    ],
)
def test_any_weights_find_landmarks(importance: Any) -> None:
    """Fewer support vectors than landmarks, none at all, and weights of any size."""
    X = events(400)
    model = dc_pred(X, classes(X, 2), leaves=2, landmarks=8, importance=importance)
    assert model.kernels.leaves[:, 0].tolist() == [8, 8]
    assert (model.predict_many(X) == classes(X, 2)).mean() > 0.9
