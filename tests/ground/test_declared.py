"""Declared arrays: dtype, shape and domain, checked before anything is made of them."""

from __future__ import annotations

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
