"""Events of River's estimators: those refused, their texts, and rows of data frames."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from engine_kit import same_model
from estimators_kit import people, rows_of

from streamk.adapters.river import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    KernelClassifier,
    KernelRegressor,
    NystromClassifier,
)
from streamk.errors import InvalidInput
from streamk.features.columns import OWN

Event = dict[Any, Any]

MAKERS = {
    "many kernels": lambda: KernelClassifier(seed=1),
    "one kernel": lambda: DoublyStochasticClassifier(max_features=256, seed=1),
    "landmarks": lambda: NystromClassifier(max_landmarks=16),
}


def learned(model: Any, events: Any) -> Any:
    for x, y in events:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("known", [0, 2])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ({"a": 1.0, "new": math.inf}, True),
        ({"a": 1.0, "new": "text", "other": -math.inf}, True),
        ({"a": 1.0, "new": 2.0}, None),
        ({"a": 1.0, "new": "text"}, 0.5),
    ],
)
def test_a_refused_event_leaves_nothing(
    name: str, known: int, many: bool, x: Event, y: Any
) -> None:
    events = [({"a": 1.0, "b": 1.0}, True), ({"a": 2.0, "b": 1.0}, False)]
    model = learned(MAKERS[name](), events[:known])
    before = pickle.dumps(model)
    learn = model.learn_many if many else model.learn_one
    with pytest.raises(InvalidInput):
        learn(*(pd.DataFrame([x]), pd.Series([y], dtype=object)) if many else (x, y))
    assert pickle.dumps(model) == before
    after = ({"a": 1.0, "b": 3.0}, True)
    other = learned(pickle.loads(before), [after])
    new = x | {"new": 1.0, "other": 1.0}
    assert learned(model, [after]).predict_proba_one(new) == other.predict_proba_one(new)


def test_a_number_that_is_refused_leaves_nothing() -> None:
    model = KernelRegressor(seed=1)
    before = pickle.dumps(model)
    with pytest.raises(InvalidInput, match="label"):
        model.learn_one({"a": 1.0}, math.nan)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("text", [False, True])
def test_what_comes_after_the_mini_batches_that_are_learned_leaves_nothing(text: bool) -> None:
    good = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"] if text else [1.0, 3.0]})
    late = pd.DataFrame({"a": [3.0, math.inf], "b": ["z", "late"] if text else [1.0, 3.0]})
    model, other = MAKERS["one kernel"](), MAKERS["one kernel"]()
    for one in (model, other):
        one.learn_many(good, pd.Series([True, False]))
    with pytest.raises(InvalidInput, match="'a' is inf"):
        model.learn_many(late, pd.Series([True, True]))
    other.learn_many(late[:1], pd.Series([True]))
    assert pickle.dumps(model) == pickle.dumps(other)


def of_texts() -> DoublyStochasticClassifier:
    return DoublyStochasticClassifier(max_features=64, block_size=64, seed=1)


def columns(model: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = model._model.learner.columns
    return found


def numbered(first: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": f"n{i}", "x": i % 3} for i in range(first, stop)]


def fed(model: Any, events: list[dict[str, Any]]) -> Any:
    for i, x in enumerate(events):
        model.learn_one(x, i % 2 == 0)
    return model


@pytest.fixture(scope="module")
def full() -> DoublyStochasticClassifier:
    """A model that has met twice as many texts as have columns of their own."""
    model: DoublyStochasticClassifier = fed(of_texts(), numbered(0, 2 * OWN))
    return model


def test_texts_that_share_a_column_are_predicted_by_it(full: DoublyStochasticClassifier) -> None:
    shares: dict[str, list[str]] = {}
    for i in range(OWN, 2 * OWN):
        x = {"id": f"n{i}", "x": 1}
        (name,) = full._model._table.read({"id": f"n{i}"}).cells
        shares.setdefault(str(name), []).append(str(x["id"]))
    one, other, *_ = next(texts for texts in shares.values() if len(texts) > 1)
    predicted = [full.predict_proba_one({"id": text, "x": 1}) for text in (one, other, "n0")]
    assert predicted[0] == predicted[1] != predicted[2]


def test_a_text_only_predicted_takes_no_column() -> None:
    model = fed(of_texts(), numbered(0, OWN - 1))
    nothing = model.predict_proba_one({"x": 1})
    for i in range(OWN):
        assert model.predict_proba_one({"id": f"other {i}", "x": 1}) == nothing
    model.learn_one({"id": "last", "x": 1}, True)
    assert "id=last" in columns(model)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("events", [OWN - 8, OWN + 8])
def test_a_copy_goes_on_with_the_same_columns(copied: Callable[[Any], Any], events: int) -> None:
    model = fed(of_texts(), numbered(0, events))
    twin = copied(model)
    for each in (model, twin):
        fed(each, numbered(events, events + 32))
    assert columns(twin) == columns(model)
    assert same_model(twin._model.learner, model._model.learner)


N = 60
ESTIMATORS: dict[str, Any] = {
    "classifier": lambda: KernelClassifier(seed=1),
    "regressor": lambda: KernelRegressor(seed=1),
    "one kernel": lambda: DoublyStochasticRegressor(seed=1, max_features=64, block_size=64),
}


def of(library: str, frame: pd.DataFrame) -> Any:
    if library == "pandas":
        return frame
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if library == "arrow":
        return table
    return pytest.importorskip("polars", reason="Polars is not installed").from_arrow(table)


def column(library: str, frame: pd.DataFrame, name: str) -> Any:
    table = of(library, frame[[name]])
    return table.column(name) if library == "arrow" else table[name]


LIBRARIES = ("pandas", "arrow", "polars")


@pytest.mark.parametrize(
    ("library", "made", "only_numbers"),
    [
        (library, made, (n + m) % 2 == 0)
        for n, library in enumerate(LIBRARIES)
        for m, made in enumerate(ESTIMATORS.values())
    ],
)
def test_a_frame_is_its_rows(library: str, made: Any, only_numbers: bool) -> None:
    frame = people(N)
    if only_numbers:
        frame = frame[["age", "visits", "member"]]
    rows = rows_of(frame)
    many, one = made(), made()
    numbers = isinstance(one, KernelRegressor | DoublyStochasticRegressor)
    y = pd.DataFrame({"y": np.arange(N) * 0.5 if numbers else np.arange(N) % 3 > 0})
    for part in (slice(0, 25), slice(25, N)):
        some = frame.iloc[part].reset_index(drop=True)
        labels = y.iloc[part].reset_index(drop=True)
        many.learn_many(of(library, some), column(library, labels, "y"))
    for row, label in zip(rows, y["y"].tolist(), strict=True):
        one.learn_one(row, label)
    assert many._model.learner.columns == one._model.learner.columns
    table = of(library, frame)
    found = many.predict_many(table)
    assert type(found) is type(column(library, y, "y"))
    expected = [one.predict_one(row) for row in rows]
    assert (found.to_pylist() if library == "arrow" else list(found)) == expected
    if not numbers:
        P = many.predict_proba_many(table)
        assert type(P) is type(table)
        proba = [one.predict_proba_one(row)[True] for row in rows]
        last = P.column(1).to_pylist() if library == "arrow" else np.asarray(P)[:, 1].tolist()
        assert last == proba


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_time_past_pythons_years_is_refused_by_name(library: str) -> None:
    table = pa.table({"a": [1.0, 2.0], "when": pa.array([0, 10**12], pa.timestamp("ms"))})
    far = table.set_column(1, "when", pa.array([0, 10**15], pa.timestamp("ms")))

    def of_it(some: pa.Table) -> Any:
        if library == "arrow":
            return some
        if library == "polars":
            return pytest.importorskip("polars", reason="needs Polars").from_arrow(some)
        return some.to_pandas()

    model, y = KernelClassifier(seed=1), column(library, pd.DataFrame({"y": [True, False]}), "y")
    model.learn_many(of_it(table), y)
    with pytest.raises(InvalidInput, match="column 'when'"):
        model.learn_many(of_it(far), y)
    model.learn_many(of_it(table), y)  # it goes on
