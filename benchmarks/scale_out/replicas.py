"""Models, events and replicas whose costs are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Dataset
from streamk.learners import MultiKernel, create
from streamk.learners.base import Learner


def made(name: str, stream: Dataset, **options: Any) -> Learner:
    """A model; one of many kernels has no external expert, as in shards by default."""
    if name == MultiKernel.TYPE:
        options["external_experts"] = ()
    return create(name, task=stream.task, seed=1, **options)


def model(name: str, stream: Dataset, **options: Any) -> Learner:
    """A model of one thread that knows the columns of a stream."""
    new = made(name, stream, threads=1, **options)
    new.add_columns(stream.columns)
    return new


def events(stream: Dataset) -> tuple[NDArray[np.float64], list[Any]]:
    """All events, without missing values, and their labels."""
    return np.nan_to_num(stream.X.astype(np.float64)), (stream.y * 1).tolist()


def features(exponent: int) -> dict[str, int]:
    """Options of so many random features, as a power of two, all moved by each event."""
    return {"max_features": 1 << exponent, "block_size": 1 << exponent}
