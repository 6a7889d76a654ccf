"""Learners of one loss: checks of events and labels, new classes, steps in coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.declared import count, reading
from streamk.errors import InvalidInput, shown
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import check_events
from streamk.kernels import Kernel
from streamk.learners.common.classes import Classes, Label, classifies, is_number
from streamk.learners.common.optimizers import Newton, Optimizer, StochasticGradient
from streamk.learners.common.options import (
    KERNEL,
    LOSS,
    OF_OPTIMIZERS,
    check_classification,
)
from streamk.learners.common.predictor import Decider, OneAtATime
from streamk.learners.common.prequential import Prequential, Recorder, labels_or_none, runs
from streamk.learners.common.steps import AdaGrad, Constant, Ladder, Step
from streamk.losses import Loss
from streamk.losses import loss as loss_by_name
from streamk.state import State

Matrix = NDArray[np.float64]

RIDGE = 0.1
"""Default regularization of Newton steps."""


class Asked(NamedTuple):
    """The events to be predicted while events are learned."""

    events: NDArray[Any] | None
    """Each event (n, d) as it is predicted, finite and of the dtype; None: as it is learned."""
    add: Callable[[NDArray[np.float64]], None]
    """Takes the outputs of the next events."""

    def part(self, first: int, stop: int) -> Asked:
        """Return what is asked of some of the events."""
        return Asked(None if self.events is None else self.events[first:stop], self.add)

    def of(self, events: NDArray[Any]) -> NDArray[Any]:
        """Return events, given as they are learned, as they are predicted."""
        return events if self.events is None else self.events


def known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are there: not None among classes, not NaN among numbers."""
    if labels.dtype == object:
        return np.array([label is not None for label in labels.tolist()], dtype=bool)
    return np.asarray(~np.isnan(labels))


