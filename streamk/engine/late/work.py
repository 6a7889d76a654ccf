"""Predict, hold and learn: the steps of a join, followed by a model in their order."""

from __future__ import annotations

from streamk.engine.late.join import Join, Predict, Step
from streamk.engine.late.steps.by_number import ByNumber
from streamk.engine.late.steps.holding import HoldingModel
from streamk.engine.late.steps.in_turn import InTurn
from streamk.engine.late.steps.steps import Followed, Steps
from streamk.engine.late.steps.taken import Taken
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
        """Predict, hold and learn what a batch brings.

        Raises
        ------
        InvalidInput
            As the model does.
        EngineError
            If events cannot be written to the disk.
        StateError
            If they cannot be read again.
        """
        model, join = self.holding.model, self.join
        kind = ByNumber if model.holds_predictions else InTurn
        batch, learned = kind(self.holding, taken), model.n_events
        clocks = taken.batch.clocks.tolist()
        join.begin([key for key in taken.keys if key is not None], max(clocks, default=0))
        each = zip(taken.keys, taken.is_label, clocks, strict=True)
        for row, (key, is_label, clock) in enumerate(each):
            if key is None:
                continue
            for steps, to_the_end in join.due(clock):
                self._add(batch, row, steps)
                if to_the_end:
                    batch.flush()
            if is_label:
                self._add(batch, row, join.label(key, taken.labels[row], clock))
            else:
                self._add(batch, row, join.event(key, clock))
        batch.flush()
        join.end()
        return batch.result([n - learned for n in model.drifts if n > learned])

    def _add(self, batch: Steps, row: int, steps: list[Step]) -> None:
        model = self.holding.model
        for step in steps:
            if isinstance(step, Predict):
                batch.predict(row, step.slot)
            elif not model.is_classifier or self._has_room(step.label, self._classes):
                batch.learn(row, step.slot, step.label)
                batch.again += step.again
            else:
                batch.refuse(row, step.label)

    def _has_room(self, label: Label, classes: set[Label]) -> bool:
        return label in classes or not beyond(classes, [label], self.holding.model.max_classes)
