"""Targets that a tree of local models is fitted to: numbers, classes or probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, shown

__all__ = ["Label", "Targets", "listed", "plain"]

Numbers = NDArray[Any]
Label = str | int | bool

_LEAST_MASS = 0.5
"""Sum of a class's probabilities over the events of a leaf from which on the leaf has the class."""


@dataclass(frozen=True)
class Targets:
    """Numbers or probabilities that are to be predicted, one row for each event.

    Parameters
    ----------
    values : float64 array of shape (n, 1) or (n, classes)
        Numbers, in units of their deviation; probabilities, those of the second of two classes.
    classes : tuple of labels
        () of numbers.
    mean, deviation : float
        Of the numbers.
    weights : float64 array of shape (classes,), optional
        Of the classes in decisions, see `streamk.prediction.decisions`; 1 by default.
    """

    values: Numbers
    classes: tuple[Label, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    weights: Numbers | None = None

    @classmethod
    def numbers(cls, y: Any, n: int) -> Targets:
        """Return those of n numbers."""
        try:
            values = np.asarray(y, np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                "labels of a regression must be numbers; choose task='classification' for classes"
            ) from None
        _check_length(values.shape, n)
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InvalidInput(f"the label of row {row} is {values[row]}, which must be finite")
        # In units of a power of 2 near the greatest number, so that no sum or square overflows.
        power = int(np.frexp(np.abs(values).max(initial=0.0))[1])
        scaled = np.ldexp(values, -power)
        mean, deviation = float(scaled.mean()), float(scaled.std()) or 1.0
        mean_in_unit, deviation_in_unit = np.ldexp([mean, deviation], power).tolist()
        return cls(((scaled - mean) / deviation)[:, None], (), mean_in_unit, deviation_in_unit)

    @classmethod
    def labels(cls, y: Any, n: int) -> Targets:
        """Return those of n labels: texts, whole numbers or booleans."""
        _check_length(np.shape(y), n)
        found: list[Label] = []
        for row, label in enumerate(listed(y)):
            one = plain(label)
            if one is None:
                raise InvalidInput(
                    f"the label of row {row}, {label!r}, must be a text, a whole number or a "
                    "boolean; choose task='regression' for numbers"
                )
            found.append(one)
        classes = list(dict.fromkeys(found))
        if len({(type(label), label) for label in found}) > len(classes):
            raise InvalidInput("labels such as 1 and True are the same; make them all texts")
        try:
            classes.sort()
        except TypeError:
            raise InvalidInput("labels are of several types; make them all texts") from None
        if len(classes) < 2:
            raise InvalidInput(f"all labels are {classes[0]!r}; there must be two classes at least")
        places = {label: place for place, label in enumerate(classes)}
        codes = np.array([places[label] for label in found])
        if len(classes) == 2:
            return cls(codes[:, None].astype(np.float64), tuple(classes))
        values = np.zeros((n, len(classes)))
        values[np.arange(n), codes] = 1.0
        return cls(values, tuple(classes))

    @classmethod
    def probabilities(
        cls, P: Numbers, classes: Sequence[Any], weights: Numbers | None = None
    ) -> Targets:
        """Return those of probabilities (n, classes), which are made to sum to 1."""
        known = tuple(one for label in classes if (one := plain(label)) is not None)
        if len(known) < len(classes):
            raise InvalidInput(
                f"the model's classes {shown(list(classes))} must be texts, whole numbers or "
                "booleans"
            )
        if P.ndim != 2 or P.shape[1] != len(classes):
            raise InvalidInput(
                f"probabilities of shape {P.shape} do not fit {len(classes)} classes"
            )
        if not (np.isfinite(P) & (P >= 0.0)).all():
            row = int(np.flatnonzero(~(np.isfinite(P) & (P >= 0.0)).all(axis=1))[0])
            raise InvalidInput(f"the probabilities of row {row} are {P[row]}")
        totals = P.sum(axis=1, keepdims=True)
        nothing = totals == 0.0
        values = np.where(nothing, 1.0 / len(classes), P / np.where(nothing, 1.0, totals))
        return cls(values[:, 1:] if len(classes) == 2 else values, known, weights=weights)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_classifier(self) -> bool:
        """True if there are classes."""
        return bool(self.classes)

    def take(self, rows: Any) -> Targets:
        """Return the targets of some events."""
        return replace(self, values=self.values[rows])

    def of_leaf(self, rows: NDArray[np.intp]) -> tuple[Numbers, NDArray[np.int64], float]:
        """Return the targets (n, q) of a leaf's events, its outputs, and the rest of the mass.

        The leaf has the classes whose probabilities sum up to at least one half, and those that an
        event is decided on, and its targets sum to 1. The rest is the mean probability of the
        others; of labels that are certain the share of those that are the only ones of their class
        (Good and Turing).
        """
        values = self.values[rows]
        if values.shape[1] == 1:
            return values, np.zeros(1, np.int64), 0.0
        mass = values.sum(axis=0)
        has = mass >= min(_LEAST_MASS, float(mass.max()))
        has[(values if self.weights is None else values * self.weights).argmax(axis=1)] = True
        (outputs,) = np.nonzero(has)
        rest = 1.0 - float(mass[outputs].sum()) / len(rows)
        single = float((mass[outputs] == 1.0).sum()) / len(rows)
        chosen = values[:, outputs]
        totals = chosen.sum(axis=1, keepdims=True)
        even = np.full(len(outputs), 1.0 / len(outputs))
        chosen = np.where(totals > 0.0, chosen / np.where(totals > 0.0, totals, 1.0), even)
        return chosen, outputs.astype(np.int64), max(rest, single)


def listed(y: Any) -> list[Any]:
    """Return labels as a list, each as it is."""
    return y.tolist() if hasattr(y, "tolist") else list(y)


def plain(label: Any) -> Label | None:
    """Return a label as a str, int or bool of Python's own, as a file has it; None of another."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, bool):
        return label
    if isinstance(label, str):
        return str.__str__(label)  # of a member of an enum, too
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return int(label)
    return None


def _check_length(shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise InvalidInput(f"labels of shape {shape} must have shape ({n},), one for each event")
