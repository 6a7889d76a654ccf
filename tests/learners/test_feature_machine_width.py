"""A feature machine with a bound of columns and classes: beyond it, it rests for good."""

from __future__ import annotations

import numpy as np
import pytest

from streamk.errors import StateError
from streamk.learners import FeatureMachine, from_state


def made(max_width: int | None, task: str = "classification") -> FeatureMachine:
    return FeatureMachine(task=task, max_width=max_width, first=64, swap_delay=16)


def learned(max_width: int | None, columns: int = 6) -> FeatureMachine:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, columns))
    model = made(max_width)
    model.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    return model


def test_up_to_the_bound_it_changes_nothing() -> None:
    X = np.random.default_rng(1).normal(size=(50, 6))
    bound, free = learned(8), learned(None)
    assert not bound.is_too_wide
    assert bound.n_takeovers > 0
    np.testing.assert_array_equal(bound.decision_many(X), free.decision_many(X))


def test_beyond_it_everything_is_given_up() -> None:
    model = learned(8)
    before = model.nbytes
    model.add_columns(["late"])
    again = from_state(model.state())
    assert isinstance(again, FeatureMachine)
    X = np.random.default_rng(1).normal(size=(100, 7))
    for each in (model, again):
        assert each.is_too_wide
        assert each.rests
        np.testing.assert_array_equal(each.predict_proba_many(X), np.full((100, 2), 0.5))
        each.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
        each.wake()
        assert each.rests
        assert each.n_events == 300
        assert each.nbytes < before / 10
        assert not each.is_solving
    assert model.state().header == again.state().header
    state = model.state()
    state.header["rests"] = False
    with pytest.raises(StateError, match="does not rest"):
        from_state(state)


def test_one_that_is_being_made_is_given_up() -> None:
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(70, 6)), made(8)
    model.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    assert model.is_solving
    model.add_columns(["late"])
    assert not model.is_solving
    X = rng.normal(size=(70, 7))
    model.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    assert model.n_takeovers == 0


def test_classes_count_as_columns_do() -> None:
    model = learned(8)
    X = np.random.default_rng(1).normal(size=(3, 6))
    model.learn_many(X, ["a", "late", "b"])
    assert model.is_too_wide
    assert model.classes == ("b", "a", "late") or model.classes == ("a", "b", "late")
    assert model.predict_proba_many(X).shape == (3, 3)


def test_numbers_are_predicted_as_nothing() -> None:
    X = np.random.default_rng(1).normal(size=(100, 5))
    model = made(4, "regression")
    model.learn_many(X, X[:, 0])
    assert model.is_too_wide
    np.testing.assert_array_equal(model.predict_many(X), np.zeros(100))


def test_merging_takes_in_the_other_columns() -> None:
    one, two = learned(8), learned(8)
    X = np.random.default_rng(1).normal(size=(30, 6))
    y = np.where(X[:, 0] > 0.0, "a", "b")
    one.learn_many(X, y)
    two.add_columns(["late"])
    two.learn_many(np.hstack([X, X[:, :1]]), y)
    one.merge(two, common_events=200)
    assert one.is_too_wide
    assert one.n_events == 260
