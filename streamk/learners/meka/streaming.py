"""Kernel learning on MEKA's features, with a factorization that is renewed on the stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.declared import NON_NEGATIVE, count, number
from streamk.errors import InvalidInput, StateError
from streamk.factorization.checks import checked_kernel
from streamk.features.columns import Column
from streamk.kernels import Kernel
from streamk.learners.common.classes import MOST_CLASSES, Label, widened
from streamk.learners.common.merging import merge_by_events
from streamk.learners.common.optimizers import RIDGE, Optimizer, projected
from streamk.learners.common.options import (
    GIVEN,
    LOSS,
    MAX_CLASSES,
    OF_DOMAIN,
    OF_OPTIMIZERS,
    SEED,
    TOL,
    of_kernel,
)
from streamk.learners.common.steps import Step
from streamk.learners.common.supervised import Asked, OnEmbeddedFeatures
from streamk.learners.meka.features import ClusteredFunction, GrowingFeatures
from streamk.learners.renewal import EventBuffer, Replacement
from streamk.losses import Loss
from streamk.options import Option, Real, Whole, documented
from streamk.state import State

Matrix = NDArray[np.float64]


def refactorized(
    recipe: Mapping[str, Any],
    X: Matrix,
    y: Matrix,
    held_back: Matrix,
    decide: Callable[[Matrix], Matrix],
    optimizer: Optimizer,
    n_steps: int,
) -> ClusteredFunction:
    """Factorize a buffer, carry the function so far over, and solve for the buffer anew.

    The recipe are the options of `GrowingFeatures.of`, the buffer events X (n, d) with labels y
    (n,), `decide` the function after so many steps, and the optimizer one that has learned nothing.
    Raises `InvalidInput` if the function is not finite at the buffer's events.
    """
    F = decide(X)
    if not np.isfinite(F).all():
        raise InvalidInput(
            "predictions of the events to factorize overflowed; scale the labels, or use a "
            "smaller step"
        )
    features, sizes = GrowingFeatures.of(X, **recipe)
    Phi = features.transform(X, features.nearest(X))
    optimizer.begin(projected(Phi, F, RIDGE), Phi, y, n_steps)
    return ClusteredFunction(features, optimizer, sizes, kernel_error(features, held_back))


def kernel_error(features: GrowingFeatures, X: Matrix) -> float | None:
    """Return the relative Frobenius error of products of features as kernels of events."""
    if not len(X):
        return None
    G = features.kernel.pairwise(X)
    missed = features.pairwise(X) - G
    return math.sqrt(float((missed * missed).sum()) / float((G * G).sum()))


_HELD_BACK = 10
"""Every so many events one is held back."""
_JUDGES = 100
"""Events held back last that the error is measured on."""
_SMALL = 0.1
"""Error that is not a reason to begin early, whatever it was before."""
_CHECK = 512
"""Events between two measurements."""


@documented(GIVEN, Raises=OF_DOMAIN)
class StreamingMeka(OnEmbeddedFeatures):
    """Kernel learning on MEKA's features, with a factorization that is renewed on the stream.

    MEKA (Si, Hsieh and Dhillon 2017) clusters events, gives each cluster a basis W(s) of its own
    and links the bases by L: the features ``w(x) L^(1/2)`` of an event, whose products are the
    approximate kernel, take the landmarks of its cluster alone. The learned function is linear in
    them.

    The factorization is one of a buffer of events. While it is in use, an event that the landmarks
    of its cluster do not span becomes one of them, and gives the cluster a feature more, with a
    coefficient of 0: no prediction changes. From time to time the buffer is factorized anew, in a
    background thread. The function is projected on the new features, which then learn the buffer
    and all events since, and take over exactly ``swap_delay`` events after they were begun: if they
    are late, learning waits. So what is learned depends on the events and their order alone.

    Until the first factorization takes over, the features are coordinates of the plain kernel in
    the span of events that are not spanned by those before, `rank * n_clusters` of them at most.

    Every tenth event is held back: learned like all, but neither in the buffer nor a landmark. The
    relative Frobenius error of the approximate kernel is measured among the last 100 of them.

    Attributes
    ----------
    n_factorizations : int
        That took over.
    n_waits : int
        How often learning, or `state`, had to wait for one. It depends on timing, and is not part
        of the state; and so is `seconds_waited`.
    error : float or None
        As measured last.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.learners import StreamingMeka
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = StreamingMeka(Gaussian(bandwidth=0.5), rank=16, first=512, swap_delay=256)
    >>> model.learn_many(X[:1500], y[:1500])
    >>> bool((model.predict_many(X[1500:]) == y[1500:]).mean() > 0.95)
    True
    >>> model.n_factorizations
    2
    """

    TYPE = "streaming-meka"
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": of_kernel("linear", "ntk"),
        "loss": LOSS,
        **OF_OPTIMIZERS,
        "step": replace(
            OF_OPTIMIZERS["step"], about="of sgd, see below, not adagrad (1; regression: 0.1)"
        ),
        "rank": Whole(
            about="directions of a cluster",
            doc="Directions of a cluster's basis; it has up to twice as many landmarks.",
        ),
        "n_clusters": Whole(about="clusters"),
        "buffer_size": Whole(
            about="events, a sample of all, that are factorized",
            doc="Events of the buffer that is factorized, a uniform sample of all.",
        ),
        "first": Whole(
            about="events before the first factorization",
            doc="Events after which the first factorization begins. Others begin after twice as "
            "many events as the one before, until that is later than `every` says.",
        ),
        "every": Whole(
            optional=True,
            about="events between two of them, or none",
            doc="Events between two beginnings; None for where a bound is crossed alone, and the "
            "first.",
        ),
        "swap_delay": Whole(
            about="events after which it takes over",
            doc="Events that a factorization has time for.",
        ),
        "max_error": Real(
            optional=True,
            about="earlier if errors grow so much, or none",
            doc="Begin early where the error is above 0.1 and more than so many times what it was "
            "when the factorization in use began; None not to. It is looked at every 512 events.",
        ),
        "max_shift": Real(
            most=1.0,
            open_above=True,
            optional=True,
            about="earlier if clusters' shares do, or none",
            doc="Begin early where the shares of the clusters in the events since differ so much "
            "from those in the factorization: half the sum of absolute differences, from 0 to 1. "
            "None not to.",
        ),
        "growth": Whole(
            least=0,
            about="landmarks that clusters may gain",
            doc="Landmarks that all clusters together may gain.",
        ),
        "tol": replace(
            TOL,
            doc="Squared distance, below 1, that an event's kernel must have from the span of the "
            "landmarks of its cluster to become one.",
        ),
        "seed": SEED,
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
        rank: int = 256,
        n_clusters: int = 4,
        buffer_size: int = 4096,
        first: int = 2048,
        every: int | None = 16384,
        swap_delay: int = 2048,
        max_error: float | None = 1.5,
        max_shift: float | None = 0.3,
        growth: int = 256,
        tol: float = 0.1,
        seed: int = 0,
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
        self.rank, self.n_clusters, self.growth, self.tol = rank, n_clusters, growth, tol
        self.buffer_size = buffer_size
        self.first, self.every, self.swap_delay = first, every, swap_delay
        self.max_error, self.max_shift, self.seed = max_error, max_shift, seed
        checked_kernel(kernel)
        options.check(self.OPTIONS, self)
        self._buffer = EventBuffer("reservoir", buffer_size, seed)
        self._held_back = EventBuffer("recent", _JUDGES)
        self._function: ClusteredFunction | None = None
        self._next: Replacement[ClusteredFunction] | None = None
        self._clock = self._began = 0
        self.n_factorizations = self.n_waits = 0
        self.seconds_waited = 0.0
        self.error: float | None = None
        if columns is not None:
            self.add_columns(columns)

    # What it is

    @property
    def n_features(self) -> int:
        """Features in use, those gained by clusters among them."""
        return 0 if self._function is None else self._function.features.size

    @property
    def n_grown(self) -> int:
        """Features that clusters have gained since the factorization."""
        return 0 if self._function is None else self._function.features.n_grown

    @property
    def nbytes(self) -> int:
        """Memory of buffer, features and coefficients, in bytes."""
        kept = self._buffer.nbytes + self._held_back.nbytes
        return kept + (0 if self._function is None else self._function.nbytes)

    # Learning

    def _learn_labelled(
        self, events: Matrix, numbers: NDArray[np.float64], asked: Asked | None
    ) -> None:
        """Predict and learn events that all have labels."""
        at = 0
        while at < len(events):
            stop = min(len(events), at + self._stop() - self._clock)
            some = events[at:stop]
            ahead = None if asked is None else asked.part(at, stop).of(some)
            F = self._learn(some, numbers[at:stop], ahead)
            if asked is not None:
                asked.add(F)
            at = stop

    def _due(self) -> float:
        """Return after which event a factorization begins at the latest."""
        if not self._began:
            return self.first
        if self.every is None:
            return math.inf
        return self._began + min(self._began, self.every)

    def _stop(self) -> int:
        """Return after which event something may have to be done besides learning."""
        check = self._clock - self._clock % _CHECK + _CHECK
        then = self._due() if self._next is None else self._next.at
        return int(max(self._clock + 1, min(check, then)))

    def _learn(self, X: Matrix, y: Matrix, asked: Matrix | None) -> Matrix:
        """Learn some events, and carry out the steps due after the last of them.

        Returns the outputs of what was asked, each row before its event was learned.
        """
        function = self._function
        assert function is not None
        eligible = np.arange(self._clock + 1, self._clock + 1 + len(X)) % _HELD_BACK != 0
        before = function.optimizer.n_steps
        try:
            F = function.learn(X, y, eligible, asked)
        finally:
            done = function.optimizer.n_steps - before
            self.n_events += done
            self._clock += done
            # Copies: whose the events are may write over them before the background has read them.
            X, y, eligible = X[:done].copy(), y[:done].copy(), eligible[:done]
            self._buffer.add(X[eligible], y[eligible])
            self._held_back.add(X[~eligible], y[~eligible])
            if self._next is not None and done:
                self._next.learn(X, y, eligible)
            self._turn()
        return F

    def _turn(self) -> None:
        """Carry out the steps due at this event."""
        wanted = self._clock >= self._due()
        if self._next is not None:
            if self._clock == self._next.at:
                self._take_over(self._next)
        elif self._clock % _CHECK == 0:
            wanted |= self._crossed()
        if wanted and self._next is None:
            self._begin()

    def _crossed(self) -> bool:
        """Measure, and return whether a bound is crossed."""
        assert self._function is not None
        self.error = self._measured()
        if not self.n_factorizations:
            return False
        if self.max_shift is not None and self._function.shift > self.max_shift:
            return True
        then = self._function.error
        if self.max_error is None or then is None or self.error is None:
            return False
        return self.error > max(_SMALL, self.max_error * then)

    def _measured(self) -> float | None:
        """Return the error of the kernel of events held back."""
        assert self._function is not None
        return kernel_error(self._function.features, self._held_back.events()[0])

    def _begin(self) -> None:
        """Begin a factorization of what the buffer has."""
        assert self._function is not None
        self._began = self._clock
        recipe = {
            "kernel": self.kernel,
            "rank": self.rank,
            "n_clusters": self.n_clusters,
            "seed": int(np.random.SeedSequence([self.seed, self._clock]).generate_state(1)[0]),
            "room": self.growth,
            "tol": self.tol,
        }
        make = partial(
            refactorized,
            recipe,
            *self._buffer.events(),
            self._held_back.events()[0],
            self._function.frozen(),
            self._make_optimizer(),
            self._function.optimizer.n_steps,
        )
        self._next = Replacement(self._clock + self.swap_delay, make)

    def _take_over(self, new: Replacement[ClusteredFunction]) -> None:
        """Go on with the new factorization."""
        self._wait(new)
        self._next = None
        self._function = new.result()
        self.n_factorizations += 1
        self.error = self._measured()

    def _wait(self, new: Replacement[ClusteredFunction]) -> None:
        self.n_waits += new.late
        self.seconds_waited += new.wait()

    # Predicting

    def decide_checked(self, events: Matrix) -> Matrix:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        if self._function is None:
            return np.zeros((len(events), self._n_outputs()))
        return self._function.decide(events)

    # Columns and outputs

    def _add_columns(self, count: int) -> None:
        if self._function is None:
            room = self.rank * self.n_clusters
            features = GrowingFeatures.empty(self.kernel, count, room=room, tol=self.tol)
            self._function = ClusteredFunction(
                features, self._make_optimizer(), np.zeros(1, np.int64)
            )
        else:
            self._function.add_columns(count)
        self._buffer.add_columns(count)
        self._held_back.add_columns(count)
        if self._next is not None:
            self._next.then(lambda new: new.add_columns(count))

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        outputs, loss = self._n_outputs(), self.loss

        def fit(function: ClusteredFunction) -> None:
            function.optimizer.W = widened(function.optimizer.W, outputs, loss)

        if self._function is not None and self._function.optimizer.n_outputs < outputs:
            fit(self._function)
            if self._next is not None:
                self._next.then(fit)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays.

        A factorization that is being made is waited for.
        """
        header = {
            **self._header(),
            "n_factorizations": self.n_factorizations,
            "error": self.error,
            "clock": self._clock,
            "began": self._began,
            "next": None,
        }
        parts = {"buffer": self._buffer.state(), "held_back": self._held_back.state()}
        if self._function is not None:
            parts["function"] = self._function.state()
        if self._next is not None:
            self._wait(self._next)
            header["next"] = self._next.saved(parts)
        return State.nest(parts, header)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner of a state."""
        learner, owner = cls._from_header(state), cls._owner()
        header: Any = state.header
        learner.n_factorizations = count(header, "n_factorizations", owner)
        learner._clock, learner._began = (count(header, name, owner) for name in ("clock", "began"))
        if learner._began > learner._clock:
            raise StateError(f"'began' of {owner} is above its 'clock'; it is damaged")
        if header.get("error") is not None:
            learner.error = number(header, "error", owner, NON_NEGATIVE)
        if learner.columns is not None:
            learner._function = learner._made(state.child("function"))
            if header.get("next") is not None:
                learner._next = Replacement.of(
                    header["next"],
                    learner._clock,
                    lambda: learner._made(state.child("next")),
                    "a state's next factorization",
                )
        columns = len(learner.columns or ())
        classes = len(learner.classes) if learner.is_classifier else None
        for name in ("buffer", "held_back"):
            known = getattr(learner, f"_{name}")
            setattr(learner, f"_{name}", known.restored(state.child(name), columns, classes))
        return learner

    def _made(self, state: State) -> ClusteredFunction:
        columns = len(self.columns or ())
        return ClusteredFunction.from_state(state, self._make_optimizer(), columns)

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        If this one has learned nothing since, it becomes the other. Else it learns what the buffer
        of the other has of its events since: the last ones, or a sample.
        """
        merge_by_events(self, other, common_events, self._recent_events_of)

    def _recent_events_of(self, other: Self, events: int) -> tuple[Matrix, NDArray[Any]]:
        """Return what the buffer of another learner has of its last events, and their labels."""
        held_back = events // _HELD_BACK
        return other._buffer.events(other._buffer.seen - events + held_back)
