"""Figures of progressive validation: each event is scored by the model that had not seen it.

Classification: accuracy, and log loss, the mean of -ln p(true label). A label that the model did
not know yet has probability 0; so that one such event does not make the mean infinite,
probabilities count as 1e-15 to 1 - 1e-15 (a loss of 34.5), as in River and scikit-learn.
Regression: mean absolute error and root mean squared error.
Beside them stand the baselines of `streamk.engine.evaluation.confusion`, by accuracy and mean
absolute error, the figures that were asked for, see `streamk.engine.evaluation.river_metrics`, and
those of intervals or sets of classes, see `streamk.engine.evaluation.slices`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.engine.evaluation.confusion import ClassBaselines, Confusion, NumberBaselines
from streamk.engine.evaluation.river_metrics import AreaUnderCurve, Rows, named
from streamk.engine.evaluation.slices import Coverage, Slices
from streamk.errors import StateError
from streamk.learners.common.prequential import score_classes, score_numbers

MOST = 1024
"""Number of points at which every other one goes."""
EVENTS = "events"


class History:
    """Columns of figures, one row a point.

    Examples
    --------
    >>> history = History()
    >>> history.add(10, {"accuracy": 0.5})
    True
    >>> history.add(20, {"accuracy": 0.6, "F1": 0.7})
    True
    >>> history.columns
    {'events': [10, 20], 'accuracy': [0.5, 0.6], 'F1': [None, 0.7]}
    """

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {EVENTS: []}
        """Figures by name, None where there was none yet; ``events`` is where in the stream."""

    def __len__(self) -> int:
        return len(self.columns[EVENTS])

    def add(self, events: int, figures: Mapping[str, float]) -> bool:
        """Add a point; return False if that halved their number, so that a step should double."""
        point = {EVENTS: events, **figures}
        for name in point.keys() - self.columns.keys():
            self.columns[name] = [None] * len(self)
        for name, column in self.columns.items():
            value = point.get(name)
            column.append(value if value == value else None)  # NaN is not a figure
        if len(self) < MOST:
            return True
        for name, column in self.columns.items():
            # The newest stays; the first point goes with every other one. Of an even number, so
            # that what stays lies at multiples of the doubled step.
            self.columns[name] = column[::-2][::-1]
        return False

    def to_json(self) -> dict[str, list[Any]]:
        """Everything, as JSON data."""
        return {name: list(column) for name, column in self.columns.items()}

    @classmethod
    def from_json(cls, data: Any) -> History:
        """Go on where `to_json` was called. Raises `ValueError` if the data is not its own."""
        history = cls()
        history.columns = {str(name): list(column) for name, column in data.items()}
        if len({len(column) for column in history.columns.values()}) != 1:
            raise ValueError("columns of a history differ in length")
        len(history)  # the events are there
        return history


_CLASSES, _NUMBERS = ("hit", "loss"), ("absolute", "squared")
"""Names of the two scores of an event."""

UNCHANGED = "unchanged"
"""Of labelled events: the score of the first baseline where that must not know the label before,
see `Scored.unchanged`; NaN where there is none."""

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class Metrics:
    """Figures of the whole stream and of its last events, however these are divided into calls.

    Parameters
    ----------
    classification : bool
    window : int
        Events in the windowed figures.
    names : sequence of str
        Further figures by their names in `river.metrics`, see
        `streamk.engine.evaluation.river_metrics`.
    region : str, optional
        Where predictions have regions, the name of the figure of their mean size.
    slices : str or int, optional
        The column whose values have figures of their own.
    quantile : float, optional
        Numbers are predicted as this quantile, and the pinball loss takes the place of absolute
        errors.

    Examples
    --------
    >>> metrics = Metrics(classification=False, window=2, names=["R2"])
    >>> metrics.add_numbers([2.0, 3.0, 5.0], [5.0, 4.0, 4.0])
    >>> metrics.window()["mae"], round(metrics.whole()["mae"], 2), round(metrics.whole()["R2"], 2)
    (1.0, 1.67, -15.5)
    >>> metrics.baselines()["window"]
    {'last_value': 0.5, 'mean': 0.75}
    """

    def __init__(
        self,
        *,
        classification: bool,
        window: int,
        names: Sequence[str] = (),
        region: str | None = None,
        slices: str | int | None = None,
        quantile: float | None = None,
    ) -> None:
        self.classification, self._quantile = classification, quantile
        self.scored = 0
        """Events that had both a prediction and a label."""
        self.history = History()
        """Windowed figures along the stream."""
        self.confusion = Confusion()
        """Of classification; without a label otherwise."""
        self._baselines = ClassBaselines() if classification else NumberBaselines()
        self._named = named(names, classification=classification, confusion=self.confusion)
        self._curves = [one for one in self._named if isinstance(one, AreaUnderCurve)]
        self._coverage = None if region is None else Coverage(region)
        self.slices = None if slices is None else Slices(slices)
        """The values of the column that have figures of their own; None without one."""
        self._window = window
        self._stride = max(1, window // 100)  # a finer line would show the same window again
        self._means = (*(_CLASSES if classification else _NUMBERS), *self._baselines.NAMES)
        self._sums: Floats = np.zeros(len(self._means))
        self._columns = (*self._means, "truth", "answer", *(one.name for one in self._curves))
        self._further: tuple[str, ...] = () if self._coverage is None else Coverage.COLUMNS
        self._further += () if self.slices is None else (Slices.COLUMN,)
        self._columns += self._further
        self._last: Floats = np.zeros((len(self._columns), 0))
        """The last events, by column."""

    @property
    def baseline_names(self) -> tuple[str, ...]:
        """The baseline of the first figure."""
        return self._baselines.NAMES

    @property
    def figure_names(self) -> tuple[str, ...]:
        """The two figures that are always there, then those that were asked for."""
        first = "mae" if self._quantile is None else "pinball"
        main = ("accuracy", "log_loss") if self.classification else (first, "rmse")
        held = () if self._coverage is None else self._coverage.names
        return (*main, *(one.name for one in self._named), *held)

    # --- events -----------------------------------------------------------------------------

    def add_classes(
        self,
        probabilities: Floats,
        predictions: Sequence[Any],
        classes: Sequence[Any],
        labels: Sequence[Any],
        at: Codes | None = None,
        further: Rows | None = None,
    ) -> None:
        """Add further labelled events of a classification, n in number.

        Parameters
        ----------
        probabilities : float64 array of shape (n, classes)
            NaN where a class was not known.
        predictions : sequence of labels (n,)
            None where no class was known; such events are not scored.
        classes : sequence of labels
        labels : sequence of labels (n,)
        at : int64 array of shape (n,), optional
            How many events of the stream each is the last of; by default labelled ones are counted.
        further : mapping of str to float64 array of shape (n,), optional
            Further columns: those of `Coverage` where there are regions, of `Slices`, and
            `UNCHANGED`.
        """
        assert isinstance(self._baselines, ClassBaselines)
        truth, answers = self.confusion.codes(labels, predictions, classes)
        self.confusion.add(truth, answers)
        hits, places = self._baselines.hits(truth), self._places(at, len(truth))
        _put_unchanged(hits, further)
        told = answers >= 0
        if not told.all():
            picks = np.flatnonzero(told).tolist()
            truth, answers, hits, places = truth[told], answers[told], hits[told], places[told]
            probabilities = probabilities[told]
            further = {name: column[told] for name, column in (further or {}).items()}
            predictions, labels = [predictions[i] for i in picks], [labels[i] for i in picks]
        if not len(truth):
            return
        rows = np.vstack(
            [
                score_classes(probabilities, predictions, classes, labels).T,
                hits.T,
                [truth, answers],
                *(one.probability(probabilities, classes)[None] for one in self._curves),
            ]
        )
        self._add(rows, further, places)

    def add_numbers(
        self,
        predictions: Sequence[float] | Floats,
        labels: Sequence[float],
        at: Codes | None = None,
        further: Rows | None = None,
    ) -> None:
        """Add further labelled events of a regression; see `add_classes`."""
        assert isinstance(self._baselines, NumberBaselines)
        truth, answers = np.array(labels, np.float64), np.array(predictions, np.float64)
        scores, errors = score_numbers(answers, labels), self._baselines.errors(truth)
        _put_unchanged(errors, further)
        scores[:, 0], errors = self._lost(truth - answers), self._lost(errors)
        rows = np.vstack([scores.T, errors.T, truth, answers])
        self._add(rows, further, self._places(at, len(truth)))

    def _lost(self, errors: Floats) -> Floats:
        """Return what numbers lose that are so much less than the labels."""
        q = self._quantile
        return np.abs(errors) if q is None else np.maximum(q * errors, (q - 1.0) * errors)

    def _places(self, at: Codes | None, n: int) -> Codes:
        return np.arange(self.scored + 1, self.scored + n + 1) if at is None else at

    def _add(self, rows: Floats, further: Rows | None, places: Codes) -> None:
        before, self.scored = self.scored, self.scored + len(places)
        nothing = np.full(len(places), np.nan)
        rows = np.vstack([rows, *((further or {}).get(name, nothing) for name in self._further)])
        # One after the other, so that the sums do not depend on the division into calls.
        scores = np.concatenate([self._sums[:, None], rows[: len(self._means)]], axis=1)
        self._sums = np.cumsum(scores, axis=1)[:, -1]
        columns = self._named_columns(rows)
        for one in (*self._named, self._coverage, self.slices):
            if one is not None:
                one.add(columns)
        # Laid out alike in all calls: columns of one event would be summed in another order.
        rows = np.ascontiguousarray(np.concatenate([self._last, rows], axis=1))
        offset = self.scored - rows.shape[1]
        point = (before // self._stride + 1) * self._stride
        while point <= self.scored:
            window = rows[:, max(0, point - offset - self._window) : point - offset]
            figures = self._main_of(window) | self._baselines_of(window) | self._coverage_of(window)
            if self._named and point % self._named_stride == 0:
                figures |= self._named_of(window)
            if not self.history.add(int(places[point - before - 1]), figures):
                self._stride *= 2
            point = (point // self._stride + 1) * self._stride
        self._last = rows[:, -self._window :]

    @property
    def _named_stride(self) -> int:
        """Events between two points that have the figures that were asked for, which cost more."""
        stride = self._stride
        while stride < 32 * max(1, self._window // 100):
            stride *= 2
        return stride

    def _named_columns(self, rows: Floats) -> dict[str, Floats]:
        return dict(zip(self._columns, rows, strict=True))

    # --- figures ----------------------------------------------------------------------------

    def whole(self) -> dict[str, float]:
        """Figures of the whole stream by name; empty before the first scored event."""
        if not self.scored:
            return {}
        main, held = self._main(self._sums[:2] / self.scored), self._coverage
        named = {one.name: one.whole() for one in self._named}
        return main | named | ({} if held is None else held.whole())

    def window(self) -> dict[str, float]:
        """Figures of the last events by name; empty before the first scored event."""
        if not self.scored:
            return {}
        last = self._last
        return self._main_of(last) | self._named_of(last) | self._coverage_of(last)

    def baselines(self) -> dict[str, dict[str, float]]:
        """Figures of the baselines by the first figure, whole and windowed, by name.

        Empty before the first event that they were scored on.
        """
        if not self.scored:
            return {"whole": {}, "window": {}}
        whole = (self._sums[2:] / self.scored).tolist()
        return {
            "whole": dict(zip(self._baselines.NAMES, whole, strict=True)),
            "window": self._baselines_of(self._last),
        }

    def by_slice(self) -> dict[str, dict[str, Any]]:
        """Figures of each value of the column, by its name; empty where none was named.

        Of each its "events", the two figures that are always there and the baseline of the first,
        of all its events and, as "window", of those among the last ones.
        """
        if self.slices is None:
            return {}

        def figures(found: list[tuple[str, int, list[float]]]) -> dict[str, dict[str, Any]]:
            base = self._baselines.NAMES[0]
            return {
                name: {"events": n, **self._main(np.array(means[:2])), base: means[2]}
                for name, n, means in found
            }

        window = figures(self.slices.window(self._named_columns(self._last)))
        whole = figures(self.slices.whole())
        return {name: {**one, "window": window.get(name, {})} for name, one in whole.items()}

    def since(self) -> dict[str, int]:
        """After how many scored events a figure began to count, of those that began late.

        They are named as in `whole`.
        """
        begun = {one.name: one.since for one in self._named}
        if self._coverage is not None:
            begun |= dict.fromkeys(self._coverage.names, self._coverage.since)
        return {name: scored for name, scored in begun.items() if scored}

    def _named_of(self, rows: Floats) -> dict[str, float]:
        columns = self._named_columns(rows)
        return {one.name: one.window(columns) for one in self._named}

    def _coverage_of(self, rows: Floats) -> dict[str, float]:
        held = self._coverage
        return {} if held is None else held.window(self._named_columns(rows))

    def _main_of(self, rows: Floats) -> dict[str, float]:
        # Summed anew each time: figures must not depend on what has left the window.
        return self._main(rows[:2].mean(axis=1))

    def _main(self, means: Floats) -> dict[str, float]:
        first, second = means.tolist()
        if not self.classification:
            second = math.sqrt(second)
        return dict(zip(self.figure_names, (first, second), strict=False))

    def _baselines_of(self, rows: Floats) -> dict[str, float]:
        return dict(zip(self._baselines.NAMES, rows[2:4].mean(axis=1).tolist(), strict=True))

    # --- state ------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "classification": self.classification,
            "window": self._window,
            "quantile": self._quantile,
            "scored": self.scored,
            "sums": self._sums.tolist(),
            "last": {
                name: [value if value == value else None for value in column.tolist()]
                for name, column in self._named_columns(self._last).items()
            },
            "history": self.history.to_json(),
            "stride": self._stride,
            "baselines": self._baselines.to_json(),
            "confusion": self.confusion.to_json() if self.classification else None,
            "named": [[one.name, one.to_json()] for one in self._named],
            "coverage": None if self._coverage is None else self._coverage.to_json(),
            "slices": None if self.slices is None else self.slices.to_json(),
        }

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, Any],
        *,
        window: int | None = None,
        names: Sequence[str] | None = None,
        region: str | None = None,
        slices: str | int | None = None,
    ) -> Metrics:
        """Go on where `to_json` was called, with another window or other names if they are given.

        With `names`, `region` and `slices` are as of a new one.

        What was not kept begins to count here; see `since`.

        Raises
        ------
        StateError
            If the data is not its own.
        InvalidInput
            If a name is unknown.
        """
        try:
            saved = [name for name, _ in data["named"]]
            is_classifier, events = bool(data["classification"]), window or int(data["window"])
            quantile = None if data["quantile"] is None else float(data["quantile"])
            if names is None:
                region = (data["coverage"] or {}).get("size")
                slices = (data["slices"] or {}).get("column")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        metrics = cls(
            classification=is_classifier,
            window=events,
            names=saved if names is None else names,
            region=region,
            slices=slices,
            quantile=quantile,
        )
        try:
            metrics._restore(data)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        return metrics

    def _restore(self, data: Mapping[str, Any]) -> None:
        self.scored, self._stride = int(data["scored"]), int(data["stride"])
        self._sums = np.array(data["sums"], np.float64).reshape(len(self._means))
        self.history = History.from_json(data["history"])
        last = data["last"]
        rows = len(last[self._means[0]])
        self._last = np.array(
            [last.get(name, [None] * rows) for name in self._columns], np.float64
        ).reshape(len(self._columns), rows)[:, -self._window :]
        self._baselines = type(self._baselines).from_json(data["baselines"])
        if data["confusion"] is not None:
            self.confusion.restore(data["confusion"])
        saved = dict(data["named"])
        for one in self._named:
            one.resume(saved.get(one.name), self.scored)
        if self._coverage is not None:
            self._coverage.resume(data["coverage"], self.scored)
        if self.slices is not None:
            codes = self._named_columns(self._last)[Slices.COLUMN]
            if (data["slices"] or {}).get("column") != self.slices.column:
                codes[:] = np.nan
            self.slices.resume(data["slices"])
            if not self.slices.fits(codes):
                raise ValueError("slices of the last events are not among the names")


def _put_unchanged(scores: Floats, further: Rows | None) -> None:
    """Put what is known of the first baseline into the scores of both (n, 2)."""
    if further is not None and UNCHANGED in further:
        known = further[UNCHANGED]
        scores[:, 0] = np.where(np.isnan(known), scores[:, 0], known)


def _unreadable(error: Exception) -> StateError:
    return StateError(f"the metrics in the checkpoint cannot be read: {error!r}")
