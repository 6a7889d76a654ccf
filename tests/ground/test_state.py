"""States, and the arrays that they declare: what each must be, checked before it is used."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from streamk.declared import (
    ANY,
    FINITE,
    FLAGS,
    NON_NEGATIVE,
    POSITIVE,
    SHARES,
    Declared,
    Domain,
    count,
    listed,
    number,
    reading,
    taken,
    within,
)
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
    with pytest.raises(InvalidInput, match="not hold a dot"):
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


# --- declared arrays ------------------------------------------------------------------------------

PAIR = (
    Declared("weights", "float32", ("outputs", ("columns", 1))),
    Declared("rates", "float64", ("outputs",), POSITIVE),
)


def test_sizes_are_those_of_the_first_array_that_has_them() -> None:
    given = {"weights": np.ones((2, 4), np.float32), "rates": np.ones(2), "other": np.ones(9)}
    found, sizes = taken(PAIR, given, {}, "a model")
    assert sizes == {"outputs": 2, "columns": 3}
    assert set(found) == {"weights", "rates"}
    assert found["weights"] is given["weights"]
    assert [each.zeros(sizes).shape for each in PAIR] == [(2, 4), (2,)]
    assert [each.zeros(sizes).dtype for each in PAIR] == ["float32", "float64"]


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        ("rates", np.ones(3), r"'rates' of a model must have the shape \(2,\), not \(3,\)"),
        ("rates", np.ones((2, 1)), "1 axes"),
        ("rates", np.ones(2, int), "float64, not int64"),
        ("rates", np.array([1.0, 0.0]), "holds 0, below"),
        ("rates", np.array([1.0, np.nan]), "not finite"),
        ("rates", np.array([1.0, np.inf]), "not finite"),
        ("weights", np.ones((2, 0), np.float32), "too short"),
        ("weights", np.full((2, 4), 1e300), "more than float32 holds"),
        ("weights", None, "has no array 'weights'"),
    ],
)
def test_what_does_not_fit(name: str, array: Any, match: str) -> None:
    given: dict[str, Any] = {"weights": np.ones((2, 4), np.float32), "rates": np.ones(2)}
    given[name] = array
    if array is None:
        del given[name]
    with pytest.raises(StateError, match=match):
        taken(PAIR, given, {}, "a model")


def test_other_widths_of_a_kind_are_converted() -> None:
    found, _ = taken(PAIR, {"weights": np.ones((1, 1)), "rates": np.ones(1)}, {}, "a model")
    assert found["weights"].dtype == np.float32
    numbered = [Declared("of", "int32", ("n",))]
    assert taken(numbered, {"of": np.array([7])}, {}, "it")[0]["of"].dtype == np.int32
    with pytest.raises(StateError, match="more than int32 holds"):
        taken(numbered, {"of": np.array([2**40])}, {}, "it")


def test_a_known_size_is_not_taken_from_an_array() -> None:
    with pytest.raises(StateError, match=r"must have the shape \(3,\)"):
        taken(PAIR[1:], {"rates": np.ones(2)}, {"outputs": 3}, "a model")


@pytest.mark.parametrize(
    ("domain", "good", "bad"),
    [
        (FINITE, [-1e300, 1e300], [np.nan]),
        (ANY, [np.nan, 1.0], [np.inf]),
        (NON_NEGATIVE, [0.0, 1.0], [-1e-9]),
        (POSITIVE, [5e-324], [0.0]),
        (SHARES, [0.25, 0.75], [0.5, 0.6]),
        (Domain(0, 4, whole=True), [0.0, 4.0], [0.5]),
        (Domain(0, 4, whole=True), [0.0, 4.0], [5.0]),
        (Domain(1, 2, missing=True), [np.nan, 1.5], [np.nan, 0.0]),
        (Domain(infinite=True), [-np.inf, np.inf], [np.inf, np.nan]),
        (Domain(least=0, infinite=True), [0.0, np.inf], [-np.inf]),
    ],
)
def test_domains(domain: Domain, good: list[float], bad: list[float]) -> None:
    assert domain.fault(np.array(good)) is None
    assert domain.fault(np.array(bad)) is not None
    assert domain.fault(np.zeros((0, 2))) is None


def test_flags_and_whole_numbers() -> None:
    assert FLAGS.fault(np.array([True, False])) is None
    assert FLAGS.fault(np.array([0, 1])) is None
    assert FLAGS.fault(np.array([2])) is not None


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 2**60])
def test_counts(value: Any) -> None:
    assert count({"n": 3}, "n", "a model") == 3
    with pytest.raises(StateError, match="'n' of a model"):
        count({"n": value}, "n", "a model")


@pytest.mark.parametrize("value", [True, "1", None, -1.0, 10**400])
def test_numbers(value: Any) -> None:
    assert number({"r": 3}, "r", "a model", NON_NEGATIVE) == 3.0
    with pytest.raises(StateError, match="'r' of a model"):
        number({"r": value}, "r", "a model", NON_NEGATIVE)


def test_a_part_of_an_array_has_a_domain_of_its_own() -> None:
    array = np.array([[1.0, -1.0], [2.0, 3.0]])
    within(array[1], NON_NEGATIVE, "sums", "a model")
    with pytest.raises(StateError, match="array 'sums' of a model holds -1, below 0"):
        within(array[0], NON_NEGATIVE, "sums", "a model")


@pytest.mark.parametrize("value", [None, "ab", {"a": 1}, 3])
def test_lists(value: Any) -> None:
    assert listed({"n": ["a", 2]}, "n", "a model") == ["a", 2]
    with pytest.raises(StateError, match="'n' of a model must be a list"):
        listed({"n": value}, "n", "a model")


@pytest.mark.parametrize(
    "error", [KeyError("n"), TypeError("n"), OverflowError("n"), AttributeError("n")]
)
def test_what_a_header_makes_raise(error: Exception) -> None:
    with pytest.raises(StateError, match="header of a model does not fit"), reading("a model"):
        raise error
    with pytest.raises(StateError, match="wrong option"), reading("a model"):
        raise InvalidInput("wrong option")
    with pytest.raises(StateError, match=r"^as it is$"), reading("a model"):
        raise StateError("as it is")
