"""Getting ready for the first event."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from streamk.learners.base import Learner
from streamk.learners.doubly_stochastic import DoublyStochastic
from streamk.learners.multi_kernel import MultiKernel
from streamk.learners.online_nystrom import OnlineNystrom
from streamk.learners.registry import create
from streamk.learners.streaming_meka import StreamingMeka


def warm_up() -> None:
    """Do `streamk.warm_up`."""
    X = np.linspace(-1.0, 1.0, 18).reshape(9, 2)
    # A list: a column of an array, whose numbers lie apart, would have loops of its own.
    two, three, numbers = [*"ababababa"], [*"abcabcabc"], X[:, 0].tolist()
    for task, y in (("classification", two), ("classification", three), ("regression", numbers)):
        for model in _models(task):
            model.learn_many(X, y)
            model.predict_many(X)
            model.predict_then_learn_many(X, y)
            # Single events have loops of their own, once all features are in use.
            model.learn_one(X[0], y[0])
            model.predict_one(X[0])
            if isinstance(model, MultiKernel):
                model.rehearse()


def _models(task: str) -> Iterator[Learner]:
    yield create(MultiKernel.TYPE, task=task)
    for sampler, batch_size in product(("iid", "hadamard"), (1, 8)):
        options: dict[str, Any] = {"block_size": 256, "max_features": 256}
        options |= {"sampler": sampler, "batch_size": batch_size}
        yield create(DoublyStochastic.TYPE, task=task, **options)
    for optimizer in ("sgd", "newton"):
        yield create(OnlineNystrom.TYPE, task=task, optimizer=optimizer, max_landmarks=4)
        options = {"optimizer": optimizer, "rank": 2, "n_clusters": 2, "first": 4, "lag": 1}
        yield create(StreamingMeka.TYPE, task=task, **options)
