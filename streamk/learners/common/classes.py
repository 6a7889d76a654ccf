"""Labels, and the numbers by which a learner knows classes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, shown
from streamk.losses import Loss
from streamk.options import Whole

Label: TypeAlias = str | int | bool
"""A class label: JSON keeps its type."""
MOST_CLASSES = 1000
"""Default of `max_classes`: what an event takes grows with the classes."""
_PLAIN = frozenset((str, int, bool))

LARGEST_NUMBER = float(np.sqrt(np.finfo(np.float32).max))
"""The largest number that is learned, 1.8e19: single precision can hold the square of an error of
that size. It is the same for all learners, so that one model takes what another takes."""
_LEAST_WHOLE, _MOST_WHOLE = -(1 << 63), (1 << 64) - 1
"""Whole numbers that are classes: those of 64 bits, with or without a sign."""


def _plain(label: Any, row: int) -> Label:
    """Return the label as a str, int or bool of Python's own."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str) or (isinstance(label, int) and is_class_number(label)):
        return label
    if isinstance(label, int):
        raise InvalidInput(
            f"the label of row {row}, a whole number of {label.bit_length()} bits, is past the 64"
            " bits that one may have as a class; make it a text"
        )
    if isinstance(label, float) and math.isfinite(label) and label == int(label):
        return _plain(int(label), row)
    raise InvalidInput(
        f"the label of row {row}, {shown(label)}, must be a string, a whole number or a boolean; "
        "to learn numbers choose regression"
    )


class Classes:
    """Labels in the order of their first appearance.

    If the first one that is learned is a boolean, both False and True are classes from then on, in
    this order: there is no third.

    Parameters
    ----------
    labels : iterable of str, int or bool
        Known beforehand.
    max_classes : int, default 1000
        How many `check` lets there be. If more are known beforehand, there are these.

    Raises
    ------
    InvalidInput
        If `max_classes` is not a whole number of at least 2.

    Examples
    --------
    >>> classes = Classes()
    >>> classes.encode(["up", "down", "up"]), classes.labels
    (array([0, 1, 0]), ('up', 'down'))
    >>> classes = Classes()
    >>> classes.encode([True, True]), classes.labels
    (array([1, 1]), (False, True))
    """

    def __init__(self, labels: Iterable[Any] = (), max_classes: int = MOST_CLASSES) -> None:
        Whole(least=2).check("max_classes", max_classes)
        self.most = int(max_classes)
        self._index: dict[Label, int] = {}
        self._labels: tuple[Label, ...] = ()
        self.add(labels)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels, in the order of their numbers."""
        if len(self._labels) < len(self._index):
            self._labels = tuple(self._index)
        return self._labels

    def number(self, label: Any) -> int | None:
        """Return the number of a plain label, None if it is not one of these."""
        return self._index.get(label) if type(label) in _PLAIN else None

    def contains_all(self, labels: Iterable[Label]) -> bool:
        """Return whether plain labels are all among these."""
        return self._index.keys() >= set(labels)

    def __len__(self) -> int:
        return len(self._index)

    def encode(self, y: Iterable[Any]) -> NDArray[np.intp]:
        """Return the numbers of labels that are learned, new ones getting the next numbers.

        Raises
        ------
        InvalidInput
            If a label is not a string, a whole number or a boolean.
        """
        index = self._index
        values = y.tolist() if isinstance(y, np.ndarray) else list(y)
        try:
            return np.array([index[value] for value in values], dtype=np.intp)
        except KeyError:
            labels = check_labels(values)
            self.add(self.first(labels))
            return self.add(labels)

    def first(self, labels: NDArray[Any]) -> tuple[Label, ...]:
        """Return the classes that there are as soon as the first of these labels is learned."""
        if not len(self) and len(labels) and isinstance(labels[0], bool):
            return False, True
        return self.labels

    def check(self, labels: NDArray[Any]) -> None:
        """Raise InvalidInput if learning these plain labels made too many classes, naming its row.

        Examples
        --------
        >>> Classes(["up", "down"], max_classes=2).check(np.array(["up"], object))
        """
        if len(self) + len(labels) > self.most:
            check_most(set(self.first(labels)), labels.tolist(), self.most)

    def add(self, labels: Iterable[Any]) -> NDArray[np.intp]:
        """Return the numbers of labels that are known beforehand, new ones getting the next ones.

        Raises
        ------
        InvalidInput
            If a label is not a string, a whole number or a boolean.
        """
        index = self._index
        plain = check_labels(labels)
        return np.array([index.setdefault(label, len(index)) for label in plain], dtype=np.intp)

    def decode(self, numbers: NDArray[np.intp]) -> NDArray[Any]:
        """Return the labels of the numbers, an object array of the same shape."""
        table = np.empty(len(self), dtype=object)
        table[:] = self.labels
        return np.asarray(table[numbers])


def check_most(known: set[Label], labels: Sequence[Label | None], most: int) -> None:
    """Raise InvalidInput if labels would make more than so many classes, see `beyond`."""
    rows = beyond(known, labels, most)
    if rows:
        raise InvalidInput(
            f"the label of row {rows[0]}, {shown(labels[rows[0]])}, would be one class more "
            f"than max_classes={most}; drop the event, raise max_classes, or choose "
            "regression to predict a number"
        )


def beyond(known: set[Label], labels: Collection[Label | None], most: int) -> list[int]:
    """Return the places of labels that would make more than so many classes.

    Parameters
    ----------
    known : set of labels
        The classes that there are. Those that come are added.
    labels : collection of labels
        In the order in which they are learned; None adds none.
    most : int

    Examples
    --------
    >>> beyond({"up"}, ["down", None, "left", "up", "right"], 2)
    [2, 4]
    """
    places: list[int] = []
    if {None, *known}.issuperset(labels):  # as they mostly are
        return places
    for place, label in enumerate(labels):
        if label is None or label in known:
            continue
        if not known and isinstance(label, bool):
            known |= {False, True}
        elif len(known) < most:
            known.add(label)
        else:
            places.append(place)
    return places


def stand_in(classes: Sequence[Label], labels: Iterable[Any]) -> Label:
    """Return a label to put where there is none among these: one that adds no class.

    Examples
    --------
    >>> stand_in([], [None, 3, None]), stand_in(["up"], [None, "down"])
    (3, 'up')
    """
    plain = (label for label in labels if isinstance(label, str | int | np.integer | np.bool_))
    found: Any = classes[0] if classes else next(plain, "")
    label: Label = found
    return label


def check_labels(y: Iterable[Any]) -> NDArray[Any]:
    """Return class labels as an object array of plain labels, else raise InvalidInput."""
    values = y.tolist() if isinstance(y, np.ndarray) else list(y)
    labels = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        # Most labels are plain already.
        plain = type(value) is str or (type(value) in _PLAIN and is_class_number(value))
        labels[row] = value if plain else _plain(value, row)
    return labels


def is_class_number(label: int) -> bool:
    """Return whether a whole number may be a class: one of 64 bits."""
    return _LEAST_WHOLE <= label <= _MOST_WHOLE


def is_number(label: Any) -> bool:
    """Return whether a regression's label is one that `check_numbers` lets through at once."""
    return isinstance(label, float | int) and abs(label) <= LARGEST_NUMBER


