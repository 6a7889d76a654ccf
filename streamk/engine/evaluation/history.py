"""Figures along the stream, for plotting: a bounded number of points, however long the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MOST", "History"]

MOST = 1024
"""Number of points at which every other one goes."""
EVENTS = "events"


class History:
    """Columns of figures, one row a point.

    Examples
    --------
    >>> history = History()
    >>> history.add(10, {"accuracy": 0.5})
    True
    >>> history.add(20, {"accuracy": 0.6, "F1": 0.7})
    True
    >>> history.columns
    {'events': [10, 20], 'accuracy': [0.5, 0.6], 'F1': [None, 0.7]}
    """

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {EVENTS: []}
        """Figures by name, None where there was none yet; ``events`` is where in the stream."""

    def __len__(self) -> int:
        return len(self.columns[EVENTS])

    def add(self, events: int, figures: Mapping[str, float]) -> bool:
        """Add a point; return False if that halved their number, so that a step should double."""
        point = {EVENTS: events, **figures}
        for name in point.keys() - self.columns.keys():
            self.columns[name] = [None] * len(self)
        for name, column in self.columns.items():
            value = point.get(name)
            column.append(value if value == value else None)  # NaN is no figure
        if len(self) < MOST:
            return True
        for name, column in self.columns.items():
            # The newest stays; the first point goes with every other one. Of an even number, so
            # that what stays lies at multiples of the doubled step.
            self.columns[name] = column[::-2][::-1]
        return False

    def to_json(self) -> dict[str, list[Any]]:
        """Everything, as JSON data."""
        return {name: list(column) for name, column in self.columns.items()}

    @classmethod
    def from_json(cls, data: Any) -> History:
        """Go on where `to_json` was called. Raises `ValueError` if the data is not its own."""
        history = cls()
        history.columns = {str(name): list(column) for name, column in data.items()}
        if len({len(column) for column in history.columns.values()}) != 1:
            raise ValueError("columns of a history differ in length")
        len(history)  # the events are there
        return history
