"""Kernel ridge regression: its Cholesky factor, which grows with the events, and its solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import GROUP, PANEL, loops
from streamk.backends.memory import room
from streamk.kernels import Kernel
from streamk.learners.eigenpro.direct import NormalEquations
from streamk.learners.rfm.metric import Weights, of_rows, rooted, times

Numbers = NDArray[Any]

_NARROW = 4
"""Outputs up to which their products are made one by one, and not in all lanes."""


class RidgeFactor:
    """The lower Cholesky factor of ``K + r I``, which gets rows from time to time, in float32.

    Only the lower triangle is kept, 2 n^2 bytes. To append to n rows takes n^2 multiplications for
    each, so that all of them together take as many as a factorization at once. How rows come
    changes no bit of it.

    Parameters
    ----------
    capacity : int
        Rows at most. Their memory is asked for at once, used as they come, and all of it goes back
        to the system with the factor.
    """

    def __init__(self, capacity: int) -> None:
        self._room = room(nbytes_of(capacity) // 4)
        self.clear()

    def __len__(self) -> int:
        return self._count

    def clear(self) -> None:
        """Remove all rows, and keep their memory."""
        self._count = 0
        self._solved_for: tuple[Numbers, Numbers] | None = None
        """The last right-hand sides Y, and what ``L x = Y`` has for them."""

    def append(self, rows: Numbers, diagonal: float) -> None:
        """Take in the matrix's next rows, as of `kernel_rows`, and a number on its diagonal.

        They must not cross a multiple of 256. Of a matrix that is not positive definite, but for
        rounding, the factor stays as it was, and LinAlgError is raised.
        """
        n, many = self._count, len(rows) * GROUP
        at, own = n % PANEL, self._panel(n // PANEL)
        first, stop = at // GROUP, (at + many) // GROUP
        own[first:stop, : n + many] = rows
        each = np.arange(many)
        own[first + each // GROUP, n + each, each % GROUP] = diagonal
        for place in range(n // PANEL):
            loops.cholesky.eliminate(own, first, stop, self._panel(place), place * PANEL)
        if not loops.cholesky.factor(own, first, stop, n - at):
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        self._count += many

    def _panel(self, place: int) -> Numbers:
        """Return a panel's array (groups, columns, 32)."""
        first, stop = (nbytes_of(rows) // 4 for rows in (place * PANEL, (place + 1) * PANEL))
        return self._room[first:stop].reshape(PANEL // GROUP, -1, GROUP)

    def solved(self, Y: Numbers) -> Numbers:
        """Return ``K^-1 Y``, float32 (n, c), of right-hand sides Y float32 (n, c).

        Where the first rows of Y are those of the last call, ``L x = Y`` is solved for the others
        alone: a half of the work.
        """
        n, c = Y.shape
        lanes = c if c <= _NARROW else GROUP
        parts = -(-c // lanes)
        A = np.zeros((self._count, parts * lanes), np.float32)
        A[:n, :c] = Y
        A = np.ascontiguousarray(A.reshape(-1, parts, lanes).transpose(1, 0, 2))
        known = self._take_known(Y, A)
        edges = range(0, self._count, PANEL)
        for at in edges[known * GROUP // PANEL :]:
            loops.cholesky.forward(self._panel(at // PANEL), at, A, max(0, known - at // GROUP))
        self._solved_for = Y.copy(), A.copy()
        for at in reversed(edges):
            loops.cholesky.backward(self._panel(at // PANEL), at, A)
        return A.transpose(1, 0, 2).reshape(self._count, -1)[:n, :c]

    def _take_known(self, Y: Numbers, A: Numbers) -> int:
        """Write what is known of ``L x = Y`` into A; return for how many groups of rows it is."""
        if self._solved_for is None:
            return 0
        right, halves = self._solved_for
        rows = min(len(right), len(Y)) // GROUP * GROUP
        if right.shape[1] != Y.shape[1] or not np.array_equal(right[:rows], Y[:rows]):
            return 0
        A[:, :rows] = halves[:, :rows]
        return rows // GROUP


def kernel_rows(kernel: Kernel, Z: Numbers, first: int, stop: int) -> Numbers:
    """Return rows of the kernel matrix of Z (n, d), with their columns up to the diagonal.

    They are in groups of 32, float32 (groups, columns, 32), from a row on whose number is a
    multiple of 32; if they are no multiple, there are rows and columns of zeros beside them.
    """
    groups = -(-(stop - first) // GROUP)
    rows = np.zeros((groups, first + groups * GROUP, GROUP), np.float32)
    for g in range(groups):
        some = slice(first + g * GROUP, min(first + (g + 1) * GROUP, stop))
        K = kernel.pairwise(Z[: some.stop], Z[some], dtype=np.float32)
        rows[g, : some.stop, : K.shape[1]] = K
    return rows


def nbytes_of(n: int) -> int:
    """Return the memory of a factor with n rows, in bytes."""
    panels = -(-n // PANEL)
    return 2 * PANEL**2 * panels * (panels + 1)


_ROWS = 2_048
"""Events whose kernels with all centers are there at once."""


class ExactRidge:
    """Coefficients ``(K + r I)^-1 Y``, by a Cholesky factor for each regularization r.

    With weights w they are ``(K + r W^-1)^-1 Y``, of the least ``sum w_i |f(x_i) - y_i|^2 + r
    |f|^2``, by the factor of ``W^1/2 K W^1/2 + r I``.

    The kernel matrix is kept in single precision, whose rounding is far below the least
    regularization; factors are made in double precision. Together they take 12 n^2 bytes. Beside
    the weight of an event that counts much r is small: with weights all is in double precision.
    """

    def __init__(self, kernel: Kernel, P: Numbers, Y: Numbers, weights: Weights = None) -> None:
        self.centers, self._roots = P, rooted(weights)
        self._Y = times(Y, self._roots)
        self._K = kernel.pairwise(P, dtype=np.float32 if weights is None else np.float64)
        _weigh(self._K, self._roots)

    def solve(self, ridge: float) -> Numbers:
        """Return the coefficients for a regularization, float64 (n, outputs)."""
        M = self._K.astype(np.float64).T  # symmetric, and in LAPACK's order
        M[np.diag_indices(len(M))] += ridge
        factor = scipy.linalg.cholesky(M, lower=True, overwrite_a=True, check_finite=False)
        return times(_solved(factor, self._Y), self._roots)


class SingleRidge:
    """The coefficients of `ExactRidge`, in single precision throughout: several times as fast."""

    def __init__(self, kernel: Kernel, P: Numbers, Y: Numbers) -> None:
        self.centers, self._Y = P, Y.astype(np.float32)
        Z, edges = P.astype(np.float32), range(0, len(P), PANEL)
        self._panels = [kernel_rows(kernel, Z, at, min(at + PANEL, len(P))) for at in edges]
        self._factor = RidgeFactor(len(P))

    def solve(self, ridge: float) -> Numbers:
        """Return the coefficients for a regularization, float32 (n, outputs)."""
        self._factor.clear()
        for panel in self._panels:
            self._factor.append(panel, 1.0 + ridge)
        return self._factor.solved(self._Y)


class NormalRidge:
    """Coefficients of centers Z by the normal equations of all events.

    See `streamk.learners.eigenpro.direct.NormalEquations`: p^2 multiplications an event,
    a factor of ``K(Z, X) K(X, Z) + r K(Z, Z)`` for each regularization r.
    """

    def __init__(
        self, kernel: Kernel, P: Numbers, Y: Numbers, centers: Numbers, weights: Weights = None
    ) -> None:
        self.centers, self._none = centers, np.zeros(Y.shape[1])
        roots = rooted(weights)
        self._equations = NormalEquations(kernel.pairwise(centers), n_outputs=Y.shape[1])
        for start in range(0, len(P), _ROWS):
            rows = slice(start, start + _ROWS)
            some = of_rows(roots, rows)
            K = kernel.pairwise(P[rows], centers)
            self._equations.add(times(K, some), times(Y[rows], some))

    def solve(self, ridge: float) -> Numbers:
        """Return the coefficients for a regularization, float64 (p, outputs)."""
        return self._equations.solve((ridge,), self._none, keep=0)


def by_eigenvalues(
    kernel: Kernel, P: Numbers, Y: Numbers, ridges: Sequence[float], weights: Weights = None
) -> Numbers:
    """Return those of `ExactRidge` for each regularization, from one eigendecomposition.

    They are float64 (regularizations, n, outputs).
    """
    roots, K = rooted(weights), kernel.pairwise(P)
    _weigh(K, roots)
    values, Q = scipy.linalg.eigh(K, overwrite_a=True, check_finite=False, driver="evd")
    values, rotated = np.maximum(values, 0.0), Q.T @ times(Y, roots)
    return np.stack([times(Q @ (rotated / (values + ridge)[:, None]), roots) for ridge in ridges])


def predicted(kernel: Kernel, P: Numbers, centers: Numbers, A: Numbers) -> Numbers:
    """Return ``k(P, centers) A``, float64 (n, outputs), of mapped points P (n, d)."""
    out = np.empty((len(P), A.shape[1]))
    for start in range(0, len(P), _ROWS):
        rows = slice(start, start + _ROWS)
        out[rows] = kernel.pairwise(P[rows], centers) @ A
    return out


def _weigh(K: Numbers, roots: Weights) -> None:
    """Make ``W^1/2 K W^1/2`` of K (n, n), in its place."""
    if roots is not None:
        K *= roots
        K *= roots[:, None]


def _solved(factor: Numbers, Y: Numbers) -> Numbers:
    half = scipy.linalg.solve_triangular(factor, Y, lower=True, check_finite=False)
    return np.asarray(
        scipy.linalg.solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
    )
