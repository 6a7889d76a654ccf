"""Steps for a model that holds predictions: runs of events to predict, or to learn."""

from __future__ import annotations

from typing import Any

from streamk.engine.late.steps.holding import HoldingModel
from streamk.engine.late.steps.steps import Steps
from streamk.engine.late.steps.taken import Taken

__all__ = ["ByNumber"]


class ByNumber(Steps):
    """Steps for a model that holds predictions: runs of events to predict, or to learn."""

    def __init__(self, work: HoldingModel, taken: Taken) -> None:
        super().__init__(work, taken)
        self._predicts: tuple[list[int], list[int]] = [], []
        self._filled: set[int] = set()
        """Slots that the events to be predicted next are put into."""
        self._learns: tuple[list[int], list[Any]] = [], []

    def predict(self, row: int, slot: int) -> None:
        """Have an event predicted after all that is to be learned so far."""
        slots = self._predicts[1]
        # A slot that was filled in this run may have become free again by an overflow.
        mixed = slots and (slots[-1] < 0) != (slot < 0)
        if self._learns[0] or mixed or (slot >= 0 and slot in self._filled):
            self.flush()
        self._predicts[0].append(self._taken.rows[row])
        self._predicts[1].append(slot)
        self._filled.add(slot)
        super().predict(row, slot)

    def learn(self, row: int, slot: int, label: Any) -> None:
        """Have an event learned after all that is to be predicted so far."""
        if self._predicts[0]:
            self.flush()
        work = self._work
        width = int(work.held.width[slot])
        if work.lacks(width):
            self.flush()
            work.grow(width, self._taken.schema.columns)
        self._learns[0].append(slot)
        self._learns[1].append(label)
        super().learn(row, slot, label)

    def flush(self) -> None:
        """Have the model predict the run of events, or learn it."""
        work = self._work
        if self._predicts[0]:
            (rows, slots), self._predicts = self._predicts, ([], [])
            self._filled.clear()
            self._explain(len(self._rows) - len(rows), rows[0], slots[0])
            found, details = work.predict(self._taken, rows, slots)
            self._pieces.append(found)
            self._details += details
        if self._learns[0]:
            (slots, labels), self._learns = self._learns, ([], [])
            delays = work.delays(slots)
            self._delays += delays
            self._slices += work.held.slice[slots].tolist()
            self._numbers += work.held.number[slots].tolist()
            self._score(work.scores(slots), labels, work.held.threshold[slots], delays)
            work.learn(slots, labels)
