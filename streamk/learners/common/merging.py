"""Joining what learners of one seed learned apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamk.errors import InvalidInput


def check_mergeable(one: Any, other: Any, names: Sequence[str]) -> None:
    """Raise InvalidInput if two learners differ in their class or an option, naming it."""
    if type(one) is not type(other):
        mine, others = (getattr(kind, "TYPE", kind.__name__) for kind in (type(one), type(other)))
        raise InvalidInput(
            f"cannot merge a {mine!r} learner and a {others!r} one; both must be of one class"
        )
    for name in names:
        mine, others = getattr(one, name), getattr(other, name)
        if mine != others:
            raise InvalidInput(
                f"cannot merge learners that differ in {name}: {mine!r} and {others!r}"
            )


def events_apart(one: Any, other: Any, common_events: int) -> tuple[int, int]:
    """Return how many events each of two learners learned since they were one.

    Raises
    ------
    InvalidInput
        If `common_events` is negative or more than one of them has learned.
    """
    mine, others = one.n_events - common_events, other.n_events - common_events
    if common_events < 0 or mine < 0 or others < 0:
        raise InvalidInput(
            f"common_events={common_events} must lie between 0 and the learners' "
            f"{one.n_events} and {other.n_events} events"
        )
    return mine, others
