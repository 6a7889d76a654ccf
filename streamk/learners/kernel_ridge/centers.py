"""Centers with coefficients, of which the newest take the places of the oldest."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import FEW, GROUP, loops
from streamk.backends.threads import divide
from streamk.declared import Declared, Domain, taken
from streamk.kernels import Kernel
from streamk.state import State

Numbers = NDArray[Any]

_ROWS = 32
"""Rows by which threads share work."""


class Centers:
    """The function ``f(x) = sum of a_j k(x, z_j)`` of at most so many centers z_j.

    Parameters
    ----------
    kernel : Kernel
    capacity : int
        Centers; one more takes the slot of the oldest.
    n_columns, n_outputs : int

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

    def __init__(self, kernel: Kernel, capacity: int, *, n_columns: int, n_outputs: int) -> None:
        self._mapped = kernel.mapped
        self._kernel = kernel.numbers
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
        """Take what `arrays` gave, after so many centers.

        Raises
        ------
        StateError
            If an array is missing, of another shape or out of its domain.
        """
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
