"""Getting ready for the first event."""

from __future__ import annotations

import numpy as np

from streamk.learners.registry import create


def warm_up() -> None:
    """Do `streamk.warm_up`."""
    X = np.linspace(-1.0, 1.0, 16).reshape(8, 2)
    for task, y in (("classification", ["a", "b"] * 4), ("regression", X[:, 0])):
        for sampler in ("iid", "hadamard"):
            model = create(
                "doubly-stochastic", task=task, sampler=sampler, max_features=256, batch_size=8
            )
            model.learn_many(X, y)
            model.predict_many(X)
            # Single events have loops of their own, once all features are in use.
            model.learn_one(X[0], y[0])
            model.predict_one(X[0])
