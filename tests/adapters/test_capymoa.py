"""CapyMOA's classifier and regressor: to the bit those of River, in CapyMOA's own evaluators."""

from __future__ import annotations

import doctest
import importlib
import io
import os
import shutil
import sys
from typing import Any

import numpy as np
import pytest

from streamk import learners
from streamk.adapters import river
from streamk.errors import InvalidInput

TASKS = ("classification", "regression")
SMALL: dict[str, Any] = {"external_experts": []}
CLASSES = ["two", "zero", "one", "never"]


@pytest.fixture(scope="module")
def adapter() -> Any:
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("CapyMOA needs Java")
    pytest.importorskip("capymoa", reason="CapyMOA is optional: pip install capymoa")
    return importlib.import_module("streamk.adapters.capymoa")


def stream(task: str, n: int = 300, *, nominal: bool = True) -> tuple[Any, list[Any]]:
    """A stream whose label stands first, and its events as River has them.

    There are numbers, some missing, and a nominal column.
    """
    from capymoa.stream import CSVStream

    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2)).round(3).astype(str)
    towns = rng.choice(["Rome", "Oslo", "Nice"], n) if nominal else rng.integers(0, 9, n)
    X = np.column_stack([X, towns.astype(str)])
    score = rng.normal(size=n) + (towns == towns[0])
    if nominal:
        X[rng.random(X.shape) < 0.05] = "?"
    classes = task == "classification"
    y = np.array(CLASSES)[np.digitize(score, (0, 1))] if classes else score.round(2)
    lines = ["label,b,a,town", *map(",".join, np.column_stack([y.astype(str), X]))]
    categories = {"town": ["Oslo", "Rome", "Nice"]} if nominal else {}
    if classes:
        categories["label"] = CLASSES
    events = [
        (
            {k: read(cell) for k, cell in zip(["b", "a", "town"], row, strict=True)},
            label,
        )
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    return CSVStream(io.StringIO("\n".join(lines) + "\n"), "label", categories, length=n), events


def read(cell: str) -> Any:
    return None if cell == "?" else cell if cell.isalpha() else float(cell)


def kinds(adapter: Any, task: str) -> tuple[Any, Any]:
    name = "KernelRegressor" if task == "regression" else "KernelClassifier"
    return getattr(adapter, name), getattr(river, name)


@pytest.mark.parametrize("options", [SMALL, pytest.param({}, id="default")])
@pytest.mark.parametrize("task", TASKS)
def test_an_instance_is_predicted_as_the_event_of_river(
    adapter: Any, task: str, options: dict[str, Any]
) -> None:
    made, of_river = kinds(adapter, task)
    found, events = stream(task)
    model, other = made(found.get_schema(), 7, **options), of_river(seed=7, **options)
    for (event, label), instance in zip(events, found, strict=True):
        if task == "regression":
            assert model.predict(instance) == other.predict_one(event)
        else:
            said, best = model.predict_proba(instance), other.predict_one(event)
            shares = other.predict_proba_one(event)
            expected = [shares.get(label, 0.0) for label in CLASSES] if shares else None
            assert (said if said is None else said.tolist()) == expected
            assert model.predict(instance) == (None if best is None else CLASSES.index(best))
        model.train(instance)
        other.learn_one(event, label)


@pytest.mark.parametrize("task", TASKS)
def test_an_evaluator_sees_the_predictions_of_arrays(adapter: Any, task: str) -> None:
    from capymoa.evaluation import prequential_evaluation

    found, events = stream(task, nominal=False)
    model = kinds(adapter, task)[0](schema=found.get_schema(), random_seed=2, **SMALL)
    results = prequential_evaluation(found, model, window_size=50, store_predictions=True)
    X = np.array([[event[name] for name in sorted(event)] for event, _ in events])
    labels = [label for _, label in events]
    learner = learners.create("multi-kernel", task=task, seed=2, **SMALL)
    learner.add_columns(["a", "b", "town"])
    said = learner.predict_then_learn_many(X, labels).predictions
    if task == "regression":
        assert results.predictions().tolist()[1:] == list(said)[1:]
        assert results.cumulative.rmse() > 0
    else:
        assert [CLASSES[i] for i in results.predictions()[1:]] == list(said)[1:]
        assert results.cumulative.accuracy() > 40


@pytest.mark.parametrize("task", TASKS)
def test_seeds_and_options(adapter: Any, task: str) -> None:
    def run(model: Any) -> Any:
        found = prequential_evaluation(events, model, store_predictions=True)
        return found.predictions().tolist()

    from capymoa.evaluation import prequential_evaluation

    made = kinds(adapter, task)[0]
    events, _ = stream(task)
    schema = events.get_schema()
    model = made(schema, random_seed=3, memory=False, **SMALL)
    assert model.get_params().keys() == made._options.keys() - {"schema", "random_seed"}
    again = made.from_params(schema, model.get_params(), 3)
    assert again.get_params() == model.get_params()
    assert run(model) == run(again)
    if task == "regression":
        assert run(made(schema, random_seed=4, memory=False, **SMALL)) != run(again)
    with pytest.raises(InvalidInput, match="bandwidth"):
        made(schema, bandwidth=1.0)
    with pytest.raises(InvalidInput, match="effort"):
        made(schema, effort=-1.0)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_not_learned(adapter: Any, task: str) -> None:
    from capymoa.core import LabeledInstance, RegressionInstance

    made = kinds(adapter, task)[0]
    found, _ = stream(task)
    schema = found.get_schema()
    kind = RegressionInstance if task == "regression" else LabeledInstance
    model, other = made(schema, **SMALL), made(schema, **SMALL)
    for instance in found:
        for one in (model, other):
            one.train(instance)
        model.train(kind.from_array(schema, instance.x, np.nan))
    assert model.predict(instance) == other.predict(instance)
    for town in (-1.0, 3.0):
        with pytest.raises(InvalidInput, match="'town' has no value number"):
            model.train(kind.from_array(schema, np.array([0.0, 0.0, town]), 0))
    if task == "classification":
        with pytest.raises(InvalidInput, match="no class number 4"):
            model.train(kind.from_array(schema, instance.x, 4))


def test_schemas_that_are_refused(adapter: Any) -> None:
    from capymoa.stream import Schema

    schemas = {task: stream(task)[0].get_schema() for task in TASKS}
    for task, schema in schemas.items():
        (other,) = set(TASKS) - {task}
        for given in (schema, None):
            with pytest.raises(InvalidInput, match=f"needs a schema for {other}"):
                kinds(adapter, other)[0](given)
    twice = Schema.from_custom(["a", "a", "y"], "y")
    with pytest.raises(InvalidInput, match="the same name"):
        adapter.KernelRegressor(twice)


def test_examples(adapter: Any) -> None:
    assert doctest.testmod(adapter).failed == 0


def test_what_to_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "capymoa", None)
    monkeypatch.delitem(sys.modules, "streamk.adapters.capymoa", raising=False)
    with pytest.raises(ImportError, match="pip install capymoa"):
        importlib.import_module("streamk.adapters.capymoa")
