"""A learner behind an online scaling of its columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.features.random_features import check_events
from streamk.learners.common.classes import bounded
from streamk.learners.common.merging import check_mergeable, events_apart
from streamk.learners.common.predictor import Wrapper, one_row
from streamk.learners.common.prequential import Prequential, Recorder
from streamk.learners.common.supervised import Asked, known
from streamk.learners.doubly_stochastic.doubly_stochastic import DoublyStochastic
from streamk.learners.eigenpro.eigenpro import EigenPro
from streamk.learners.kernel_ridge import OnlineKernelRidge
from streamk.learners.meka.streaming import StreamingMeka
from streamk.learners.nystrom import OnlineNystrom
from streamk.learners.rfm.feature_machine import FeatureMachine
from streamk.scaling.labels import LabelScale
from streamk.scaling.running import RobustScale
from streamk.state import State

OfOneKernel: TypeAlias = (
    DoublyStochastic | OnlineNystrom | StreamingMeka | OnlineKernelRidge | EigenPro | FeatureMachine
)
"""The learners that can be scaled."""

TYPES: dict[str, type[OfOneKernel]] = {
    DoublyStochastic.TYPE: DoublyStochastic,
    OnlineNystrom.TYPE: OnlineNystrom,
    StreamingMeka.TYPE: StreamingMeka,
    OnlineKernelRidge.TYPE: OnlineKernelRidge,
    EigenPro.TYPE: EigenPro,
    FeatureMachine.TYPE: FeatureMachine,
}
"""These by their names."""
_FLOAT64 = np.dtype(np.float64)
_PIECE = 1 << 16
"""Numbers that are scaled together, so that they are still near when they are learned."""


def restored(state: State, **placing: Any) -> OfOneKernel:
    """Return the learner of one kernel of a state, with its `Learner.placing`.

    Raises `StateError` if it is none of these.
    """
    if state.type not in TYPES:
        raise StateError(f"no {state.type!r} can be scaled; there are {', '.join(TYPES)}")
    made: Any = TYPES[state.type]
    learner: OfOneKernel = made.from_state(state, **placing)
    return learner


class Scaled(Wrapper):
    """A learner that sees every column in units of its spread on the stream.

    The scaling is by running medians and deciles, `streamk.scaling.running.RobustScale`, so
    that a few huge values do no harm; missing values (NaN) are taken as the median. Events go one
    by one: each is predicted in the scale of those learned before it; to be learned it is taken
    into the scale first, and scaled by that, so the first ones are in a scale that knows them. The
    mean squared distance of two scaled events is 2, so the learner's bandwidth is relative to that.
    Numbers to be predicted are standardised by their running mean and deviation, which begin anew
    where the scale of the labels jumps (`streamk.scaling.labels.LabelScale`), and
    predictions given back in their own unit; the parameter of a loss (delta, epsilon) is then in
    standard deviations of the label.

    Parameters
    ----------
    learner : a learner of one kernel
        DoublyStochastic, OnlineNystrom, StreamingMeka, OnlineKernelRidge, EigenPro or
        FeatureMachine. It has not learned yet.

    Raises
    ------
    InvalidInput
        If the learner has learned.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.learners import DoublyStochastic, Scaled
    >>> options = {"max_features": 512, "block_size": 512, "batch_size": 1}
    >>> model = Scaled(DoublyStochastic(Gaussian(bandwidth=0.5), seed=1, **options))
    >>> model.learn_many([[1000.0, 1.0], [3000.0, np.nan]], ["low", "high"])
    >>> model.predict_many([[2900.0, 1.0]])
    array(['high'], dtype=object)
    """

    learner: OfOneKernel
    TYPE = "scaled"
    takes_missing = True

    def __init__(self, learner: OfOneKernel) -> None:
        if learner.n_events:
            raise InvalidInput(
                f"the learner has learned {learner.n_events} events without scaling; "
                "scale a new one"
            )
        self.learner = learner
        self._scale = RobustScale(len(learner.columns or ()), seed=learner.seed)
        self._labels = LabelScale()  # of numbers; classes have none

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        return self.learner.nbytes + self._scale.nbytes

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events X (n, d), in which NaN is missing, with labels y (n,).

        Raises `InvalidInput` as the learner's own, and if a value is infinite.
        """
        events = self._check(X)
        self._follow(events, self.check_labels(y, len(events)), None)

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Raises `InvalidInput` as `learn_many` does.
        """
        events = self._check(X)
        labels = self.learner.check_some_labels(y, len(events))
        recorder = Recorder(self, len(events))
        self._follow(events, labels, recorder.add)
        return recorder.result()

    def _follow(
        self,
        events: NDArray[np.float64],
        labels: NDArray[Any],
        add: Callable[[NDArray[np.float64]], None] | None,
    ) -> None:
        """Predict events where their outputs are asked for, and learn those that have labels."""
        there = known(labels)
        if self.columns is None:
            if add is not None and not there.any():
                add(self.decision_many(events))
                return
            self.add_columns(range(events.shape[1]))
        rows = max(1, _PIECE // max(1, events.shape[1]))
        for first in range(0, len(events), rows):
            some = slice(first, first + rows)
            self._follow_some(events[some], labels[some], there[some], add)

    def _follow_some(
        self,
        events: NDArray[np.float64],
        labels: NDArray[Any],
        there: NDArray[np.bool_],
        add: Callable[[NDArray[np.float64]], None] | None,
    ) -> None:
        """Do `_follow` for so few events that what they are scaled to is kept."""
        learner, count, n = self.learner, self.n_events, len(events)
        numbers, units = labels, None
        undo = [self._scale.undo(n)]
        scaled, ahead = self._scale.transform_each(
            events, there, learner.dtype, before=add is not None
        )
        if not self.is_classifier:
            undo.append(self._labels.undo(n))
            standard, units = self._labels.transform_each(labels[:, None], there, _FLOAT64)
            numbers = np.where(there, standard[:, 0], math.nan)
        asked = None
        if add is not None:
            asked = Asked(ahead, add if units is None else _restoring(add, units))
        try:
            learner.learn_checked(scaled, numbers, asked)
        except InvalidInput:  # the scale has taken in no event after the one that failed
            stop = int(np.flatnonzero(there)[self.n_events - count]) + 1
            for back in undo:
                back()
            self._scale.transform_each(events[:stop], there[:stop], learner.dtype)
            if not self.is_classifier:
                self._labels.transform_each(labels[:stop, None], there[:stop], _FLOAT64)
            raise

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x (d,) with label y."""
        scale, learner = self._scale, self.learner
        known = learner.number(y) is not None
        if not (known and scale.takes(x) and math.isfinite(np.vdot(x, x))):
            self.learn_many(one_row(x), [y])
            return
        scale.update(x[None])
        if not self.is_classifier:
            label = np.array([[float(y)]])
            self._labels.update(label)
            y = self._labels.transform(label, _FLOAT64)[0, 0]
        learner.learn_one(scale.transform(x[None], learner.dtype)[0], y)

    def finish(self) -> None:
        """Learn the events of a mini-batch that is not whole, where the learner has such."""
        self.learner.finish()

    def decision_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs before any decision, float64 (n, n_outputs)."""
        events = self._check(X)
        if self.columns is None:
            F = self.learner.decision_many(np.nan_to_num(events))
        else:  # what the scale gives is finite and of the learner's dtype
            F = self.learner.decide_checked(self._scale.transform(events, self.learner.dtype))
        return self._restore(F)

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """Outputs of one event x of shape (d,), float64 (n_outputs,)."""
        scale, learner = self._scale, self.learner
        if scale.takes(x):
            scaled = scale.transform_one(x, learner.dtype)
            if scaled is not None:
                return self._restore(learner.decision_one(scaled))
        return np.asarray(self.decision_many(one_row(x))[0])

    def coefficients_of(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the coefficients that events X (n, d) have as centers, float64 (n, outputs).

        See `streamk.learners.OnlineKernelRidge.coefficients_of`; numbers are in deviations of the
        labels. Raises `InvalidInput` if the learner has no events as centers, or as its own.
        """
        events = self._check(X)
        if self.columns is None:  # the learner says why there are none
            return self.learner.coefficients_of(np.nan_to_num(events))
        return self.learner.coefficients_of(self._scale.transform(events, self.learner.dtype))

    def predictions(self, F: NDArray[np.float64]) -> NDArray[Any]:
        """Predicted labels or numbers, shape (n,), where `decision_many` gave F."""
        return self.learner.predictions(F)

    def prediction(self, F: NDArray[np.float64]) -> Any:
        """Predicted label or number, where `decision_one` gave F."""
        return self.learner.prediction(F)

    def probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, classes), where `decision_many` gave F."""
        return self.learner.probabilities(F)

    def __repr__(self) -> str:
        return f"Scaled({self.learner!r})"

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        self.learner.add_columns(names)
        self._scale.add_columns(len(names))

    def _check(self, X: ArrayLike) -> NDArray[np.float64]:
        return check_events(X, _FLOAT64, self.columns, missing=True)

    def _restore(self, predicted: NDArray[Any]) -> NDArray[Any]:
        """Return predicted numbers in the label's own unit."""
        if self.is_classifier:
            return predicted
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return bounded(self._labels.invert(predicted))

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        parts = {
            "scale": self._scale.state(),
            "labels": self._labels.state(),
            "learner": self.learner.state(),
        }
        return State.nest(parts, {"type": self.TYPE})

    @property
    def placing(self) -> dict[str, Any]:
        """The placing of the inner learner."""
        return self.learner.placing

    @classmethod
    def from_state(cls, state: State, **placing: Any) -> Self:
        """Return the learner of a state, or raise StateError for another type."""
        state.expect(cls.TYPE)
        scaled = cls.__new__(cls)
        scaled.learner = restored(state.child("learner"), **placing)
        scaled._scale = RobustScale.from_state(state.child("scale"))
        scaled._labels = LabelScale.from_state(state.child("labels"))
        columns = len(scaled.columns or ())
        if len(scaled._scale) != columns:
            raise StateError(
                f"the arrays of 'scale' of this {cls.TYPE!r} state are of {len(scaled._scale)} "
                f"columns, but the learner has {columns}"
            )
        return scaled

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        The scale in use becomes the other's where that has seen more events: what both had seen
        before they parted must not count twice, and either is a good estimate. The samples of
        columns that later estimates are of are joined, by the events that each learned apart.
        """
        check_mergeable(self, other, ())
        own, its = events_apart(self, other, common_events)
        learner: Any = self.learner
        learner.merge(other.learner, common_events=common_events)
        self._scale.add_columns(len(self.columns or ()) - len(self._scale))
        if not its:
            return
        scale = other._scale
        if its > own or other.columns != self.columns:  # else it is read, and need not be a copy
            there = {name: number for number, name in enumerate(other.columns or ())}
            scale = scale.select([there.get(name) for name in self.columns or ()])
        one, two, share = self._scale, scale, its / (own + its)
        if its > own:
            one, two, share = scale, self._scale, 1.0 - share
            self._labels = other._labels.copy()
        one.join(two, share, self.n_events)
        self._scale = one


def _restoring(
    add: Callable[[NDArray[np.float64]], None], units: NDArray[np.float64]
) -> Callable[[NDArray[np.float64]], None]:
    """Return what gives outputs on in the label's own unit, of some events at a time.

    Units (n, 2, 1) are mean and factor of the label before each event.
    """

    def restored(F: NDArray[np.float64]) -> None:
        nonlocal units
        now, units = units[: len(F)], units[len(F) :]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            F = bounded(F / now[:, 1] + now[:, 0])
        add(F)

    return restored
