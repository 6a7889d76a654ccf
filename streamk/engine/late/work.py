"""Predict, hold and learn: the steps of a join, followed by a model in their order."""

from __future__ import annotations

from streamk.engine.late.join import Join, Predict
from streamk.engine.late.reading import Taken
from streamk.engine.late.steps.by_number import ByNumber
from streamk.engine.late.steps.holding import HoldingModel
from streamk.engine.late.steps.in_turn import InTurn
from streamk.engine.late.steps.steps import Followed
from streamk.learners.base import HoldsPredictions
from streamk.learners.common.classes import Label, beyond

__all__ = ["LateWork"]


class LateWork:
    """Batches of events and labels, joined by their keys, for a model that holds events.

    Parameters
    ----------
    holding : HoldingModel
    join : Join
    """

    def __init__(self, holding: HoldingModel, join: Join) -> None:
        self.holding, self.join = holding, join
        self._classes = set(holding.model.classes)

    def follow(self, taken: Taken) -> Followed:
        """Predict, hold and learn what a batch brings. Raises `InvalidInput` as the model does."""
        model, holding, classes = self.holding.model, self.holding, self._classes
        kind = ByNumber if isinstance(model, HoldsPredictions) else InTurn
        batch, learned = kind(holding, taken), model.n_events
        event, answer = self.join.event, self.join.label
        clocks = taken.batch.clocks.tolist()
        each = zip(taken.keys, taken.is_label, clocks, strict=True)
        for row, (key, is_label, clock) in enumerate(each):
            if key is None:
                continue
            steps = answer(key, taken.labels[row], clock) if is_label else event(key, clock)
            for step in steps:
                if isinstance(step, Predict):
                    batch.predict(row, step.slot)
                elif not model.is_classifier or self._has_room(step.label, classes):
                    batch.learn(row, step.slot, step.label)
                else:
                    batch.refuse(row, step.label)
        batch.flush()
        return batch.result([n - learned for n in getattr(model, "drifts", ()) if n > learned])

    def _has_room(self, label: Label, classes: set[Label]) -> bool:
        return label in classes or not beyond(classes, [label], self.holding.model.max_classes)