def _odd(label: Any) -> bool:
    """Return whether a label is neither a number nor the text of one."""
    try:
        float(label)
    except OverflowError:
        return False
    except (TypeError, ValueError):
        return True
    return False


def check_numbers(y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[np.float64]:
    """Return regression labels as a finite float64 array of shape (n,), else raise InvalidInput.

    None may be past `LARGEST_NUMBER`.
    """
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        odd = next(
            (
                f" {shown(label):.60} of row {row} is none;"
                for row, label in enumerate(y)
                if _odd(label)
            ),
            "",
        )
        raise InvalidInput(
            f"labels of a regression must be numbers;{odd} to learn classes choose classification"
        ) from None
    except OverflowError as error:
        raise InvalidInput(f"a label is past the range of numbers ({error}); drop it") from None
    if numbers.shape != (n,):
        raise InvalidInput(f"labels of {n} events have shape ({n},), not {numbers.shape}")
    if np.vdot(numbers, numbers) <= LARGEST_NUMBER**2:  # the fast way to see that all is well
        return numbers
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InvalidInput(f"the label of row {row} is {numbers[row]}; drop the event")
    large = np.abs(numbers) > LARGEST_NUMBER
    if large.any():
        row = int(np.argmax(large))
        raise InvalidInput(
            f"the label of row {row} is {numbers[row]}, too large to learn (past "
            f"{LARGEST_NUMBER:.3g}); drop the event or scale the labels"
        )
    return numbers


def classifies(loss: Loss, task: str | None) -> bool:
    """Return whether the task is classification, which follows from the loss by default.

    Raises
    ------
    InvalidInput
        If there is no such task, or the loss cannot do it.
    """
    if task is None:
        return not loss.regresses
    found = is_classification(task)
    if not (loss.classifies if found else loss.regresses):
        raise InvalidInput(f"loss {loss.name!r} cannot do {task}")
    return found


def is_classification(task: str) -> bool:
    """Return whether the task is classification; raise InvalidInput if there is no such task."""
    if task not in ("classification", "regression"):
        raise InvalidInput(f"task={task!r} must be 'classification' or 'regression'")
    return task == "classification"
