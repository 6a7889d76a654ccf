"""States of models and of their parts: the same bits, and through JSON."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import numpy as np

from streamk.state import State

T = TypeVar("T")


def assert_same(one: Any, other: Any) -> None:
    """Assert that the states of two are the same, bit for bit."""
    a, b = one.state(), other.state()
    assert a.header == b.header
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)


def reopened(one: T) -> T:
    """What comes of a state that has been JSON and arrays of its own."""
    state: State = one.state()  # type: ignore[attr-defined]
    header = json.loads(json.dumps(state.header, allow_nan=False))
    arrays = {name: array.copy() for name, array in state.arrays.items()}
    found: T = type(one).from_state(State(header, arrays))  # type: ignore[attr-defined]
    return found
