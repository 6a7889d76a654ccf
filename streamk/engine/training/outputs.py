"""Predictions and events that could not be used, as they are written to sinks."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from connectors.base import Output, Rows
from connectors.fields import Field, ListOf, MapOf, RecordType
from streamk.encoding import BadEvent, shortened
from streamk.engine.order.partitions import Batch
from streamk.learners.common.prequential import Prequential

_REASON = RecordType(
    "Reason",
    (
        Field("column", 1, "text"),
        Field("value", 2, "value", nullable=True),
        Field("effect", 3, "number"),
    ),
)
_DETAILS = {
    "interval": Field("interval", 3, ListOf("number"), nullable=True),
    "prediction_set": Field("prediction_set", 4, ListOf("label")),
    "reasons": Field("reasons", 5, ListOf(_REASON), nullable=True),
}
_REVISION = Field("revision", 6, "boolean")

DEAD_LETTER = RecordType(
    "DeadLetter",
    (
        Field("partition", 1, "text"),
        Field("offset", 2, "integer"),
        Field("kind", 3, "text"),
        Field("reason", 4, "text"),
        Field("column", 5, "label", nullable=True),
        Field("value", 6, "text"),
        Field("encoding", 7, "text"),
        Field("size", 8, "integer", nullable=True, optional=True),
    ),
)
"""The fields of `dead_letter`."""

_LARGEST_RAW = 1 << 17
"""Bytes of a bad event that its dead letter repeats. JSON writes up to six characters for one, and
Kafka takes a record of a mebibyte by default: a letter that is too large would end the run."""


def prediction_type(
    details: Iterable[str],
    *,
    classification: bool,
    revised: bool,
    ahead: Iterable[str] | None = None,
) -> RecordType:
    """Return the fields of `predictions` with these details, as `revise` has them if `revised`.

    With several horizons there is a list of these, `ahead` with such details.
    """
    kind: Literal["label", "number"] = "label" if classification else "number"
    fields = [Field("prediction", 1, kind, nullable=True)]
    if classification:
        fields.append(Field("probabilities", 2, MapOf("number")))
    if ahead is not None:
        more = [_DETAILS[name] for name in ahead]
        record = RecordType("Ahead", (*fields, *more, Field("horizon", 8, "text")))
        fields.append(Field("ahead", 7, ListOf(record)))
    fields += [_DETAILS[name] for name in details]
    return RecordType("Prediction", (*fields, *[_REVISION] * revised))


def predictions(
    batch: Batch,
    good: npt.NDArray[np.int64],
    predicted: Prequential,
    classes: Sequence[Any],
    details: Sequence[dict[str, Any]] = (),
) -> list[Output]:
    """Return what was predicted of the `good` events of a batch, as it is written.

    An event's probabilities are those of the classes that were known when it was predicted; where
    there were none, they are empty and the prediction is None. `details` are further entries of
    each, if any are wanted.
    """
    values = entries(predicted, classes)
    for value, more in zip(values, details, strict=False):
        value |= more
    partitions = [batch.names[code] for code in batch.codes[good].tolist()]
    offsets, times = batch.offsets[good].tolist(), batch.timestamps[good].tolist()
    keys = [None] * len(good) if batch.keys is None else [batch.keys[i] for i in good.tolist()]
    return list(map(Output._make, zip(partitions, offsets, times, keys, values, strict=True)))


def entries(predicted: Prequential, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return predictions, and the probabilities of classes that were known, as they are written."""
    labels = predicted.predictions.tolist()
    if predicted.probabilities is None:
        return [{"prediction": number} for number in labels]
    P = predicted.probabilities
    names = [label if isinstance(label, str) else json.dumps(label) for label in classes]
    known = P.shape[1] - np.isnan(P).sum(axis=1)
    return [
        {"prediction": label, "probabilities": _known(names, row, k)}
        for label, row, k in zip(labels, P.tolist(), known.tolist(), strict=True)
    ]


def _known(names: Sequence[str], row: Sequence[float], n: int) -> dict[str, float]:
    """Return the probabilities of the `n` classes that were known."""
    if n < len(names):
        return {name: p for name, p in zip(names, row, strict=True) if p == p}
    return dict(zip(names, row, strict=True))


def revise(outputs: list[Output], stops: Mapping[str, int]) -> None:
    """Say of each output whether it may replace one that was written before.

    That is so before the `stops` of partitions. All say it, so that they have the same fields.
    """
    for output in outputs:
        output.value["revision"] = output.offset < stops.get(output.partition, 0)


def dead_letter(batch: Batch, event: BadEvent, most: int = _LARGEST_RAW) -> Output:
    """The raw event, of a large one `most` bytes, with where it was and what is wrong with it."""
    i, column, reason = event
    partition, offset = batch.position(i)
    value: dict[str, Any] = {
        "partition": partition,
        "offset": offset,
        "kind": event.kind,
        "reason": shortened(reason),
        "column": shortened(column) if isinstance(column, str) else column,
        **_raw(batch.values, i, most),
    }
    key = batch.keys[i] if batch.keys else None
    return Output(partition, offset, int(batch.timestamps[i]), key, value)


def _raw(values: Sequence[Any], i: int, most: int) -> dict[str, Any]:
    """The event as it came: text, else base64 for bytes, else JSON as far as it goes, else Python.

    Of a large one only the beginning, and its size in bytes: it can be read where it was.
    """
    value, encoding = values[i], "utf-8"
    if isinstance(values, Rows):
        X, y = value
        value = [*X.tolist(), y]
    if not isinstance(value, bytes):
        try:
            value, encoding = json.dumps(value, default=str).encode(), "json"
        except (TypeError, ValueError, RecursionError):  # a name that is not a text, a loop
            value, encoding = repr(value).encode("utf-8", "backslashreplace"), "python"
    cut = {"size": len(value)} if len(value) > most else {}
    value = value[:most]
    try:
        return {"value": value.decode(), "encoding": encoding, **cut}
    except UnicodeDecodeError as error:
        if cut and error.start > len(value) - 4:  # cut inside a letter
            return {"value": value[: error.start].decode(), "encoding": encoding, **cut}
        return {"value": base64.b64encode(value).decode(), "encoding": "base64", **cut}
