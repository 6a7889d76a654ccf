"""A horizon, stated plainly: a list of events that wait, which is searched for each event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Waiting:
    number: int
    series: Any
    at: int
    """Its time, or its place in its series."""
    x: list[float]
    label: Any


class NaiveHorizon:
    """Follows one horizon event by event, by a model of its own."""

    def __init__(self, model: Any, span: int, *, timed: bool, columns: tuple[str, ...]) -> None:
        self.model, self.span, self.timed, self.columns = model, span, timed, columns
        self.waiting: list[Waiting] = []
        self.places: dict[Any, int] = {}
        self.predictions: list[Any] = []
        self.learned: list[tuple[int, Any, Any]] = []
        """Number of the event, its target, and the label that it had itself."""
        self.missing = 0

    def follow(self, series: Any, time: int, x: list[float], label: Any) -> None:
        model, place = self.model, self.places.get(series, 0)
        self.places[series] = place + 1
        now = time if self.timed else place
        due = [w for w in self.waiting if w.series == series and w.at <= now - self.span]
        for one in sorted(due, key=lambda w: (w.at, w.number)):
            self.waiting.remove(one)
            if label is None or (self.timed and now - one.at >= 2 * self.span):
                self.missing += 1
                continue
            if model.columns is None:
                model.add_columns(self.columns)
            model.learn_held_many(np.array([one.x]), [label], [one.number])
            self.learned.append((one.number, label, one.label))
        number = len(self.predictions)
        told: Any = None if model.is_classifier else 0.0 if label is None else label
        if model.columns is not None:
            told = model.predict_held_many(np.array([x]), [number]).predictions[0]
        self.predictions.append(told)
        self.waiting.append(Waiting(number, series, now, x, label))
