"""Adaptive conformal intervals and sets about River's models and ours."""

from __future__ import annotations

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
    linear_model,
    naive_bayes,
    preprocessing,
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
