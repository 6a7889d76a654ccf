"""The cost of missing each class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, count, reading, taken
from streamk.errors import InvalidInput, shown
from streamk.learners.common.classes import Label, check_labels
from streamk.state import State

Choice: TypeAlias = "str | Mapping[Any, float]"

HORIZON = 10_000
"""Labels that the running shares of the classes are over: the mean of all up to there, from then on
older ones fade exponentially."""
LEAST_SHARE = 0.005
"""Share that a class counts as at least. An expert gives no class less than 1e-4, so that a class
rarer than that would be the answer to everything."""


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
        If it is neither, a key is no label or a weight is not positive and finite.

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

        Parameters
        ----------
        other : ClassWeights
        share : float
        order : sequence of int
            The number here of each class there.
        events : int
            Labels that it has learned besides.
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
        """Return the weights whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its parts do not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        events = count(header, "events", _OWNER)
        arrays, _ = taken(_DECLARED, state.arrays, {}, _OWNER)
        with reading(_OWNER):
            choice = header["choice"]
            found = cls(choice if isinstance(choice, str) else dict(choice))
        found._events, found._shares = events, arrays["shares"].copy()
        return found


_OWNER = "class weights"
_DECLARED = (Declared("shares", "float64", ("classes",), Domain(least=0.0, most=1.001)),)


def _checked(given: Mapping[Any, float]) -> dict[Label, float]:
    """Return weights by plain labels, else raise InvalidInput."""
    try:
        labels = check_labels(list(given))
    except InvalidInput as error:
        raise InvalidInput(f"a key of class_weight={shown(given)} is no label: {error}") from None
    for label, weight in given.items():
        number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not (number and math.isfinite(weight) and weight > 0):
            raise InvalidInput(
                f"class_weight gives {shown(label)} the weight {shown(weight)}; it must be a "
                "positive, finite number, what it costs to miss the class"
            )
    return {label: float(weight) for label, weight in zip(labels, given.values(), strict=True)}
