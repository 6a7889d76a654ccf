"""Adaptive conformal intervals and sets about River's models and ours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from river import (
    checks,
    datasets,
    evaluate,
    forest,
    linear_model,
    metrics,
    naive_bayes,
    preprocessing,
    stream,
)

from streamk.adapters.river import (
    ConformalClassifier,
    ConformalRegressor,
    KernelClassifier,
    KernelRegressor,
)
from streamk.conformal import AdaptiveIntervals, AdaptiveSets, Said
from streamk.errors import InvalidInput


def regressor() -> Any:
    return preprocessing.StandardScaler() | linear_model.LinearRegression()


def classifier() -> Any:
    return preprocessing.StandardScaler() | naive_bayes.GaussianNB()


@pytest.mark.parametrize("kind", [ConformalRegressor, ConformalClassifier])
def test_rivers_own_checks(kind: Any) -> None:
    for arguments in kind._unit_test_params():
        checks.check_estimator(kind(**arguments))


def test_intervals_are_those_of_the_errors() -> None:
    rng = np.random.default_rng(0)
    events = [({"a": float(v)}, float(3 * v + rng.normal())) for v in rng.normal(size=500)]
    model, plain = ConformalRegressor(regressor(), 0.8), regressor()
    said, found = [], []
    for x, y in events:
        interval = model.predict_one(x, with_interval=True)
        said.append(plain.predict_one(x))
        assert model.predict_one(x) == said[-1]
        found.append([interval.lower, interval.upper])
        model.learn_one(x, y)
        plain.learn_one(x, y)
    intervals, predictions = AdaptiveIntervals(0.8), Said(np.array(said))
    thresholds = intervals.follow(predictions, [y for _, y in events])
    expected = intervals.regions(predictions, thresholds)
    assert found[0] == [-math.inf, math.inf]
    assert expected[0] is None
    assert found[1:] == expected[1:]


def test_a_regressor_without_a_prediction_has_an_interval_without_bounds() -> None:
    model = ConformalRegressor(forest.AMFRegressor(n_estimators=2, seed=1))
    for n in range(30):
        interval = model.predict_one({"a": float(n)}, with_interval=True)
        assert (n > 1) or (interval.lower, interval.upper) == (-math.inf, math.inf)
        model.learn_one({"a": float(n)}, float(n))
    assert math.isfinite(interval.upper - interval.lower)


def test_sets_are_those_of_the_probabilities() -> None:
    model, plain = ConformalClassifier(classifier(), 0.8), classifier()
    sets = AdaptiveSets(0.8)
    for x, y in datasets.ImageSegments().take(300):
        P = plain.predict_proba_one(x)
        found = model.predict_set_one(x)
        assert model.predict_proba_one(x) == P
        assert model.predict_one(x) == plain.predict_one(x)
        if P:
            answer = np.array([max(P, key=lambda label: P[label])], object)
            said = Said(answer, np.array([list(P.values())]), tuple(P))
            thresholds = sets.thresholds(1)
            assert found == sets.regions(said, thresholds)[0]
            assert found[0] == answer[0]
            sets.learn(said, [y], thresholds, [0])
        else:
            assert found == []
        model.learn_one(x, y)
        plain.learn_one(x, y)


@pytest.mark.parametrize("delay", [pytest.param(0, marks=pytest.mark.nightly), 48])
def test_they_hold_what_they_promise_though_the_stream_drifts(delay: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    turned = np.arange(4000) // 1000 % 2 * 2 - 1
    y = turned * X[:, 0] + rng.normal(size=4000) * (1 + 2 * (turned > 0))
    pairs = [({"a": float(a), "b": float(b)}, float(v)) for (a, b), v in zip(X, y, strict=True)]
    number = ConformalRegressor(KernelRegressor(seed=1), confidence_level=0.9)
    label = ConformalClassifier(KernelClassifier(seed=1), confidence_level=0.9)
    held: list[tuple[bool, bool]] = []
    said: dict[int, tuple[Any, list[Any]]] = {}
    for n, x, truth in stream.simulate_qa(pairs, moment=None, delay=delay or None):
        if truth is None:
            said[n] = number.predict_one(x, with_interval=True), label.predict_set_one(x)
            continue
        interval, classes = said.pop(n)
        held.append((truth in interval, (truth > 0) in classes))
        number.learn_one(x, truth)
        label.learn_one(x, truth > 0)
    shares = np.mean(held[100:], axis=0)
    assert np.all(np.abs(shares - 0.9) < 0.02)


def test_they_stand_where_their_models_do() -> None:
    model = ConformalClassifier(KernelClassifier(seed=1))
    twin = KernelClassifier(seed=1)
    data = list(datasets.Phishing().take(300))
    found = [
        evaluate.progressive_val_score(data, one, metrics.Accuracy()).get() for one in (model, twin)
    ]
    assert found[0] == found[1]
    assert isinstance(model.clone(), ConformalClassifier)
    with pytest.raises(InvalidInput, match=r"level=1\.5"):
        ConformalRegressor(regressor(), 1.5)
