"""States of models and of their parts: the same bits, and through JSON."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import numpy as np

from streamk.state import State

T = TypeVar("T")


def assert_same(one: Any, other: Any, but: str = "") -> None:
    """Assert that two learners are bit for bit the same, but for an entry of the header."""
    a, b = one.state(), other.state()
    assert {**a.header, but: None} == {**b.header, but: None}
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)


def through_json(state: State) -> State:
    """The state as it is after it was written and read."""
    header = json.loads(json.dumps(state.header, allow_nan=False))
    return State(header, {name: array.copy() for name, array in state.arrays.items()})


def reopened(one: T) -> T:
    """What comes of a state that has been JSON and arrays of its own."""
    found: T = type(one).from_state(through_json(one.state()))  # type: ignore[attr-defined]
    return found
