"""Many kernels as scikit-learn estimators, and the forms in which events come to any of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from estimators_kit import people, rows_of
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import (
    load_digits,
    make_friedman1,
    make_moons,
)
from sklearn.exceptions import NotFittedError

from streamk.adapters import river
from streamk.adapters import sklearn as here
from streamk.adapters.sklearn import (
    DoublyStochasticClassifier,
    KernelClassifier,
    KernelRegressor,
)
from streamk.errors import InvalidInput
from streamk.learners import MultiKernel


def moons() -> tuple[Any, Any]:
    return make_moons(400, noise=0.2, random_state=0)


def labels(frame: pd.DataFrame) -> NDArray[Any]:
    return np.where((frame["town"] == "Rome") ^ frame["member"], "yes", "no")


# What they are


def test_fit_is_one_pass_of_many_kernels_in_a_random_order() -> None:
    X, y = moons()
    model = KernelClassifier(random_state=5).fit(X, y)
    random = np.random.RandomState(5)
    learner = MultiKernel(seed=int(random.randint(2**31)), classes=(0, 1))
    order = random.permutation(len(X))
    learner.learn_many(X[order], y[order])
    assert np.array_equal(model.predict_proba(X), learner.predict_proba_many(X))
    assert np.array_equal(model.predict(X), learner.predict_many(X).astype(int))
    assert model.n_features_in_ == 2


def test_intervals_are_the_learner_s() -> None:
    X, y = make_friedman1(100, random_state=0)
    model = KernelRegressor(random_state=0).partial_fit(X, y)
    interval = model.predict_interval(X, 0.8)
    assert np.array_equal(interval, model.learner_.predict_interval_many(X, 0.8))
    assert np.allclose(interval, model.predict_quantile(X, [0.1, 0.9]), rtol=1e-12)
    with pytest.raises(InvalidInput, match="level"):
        model.predict_interval(X, 2.0)


@pytest.mark.parametrize("name", sorted({*here.__all__} & {*river.__all__}))
def test_a_class_of_one_name_is_one_model_in_river_and_here(name: str) -> None:
    """With the same options; those of one kernel have other defaults for passes over the data."""
    X, target = make_friedman1(80, random_state=0)
    numbers = name.endswith("Regressor")
    y = target if numbers else target > np.median(target)
    options: dict[str, Any] = {} if name.startswith("Kernel") else {"bandwidth": 0.5}
    if name.startswith("Nystrom"):
        options["optimizer"] = "sgd"
        model, other = getattr(here, name)(**options), getattr(river, name)(**options)
    else:
        if name.startswith("Doubly"):
            options |= {"batch_size": 1, "step": 0.5}
        elif name.startswith("EigenPro"):
            options |= {"batch_size": 16}
        seed = int(np.random.RandomState(0).randint(2**31))
        model = getattr(here, name)(**options, random_state=0)
        other = getattr(river, name)(**options, seed=seed)
    model.partial_fit(X, y, *([] if numbers else [[False, True]]))
    rows = [dict(enumerate(x)) for x in X.tolist()]
    for x, label in zip(rows, y.tolist(), strict=True):
        other.learn_one(x, label)
    if numbers:
        found, expected = model.predict(X), [other.predict_one(x) for x in rows]
    else:
        found = model.predict_proba(X)[:, 1]
        expected = [other.predict_proba_one(x)[True] for x in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"b": 3.0}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_are_those_that_are_predicted(class_weight: Any, n_classes: int) -> None:
    X, _ = moons()
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [0.5] if n_classes == 2 else [0.0, 1.0])]
    model = KernelClassifier(class_weight=class_weight, random_state=0)
    with pytest.raises(NotFittedError):
        model.decision_function(X)
    F = model.fit(X, y).decision_function(X)
    assert F.shape == ((len(X),) if n_classes == 2 else (len(X), 3))
    best = (F > 0).astype(int) if n_classes == 2 else F.argmax(axis=1)
    assert np.array_equal(model.predict(X), model.classes_[best])


def test_weights_are_by_the_label() -> None:
    X, y = moons()
    kinds = np.array(["no", "yes"])[y]
    plain = KernelClassifier(random_state=0).fit(X, kinds)
    model = KernelClassifier(class_weight={"yes": 20.0}, random_state=0).fit(X, kinds)
    assert np.array_equal(plain.predict_proba(X), model.predict_proba(X))
    assert np.mean(model.predict(X) == "yes") > np.mean(plain.predict(X) == "yes")
    with pytest.raises(InvalidInput, match="'perhaps'"):
        KernelClassifier(class_weight={"perhaps": 2.0}).fit(X, kinds)


# Weights


# The forms of events


@pytest.mark.parametrize("made", [KernelClassifier, DoublyStochasticClassifier])
def test_sparse_rows_are_dense_ones(made: Any) -> None:
    X, y = load_digits(return_X_y=True)
    some = slice(0, 1100)  # more than a part
    dense = made(random_state=0).fit(X[some], y[some])
    other = made(random_state=0).fit(sparse.csr_array(X[some]), y[some])
    assert np.array_equal(dense.predict_proba(X), other.predict_proba(sparse.csr_matrix(X)))
    for model, rows in ((dense, X[some]), (other, sparse.coo_array(X[some]))):
        model.partial_fit(rows, y[some])
    assert np.array_equal(dense.predict(X), other.predict(X))


@pytest.mark.parametrize("library", ["pandas", "arrow", "polars"])
def test_a_frame_is_learned_as_in_river(library: str) -> None:
    frame = people()
    y = labels(frame)
    table: Any = frame
    if library == "arrow":
        table = pa.Table.from_pandas(frame)
    if library == "polars":
        table = pytest.importorskip("polars", reason="Polars is not installed").from_pandas(frame)
    model = KernelClassifier(random_state=0).partial_fit(table, y, classes=["no", "yes"])
    seed = int(np.random.RandomState(0).randint(2**31))
    one = river.KernelClassifier(seed=seed)
    one._model.learner = MultiKernel(seed=seed, classes=("no", "yes"))
    for event, label in zip(rows_of(frame), y.tolist(), strict=True):
        one.learn_one(event, label)
    assert model.learner_.columns == one._model.learner.columns
    assert model.feature_names_in_.tolist() == list(frame.columns)
    expected = [list(one.predict_proba_one(event).values()) for event in rows_of(frame)]
    assert np.array_equal(model.predict_proba(table), expected)
    twin = pickle.loads(pickle.dumps(model))
    assert np.array_equal(twin.predict_proba(table), expected)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"age": "years"}))


def test_fit_learns_a_frame_in_a_random_order() -> None:
    frame = people(200)
    y = labels(frame)
    model = KernelClassifier(random_state=3).fit(frame, y)
    order = np.random.RandomState(3)
    order.randint(2**31)
    places = order.permutation(len(frame))
    twin = KernelClassifier(random_state=3)
    twin.partial_fit(frame.iloc[places], y[places], classes=["no", "yes"])
    assert np.array_equal(model.predict_proba(frame), twin.predict_proba(frame))
    assert model.score(frame, y) > 0.9


def test_a_frame_of_numbers_and_its_array() -> None:
    X, y = make_friedman1(1500, random_state=0)
    X[::7, 3] = np.nan
    frame = pd.DataFrame(X, columns=[f"x{n}" for n in range(X.shape[1])])
    model = KernelRegressor(random_state=0).fit(frame, y)
    with pytest.warns(UserWarning, match="feature names"):
        found = model.predict(X)
    assert np.array_equal(found, model.predict(frame))
    fitted = KernelRegressor(random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="feature names"):
        found = fitted.predict(frame)
    assert np.array_equal(found, fitted.predict(X))


def test_bad_frames() -> None:
    frame = people()
    y = labels(frame)
    with pytest.raises(InvalidInput, match="0 sample"):
        KernelClassifier().fit(frame.iloc[:0], [])
    with pytest.raises(ValueError, match="inconsistent"):
        KernelClassifier().fit(frame, y[1:])
    with pytest.raises(InvalidInput, match="'age' is inf"):
        KernelClassifier().fit(frame.assign(age=np.inf), y)
    with pytest.raises(InvalidInput, match="'age'"):
        KernelClassifier().fit(frame.assign(age=[b"x"] * len(frame)), y)
