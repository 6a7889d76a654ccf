"""Alarms of a job: watches over its figures, and the events that they write to a sink.

error         the error of predictions is larger than it was: 1 for a wrong class, of numbers the
              distance from the label
confidence    the probability of the predicted class is lower than it was; needs no labels
calibration   the probability of the predicted class is not how often it is right
coverage      intervals or prediction sets hold fewer labels than they are to hold
label_delay   labels come later than they did, in events, where these wait for them
covariate_drift   the columns follow another law than they did; needs neither labels nor predictions
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from connectors.base import Output, Sink
from connectors.fields import Field, RecordType
from streamk.drift import RankTest, ShareTest
from streamk.encoding import LoneReader, shortened
from streamk.engine.alarms.covariates import ColumnSignal, CovariateWatch
from streamk.engine.alarms.watches import Bounds, Rise, Signal, Watch
from streamk.engine.order.batch import Batch
from streamk.errors import StateError
from streamk.learners.common.prequential import Prequential

__all__ = ["ALARM", "KINDS", "Alarms", "Scored"]

KINDS = ("error", "confidence", "calibration", "coverage", "label_delay", "covariate_drift")

Found = list[tuple[int, str, Signal | ColumnSignal]]
"""Alarms, with their rows and kinds."""

ALARM = RecordType(
    "Alarm",
    (
        Field("kind", 1, "text"),
        Field("events", 2, "integer"),
        Field("time", 3, "integer"),
        *(Field(name, number, "number") for number, name in enumerate(Signal._fields, 4)),
        Field("column", 8, "label", nullable=True, optional=True),
    ),
)
"""The fields of an alarm."""

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


class Scored(NamedTuple):
    """Predictions whose labels are there.

    Attributes
    ----------
    rows : int64 array (k,)
        Of the batch, where the labels came.
    prequential : Prequential
    labels : sequence of k labels
    measured : float64 array (k, 2), or None
        Whether regions held the labels, and their sizes.
    delays : sequence of k int, or None
        Events between each and its label.
    """

    rows: Int64s
    prequential: Prequential
    labels: Sequence[Any]
    measured: Floats | None = None
    delays: Sequence[int] | None = None


class Alarms:
    """Watches over a job; each alarm is written once.

    Parameters
    ----------
    sink : Sink
        Gets the alarms.
    classification : bool
    level : float, optional
        Of the intervals or prediction sets, where there are any.

    Attributes
    ----------
    counts : dict of str to int
        Alarms so far, by kind.
    """

    def __init__(self, sink: Sink, classification: bool, level: float | None) -> None:
        self._sink, self._level = sink, level
        error = ShareTest() if classification else RankTest()
        watches: dict[str, Watch] = {"error": Rise(error), "label_delay": Rise(RankTest())}
        if classification:
            watches |= {"confidence": Rise(ShareTest()), "calibration": Bounds()}
        if level is not None:
            watches["coverage"] = Bounds(below=True)
        self._watches = {kind: watches[kind] for kind in KINDS if kind in watches}
        self._columns = CovariateWatch()
        self.counts: dict[str, int] = {}

    def take(
        self,
        batch: Batch,
        first: int,
        classes: Sequence[Any],
        predicted: tuple[Int64s, Prequential],
        scored: Scored,
        alone: LoneReader,
    ) -> None:
        """Take in a batch, and write the alarms in it.

        Parameters
        ----------
        batch : Batch
        first : int
            Events of the job up to the first of the batch, that one included.
        classes : sequence of labels
            Those of the probabilities.
        predicted : int64 array (n,) and Prequential
            Rows of the events that were predicted.
        scored : Scored
            Those whose labels came in this batch.
        alone : LoneReader
            Reads the columns of the events that were predicted.
        """
        rows, _ = predicted
        columns = self._columns.update(len(rows), lambda i: alone.one(batch.values[int(rows[i])]))
        found: Found = [(int(rows[row]), "covariate_drift", signal) for row, signal in columns]
        found += self._of_predicted(classes, *predicted) + self._of_scored(classes, scored)
        order = {kind: place for place, kind in enumerate(KINDS)}
        found.sort(key=lambda one: (one[0], order[one[1]]))
        if found:
            self._sink.write([self._output(batch, first, *one) for one in found])

    def _of_predicted(self, classes: Sequence[Any], rows: Int64s, predicted: Prequential) -> Found:
        if predicted.probabilities is None:
            return []
        numbers = np.clip(1.0 - _confidences(predicted, classes), 0.0, 1.0)
        return self._watched("confidence", rows, numbers)

    def _of_scored(self, classes: Sequence[Any], scored: Scored) -> Found:
        answers, P = scored.prequential
        rows = scored.rows
        found: Found = []
        if P is None:
            errors = np.abs(answers - np.array(scored.labels, np.float64))
        else:
            pairs = zip(answers.tolist(), scored.labels, strict=True)
            wrong = [np.nan if answer is None else answer != label for answer, label in pairs]
            errors = np.array(wrong, np.float64)
            sure = _confidences(scored.prequential, classes)
            found += self._watched("calibration", rows, 1.0 - errors, sure, sure * (1.0 - sure))
        found += self._watched("error", rows, errors)
        if scored.measured is not None and self._level is not None:
            level = np.full(len(rows), self._level)
            variance = level * (1.0 - level)
            found += self._watched("coverage", rows, scored.measured[:, 0], level, variance)
        if scored.delays is not None:
            found += self._watched("label_delay", rows, np.array(scored.delays, np.float64))
        return found

    def _watched(
        self,
        kind: str,
        rows: Int64s,
        numbers: Floats,
        expected: Floats | None = None,
        variance: Floats | None = None,
    ) -> Found:
        """Take in what is watched of events in turn, NaN of one that has none of it."""
        nothing = np.zeros(len(rows))
        columns = (numbers, *(nothing if one is None else one for one in (expected, variance)))
        update = self._watches[kind].update
        found: Found = []
        each = zip(rows.tolist(), *(column.tolist() for column in columns), strict=True)
        for row, number, mean, spread in each:
            signal = update(number, mean, spread) if number == number else None
            if signal is not None:
                found.append((row, kind, signal))
        return found

    def _output(
        self, batch: Batch, first: int, row: int, kind: str, signal: Signal | ColumnSignal
    ) -> Output:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        partition, offset = batch.position(row)
        time = int(batch.timestamps[row])
        value = {"kind": kind, "events": first + row, "time": time, **signal._asdict()}
        if isinstance(value.get("column"), str):  # a name out of an event may be as long as that
            value["column"] = shortened(value["column"])
        # A sink tells records apart by their places; two alarms may be of one event.
        return Output(f"{partition}#{kind}", offset, time, None, value)

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        watches = {kind: watch.to_json() for kind, watch in self._every.items()}
        return {"counts": dict(self.counts), "level": self._level, "watches": watches}

    def restore(self, data: Any) -> None:
        """Go on where `to_json` was called, but for what was not watched then.

        Raises `StateError` if the data is not its own.
        """
        try:
            self.counts = {str(kind): int(n) for kind, n in data["counts"].items()}
            saved = dict(data["watches"])
            if data["level"] != self._level:
                saved.pop("coverage", None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"the alarms cannot be read: {error!r}") from error
        for kind, watch in self._every.items():
            if kind in saved:
                watch.restore(saved[kind])

    @property
    def _every(self) -> dict[str, Watch | CovariateWatch]:
        """All watches by their kinds."""
        return {**self._watches, "covariate_drift": self._columns}


def _confidences(found: Prequential, classes: Sequence[Any]) -> Floats:
    """Return the probability of each predicted class, NaN where there was none."""
    assert found.probabilities is not None
    place = {label: k for k, label in enumerate(classes)}
    codes = np.array([place.get(one, -1) for one in found.predictions.tolist()], np.intp)
    sure = np.full(len(codes), np.nan)
    told = np.flatnonzero(codes >= 0)
    sure[told] = found.probabilities[told, codes[told]]
    return sure
