"""Figures of River by their names in `river.metrics`.

Of classes what is kept is counts: events by class, or by thresholds; River's metric makes the
figure of them, so that names and formulas are River's and a batch costs little. Of numbers River's
metric itself is fed, one event at a time.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streamk.engine.evaluation.confusion import Confusion, Margins, counted
from streamk.errors import InvalidInput

__all__ = ["BINARY", "CLASSES", "NUMBERS", "AreaUnderCurve", "Named", "Rows", "named"]

BINARY = ("F1", "Jaccard", "MCC", "Precision", "ROCAUC", "Recall")
"""Those of one class, which is the positive one, against all others."""
CLASSES = (
    *("Accuracy", "BalancedAccuracy", "CohenKappa", "GeometricMean"),
    *("MacroF1", "MacroJaccard", "MacroPrecision", "MacroRecall"),
    *("MicroF1", "MicroJaccard", "MicroPrecision", "MicroRecall"),
    *("WeightedF1", "WeightedJaccard", "WeightedPrecision", "WeightedRecall"),
)
"""Those of any number of classes."""
NUMBERS = ("MAE", "MAPE", "MSE", "R2", "RMSE", "RMSLE", "SMAPE")
_ALWAYS = ("CrossEntropy", "LogLoss")

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Rows = Mapping[str, Floats]
"""Scored events by column: truth and answer (numbers of classes, or numbers), and others."""


class Named(Protocol):
    """A figure that was asked for by its name."""

    name: str
    since: int
    """Scored events before it began to count."""

    def add(self, rows: Rows) -> None:
        """Take further scored events."""

    def whole(self) -> float:
        """Return the figure of all events taken."""

    def window(self, rows: Rows) -> float:
        """Return the figure of some events only."""

    def to_json(self) -> Any:
        """Everything, as JSON data."""

    def resume(self, saved: Any, scored: int) -> None:
        """Go on where `to_json` was called, or with None begin after so many `scored` events."""


def named(names: Sequence[str], *, classification: bool, confusion: Confusion) -> list[Named]:
    """Return the figures of these names.

    Parameters
    ----------
    names : sequence of str
        Names in `river.metrics`; one of two classes may name the positive one, as ``F1=spam``.
        Without, the positive class is True or 1, as River has it.
    classification : bool
    confusion : Confusion
        Where the classes are counted.

    Raises
    ------
    InvalidInput
        If a name is unknown, does not fit the task or is given twice.

    Examples
    --------
    >>> (f1,) = named(["F1=spam"], classification=True, confusion=Confusion())
    >>> f1.name
    'F1=spam'
    """
    if isinstance(names, str):
        raise InvalidInput(f"metrics={names!r} must be a tuple of names: ({names!r},)")
    figures: list[Named] = []
    for text in names:
        if text in [figure.name for figure in figures]:
            raise InvalidInput(f"the metric {text!r} is given twice")
        name, equals, positive = str(text).partition("=")
        _check(name, positive if equals else None, classification)
        if not classification:
            figures.append(_OfNumbers(name))
        elif name == "ROCAUC":
            figures.append(AreaUnderCurve(text, confusion, positive or None))
        else:
            figures.append(_OfClasses(text, confusion, positive or None))
    return figures


def _check(name: str, positive: str | None, classification: bool) -> None:
    """Raise `InvalidInput` for a metric that cannot be had."""
    fitting = sorted((*BINARY, *CLASSES) if classification else NUMBERS)
    there = f"there are {', '.join(fitting)}"
    task = "classification" if classification else "regression"
    if name in fitting:
        if positive is not None and name not in BINARY:
            raise InvalidInput(f"{name} is not a metric of one class; write it without ={positive}")
        if positive == "":
            raise InvalidInput(f"{name}= needs the positive class after it")
    elif name in _ALWAYS and classification:
        raise InvalidInput(f"{name} is always shown, as log_loss; leave it out")
    elif name in (*BINARY, *CLASSES, *NUMBERS):
        raise InvalidInput(f"the metric {name} does not fit {task}, where {there}")
    else:
        near = difflib.get_close_matches(name, fitting, 2, 0.5)
        near += [other for other in fitting if other.lower() == name.lower() and other not in near]
        hint = f"did you mean {' or '.join(near)}? T" if near else "t"
        raise InvalidInput(f"no metric {name!r} for {task}; {hint}{there[1:]}")


def _river() -> Any:
    """Return `river.metrics`, which is not imported before it is needed."""
    from river import metrics

    return metrics


class _OfClasses:
    """A figure of a confusion matrix."""

    def __init__(self, name: str, confusion: Confusion, positive: str | None) -> None:
        self.name, self.since = name, 0
        self._metric = name.partition("=")[0]
        self._confusion, self._positive = confusion, positive
        self._checked = 0

    def add(self, rows: Rows) -> None:
        self._check_labels()

    def whole(self) -> float:
        return self._figure(self._confusion.counts)

    def window(self, rows: Rows) -> float:
        truth, answers = (rows[name].astype(np.int64) for name in ("truth", "answer"))
        return self._figure(counted(truth, answers, len(self._confusion.labels)))

    def to_json(self) -> Any:
        return None

    def resume(self, saved: Any, scored: int) -> None:
        """Count nothing by itself: the confusion matrix does, from the first event on."""

    def positive(self, labels: Sequence[Any]) -> int:
        """Return the place of the positive class among these, -1 if it is none of them."""
        text = self._positive
        for place, label in enumerate(labels):
            if label == 1 if text is None else text in (str(label), json.dumps(label)):
                return place
        return -1

    def _check_labels(self) -> None:
        """Raise `InvalidInput` if the positive class is nowhere named and not clear."""
        labels, name = self._confusion.labels, self._metric
        if name in BINARY and self._positive is None:
            several = [f"{kind}{name}" for kind in ("Macro", "Micro", "Weighted")]
            other = f", or ask for {', '.join(several)}" if several[0] in CLASSES else ""
            for label in labels[self._checked :]:
                if label not in (False, True):
                    raise InvalidInput(
                        f"the metric {name} needs labels True and False, or 1 and 0, but there is "
                        f"a label {label!r}; name the positive class, as {name}={label}{other}"
                    )
        self._checked = len(labels)

    def _figure(self, counts: Margins) -> float:
        metrics = _river()
        cm = metrics.ConfusionMatrix()
        if self._metric in BINARY:
            _collapse(cm, counts, self.positive(self._confusion.labels))
        else:
            _fill(cm, counts)
        return float(getattr(metrics, self._metric)(cm=cm).get())


def _collapse(cm: Any, counts: Margins, positive: int) -> None:
    """Count one class against all others."""
    total = int(counts.events.sum())
    events, predicted, right = (
        int(column[positive]) if 0 <= positive < len(column) else 0 for column in counts
    )
    for label, answer, n in (
        (True, True, right),
        (True, False, events - right),
        (False, True, predicted - right),
        (False, False, total - events - predicted + right),
    ):
        if n:
            cm.update(label, answer, w=float(n))


def _fill(cm: Any, counts: Margins) -> None:
    """Fill in the margins and the diagonal, which is all that River's metrics of `CLASSES` read."""
    table = zip(*(column.tolist() for column in counts), strict=True)
    for label, (events, predicted, right) in enumerate(table):
        if events or predicted:
            if right:
                cm.update(label, label, w=float(right))
            cm.sum_row[label], cm.sum_col[label] = float(events), float(predicted)
    cm.total_weight = float(counts.events.sum())
    cm.n_samples = int(counts.events.sum())


