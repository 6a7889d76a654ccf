"""A learner on the Nyström features of landmarks that follow the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.declared import count
from streamk.errors import StateError
from streamk.features.columns import Column
from streamk.kernels import Kernel
from streamk.landmarks import IncrementalOasis
from streamk.learners.common.classes import MOST_CLASSES, Label, aligned, widened
from streamk.learners.common.merging import check_mergeable, events_apart
from streamk.learners.common.optimizers import Contribution
from streamk.learners.common.options import GIVEN, KERNEL, LOSS, MAX_CLASSES, OF_OPTIMIZERS, TOL
from streamk.learners.common.steps import Step
from streamk.learners.common.supervised import Asked, OnEmbeddedFeatures
from streamk.losses import Loss
from streamk.options import Option, Real, Whole, documented
from streamk.state import State

Matrix = NDArray[np.float64]


@documented(GIVEN)
class OnlineNystrom(OnEmbeddedFeatures):
    """Kernel learning in the span of landmarks that the learner chooses along the stream.

    The landmarks are events whose kernels stand for those of the others, oASIS on a stream
    (`streamk.landmarks.IncrementalOasis`). The learned function is a sum of their kernels,
    ``f(x) = sum of coef_j k(landmark_j, x)``, learned in the coordinates of an orthonormal basis of
    their span: ``f(x) = W' L^-1 k(landmarks, x)`` with ``L L'`` the landmarks' kernel matrix.

    An event is looked at as a landmark first, and learned then. When it becomes one, no prediction
    changes. When it takes the place of landmark j, the function is projected on what the others
    span: the prediction of x changes by ``|coef_j| sqrt(Delta_j k(x, x))`` at most, where Delta_j
    is the squared distance of the kernel of j from that span.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or is one of the other optimizer.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.learners import OnlineNystrom
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OnlineNystrom(Gaussian(bandwidth=0.5), max_landmarks=32)
    >>> model.learn_many(X[:500], y[:500])
    >>> bool((model.predict_many(X[500:]) == y[500:]).mean() > 0.9)
    True
    >>> model.n_features
    32
    """

    TYPE = "online-nystrom"
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": KERNEL,
        "loss": LOSS,
        **OF_OPTIMIZERS,
        "max_landmarks": Whole(about="events that carry the function"),
        "tol": TOL,
        "half_life": Real(
            open_below=True,
            optional=True,
            about="events until an idle landmark counts half (never)",
            doc="Events in which the claim of a landmark that nothing leans on halves; see "
            "`streamk.landmarks.IncrementalOasis`.",
        ),
        "max_classes": MAX_CLASSES,
    }

    def __init__(
        self,
        kernel: Kernel,
        *,
        loss: str | Loss = "softmax",
        task: str | None = None,
        optimizer: str = "sgd",
        step: Step | None = None,
        regularization: float | None = None,
        forgetting: float = 1.0,
        max_landmarks: int = 512,
        tol: float = 1e-3,
        half_life: float | None = None,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
    ) -> None:
        super().__init__(
            kernel,
            loss=loss,
            task=task,
            optimizer=optimizer,
            step=step,
            regularization=regularization,
            forgetting=forgetting,
            classes=classes,
            max_classes=max_classes,
        )
        self._landmarks = IncrementalOasis(
            kernel, max_landmarks=max_landmarks, tol=tol, half_life=half_life
        )
        self.max_landmarks, self.tol, self.half_life = max_landmarks, tol, half_life
        self._optimizer = self._make_optimizer()
        if columns is not None:
            self.add_columns(columns)

    # What it is

    @property
    def n_features(self) -> int:
        """Landmarks in use."""
        return self._landmarks.n_landmarks

    @property
    def nbytes(self) -> int:
        """Memory of landmarks and coefficients, in bytes."""
        return self._landmarks.nbytes + self._optimizer.nbytes

    @property
    def landmarks(self) -> Matrix:
        """The landmarks, float64 (n_features, d), a copy."""
        return self._landmarks.points

    @property
    def coefficients(self) -> Matrix:
        """Coefficients of the landmarks' kernels, float64 (n_features, n_outputs), a copy."""
        return self._landmarks.coefficients(self._optimizer.W)

    # Learning

    def _learn_labelled(
        self, events: Matrix, numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Predict and learn events that all have labels."""
        optimizer = self._optimizer
        questions = None if asked is None else asked.events
        for some, changes, Phi, Q in self._landmarks.follow(events, questions):
            F = None
            if changes and asked is not None:
                F = optimizer.outputs(Q)
            for change in changes:
                optimizer.carry(change)
            before = optimizer.n_steps
            try:
                ahead = None if changes or asked is None else Q
                found = optimizer.learn(Phi, numbers[some], ahead)
            finally:
                self.n_events += optimizer.n_steps - before
            if asked is not None:
                asked.add(found if F is None else F)

    # Predicting

    def decide_checked(self, events: Matrix) -> Matrix:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        if self.columns is None:
            return np.zeros((len(events), self._optimizer.n_outputs))
        return self._optimizer.outputs(self._landmarks.transform(events))

    # Columns and outputs

    def _add_columns(self, count: int) -> None:
        self._landmarks.add_columns(count)

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        if self._optimizer.n_outputs < self._n_outputs():
            self._optimizer.W = widened(self._optimizer.W, self._n_outputs(), self.loss)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        header = {**self._header(), "n_steps": self._optimizer.n_steps}
        own = {name: array.copy() for name, array in self._optimizer.arrays().items()}
        return State.nest({"landmarks": self._landmarks.state()}, header, own)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner of a state."""
        learner, owner = cls._from_header(state), cls._owner()
        learner._optimizer.n_steps = count(state.header, "n_steps", owner)
        learner._landmarks = landmarks = IncrementalOasis.from_state(state.child("landmarks"))
        for name in ("kernel", *_OF_LANDMARKS):
            mine, theirs = getattr(learner, name), getattr(landmarks, name)
            if mine != theirs:
                raise StateError(f"{name!r} of {owner} is {mine!r}, but {theirs!r} of 'landmarks'")
        columns = len(learner.columns or ())
        if landmarks.n_events and landmarks.points.shape[1] != columns:
            raise StateError(
                f"array 'landmarks.points' of {owner} must have {columns} columns, not "
                f"{landmarks.points.shape[1]}"
            )
        learner._optimizer.load(state.arrays, learner.n_features)
        return learner

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        The landmarks of the other are offered to those here, by the rule for events; both functions
        are projected on the span of what comes of it. Gradient steps: the learners' changes since
        their last common state count by their shares of the events since, as of
        `DoublyStochastic.merge`. Newton steps: the sums that the two minimise are added, less one
        part of what they have in common, taken to be its share of each. With no common events, the
        squared loss, ``forgetting=1`` and landmarks alike, that is just what one learner of all
        events would have learned.
        """
        check_mergeable(self, other, ("is_classifier", *options.shared(self.OPTIONS)))
        mine, others = events_apart(self, other, common_events)
        if others == 0:
            return
        known = self.columns or ()
        self.add_columns([name for name in other.columns or () if name not in known])
        self._classes.add(other.classes)
        self._fit_outputs()
        copy = self._with_same_columns(other)
        if mine == 0:
            self._landmarks, self._optimizer = copy._landmarks, copy._optimizer
        else:
            self._join(copy, common_events)
        self.n_events += others

    def _with_same_columns(self, other: Self) -> Self:
        """Return a copy of another learner with the columns and classes of this one."""
        copy = type(self).from_state(other.state())
        columns = self.columns or ()
        copy.add_columns([name for name in columns if name not in (copy.columns or ())])
        places = {name: place for place, name in enumerate(copy.columns or ())}
        state = copy._landmarks.state()
        points = np.ascontiguousarray(state.arrays["points"][:, [places[c] for c in columns]])
        copy._landmarks = IncrementalOasis.from_state(
            State(state.header, {**state.arrays, "points": points})
        )
        optimizer = copy._optimizer
        optimizer.W = aligned(
            optimizer.W, other.classes, self.classes, self._optimizer.n_outputs, self.loss
        )
        return copy

    def _join(self, copy: Self, common_events: int) -> None:
        """Choose landmarks out of both, and let the optimizer join what both learned."""
        before = IncrementalOasis.from_state(self._landmarks.state())
        self._landmarks.learn_many(copy.landmarks)
        chosen = self.landmarks
        L = self._landmarks.transform(chosen)
        parts = [
            Contribution(
                optimizer, np.asarray(np.linalg.solve(L, landmarks.transform(chosen))), events
            )
            for optimizer, landmarks, events in (
                (self._optimizer, before, self.n_events),
                (copy._optimizer, copy._landmarks, copy.n_events),
            )
        ]
        self._optimizer.join(parts, common_events)


_OF_LANDMARKS = ("max_landmarks", "tol", "half_life")
"""Options that are the landmarks' as well."""
