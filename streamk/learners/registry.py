"""Models by name, for the command line and for checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Kernel
from streamk.learners.base import Learner
from streamk.learners.doubly_stochastic import DoublyStochastic
from streamk.learners.scaled import Scaled
from streamk.learners.steps import Constant, Step
from streamk.state import State

BANDWIDTH = 0.5
"""Default bandwidth on scaled columns, whose root mean squared distance is sqrt(2)."""


def _doubly_stochastic(
    *,
    task: str,
    kernel: str | Kernel = "gaussian",
    bandwidth: float = BANDWIDTH,
    step: float | Step = 1.0,
    loss: str | None = None,
    **options: Any,
) -> Scaled:
    if isinstance(kernel, str):
        kernel = kernels.by_name(kernel, **({} if kernel == "linear" else {"bandwidth": bandwidth}))
    return Scaled(
        DoublyStochastic(
            kernel,
            loss=loss or ("softmax" if task == "classification" else "squared"),
            task=task,
            step=Constant(step) if isinstance(step, int | float) else step,
            **options,
        )
    )


MODELS: dict[str, Callable[..., Learner]] = {DoublyStochastic.TYPE: _doubly_stochastic}
"""Makers of models by name."""
_TYPES: dict[str, Any] = {DoublyStochastic.TYPE: DoublyStochastic, Scaled.TYPE: Scaled}


def create(name: str, *, task: str, seed: int = 0, **options: Any) -> Learner:
    """Make a model with online scaling in front, ready for a raw stream.

    Parameters
    ----------
    name : str
        One of `MODELS`.
    task : {"classification", "regression"}
    seed : int, default 0
    **options
        ``kernel`` (name or Kernel), ``bandwidth``, ``step`` (number or Step), ``loss`` and the
        options of the learner.

    Raises
    ------
    InvalidInput
        If there is no such model or option, or a value is out of its domain.

    Examples
    --------
    >>> create("doubly-stochastic", task="regression", loss="huber").is_classifier
    False
    """
    if name not in MODELS:
        raise InvalidInput(f"no model is called {name!r}; there are {', '.join(MODELS)}")
    try:
        return MODELS[name](task=task, seed=seed, **options)
    except TypeError as error:
        raise InvalidInput(f"options do not fit model {name!r}: {error}") from None


def from_state(state: State) -> Learner:
    """Return the learner whose state this is, whatever its type.

    Raises
    ------
    StateError
        If no learner of that type is known here.
    """
    if state.type not in _TYPES:
        raise StateError(
            f"no learner is registered as {state.type!r}; there are {', '.join(_TYPES)}"
        )
    learner: Learner = _TYPES[state.type].from_state(state)
    return learner
