"""What happens to a batch: decode, predict, emit, score, learn."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from connectors.base import Output, Rows, Sink, Source
from connectors.errors import BadRecord
from connectors.formats import BadEvent, Decoded, Decoder, decoder
from connectors.schema import Absent, Mode, Schema, infer
from streamk.engine.batch import Batch
from streamk.engine.metrics import Metrics, score_classes, score_numbers
from streamk.errors import EngineError, InvalidInput, NotLearned, StateError
from streamk.learners.base import Learner

__all__ = ["Counts", "OnError", "SchemaOptions", "Trainer"]

OnError = Literal["raise", "skip", "dead-letter"]
Floats = npt.NDArray[np.float64]

_LARGEST_RAW = 1 << 17
"""Bytes of a bad event that its dead letter repeats. JSON writes up to six characters for one, and
Kafka takes a record of a mebibyte by default: a letter that is too large would end the run."""
_LONGEST_NAME = 1 << 12
"""Characters of a reason or of the name of a column in it, which comes out of the event too."""


@dataclass(frozen=True)
class SchemaOptions:
    """How the columns are found; see `connectors.schema.Schema` for each."""

    label: str | int | None
    schema: Schema | Mode
    absent: Absent
    ignore: tuple[str | int, ...]


@dataclass
class Counts:
    """How many events went which way.

    Attributes
    ----------
    learned, predicted : int
    unlabelled : int
        Events without a label: predicted, not learned.
    bad : dict of kind to int
        Events that could not be used, by kind (`connectors.formats.BAD_KINDS`).
    """

    learned: int
    predicted: int
    unlabelled: int
    bad: dict[str, int]


@dataclass
class _Piece:
    """A part of the current batch that is decoded, predicted and emitted already."""

    batch: Batch
    decoded: Decoded
    predictions: Floats | None


class Trainer:
    """A model on its way along the sequence, one batch after another.

    A batch is predicted whole by the model before it, then learned. `predict_early` may take any
    part of it forward; that changes neither a prediction nor what is learned.

    Columns that a batch brings for the first time are left out of its predictions: the model
    before the batch knows nothing of them.
    """

    def __init__(
        self,
        model: Learner,
        source: Source,
        options: SchemaOptions,
        *,
        sink: Sink | None,
        dead_letters: Sink | None,
        on_error: OnError,
        window: int,
    ) -> None:
        self.model = model
        self.schema: Schema | None = None
        """The columns and the label after the last batch; None before the first."""
        self.counts = Counts(0, 0, 0, {})
        self.metrics = Metrics(classification=model.is_classifier, window=window)
        self._source = source
        self._options = options
        self._sink = sink
        self._dead_letters = dead_letters
        self._on_error = on_error
        self._decoder: Decoder | None = None
        self._pieces: list[_Piece] = []
        self._emitted: dict[str, int] = {}
        self.early = 0
        """Events of the next batch that are predicted already."""
        if isinstance(options.schema, Schema):
            self.use(options.schema)

    # --- batches ----------------------------------------------------------------------------

    @property
    def can_predict(self) -> bool:
        """Whether there is a schema and the model has learned."""
        return self._decoder is not None and self.model.n_events > 0

    def predict_early(self, batch: Batch) -> None:
        """Predict and emit the first events of the next batch now."""
        self._advance(batch)

    def learn(self, batch: Batch) -> None:
        """Predict and emit what is left of the batch, score all of it, learn it.

        Raises
        ------
        EngineError
            If an event cannot be used and the policy is "raise", or the model refuses the batch.
        """
        inferred = self._decoder is None
        if inferred:
            self.use(self._infer(batch.values))
        self._advance(batch)
        pieces, self._pieces, self.early = self._pieces, [], 0
        if self._emitted:
            passed = _ends([batch])
            self._emitted = {p: o for p, o in self._emitted.items() if o > passed.get(p, o - 1)}
        assert self._decoder is not None
        if inferred:
            _of_use(pieces[0].decoded, len(batch))
        self.schema = self._decoder.schema
        X, y = self._joined(pieces)
        self._score([piece.predictions for piece in pieces], y)
        bad = Counter(event.kind for piece in pieces for event in piece.decoded.bad)
        for kind, n in sorted(bad.items()):
            self.counts.bad[kind] = self.counts.bad.get(kind, 0) + n
        with _refusals(batch):
            self._learn(X, y)

    def abandon(self) -> None:
        """Forget the part of a batch that was taken forward, but for what was emitted of it.

        The events will be read again; their outputs are not written again.
        """
        for partition, end in _ends([piece.batch for piece in self._pieces]).items():
            self._emitted[partition] = max(end, self._emitted.get(partition, end))
        self._pieces, self.early = [], 0
        if self.schema is not None:
            self.use(self.schema)

    def use(self, schema: Schema) -> None:
        """Read events by this schema from now on."""
        known = self.model.columns
        if known is not None and known != schema.columns:
            if set(known) != set(schema.columns):
                odd = sorted(map(str, set(known) ^ set(schema.columns)))
                raise InvalidInput(
                    f"the model has {len(known)} columns and the stream {len(schema.columns)};"
                    f" {', '.join(odd[:5])} in one of them only; give the model no columns or"
                    " the stream a schema with the model's"
                )
            schema = replace(schema, columns=known)
        if schema.label is not None and schema.is_classification != self.model.is_classifier:
            task = "classification" if self.model.is_classifier else "regression"
            raise InvalidInput(
                f"the model does {task} but the label {schema.label!r} is of type"
                f" {schema.label_type}; choose another model, or another label_type"
            )
        self._decoder = decoder(self._source.encoding, schema, fields=self._source.fields)
        self.schema = schema

    def _infer(self, values: Sequence[Any]) -> Schema:
        options = self._options
        assert not isinstance(options.schema, Schema)
        return infer(
            values,
            encoding=self._source.encoding,
            label=options.label,
            fields=self._source.fields,
            task="classification" if self.model.is_classifier else "regression",
            mode=options.schema,
            absent=options.absent,
            ignore=options.ignore,
        )

    # --- inside -----------------------------------------------------------------------------

    def _advance(self, batch: Batch) -> None:
        """Decode, predict and emit the events of the batch that were not yet."""
        if self.early == len(batch):
            return
        rest = batch.slice(self.early, len(batch)) if self.early else batch
        assert self._decoder is not None
        decoded = self._decoder.decode(rest.values)
        with _refusals(rest):
            predictions = self._predict(decoded.X)
        self._emit(rest, decoded, predictions)
        self._pieces.append(_Piece(rest, decoded, predictions))
        self.early = len(batch)

    def _emit(self, batch: Batch, decoded: Decoded, predictions: Floats | None) -> None:
        """Write what was not written before the batch was abandoned."""
        good, bad = decoded.good, decoded.bad
        if self._emitted:
            ends = [self._emitted.get(name, -1) for name in batch.names]
            new = batch.offsets >= np.array(ends)[batch.codes]
            bad = [event for event in bad if new[event[0]]]
            if predictions is not None:
                predictions = predictions[new[good]]
            good = good[new[good]]
        if bad:
            self._report(batch, bad)
        if self._sink is not None and len(good):
            self._sink.write(self._outputs(batch, good, predictions))

    def _predict(self, X: npt.NDArray[np.float32]) -> Floats | None:
        """Probabilities (n, classes), or numbers (n,); None before anything was learned."""
        if not self.model.n_events:
            return None
        known = len(self.model.columns or ())
        if X.shape[1] > known:
            X = np.ascontiguousarray(X[:, :known])
        if not len(X):
            return np.zeros((0, max(1, len(self.model.classes))))
        try:
            if self.model.is_classifier:
                return self.model.predict_proba_many(X)
            return np.asarray(self.model.predict_many(X), dtype=np.float64)
        except NotLearned:
            return None

    def _joined(self, pieces: Sequence[_Piece]) -> tuple[npt.NDArray[np.float32], list[Any]]:
        """The whole batch; pieces from before a column came up lack it."""
        assert self.schema is not None
        if len(pieces) == 1:
            return pieces[0].decoded.X, pieces[0].decoded.y
        d = len(self.schema.columns)
        blank = 0.0 if self.schema.absent == "zero" else np.nan
        widened = [
            np.pad(p.decoded.X, ((0, 0), (0, d - p.decoded.X.shape[1])), constant_values=blank)
            for p in pieces
        ]
        return np.concatenate(widened), [label for p in pieces for label in p.decoded.y]

    def _score(self, parts: Sequence[Floats | None], y: list[Any]) -> None:
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return
        predictions = known[0] if len(known) == 1 else np.concatenate(known)
        self.counts.predicted += len(predictions)
        if None in y:
            labelled = [i for i, label in enumerate(y) if label is not None]
            predictions, y = predictions[labelled], [y[i] for i in labelled]
        if not y:
            return
        if self.model.is_classifier:
            answers = self.model.choices(predictions)
            sums = score_classes(predictions, answers, self.model.classes, y)
        else:
            sums = score_numbers(predictions, y)
        self.metrics.update(len(y), sums)

    def _learn(self, X: npt.NDArray[np.float32], y: list[Any]) -> None:
        assert self.schema is not None
        new = self.schema.columns[len(self.model.columns or ()) :]
        if new or self.model.columns is None:
            self.model.add_columns(new)
        if None in y:
            labelled = [i for i, label in enumerate(y) if label is not None]
            self.counts.unlabelled += len(y) - len(labelled)
            X, y = X[labelled], [y[i] for i in labelled]
        if y:
            self.model.learn_many(X, y)
            self.counts.learned += len(y)

    def _report(self, batch: Batch, bad: Sequence[BadEvent]) -> None:
        """Follow the policy for events that cannot be used."""
        if self._on_error == "raise":
            i, _, reason = bad[0]
            partition, offset = batch.position(i)
            raise EngineError(
                f"the event at {partition} offset {offset} cannot be used: {reason};"
                ' to go on without such events choose on_error="skip" (--on-error skip) or'
                ' "dead-letter"'
            )
        if self._on_error == "dead-letter" and self._dead_letters is not None:
            self._dead_letters.write([_dead_letter(batch, event) for event in bad])

    def _outputs(
        self, batch: Batch, good: npt.NDArray[np.int64], predictions: Floats | None
    ) -> list[Output]:
        values: list[dict[str, Any]]
        if predictions is None:
            values = [{"prediction": None} for _ in good]
        elif self.model.is_classifier:
            labels = self.model.classes
            names = [label if isinstance(label, str) else json.dumps(label) for label in labels]
            best = self.model.choices(predictions).tolist()
            values = [
                {"prediction": labels[k], "probabilities": dict(zip(names, row, strict=True))}
                for k, row in zip(best, predictions.tolist(), strict=True)
            ]
        else:
            values = [{"prediction": number} for number in predictions.tolist()]
        codes, offsets = batch.codes[good].tolist(), batch.offsets[good].tolist()
        times, keys = batch.timestamps[good].tolist(), batch.keys
        return [
            Output(batch.names[code], offset, time, keys[i] if keys else None, value)
            for i, code, offset, time, value in zip(
                good.tolist(), codes, offsets, times, values, strict=True
            )
        ]

    def absorb(self, other: Learner, schema: Schema, common_events: int) -> None:
        """Merge a model that read its events by `schema` into this one.

        Raises `InvalidInput` or `BadRecord` if the two do not fit together; nothing is merged then.
        """
        known = self.model.columns or ()
        new = [column for column in other.columns or () if column not in known]
        if self.schema is None:
            joined = replace(schema, columns=(*known, *new))
        else:
            joined = self.schema.extended(new, {**schema.kinds, **self.schema.kinds})
        self.model.merge(other, common_events=common_events)
        self.use(joined)

    # --- state ------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything after the last batch but the model, as JSON data."""
        return {
            "schema": None if self.schema is None else self.schema.to_json(),
            "counts": vars(self.counts) | {"bad": dict(self.counts.bad)},
            "metrics": self.metrics.to_json(),
            "emitted": dict(self._emitted),
        }

    def restore(self, data: Mapping[str, Any], model: Learner) -> None:
        """Go on where `to_json` was called. Raises `StateError` if the data is not its own."""
        try:
            self.model = model
            self.counts = Counts(**data["counts"])
            self.metrics = Metrics.from_json(data["metrics"])
            schema = data["schema"]
            self._pieces, self.early = [], 0
            self._emitted = dict(data["emitted"])
            if schema is not None:
                self.use(Schema.from_json(schema))
        except (KeyError, TypeError, BadRecord, InvalidInput) as error:
            raise StateError(f"the checkpoint does not fit this stream: {error}") from error


