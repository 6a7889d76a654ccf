"""The scikit-learn estimators: its own checks, its tools around them, and what they compute."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, make_friedman1, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from streamk import learners
from streamk.adapters.sklearn import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    EigenProClassifier,
    EigenProRegressor,
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NystromClassifier,
    NystromRegressor,
)
from streamk.errors import InvalidInput


def moons() -> tuple[Any, Any]:
    return make_moons(600, noise=0.2, random_state=0)


def classifier(**options: Any) -> DoublyStochasticClassifier:
    return DoublyStochasticClassifier(
        **{"max_features": 512, "block_size": 512, "random_state": 0, **options}
    )


def regressor(**options: Any) -> DoublyStochasticRegressor:
    return DoublyStochasticRegressor(
        **{"max_features": 512, "block_size": 512, "random_state": 0, **options}
    )


# What it computes


def test_fit_is_the_learner_over_shuffled_passes() -> None:
    X, y = moons()
    model = classifier(n_epochs=2, random_state=5).fit(X, y)
    random = np.random.RandomState(5)
    learner = learners.create(
        "doubly-stochastic",
        task="classification",
        seed=int(random.randint(2**31)),
        bandwidth=0.7,
        batch_size=8,
        max_features=512,
        block_size=512,
        classes=(0, 1),
    )
    for _ in range(2):
        order = random.permutation(len(X))
        learner.learn_many(X[order], y[order])
    assert np.array_equal(model.predict_proba(X), learner.predict_proba_many(X))


def test_a_metric_is_learned_in_fit_and_on_the_stream() -> None:
    X, y = make_friedman1(1_000, random_state=0)
    options: dict[str, Any] = {"metric": "diagonal", "first": 256, "swap_delay": 64}
    fitted = FeatureMachineRegressor(**options, random_state=0).fit(X, y)
    streamed = FeatureMachineRegressor(**options, random_state=0)
    for first in range(0, 1_000, 100):
        streamed.partial_fit(X[first : first + 100], y[first : first + 100])
    for model in (fitted, streamed):
        learner: Any = model.learner_
        assert learner.learner.n_takeovers > 0
        assert model.feature_importances_.sum() == pytest.approx(1.0)
        assert model.feature_importances_[:5].min() > model.feature_importances_[5:].max()


def test_importances_of_a_frame_are_those_of_its_columns() -> None:
    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame(
        {
            "noise": rng.normal(size=n),
            "town": rng.choice(["Rome", "Oslo", "Bonn"], n),
            "sign": rng.normal(size=n),
            "pair": [{"x": x, "y": y} for x, y in rng.normal(size=(n, 2))],
        }
    )
    y = (X["town"] == "Oslo") ^ (X["sign"] > 0)
    model = FeatureMachineClassifier(metric="diagonal", first=256, swap_delay=64, random_state=0)
    with pytest.raises(NotFittedError):
        _ = model.feature_importances_
    found = model.fit(X, y).feature_importances_
    assert found.shape == (model.n_features_in_,) == (4,)
    assert found.sum() == pytest.approx(1.0)
    assert found[[1, 2]].sum() > 0.9
    assert found[3] > 0.0
    by_number = pd.DataFrame(rng.normal(size=(n, 3)))
    model.fit(by_number, by_number[1] > 0)
    assert model.feature_importances_.argmax() == 1


ACCURATE: list[tuple[Any, dict[str, Any]]] = [
    (DoublyStochasticClassifier, {}),
    (NystromClassifier, {}),
    (EigenProClassifier, {"bandwidth": 2.0}),
    (KernelRidgeClassifier, {"bandwidth": 2.0}),
]


@pytest.mark.parametrize("made", [*(made for made, _ in ACCURATE), FeatureMachineClassifier])
def test_accuracy_of_classes(made: Any) -> None:
    assert cross_val_score(made(random_state=0), *moons(), cv=3).mean() > 0.95


@pytest.mark.parametrize(
    "made",
    [
        DoublyStochasticRegressor,
        EigenProRegressor,
        FeatureMachineRegressor,
        KernelRidgeRegressor,
        NystromRegressor,
    ],
)
def test_accuracy_of_numbers(made: Any) -> None:
    diabetes = load_diabetes(return_X_y=True)
    assert cross_val_score(made(random_state=0), *diabetes, cv=3).mean() > 0.4


def test_missing_values_are_the_median() -> None:
    X, y = moons()
    holes = X.copy()
    holes[::7, 1] = np.nan
    assert classifier().fit(holes, y).score(X, y) > 0.9
    model = classifier().fit(X, y)
    median = [[0.3, np.median(X[:, 1])]]
    found = model.predict_proba([[0.3, np.nan]])
    assert found == pytest.approx(model.predict_proba(median), abs=0.05)  # of a sample


# What it refuses


def test_partial_fit_wants_to_know_the_classes() -> None:
    X, y = moons()
    with pytest.raises(InvalidInput, match="classes= is needed"):
        classifier().partial_fit(X, y)
    model = classifier().partial_fit(X, y, classes=[0, 1, 2])
    model.partial_fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(InvalidInput, match="differ"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InvalidInput, match=r"label .*5.* is not one"):
        model.partial_fit(X, y + 5)


def test_partial_fit_goes_on_after_fit() -> None:
    X, y = moons()
    model = classifier(n_epochs=1).fit(X, y)
    before = model.decision_function(X)
    model.partial_fit(X, y)
    assert not np.array_equal(before, model.decision_function(X))
    assert np.array_equal(model.fit(X, y).decision_function(X), before)


def test_bad_options_and_data() -> None:
    X, y = moons()
    for n_epochs in (0, "a", 2.5):
        said = f"n_epochs={n_epochs!r} must be a whole number of at least 1"
        with pytest.raises(InvalidInput, match=said):
            classifier(n_epochs=n_epochs).fit(X, y)
    with pytest.raises(InvalidInput, match="gausian"):
        classifier(kernel="gausian").fit(X, y)
    with pytest.raises(InvalidInput, match="'linear' takes no bandwidth"):
        classifier(kernel="linear", bandwidth=2.0).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        classifier().fit(np.where(X > 1, np.inf, X), y)
    with pytest.raises(ValueError, match="3 features"):
        classifier().fit(X, y).predict(np.zeros((1, 3)))
    with pytest.raises(NotFittedError):
        regressor().predict(X)


# Copies and tools


def test_a_missing_scikit_learn_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "streamk.adapters.sklearn")
    with pytest.raises(ImportError, match=r"pip install 'streamk\[sklearn\]'"):
        importlib.import_module("streamk.adapters.sklearn")
