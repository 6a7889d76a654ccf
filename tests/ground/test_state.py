"""The contract that every learner's state keeps."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian
from streamk.landmarks import IncrementalOasis
from streamk.state import State

HEADER: dict[str, Any] = {"type": "linear", "format": 1}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format": 1}, '"type"'),
        ({"type": 3}, '"type"'),
        ({**HEADER, "loss": math.nan}, "plain JSON"),
        ({**HEADER, "coef": np.zeros(2)}, "plain JSON"),
        ({**HEADER, "n": np.int64(3)}, "plain JSON"),
    ],
)
def test_a_header_that_is_no_header(header: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        State(header)


@pytest.mark.parametrize(
    "array", [[1.0, 2.0], np.array(["a"]), np.array([None]), np.array([1j]), "text"]
)
def test_an_array_that_cannot_be_stored(array: Any) -> None:
    with pytest.raises(InvalidInput, match="'coef'"):
        State(HEADER, {"coef": array})


def test_nbytes_counts_the_arrays() -> None:
    arrays: dict[str, Any] = {"a": np.zeros(3, np.float32), "b": np.zeros((2, 2))}
    assert State(HEADER, arrays).nbytes == 3 * 4 + 4 * 8


def test_parts_come_back_as_they_were_nested() -> None:
    leaf = State(HEADER, {"coef": np.arange(3.0)})
    scaler = State({"type": "scaler"}, {"coef": np.zeros(1), "n": np.ones(1)})
    middle = State.nest({"learner": leaf, "scaler": scaler}, {"type": "scaled"})
    whole = State.nest({"0": middle, "1": leaf}, {"type": "several", "n": 2})

    assert set(whole.arrays) == {"0.learner.coef", "0.scaler.coef", "0.scaler.n", "1.coef"}
    assert whole.header["n"] == 2
    back = whole.child("0")
    assert back.header == middle.header
    assert back.arrays.keys() == middle.arrays.keys()
    assert back.child("learner").header == leaf.header
    assert back.child("learner").arrays["coef"] is leaf.arrays["coef"]


def test_a_nested_state_explains_itself() -> None:
    leaf = State(HEADER)
    with pytest.raises(InvalidInput, match="no dot"):
        State.nest({"a.b": leaf}, {"type": "several"})
    with pytest.raises(InvalidInput, match='"parts"'):
        State.nest({"a": leaf}, {"type": "several", "parts": {}})
    with pytest.raises(StateError, match="no part 'b'; it has 'a'"):
        State.nest({"a": leaf}, {"type": "several"}).child("b")


@pytest.mark.parametrize("other", [0, 2, True, "1", None])
def test_a_state_of_another_format_is_refused_at_any_depth(other: Any) -> None:
    with pytest.raises(StateError, match=f"this 'linear' state has format {other!r}"):
        State({"type": "linear", "format": other})
    nested = State({"type": "several", "parts": {"a": {"type": "linear", "format": other}}})
    with pytest.raises(StateError, match=f"this 'linear' state has format {other!r}"):
        nested.child("a")


def test_a_header_has_the_format_of_today() -> None:
    assert State({"type": "linear"}).header == HEADER


def test_expect_lets_no_other_type_through() -> None:
    state = State(HEADER)
    assert state.expect("linear") is state
    with pytest.raises(StateError, match="of a 'linear', not of a 'scaler'"):
        state.expect("scaler")


def test_a_state_pickles() -> None:
    state = pickle.loads(pickle.dumps(State(HEADER, {"coef": np.arange(3.0)})))
    assert state.header == HEADER
    np.testing.assert_array_equal(state.arrays["coef"], np.arange(3.0))


COPIES = [
    pytest.param(copy.copy, id="copy"),
    pytest.param(copy.deepcopy, id="deepcopy"),
    pytest.param(lambda model: pickle.loads(pickle.dumps(model)), id="pickle"),
]


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_of_landmarks_goes_on_by_itself(copied: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    landmarks = IncrementalOasis(Gaussian(), max_landmarks=10, half_life=30)
    landmarks.learn_many(X[:20])
    before = landmarks.points
    twin = copied(landmarks)
    twin.learn_many(X[20:])
    np.testing.assert_array_equal(landmarks.points, before)
    landmarks.learn_many(X[20:])
    np.testing.assert_array_equal(landmarks.points, twin.points)
