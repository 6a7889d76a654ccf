"""The learners that shards and contests are of, by the types of their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamk.errors import InvalidInput, StateError
from streamk.learners.multi_kernel.multi_kernel import MultiKernel
from streamk.learners.scaled import TYPES, Scaled
from streamk.state import State

LEARNERS: dict[str, Any] = {MultiKernel.TYPE: MultiKernel, **TYPES}
"""Those that have options of their own."""
KINDS: dict[str, Any] = {**LEARNERS, Scaled.TYPE: Scaled}


def check_kind(learner: Any, sentence: str) -> None:
    """Raise InvalidInput, which says that a learner cannot do so, unless it is one of these."""
    if getattr(learner, "TYPE", None) not in KINDS:
        raise InvalidInput(
            f"{sentence}; give one of the learners of streamk, such as MultiKernel()"
        )


def inner(state: State, placing: Mapping[str, Any] | None, owner: str) -> Any:
    """Return the learner whose state this is, or raise StateError if it is none of these."""
    if state.type not in KINDS:
        raise StateError(f"{owner} cannot have a learner of the type {state.type!r}")
    return KINDS[state.type].from_state(state, **(placing or {}))
