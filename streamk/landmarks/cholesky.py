"""The Cholesky factor of a matrix that gains and loses rows."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import filled, loops
from streamk.declared import POSITIVE, Declared, Domain
from streamk.errors import StateError

Matrix = NDArray[np.float64]


def _square(size: int) -> Matrix:
    side = filled(size)
    return np.zeros((side, side))


class GrowingCholesky:
    """The factor L of a positive definite ``W = L L'`` to which rows are added and removed.

    A new row is a forward substitution. Removing one is an update by Givens rotations, which are
    orthogonal and so do not let rounding grow. The diagonal of the inverse of W is kept with it.

    Parameters
    ----------
    capacity : int, default 0
        Rows up to which room is made with care; more may come.

    Examples
    --------
    >>> import numpy as np
    >>> factor = GrowingCholesky()
    >>> for k, own in [([], 4.0), ([2.0], 5.0), ([2.0, 3.0], 6.0)]:
    ...     phi = factor.solve(np.array([k]))[0]
    ...     factor.append(phi, own - float(phi @ phi))
    >>> factor.lower
    array([[2., 0., 0.],
           [1., 2., 0.],
           [1., 1., 2.]])
    >>> cosines, sines = factor.remove(0)
    >>> (factor.lower @ factor.lower.T).round(12)
    array([[5., 3.],
           [3., 6.]])
    """

    def __init__(self, capacity: int = 0) -> None:
        self._capacity = capacity
        self._room = np.zeros((0, 0))
        self._inverse = np.zeros(0)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @classmethod
    def of(cls, W: Matrix, least: float, left: float, capacity: int = 0) -> Self:
        """Return the factor of the first rows and columns of W (l, l).

        They end before a row whose Schur complement is `least` or smaller, or that makes that of
        another one, given all, as small as `left`.
        """
        made, anew = cls(capacity), _square(len(W))
        n = loops.incremental.factorise(W, anew, least)
        made._make_room(n)
        made._room[:n, :n] = anew[:n, :n]
        made._size = n
        sums = np.cumsum(made.solve(np.eye(n)) ** 2, axis=1)
        small = (sums * left >= 1.0).any(axis=0)
        if small.any():
            n = int(np.argmax(small))
            return cls.of(np.ascontiguousarray(W[:n, :n]), least, left, capacity)
        made._inverse[:n] = sums[:, -1:].sum(axis=1)
        return made

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._room.nbytes + self._inverse.nbytes

    @property
    def lower(self) -> Matrix:
        """L, a copy of shape (l, l)."""
        return np.tril(self._room[: self._size, : self._size])

    @property
    def inverse_diagonal(self) -> Matrix:
        """Diagonal of the inverse of W, shape (l,): 1 / what is lost with each row."""
        return self._inverse[: self._size]

    @property
    def room(self) -> Matrix:
        """L and its transpose in the corner of a symmetric square, which changes as L does."""
        return self._room

    def solve(self, K: Matrix) -> Matrix:
        """Return ``L^-1 k`` of each row k of `K` (n, l)."""
        Phi = np.array(K)
        loops.incremental.solve(self._room, Phi)
        return Phi

    def solve_back(self, Phi: Matrix) -> Matrix:
        """Return ``L^-T phi`` of each row phi of `Phi` (n, l)."""
        Q = np.array(Phi)
        loops.incremental.solve_back(self._room, Q)
        return Q

    def append(self, phi: Matrix, schur: float) -> None:
        """Add a row of W, given as ``phi = L^-1 k`` (l,) and its Schur complement."""
        q = self.solve_back(phi[None])[0]
        n = self._size
        self._make_room(n + 1)
        self._room[n, :n] = self._room[:n, n] = phi
        self._room[n, n] = math.sqrt(schur)
        self._inverse[:n] += q * q / schur
        self._inverse[n] = 1.0 / schur
        self._size = n + 1

    def _make_room(self, size: int) -> None:
        if size > len(self._room):
            n = self._size
            room, inverse = _square(min(2 * size, max(size, self._capacity))), self._inverse[:n]
            room[:n, :n] = self._room[:n, :n]
            self._room, self._inverse = room, np.zeros(len(room))
            self._inverse[:n] = inverse

    def remove(self, j: int) -> tuple[Matrix, Matrix]:
        """Remove row and column j of W.

        Returns
        -------
        cosines, sines : arrays of shape (l - 1 - j,)
            Of the rotations of columns (j, j+1), (j+1, j+2), ... of L without row j, one after the
            other: ``a, b`` become ``c a + s b, c b - s a``. The last column is then 0.
        """
        n = self._size
        unit = np.zeros((1, n))
        unit[0, j] = 1.0
        column = self.solve_back(self.solve(unit))[0]
        cosines, sines = np.empty(n - 1 - j), np.empty(n - 1 - j)
        loops.incremental.remove_row(self._room, n, j, cosines, sines)
        left = self._inverse[:n] - column * column / column[j]
        self._inverse[: n - 1] = np.delete(left, j)
        self._size = n - 1
        return cosines, sines

    def refactor(self, W: Matrix) -> float:
        """Compute the factor anew from W (l, l).

        Where W is not positive definite in double precision, the factor stays as it is. The
        diagonal of the inverse is computed anew in any case.

        Returns
        -------
        float
            Largest error of an element of ``L L'`` before.
        """
        n = self._size
        residual = loops.incremental.residual(self._room, W)
        anew = _square(n)
        if loops.incremental.factorise(W, anew, 0.0) == n:
            self._room[:n, :n] = anew[:n, :n]
        columns = self.solve(np.eye(n))
        self._inverse[:n] = np.einsum("ij,ij->i", columns, columns)
        return residual

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays to go on from, copies."""
        return {"factor": self.lower, "inverse_diagonal": self.inverse_diagonal.copy()}

    @classmethod
    def from_state(
        cls, factor: Matrix, inverse_diagonal: Matrix, capacity: int = 0
    ) -> GrowingCholesky:
        """Return the factor that `state` described, of a matrix with a diagonal of 1.

        Parameters
        ----------
        factor : float64 array of shape (l, l)
        inverse_diagonal : float64 array of shape (l,)
            As `FACTOR` declares them.
        capacity : int, default 0

        Raises
        ------
        StateError
            If it is the factor of no such matrix.
        """
        made = cls(capacity)
        n = len(factor)
        made._room = _square(n)  # no more: a state may ask for as much memory as it has
        own = made._room[:n, :n]
        own[...] = np.tril(factor)
        norms = np.einsum("ij,ij->i", own, own)
        if n and not (own.diagonal().min() > 0.0 and np.abs(norms - 1.0).max() < _ROUNDED):
            raise StateError(
                "array 'factor' of landmarks is no Cholesky factor: its diagonal is not positive, "
                "or the rows have another length than 1"
            )
        own += np.tril(own, -1).T
        made._inverse = np.zeros(len(made._room))
        made._inverse[:n] = inverse_diagonal
        made._size = n
        return made


_ROUNDED = 1e-3
"""By how much the diagonal of the matrix may have moved by rounding."""
FACTOR = (
    Declared("factor", "float64", ("landmarks", "landmarks"), Domain(least=-1.001, most=1.001)),
    Declared("inverse_diagonal", "float64", ("landmarks",), POSITIVE),
)
"""The arrays of a state, of a matrix whose diagonal is 1."""
