"""Columns and labels in the experts' terms.

Columns are raw, with a running scale; labels are numbers of classes, or numbers in units of the
labels' spread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import BINARY, CLASSES, LARGEST, NUMBERS
from streamk.errors import InvalidInput
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import check_events
from streamk.learners.common.classes import Classes, is_number
from streamk.learners.common.predictor import one_row
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import State

Floats = NDArray[np.float64]
_FLOAT64 = np.dtype(np.float64)

Unit: TypeAlias = tuple[float, float]
"""Center and inverse scale of labels."""
LARGEST_TARGET = 20.0
"""Bound of numbers in units of their spread, as labels and as experts predict them."""
OTHER_UNIT = 1e3
"""Change of a unit after which what was learned in the old one is noise."""


def unit_change(old: Unit, new: Unit) -> tuple[float, float]:
    """Return factor and shift from labels in an old unit to those in a new one.

    Examples
    --------
    >>> unit_change((1.0, 2.0), (0.0, 1.0)), unit_change((0.0, 1.0), (0.0, 1e4))
    ((0.5, 1.0), (0.0, 0.0))
    """
    factor, shift = new[1] / old[1], (old[0] - new[0]) * new[1]
    return (0.0, 0.0) if max(factor, abs(shift)) > OTHER_UNIT else (factor, shift)


def unit_of(scale: LabelQuantiles) -> Unit:
    """Return the unit of numbers; classes, which have no column, are as they are."""
    return (scale.center[0], scale.inverse[0]) if len(scale) else (0.0, 1.0)


def in_unit(labels: Any, unit: Unit) -> Any:
    """Return numbers, or one, in a unit, bounded."""
    center, inverse = unit
    found = (labels - center) * inverse
    if isinstance(found, float):
        return min(max(found, -LARGEST_TARGET), LARGEST_TARGET)
    return np.clip(found, -LARGEST_TARGET, LARGEST_TARGET)


class ScaledColumns:
    """Names of columns that grow, None before the first, with keys and a running scale.

    Examples
    --------
    >>> columns = ScaledColumns(RunningQuantiles())
    >>> columns.add(["a", 7], columns.new_keys(["a", 7]))
    >>> columns.names, len(columns.scale)
    (('a', 7), 2)
    """

    def __init__(self, scale: RunningQuantiles) -> None:
        self.names: tuple[Column, ...] | None = None
        self.keys, self.scale = column_keys(()), scale

    def new_keys(self, names: Sequence[Column]) -> NDArray[np.uint64]:
        """Return the keys of columns to come; raise InvalidInput if one is there already."""
        keys = column_keys(names)
        twice = np.isin(keys, self.keys)
        if twice.any():
            raise InvalidInput(f"column {names[int(twice.argmax())]!r} is there already")
        return keys

    def add(self, names: Sequence[Column], keys: NDArray[np.uint64]) -> None:
        """Append columns with their keys."""
        self.keys = np.concatenate([self.keys, keys])
        self.names = (*(self.names or ()), *names)
        self.scale.add_columns(len(names))

    def scale_of(self, names: Sequence[Column]) -> RunningQuantiles:
        """Return a copy of the scale for these columns, also for such as are not there."""
        places = {name: place for place, name in enumerate(self.names or ())}
        return self.scale.select([places.get(name) for name in names])

    # Events

    def check(self, X: ArrayLike) -> Floats:
        """Return events (n, d) as the experts take them, or raise InvalidInput."""
        return check_events(X, _FLOAT64, self.names, missing=True)

    def event(self, x: ArrayLike, was_forecast_last: Callable[[Floats], bool]) -> Floats:
        """Return one event (d,) as the compiled loops take it, or raise InvalidInput.

        One that was forecast last need not be looked at again. A sum of squares is the
        fast way to see it otherwise; a NaN, which is missing, takes the last one.
        """
        if (
            type(x) is np.ndarray
            and x.dtype is _FLOAT64
            and x.shape == self.keys.shape
            and x.flags.carray
            and (
                was_forecast_last(x)
                or np.vdot(x, x) <= LARGEST**2
                or not (np.abs(x) > LARGEST).any()
            )
        ):
            return x
        return self.check(one_row(x)).ravel()

    @classmethod
    def from_state(cls, scale: State, names: Sequence[Column] | None) -> Self:
        """Return columns with the scale of a state; raise StateError or ValueError otherwise."""
        columns = cls(RunningQuantiles.from_state(scale))
        if names is not None:
            columns.names, columns.keys = tuple(names), column_keys(names)
        if len(columns.scale) != len(columns.keys):
            raise ValueError(f"{len(columns.scale)} columns have a scale")
        return columns


class ClassTargets:
    """Numbers of classes; those that are encoded are added to the learner's."""

    def __init__(self, classes: Classes, label_scale: LabelQuantiles) -> None:
        self._classes, self.label_scale = classes, label_scale
        self.unit = unit_of(label_scale)

    @property
    def task(self) -> int:
        """The task of the experts."""
        return CLASSES if len(self._classes) > 2 else BINARY

    @property
    def classes(self) -> int:
        """Classes that the experts know, two at least."""
        return max(2, len(self._classes))

    def known(self, label: Any) -> int | None:
        """Return the number of the class of a label, None if it is not a known one."""
        return self._classes.number(label)

    def until_change(self, labels: NDArray[Any]) -> int:
        """Return how many labels (n,) come before a new class, which is at first on its own."""
        if self._classes.contains_all(labels[1:]):
            return len(labels)
        known = self._classes.number
        return next(n for n, label in enumerate(labels) if n and known(label) is None)

    def observe(self, labels: NDArray[Any]) -> bool:
        """Return whether there is a new class, which is the first of such labels."""
        return self._classes.number(labels[0]) is None

    def encode(self, labels: NDArray[Any]) -> Floats:
        """Return the numbers of the classes of labels; new ones are added."""
        return self._classes.encode(labels).astype(np.float64)

    def restored(self, F: Floats, unit: Unit | None = None) -> Floats:
        """Return outputs of the experts, as they are."""
        return F

    def even(self, n: int) -> Floats:
        """Return the outputs for n events before any column is known: even odds."""
        return np.full((n, self.classes if self.classes > 2 else 1), 1.0 / self.classes)


