"""Models, events and replicas whose costs are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import pool_alone
from benchmarks.data import Dataset
from streamk.learners import create
from streamk.learners.base import Learner


def model(name: str, stream: Dataset, **options: Any) -> Learner:
    """A model of one thread that knows the columns of a stream."""
    made = create(name, task=stream.task, seed=1, threads=1, **pool_alone.options(name), **options)
    made.add_columns(stream.columns)
    return made


def events(stream: Dataset) -> tuple[NDArray[np.float64], list[Any]]:
    """All events, without missing values, and their labels."""
    return np.nan_to_num(stream.X.astype(np.float64)), (stream.y * 1).tolist()


def features(exponent: int) -> dict[str, int]:
    """Options of so many random features, as a power of two, all moved by each event."""
    return {"max_features": 1 << exponent, "block_size": 1 << exponent}
