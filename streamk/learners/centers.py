"""Centers with coefficients, and learners on them that learn block by block."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.backends import FEW, GROUP, Functions, KernelCode, KernelSum, loops, sum_factor
from streamk.backends.threads import divide
from streamk.declared import NON_NEGATIVE, Declared, Domain, taken
from streamk.errors import InvalidInput, StateError
from streamk.factorization.clusters import nearest
from streamk.kernels import Kernel
from streamk.learners.common.calibration import Calibration
from streamk.learners.common.classes import Label, bounded, widened
from streamk.learners.common.supervised import Asked, Supervised
from streamk.state import State

Numbers = NDArray[Any]

_ROWS = 32
"""Rows by which threads share work."""
RIDGES = (0.1, 0.5, 2.0, 8.0)
"""Regularizations of which one is chosen as the stream goes by."""
SETTLED = 4096
"""Events after which the constant stays."""
_MEMORY = 2_000
"""Events that the choice among regularizations looks back on."""
KEPT = 256
"""Events whose outputs are kept."""


class Centers:
    """The function ``f(x) = sum of a_j k(x, z_j)`` of centers z_j.

    There are at most so many as its capacity; one more takes the slot of the oldest.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> centers = Centers(Gaussian(), 2, n_columns=1, n_outputs=1)
    >>> for x in (0.0, 1.0, 9.0):
    ...     slots = centers.append(np.array([[x]]), np.array([x]), np.array([[1.0]]))
    >>> centers.points.tolist(), slots.tolist()
    ([[9.0], [1.0]], [0])
    >>> centers.outputs(np.array([[1.0]], np.float32)).round(4)
    array([[1.]])
    """

    _TYPE: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    def __init__(self, kernel: Kernel, capacity: int, *, n_columns: int, n_outputs: int) -> None:
        self._of, self._mapped = kernel, kernel.mapped
        self._kernel = kernel.numbers
        self._factor = sum_factor(*self._kernel, self._TYPE)
        self.capacity, self.n_outputs = capacity, n_outputs
        self.n_seen = 0
        """Centers that there ever were."""
        self._X = np.zeros((0, n_columns), np.float32)
        self._y = np.zeros(0)
        self._laid = np.zeros((0, self._mapped(self._X).shape[1], GROUP), np.float32)
        self._A = _no_coefficients(n_outputs, 0)

    def __len__(self) -> int:
        return min(self.n_seen, self.capacity)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return sum(array.nbytes for array in (self._X, self._y, self._laid, self._A))

    @property
    def points(self) -> Numbers:
        """The centers by their slots, float32 (n, d)."""
        return self._X[: len(self)]

    @property
    def labels(self) -> Numbers:
        """Their labels as numbers, float64 (n,)."""
        return self._y[: len(self)]

    def coefficients(self, slots: Numbers) -> Numbers:
        """Return a copy of the coefficients of some slots, float32 (n, outputs)."""
        parts, _, lanes = self._A.shape
        some = self._A[:, slots].transpose(1, 0, 2)
        return some.reshape(len(slots), parts * lanes)[:, : self.n_outputs]

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some slots by A (n, outputs)."""
        parts, _, lanes = self._A.shape
        room = np.zeros((len(slots), parts * lanes), np.float32)
        room[:, : self.n_outputs] = A
        self._A[:, slots] = room.reshape(len(slots), parts, lanes).transpose(1, 0, 2)

    def next_slots(self, count: int) -> Numbers:
        """Return the slots of the next centers, int64 (count,)."""
        return np.arange(self.n_seen, self.n_seen + count) % self.capacity

    def append(self, X: Numbers, y: Numbers, A: Numbers) -> Numbers:
        """Add centers X (n, d) with labels y (n,) and coefficients A (n, outputs).

        There are no more than the capacity. Returns their slots.
        """
        slots = self.next_slots(len(X))
        if not len(X):  # nothing is to be compiled for that
            return slots
        self._make_room(min(self.capacity, self.n_seen + len(X)))
        self._X[slots], self._y[slots] = X, y
        loops.centers.lay(self._mapped(np.ascontiguousarray(X, np.float32)), slots, self._laid)
        self.set_coefficients(slots, A)
        self.n_seen += len(X)
        return slots

    def _make_room(self, size: int) -> None:
        """Have arrays for so many centers; they double, up to the capacity."""
        if size <= len(self._X):
            return
        size = min(max(size, 2 * len(self._X)), self.capacity)
        more, groups = size - len(self._X), -(-size // GROUP)
        self._X, self._y = np.pad(self._X, ((0, more), (0, 0))), np.pad(self._y, (0, more))
        self._laid = np.pad(self._laid, ((0, groups - len(self._laid)), (0, 0), (0, 0)))
        self._A = np.pad(self._A, ((0, 0), (0, groups * GROUP - self._A.shape[1]), (0, 0)))

    def outputs(self, X: Numbers) -> Numbers:
        """Return f of the rows of X (n, d), float32: float64 (n, outputs).

        Each row's are the same, bit for bit, in whatever batch the row comes.
        """
        groups = -(-len(self) // GROUP)
        if not (groups and len(X)):
            return np.zeros((len(X), self.n_outputs))
        F = np.empty((len(X), self.n_outputs))
        laid, points = self._laid[:groups], self._mapped(X)
        if len(X) <= _ROWS:
            loops.centers.expand(self._kernel, points, laid, self._A, F)
            return F

        def expand(rows: slice) -> None:
            some = slice(_ROWS * rows.start, _ROWS * rows.stop)
            loops.centers.expand(self._kernel, points[some], laid, self._A, F[some])

        flops = len(X) * len(self) * (X.shape[1] + GROUP)
        divide(-(-len(X) // _ROWS), flops, expand)
        return F

    @property
    def sum(self) -> KernelSum:
        """The function as compiled loops take it."""
        code, parameter, _ = self._kernel
        laid = self._laid[: -(-len(self) // GROUP)]
        return KernelSum(code, parameter, self._factor, laid, self._A)

    def clear(self) -> None:
        """Have no centers, as if there never were any."""
        self.n_seen = 0

    def copy(self) -> Centers:
        """Return the same centers, which change apart from these."""
        new = copy.copy(self)
        new._X, new._y = self._X.copy(), self._y.copy()
        new._laid, new._A = self._laid.copy(), self._A.copy()
        return new

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self._X = np.pad(self._X, ((0, 0), (0, count)))
        self._laid = np.pad(self._laid, ((0, 0), (0, count), (0, 0)))

    def set_outputs(self, A: Numbers) -> None:
        """Have other outputs, with the coefficients A (n, outputs) of all centers."""
        self.n_outputs = A.shape[1]
        self._A = _no_coefficients(self.n_outputs, self._A.shape[1])
        self.set_coefficients(np.arange(len(self)), A)

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        every = np.arange(len(self))
        return {
            "points": self.points.copy(),
            "labels": self.labels.copy(),
            "coefficients": self.coefficients(every),
        }

    def load(self, state: State, n_seen: int, labels: Domain, owner: str) -> Self:
        """Take what `arrays` gave, after so many centers; raise StateError if it does not fit."""
        declared = (
            Declared("points", "float32", ("centers", "columns")),
            Declared("labels", "float64", ("centers",), labels),
            Declared("coefficients", "float32", ("centers", "outputs")),
        )
        sizes = {
            "centers": min(n_seen, self.capacity),
            "columns": self._X.shape[1],
            "outputs": self.n_outputs,
        }
        found, _ = taken(declared, state.arrays, sizes, owner)
        self.append(found["points"], found["labels"], found["coefficients"])
        self.n_seen = n_seen
        return self


def _no_coefficients(n_outputs: int, slots: int) -> Numbers:
    """Return those of so many slots, 0: outputs in lanes, or one by one where they are few."""
    lanes = 1 if n_outputs <= FEW else GROUP
    return np.zeros((-(-n_outputs // lanes), slots, lanes), np.float32)


class OnCenters(Supervised):
    """A learner of ``f(x) = c + sum of a_j k(x, z_j)`` by squared loss, block by block.

    Targets are +1 and -1 for each class, and numbers themselves; probabilities are calibrated on
    the stream (`streamk.learners.common.calibration`). Several functions, one for each
    regularization r, are learned side by side; the one with the least squared error on the events
    before they were learned is asked, the last 2,000 counting most. An event is learned at once: it
    is a center with the coefficient ``(y - f(x)) / (1 + r)`` until its block is full. Then the
    subclass learns the block.

    Subclasses have the centers: `_outputs_of`, `_take_block`, `_add_columns`, `_fit_centers`, and
    their own part of the state.
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)
    """Of events and centers."""
    can_diverge = False
    _errors_domain = NON_NEGATIVE

    def __init__(
        self,
        kernel: Kernel,
        *,
        task: str,
        ridges: Sequence[float],
        block: int,
        classes: Sequence[Label],
        max_classes: int,
    ) -> None:
        self._set_task("squared", task, classes, max_classes)
        self.kernel = kernel
        options.check(self.OPTIONS, self)
        if kernel.code == KernelCode.LINEAR:
            raise InvalidInput(
                f"kernel={kernel!r} is not bounded, but this learner needs a bounded one, such as "
                "Laplacian"
            )
        self._kernel_numbers = kernel.numbers
        self._ridges = np.array(ridges)
        self._block = block
        self._constant = self._fresh_constant()
        self._errors, self._errors_now = np.zeros(len(ridges)), np.zeros(len(ridges))
        self._calibration = Calibration()
        self._begin_block()

    def _begin_block(self) -> None:
        """Go on with none learned since the last block."""
        self._make_room(np.zeros((0, len(self.columns or ())), np.float32), np.zeros(0))
        self._pending_coefficients = np.zeros((self._block, self._width))
        self._recent: dict[bytes, Numbers] = {}
        """Outputs of the centers for events that were predicted since, by the bytes of these."""

    def _make_room(self, X: Numbers, y: Numbers) -> None:
        """Have X (n, d) and labels y (n,) as the events since the last block, and room for more."""
        self._rooms = np.zeros((self._block, X.shape[1]), np.float32), np.zeros(self._block)
        self._n_pending = 0
        self._append(X, y)

    def _append(self, X: Numbers, y: Numbers) -> None:
        """Have further events since the last block."""
        first, stop = self._n_pending, self._n_pending + len(X)
        points, labels = self._rooms
        points[first:stop], labels[first:stop] = X, y
        self._n_pending = stop

    @property
    def _pending(self) -> Numbers:
        """The events since the last block, float32 (n, d)."""
        return self._rooms[0][: self._n_pending]

    @property
    def _pending_labels(self) -> Numbers:
        """Their labels, float64 (n,)."""
        return self._rooms[1][: self._n_pending]

    @property
    def _width(self) -> int:
        """Outputs of all functions."""
        return len(self._ridges) * self._n_outputs()

    # What it is

    @property
    def chosen_regularization(self) -> float:
        """The regularization of the function that is asked."""
        return float(self._ridges[self._best])

    @property
    def _best(self) -> int:
        """The function that is asked."""
        return int(np.argmin(self._errors))

    # Learning

    def _learn_labelled(self, events: Numbers, numbers: Numbers, asked: Asked | None) -> None:
        """Predict and learn events that all have labels, block by block."""
        at = 0
        while at < len(events):
            stop = min(len(events), at + self._stop - self._n_pending)
            F = self._learn(events[at:stop], numbers[at:stop])
            if asked is not None and asked.events is not None:
                F = self._answers(asked.events[at:stop], stop - at)
            if asked is not None:
                asked.add(self._decided(F))
            self._turn()
            at = stop

    @property
    def _stop(self) -> int:
        """Event of the block up to which events are learned together."""
        return self._block

    def _turn(self) -> None:
        """Carry out the steps due at this event of the block."""
        if self._n_pending == self._block:
            self._close_block()

    def _learn(self, X: Numbers, y: Numbers) -> Numbers:
        """Learn events of one block, and return the outputs of each before it was learned."""
        first, n = self._n_pending, len(X)
        F = self._outputs_of_centers(X)
        self._append(X, y)
        Y, A = self._targets(y) - self._constant, self._pending_coefficients
        functions = Functions(self._ridges, A, self._errors_now)
        if n == 1:
            points = self.kernel.mapped(self._pending)
            loops.centers.follow_one(self._kernel_numbers, points, Y, functions, F)
        else:
            K = own_kernels(self.kernel, X, self._pending)
            loops.centers.follow(K, Y, functions, first, F)
        self._calibrate(F, y)
        self.n_events += n
        return F

    def _calibrate(self, F: Numbers, y: Numbers) -> None:
        """Take in the outputs F (n, width) that events of these labels had."""
        if self.is_classifier:
            self._calibration.add(self._decided(F), y)

    def _answers(self, X: Numbers, new: int) -> Numbers:
        """Return the outputs of X (n, d) as if each were asked before one of the newest is learned.

        These are `new`, n events; 0 if all of X is asked now.
        """
        F = self._outputs_of_centers(X)
        before, A = self._n_pending - new, self._pending_coefficients
        if len(X) == 1:
            x, points = self.kernel.mapped(X), self.kernel.mapped(self._pending[:before])
            loops.centers.add_one(self._kernel_numbers, x, points, A, F)
        elif self._n_pending:
            known = before + np.arange(len(X)) * (new > 0)
            loops.centers.add(own_kernels(self.kernel, X, self._pending), known, A, F)
        return F

    def _outputs_of_centers(self, X: Numbers) -> Numbers:
        """Return what the centers give for events X (n, d), of single ones only once.

        An event is predicted, and mostly learned soon after as it was.
        """
        if len(X) != 1:
            return self._outputs_of(X)
        key = X.tobytes()
        known = self._recent.pop(key, None)
        if known is None:
            known = self._outputs_of(X)
            if len(self._recent) < KEPT:
                self._recent[key] = known
        return known.copy()

    def _targets(self, y: Numbers) -> Numbers:
        """Return labels as the functions learn them, float64 (n, outputs)."""
        return targets_of(y, self._n_outputs() if self.is_classifier else 0)

    def _close_block(self) -> None:
        """Have the centers learn the block, and weigh the functions."""
        n = self._n_pending
        block = self._pending, self._pending_labels, self._pending_coefficients[:n]
        self._begin_block()
        self._errors = self._errors * (1.0 - 1.0 / _MEMORY) ** n + self._errors_now
        self._errors_now = np.zeros(len(self._ridges))
        self._calibration.close(n)
        self._take_block(*block)

    # Centers, which a subclass has

    def _outputs_of(self, X: Numbers) -> Numbers:
        """Return what the centers give for events X (n, d), float64 (n, width)."""
        raise NotImplementedError

    def _take_block(self, X: Numbers, y: Numbers, A: Numbers) -> None:
        """Learn a block of events X (n, d), labels y (n,), coefficients A (n, width)."""
        raise NotImplementedError

    def _fit_centers(self, fitted: Callable[[Numbers], Numbers]) -> None:
        """Have coefficients for more classes: ``fitted`` of what they are, (n, functions)."""
        raise NotImplementedError

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

    def _probabilities(self, F: Numbers) -> Numbers:
        return self._calibration.probabilities(F)

    # Coefficients

    def coefficients_of(self, X: ArrayLike) -> Numbers:
        """Return the coefficients that events have as centers of the function that is asked.

        Each center counts for the event that it is nearest to, the first of equal ones: a center
        may be an event as it was scaled before, or one of k-means. Others have 0. Of events X (n,
        d) the coefficients are float64 (n, outputs).

        Raises `InvalidInput` if the columns do not fit, a value is not finite, there are no events,
        or nothing was learned.
        """
        events = self._check(X)
        if self.columns is None or not len(events):
            raise InvalidInput("no events are given, or none were learned, so there are no centers")
        best, outputs = self._best, self._n_outputs()
        pending = self._pending_coefficients[: self._n_pending]
        points, A = self._centers_of(best)
        points = np.concatenate([points, self._pending])
        A = np.concatenate([A, pending[:, best * outputs : (best + 1) * outputs]])
        found = np.zeros((len(events), outputs))
        if len(points):
            rows = nearest(points.astype(np.float64), events.astype(np.float64), 1)
            np.add.at(found, rows, A)
        return found

    def _centers_of(self, place: int) -> tuple[Numbers, Numbers]:
        """Return the centers (p, d), and their coefficients (p, outputs) in one function."""
        raise NotImplementedError

    # Columns and outputs

    def _add_columns(self, count: int) -> None:
        self._make_room(np.pad(self._pending, ((0, 0), (0, count))), self._pending_labels)

    def _fresh_constant(self) -> Numbers:
        """Return the constant before the first block: no class is likely, numbers are 0."""
        outputs = self._n_outputs()
        return np.full(outputs, -1.0 if self.is_classifier and outputs > 1 else 0.0)

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        outputs, before = self._n_outputs(), len(self._constant)
        if outputs == before:
            return
        self._recent.clear()

        def fitted(A: Numbers) -> Numbers:
            parts = np.split(A.astype(np.float64), A.shape[1] // before, axis=1)
            return np.concatenate([widened(part, outputs, self.loss) for part in parts], axis=1)

        self._fit_centers(fitted)
        self._pending_coefficients = fitted(self._pending_coefficients)
        constant = widened(self._constant[None], outputs, self.loss)[0]
        constant[max(before, min(2, outputs)) :] = -1.0  # as if no label had been of that class
        self._constant = constant

    # State

    def _block_arrays(self) -> dict[str, Numbers]:
        """Return the arrays of the block, the functions' errors and the constant, copies."""
        return {
            "pending": self._pending.copy(),
            "pending_labels": self._pending_labels.copy(),
            "pending_coefficients": self._pending_coefficients[: self._n_pending].copy(),
            "errors": self._errors.copy(),
            "errors_now": self._errors_now.copy(),
            "constant": self._constant.copy(),
            **self._calibration.arrays(),
        }

    @classmethod
    def _from_header(cls, state: State, **more: Any) -> Self:
        learner = super()._from_header(state, **more)
        known = learner.columns is not None and (learner.classes or not learner.is_classifier)
        if learner.n_events and not known:
            raise StateError(f"{cls._owner()} has learned events without columns or classes")
        return learner

    def _sizes(self) -> dict[str, int]:
        """The sizes of arrays that are known from the header."""
        return {
            "columns": len(self.columns or ()),
            "width": self._width,
            "functions": len(self._ridges),
            "outputs": self._n_outputs(),
        }

    def _load_block(self, state: State) -> None:
        """Take what `_block_arrays` gave."""
        arrays = state.arrays
        declared = (
            Declared("pending", "float32", ("pending", "columns")),
            Declared("pending_labels", "float64", ("pending",), self._label_domain),
            Declared("pending_coefficients", "float64", ("pending", "width")),
            Declared("errors", "float64", ("functions",), self._errors_domain),
            Declared("errors_now", "float64", ("functions",), NON_NEGATIVE),
            Declared("constant", "float64", ("outputs",)),
        )
        found, sizes = taken(declared, arrays, self._sizes(), self._owner())
        if sizes["pending"] >= self._block:
            raise StateError(f"array 'pending' of {self._owner()} has {sizes['pending']} events")
        self._make_room(found["pending"], found["pending_labels"])
        self._pending_coefficients[: sizes["pending"]] = found["pending_coefficients"]
        self._errors, self._errors_now = found["errors"].copy(), found["errors_now"].copy()
        self._constant = found["constant"].copy()
        self._calibration.load(arrays, self._owner())


def targets_of(y: Numbers, margins: int) -> Numbers:
    """Return labels y (n,) as functions learn them, float64 (n, outputs).

    There is one margin for two classes, or for each of several; 0 where labels are numbers.

    Examples
    --------
    >>> targets_of(np.array([0.0, 2.0]), 3).tolist()
    [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    if not margins:
        return np.array(y)[:, None]
    classes = np.arange(margins) if margins > 1 else np.ones(1)
    return np.where(y[:, None] == classes, 1.0, -1.0)


def own_kernels(kernel: Kernel, X: Numbers, Y: Numbers) -> Numbers:
    """Return K(X, Y) for events' own rows, evaluated in float32 as those of centers are."""
    return kernel.pairwise(X, Y, dtype=np.float32).astype(np.float64)
