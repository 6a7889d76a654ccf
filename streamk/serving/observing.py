"""The explanation of one prediction, at a cost that is bounded whatever the fields are."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.base import Output
from streamk.encoding import Name, Schema, shortened
from streamk.engine.training.beside import LONGEST_VALUE, MOST_ROWS
from streamk.learners.common.base import Learner
from streamk.learners.explaining import TOLD, Event, Fields, Places, Reason, reasons_of

MOST_FIELDS = 256
"""Fields whose effects are computed for one event; each takes a prediction."""


@dataclass(frozen=True)
class Explanation:
    """The effects of fields on a prediction, and the shares of the experts in it."""

    effects: list[Reason]
    """The largest first, of `MOST_FIELDS` fields at most; none where the model takes no missing
    values."""
    is_whole: bool
    """True if these are the effects of all fields."""
    experts: dict[str, float]
    """The shares of the experts, see `MultiKernel.shares`; empty for other models."""

    @property
    def reasons(self) -> list[dict[str, Any]] | None:
        """Field, value and effect of the largest effects; None where not all are known.

        Examples
        --------
        >>> Explanation([Reason("b", "x", -0.2)], True, {}).reasons
        [{'column': 'b', 'value': 'x', 'effect': -0.2}]
        """
        return [one._asdict() for one in self.effects[:TOLD]] if self.is_whole else None


def turn_of(places: Places, number: int) -> Places:
    """Return the fields that the explanation of that number is about: of many others each time."""
    names = list(places)
    if len(names) <= MOST_FIELDS:
        return places
    first = number * MOST_FIELDS % len(names)
    return {name: places[name] for name in [*names[first:], *names[:first]][:MOST_FIELDS]}


def explain(
    model: Learner, fields: Fields, x: NDArray[np.float64], event: Event, number: int
) -> Explanation:
    """Explain the prediction of a model, or of a contest's champion, for an event of these fields.

    It is as it was afterwards. The number of explanations so far is for `turn_of`.
    """
    model = model.predicting
    with model.innermost.aside():
        experts = model.explained.innermost.shares(model.looked(x[None])[0])
    if not model.takes_missing:
        return Explanation([], False, experts)
    places = fields.of(event)
    turn = turn_of(places, number)
    (effects,) = reasons_of(model, fields, x[None], [event], places=[turn])
    return Explanation(effects, len(turn) == len(places), experts)


MOST_BYTES = 1 << 16
"""Of the rows that are shown at a time, as JSON."""
_IMPORTANCES = 12
"""Columns whose importance is told."""
_LONGEST = 60
"""Characters of names and labels."""
_CLASSES = 3
"""Classes of a prediction that are told: the most probable, and the predicted one."""
_EXACT = 1 << 53
"""From there on browsers round whole numbers."""
_SHARE = 0.01
"""Of the time, that explanations may take."""
_SHORTEST = 0.1
"""Seconds between two explanations."""
_EXPERTS, _EFFECTS = 20, 100
"""Explanations that the running means are about."""


class RunningMeans:
    """Means of numbers by name: of the first ones as they are, then exponentially weighted.

    Parameters
    ----------
    memory : int
        The n-th number of a name moves its mean by 1 / min(n, memory) of the difference.

    Examples
    --------
    >>> means = RunningMeans(2)
    >>> for number in (1.0, 3.0, 4.0):
    ...     means.add({"a": number})
    >>> means.values
    {'a': 3.0}
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._counts: dict[Name, int] = {}
        self.values: dict[Name, float] = {}

    def add(self, numbers: Mapping[Any, float]) -> None:
        """Take one more number of each name."""
        for name, number in numbers.items():
            n = self._counts[name] = min(self._counts.get(name, 0) + 1, self._memory)
            before = self.values.get(name, 0.0)
            self.values[name] = before + (number - before) / n


