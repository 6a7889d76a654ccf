"""Estimators of River and scikit-learn that know what entities did before."""

from __future__ import annotations

import copy
import pickle
import random
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_kit import attached, same_model
from sklearn.base import clone

from connectors.memory import MemorySource
from streamk.adapters import sklearn
from streamk.adapters.river import KernelClassifier, KernelRegressor
from streamk.adapters.rows import Model
from streamk.adapters.sklearn.streams import drawn_seed
from streamk.errors import InvalidInput
from streamk.learners import MultiKernel
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


def framed(events: list[tuple[dict[str, Any], bool]]) -> tuple[pd.DataFrame, list[bool]]:
    return pd.DataFrame([x for x, _ in events]), [y for _, y in events]


def batches(kind: Any = sklearn.KernelClassifier, **options: Any) -> Any:
    given = {"entities": ("user",), "time": "ts", "random_state": 1, "external_experts": []}
    return kind(**{**given, **options})


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
        ({"entities": None}, "time='ts' is for entities; it needs entities= too"),
        ({"entities": None, "time": None, "max_entities": 9}, "max_entities=9 is for entities"),
        ({"entities": "user"}, "must be a sequence of names: \\('user',\\)"),
        ({"entities": ("ts",)}, "time='ts' is among entities="),
        ({"time": None, "spans": (60.0,)}, "they need time= too"),
        ({"max_entities": 0}, "max_entities"),
    ):
        with pytest.raises(InvalidInput, match=match):
            model(**options)
        with pytest.raises(InvalidInput, match=match):
            batches(**options).fit(*framed(payments(9)))
    with pytest.raises(InvalidInput, match="which name an entity"):
        model().learn_one({"user": [1]}, True)
    assert KernelRegressor(entities=("user",), seed=1)._model.learner.spans == ()


@pytest.mark.parametrize("is_classifier", [True, False])
def test_one_model_by_every_way(is_classifier: bool) -> None:
    """As River learns it event by event, as batches are cut, as a fit has it, as a job."""
    events = [({**x, "shop": f"s{x['user'] % 4}"}, y) for x, y in payments()]
    if not is_classifier:
        events = [(x, 3.0 * y + x["amount"]) for x, y in events]
    known, asked = framed(events[:280]), framed(events[280:])[0]
    options: dict[str, Any] = {"entities": ["user", "shop"], "spans": (60.0, 3600.0)}
    kind = sklearn.KernelClassifier if is_classifier else sklearn.KernelRegressor
    fitted = batches(kind, **options).fit(*known)
    said = fitted.predict_proba(asked) if is_classifier else fitted.predict(asked)
    parts = clone(fitted)
    for first in range(0, 280, 70):
        more = {"classes": [False, True]} if is_classifier else {}
        some = slice(first, first + 70)
        parts.partial_fit(known[0][some], known[1][some], **more)
        parts.predict(asked)
    parts = pickle.loads(pickle.dumps(parts))
    assert same_model(parts.learner_, fitted.learner_)
    seed = drawn_seed(1)
    classes = range(2) if is_classifier else ()
    task: Any = "classification" if is_classifier else "regression"
    given: dict[str, Any] = {"external_experts": (), "seed": seed, "task": task}
    learner = MultiKernel(classes=classes, **given)
    records = [{**x, "y": int(y) if is_classifier else y} for x, y in events[:280]]
    job = attached(
        MemorySource(records),
        learner,
        label="y",
        entity=("user", "shop"),
        time="ts",
        spans=(60.0, 3600.0),
    ).run()
    rows = Model(job.model, job.schema).rows([x for x, _ in events[280:]])
    its = job.model.predict_proba_many(rows) if is_classifier else job.model.predict_many(rows)
    np.testing.assert_array_equal(said, its)
    river = KernelClassifier if is_classifier else KernelRegressor
    one = river(**options, time="ts", seed=seed, external_experts=[])
    for x, y in events[:280]:
        one.learn_one(x, y)
    for (x, _), expected in zip(events[280:], said, strict=True):
        found = [*one.predict_proba_one(x).values()] if is_classifier else one.predict_one(x)
        np.testing.assert_array_equal(found, expected)


def test_labels_by_their_times_are_one_model_by_every_way() -> None:
    events = [({"ts": x["ts"], "amount": x["amount"]}, 3.0 * y) for x, y in payments()]
    known, asked = framed(events[:280]), framed(events[280:])[0]
    fitted = batches(sklearn.KernelRegressor, entities=None).fit(*known)
    parts = clone(fitted)
    for first in range(0, 280, 70):
        some = slice(first, first + 70)
        parts.partial_fit(known[0][some], known[1][some])
    seed = drawn_seed(1)
    learner = MultiKernel(external_experts=(), seed=seed, task="regression")
    records = [{**x, "y": y} for x, y in events[:280]]
    job = attached(MemorySource(records), learner, label="y", time="ts").run()
    assert job.model.clock == "ts@elapsed"
    one = KernelRegressor(time="ts", seed=seed, external_experts=[])
    for x, y in events[:280]:
        one.learn_one(x, y)
    rows = Model(job.model, job.schema).rows([x for x, _ in events[280:]])
    said = [model.predict(asked) for model in (fitted, parts)]
    said += [job.model.predict_many(rows), [one.predict_one(x) for x, _ in events[280:]]]
    for found in said[1:]:
        np.testing.assert_array_equal(found, said[0])


def test_arrays_have_no_fields() -> None:
    X, y = framed(payments(20))
    for made in (batches(), batches(sklearn.KernelRegressor, entities=None)):
        with pytest.raises(InvalidInput, match="X is not a data frame; pass pandas"):
            made.fit(X[["user", "amount"]].to_numpy(), y)
    made = batches().fit(X, y)
    assert made.decision_function(X).shape == (20,)
    with pytest.raises(InvalidInput, match="cannot be compiled"):
        compiled(made, X[["amount"]])
