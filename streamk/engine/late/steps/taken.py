"""A batch of the sequence taken apart into events and labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.encoding import BadEvent, Schema
from streamk.engine.order.batch import Batch

__all__ = ["Taken"]


@dataclass
class Taken:
    """Events and labels of a batch, in its order.

    Attributes
    ----------
    batch : Batch
        With the names of partitions as the sources have them.
    is_label : list of bool (n,)
    keys : list of str or None (n,)
        None of what is bad.
    labels : list (n,)
        Of labels.
    rows : list of int (n,)
        Of events the row of `X`.
    raw : list (m,)
        The events of `X` as they came.
    X : float64 array of shape (m, d)
    width : int64 array of shape (m,)
        Columns that there were when the event had come.
    schema : Schema
        Of the d columns.
    bad : list of BadEvent, by row of the batch
    tombstones : set of int
        Rows of the batch that are neither, but tell of a deletion.
    slices : float64 array of shape (m,), or None
        Numbers of the events' slices.
    """

    batch: Batch
    is_label: list[bool]
    keys: list[str | None]
    labels: list[Any]
    rows: list[int]
    raw: list[Any]
    X: NDArray[np.float64]
    width: NDArray[np.int64]
    schema: Schema
    bad: list[BadEvent] = field(default_factory=list)
    tombstones: set[int] = field(default_factory=set)
    slices: NDArray[np.float64] | None = None

    def before(self, row: int) -> Taken:
        """Return what comes before a row of the batch."""
        cut = slice(0, row)
        return replace(
            self,
            batch=self.batch.slice(0, row),
            is_label=self.is_label[cut],
            keys=self.keys[cut],
            bad=[event for event in self.bad if event.row < row],
            tombstones={place for place in self.tombstones if place < row},
        )
