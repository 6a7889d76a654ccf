"""The model and the loops over arrays that several parts measure."""

from __future__ import annotations

from typing import Any

from benchmarks.data import Dataset
from connectors.memory import MemorySource
from streamk.engine import Engine
from streamk.learners import Learner, create

FEATURES = 1024
BATCH = 256
"""Events that share a step of the learner."""
AT_ONCE = 1024
"""Events handed over in a call, as the engine does it; any number gives the same model."""
SEED = 1


def model(data: Dataset, mini_batch: int = BATCH, **options: Any) -> Learner:
    """A learner that moves all of its 1,024 features in every mini-batch."""
    return create(
        "doubly-stochastic",
        task="classification",
        seed=SEED,
        max_features=FEATURES,
        block_size=FEATURES,
        batch_size=mini_batch,
        classes=sorted(set(data.y.tolist())),
        **options,
    )


def through_engine(data: Dataset, mini_batch: int = BATCH, **options: Any) -> Any:
    """Predict and learn all events with the engine, from memory; returns its report."""
    source = MemorySource((data.X, data.y), columns=data.columns)
    learner = model(data, mini_batch, **options)
    return Engine(source, learner, label="label").run()


def by_hand(data: Dataset, mini_batch: int = BATCH) -> None:
    """Predict and learn all events without an engine."""
    learn_all(model(data, mini_batch), data)


def learn_all(learner: Learner, data: Dataset) -> None:
    """Predict, then learn each event, with a learner that has met none, nothing around it."""
    learner.add_columns(data.columns)
    for first in range(0, len(data), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        learner.predict_then_learn_many(data.X[some], data.y[some])
