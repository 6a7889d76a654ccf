"""The options of an engine by their names in commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from streamk.engine.checkpoints.opening import Checkpoints
from streamk.engine.order.feed import Order
from streamk.engine.training.options import Details, Stream, Watch

__all__ = ["FLAGS", "grouped"]

_STRUCTS: dict[str, Any] = {
    "stream": Stream,
    "order": Order,
    "checkpoints": Checkpoints,
    "watch": Watch,
    "details": Details,
}
_NAMES = {"place": "checkpoint", "every": "checkpoint_every", "grace": "checkpoint_grace"}
_NAMES |= {"entities": "entity"}

FLAGS: Mapping[str, tuple[str, str]] = {
    _NAMES.get(field.name, field.name): (part, field.name)
    for part, struct in _STRUCTS.items()
    for field in fields(struct)
}
"""By an option's name in commands: the argument of `Engine` that it is part of, and its name."""


def grouped(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `Engine` for options by their names in commands; others are passed over.

    >>> grouped({"label": "y", "checkpoint_every": 10, "quiet": True})["checkpoints"].every
    10
    """
    parts: dict[str, dict[str, Any]] = {part: {} for part in _STRUCTS}
    for name in FLAGS.keys() & options.keys():
        part, field = FLAGS[name]
        parts[part][field] = options[name]
    return {part: _STRUCTS[part](**given) for part, given in parts.items()}
