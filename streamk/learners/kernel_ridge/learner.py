"""Kernel ridge regression on a stream, whose events are its centers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.backends import centers as backend
from streamk.declared import FINITE, NON_NEGATIVE, Declared, Domain, count, listed, reading, taken
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column, column_keys
from streamk.kernels import Kernel, Linear
from streamk.learners.common.classes import MOST_CLASSES, Classes, Label, classifies
from streamk.learners.common.merging import merge_by_events
from streamk.learners.common.options import (
    MAX_CLASSES,
    OF_KERNEL_LEARNERS,
    SEED,
    check_classification,
)
from streamk.learners.common.outputs import bounded, widened
from streamk.learners.common.supervised import Asked, Supervised
from streamk.learners.kernel_ridge.centers import Centers
from streamk.losses import loss as loss_by_name
from streamk.options import Option, Real, Whole
from streamk.state import State

Numbers = NDArray[Any]

BLOCK = 64
"""Events after which older coefficients are corrected, and how many of them are together."""
WORK = 65_536
"""Rows of the kernel matrix times centers, over BLOCK, that are computed after each block."""
RIDGES = (0.1, 0.5, 2.0, 8.0)
"""Regularizations of which one is chosen as the stream goes by."""
_MEMORY = 2_000
"""Events that the choice among them looks back on."""
_RECENT = 256
"""Events whose outputs are kept."""
_SETTLED = 4096
"""Events after which the constant stays."""


class OnlineKernelRidge(Supervised):
    """Kernel ridge regression with the last events as centers.

    The function is ``f(x) = c + sum of a_j k(x, x_j)`` over the last `max_centers` events x_j, and
    its coefficients go toward those of kernel ridge regression on these, ``(K + r I) a = y - c``,
    for classes with +1 and -1 for each of them. Block Gauss-Seidel steps on this system, which is
    coordinate ascent on its dual problem, take them there (Tu, Roelofs, Venkataraman and Recht
    2016): some rows of K at a time are solved for exactly, given the other coefficients. They have
    no step size, and cannot diverge.

    An event is learned at once: its own row is solved for, so that the next event is predicted
    with it. After each 64 events random blocks of 64 older rows are corrected: one block where
    there are many centers, up to all of them while there are few, so that about as much is
    computed for each event.

    Where events past `max_centers` take the places of the oldest, the centers whose outputs change
    most by that are corrected, too.

    Of l centers and d columns, an event takes the time of some ``2 l d`` multiplications.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Matern, RationalQuadratic or Cauchy. Its bandwidth is in the unit of
        the columns; `Scaled` gives them a common one.
    task : {"classification", "regression"}, default "classification"
    regularization : float, optional
        r, the variance of the labels' noise for a function of variance 1. By default functions of
        .1, .5, 2 and 8 are learned side by side, which takes little more time, and the one with the
        least squared error on the events before they were learned is asked, the last 2,000 counting
        most.
    max_centers : int, default 32768
        At least 64.
    seed : int, default 0
        Of the blocks that are drawn.
    columns, classes, max_classes
        As of `streamk.learners.OnlineNystrom`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Laplacian
    >>> from streamk.learners import OnlineKernelRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OnlineKernelRidge(Laplacian(bandwidth=1.0))
    >>> model.learn_many(X[:500], y[:500])
    >>> bool((model.predict_many(X[500:]) == y[500:]).mean() > 0.9)
    True
    >>> model.n_features
    500
    """

    TYPE = "kernel-ridge"
    FORMAT = 1
    dtype: np.dtype[Any] = np.dtype(np.float32)
    """Of events, centers and coefficients."""
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": replace(
            OF_KERNEL_LEARNERS["kernel"], about="one of the kernels below but linear (laplacian)"
        ),
        "regularization": Real(
            open_below=True, optional=True, about="variance of labels' noise (chosen by itself)"
        ),
        "max_centers": Whole(least=BLOCK, about="events that carry the function"),
        "seed": SEED,
        "max_classes": replace(MAX_CLASSES, since=1),
    }

    def __init__(
        self,
        kernel: Kernel,
        *,
        task: str = "classification",
        regularization: float | None = None,
        max_centers: int = 32_768,
        seed: int = 0,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
    ) -> None:
        self.loss = loss_by_name("squared")
        self.is_classifier = classifies(self.loss, task)
        if not self.is_classifier:
            check_classification(classes=classes)
        self._classes = Classes(classes, max_classes)
        self.kernel, self.regularization = kernel, regularization
        self.max_centers, self.seed = max_centers, seed
        options.check(self.OPTIONS, self)
        if isinstance(kernel, Linear):
            raise InvalidInput(
                f"kernel={kernel!r} gives an event's own row no bound; take another, such as "
                "Laplacian"
            )
        ridges = RIDGES if regularization is None else (float(regularization),)
        self._ridges = np.array(ridges)
        self._columns: tuple[Column, ...] | None = None
        self.n_events = 0
        self._constant = self._fresh_constant()
        self._errors, self._errors_now = np.zeros(len(ridges)), np.zeros(len(ridges))
        self._twin = backend.select()
        self._begin(Centers(kernel, max_centers, n_columns=0, n_outputs=self._width))
        if columns is not None:
            self.add_columns(columns)

    def _begin(self, centers: Centers) -> None:
        """Go on with these centers, and none learned since the last block."""
        self._centers = centers
        self._pending = np.zeros((0, len(self.columns or ())), np.float32)
        self._pending_labels = np.zeros(0)
        self._pending_coefficients = np.zeros((BLOCK, self._width))
        self._recent: dict[bytes, Numbers] = {}
        """Outputs of the centers for events that were predicted since, by the bytes of these."""

    @property
    def _width(self) -> int:
        """Outputs of the functions of all regularizations."""
        return len(self._ridges) * self._n_outputs()

    # What it is

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    @property
    def n_features(self) -> int:
        """Centers in use, and up to 63 events since that are none yet."""
        return len(self._centers) + len(self._pending)

    @property
    def nbytes(self) -> int:
        """Memory of centers and coefficients, in bytes."""
        own = (self._pending, self._pending_labels, self._pending_coefficients)
        return self._centers.nbytes + sum(array.nbytes for array in own)

    @property
    def chosen_regularization(self) -> float:
        """The regularization of the function that is asked."""
        return float(self._ridges[self._best])

    @property
    def _best(self) -> int:
        return int(np.argmin(self._errors))

    # Learning

    def _learn_labelled(self, events: Numbers, numbers: Numbers, asked: Asked | None) -> None:
        """Predict and learn events that all have labels, block by block."""
        at = 0
        while at < len(events):
            stop = min(len(events), at + BLOCK - len(self._pending))
            F = self._learn(events[at:stop], numbers[at:stop])
            if asked is not None and asked.events is not None:
                F = self._answers(asked.events[at:stop], stop - at)
            if asked is not None:
                asked.add(self._decided(F))
            if len(self._pending) == BLOCK:
                self._close_block()
            at = stop

    def _learn(self, X: Numbers, y: Numbers) -> Numbers:
        """Learn events of one block, and return the outputs of each before it was learned."""
        first, n = len(self._pending), len(X)
        F = self._outputs_of_centers(X)
        self._pending = np.concatenate([self._pending, X])
        self._pending_labels = np.append(self._pending_labels, y)
        Y = np.tile(self._targets(y) - self._constant, len(self._ridges))
        ridges = np.repeat(self._ridges, self._n_outputs())
        K = self.kernel.pairwise(X, self._pending)
        self._twin.follow(K, Y, ridges, first, F, self._pending_coefficients)
        for squares in ((F - Y) ** 2).reshape(n, len(self._ridges), -1).sum(axis=2):
            self._errors_now += squares
        self.n_events += n
        return F

    def _answers(self, X: Numbers, new: int) -> Numbers:
        """Return the outputs of events as if each were asked before one of the newest is learned.

        Parameters
        ----------
        X : float32 array of shape (n, d)
        new : int
            The newest events that were learned, n; 0 if all of X is asked now.
        """
        F = self._outputs_of_centers(X)
        known = len(self._pending) - new + np.arange(len(X)) * (new > 0)
        if len(self._pending):
            K = self.kernel.pairwise(X, self._pending)
            self._twin.add(K, known, self._pending_coefficients, F)
        return F

    def _outputs_of_centers(self, X: Numbers) -> Numbers:
        """Return what the centers give for events X (n, d), of single ones only once.

        An event is predicted, and mostly learned soon after as it was.
        """
        if len(X) != 1:
            return self._centers.outputs(X)
        key = X.tobytes()
        known = self._recent.pop(key, None)
        if known is None:
            known = self._centers.outputs(X)
            if len(self._recent) < _RECENT:
                self._recent[key] = known
        return known.copy()

    def _targets(self, y: Numbers) -> Numbers:
        """Return labels as the functions learn them, float64 (n, outputs)."""
        if not self.is_classifier:
            return np.array(y)[:, None]
        outputs = self._n_outputs()
        classes = np.arange(outputs) if outputs > 1 else np.ones(1)
        return np.where(y[:, None] == classes, 1.0, -1.0)

    def _close_block(self) -> None:
        """Make centers of the block, and correct older coefficients."""
        centers = self._centers
        slots = centers.next_slots(BLOCK)
        lost = slots[slots < len(centers)]
        gone = centers.points[lost], centers.coefficients(lost)
        centers.append(self._pending, self._pending_labels, self._pending_coefficients)
        self._begin(centers)
        self._errors = self._errors * (1.0 - 1.0 / _MEMORY) ** BLOCK + self._errors_now
        self._errors_now = np.zeros(len(self._ridges))
        blocks = centers.n_seen // BLOCK
        if centers.n_seen <= _SETTLED and blocks & (blocks - 1) == 0:
            self._constant = self._targets(centers.labels).mean(axis=0)
        if len(lost):
            change = self.kernel.product(centers.points, *gone, dtype=np.float32)
            self._correct(np.argsort(-np.abs(change).sum(axis=1), kind="stable")[:BLOCK])
        n = len(centers)
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, blocks])))
        order = random.permutation(n)
        for turn in range(max(1, min(n // BLOCK, WORK // n))):
            self._correct(order[turn * BLOCK : (turn + 1) * BLOCK])

    def _correct(self, slots: Numbers) -> None:
        """Solve for the coefficients of some centers, given all others."""
        centers, m, each = self._centers, len(slots), len(self._ridges)
        X, A = centers.points[slots], centers.coefficients(slots).astype(np.float64)
        K, ridges = self.kernel.pairwise(X), self._ridges[:, None, None]
        A = A.reshape(m, each, -1).transpose(1, 0, 2)
        F = centers.outputs(X).reshape(m, each, -1).transpose(1, 0, 2)
        residual = self._targets(centers.labels[slots]) - self._constant - F - ridges * A
        A = A + np.linalg.solve(K + ridges * np.eye(m), residual)
        centers.set_coefficients(slots, bounded(A.transpose(1, 0, 2).reshape(m, -1)))

    # Predicting

    def decide_checked(self, events: Numbers) -> Numbers:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        if self.columns is None:
            return np.tile(self._constant, (len(events), 1))
        return self._decided(self._answers(events, 0))

    def _decided(self, F: Numbers) -> Numbers:
        """Return the outputs of the function that is asked, out of those of all."""
        outputs, best = self._n_outputs(), self._best
        return bounded(F[:, best * outputs : (best + 1) * outputs] + self._constant)

    # Columns and outputs

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns to those of a batch; in all events so far they were zero.

        Raises
        ------
        InvalidInput
            If a column is there already.
        """
        columns = (*(self.columns or ()), *names)
        column_keys(columns)
        self._centers.add_columns(len(names))
        self._pending = np.pad(self._pending, ((0, 0), (0, len(names))))
        self._columns = columns

    def _fresh_constant(self) -> Numbers:
        """Return the constant before the first block: no class is likely, numbers are 0."""
        outputs = self._n_outputs()
        return np.full(outputs, -1.0 if self.is_classifier and outputs > 1 else 0.0)

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        outputs, before = self._n_outputs(), len(self._constant)
        if outputs == before:
            return
        every = np.arange(len(self._centers))
        self._recent.clear()

        def fitted(A: Numbers) -> Numbers:
            parts = np.split(A.astype(np.float64), len(self._ridges), axis=1)
            return np.concatenate([widened(part, outputs, self.loss) for part in parts], axis=1)

        self._centers.set_outputs(fitted(self._centers.coefficients(every)))
        self._pending_coefficients = fitted(self._pending_coefficients)
        constant = widened(self._constant[None], outputs, self.loss)[0]
        constant[max(before, min(2, outputs)) :] = -1.0  # as if no label had been of that class
        self._constant = constant

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            "format": self.FORMAT,
            **options.to_header(self.OPTIONS, self),
            "task": "classification" if self.is_classifier else "regression",
            "columns": None if self.columns is None else list(self.columns),
            "classes": list(self.classes),
            "n_events": self.n_events,
            "n_seen": self._centers.n_seen,
        }
        own: dict[str, Numbers] = {
            "pending": self._pending.copy(),
            "pending_labels": self._pending_labels.copy(),
            "pending_coefficients": self._pending_coefficients[: len(self._pending)].copy(),
            "errors": self._errors.copy(),
            "errors_now": self._errors_now.copy(),
            "constant": self._constant.copy(),
        }
        return State(header, {**self._centers.arrays(), **own})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner whose state this is.

        Raises
        ------
        StateError
            If the state is another learner's or of a newer format, or is damaged.
        """
        header: Any = state.expect(cls.TYPE, format=cls.FORMAT).header
        with reading(_OWNER):
            learner = cls(
                **options.from_header(cls.OPTIONS, header),
                task=header["task"],
                columns=None if header["columns"] is None else listed(header, "columns", _OWNER),
                classes=listed(header, "classes", _OWNER),
            )
        learner.n_events = count(header, "n_events", _OWNER)
        labels = FINITE
        if learner.is_classifier:
            labels = Domain(0, max(0, len(learner.classes) - 1), whole=True)
        learner._centers.load(state, count(header, "n_seen", _OWNER), labels, _OWNER)
        learner._load(state, labels)
        return learner

    def _load(self, state: State, labels: Domain) -> None:
        """Take the arrays of a state beside those of the centers."""
        declared = (
            Declared("pending", "float32", ("pending", "columns")),
            Declared("pending_labels", "float64", ("pending",), labels),
            Declared("pending_coefficients", "float64", ("pending", "width")),
            Declared("errors", "float64", ("ridges",), NON_NEGATIVE),
            Declared("errors_now", "float64", ("ridges",), NON_NEGATIVE),
            Declared("constant", "float64", ("outputs",)),
        )
        sizes = {
            "columns": len(self.columns or ()),
            "width": self._width,
            "ridges": len(self._ridges),
            "outputs": self._n_outputs(),
        }
        found, sizes = taken(declared, state.arrays, sizes, _OWNER)
        if sizes["pending"] >= BLOCK:
            raise StateError(f"array 'pending' of {_OWNER} has {sizes['pending']} events")
        self._pending = found["pending"].copy()
        self._pending_labels = found["pending_labels"].copy()
        self._pending_coefficients[: sizes["pending"]] = found["pending_coefficients"]
        self._errors, self._errors_now = found["errors"].copy(), found["errors_now"].copy()
        self._constant = found["constant"].copy()

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        If this one has learned nothing since, it becomes the other. Else it learns the last events
        of the other, as many as are its centers.

        Parameters
        ----------
        other : OnlineKernelRidge
        common_events : int, default 0
            Events that the last common state had learned.

        Raises
        ------
        InvalidInput
            If the learners differ in an option, naming it, or have fewer events than that.
        """
        merge_by_events(self, other, common_events, self._last_events_of)

    def _last_events_of(self, other: Self, events: int) -> tuple[Numbers, Numbers]:
        """Return the last events that are centers of another learner, and their labels."""
        kept = other._centers
        slots = (np.arange(kept.n_seen - len(kept), kept.n_seen) % kept.capacity)[-events:]
        theirs = np.concatenate([kept.points[slots], other._pending])[-events:]
        return theirs, np.concatenate([kept.labels[slots], other._pending_labels])[-events:]


_OWNER = "this 'kernel-ridge' state"
