"""Details of a prediction on request: an interval or a set of classes, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.engine.training.beside import RegionGiver, regions_of
from streamk.errors import InvalidInput, shown
from streamk.learners import Learner
from streamk.learners.explaining import TOLD, Event, Fields, reasons_of

__all__ = ["Details"]


@dataclass(frozen=True)
class Details:
    """The details that are wanted.

    Parameters
    ----------
    interval : float, optional
        Part of the numbers that the intervals are to hold, above 0 and at most 0.99.
    prediction_set : float, optional
        Part of the labels that the sets of classes are to hold, above 0 and at most 0.99.
    explain : bool, default False
        The fields with the largest effects, see `streamk.learners.explaining`.

    Examples
    --------
    >>> from streamk.encoding import Schema
    >>> from streamk.learners import MultiKernel
    >>> model = MultiKernel(seed=1, columns=("a", "b"))
    >>> model.learn_many(np.eye(2)[[0, 1] * 20], [True, False] * 20)
    >>> fields = Fields()
    >>> fields.follow(Schema(("a", "b")), ("a", "b"))
    >>> (details,) = Details(explain=True).of(model, fields, np.array([[1.0, 0.0]]), [None])
    >>> [(reason["column"], reason["value"]) for reason in details["reasons"]]
    [('a', 1), ('b', 0)]
    """

    interval: float | None = None
    prediction_set: float | None = None
    explain: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the details that are wanted."""
        wanted = {
            "interval": self.interval is not None,
            "prediction_set": self.prediction_set is not None,
            "reasons": self.explain,
        }
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)

    def check(self, model: Learner) -> None:
        """Raise `InvalidInput` if a model cannot give them, or one that may become champion."""
        if model.models:
            for each in model.models.values():
                self.check(each)
            return
        if self.explain and not model.takes_missing:
            raise InvalidInput("reasons are for models that take missing values")
        for name in ("interval", "prediction_set"):
            level = getattr(self, name)
            if level is not None and not 0.0 < level <= 0.99:
                raise InvalidInput(f"{name}={shown(level)} must lie between 0 and 0.99")
        if self.interval is not None and model.is_classifier:
            raise InvalidInput("intervals are for numbers; of classes ask for a prediction set")
        if self.prediction_set is not None and not model.is_classifier:
            raise InvalidInput("prediction sets are for classes; of numbers ask for an interval")

    def regions(self) -> RegionGiver | None:
        """Return intervals or sets that have met nothing yet, None where neither is wanted."""
        for name in ("interval", "prediction_set"):
            level = getattr(self, name)
            if level is not None:
                made: RegionGiver = regions_of(name)(level)
                return made
        return None

    def served(
        self, model: Learner, kept: RegionGiver | None
    ) -> tuple[Details, RegionGiver | None]:
        """Return what is left to be asked of a model that learns no more, and its regions.

        Those that its job has `kept`, or of other levels what the model knows itself.

        Raises
        ------
        InvalidInput
            If there are none that are wanted.
        """
        self.check(model)
        wanted = self.regions()
        if wanted is None:
            return self, None
        if kept is not None and kept.level == wanted.level:
            return Details(explain=self.explain), kept
        if model.mixes_experts and self.interval is not None:
            return self, None
        flag = f"--{wanted.NAME.replace('_', '-')}"
        if kept is None:
            raise InvalidInput(
                f"the job of this model runs without {flag}, which learns from its errors; run it"
                f" with {flag} {wanted.level:g}"
            )
        raise InvalidInput(
            f"the job of this model runs with {flag} {kept.level:g}; ask for that instead of"
            f" {wanted.level:g}"
        )

    def of(
        self, model: Learner, fields: Fields, X: NDArray[np.float64], events: Sequence[Event]
    ) -> list[dict[str, Any]]:
        """Return the reasons for events X (n, d), and the model's own intervals, by name.

        None where nothing is learned yet. The model is as it was afterwards.
        """
        model = model.predicting
        found: list[dict[str, Any]] = [{} for _ in events]
        if self.interval is not None:
            for one, interval in zip(found, self._intervals(model, X), strict=True):
                one["interval"] = interval
        if self.explain:
            for one, reasons in zip(found, _reasons(model, fields, X, events), strict=True):
                one["reasons"] = reasons
        return found

    def _intervals(self, model: Any, X: NDArray[np.float64]) -> list[Any]:
        if not model.n_events:
            return [None] * len(X)
        with model.aside():
            found: list[Any] = model.predict_interval_many(X, self.interval).tolist()
        return found


def _reasons(
    model: Learner, fields: Fields, X: NDArray[np.float64], events: Sequence[Event]
) -> list[Any]:
    if not model.n_events:
        return [None] * len(X)
    found = reasons_of(model, fields, X, events, most=TOLD)
    return [[reason._asdict() for reason in reasons] for reasons in found]
