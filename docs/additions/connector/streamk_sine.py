"""Noisy sine waves as a source: ``sine:1000?noise=0.1`` are 1,000 events."""

from __future__ import annotations

import math
import random

import numpy as np

from connectors.base import URL, Chunk, Connector, SourceBase
from connectors.errors import BadURL, OffsetOutOfRange

__all__ = ["SINE", "SineSource"]


class SineSource(SourceBase):
    """Events with a field ``x`` and the label ``y``, a noisy sine of it.

    Parameters
    ----------
    events : int
    noise : float
        Standard deviation.
    """

    encoding = "dict"

    def __init__(self, events: int, noise: float) -> None:
        self._events, self._noise, self._next = events, noise, 0

    def partitions(self) -> tuple[str, ...]:
        """Return the only partition."""
        return ("sine",)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """Return the next events; never waits."""
        offsets = np.arange(self._next, min(self._next + max_events, self._events))
        self._next += len(offsets)
        values = [self._event(offset) for offset in offsets.tolist()]
        return [Chunk("sine", offsets, offsets, values)] if values else []

    def _event(self, offset: int) -> dict[str, float]:
        # Each event follows from its offset alone, so that it is the same after a restart.
        drawn = random.Random(offset)
        x = drawn.uniform(-3.0, 3.0)
        return {"x": x, "y": math.sin(x) + drawn.gauss(0.0, self._noise)}

    def seek(self, partition: str, offset: int) -> None:
        """Go on from an offset. Raises `OffsetOutOfRange` beyond the end."""
        if not 0 <= offset <= self._events:
            raise OffsetOutOfRange(
                f"sine holds offsets 0 to {self._events}, not {offset}",
                partition=partition,
                offset=offset,
            )
        self._next = offset

    def start(self, partition: str) -> int:
        """Return the first offset."""
        return 0

    def end(self, partition: str) -> int:
        """Return the offset after the last event."""
        return self._events

    def lag(self) -> int:
        """Return how many events were not polled yet."""
        return self._events - self._next

    def finished(self) -> bool:
        """Return whether all was polled."""
        return self.lag() == 0


def _open(url: URL, *, noise: float = 0.1) -> SineSource:
    if not url.path.isdigit():
        raise BadURL(f"{url.text}: a sine needs a number of events, such as sine:1000")
    return SineSource(int(url.path), noise)


SINE = Connector(source=_open)
