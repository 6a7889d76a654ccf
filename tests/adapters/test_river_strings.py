"""Texts in the events of the River estimators: a column each, as long as there are few."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import same_model

from streamk.adapters.river import DoublyStochasticClassifier
from streamk.errors import InvalidInput
from streamk.features.columns import OWN, SHARED


def classifier() -> DoublyStochasticClassifier:
    return DoublyStochasticClassifier(max_features=64, block_size=64, seed=1)


def columns(model: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = model._model.learner.columns
    return found


def numbered(first: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": f"n{i}", "x": i % 3} for i in range(first, stop)]


def learned(model: Any, events: list[dict[str, Any]]) -> Any:
    for i, x in enumerate(events):
        model.learn_one(x, i % 2 == 0)
    return model


@pytest.fixture(scope="module")
def full() -> DoublyStochasticClassifier:
    """A model that has met twice as many texts as have columns of their own."""
    model: DoublyStochasticClassifier = learned(classifier(), numbered(0, 2 * OWN))
    return model


def test_ever_new_texts_need_no_ever_new_columns(full: DoublyStochasticClassifier) -> None:
    names = {name for name in columns(full) if name != "x"}
    assert {f"id=n{i}" for i in range(OWN)} < names
    shared = names - {f"id=n{i}" for i in range(OWN)}
    assert 1 < len(shared) <= SHARED
    assert all(re.fullmatch(r"id=#\d\d?", name) and int(name[4:]) < SHARED for name in shared)
    before = len(columns(full))
    more = learned(copy.deepcopy(full), numbered(10_000, 10_000 + 16 * SHARED))
    assert before <= len(columns(more)) <= 1 + OWN + SHARED


def test_the_columns_of_texts_are_the_same_in_every_process() -> None:
    model = learned(classifier(), numbered(0, OWN))
    model.learn_one({"id": "the first that shares", "x": 0}, True)
    assert columns(model)[-1] == "id=#51"


def test_each_column_has_its_own_count(full: DoublyStochasticClassifier) -> None:
    model = copy.deepcopy(full)
    model.learn_one({"id": "n0", "x": 1, "colour": "red"}, True)
    assert columns(model)[-1] == "colour=red"


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
    model = learned(classifier(), numbered(0, OWN - 1))
    nothing = model.predict_proba_one({"x": 1})
    for i in range(OWN):
        assert model.predict_proba_one({"id": f"other {i}", "x": 1}) == nothing
    model.learn_one({"id": "last", "x": 1}, True)
    assert "id=last" in columns(model)


def test_a_bad_event_takes_no_column() -> None:
    model = learned(classifier(), numbered(0, OWN - 1))
    with pytest.raises(InvalidInput, match="'x'"):
        model.learn_one({"id": "bad", "x": [[1]]}, True)
    model.learn_one({"id": "last", "x": 1}, True)
    assert "id=last" in columns(model)
    assert "id=bad" not in columns(model)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("events", [OWN - 8, OWN + 8])
def test_a_copy_goes_on_with_the_same_columns(copied: Callable[[Any], Any], events: int) -> None:
    model = learned(classifier(), numbered(0, events))
    twin = copied(model)
    for each in (model, twin):
        learned(each, numbered(events, events + 32))
    assert columns(twin) == columns(model)
    assert same_model(twin._model.learner, model._model.learner)
