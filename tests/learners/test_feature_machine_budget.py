"""What a feature machine may spend: operations that are counted, never timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from state_kit import assert_same

from streamk.errors import InvalidInput, StateError
from streamk.learners import FeatureMachine, MultiKernel
from streamk.learners.rfm import schedule
from streamk.learners.rfm.schedule import Budget, search_cost
from streamk.state import State

SMALL: dict[str, Any] = {"first": 64, "buffer_size": 256, "reservoir_size": 2_000, "rounds": 1}


def events(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X = np.random.default_rng(0).normal(size=(n, 4))
    return X, X[:, 0] * X[:, 1]


def opened(monkeypatch: pytest.MonkeyPatch, functions: float) -> None:
    """Have an opening that pays for so many functions of 128 events."""
    monkeypatch.setattr(schedule, "_OPENING", int(functions * search_cost(128, 128, 4, 1, 10)))


def test_what_is_earned_and_spent() -> None:
    budget, free = Budget(0.5), Budget(None)
    budget.learn(256, 10, 3, centers=0, grows=False)
    assert budget.spent == 0, "what is left is no more than the opening"
    assert budget.pays(schedule._OPENING // 2)
    assert not budget.pays(schedule._OPENING), "half of an effort has half of it"
    budget.spend(schedule._OPENING)
    budget.learn(256, 10, 3, centers=0, grows=False)
    rested = budget.spent
    assert rested < schedule._OPENING
    budget.learn(256, 10, 3, centers=3_000, grows=False)
    asked = budget.spent
    budget.learn(256, 10, 3, centers=3_000, grows=True)
    assert 0 < asked - rested < budget.spent - asked
    free.spend(10 * schedule._OPENING)
    assert free.pays(schedule._OPENING)


@pytest.mark.parametrize(("effort", "functions"), [(None, 9.0), (1e-3, 2.5), (1e-3, 0.3)])
def test_functions_are_begun_as_far_as_they_are_paid_for(
    monkeypatch: pytest.MonkeyPatch, effort: float | None, functions: float
) -> None:
    opened(monkeypatch, functions / (effort or 1.0))
    X, y = events(1_200)
    model = FeatureMachine(**SMALL, task="regression", effort=effort)
    model.learn_many(X, y)
    if effort is None:
        assert model.last_beginning == 512
    else:
        assert model.last_beginning == (128 if functions > 1.0 else 0)
        assert not model._function.grows


def test_a_function_that_is_late_is_begun_with_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = events(400)
    opened(monkeypatch, 99.0)
    model = FeatureMachine(**SMALL, task="regression", effort=500.0)
    model._budget.spend(500 * schedule._OPENING)
    model.learn_many(X[:255], y[:255])
    assert model.last_beginning == 0
    model.learn_many(X[255:], y[255:])
    assert model.last_beginning == 256


@pytest.mark.parametrize("effort", [0.0, 1.0, None])
def test_cuts_and_states_change_no_bit(
    monkeypatch: pytest.MonkeyPatch, effort: float | None
) -> None:
    opened(monkeypatch, 2.5)
    X, y = events(900)
    models = []
    for sizes in ((900,), (1,) * 900, (100, 27, 200, 573)):
        model, at = FeatureMachine(**SMALL, task="regression", effort=effort), 0
        for size in sizes:
            model.learn_many(X[at : at + size], y[at : at + size])
            at += size
            if at % 300 == 0 or size > 1:
                model = FeatureMachine.from_state(model.state())
        models.append(model)
    for other in models[1:]:
        assert_same(models[0], other)


def test_no_effort_is_no_machine() -> None:
    X, y = events(300)
    one = MultiKernel(task="regression", effort=0)
    other = MultiKernel(task="regression", external_experts=())
    assert one.external_experts == []
    said = [each.predict_then_learn_many(X, y).predictions for each in (one, other)]
    assert np.array_equal(*said)
    given = MultiKernel(task="regression", effort=3.0).external_experts
    assert [expert["effort"] for expert in given] == [3.0]


def test_efforts_and_what_is_spent_are_checked() -> None:
    for make in (MultiKernel, FeatureMachine):
        with pytest.raises(InvalidInput, match="effort=-1"):
            make(effort=-1)
    state = FeatureMachine().state()
    for spent in (-1, 0.5, "much", None):
        with pytest.raises(StateError, match="'spent'"):
            FeatureMachine.from_state(State({**state.header, "spent": spent}, state.arrays))
