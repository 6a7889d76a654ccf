"""An event that a River estimator refuses leaves nothing behind, not even its columns."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pandas as pd
import pytest

from streamk.adapters.river import (
    DoublyStochasticClassifier,
    KernelClassifier,
    KernelRegressor,
    NystromClassifier,
)
from streamk.errors import InvalidInput

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