def _of_use(decoded: Decoded, n: int) -> None:
    """Raise EngineError if the first n events have nothing to be learned from, and why.

    Events whose label is null say nothing for or against what is asked of the labels.
    """
    refused = [event for event in decoded.bad if event.kind == "label out of domain"]
    if not len(decoded.good):
        what, first = "", decoded.bad[0]
    elif refused and all(label is None for label in decoded.y):
        what, first = "labels of the ", refused[0]
    else:
        return
    raise EngineError(
        f"none of the {what}first {n} events can be used, the first because: {first.reason}; "
        "check the label, the task and the format"
    )


def _ends(batches: Sequence[Batch]) -> dict[str, int]:
    """One past the last offset of each partition."""
    ends: dict[str, int] = {}
    for batch in batches:
        for code, offset in zip(batch.codes.tolist(), batch.offsets.tolist(), strict=True):
            ends[batch.names[code]] = offset + 1
    return ends


@contextmanager
def _refusals(batch: Batch) -> Iterator[None]:
    """Say which events a model's complaint is about."""
    try:
        yield
    except InvalidInput as error:
        first, last = batch.position(0), batch.position(len(batch) - 1)
        raise EngineError(
            f"the model refuses the batch from {first[0]} offset {first[1]} to {last[0]}"
            f" offset {last[1]}: {error}"
        ) from error


