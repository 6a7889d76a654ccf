"""Landmarks that lower the error of the approximation most: Farahat, Ghodsi, Kamel (2011).

"A novel greedy algorithm for Nyström approximation", in its recursive form. With E the residual
``G - F F^T``, column i lowers ``|E|^2`` (Frobenius) in proportion to ``f_i / g_i``, where
``f_i = |E_i|^2`` and ``g_i = E_ii``. When the column ``w = E_p / sqrt(E_pp)`` joins the factor,

    f_i <- f_i - 2 w_i (E w)_i + |w|^2 w_i^2,    g_i <- g_i - w_i^2,    E w = G w - F (F^T w):

a product of G with a vector for each column, instead of a new residual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamk.kernels import Kernel
from streamk.landmarks.baselines import full
from streamk.landmarks.matrices import Diffusion, Numbers
from streamk.landmarks.nystrom import Landmarks, begun, of_rows

_FADED = 1e-6
"""Share of what they were at which the differences `f` are computed anew."""
_EQUAL = 1e-9
"""Difference of gains that may be rounding. In a residual of rank 1 all gains are equal, and a
column of a small pivot would spoil what is left."""
_TILE = 256
"""Rows of the residual that are formed at a time."""


def farahat(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Take one column after the other, each the one that lowers the Frobenius norm most.

    It takes O(n^2) time for each and a matrix of at most 4 GiB, 23,170 rows: for comparisons, and
    where few landmarks are worth much time. Of equal gains the largest Schur complement counts, of
    these the first row's.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix (n, n)
    kernel : Kernel, Diffusion or "precomputed"
        As in `streamk.landmarks.oasis`.
    max_landmarks : int
        It stops earlier where what is left is nothing but rounding.
    dtype : {float64, float32}, default float64
        Of the factor.
    threads : int, optional
        All cores by default.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or the matrix took more than 4 GiB.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.oasis.farahat import farahat
    >>> farahat(np.diag([3.0, 9.0, 1.0]), "precomputed", max_landmarks=2).indices.tolist()
    [1, 0]
    """
    matrix, real, _ = begun(X, kernel, max_landmarks, 0, dtype)
    most = min(max_landmarks, matrix.n)
    greedy = _Greedy(full(matrix, "farahat"), most)
    stopped = "count" if most == max_landmarks else "all"
    while len(greedy.indices) < most:
        if not greedy.step():
            stopped = "rounding"
            break
    return of_rows(matrix, np.array(greedy.indices, np.int64), real, threads, stopped)


class _Greedy:
    """The columns chosen so far, and what each other one would gain."""

    def __init__(self, G: Numbers, most: int) -> None:
        from scipy.linalg.blas import dsymv

        self._multiply: Any = dsymv
        self._G = G
        self._rows = np.empty((most, len(G)))  # of F^T
        self._g = G.diagonal().copy()
        self._unit = 4.0 * float(np.finfo(np.float64).eps) * float(self._g.max())
        self.indices: list[int] = []
        self._renew()

    def step(self) -> bool:
        """Take the best column; return whether there was one to take."""
        done = len(self.indices)
        free = self._g > self._unit * (done + 1)  # the others are nothing but rounding
        if not free.any():
            return False
        if self._f[free].max() < _FADED * self._fresh:
            self._renew()
        p = self._best(free)
        old = self._rows[:done]
        w = (self._G[p] - old[:, p] @ old) / np.sqrt(self._g[p])
        # By symmetry the transpose, which is as BLAS has matrices, is the same matrix.
        change = self._multiply(1.0, self._G.T, w) - (old @ w) @ old
        self._f += w * ((w @ w) * w - 2.0 * change)
        self._g -= w * w
        self._g[p] = 0.0
        self._rows[done] = w
        self.indices.append(p)
        return True

    def _best(self, free: NDArray[np.bool_]) -> int:
        """Return the free column that gains most, of equal gains the largest pivot's."""
        gain = np.divide(self._f, self._g, out=np.full_like(self._g, -np.inf), where=free)
        equal = gain >= (1.0 - _EQUAL) * gain.max()
        return int(np.argmax(np.where(equal, self._g, -np.inf)))

    def _renew(self) -> None:
        """Compute f from the residual itself: the differences have lost too many of its digits."""
        self._f = np.empty(len(self._G))
        old = self._rows[: len(self.indices)]
        for first in range(0, len(self._G), _TILE):
            tile = slice(first, first + _TILE)
            residual = self._G[tile] - old[:, tile].T @ old
            self._f[tile] = np.einsum("ij,ij->i", residual, residual)
        self._fresh = float(self._f.max())
