"""The feature machine that a learner of many kernels has by default: where it is, and is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import stream
from state_kit import assert_same

from streamk.distributed import Sharded
from streamk.learners import FeatureMachine, MultiKernel, create, from_state


def default(kind: str, **options: Any) -> MultiKernel:
    task = "regression" if kind == "numbers" else "classification"
    return MultiKernel(**{"task": task, "seed": 3, **options})


def machine(model: MultiKernel) -> FeatureMachine:
    (found,) = model._mixture.external._learners
    assert isinstance(found, FeatureMachine)
    return found


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_it_is_a_machine_of_the_models_task_and_seed(task: str) -> None:
    for model in (MultiKernel(task=task, seed=3), create("multi-kernel", task=task, seed=3)):
        (one,) = model.external_experts
        assert (one["type"], one["task"], one["seed"]) == ("feature-machine", task, 3)
        assert one["max_width"] == 256
        given = MultiKernel(task=task, seed=3, external_experts=[FeatureMachine(task=task, seed=3)])
        other = {**given.external_experts[0], "max_width": 256}
        assert {**one, "max_width": 256} == other


@pytest.mark.parametrize("none", [[], ()])
def test_no_external_experts_are_none(none: Any) -> None:
    X, y = stream("two", 100)
    model = default("two", external_experts=none)
    model.learn_many(X, y)
    assert model.external_experts == []
    assert "external_experts" not in model.state().header["parts"]


def test_a_state_without_external_experts_opens_as_one() -> None:
    X, y = stream("two", 200)
    model = default("two", external_experts=[])
    model.learn_many(X[:100], y[:100])
    opened = from_state(model.state())
    assert opened.external_experts == []
    assert opened.for_shards() is opened
    model.learn_many(X[100:], y[100:])
    opened.learn_many(X[100:], y[100:])
    assert_same(model, opened)


# --- shards ---------------------------------------------------------------------------------------


def test_in_shards_there_is_none_by_default() -> None:
    model = Sharded(MultiKernel(seed=3, class_weight="balanced", classes=["a", "b"]))
    assert model.learner.external_experts == []
    alone = MultiKernel(seed=3, class_weight="balanced", classes=["a", "b"], external_experts=())
    assert_same(model.learner, alone)


@pytest.mark.parametrize(("kind", "columns"), [("two", None), ("numbers", ("a", "b", "c"))])
def test_shards_learn_as_one_without_the_experts_by_default(kind: str, columns: Any) -> None:
    X, y = stream(kind, 600)
    assert X.shape[1] == 3
    given, alone = (default(kind, columns=columns, external_experts=e) for e in (None, ()))
    if columns:
        given.decision_many(X[:5])
    models = [Sharded(each, shards=1) for each in (given, alone)]
    assert models[1].learner is alone
    said = [each.predict_then_learn_many(X, y).predictions for each in models]
    assert (given.n_events, alone.n_events) == (0, 600), "in its place there is one without it"
    np.testing.assert_array_equal(*said)
    assert_same(models[0].learner, alone)


def test_rounds_leave_the_learner_that_they_are_given_as_it_is() -> None:
    given = default("two", columns=("a", "b"))
    assert given.for_shards().external_experts == []
    assert len(given.external_experts) == 1
    assert_same(given.for_shards(), default("two", columns=("a", "b"), external_experts=()))


# --- wide tables ----------------------------------------------------------------------------------


def test_columns_that_come_late_have_it_rest_for_good() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(220, 300)), rng.choice(["a", "b"], 220)
    one, many = MultiKernel(seed=3), MultiKernel(seed=3)
    for model in (one, many):
        model.learn_many(X[:150, :200], y[:150])
        assert machine(model).n_takeovers > 0
        assert not machine(model).is_too_wide
        model.add_columns([f"late {n}" for n in range(100)])
        assert machine(model).is_too_wide
    kept = machine(many).nbytes
    many.learn_many(X[150:], y[150:])
    for x, label in zip(X[150:], y[150:], strict=True):
        one.learn_one(x, label)
    assert_same(one, many)
    assert machine(many).nbytes == kept < 100_000
    assert many._mixture.external._early.events.size == 0
    assert not any(many._mixture.external.active)
    again = from_state(many.state())
    assert machine(again).is_too_wide
    again.learn_many(X[:50], y[:50])
    many.learn_many(X[:50], y[:50])
    assert_same(again, many)


def test_a_wide_table_is_learned_as_without_it() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1_300, 260)), rng.choice(["a", "b"], 1_300)
    said = [
        MultiKernel(seed=3, external_experts=external).predict_then_learn_many(X, y).probabilities
        for external in ([], None)
    ]
    np.testing.assert_array_equal(said[0], said[1])


def test_many_classes_have_it_rest_for_good() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = [str(n) for n in np.arange(400) * 254 // 400]
    model = MultiKernel(seed=3)
    model.learn_many(X[:390], y[:390])
    assert not machine(model).is_too_wide
    model.learn_many(X[390:], [f"late {n}" for n in range(10)])
    assert machine(model).is_too_wide
    model.predict_many(X)
