"""One thread at a time: learners that are safe to share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

__all__ = ["OneAtATime", "Turns"]

_METHODS = (
    *("learn_many", "predict_then_learn_many", "learn_one", "finish", "merge", "merge_replica"),
    *("add_columns", "add_classes", "add_centers", "state"),
    *("predict_many", "predict_proba_many", "decision_many"),
    *("predict_one", "predict_proba_one", "decision_one"),
    *("predict_held_many", "learn_held_many", "held_predictions", "restore_held_predictions"),
    *("predict_quantile_many", "predict_interval_many", "shares", "coefficients_of"),
)


class Turns:
    """A lock among the attributes of an object, whose copies and pickles have one of their own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()


class OneAtATime:
    """A learner whose methods wait for each other, whatever thread calls them.

    Those are the ones above that a class has, its own or inherited. Who holds `lock` has the
    learner to itself for several calls.
    """

    lock: threading.RLock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return one with a lock, however it is filled."""
        made = super().__new__(cls)
        made.lock = threading.RLock()
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _METHODS:
            method = getattr(cls, name, None)
            if method is not None and not hasattr(method, "_waits"):
                setattr(cls, name, _waiting(method))


def _waiting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def waiting(self: OneAtATime, *arguments: Any, **options: Any) -> Any:
        with self.lock:
            return method(self, *arguments, **options)

    waiting._waits = True  # type: ignore[attr-defined]
    return waiting
