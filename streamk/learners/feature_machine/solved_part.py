"""Kernel ridge regression that is solved for exactly, anew with each block of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.declared import Declared, Domain, number, reading, taken
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.feature_machine.growing_cholesky import GrowingCholesky, nbytes_of
from streamk.learners.kernel_ridge.centers import Centers
from streamk.learners.kernel_ridge.learner import BLOCK

Numbers = NDArray[Any]

_RIDGES = Domain(least=1e-12, most=1e12)


class SolvedPart:
    """The function ``sum of a_j k(x, x_j)`` with ``(K + r I) a = y``, of up to `capacity` events.

    Events are added while there is room, and then the coefficients of all are solved for. That
    takes as many multiplications as to solve once for all events at the end, but for the last
    substitution, since the Cholesky factor grows with the matrix.

    Parameters
    ----------
    kernel : Kernel
    ridge : float
        r.
    capacity : int
        Events at most.
    n_columns, n_outputs : int

    Attributes
    ----------
    closed : bool
        Whether it stays as it is although there is room.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> part = SolvedPart(Gaussian(), 1.0, 64, n_columns=1, n_outputs=1)
    >>> part.add(np.arange(64.0, dtype=np.float32)[:, None] * 99.0, np.ones(64))
    >>> part.solve(part.labels[:, None])
    >>> part.outputs(np.zeros((1, 1), np.float32)), part.grows
    (array([[0.5]]), False)
    """

    def __init__(
        self,
        kernel: Kernel,
        ridge: float,
        capacity: int,
        *,
        n_columns: int,
        n_outputs: int,
    ) -> None:
        self.kernel, self.ridge, self.closed = kernel, ridge, False
        self._centers = Centers(kernel, capacity, n_columns=n_columns, n_outputs=n_outputs)
        self._factor: GrowingCholesky | None = None
        """None also where it is not made yet, as in a part out of a state."""

    def __len__(self) -> int:
        return len(self._centers)

    @property
    def labels(self) -> Numbers:
        """Labels of the events as numbers, float64 (n,)."""
        return self._centers.labels

    @property
    def nbytes(self) -> int:
        """Memory, in bytes, with that of the factor even where it is still to be made."""
        return self._centers.nbytes + (nbytes_of(len(self)) if self.grows else 0)

    @property
    def grows(self) -> bool:
        """Whether another block can be added."""
        return self.room >= BLOCK

    @property
    def room(self) -> int:
        """Events that can be added."""
        return 0 if self.closed else self._centers.capacity - len(self)

    def close(self) -> None:
        """Take no further events."""
        self.closed, self._factor = True, None

    def add(self, points: Numbers, labels: Numbers) -> None:
        """Add events (n, d), float32, with labels (n,), n being a multiple of 64.

        The function is unchanged until `solve`. If rounding leaves no positive definite matrix,
        the events are not added, and no others can be.

        Raises
        ------
        numpy.linalg.LinAlgError
            If that is so of the first events.
        """
        first = len(self)
        try:
            if self._factor is None:  # by the same steps as before
                self._factor = GrowingCholesky()
                self._extend(self._factor, 0)
            nothing = np.zeros((len(points), self._centers.n_outputs))
            self._centers.append(points, labels, nothing)
            self._extend(self._factor, first)
        except np.linalg.LinAlgError:
            if not first:
                raise
            self._centers = self._first(first)
            self.close()

    def _first(self, count: int) -> Centers:
        """Return the first centers alone."""
        known, every = self._centers, np.arange(count)
        kept = Centers(
            self.kernel,
            known.capacity,
            n_columns=known.points.shape[1],
            n_outputs=known.n_outputs,
        )
        kept.append(known.points[:count], known.labels[:count], known.coefficients(every))
        return kept

    def _extend(self, factor: GrowingCholesky, first: int) -> None:
        """Take the events from one on into the factor, block by block."""
        Z = self._centers.points
        for start in range(first, len(Z), BLOCK):
            stop = start + BLOCK
            K = self.kernel.pairwise(Z[start:stop], Z[:stop], dtype=np.float32)
            K[np.arange(BLOCK), np.arange(start, stop)] = 1.0 + self.ridge
            factor.append(K)

    def solve(self, targets: Numbers) -> None:
        """Solve for the coefficients, of targets (n, outputs), if events were added."""
        if self._factor is None:
            return
        A = self._factor.solved(np.asarray(targets, np.float32))
        self._centers.set_coefficients(np.arange(len(self)), A)
        if not self.grows:
            self._factor = None  # it would not be used again

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of points X (n, d), float32: float64 (n, outputs)."""
        return self._centers.outputs(X)

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self._centers.add_columns(count)

    def fit_outputs(self, fitted: Callable[[Numbers], Numbers]) -> None:
        """Have other outputs: ``fitted`` of the coefficients (n, outputs)."""
        every = np.arange(len(self))
        self._centers.set_outputs(fitted(self._centers.coefficients(every)))

    def header(self) -> dict[str, Any]:
        """The data that `of` takes beside the arrays, for JSON."""
        return {"kernel": self.kernel.to_json(), "ridge": self.ridge, "closed": self.closed}

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        return self._centers.arrays()

    @classmethod
    def of(
        cls,
        header: Any,
        arrays: dict[str, Numbers],
        *,
        capacity: int,
        sizes: dict[str, int],
        labels: Domain,
        owner: str,
    ) -> Self:
        """Return the part whose data and arrays these are.

        Parameters
        ----------
        header : JSON data
            Of `header`, or that of a kernel alone, whose part is closed.
        arrays : dict
        capacity : int
        sizes : dict of str to int
            "columns" and "outputs".
        labels : Domain
        owner : str
            What it is, as messages name it.

        Raises
        ------
        StateError
            If they do not fit.
        """
        with reading(owner):
            alone = "ridge" not in header
            kernel = kernels.from_json(header if alone else header["kernel"])
            closed = alone or bool(header["closed"])
        ridge = 1.0 if alone else number(header, "ridge", owner, _RIDGES)
        declared = (
            Declared("points", "float32", ("base", "columns")),
            Declared("labels", "float64", ("base",), labels),
            Declared("coefficients", "float32", ("base", "outputs")),
        )
        found, known = taken(declared, arrays, sizes, owner)
        count = known["base"]
        if not count or count > capacity or not (closed or count % BLOCK == 0):
            raise StateError(f"{owner} has {count} points, where there can be up to {capacity}")
        part = cls(kernel, ridge, capacity, n_columns=known["columns"], n_outputs=known["outputs"])
        part.closed = closed
        part._centers.append(found["points"], found["labels"], found["coefficients"])
        return part


def whole_blocks(count: int) -> int:
    """Return how many of so many events fill blocks of 64.

    >>> whole_blocks(200)
    192
    """
    return count - count % BLOCK
