"""What is measured: models that were trained on the rows of a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.fast_prediction.problems import Problem
from benchmarks.fast_prediction.timing import Predict


@dataclass(frozen=True)
class Contestant:
    """A trained model."""

    predict: Predict
    """What is timed."""
    labels: Callable[[Any], Any]
    """The classes of events, for the accuracy."""
    cost: float | None = None
    """Multiply-adds for an event over those of a linear model, where they can be counted."""


Train = Callable[[Problem], Contestant]