class NumberTargets:
    """Numbers in units of their running spread.

    Examples
    --------
    >>> targets = NumberTargets(LabelQuantiles(1))
    >>> targets.observe(np.arange(100.0)), float(targets.unit[0])
    (True, 31.5)
    >>> targets.restored(targets.encode(np.array([10.0, 20.0]))).round(6)
    array([10., 20.])
    """

    task, classes = NUMBERS, 2

    def __init__(self, label_scale: LabelQuantiles) -> None:
        self.label_scale = label_scale

    @property
    def unit(self) -> Unit:
        """Center and inverse scale of the labels."""
        return unit_of(self.label_scale)

    def known(self, label: Any) -> float | None:
        """Return a label that is a number, None if it is not."""
        return float(label) if is_number(label) else None

    def until_change(self, labels: NDArray[Any]) -> int:
        """Return how many labels (n,) come until the unit changes again."""
        return min(len(labels), self.label_scale.until_change(labels))

    def observe(self, labels: NDArray[Any]) -> bool:
        """Take labels into the spread; return whether the unit has changed."""
        return self.label_scale.observe(labels[:, None])

    def encode(self, labels: NDArray[Any]) -> Floats:
        """Return labels in units of their spread."""
        return np.asarray(in_unit(labels, self.unit))

    def restored(self, F: Floats, unit: Unit | None = None) -> Floats:
        """Return outputs of the experts in the labels' terms, from an old unit if there is one."""
        center, inverse = self.unit if unit is None else unit
        return np.asarray(F / inverse + center)

    def even(self, n: int) -> Floats:
        """Return the outputs for n events before any column is known: 0."""
        return np.zeros((n, 1))


Targets: TypeAlias = ClassTargets | NumberTargets
