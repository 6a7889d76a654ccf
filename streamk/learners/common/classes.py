"""Labels and their checks, numbers of classes, outputs of more of them, and their weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.backends.threads import sum_of_squares
from streamk.declared import Declared, Domain, count, reading, taken
from streamk.errors import InvalidInput, shown
from streamk.losses import Loss
from streamk.options import Whole
from streamk.state import State

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


Matrix = NDArray[np.float64]

LARGEST_OUTPUT = 1e300
"""Outputs are bounded by this: twice an output, and the difference of two, are numbers too."""
_MOST_SINGLE = 1e36
Choice: TypeAlias = "str | Mapping[Any, float]"

HORIZON = 10_000
"""Labels that the running shares of the classes are over: the mean of all up to there, from then on
older ones fade exponentially."""
LEAST_SHARE = 0.005
"""Share that a class counts as at least. An expert gives no class less than 1e-4, so that a class
rarer than that would be the answer to everything."""
_OWNER = "class weights"
_DECLARED = (Declared("shares", "float64", ("classes",), Domain(least=0.0, most=1.001)),)


def _plain(label: Any, row: int) -> Label:
    """Return the label as a str, int or bool of Python's own."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str) or (isinstance(label, int) and is_class_number(label)):
        return label
    if isinstance(label, int):
        raise InvalidInput(
            f"the label of row {row}, a whole number of {label.bit_length()} bits, does not fit "
            "the 64 bits of a class; make it a text"
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
    this order: there is no third. `check` lets there be `max_classes`, a whole number of at least
    2; if more labels are known beforehand, there are these.

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

        Raises `InvalidInput` if a label is not a string, a whole number or a boolean.
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
        """Do as `encode`, for labels that are known beforehand."""
        index = self._index
        plain = check_labels(labels)
        return np.array([index.setdefault(label, len(index)) for label in plain], dtype=np.intp)

    def decode(self, numbers: NDArray[np.intp]) -> NDArray[Any]:
        """Return the labels of the numbers, an object array of the same shape."""
        labels = self.labels
        table = np.empty(len(labels), dtype=object)
        table[:] = labels
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

    Those that come are added to the classes that are known, in the order in which labels are
    learned; None adds none.

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
        odds = (
            f" {shown(label):.60} of row {row} is not a number;"
            for row, label in enumerate(y)
            if _odd(label)
        )
        odd = next(odds, "")
        raise InvalidInput(
            f"labels of a regression must be numbers;{odd} to learn classes choose classification"
        ) from None
    except OverflowError as error:
        raise InvalidInput(f"a label is beyond the range of numbers ({error}); drop it") from None
    if numbers.shape != (n,):
        raise InvalidInput(f"labels of {n} events have shape ({n},), not {numbers.shape}")
    if sum_of_squares(numbers) <= LARGEST_NUMBER**2:
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

    Raises `InvalidInput` if there is no such task, or the loss cannot do it.
    """
    if task is None:
        return not loss.regresses
    found = is_classification(task)
    if not (loss.classifies if found else loss.regresses):
        raise InvalidInput(f"loss {loss.name!r} is not for {task}")
    return found


def is_classification(task: str) -> bool:
    """Return whether the task is classification; raise InvalidInput if there is no such task."""
    if task not in ("classification", "regression"):
        raise InvalidInput(f"task={task!r} must be 'classification' or 'regression'")
    return task == "classification"


def bounded(F: NDArray[Any]) -> NDArray[Any]:
    """Return outputs or coefficients that are finite, those that overflowed being the largest.

    They are bounded by 1e300, in single precision by 1e36; no number is 0. An event whose output
    overflowed is not learned, so what is predicted of it is of little worth. But it is a number, by
    which whoever takes it can see that.

    Examples
    --------
    >>> bounded(np.array([[1.0, np.inf, -np.inf, np.nan]]))
    array([[ 1.e+000,  1.e+300, -1.e+300,  0.e+000]])
    """
    most = LARGEST_OUTPUT if F.dtype == np.float64 else _MOST_SINGLE
    if (np.abs(F) <= most).all():
        return F
    return np.asarray(np.clip(np.nan_to_num(F), -most, most))


def widened(W: Matrix, n_outputs: int, loss: Loss) -> Matrix:
    """Return coefficients with so many outputs, new ones 0, that say of old classes what W said.

    Examples
    --------
    >>> from streamk.losses import loss
    >>> widened(np.array([[2.0]]), 3, loss("logistic"))
    array([[-2.,  2.,  0.]])
    """
    if W.shape[1] == 1 < n_outputs and loss.name != "softmax":
        W = loss.split_binary(W[:, 0])
    return np.ascontiguousarray(np.pad(W, ((0, 0), (0, n_outputs - W.shape[1]))))


def aligned(
    W: Matrix, there: Sequence[Label], here: Sequence[Label], n_outputs: int, loss: Loss
) -> Matrix:
    """Return another model's coefficients W (n, outputs) with its outputs in this one's order.

    `there` are the other's classes, and `here` those of this one, which has all of them and
    `n_outputs` outputs.

    Examples
    --------
    >>> from streamk.losses import loss
    >>> aligned(np.array([[2.0]]), ["a", "b"], ["b", "a"], 1, loss("logistic"))
    array([[-2.]])
    """
    if W.shape[1] == n_outputs == 1:
        # The one output stands for the second class, and that may be the other's first.
        swapped = there[1:2] != here[1:2] and there[:1] != here[:1]
        return -W if swapped else W
    if W.shape[1] == 1 and loss.name != "softmax":
        W = loss.split_binary(W[:, 0])
    there = there[: W.shape[1]]
    order = [there.index(label) if label in there else W.shape[1] for label in here]
    return np.ascontiguousarray(np.pad(W, ((0, 0), (0, 1)))[:, order])


class ClassWeights:
    """Weights of the classes, given or balanced.

    The label with the largest product of weight and probability has the least expected weighted
    error (Elkan 2001).

    Parameters
    ----------
    choice : "balanced" or mapping of label to float
        Positive weights by label, 1 for the labels that are left out; or weights that are one over
        the running share of the class among the labels learned, with one more label of each class.

    Raises
    ------
    InvalidInput
        If it is neither, a key is not a label or a weight is not positive and finite.

    Examples
    --------
    >>> weights = ClassWeights("balanced")
    >>> weights.learn([0.0, 0.0, 0.0, 1.0])
    >>> weights.of(["often", "seldom"])
    array([1.5, 3. ])
    >>> weights.scores(np.array([0.4]), ["often", "seldom"])
    array([0.9, 1.2])
    """

    TYPE = "class-weights"

    def __init__(self, choice: Choice) -> None:
        self.balanced = isinstance(choice, str) and choice == "balanced"
        if not (self.balanced or isinstance(choice, Mapping)):
            raise InvalidInput(
                f"class_weight={shown(choice)} must be None, 'balanced' or a dict of a positive "
                "weight for each label"
            )
        self._given = {} if isinstance(choice, str) else _checked(choice)
        self._events, self._shares = 0, np.zeros(0)

    @property
    def choice(self) -> str | dict[Label, float]:
        """The choice, with labels and weights of Python's own types."""
        return "balanced" if self.balanced else dict(self._given)

    def check(self, classes: Sequence[Label]) -> None:
        """Raise InvalidInput if a label has a weight that is not among the classes there will be.

        It names the label.
        """
        for label in self._given:
            if label not in classes:
                raise InvalidInput(
                    f"class_weight names {label!r}, which is not among classes {list(classes)!r}; "
                    "give weights to these labels only"
                )

    def learn(self, numbers: Iterable[float]) -> None:
        """Take in the numbers of labels' classes, in their order."""
        if not self.balanced:
            return
        for number in numbers:
            k = int(number)
            if k >= len(self._shares):
                self._shares = np.pad(self._shares, (0, k + 1 - len(self._shares)))
            self._events += 1
            rate = 1.0 / min(self._events, HORIZON)
            self._shares *= 1.0 - rate
            self._shares[k] += rate

    def of(self, labels: Sequence[Label]) -> NDArray[np.float64]:
        """Return the weight of each class of these labels, by its number."""
        if not self.balanced:
            return np.array([self._given.get(label, 1.0) for label in labels])
        counts, events = np.ones(len(labels)), min(self._events, HORIZON)
        known = self._shares[: len(labels)]
        counts[: len(known)] += events * known
        return 1.0 / np.maximum(counts / (events + len(labels)), LEAST_SHARE)

    def scores(self, F: NDArray[np.float64], labels: Sequence[Label]) -> NDArray[np.float64]:
        """Return weight times probability, float64 (..., classes).

        Parameters
        ----------
        F : float64 array of shape (..., classes), or (..., 1)
            Probabilities; with one column that of the second of two classes.
        labels : sequence of labels
        """
        if F.shape[-1] == 1 and len(labels) > 1:
            F = np.concatenate([1.0 - F, F], axis=-1)
        return np.asarray(F * self.of(labels[: F.shape[-1]]))

    def merge(self, other: ClassWeights, share: float, order: Sequence[int], events: int) -> None:
        """Take in a share of what another one with the same choice has counted.

        `order` has the number here of each class there; `events` are labels that it has learned
        besides.
        """
        theirs = other._shares
        there = np.array(order[: len(theirs)], dtype=np.intp)
        shares = np.zeros(max([len(self._shares), *(there + 1)]))
        shares[: len(self._shares)] = (1.0 - share) * self._shares
        shares[there] += share * theirs
        self._events, self._shares = self._events + events, shares

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        given: Any = "balanced" if self.balanced else [list(pair) for pair in self._given.items()]
        header = {"type": self.TYPE, "choice": given}
        return State({**header, "events": self._events}, {"shares": self._shares.copy()})

    @classmethod
    def from_state(cls, state: State) -> ClassWeights:
        """Return the weights of a state, or raise StateError if it does not fit."""
        header: Any = state.expect(cls.TYPE).header
        events = count(header, "events", _OWNER)
        arrays, _ = taken(_DECLARED, state.arrays, {}, _OWNER)
        with reading(_OWNER):
            choice = header["choice"]
            found = cls(choice if isinstance(choice, str) else dict(choice))
        found._events, found._shares = events, arrays["shares"].copy()
        return found


def _checked(given: Mapping[Any, float]) -> dict[Label, float]:
    """Return weights by plain labels, else raise InvalidInput."""
    try:
        labels = check_labels(list(given))
    except InvalidInput as error:
        raise InvalidInput(
            f"a key of class_weight={shown(given)} is not a label: {error}"
        ) from None
    for label, weight in given.items():
        number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not (number and math.isfinite(weight) and weight > 0):
            raise InvalidInput(
                f"class_weight gives {shown(label)} the weight {shown(weight)}; it must be a "
                "positive, finite number: the cost of missing the class"
            )
    return {label: float(weight) for label, weight in zip(labels, given.values(), strict=True)}