class AreaUnderCurve(_OfClasses):
    """ROCAUC: events by class and by how many of River's thresholds their probability is above."""

    def __init__(self, name: str, confusion: Confusion, positive: str | None) -> None:
        super().__init__(name, confusion, positive)
        self._counts: Codes | None = None
        self._limits: Floats | None = None

    def add(self, rows: Rows) -> None:
        """Take further scored events."""
        super().add(rows)
        self._counts = self._begun() + self._above(rows)

    def whole(self) -> float:
        """Return the figure of all events taken."""
        return self._area(self._begun())

    def window(self, rows: Rows) -> float:
        """Return the figure of some events only."""
        there = rows[self.name] == rows[self.name]
        return self._area(self._above({name: column[there] for name, column in rows.items()}))

    def to_json(self) -> Any:
        """Everything, as JSON data."""
        return [self.since, self._begun().tolist()]

    def resume(self, saved: Any, scored: int) -> None:
        """Go on where `to_json` was called, or with None begin after so many `scored` events."""
        self.since = scored
        if saved is not None:
            self.since, counts = int(saved[0]), saved[1]
            self._counts = np.array(counts, np.int64).reshape(self._begun().shape)

    def probability(self, probabilities: Floats, classes: Sequence[Any]) -> Floats:
        """Return the positive class's (n,) of all (n, classes), 0 where it was not known."""
        column = self.positive(classes)
        if column < 0:
            return np.zeros(len(probabilities))
        return np.nan_to_num(probabilities[:, column])

    @property
    def _thresholds(self) -> Floats:
        if self._limits is None:
            self._limits = np.array(_river().ROCAUC().thresholds)
        return self._limits

    def _begun(self) -> Codes:
        if self._counts is None:
            return np.zeros((2, len(self._thresholds) + 1), np.int64)
        return self._counts

    def _above(self, rows: Rows) -> Codes:
        """Return how many events, negative and positive, are above 0, 1, … thresholds."""
        size = len(self._thresholds) + 1
        above = np.searchsorted(self._thresholds, rows[self.name])
        positive = rows["truth"] == self.positive(self._confusion.labels)
        return np.bincount(above + size * positive, minlength=2 * size).reshape(2, size)

    def _area(self, counts: Codes) -> float:
        metric = _river().ROCAUC()
        for k, cm in enumerate(metric.cms):
            for label, row in zip((False, True), counts, strict=True):
                cm.update(label, True, w=float(row[k + 1 :].sum()))
                cm.update(label, False, w=float(row[: k + 1].sum()))
        return float(metric.get())


