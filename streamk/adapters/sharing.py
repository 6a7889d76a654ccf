"""Estimators of scikit-learn that threads may share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Self

from streamk.learners.common.predictor import Turns

__all__ = ["Shared"]

_FITTING = ("fit", "partial_fit", "fit_transform")


class Shared:
    """An estimator whose methods see the attributes of one fit, whatever other threads do.

    What a method that fits has found becomes the estimator's at its end, all at once, and nothing
    does if it raises. One of them waits for the other; those that predict wait for none.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, found in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isinstance(found, property):
                setattr(cls, name, property(_asking(found.fget), doc=found.__doc__))
            elif inspect.isfunction(found):
                setattr(cls, name, (_fitting if name in _FITTING else _asking)(found))

    def _as_it_is(self) -> Self:
        """Return an estimator with the attributes of this one."""
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__.copy()
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


def _asking(method: Any) -> Callable[..., Any]:
    @wraps(method)
    def asking(self: Shared, *arguments: Any, **options: Any) -> Any:
        return method(self._as_it_is(), *arguments, **options)

    return asking


def _fitting(method: Any) -> Callable[..., Any]:
    @wraps(method)
    def fitting(self: Shared, *arguments: Any, **options: Any) -> Any:
        turns: Turns = self.__dict__.setdefault("_turns", Turns())
        with turns.lock:
            made = self._as_it_is()
            found = method(made, *arguments, **options)
            self.__dict__ = made.__dict__
        return self if found is made else found

    return fitting
