"""`streamk.prediction.dc_pred`, `compile`, and the models they make."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import dc_pred as naive

from streamk import prediction
from streamk.errors import InvalidInput, StateError
from streamk.prediction import CompiledModel, dc_pred, load
from streamk.state import State

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")


def events(n: int = 1500, d: int = 3, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))


def labels(X: Any, classes: int = 2) -> Any:
    if classes == 2:
        return np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    return ((np.arctan2(X[:, 0], X[:, 1]) + np.pi) / (2.001 * np.pi) * classes).astype(int)


SMALL: dict[str, Any] = {"leaves": 4, "landmarks": 8, "iterations": 30}


@pytest.mark.parametrize(("classes", "trees"), [(2, 1), (5, 2)])
def test_classes(classes: int, trees: int) -> None:
    X, test = events(), events(seed=1)
    model = dc_pred(X, labels(X, classes), trees=trees, **SMALL)
    expected = labels(test, classes)
    found = model.predict_many(test)
    assert (found == expected).mean() > 0.93
    P = model.predict_proba_many(test)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert (np.array(model.classes, object)[P.argmax(axis=1)] == found).all()
    assert model.predict_one(test[0]) == found[0]
    assert model.predict_proba_one(test[0]) == dict(zip(model.classes, P[0], strict=True))
    assert type(model.predict_one(test[0])) is type(model.classes[0])


def test_a_budget_is_kept() -> None:
    X = events(d=20)
    y = labels(X)
    costs = [dc_pred(X, y, budget=budget, iterations=5).cost for budget in (4.0, 16.0)]
    assert costs[0] <= 4.0 < costs[1] <= 16.0
    with pytest.raises(InvalidInput, match=r"budget=0\.5 allows for fewer"):
        dc_pred(X, y, budget=0.5)


def test_the_seed_alone_decides() -> None:
    X = events()
    first, same, other = (dc_pred(X, labels(X), seed=seed, **SMALL) for seed in (1, 1, 2))
    assert np.array_equal(first.kernels.numbers, same.kernels.numbers)
    assert not np.array_equal(first.kernels.numbers, other.kernels.numbers)


def test_missing_values_count_as_the_mean_without_the_tails() -> None:
    X = events()
    model = dc_pred(X, labels(X), **SMALL)
    with_holes, filled = X[:5].copy(), X[:5].copy()
    with_holes[:, 1] = np.nan
    ordered = np.sort(X[:, 1])  # a thousandth of 1,500 events on each side are two
    filled[:, 1] = np.clip(X[:, 1], ordered[2], ordered[-3]).mean()
    np.testing.assert_allclose(model.decision_many(with_holes), model.decision_many(filled))
    X[::3, 2] = np.nan
    assert (dc_pred(X, labels(X), **SMALL).predict_many(X) == labels(X)).mean() > 0.9


def test_constant_columns_and_far_events() -> None:
    X = np.concatenate([events(), np.full((1500, 1), 7.0)], axis=1)
    model = dc_pred(X, labels(X), **SMALL)
    far = np.array([[1e300, -1e300, 1e12, 1e300], [1e9, 1e9, 0.0, -5.0]])
    assert np.isfinite(model.decision_many(far)).all()
    np.testing.assert_allclose(model.predict_proba_many(far).sum(axis=1), 1.0)


@pytest.mark.parametrize("unit", [1e-280, 1e307])
def test_columns_in_any_unit(unit: float) -> None:
    X = events(300)
    few = {"leaves": 2, "landmarks": 6, "iterations": 5}
    plain = dc_pred(X, labels(X), **few)
    scaled = dc_pred(X * [unit, 1.0, 1.0], labels(X), **few)
    np.testing.assert_allclose(
        scaled.decision_many(X * [unit, 1.0, 1.0]), plain.decision_many(X), rtol=1e-3, atol=1e-3
    )


def test_columns_without_any_number() -> None:
    """A column that was always missing, or too small to be scaled, counts for nothing later."""
    X = np.concatenate([events(300), np.full((300, 1), np.nan), np.full((300, 1), -1e308)], axis=1)
    X[::2, 4] = np.nan
    model = dc_pred(X, labels(X), leaves=2, landmarks=6, iterations=5)
    others = X[:4].copy()
    others[:, 3:] = [[5.0, 0.0], [-1e308, 1e308], [1e308, np.nan], [np.nan, 1.0]]
    assert np.array_equal(model.decision_many(others), model.decision_many(X[:4]))
    nothing = dc_pred(np.full((4, 2), np.nan), list("abab"), leaves=2, landmarks=6)
    np.testing.assert_allclose(nothing.predict_proba_many([[1.0, np.nan]]), [[0.5, 0.5]])


@pytest.mark.parametrize("n", [2, 6])
def test_few_events_within_a_budget(n: int) -> None:
    X = events(n)
    model = dc_pred(X, np.arange(n) % 2, iterations=5)
    assert (model.predict_many(X) == np.arange(n) % 2).all()
    numbers = dc_pred(X, X[:, 0], task="regression", iterations=5)
    assert np.isfinite(numbers.predict_many(X)).all()


@pytest.mark.parametrize("products", [0, 5])
def test_early_prediction_of_algorithm_2(products: int) -> None:
    """The leaf's model alone predicts, whose weights are ridge regression on the leaf's events."""
    X = events(400)
    y = np.sin(3.0 * X[:, 0]) * X[:, 1]
    paper = {"halo": 0.0, "balance": 0.0, "iterations": 0, "trees": 1}
    model = dc_pred(X, y, task="regression", leaves=5, landmarks=7, products=products, **paper)
    kernels, test = model.kernels, events(50, seed=1)
    expected = y.mean() + y.std() * np.array([naive.early_prediction(x, kernels) for x in test])
    np.testing.assert_allclose(model.predict_many(test), expected, atol=1e-4)

    Z = (X - kernels.shift) * kernels.factor
    own = [naive.leaf_of(z, kernels.normals, kernels.offsets, kernels.children) for z in Z]
    assert set(own) == set(range(5))
    for leaf in range(5):
        rows, there = np.flatnonzero(np.array(own) == leaf), naive.unpacked(kernels, leaf)
        targets = (y[rows] - y.mean()) / y.std()
        weights, mean = naive.trained_weights(Z[rows], targets, there, 1e-2)
        np.testing.assert_allclose(there.bias, mean, atol=1e-6)
        np.testing.assert_allclose(there.weights[:, 0], weights, rtol=2e-3, atol=1e-3)
        low, high = Z[rows].min(axis=0), Z[rows].max(axis=0)
        landmarks = there.landmarks / there.scale
        assert len(landmarks) == 7
        assert ((landmarks > low - 1e-5) & (landmarks < high + 1e-5)).all()


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (events(5), ["a"] * 5, {}, "all labels are 'a'"),
        (events(5), list("abab"), {}, "must have shape"),
        (events(5), [1, 2, 1, None, 2], {}, "row 3"),
        (events(4), [1.5, 2.0, 1.0, 2.0], {}, "row 0, 1.5"),
        (events(4), [1.5, 2.0, np.nan, 2.0], {"task": "regression"}, "row 2"),
        (events(4), list("abab"), {"task": "regression"}, "must be numbers"),
        (np.array([[1.0], [np.inf]]), [0, 1], {}, "column 0 of row 1"),
        (np.empty((0, 2)), [], {}, "0 events"),
        (np.ones(3), [0, 1, 0], {}, "shape"),
        ([["x"], ["y"]], [0, 1], {}, "numbers"),
        (events(4), list("abab"), {"leaves": 0}, "leaves=0"),
        (events(4), list("abab"), {"landmarks": 2.5}, "landmarks"),
        (events(4), list("abab"), {"balance": 0.7}, "balance"),
        (events(4), list("abab"), {"task": "ranking"}, "task"),
        (events(4), list("abab"), {"columns": ["a"]}, "1 names"),
        (events(4), list("abab"), {"importance": [1.0]}, "importance"),
    ],
)
def test_bad_input(X: Any, y: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        dc_pred(X, y, **{"leaves": 2, "landmarks": 2, "iterations": 1, **options})


def test_bad_events_to_predict() -> None:
    model = dc_pred(events(50), labels(events(50)), columns=["a", "b", "c"], leaves=1, landmarks=3)
    with pytest.raises(InvalidInput, match="column 'b' of row 1 is inf"):
        model.predict_many([[0.0, 0.0, 0.0], [0.0, np.inf, 0.0]])
    with pytest.raises(InvalidInput, match=r"shape \(1, 2\)"):
        model.predict_one([0.0, 1.0])
    with pytest.raises(InvalidInput, match="shape"):
        model.predict_one(3.0)
    numbers = dc_pred(events(50), events(50)[:, 0], task="regression", leaves=1, landmarks=3)
    assert (numbers.task, numbers.classes) == ("regression", ())
    with pytest.raises(InvalidInput, match="no probabilities"):
        numbers.predict_proba_many(events(5))


def test_a_file(tmp_path: Path) -> None:
    X = events()
    model = dc_pred(X, labels(X), columns=["a", "b", 3], **SMALL)
    path = tmp_path / "model.safetensors"
    model.save(path)
    model.save(path)
    again = load(path)
    assert again.columns == ("a", "b", 3)
    assert again.classes == model.classes
    assert np.array_equal(again.decision_many(X), model.decision_many(X))
    assert np.array_equal(again.predict_proba_many(X), model.predict_proba_many(X))
    assert again.cost == model.cost
    assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.decision_many(X), model.decision_many(X))
    with pytest.raises(InvalidInput, match="cannot be read"):
        load(tmp_path / "none")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StateError, match="damaged"):
        load(path)
    with pytest.raises(InvalidInput, match="cannot be written"):
        model.save(tmp_path / "no" / "such" / "directory")


@cache
def _small_state() -> State:
    X = events()
    return dc_pred(X, labels(X, 5), trees=2, products=3, **SMALL).state()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("children", lambda a: a[::-1]),
        ("roots", lambda a: a[:0]),
        ("roots", lambda a: a - 1),
        ("absent", lambda a: a + 10.0),
        ("children", lambda a: np.where(a == a.max(), 0, a)),
        ("children", lambda a: np.where(a == a.min(), -100, a)),
        ("leaves", lambda a: a + np.array([100, 0, 0, 0, 0, 0])),
        ("leaves", lambda a: a * np.array([2**50, 1, 1, 1, 1, 1])),
        ("leaves", lambda a: a + np.array([0, 0, 0, 16, 0, 0])),
        ("leaves", lambda a: a * np.array([1, 1, 0, 1, 1, 1])),
        ("leaves", lambda a: a - 1),
        ("pairs", lambda a: a + 1000),
        ("pairs", lambda a: a[:-1]),
        ("outputs", lambda a: a + 5),
        ("numbers", lambda a: a[:-16]),
        ("numbers", lambda a: a * np.float32(np.nan)),
        ("shift", lambda a: a[:-1]),
        ("visits", lambda a: a + 1.0),
        ("normals", lambda a: a[:-1]),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name: str, change: Any) -> None:
    state = _small_state()
    arrays = {**state.arrays, name: np.ascontiguousarray(change(state.arrays[name]))}
    with pytest.raises(StateError, match="compiled model"):
        CompiledModel.from_state(State(state.header, arrays))


def test_compile_takes_estimators_and_learners() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC

    from streamk.learners import create

    X = events(400, d=2)
    for y, teacher in (
        (labels(X), SVC()),
        (labels(X, 5), HistGradientBoostingClassifier(max_iter=10)),
    ):
        teacher.fit(X, y)
        fast = prediction.compile(teacher, X, budget=20)
        assert fast.cost <= 20
        assert (fast.predict_many(X) == teacher.predict(X)).mean() > 0.9
    ridge = KernelRidge(kernel="rbf", gamma=1.0).fit(X, X[:, 0] * X[:, 1])
    fast = prediction.compile(ridge, X, budget=20)
    assert np.mean((fast.predict_many(X) - ridge.predict(X)) ** 2) < 1e-2
    learner = create("multi-kernel", task="classification", external_experts=())
    learner.learn_many(X, labels(X))
    fast = prediction.compile(learner, X, budget=20)
    assert fast.columns == learner.columns
    assert set(fast.classes) == {"same", "other"}
    assert (fast.predict_many(X) == np.asarray(learner.predict_many(X))).mean() > 0.9


class Teacher:
    """A model of two classes that says what it is given."""

    def __init__(self, P: Any, classes: Any) -> None:
        self.P, self.classes_ = np.asarray(P), np.array(classes)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.P.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        return self.P


@pytest.mark.parametrize(
    ("P", "classes", "message"),
    [
        ([[0.5, 0.5], [np.nan, 1.0]], [0, 1], "probabilities of row 1"),
        ([[1.5, -0.5], [0.0, 1.0]], [0, 1], "probabilities of row 0"),
        ([[1.0], [1.0]], [0, 1], r"shape \(2, 1\) do not fit 2 classes"),
        ([[0.5, 0.5], [0.0, 1.0]], [0.5, 1.5], "whole numbers"),
        ([[1.0], [1.0]], [0], "two are needed"),
    ],
)
def test_what_a_model_says_is_checked(P: Any, classes: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        prediction.compile(Teacher(P, classes), events(2))


def test_what_cannot_be_compiled() -> None:
    from sklearn.linear_model import LinearRegression

    X = events(50)
    with pytest.raises(InvalidInput, match="neither predict_many"):
        prediction.compile(object(), X)
    with pytest.raises(InvalidInput, match="predicts 2 numbers"):
        prediction.compile(LinearRegression().fit(X, X[:, :2]), X)