class _OfNumbers:
    """A figure of numbers, as River's metric has it that is fed one event at a time."""

    def __init__(self, name: str) -> None:
        self.name, self.since = name, 0
        self._metric: Any = None

    def add(self, rows: Rows) -> None:
        self._metric = self._fed(self._begun(), rows)

    def whole(self) -> float:
        return float(self._begun().get())

    def window(self, rows: Rows) -> float:
        there = rows["truth"] == rows["truth"]
        return float(self._fed(self._new(), {k: rows[k][there] for k in ("truth", "answer")}).get())

    def to_json(self) -> Any:
        return [self.since, _numbers(self._begun())]

    def resume(self, saved: Any, scored: int) -> None:
        self.since, self._metric = scored, self._new()
        if saved is not None:
            self.since, numbers = int(saved[0]), saved[1]
            _set_numbers(self._metric, numbers)

    def _new(self) -> Any:
        return getattr(_river(), self.name)()

    def _begun(self) -> Any:
        return self._new() if self._metric is None else self._metric

    def _fed(self, metric: Any, rows: Rows) -> Any:
        update = metric.update
        for truth, answer in zip(rows["truth"].tolist(), rows["answer"].tolist(), strict=True):
            try:
                update(truth, answer)
            except ValueError as error:
                raise InvalidInput(
                    f"the metric {self.name} is not defined for the label {truth:g} and the "
                    f"prediction {answer:g} ({error}); leave it out"
                ) from None
        return metric


def _numbers(thing: Any) -> dict[str, Any]:
    """Return the numbers that a River object holds, and those of the objects in it."""
    return {
        name: value if isinstance(value, int | float) else _numbers(value)
        for name, value in vars(thing).items()
    }


def _set_numbers(thing: Any, data: Mapping[str, Any]) -> None:
    """Undo `_numbers`. Raises `ValueError` if these are another object's."""
    if data.keys() != vars(thing).keys():
        raise ValueError(f"{type(thing).__name__} has not the numbers {', '.join(data)}")
    for name, value in data.items():
        if isinstance(value, Mapping):
            _set_numbers(getattr(thing, name), value)
        else:
            setattr(thing, name, value)
