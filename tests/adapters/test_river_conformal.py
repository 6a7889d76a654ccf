"""Adaptive conformal intervals and sets about River's models and ours."""

from __future__ import annotations

import itertools
import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import (
    base,
    checks,
    datasets,
    forest,
    linear_model,
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


# --- models that have diverged, and those that decide in their own way ----------------------------


class Says(base.Regressor, base.Classifier):
    """A model that predicts what it is given, and counts what it learns."""

    def __init__(self, answer: Any, probabilities: Any = None) -> None:
        self.answer, self.probabilities, self.learned = answer, probabilities, 0

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        self.learned += 1

    def predict_one(self, x: Any, **kwargs: Any) -> Any:
        return self.answer

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
        return dict(self.probabilities)


UNKNOWN = [None, math.nan, math.inf, -math.inf, np.float64("nan"), 10**400]
LARGEST = sys.float_info.max


@pytest.mark.parametrize("unknown", UNKNOWN, ids=lambda one: repr(one)[:12])
def test_about_no_number_an_interval_has_no_bounds(unknown: Any) -> None:
    model = ConformalRegressor(Says(unknown), 0.8)
    for n in range(30):
        model.learn_one({}, float(n))
        interval = model.predict_one({}, with_interval=True)
        assert (interval.lower, interval.upper) == (-math.inf, math.inf)
        assert 5.0 in interval
    assert model.predict_one({}) is unknown
    assert model.regressor.learned == 30
    model.regressor.answer = 3.0
    for n in range(30):
        model.learn_one({}, float(n % 6))
    interval = model.predict_one({}, with_interval=True)
    assert -1 < interval.lower < 3 < interval.upper < 7, "as if there had been no others"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.sampled_from([*UNKNOWN, LARGEST, -LARGEST]), st.floats()),
            st.one_of(st.sampled_from([LARGEST, -LARGEST, math.inf, math.nan]), st.floats()),
        ),
        min_size=12,
        max_size=60,
    )
)
def test_whatever_is_predicted_the_model_learns(pairs: list[tuple[Any, float]]) -> None:
    model = ConformalRegressor(Says(None), 0.8)
    for answer, y in pairs:
        model.regressor.answer = answer
        interval = model.predict_one({}, with_interval=True)
        assert interval.lower <= interval.upper, "neither is NaN"
        if isinstance(answer, float) and math.isfinite(answer):
            assert answer in interval
        model.learn_one({}, y)
    assert model.regressor.learned == len(pairs)
    json.dumps(model._intervals.to_json(), allow_nan=False)


def test_errors_past_the_largest_number_are_learned_as_it() -> None:
    """And once they are past, intervals have bounds again."""
    model = ConformalRegressor(Says(LARGEST), 0.8)
    for _ in range(20):
        model.learn_one({}, -LARGEST)
    model.regressor.answer = 0.0
    for n in range(2000):
        model.learn_one({}, 0.5 + n % 3)
    interval = model.predict_one({}, with_interval=True)
    assert -4 < interval.lower < 0 < interval.upper < 4


def sets(model: Any, label: Any, n: int = 40) -> list[Any]:
    """The set of an event after so many that had one label."""
    for _ in range(n):
        model.learn_one({}, label)
    found: list[Any] = model.predict_set_one({})
    return found


@pytest.mark.parametrize(
    ("answer", "probabilities", "label", "expected"),
    [
        ("b", {"a": 0.9, "b": 0.1}, "b", ["b"]),
        ("b", {"a": 0.9, "b": 0.1}, "a", ["a", "b"]),
        ("b", {"a": 0.5, "b": 0.5}, "b", ["b"]),
        ("new", {"a": 0.9, "b": 0.1}, "a", ["a", "new"]),
        ("new", {}, "a", ["new"]),
        (None, {}, "a", []),
        (None, {"a": 0.9, "b": 0.1}, "a", ["a"]),
        ("b", {"a": math.nan, "b": math.nan}, "a", ["a", "b"]),
        ("b", {"a": math.nan, "b": 1.0}, "a", ["a", "b"]),
        ("c", {"a": math.inf, "b": 1.0}, "a", ["a", "b", "c"]),
        ("a", {"a": 0.0, "b": 1.0 + 1e-9}, "b", ["b", "a"]),
        ("a", {"a": -0.5, "b": 1.5}, "b", ["b", "a"]),
        (1, {0: 0.9, 1: 0.1}, 1, [1]),
        (True, {False: 0.9, True: 0.1}, True, [True]),
    ],
)
def test_the_class_that_is_predicted_is_in_the_set(
    answer: Any, probabilities: Any, label: Any, expected: list[Any]
) -> None:
    model = ConformalClassifier(Says(answer, probabilities), 0.8)
    assert sets(model, label) == expected
    assert model.classifier.learned == 40


def test_sets_of_a_model_that_weighs_its_classes() -> None:
    rng = np.random.default_rng(1)
    model = ConformalClassifier(KernelClassifier(seed=1, class_weight={"fraud": 15.0}), 0.9)
    held, differ = [], 0
    for _ in range(1200):
        x = {"a": rng.normal(), "b": rng.normal()}
        y = "fraud" if x["a"] + rng.normal() > 2.2 else "none"
        found, answer = model.predict_set_one(x), model.predict_one(x)
        P = model.predict_proba_one(x)
        differ += bool(P) and answer != max(P, key=lambda label: P[label])
        assert answer is None or answer in found
        assert len(set(found)) == len(found)
        assert all(P[one] >= P[other] for one, other in itertools.pairwise(found))
        held.append(y in found)
        model.learn_one(x, y)
    assert differ > 50
    assert np.mean(held[200:]) > 0.89


@pytest.mark.parametrize("y", [None, math.nan, ["a"], {"a"}, 1.0])
def test_of_an_event_that_the_model_refuses_nothing_is_learned(y: Any) -> None:
    models: list[tuple[Any, Any]] = [
        (ConformalClassifier(KernelClassifier(seed=1, external_experts=[])), "a"),
        (ConformalRegressor(KernelRegressor(seed=1, external_experts=[])), 2.0),
    ]
    for model, usual in models:
        for n in range(20):
            model.learn_one({"x": float(n)}, usual if n % 2 else type(usual)(3))
        regions = model._sets if isinstance(model, ConformalClassifier) else model._intervals
        before = json.dumps(regions.to_json())
        wrong = {"w": -1.0} if y == 1.0 else {}
        with pytest.raises((InvalidInput, TypeError)):
            model.learn_one({"x": 1.0}, usual if wrong else y, **wrong)
        assert json.dumps(regions.to_json()) == before
