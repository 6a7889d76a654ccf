"""A schema and a model: checks that the events of the one are what the other learns."""

from __future__ import annotations

from dataclasses import replace

from streamk.encoding import Schema
from streamk.errors import InvalidInput
from streamk.learners.base import Learner

__all__ = ["check_absent", "check_task", "fitted"]


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
                f"the model has {len(known)} columns and the stream {len(columns)};"
                f" {', '.join(odd[:5])} in one of them only; give the model no columns or"
                " the stream a schema with the model's"
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
