"""Joining what learners of one seed learned apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.errors import InvalidInput


def check_mergeable(one: Any, other: Any, names: Sequence[str]) -> None:
    """Raise InvalidInput if two learners differ in their class or an option, naming it."""
    if type(one) is not type(other):
        mine, others = (getattr(kind, "TYPE", kind.__name__) for kind in (type(one), type(other)))
        raise InvalidInput(
            f"cannot merge a {mine!r} learner and a {others!r} one; both must have the same class"
        )
    for name in names:
        mine, others = getattr(one, name), getattr(other, name)
        if mine != others:
            raise InvalidInput(
                f"cannot merge learners that differ in {name}: {mine!r} and {others!r}"
            )


def events_apart(one: Any, other: Any, common_events: int) -> tuple[int, int]:
    """Return how many events each of two learners learned since they were one.

    Raises `InvalidInput` if `common_events` is negative or more than one of them has learned.
    """
    mine, others = one.n_events - common_events, other.n_events - common_events
    if common_events < 0 or mine < 0 or others < 0:
        raise InvalidInput(
            f"common_events={common_events} must lie between 0 and the learners' "
            f"{one.n_events} and {other.n_events} events"
        )
    return mine, others


def become(one: Any, other: Any) -> None:
    """Have a learner be a copy of another one."""
    copy = type(one).from_state(other.state())
    one.__dict__.update(copy.__dict__ | {"lock": one.lock})


def merge_by_events(
    one: Any,
    other: Any,
    common_events: int,
    events_of: Callable[[Any, int], tuple[NDArray[Any], NDArray[Any]]],
) -> None:
    """Have a learner learn events that another one keeps, or become it if it learned none since.

    `events_of` takes the other and how many events it learned since their last common state;
    it returns those it has, (n, d) in its columns, and their labels as numbers (n,). Raises
    `InvalidInput` as the functions above do.
    """
    check_mergeable(one, other, ("is_classifier", *options.shared(one.OPTIONS)))
    mine, others = events_apart(one, other, common_events)
    if others == 0:
        return
    alike = one.columns in (None, other.columns)
    if mine == 0 and alike and one.classes == other.classes[: len(one.classes)]:
        become(one, other)
        return
    known = one.columns or ()
    one.add_columns([name for name in other.columns or () if name not in known])
    theirs, y = events_of(other, others)
    places = {name: place for place, name in enumerate(one.columns or ())}
    X = np.zeros((len(theirs), len(places)), one.dtype)
    X[:, [places[name] for name in other.columns or ()]] = theirs
    before = one.n_events
    one.learn_checked(X, other._classes.decode(y.astype(np.intp)) if one.is_classifier else y)
    one.n_events = before + others
