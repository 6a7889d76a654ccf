"""Weights of events: beside each other in `fit`, carried from one event to the next on a stream."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators_kit import of_river, of_sklearn
from hypothesis import given
from hypothesis import strategies as st
from river import compose, datasets, evaluate, metrics, preprocessing
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from streamk.adapters import river, sklearn
from streamk.adapters.rows import carried, merged, relative, repeats
from streamk.errors import InvalidInput

WEIGHED = [
    name for name in sklearn.__all__ if has_fit_parameter(getattr(sklearn, name)(), "sample_weight")
]
BESIDE_ALPHA = ("MekaClassifier", "MekaRidge")
"""Those whose weights count beside a regularization that is given, as scikit-learn's ridges have
it: all of them times a number are another alpha."""
RELATIVE = [name for name in WEIGHED if name not in BESIDE_ALPHA]
ON_STREAMS = [name for name in sklearn.__all__ if hasattr(getattr(sklearn, name), "partial_fit")]
IN_RIVER = [n for n in river.__all__ if hasattr(getattr(river, n), "learn_many")]

X, TEST = np.random.default_rng(0).normal(size=(2, 200, 3))
NUMBERS = 2 * X[:, 0] + np.sin(X[:, 1])


def labels(model: Any, points: Any = X) -> Any:
    if is_classifier(model):
        return np.where(points[:, 0] * points[:, 1] > 0, "p", "n")
    return 2 * points[:, 0] + np.sin(points[:, 1])


def said(model: Any) -> list[Any]:
    found = [model.predict(TEST).tolist()]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(TEST).tolist())
    return found


# In fit

REAL = np.random.default_rng(1).uniform(0, 2, 200)
WHOLE = np.random.default_rng(1).integers(0, 4, 200).astype(float)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize(
    ("weights", "factors"),
    [(REAL, (1 / REAL.sum(), 1e12)), (WHOLE, (1e-9, 7.3)), (np.ones(200), (7.3,))],
    ids=["real", "whole", "alike"],
)
def test_weights_times_a_number_are_the_same(name: str, weights: Any, factors: Any) -> None:
    model = of_sklearn(name)
    y = labels(model)
    expected = said(model.fit(X, y, sample_weight=weights))
    for factor in factors:
        assert said(model.fit(X, y, sample_weight=factor * weights)) == expected
    if weights.min() == weights.max():
        assert said(model.fit(X, y)) == expected


@pytest.mark.parametrize("name", WEIGHED)
def test_a_weight_of_0_is_as_if_the_event_were_not_there(name: str) -> None:
    model, twin = of_sklearn(name), of_sklearn(name)
    y = np.array(labels(model), dtype=object if is_classifier(model) else float)
    for weights in (WHOLE, (np.arange(200) % 3 > 0) * 0.25):
        there = weights > 0
        other = np.where(there, y, "other") if is_classifier(model) else np.where(there, y, 1e9)
        points = np.where(there[:, None], X, 1e9)
        model.fit(points, other, sample_weight=weights)
        twin.fit(X[there], y[there], sample_weight=weights[there])
        assert said(model) == said(twin)
        if is_classifier(model):
            assert model.classes_.tolist() == ["n", "p"]


@pytest.mark.parametrize("name", WEIGHED)
def test_a_weight_of_2_is_the_event_twice_wherever_it_stands(name: str) -> None:
    model, twin = of_sklearn(name), of_sklearn(name)
    y = labels(model)
    often = np.random.default_rng(2).permutation(np.repeat(np.arange(200), WHOLE.astype(int)))
    assert said(model.fit(X, y, sample_weight=WHOLE)) == said(twin.fit(X[often], y[often]))


@pytest.mark.parametrize("name", ["NystromRegressor", "MekaRidge"])
@pytest.mark.parametrize("as_frame", [False, True])
def test_zero_is_the_same_with_either_sign(name: str, as_frame: bool) -> None:
    model, y = of_sklearn(name), NUMBERS[:40]
    points = np.column_stack([X[:40, :1], np.zeros(40)])
    twice = np.concatenate([points, points * [1.0, -1.0]])
    if as_frame and name in ON_STREAMS:
        points, twice = pd.DataFrame(points), pd.DataFrame(twice)
    found = model.fit(points, y, sample_weight=2.0 - (np.arange(40) == 0)).predict(points)
    often = np.arange(80) != 40
    again = model.fit(twice[often], np.r_[y, y][often]).predict(points)
    assert np.array_equal(found, again)


def test_events_that_are_all_alike_stay_two() -> None:
    same = np.ones((3, 1))
    for weights in (None, np.array([1.0, 2.0, 1.0])):
        points, targets, found = merged(same, same[:, 0], weights)
        assert points is same
        assert len(targets) == 3
        assert found is weights


@pytest.mark.parametrize("name", ["KernelClassifier", "NystromClassifier"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("texts", [False, True])
def test_so_it_is_in_frames(name: str, library: Any, texts: bool) -> None:
    model, y = of_sklearn(name), labels(of_sklearn(name))
    columns: dict[str, Any] = {"a": X[:, 0], "b": X[:, 1]}
    if texts:
        columns["t"] = np.where(X[:, 2] > 0, "u", "v")
    often = np.random.default_rng(2).permutation(np.repeat(np.arange(200), WHOLE.astype(int)))
    frame, many = (
        library({k: v[some] for k, v in columns.items()}) for some in (slice(200), often)
    )
    P = model.fit(frame, y, sample_weight=WHOLE).predict_proba(frame)
    assert np.array_equal(P, model.fit(many, y[often]).predict_proba(frame))
    if not texts and name == "NystromClassifier":  # to others columns by name are others
        array = np.column_stack([columns["a"], columns["b"]])
        assert np.array_equal(P, model.fit(array, y, sample_weight=WHOLE).predict_proba(array))


@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_a_weight_that_cannot_be_is_refused(name: str, wrong: float) -> None:
    model = of_sklearn(name)
    weights = np.ones(200)
    weights[7] = wrong
    fits = [model.fit]
    if name in ON_STREAMS:
        fits.append(model.fit(X, labels(model)).partial_fit)
    for fit in fits:
        with pytest.raises(ValueError, match=r"(?i)nan|infinity|negative|finite"):
            fit(X, labels(model), sample_weight=weights)
        with pytest.raises(ValueError, match="200"):
            fit(X, labels(model), sample_weight=np.ones(199))
    with pytest.raises(ValueError, match="zero"):
        model.fit(X, labels(model), sample_weight=np.zeros(200))


def test_over_the_passes_fractions_even_out() -> None:
    y = NUMBERS
    weights = np.where(np.arange(200) < 100, 0.3, 1.7)
    model = of_sklearn("NystromRegressor", n_epochs=10).fit(X, y, sample_weight=weights)
    assert model.learner_.n_events == 2000


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=30),
    st.integers(1, 7),
)
def test_an_event_is_learned_as_often_as_its_weight_says(given: list[float], turns: int) -> None:
    weights = np.array(given)
    if not weights.any():
        with pytest.raises(InvalidInput, match="all sample weights are zero"):
            relative(weights)
        return
    found = relative(weights)
    np.testing.assert_allclose(found / found.max(), weights / weights.max(), rtol=2e-6, atol=1e-9)
    positive = found[found > 0]
    assert positive.mean() <= 4.0 + 1e-9
    assert np.array_equal(positive, np.rint(positive)) or positive.mean() == pytest.approx(1.0)
    times = np.array([repeats(found, turn, turns) for turn in range(turns)])
    assert (abs(times - found) < 1 + 1e-6).all()
    assert (abs(times.sum(axis=0) - turns * found) < 1 + 1e-6).all()
    assert (abs(times.sum(axis=1) - found.sum()) <= 1).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.floats(1e-6, 1e6))
def test_a_ratio_of_small_whole_numbers_is_found(counts: list[int], unit: float) -> None:
    whole = np.array(counts)
    if not whole.any():
        return
    whole //= np.gcd.reduce(whole)
    found = relative(whole * unit)
    if whole[whole > 0].mean() <= 4:
        assert found.tolist() == whole.tolist()
    else:
        assert found[found > 0].mean() == pytest.approx(1.0)


# On streams


@pytest.mark.parametrize("name", ON_STREAMS)
def test_fractions_are_carried_to_the_next_call(name: str) -> None:
    first = {"classes": ["n", "p"]} if is_classifier(of_sklearn(name)) else {}
    for weight, least in ((0.4, 8), (0.6, 12), (1.4, 28), (1.0, 20)):
        model = of_sklearn(name)
        y = labels(model)
        for i in range(20):
            row = slice(i, i + 1)
            model.partial_fit(X[row], y[row], **first, sample_weight=[weight])
            if i % 4 == 0:
                model = pickle.loads(pickle.dumps(model)) if i % 8 else copy.deepcopy(model)
                model.predict(TEST)
        assert abs(model.learner_.n_events - least) <= 1
        assert weight != 1.0 or model.learner_.n_events == 20


@pytest.mark.parametrize("name", ON_STREAMS)
def test_one_call_learns_as_several_do(name: str) -> None:
    one, two = of_sklearn(name), of_sklearn(name)
    first = {"classes": ["n", "p"]} if is_classifier(one) else {}
    weights, y = REAL * 1.5, labels(one)
    one.partial_fit(X, y, **first, sample_weight=weights)
    for some in (slice(0, 1), slice(1, 90), slice(90, 200)):
        two.partial_fit(X[some], y[some], **first, sample_weight=weights[some])
    assert said(one) == said(two)
    assert abs(one.learner_.n_events - weights.sum()) <= 1


def answers(model: Any) -> list[Any]:
    ask = getattr(model, "predict_proba_one", model.predict_one)
    return [ask(dict(zip("abc", row, strict=True))) for row in TEST[:20].tolist()]


def stream(model: Any) -> list[tuple[dict[str, float], Any, float]]:
    classes = hasattr(model, "predict_proba_one")
    weights = np.random.default_rng(3).choice([0.0, 0.3, 1.0, 1.5, 2.0], 120).tolist()
    return [
        (dict(zip("abc", x, strict=True)), ("p" if y > 0 else "n") if classes else y, w)
        for x, y, w in zip(X[:120].tolist(), NUMBERS.tolist(), weights, strict=False)
    ]


@pytest.mark.parametrize("name", IN_RIVER)
def test_learn_one_and_learn_many_take_weights_alike(name: str) -> None:
    one, many = of_river(name), of_river(name)
    events = stream(one)
    for n, (x, y, w) in enumerate(events):
        one.learn_one(x, y, w=w)
        one = one if n % 8 else pickle.loads(pickle.dumps(one))
    xs, ys, ws = (list(each) for each in zip(*events, strict=True))
    for library, some in ((pd, slice(0, 50)), (pl, slice(50, 120))):
        many.learn_many(
            library.DataFrame(xs[some]),
            library.Series(name="y", **{"data" if library is pd else "values": ys[some]}),
            w=library.Series(ws[some]),
        )
    assert answers(one) == answers(many)
    assert abs(one._model.learner.n_events - sum(ws)) <= 1
    twice, two = of_river(name), of_river(name)
    for x, y, _ in events:
        twice.learn_one(x, y, w=2)
        two.learn_one(x, y)
        two.learn_one(x, y)
    assert answers(twice) == answers(two)


def test_weights_of_classes_count_in_whatever_order_they_come() -> None:
    model = of_river("KernelClassifier")
    for k in range(40):
        model.learn_one({"a": float(k)}, "no", w=0.25)
        model.learn_one({"a": -float(k)}, "yes", w=1.75)
    assert model._model.learner.n_events == 80
    assert sorted(model._model.learner.classes) == ["no", "yes"]
    times, left = carried({}, ["no", "yes"] * 40, [0.25, 1.75] * 40)
    assert (sum(times[::2]), sum(times[1::2])) == (10, 70)
    assert left == {"no": 0.0, "yes": 0.0}


def test_an_event_that_is_carried_is_refused_as_another_is() -> None:
    model = of_river("KernelClassifier")
    model.learn_one({"a": 1.0}, "x")
    for w in (0.3, 1.0, 2.0):
        for x, y in (({"a": math.inf}, "x"), ({"a": 1.0}, None), ({"a": 1.0, "b": object()}, "x")):
            with pytest.raises(InvalidInput):
                model.learn_one(x, y, w=w)
    frame = pd.DataFrame({"a": [1.0, math.inf]})
    with pytest.raises(InvalidInput):
        model.learn_many(frame, pd.Series(["x", "x"]), w=0.1)
    assert model._model.learner.n_events == 1
    assert model._model.left == {}
    for w in (-1.0, math.nan, math.inf, "2", None, 1e7):
        with pytest.raises(InvalidInput, match="w="):
            model.learn_one({"a": 1.0}, "x", w=w)
    with pytest.raises(InvalidInput, match="1 events came with 2 weights"):
        model.learn_many(frame[:1], pd.Series(["x"]), w=[1.0, 2.0])


def test_an_event_of_weight_0_brings_nothing() -> None:
    model = of_river("KernelClassifier")
    model.learn_one({"new": object()}, "label", w=0)
    model.learn_one({"new": 1.0}, "label", w=0.0)
    assert model.predict_one({"new": 1.0}) is None
    assert model._model.learner.columns is None
    model.learn_many(pd.DataFrame({"a": [1.0], "t": ["x"]}), pd.Series(["up"]), w=0)
    assert model._model.learner.columns is None


def test_what_river_puts_around_models_passes_weights() -> None:
    model = of_river("KernelRegressor")
    pipeline = compose.Pipeline(preprocessing.StandardScaler(), model)
    pipeline.learn_one({"a": 1.0}, 1.0, w=3.0)
    assert model._model.learner.n_events == 3
    model = of_river("KernelClassifier")
    weighted = ((x, y, {"w": 0.5}) for x, y in datasets.Phishing().take(60))
    evaluate.progressive_val_score(weighted, model, metrics.Accuracy())
    assert abs(model._model.learner.n_events - 30) <= 1
    wrapped = river.ConformalClassifier(of_river("KernelClassifier"))
    wrapped.learn_one({"a": 1.0}, "x", w=2.0)
    assert wrapped.classifier._model.learner.n_events == 2


def test_clones_begin_without_what_is_left() -> None:
    model = of_sklearn("KernelClassifier")
    model.partial_fit(X[:1], ["p"], classes=["n", "p"], sample_weight=[0.4])
    assert model._model.left == {1: 0.4}
    assert not hasattr(clone(model), "_model")
    assert model.fit(X, labels(model))._model.left == {}
