"""Landmarks, and the Nyström approximation of a kernel matrix that they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import linalg

from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.factor import Factor
from streamk.landmarks.matrices import (
    Diffusion,
    Indices,
    KernelMatrix,
    Matrix,
    Numbers,
    as_matrix,
    checked_points,
)
from streamk.landmarks.selection import Selection, lower

_BLOCK = 256
"""Given landmarks that reach the other rows together."""
_ROWS = 4096
"""Rows of the factor that are copied at a time."""


@dataclass(frozen=True)
class Landmarks:
    """Points chosen to span a kernel, and the approximation ``C W^+ C^T = F F^T`` of its matrix.

    C are the landmarks' columns of the matrix G, W their rows among them. Made by `oasis`,
    `nystrom` and the methods of `streamk.landmarks.METHODS`.

    Attributes
    ----------
    matrix : Matrix
        What was approximated.
    indices : int64 array of shape (landmarks,), or None
        Rows of the landmarks, in the order in which they were chosen; None if they are no rows.
    schur : float64 array of shape (rank,)
        Schur complement of each landmark in the factor when it was chosen: the squared distance of
        its column from the span of those before.
    stopped : str
        "count", "tolerance", "time", "rounding" (what was left may be rounding) or "all".
    """

    matrix: Matrix
    indices: Indices | None
    schur: Numbers
    stopped: str
    _factor: Factor
    _rows: tuple[NDArray[Any], ...]
    """Rows of the factor of the landmarks in it, up to the diagonal."""
    _all: Numbers
    """What stands for the landmarks, (landmarks, numbers)."""
    _used: Indices
    """Which of them the factor has."""

    def __len__(self) -> int:
        return len(self._all)

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return self.matrix.n

    @property
    def rank(self) -> int:
        """Columns of the factor: landmarks that are not spanned by those before."""
        return len(self._used)

    @property
    def points(self) -> Numbers | None:
        """The landmarks, (landmarks, d); None where the matrix was given without points."""
        if self.matrix.points is None:
            return None
        return self._all[:, : self.matrix.points.shape[1]]

    @property
    def nbytes(self) -> int:
        """Memory of the factor, in bytes."""
        return self._factor.nbytes + sum(row.nbytes for row in self._rows)

    @property
    def factor(self) -> NDArray[Any]:
        """F, (n, rank)."""
        F: NDArray[Any] = self._factor.F[:, : self.rank]
        return F

    @property
    def residual(self) -> Numbers:
        """Diagonal of ``G - F F^T``, (n,): the squared distance of each row from the span."""
        F = self.factor
        squares: Numbers = np.einsum("ik,ik->i", F, F, dtype=np.float64)
        return np.maximum(self.matrix.diagonal() - squares, 0.0)

    @property
    def L(self) -> Numbers:  # noqa: N802
        """Lower triangular factor of the matrix between the landmarks, (rank, rank)."""
        return lower(self._rows[: self.rank], self.rank, np.dtype(np.float64))

    @cached_property
    def C(self) -> Any:  # noqa: N802 (as the paper writes it)
        """Columns of the matrix at the landmarks, (n, landmarks); sparse where the matrix is."""
        if self.indices is not None:
            return self.matrix.block(slice(None), self.indices)
        assert isinstance(self.matrix, KernelMatrix)
        return self.matrix.kernel.pairwise(self.matrix.points, self._all)

    @cached_property
    def W_inverse(self) -> Numbers:  # noqa: N802
        """Inverse of the matrix between the landmarks, (landmarks, landmarks).

        Where some are redundant it is 0 in their rows and columns, which is a generalised inverse.
        """
        r = self.rank
        inverse = linalg.solve_triangular(self.L, np.eye(r), lower=True)
        W = np.zeros((len(self), len(self)))
        W[np.ix_(self._used, self._used)] = inverse.T @ inverse
        return W

    def first(self, k: int) -> Landmarks:
        """Return the first k landmarks, with the same memory.

        Raises
        ------
        InvalidInput
            If there are not so many.
        """
        if not 0 <= k <= len(self):
            raise InvalidInput(f"k={k!r} must be between 0 and the {len(self)} landmarks")
        used = self._used[self._used < k]
        return replace(
            self,
            indices=None if self.indices is None else self.indices[:k],
            schur=self.schur[: len(used)],
            stopped=self.stopped if k == len(self) else "count",
            _all=self._all[:k],
            _used=used,
        )

    def transform(self, Y: ArrayLike) -> Numbers:
        """Return the Nyström features ``L^-1 k(landmarks, y)``, whose products are the kernel's.

        A row's features have the same bits in whatever batch it comes.

        Parameters
        ----------
        Y : array of shape (m, d)
            Points; of a precomputed matrix, the new rows' entries with the landmarks, (m,
            landmarks).

        Returns
        -------
        float64 array of shape (m, rank)

        Raises
        ------
        InvalidInput
            If `Y` does not fit or a value is not finite.
        """
        rows = self.matrix.new_rows(Y, self._all)
        factor = Factor(rows, self.rank, np.dtype(np.float64), self._factor.threads)
        if self.rank:
            factor.extend(self._all[self._used], self.L, 0)
        return factor.F

    def approximate(self, rows: ArrayLike, columns: ArrayLike) -> NDArray[Any]:
        """Return entries of ``F F^T``; the two are broadcast against each other.

        Examples
        --------
        >>> import numpy as np
        >>> from streamk.kernels import Linear
        >>> from streamk.landmarks import oasis
        >>> found = oasis([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]], Linear(), max_landmarks=2)
        >>> found.approximate([0, 1], [1, 2]).round(12)
        array([1., 2.])
        """
        i, j = np.broadcast_arrays(np.asarray(rows, np.int64), np.asarray(columns, np.int64))
        out, F = np.empty(i.size), self.factor
        i_flat, j_flat = i.reshape(-1), j.reshape(-1)
        for first in range(0, i.size, _ROWS):
            some = slice(first, first + _ROWS)
            out[some] = np.einsum("ik,ik->i", F[i_flat[some]], F[j_flat[some]], dtype=np.float64)
        return out.reshape(i.shape)

    def svd(self, k: int) -> tuple[Numbers, Numbers]:
        """Return the k leading eigenvectors and eigenvalues of ``F F^T``.

        They come from the eigenvectors of ``F^T F``. The paper's estimate in §II-C takes the
        landmarks for a uniform sample, which oASIS's are not.

        Returns
        -------
        float64 array of shape (n, k), orthonormal, and float64 array of shape (k,), descending

        Raises
        ------
        InvalidInput
            If k is not between 1 and `rank`.
        """
        r = self.rank
        if not 1 <= k <= r:
            raise InvalidInput(f"k={k!r} must be between 1 and the {r} columns of the factor")
        F = self.factor
        products = np.zeros((r, r))
        for first in range(0, self.n, _ROWS):
            part = F[first : first + _ROWS].astype(np.float64, copy=False)
            products += part.T @ part
        values, V = linalg.eigh(products, subset_by_index=[r - k, r - 1])
        values, V = values[::-1], V[:, ::-1]
        return F @ (V / np.sqrt(values)), values


def landmarks_of(
    matrix: Matrix,
    selection: Selection,
    *,
    indices: Indices | None,
    stopped: str,
    every: Numbers | None = None,
    used: Indices | None = None,
    factor: Factor | None = None,
) -> Landmarks:
    """Return what a selection has chosen.

    Parameters
    ----------
    matrix : Matrix
    selection : Selection
    indices : int64 array or None
    stopped : str
    every : array, optional
        What stands for all landmarks, where the selection passed over some.
    used : int64 array, optional
        Which of them it took.
    factor : Factor, optional
        Of the matrix's rows, where the selection was made among others.
    """
    selection.flush()
    rank = len(selection)
    if factor is None:
        factor = selection.factor
    factor.trim(rank)
    return Landmarks(
        matrix=matrix,
        indices=indices,
        schur=np.array(selection.schur),
        stopped=stopped,
        _factor=factor,
        _rows=selection.rows,
        _all=selection.landmarks.reshape(rank, -1) if every is None else every,
        _used=np.arange(rank) if used is None else used,
    )


def checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return float32 or float64.

    Raises
    ------
    InvalidInput
        If it is another type.
    """
    found = np.dtype(dtype)
    if found not in (np.float32, np.float64):
        raise InvalidInput(f"dtype={dtype!r} must be float32 or float64")
    return found


