"""States of many kernels that an older streamk wrote, in the names of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamk.state import State

_GAINS = 6
"""The format from which on the costs of banks have a number for each external expert."""
_RENAMED = 5
"""The format of the learner from which on the names below are as they are now."""
_PARTS = {"guests": "external_experts"}
_TYPE = "external-experts"
_POOL = {
    "loudness": "inverse_temperatures",
    "awake": "active",
    "account": "bank_costs",
    "top": "mixer_weights",
    "sleeping": "trials",
}
"""Arrays of the pool and of its reviews."""


def with_names_of_today(state: State) -> State:
    """Return a learner's state in which parts and arrays have the names that they have now.

    Raises
    ------
    TypeError, KeyError
        If the header is not that of a learner.
    """
    header: dict[str, Any] = dict(state.header)
    if header["format"] < _GAINS:
        state = _with_gains(state, header)
    if header["format"] >= _RENAMED:
        return state
    header.setdefault("loss", None)
    header["parts"] = {_PARTS.get(name, name): part for name, part in _items(header["parts"])}
    for kind, part in _items(header["parts"]):
        if kind in _PARTS.values():
            header["parts"][kind] = {**part, "type": _TYPE}
    return State(header, {_name(name): array for name, array in state.arrays.items()})


def _with_gains(state: State, header: dict[str, Any]) -> State:
    """Return the state with costs of banks that have a 0 for each external expert."""
    parts = dict(_items(header["parts"]))
    external: Any = parts.get("external_experts", parts.get("guests", {"learners": 0}))
    arrays, more = dict(state.arrays), np.zeros(int(external["learners"]))
    for name in ("pool.bank_costs", "pool.account"):
        if name in arrays:
            arrays[name] = np.append(arrays[name], more)
    return State(state.header, arrays)


def _items(parts: Any) -> list[tuple[str, Any]]:
    if not isinstance(parts, Mapping):
        raise TypeError(f"'parts' must be an object, not {parts!r}")
    return list(parts.items())


def _name(array: str) -> str:
    part, dot, name = array.partition(".")
    if part == "pool":
        name = _POOL.get(name, name)
    return f"{_PARTS.get(part, part)}{dot}{name}"
