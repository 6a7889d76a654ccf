"""Details of a prediction on request: an interval, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.learners import Contest, Learner, LiveCompiled, MultiKernel
from streamk.learners.report import attributions

__all__ = ["Details"]

_MOST = 5
"""Columns in the reasons."""


@dataclass(frozen=True)
class Details:
    """Which details are wanted.

    Parameters
    ----------
    interval : float, optional
        Part of the numbers that the intervals are to hold, between 0 and 0.99. For regression by
        `MultiKernel`.
    reasons : bool, default False
        The columns with the largest effects, see `streamk.learners.report.attributions`.

    Examples
    --------
    >>> model = MultiKernel(seed=1, columns=("a", "b"))
    >>> model.learn_many(np.eye(2)[[0, 1] * 20], [True, False] * 20)
    >>> details = Details(reasons=True).of(model, np.array([1.0, 0.0]))
    >>> [reason["column"] for reason in details["reasons"]]
    ['a', 'b']
    """

    interval: float | None = None
    reasons: bool = False

    def check(self, model: Learner) -> None:
        """Raise `InvalidInput` if a model cannot give them, or one that may become champion."""
        if isinstance(model, Contest):
            for each in model.models.values():
                self.check(each)
            return
        if self.reasons and not model.takes_missing:
            raise InvalidInput("reasons are for models that take missing values")
        if self.interval is None:
            return
        if not 0.0 < self.interval <= 0.99:
            raise InvalidInput(f"interval={self.interval!r} must lie between 0 and 0.99")
        if isinstance(model, LiveCompiled):
            raise InvalidInput(
                "a model that is served by a compiled copy has no intervals; leave them out, or "
                "serve the model itself"
            )
        if model.is_classifier or not isinstance(model, MultiKernel):
            raise InvalidInput(
                "intervals are for numbers predicted by the model multi-kernel, without shards"
            )

    def of(self, model: Learner, x: NDArray[np.float64]) -> dict[str, Any]:
        """Return the details of an event x (d,), by name; None where nothing is learned yet.

        The model is as it was afterwards.
        """
        found: dict[str, Any] = {}
        model = model.learner if isinstance(model, Contest) else model
        if self.interval is not None:
            found["interval"] = self._interval(model, x) if model.n_events else None
        if self.reasons:
            found["reasons"] = _reasons(model, x) if model.n_events else None
        return found

    def _interval(self, model: Any, x: NDArray[np.float64]) -> list[float]:
        with model.aside():
            low, high = model.predict_interval_many(x[None], self.interval)[0].tolist()
        return [low, high]


def _reasons(model: Learner, x: NDArray[np.float64]) -> list[dict[str, Any]]:
    effects = attributions(model, x)
    names = [str(name) for name in model.columns or ()]
    order = np.argsort(-np.abs(effects), kind="stable")[:_MOST].tolist()
    return [{"column": names[n], "effect": float(effects[n])} for n in order]
