"""Places along the stream where something happened: exact while seldom, else by stretches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamk.errors import StateError

__all__ = ["MOST", "Marks"]

MOST = 256
"""Places kept apart; when there are more, neighbouring ones become one of twice the width."""


class Marks:
    """Counts of something that happened, by stretches of the stream.

    What is kept depends on the places alone, not on how they are divided into calls.

    Examples
    --------
    >>> marks = Marks()
    >>> marks.add([3, 3, 70_000])
    >>> marks.width, marks.places()
    (1, [(3, 2), (70000, 1)])
    """

    def __init__(self) -> None:
        self.width = 1
        """Events in a stretch; 1 as long as the places are exact."""
        self._counts: dict[int, int] = {}

    def add(self, events: Iterable[int]) -> None:
        """Count things that happened after so many events each."""
        for event in events:
            place = int(event) // self.width
            self._counts[place] = self._counts.get(place, 0) + 1
        while len(self._counts) > MOST:
            finer, self._counts = self._counts, {}
            self.width *= 2
            for place, count in finer.items():
                self._counts[place // 2] = self._counts.get(place // 2, 0) + count

    def places(self) -> list[tuple[int, int]]:
        """Return (first event of a stretch, how often it happened there), in their order."""
        return [(place * self.width, count) for place, count in sorted(self._counts.items())]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"width": self.width, "places": [list(place) for place in self.places()]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Marks:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        marks = cls()
        try:
            marks.width = int(data["width"])
            marks._counts = {int(at) // marks.width: int(n) for at, n in data["places"]}
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise StateError(f"marks along the stream cannot be read: {error!r}") from error
        return marks
