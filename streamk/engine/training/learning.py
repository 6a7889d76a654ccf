"""Prediction and learning of a few rows by a model, whatever columns it has met."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamk.encoding import BadEvent, Decoded, Schema
from streamk.engine.order.partitions import Batch
from streamk.errors import InvalidInput
from streamk.learners.common.base import Learner
from streamk.learners.common.prequential import Prequential, joined, nothing
from streamk.losses import Loss, LossCode


def predict_then_learn(model: Learner, X: Any, y: list[Any], *, learns: bool) -> Prequential:
    """Predict each of the events X (n, d), then learn it if its label in y (n,) is not None.

    Where nothing is learned, the model is as it was afterwards.
    """
    if model.columns is not None:
        if learns:
            return model.predict_then_learn_many(X, y)
        with model.aside():
            return model.predict_then_learn_many(X, y)
    # Events without a value; columns come, though none, with the first one learned.
    first = next((i for i, label in enumerate(y) if label is not None), len(y))
    unknown = nothing(model, first)
    if first == len(y):
        return unknown
    model.add_columns(())
    return joined([unknown, model.predict_then_learn_many(X[first:], y[first:])], model)


def quantile_of(model: Learner) -> float | None:
    """Return the quantile that a model predicts by its loss; None of another loss."""
    loss = getattr(model.innermost, "loss", None)
    return loss.parameter if isinstance(loss, Loss) and loss.code == LossCode.QUANTILE else None


def cut(X: Any, width: int) -> Any:
    """Return rows without the columns that come later."""
    return X if X.shape[1] == width else np.ascontiguousarray(X[:, :width])


def fitted(schema: Schema, model: Learner) -> Schema:
    """Return a schema with the columns in the model's order.

    Raises
    ------
    InvalidInput
        If the columns or the labels are not the model's.
    """
    known = model.columns
    if known is not None and known != schema.columns:
        columns = schema.columns or known
        if set(known) != set(columns):
            odd = sorted(map(str, set(known) ^ set(columns)))
            raise InvalidInput(
                f"the model has {len(known)} columns and the stream {len(columns)}; "
                f"{', '.join(odd[:5])} in only one of them; give the model no columns, or the "
                "stream a schema with the model's columns"
            )
        schema = replace(schema, columns=known)
    check_task(schema, model)
    return schema


def check_task(schema: Schema, model: Learner) -> None:
    """Raise `InvalidInput` if the labels are not what the model learns."""
    if schema.label_type is not None and schema.is_classification != model.is_classifier:
        task = "classification" if model.is_classifier else "regression"
        raise InvalidInput(
            f"the model does {task} but the label {schema.label!r} is of type"
            f" {schema.label_type}; choose another model, or another label_type"
        )


def check_absent(schema: Schema, model: Learner) -> None:
    """Raise `InvalidInput` if missing values come that the model does not take."""
    if schema.absent == "missing" and not model.takes_missing:
        raise InvalidInput(
            "absent='missing' is for models that take missing values; wrap the learner in"
            " streamk.learners.Scaled, or choose absent='zero'"
        )


@dataclass(frozen=True, slots=True)
class Work:
    """A batch on its way.

    Attributes
    ----------
    batch : Batch
    decoded : Decoded
        Its events; those of `surplus` have no label.
    tombstones : set of int
        Rows that tell of a deletion, and are not events.
    surplus : list of BadEvent
        Those whose labels would be one class too many.
    schema : Schema
        With the columns that come in it.
    width_before : int
        How many of these there were before it.
    """

    batch: Batch
    decoded: Decoded
    tombstones: Set[int]
    surplus: list[BadEvent]
    schema: Schema
    width_before: int


class Predicted(NamedTuple):
    """The predictions of a batch.

    Attributes
    ----------
    prequential : Prequential
    classes : tuple of labels
        Those that were known after it.
    details : list of dict
        Of each event, if any are wanted.
    drifts : list of int
        Which of its labelled events, counted from 1, were the last before experts began anew.
    measured : float64 array of shape (n, 2), optional
        Whether the region of each event held its label, and its size, where there are regions.
    explanation : optional
        Of the first prediction, see `Watcher`.
    """

    prequential: Prequential
    classes: tuple[Any, ...]
    details: list[dict[str, Any]]
    drifts: list[int]
    measured: npt.NDArray[np.float64] | None = None
    explanation: Any | None = None


def some_of(found: Prequential, rows: Any) -> Prequential:
    """Return some rows of predictions."""
    P = found.probabilities
    return Prequential(found.predictions[rows], None if P is None else P[rows])


def without(
    decoded: Decoded, surplus: list[BadEvent], found: Predicted
) -> tuple[Decoded, Predicted]:
    """Return what is left where some of the events turn out to be bad ones."""
    kept = ~np.isin(decoded.good, [event.row for event in surplus])
    y = [label for label, keep in zip(decoded.y, kept.tolist(), strict=True) if keep]
    bad = sorted([*decoded.bad, *surplus])
    measured = None if found.measured is None else found.measured[kept]
    details = [more for more, keep in zip(found.details, kept.tolist(), strict=False) if keep]
    growth = [(int(kept[:row].sum()), width) for row, width in decoded.growth]
    return (
        Decoded(decoded.X[kept], y, decoded.good[kept], bad, growth),
        found._replace(
            prequential=some_of(found.prequential, kept), details=details, measured=measured
        ),
    )


def before(decoded: Decoded, row: int) -> Decoded:
    """Return the events before one of the batch."""
    n = int(np.searchsorted(decoded.good, row))
    growth = [(i, width) for i, width in decoded.growth if i < n]
    return Decoded(decoded.X[:n], decoded.y[:n], decoded.good[:n], [], growth)