class Observer:
    """Samples of predictions with their reasons, and the last events that could not be used.

    Nothing that is learned or predicted depends on it. Explanations take 1% of the time at most,
    and there are ten a second at most, of which one a second becomes a row. The last fifty rows
    of both kinds are kept, with names and values cut. May be used by several threads.

    Attributes
    ----------
    version : int
        Counts rows, and changes of rows.
    """

    ROW_SECONDS = 1.0
    """Between two predictions that become rows."""

    def __init__(self) -> None:
        self.version = 0
        self._lock = threading.Lock()
        self._predictions: deque[dict[str, Any]] = deque(maxlen=MOST_ROWS)
        self._bad: deque[dict[str, Any]] = deque(maxlen=MOST_ROWS)
        self._held: dict[int, dict[str, Any]] = {}
        """Rows of predictions whose labels are still to come, or be revised, by the events'
        numbers."""
        self._row_due = 0.0
        self._experts, self._effects = RunningMeans(_EXPERTS), RunningMeans(_EFFECTS)
        self._fields = Fields()
        self._explained = 0
        self._due = self._took = 0.0

    # --- what comes -------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """An explanation is due: enough time has passed since the last one."""
        return time.monotonic() >= self._due

    def explain(
        self, model: Learner, schema: Schema, X: NDArray[np.float64], event: Callable[[], Event]
    ) -> Explanation | None:
        """Explain the prediction for the first of events (n, d); None if it is not due yet.

        The model is as it was afterwards. The events may have columns that it has not yet, behind
        its own. `event` gives the fields of the first, see `streamk.learners.explaining`.
        """
        columns = model.columns
        if not (self.due and len(X) and columns and model.n_events):
            return None
        began = time.thread_time()
        self._fields.follow(schema, model.predicting.explained.columns)
        found = explain(model, self._fields, X[0, : len(columns)], event(), self._explained)
        self._explained += 1
        spent = time.thread_time() - began
        # In the first one something may have been compiled.
        took, self._took = min(self._took, spent), spent
        self._due = time.monotonic() + max(_SHORTEST, took / _SHARE)
        return found

    def add(
        self,
        explanation: Explanation,
        row: Mapping[str, Any] | None = None,
        held: int | None = None,
    ) -> None:
        """Take a prediction that was explained; without a row the means alone follow.

        `row` has "prediction" and perhaps "probabilities", "interval", "prediction_set", "label"
        and where it stands; `held` is the number of an event whose label comes later, see `label`.
        """
        sizes = {name: abs(effect) for name, _, effect in explanation.effects}
        with self._lock:
            if explanation.experts.keys() != self._experts.values.keys():  # of another model
                self._experts = RunningMeans(_EXPERTS)
            self._experts.add(explanation.experts)
            self._effects.add(sizes)
            if row is None or time.monotonic() < self._row_due:
                return
            self._row_due = time.monotonic() + self.ROW_SECONDS
            reasons = explanation.reasons and [
                {name: _cut(value) for name, value in one.items()} for one in explanation.reasons
            ]
            cut = _cut_prediction(row) | {"reasons": reasons}
            kept = self._keep(self._predictions, cut)
            if held is not None:
                self._held[held] = kept
                for number in list(self._held)[:-MOST_ROWS]:
                    del self._held[number]

    def show(
        self,
        explanation: Explanation,
        output: Output,
        label: Any,
        value: str | None,
        held: int | None = None,
    ) -> None:
        """Take a prediction that was explained, as an output, see `add`.

        `label` is None where it is not known, and `value` that of the column of slices.
        """
        key = None if output.key is None else output.key.decode("utf-8", "backslashreplace")
        at = {"partition": output.partition, "offset": output.offset, "key": key}
        self.add(explanation, {**at, **output.value, "label": label, "slice": value}, held)

    def label(self, numbers: Sequence[int], labels: Sequence[Any]) -> None:
        """Take the labels of events that were held, by their numbers."""
        with self._lock:
            if not self._held:
                return
            for number, label in zip(numbers, labels, strict=True):
                row = self._held.get(number)
                if row is not None:
                    self.version += 1
                    row |= {"label": _cut(label), "version": self.version}

    def refused(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take events that cannot be used, as dead letters have them."""
        with self._lock:
            for row in rows:
                cut = {name: _cut(value, LONGEST_VALUE) for name, value in row.items()}
                self._keep(self._bad, cut)

    def _keep(self, rows: deque[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        kept = {"number": self.version, "version": self.version, **row}
        rows.append(kept)
        return kept

    # --- what is shown ----------------------------------------------------------------------------

    @property
    def experts(self) -> dict[str, float]:
        """The shares of the experts, means of the last explanations, by name."""
        with self._lock:
            return {shortened(str(name), _LONGEST): n for name, n in self._experts.values.items()}

    @property
    def importances(self) -> dict[str, float]:
        """Mean absolute effects of the twelve columns for which these are the largest."""
        with self._lock:
            found = sorted(self._effects.values.items(), key=lambda one: -one[1])[:_IMPORTANCES]
        return {shortened(str(name), _LONGEST): size for name, size in found}

    def rows(self, after: int = 0) -> dict[str, Any]:
        """Return "predictions" and "bad" events, the newest first, as lists of dicts.

        Only those that came or changed after a `version`. As JSON they take `MOST_BYTES` at most;
        where they would take more, older ones are left out.
        """
        with self._lock:
            kept = {"predictions": list(self._predictions), "bad": list(self._bad)}
        return {name: _newest(rows, after) for name, rows in kept.items()}


def _newest(rows: list[dict[str, Any]], after: int) -> list[dict[str, Any]]:
    """Return rows of later versions, the newest first, and no more than there is room for."""
    found: list[dict[str, Any]] = []
    left = (MOST_BYTES - 100) // 2
    for row in reversed(rows):
        left -= len(msgspec.json.encode(row)) + 1
        if left < 0:
            break
        if row["version"] > after:
            found.append(row)
    return found


def _cut(value: Any, most: int = _LONGEST) -> Any:
    if isinstance(value, int) and abs(value) >= _EXACT:
        value = str(value)
    return shortened(value, most) if isinstance(value, str) else value


def _cut_prediction(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prediction with the most probable classes only, and no text that is long."""
    found = {name: _cut(value) for name, value in row.items()}
    probabilities = row.get("probabilities")
    if probabilities is not None:
        best = dict(sorted(probabilities.items(), key=lambda one: -one[1])[:_CLASSES])
        predicted = row["prediction"]
        name = predicted if isinstance(predicted, str) else json.dumps(predicted)
        best[name] = probabilities.get(name)
        found["probabilities"] = {_cut(name): number for name, number in best.items()}
    chosen = row.get("prediction_set")
    if chosen is not None:
        found["prediction_set"] = [_cut(label) for label in chosen[:_CLASSES]]
        found["prediction_set_size"] = len(chosen)
    return found
