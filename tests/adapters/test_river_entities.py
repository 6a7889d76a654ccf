"""River's estimators that know what entities did before."""

from __future__ import annotations

import copy
import pickle
import random
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from streamk.adapters.river import KernelClassifier, KernelRegressor
from streamk.errors import InvalidInput
from streamk.memory import entity_number
from streamk.prediction import compile as compiled


def payments(n: int = 300) -> list[tuple[dict[str, Any], bool]]:
    rng, time, found = random.Random(1), datetime(2026, 1, 1), []
    usual = [10 ** rng.uniform(0.5, 2.5) for _ in range(6)]
    for _ in range(n):
        time += timedelta(seconds=round(rng.expovariate(1 / 600)))
        user, odd = rng.randrange(6), rng.random() < 0.3
        amount = usual[user] * rng.lognormvariate(0.0, 0.2) * (5 if odd else 1)
        found.append(({"ts": time, "user": user, "amount": amount}, odd))
    return found


def model(**options: Any) -> KernelClassifier:
    given = {"entities": ("user",), "time": "ts", "seed": 1, "external_experts": [], **options}
    return KernelClassifier(**given)


def test_it_knows_the_past_of_what_it_has_learned() -> None:
    events = payments()
    one, plain, hits, its = model(), model(entities=None, time=None), 0, 0
    for x, y in events:
        hits += one.predict_one(x) == y
        its += plain.predict_one({"amount": x["amount"]}) == y
        one.learn_one(x, y)
        plain.learn_one({"amount": x["amount"]}, y)
    assert hits > its + 30
    row = one._model.learner.tables[0].row(entity_number("3"))
    assert row["count"] == sum(x["user"] == 3 for x, _ in events)
    assert "user.amount.zscore = " in one.debug_one(events[-1][0])
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again.predict_proba_one(events[7][0]) == one.predict_proba_one(events[7][0])
    frame = pd.DataFrame([x for x, _ in events])
    many = model()
    many.learn_many(frame, pd.Series([y for _, y in events]))
    said = many.predict_proba_many(frame.tail(1)).to_dict("records")[0]
    assert said == pytest.approx(one.predict_proba_one(events[-1][0]))
    assert one.clone()._model.learner.tables[0].name == "user"
    assert "entities=('user',)" in repr(one)
    with pytest.raises(InvalidInput, match="cannot be compiled"):
        compiled(one, frame[["amount"]])


def test_options_that_are_refused() -> None:
    for options, match in (
        ({"entities": None}, "they need entities= too"),
        ({"entities": "user"}, "must be names of fields"),
        ({"entities": ("ts",)}, "must be names of fields"),
        ({"time": None, "spans": (60.0,)}, "time="),
        ({"max_entities": 0}, "max_entities"),
    ):
        with pytest.raises(InvalidInput, match=match):
            model(**options)
    with pytest.raises(InvalidInput, match="which name an entity"):
        model().learn_one({"user": [1]}, True)
    assert KernelRegressor(entities=("user",), seed=1)._model.learner.spans == ()
