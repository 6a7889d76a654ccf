"""Prediction and learning of a few rows by a model, whatever columns it has met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from streamk.engine.order.batch import Batch
from streamk.errors import EngineError, InvalidInput
from streamk.learners.base import Learner
from streamk.learners.common.prequential import Prequential, joined, nothing

__all__ = ["cut", "predict_then_learn", "refusals"]


def predict_then_learn(model: Learner, X: Any, y: list[Any], *, learns: bool) -> Prequential:
    """Predict each of the events X (n, d), then learn it if its label in y (n,) is not None.

    Where nothing is learned, the model is as it was afterwards.
    """
    if model.columns is not None:
        with nullcontext() if learns else model.aside():
            return model.predict_then_learn_many(X, y)
    # Events without a value; columns come, though none, with the first one learned.
    first = next((i for i, label in enumerate(y) if label is not None), len(y))
    unknown = nothing(model, first)
    if first == len(y):
        return unknown
    model.add_columns(())
    return joined([unknown, model.predict_then_learn_many(X[first:], y[first:])], model)


def cut(X: Any, width: int) -> Any:
    """Return rows without the columns that come later."""
    return X if X.shape[1] == width else np.ascontiguousarray(X[:, :width])


@contextmanager
def refusals(batch: Batch) -> Iterator[None]:
    """Say which events a model's complaint is about."""
    try:
        yield
    except InvalidInput as error:
        raise EngineError(f"the model refuses an event {batch.span}: {error}") from error