def nystrom(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    indices: ArrayLike | None = None,
    points: ArrayLike | None = None,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Nyström approximation of a kernel matrix from given landmarks (Patel et al., §II-C).

    Landmarks that those before them span up to rounding are left out of the factor, which does what
    a pseudo-inverse of W would.

    Parameters
    ----------
    X : array of shape (n, d), or the matrix, see `streamk.landmarks.oasis`
    kernel : Kernel, Diffusion or "precomputed"
    indices : sequence of int, optional
        Rows of `X` that are the landmarks.
    points : array of shape (landmarks, d), optional
        Instead of it: landmarks that need not be among the rows.
    dtype : {"float64", "float32"}
        Of the factor.
    threads : int, optional
        All cores by default. Results do not depend on it.

    Raises
    ------
    InvalidInput
        If an argument cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 50)[:, None]
    >>> found = nystrom(X, Gaussian(bandwidth=0.3), indices=[0, 12, 25, 37, 49, 49])
    >>> len(found), found.rank, bool(found.residual.max() < 1e-2)
    (6, 5, True)
    """
    matrix, real = as_matrix(X, kernel), checked_dtype(dtype)
    if (indices is None) == (points is None):
        raise InvalidInput("nystrom needs indices= or points=, one of them")
    if points is not None:
        return _of_points(matrix, checked_points(points, "points"), real, threads)
    chosen = np.asarray(indices)
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise InvalidInput("indices must be a sequence of row numbers, at least one")
    if chosen.min() < 0 or chosen.max() >= matrix.n:
        raise InvalidInput(
            f"indices are from {chosen.min()} to {chosen.max()}, but X has {matrix.n} rows"
        )
    chosen = chosen.astype(np.int64)
    selection = Selection(matrix.rows(real), len(chosen), real, threads)
    every, used = matrix.landmarks(chosen), []
    for first in range(0, len(chosen), _BLOCK):
        selection.consider(chosen[first : first + _BLOCK])
        for number, i in enumerate(chosen[first : first + _BLOCK].tolist(), first):
            if selection.delta(i) > selection.rounding:
                selection.add(every[number], i)
                used.append(number)
    return landmarks_of(
        matrix,
        selection,
        indices=chosen,
        stopped="count",
        every=every,
        used=np.array(used, np.int64),
    )


def _of_points(
    matrix: Matrix, points: Numbers, dtype: np.dtype[Any], threads: int | None
) -> Landmarks:
    if type(matrix) is not KernelMatrix or matrix.points is None:
        raise InvalidInput("landmarks that are no rows of X need points and a plain kernel")
    if points.shape[1] != matrix.points.shape[1]:
        raise InvalidInput(
            f"points has {points.shape[1]} columns and X {matrix.points.shape[1]}; "
            "they must be the same columns"
        )
    own = KernelMatrix(matrix.kernel, points)
    selection = Selection(own.rows(dtype), len(points), dtype, threads)
    used: list[int] = []
    while len(used) < len(points):
        delta, i = selection.best()
        if delta <= selection.rounding:
            break
        selection.add(points[i], i)
        used.append(i)
    factor = Factor(matrix.rows(dtype), len(used), dtype, threads)
    if used:
        factor.extend(points[used], lower(selection.rows, len(used), dtype), 0)
    return landmarks_of(
        matrix,
        selection,
        indices=None,
        stopped="count",
        every=points,
        used=np.array(used, np.int64),
        factor=factor,
    )
