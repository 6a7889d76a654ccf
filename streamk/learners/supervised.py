"""What learners of one loss have in common: checked events, checked labels, classes that come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.learners.classes import Label, check_labels, check_numbers, is_number
from streamk.learners.predictor import Decider
from streamk.losses import Loss


class Supervised(Decider):
    """A learner of one loss, which learns and decides on events that were checked before."""

    loss: Loss
    dtype: np.dtype[Any]

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        raise NotImplementedError

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return self._classes.labels

    def learn_checked(self, events: NDArray[Any], labels: NDArray[Any]) -> None:
        """Learn as `learn_many` from finite events of the dtype and what `check_labels` gave."""
        raise NotImplementedError

    def decide_checked(self, events: NDArray[Any]) -> NDArray[np.float64]:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        raise NotImplementedError

    def add_classes(self, labels: Iterable[Label]) -> None:
        """Append classes that are not known yet, as if they had been passed at the beginning."""
        self._classes.add(labels)
        self._fit_outputs()

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        raise NotImplementedError

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events in their order.

        Parameters
        ----------
        X : array of shape (n, d)
        y : sequence of n labels: str, int or bool for classes, else finite numbers

        Raises
        ------
        InvalidInput
            If a value or label is not usable, naming its row; nothing of the call is learned. Also
            if predictions overflow, naming the step; the steps before it are learned.
        """
        events = self._check(X)
        self.learn_checked(events, self.check_labels(y, len(events)))

    def check_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        """Return the labels of n events, plain labels (object) or numbers (float64).

        Raises
        ------
        InvalidInput
            If there are not n, or one is of no use, naming its row.
        """
        if len(y) != n:
            raise InvalidInput(f"{n} events came with {len(y)} labels")
        if self.is_classifier:
            return check_labels(y)
        return check_numbers(y, n, self.dtype)

    def number(self, y: Any) -> float | None:
        """Return a label as the loss takes it, None if it is new or asks for a closer look."""
        if self.is_classifier:
            return self._classes.number(y)
        return y if is_number(y, self.dtype) else None

    def decision_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs f(x), before any decision.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        float64 array of shape (n, n_outputs)
            One output for regression and for two classes (positive: the second one) under any
            loss but softmax; else one a class.

        Raises
        ------
        InvalidInput
            If the columns do not fit or a value is not finite.
        """
        return self.decide_checked(self._check(X))

    def _check(self, X: ArrayLike) -> NDArray[Any]:
        return check_events(X, self.dtype, self.columns)

    def _numbers(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Return labels as the loss takes them, new classes getting their outputs."""
        if not self.is_classifier:
            return labels
        numbers = self._classes.encode(labels).astype(np.float64)
        self._fit_outputs()
        return numbers

    def _n_outputs(self) -> int:
        return self.loss.n_outputs(len(self._classes) if self.is_classifier else 0)

    def _probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.loss.probabilities(F)