class Supervised(OneAtATime, Decider):
    """A learner of one loss, which learns and decides on events that were checked before."""

    loss: Loss
    dtype: np.dtype[Any]
    n_events: int
    seed: int = 0
    can_diverge: ClassVar[bool] = True
    """True if learning may raise InvalidInput because predictions overflow."""
    can_rest: ClassVar[bool] = False
    """True if it costs so much that it may `rest` where other experts do as well."""
    watches: bool = False
    """True if it begins anew where errors rise. An external expert does not: the mixture tells it
    when."""

    def _set_task(
        self, loss: str | Loss, task: str | None, classes: Sequence[Label], max_classes: int
    ) -> None:
        """Be a learner of no event, for a task that the loss can do."""
        self.loss = loss_by_name(loss) if isinstance(loss, str) else loss
        LOSS.check("loss", self.loss)
        self.is_classifier = classifies(self.loss, task)
        if not self.is_classifier:
            check_classification(classes=classes)
        self._classes = Classes(classes, max_classes)
        self.n_events = 0

    def learn_checked(
        self, events: NDArray[Any], labels: NDArray[Any], asked: Asked | None = None
    ) -> None:
        """Learn from events one after the other, each predicted before if that is asked for.

        Events (n, d) are finite, of the dtype, and labels (n,) what `check_labels` or
        `check_some_labels` gave.
        """
        there = known(labels)
        if self.columns is None and (asked is None or there.any()):
            self.add_columns(range(events.shape[1]))
        at = 0
        for row in (*self._new_class_rows(labels), len(labels)):
            if row > at:
                numbers = self._numbers(labels[at:row], there[at:row])
                self._follow(events[at:row], numbers, asked and asked.part(at, row))
            if row < len(labels):  # predicted by the outputs so far, learned by one more
                some = slice(row, row + 1)
                if asked is not None:
                    asked.add(self.decide_checked(asked.of(events)[some]))
                self._follow(events[some], self._numbers(labels[some], there[some]), None)
            at = row + 1

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns to those of a batch; in all events so far they were zero."""
        columns = (*(self.columns or ()), *names)
        column_keys(columns)
        self._add_columns(len(names))
        self._columns = columns

    def _add_columns(self, count: int) -> None:
        """Append columns of zeros to all that is kept of events."""
        raise NotImplementedError

    def _new_class_rows(self, labels: NDArray[Any]) -> list[int]:
        """Return the rows whose classes are new there."""
        if not self.is_classifier:
            return []
        seen, rows = {None, *self.classes}, []
        for row, label in enumerate(labels.tolist()):
            if label not in seen:
                seen.add(label)
                rows.append(row)
        return rows

    def _follow(
        self, events: NDArray[Any], numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Predict and learn events whose labels, NaN where there is none, have their outputs."""
        missing = np.isnan(numbers)
        if not missing.any():
            self._learn_labelled(events, numbers, asked)
            return
        for some in runs(~missing):
            part = asked and asked.part(some.start, some.stop)
            if not missing[some.start]:
                self._learn_labelled(events[some], numbers[some], part)
            elif part is not None:
                part.add(self.decide_checked(part.of(events[some])))

    def learn_encoded(
        self, events: NDArray[Any], numbers: NDArray[np.float64], asked: Asked | None = None
    ) -> None:
        """Learn from events as `learn_checked` does, whose labels are there, and none is new.

        Their columns are known. Labels are float64 (n,) as the loss takes them: numbers, or for
        each the place of its class in `classes`.
        """
        self._follow(events, numbers, asked)

    def learn_again(self, events: NDArray[Any], labels: NDArray[np.float64]) -> None:
        """Learn events that others predicted, as of `learn_encoded`, as the first ones."""
        self.learn_encoded(events, labels)

    is_too_wide: bool = False
    """True if it is switched off: there are more columns and classes than it takes."""

    def coefficients_of(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the coefficients that events X (n, d) have as centers; raise InvalidInput."""
        raise InvalidInput(f"{self!r} has no coefficients of events")

    def _learn_labelled(
        self, events: NDArray[Any], numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Predict and learn events that all have labels."""
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
        """Learn from events one after the other.

        What is learned depends on the events and their order, not on how they come in calls.

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

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it, unless its label in y is None.

        Predictions and what is learned are, bit for bit, those of single events. Raises
        `InvalidInput` as `learn_many` does.
        """
        events = self._check(X)
        labels, recorder = self.check_some_labels(y, len(events)), Recorder(self, len(events))
        self.learn_checked(events, labels, Asked(None, recorder.add))
        return recorder.result()

    def check_some_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        """Return labels as `check_labels` does, some of which may be None.

        These stay None among classes, and become NaN among numbers.
        """
        labels, there = labels_or_none(self, y, n)
        if not there.all():
            labels[~there] = None if self.is_classifier else math.nan
        return labels

    def number(self, y: Any) -> float | None:
        """Return a label as the loss takes it, None if it is new or asks for a closer look."""
        if self.is_classifier:
            return self._classes.number(y)
        return y if is_number(y) else None

    def decision_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs f(x) of events X (n, d), before any decision, float64 (n, n_outputs).

        There is one for regression and for two classes (positive: the second one) under any loss
        but softmax; else one a class. Raises `InvalidInput` if the columns do not fit or a value is
        not finite.
        """
        return self.decide_checked(self._check(X))

    @classmethod
    def _from_header(cls, state: State, **more: Any) -> Self:
        """Return a learner that has learned nothing, by what `_header` gave."""
        header = state.expect(cls.TYPE).header
        with reading(cls._owner()):
            learner = cls._new(header, **more)
        learner.n_events = count(header, "n_events", cls._owner())
        return learner

    def _check(self, X: ArrayLike) -> NDArray[Any]:
        return check_events(X, self.dtype, self.columns)

    def _numbers(self, labels: NDArray[Any], there: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return labels as the loss takes them, new classes getting their outputs.

        Where there is none, it is NaN.
        """
        if not self.is_classifier:
            return labels
        numbers = np.full(len(labels), math.nan)
        numbers[there] = self._classes.encode(labels[there])
        self._fit_outputs()
        return numbers

    def _n_outputs(self) -> int:
        return self.loss.n_outputs(len(self._classes) if self.is_classifier else 0)

    def _probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.loss.probabilities(F)


class OnEmbeddedFeatures(Supervised):
    """A learner by gradient or Newton steps in coordinates; its options are `OnlineNystrom`'s."""

    dtype: np.dtype[Any] = np.dtype(np.float64)
    """Of events and coefficients."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        loss: str | Loss,
        task: str | None,
        optimizer: str,
        step: Step | None,
        regularization: float | None,
        forgetting: float,
        classes: Sequence[Label],
        max_classes: int,
    ) -> None:
        self._set_task(loss, task, classes, max_classes)
        self.kernel = kernel
        self.optimizer, self.step, self.forgetting = optimizer, step, forgetting
        if regularization is None:
            regularization = RIDGE if optimizer == "newton" else 0.0
        self.regularization = regularization
        options.check({"kernel": KERNEL, **OF_OPTIMIZERS}, self)
        self._check_optimizer()
        if step is None and optimizer == "sgd":
            self.step = Constant(1.0)

    def _check_optimizer(self) -> None:
        """Raise InvalidInput if an option is not one of the optimizer's."""
        newton = self.optimizer == "newton"
        if newton and self.loss.kind.curvature is None:
            raise InvalidInput(f"loss {self.loss.name!r} has no curvature; choose optimizer='sgd'")
        if newton and self.step is not None:
            raise InvalidInput(f"step={self.step!r} is for optimizer='sgd'; leave it out")
        if not newton and self.forgetting != 1.0:
            raise InvalidInput(
                f"forgetting={shown(self.forgetting)} is for optimizer='newton'; leave it out"
            )
        if isinstance(self.step, AdaGrad):
            raise InvalidInput(
                f"step={self.step!r} cannot be AdaGrad: its sums belong to single coordinates, "
                "which rotate when a landmark is removed; use Constant(1.0), for example"
            )
        if isinstance(self.step, Ladder):
            raise InvalidInput(
                f"step={self.step!r} cannot be a Ladder, which is for doubly-stochastic; use "
                "Constant(1.0), for example"
            )
        if newton and self.regularization == 0.0:
            raise InvalidInput(
                f"regularization={shown(self.regularization)} must be a number above 0, for the "
                "first steps of optimizer='newton'"
            )

    def _make_optimizer(self) -> Optimizer:
        shape: Any = {"classes": self.is_classifier, "n_outputs": self._n_outputs()}
        if self.step is None:
            return Newton(self.loss, self.regularization, self.forgetting, **shape)
        return StochasticGradient(self.loss, self.step, self.regularization, **shape)
