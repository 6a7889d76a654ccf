"""Checks of learners that are to join a pool of experts."""

from __future__ import annotations

from streamk.errors import InvalidInput
from streamk.learners.scaled.learner import TYPES, OfOneKernel


def check_can_join(learner: OfOneKernel, name: str, is_classifier: bool) -> None:
    """Raise InvalidInput if a learner cannot join."""
    if not isinstance(learner, tuple(TYPES.values())):
        kinds = " or ".join(kind.__name__ for kind in TYPES.values())
        raise InvalidInput(
            f"{name} is a {type(learner).__name__}; give a {kinds}, without scaling: "
            "the experts have a common one"
        )
    if learner.is_classifier != is_classifier:
        one, other = ("classes", "numbers") if learner.is_classifier else ("numbers", "classes")
        task, loss = ("classification", "softmax") if is_classifier else ("regression", "squared")
        fix = f"make it with task={task!r}"
        if "loss" in learner.OPTIONS:
            fix = f"give it a loss of {other}, such as loss={loss!r}"
        raise InvalidInput(
            f"{name} learns {one}, the experts {other}; {fix}, or change the task of the experts"
        )
    if learner.n_events or learner.columns or learner.classes:
        raise InvalidInput(
            f"{name} has learned {learner.n_events} events, or knows columns or classes; "
            "give a new one, which gets those of the stream"
        )
