"""Recursive feature machines and EigenPro 2.0 as estimators: what they promise beyond checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import eigenpro as naive
from sklearn.datasets import load_digits, load_wine, make_friedman1
from sklearn.metrics import log_loss

from streamk.adapters.sklearn import KernelRegression, RFMClassifier, RFMRegressor
from streamk.errors import InvalidInput
from streamk.kernels import NTK, Laplacian, Matern

ONE: dict[str, Any] = {"kernel": "matern", "bandwidth": 2.0, "metric": "diagonal", "rounds": 2}


def friedman(n: int = 300) -> Any:
    return make_friedman1(n, random_state=0)


def test_importances_are_those_of_the_columns_that_matter() -> None:
    X, y = friedman()
    model = RFMRegressor(kernel="matern", bandwidth=3.0, random_state=0).fit(X, y)
    assert model.n_rounds_ > 0
    assert model.feature_importances_.shape == (10,)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[:5].min() > 2.0 * model.feature_importances_[5:].max()
    shares = np.diag(model.metric_) / np.trace(model.metric_)
    np.testing.assert_allclose(shares, model.feature_importances_)


def test_probabilities_are_calibrated_on_held_back_events() -> None:
    X, y = load_digits(return_X_y=True)
    model = RFMClassifier(**ONE, random_state=0).fit(X[:400], y[:400])
    P = model.predict_proba(X[400:])
    assert np.allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[400:]))
    sure = np.exp(100.0 * model.decision_function(X[400:]))
    assert log_loss(y[400:], P) < 0.3
    assert log_loss(y[400:], P) < log_loss(y[400:], sure / sure.sum(axis=1, keepdims=True))


def test_labels_are_texts_and_columns_miss_values() -> None:
    X, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    X = np.where(np.random.default_rng(0).uniform(size=X.shape) < 0.1, np.nan, X)
    model = RFMClassifier(**ONE, random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.9
    two = RFMClassifier(**ONE, random_state=0).fit(X[:130], names[:130])
    assert two.decision_function(X).shape == (178,)
    assert np.array_equal(two.decision_function(X) > 0, two.predict(X) == "b")


def test_several_targets_count_in_their_own_units() -> None:
    X, y = friedman(200)
    both = np.column_stack([y, 1e6 * y + 1e7])
    model = RFMRegressor(**ONE, random_state=0).fit(X, both)
    F = model.predict(X[:50])
    np.testing.assert_allclose(F[:, 1], 1e6 * F[:, 0] + 1e7, rtol=1e-6)
    alone = RFMRegressor(**ONE, random_state=0).fit(X, y)
    np.testing.assert_allclose(alone.predict(X[:50]), F[:, 0], rtol=1e-4)


def test_weights_move_decisions_and_probabilities() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2))
    y = random.random(600) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    w = np.where(y, 9.0, 1.0)
    plain = RFMClassifier(**ONE, random_state=0).fit(X[::2], y[::2])
    heavy = RFMClassifier(**ONE, random_state=0).fit(X[::2], y[::2], sample_weight=w[::2])
    assert heavy.predict(X).mean() > 1.3 * plain.predict(X).mean()
    losses = [log_loss(y[1::2], one.predict_proba(X[1::2])) for one in (plain, heavy)]
    assert losses[0] < losses[1]
    losses = [
        log_loss(y[1::2], one.predict_proba(X[1::2]), sample_weight=w[1::2])
        for one in (plain, heavy)
    ]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": NTK()}, "no closed form"),
        ({"kernel": Laplacian(), "metric": "full"}, "diagonal"),
        ({"rounds": "a"}, "rounds='a'"),
    ],
)
def test_options_out_of_their_domain(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RFMRegressor(**options).fit(*friedman(20))


KERNEL = Matern(nu=0.5, bandwidth=2.0)


def single(n: int = 300) -> tuple[Any, Any]:
    X, y = make_friedman1(n, random_state=0)
    return X.astype(np.float32), y


def test_an_epoch_is_algorithm_3() -> None:
    X, y = single()
    Y = np.column_stack([y, -(y**2)])
    model = KernelRegression(KERNEL, n_epochs=2, batch_size=64, random_state=1).fit(X, Y)
    seed = int(np.random.RandomState(1).randint(2**31))
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    orders = [random.permutation(300) for _ in range(2)]
    from streamk.learners.eigenpro.projection import Preconditioner

    level = Preconditioner(KERNEL, X, batch_size=64).level
    centered = Y - Y.mean(axis=0)
    expected = naive.eigenpro2(KERNEL.pairwise, X, centered, np.arange(300), level, orders, 64)
    found = KERNEL.pairwise(X) @ model.dual_coef_
    assert np.allclose(found, KERNEL.pairwise(X) @ expected, rtol=1e-4, atol=1e-3)
    assert np.allclose(model.predict(X), found + Y.mean(axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [KERNEL, "ntk", NTK(depth=1)])
def test_many_epochs_interpolate(kernel: Any) -> None:
    X, y = single()
    errors = [
        np.abs(KernelRegression(kernel, n_epochs=n, random_state=0).fit(X, y).predict(X) - y).max()
        for n in (1, 10, 200)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3 * np.std(y)


def test_repeated_points_are_no_trouble() -> None:
    X, y = single(100)
    model = KernelRegression(KERNEL, n_epochs=100, random_state=0)
    model.fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert np.abs(model.predict(X) - y).max() < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_epochs": 0}, "n_epochs=0 must be a whole number of at least 1"),
        ({"n_epochs": "a"}, "n_epochs='a' must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number of at least 1"),
        ({"kernel": "linear"}, "linear"),
        ({"bandwidth": -1.0}, "bandwidth"),
    ],
)
def test_options_of_the_regression(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        KernelRegression(**options).fit(*single(20))
