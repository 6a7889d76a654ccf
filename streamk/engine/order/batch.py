"""Events on their way: raw values with their positions, in the order of the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Rows, concatenate

__all__ = ["Batch", "nbytes"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events of the sequence.

    Attributes
    ----------
    names : sequence of str
        Names of partitions; `codes` index into it.
    codes : int array (n,)
        The partition of each event.
    offsets, timestamps : int64 arrays (n,)
        As the source gave them, timestamps in milliseconds.
    clocks : int64 array (n,)
        The clock of the event's partition at the event, its first sorting key.
    values : sequence (n,)
        Raw events.
    keys : list of bytes or None
    """

    names: Sequence[str]
    codes: npt.NDArray[np.intp]
    offsets: Int64s
    timestamps: Int64s
    clocks: Int64s
    values: Sequence[Any]
    keys: list[bytes | None] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def span(self) -> str:
        """From where to where its events are, in words."""
        first, last = self.position(0), self.position(len(self) - 1)
        return f"from {first[0]} offset {first[1]} to {last[0]} offset {last[1]}"

    def position(self, i: int) -> tuple[str, int]:
        """Partition and offset of event `i`."""
        return self.names[self.codes[i]], int(self.offsets[i])

    def slice(self, start: int, stop: int) -> Batch:
        """Events `start` to `stop`, counted inside this batch."""
        cut = slice(start, stop)
        return Batch(
            self.names,
            self.codes[cut],
            self.offsets[cut],
            self.timestamps[cut],
            self.clocks[cut],
            self.values[cut],
            None if self.keys is None else self.keys[cut],
        )

    @staticmethod
    def join(parts: Sequence[Batch]) -> Batch:
        """One batch of several, in the given order; their `names` are one table."""
        keys: list[bytes | None] | None = None
        if any(part.keys is not None for part in parts):
            keys = [k for part in parts for k in (part.keys or [None] * len(part))]
        return Batch(
            parts[0].names,
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.timestamps for part in parts]),
            np.concatenate([part.clocks for part in parts]),
            concatenate([part.values for part in parts]),
            keys,
        )

    def reorder(self, order: npt.NDArray[np.intp]) -> Batch:
        """The events in another order, given as an array of indices."""
        picks = order.tolist()
        values: Sequence[Any]
        if isinstance(self.values, Rows):
            y = self.values.y
            y = y[order] if isinstance(y, np.ndarray) else y and [y[i] for i in picks]
            values = Rows(self.values.X[order], y)
        else:
            values = [self.values[i] for i in picks]
        return Batch(
            self.names,
            self.codes[order],
            self.offsets[order],
            self.timestamps[order],
            self.clocks[order],
            values,
            None if self.keys is None else [self.keys[i] for i in picks],
        )


def nbytes(values: Sequence[Any]) -> int:
    """Bytes of raw events; 0 for dicts, whose size is not known without walking through them."""
    if isinstance(values, Rows):
        return values.X.nbytes
    present = filter(None, values)  # a record may have no value: a tombstone
    first = next(present, None)
    return len(first) + sum(map(len, present)) if isinstance(first, bytes) else 0