def _dead_letter(batch: Batch, event: BadEvent) -> Output:
    """The raw event, with where it was and what is wrong with it."""
    i, column, reason = event
    partition, offset = batch.position(i)
    value: dict[str, Any] = {
        "partition": partition,
        "offset": offset,
        "kind": event.kind,
        "reason": _shown(reason),
        "column": _shown(column) if isinstance(column, str) else column,
        **_raw(batch.values, i),
    }
    key = batch.keys[i] if batch.keys else None
    return Output(partition, offset, int(batch.timestamps[i]), key, value)


def _shown(text: str) -> str:
    """A text out of an event, short, and without half of a surrogate pair, which is no UTF-8."""
    return text[:_LONGEST_NAME].encode("utf-8", "backslashreplace").decode()


def _raw(values: Sequence[Any], i: int) -> dict[str, Any]:
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
        except (TypeError, ValueError, RecursionError):  # a name that is no text, a loop
            value, encoding = repr(value).encode("utf-8", "backslashreplace"), "python"
    cut = {"size": len(value)} if len(value) > _LARGEST_RAW else {}
    value = value[:_LARGEST_RAW]
    try:
        return {"value": value.decode(), "encoding": encoding, **cut}
    except UnicodeDecodeError as error:
        if cut and error.start > len(value) - 4:  # cut inside a letter
            return {"value": value[: error.start].decode(), "encoding": encoding, **cut}
        return {"value": base64.b64encode(value).decode(), "encoding": "base64", **cut}
