"""Landmarks, and the Nyström approximation of a kernel matrix that they make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.errors import InvalidInput, shown
from streamk.kernels import Kernel
from streamk.kernels.base import check_dtype
from streamk.landmarks.matrices import (
    Diffusion,
    GivenMatrix,
    Indices,
    KernelMatrix,
    KernelRows,
    Matrix,
    Numbers,
    as_matrix,
    checked_points,
)
from streamk.landmarks.selection import Factor, Selection, check_count, check_range, lower
from streamk.options import Choice, Option, Whole, documented

_ROWS = 4096
"""Rows of the factor that are copied at a time."""

GIVEN = {
    "X": Option(
        type="array of shape (n, d), or the matrix (n, n)",
        doc='Points, or with ``kernel="precomputed"`` a symmetric positive semidefinite matrix: an '
        "array, or a SciPy sparse matrix, which stays sparse.",
    ),
    "kernel": Option(type='Kernel, Diffusion or "precomputed"'),
    "max_landmarks": Whole(
        doc="Most landmarks; fewer are taken of fewer rows, or where what is left may be nothing "
        "but rounding. Those that are combinations of earlier ones are left out of the factor."
    ),
    "seed": Whole(least=0, doc="Of all that is drawn."),
    "dtype": Choice(
        choices=("float64", "float32"),
        doc="Of the factor, which takes the memory: n max_landmarks numbers.",
    ),
    "threads": Whole(doc="All cores by default. Results do not depend on it, bit for bit."),
}
"""Parameters of all methods."""


@dataclass(frozen=True, eq=False, repr=False)
class Landmarks:
    """Points chosen to span a kernel, and the approximation ``C W^+ C^T = F F^T`` of its matrix.

    C are the landmarks' columns of the matrix G, W their rows among them. Made by `oasis`,
    `nystrom` and the methods of `streamk.landmarks.METHODS`.

    Attributes
    ----------
    matrix : Matrix
        What was approximated.
    indices : int64 array of shape (landmarks,), or None
        Rows of the landmarks, in the order in which they were chosen; None if they are not rows.
    schur : float64 array of shape (rank,)
        Schur complement of each landmark in the factor when it was chosen: the squared distance of
        its column from the span of those before.
    stopped : str
        "count", "tolerance", "rounding" (what was left may be rounding) or "all".
    used : int64 array of shape (rank,)
        Positions of the landmarks that the factor has, one for each of its columns.
    """

    matrix: Matrix
    indices: Indices | None
    schur: Numbers
    stopped: str
    used: Indices
    _factor: Factor
    _rows: tuple[NDArray[Any], ...]
    """Rows of the factor of the landmarks in it, up to the diagonal."""
    _all: Numbers
    """The vectors of the landmarks, (landmarks, numbers)."""

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"<{len(self)} landmarks of {self.n} rows, rank {self.rank}, {self.stopped!r}>"

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return self.matrix.n

    @property
    def rank(self) -> int:
        """Columns of the factor: landmarks that are not spanned by those before."""
        return len(self.used)

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
        return np.asarray(self._factor.F[:, : self.rank])

    @property
    def residual(self) -> Numbers:
        """Diagonal of ``G - F F^T``, (n,): the squared distance of each row from the span."""
        F = self.factor
        squares: Numbers = np.einsum("ik,ik->i", F, F, dtype=np.float64)
        return np.maximum(self.matrix.diagonal() - squares, 0.0)

    @property
    def L(self) -> Numbers:  # noqa: N802
        """Lower triangular factor of the matrix between the landmarks, (rank, rank)."""
        r = self.rank
        return lower(self._rows[:r], r, np.dtype(np.float64))[:, :r]

    @cached_property
    def C(self) -> Any:  # noqa: N802 (as the paper writes it)
        """Columns of the matrix at the landmarks, (n, landmarks); sparse where the matrix is."""
        if self.indices is not None:
            return self.matrix.block(slice(None), self.indices)
        assert isinstance(self.matrix, KernelMatrix)
        return self.matrix.columns(self._all)

    @cached_property
    def W_inverse(self) -> Numbers:  # noqa: N802
        """Inverse of the matrix between the landmarks, (landmarks, landmarks).

        Where some are redundant it is 0 in their rows and columns, which is a generalised inverse.
        """
        r = self.rank
        inverse = scipy.linalg.solve_triangular(self.L, np.eye(r), lower=True)
        W = np.zeros((len(self), len(self)))
        W[np.ix_(self.used, self.used)] = inverse.T @ inverse
        return W

    def first(self, k: int) -> Landmarks:
        """Return the first k landmarks, with the same memory where the factor is in their order.

        Raises `InvalidInput` if there are not so many.
        """
        check_count("k", k, least=0)
        if k > len(self):
            raise InvalidInput(f"k={shown(k)} must be between 0 and the {len(self)} landmarks")
        stopped = self.stopped if k == len(self) else "count"
        indices, every = None if self.indices is None else self.indices[:k], self._all[:k]
        if not np.array_equal(self.used, np.arange(len(self))):
            dtype, threads = self._factor.F.dtype, self._factor.threads
            if indices is not None:
                return of_rows(self.matrix, indices, dtype, threads, stopped)
            assert self.points is not None
            return of_points(self.matrix, self.points[:k], dtype, threads, stopped)
        return replace(
            self,
            indices=indices,
            schur=self.schur[:k],
            stopped=stopped,
            _all=every,
            used=self.used[:k],
        )

    def compact(self) -> Landmarks:
        """Return the landmarks that the factor has, for the matrix between themselves.

        That is what `transform` needs, without the n rows of the factor. Raises `InvalidInput` of a
        diffusion kernel, whose entries depend on all rows.

        Examples
        --------
        >>> import numpy as np
        >>> from streamk.kernels import Gaussian
        >>> from streamk.landmarks import oasis
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> found = oasis(X, Gaussian(), max_landmarks=20)
        >>> small = found.compact()
        >>> small.n, bool(np.array_equal(small.transform(X), found.transform(X)))
        (20, True)
        """
        among, every = np.arange(self.rank), self._all[self.used]
        if isinstance(self.matrix, GivenMatrix):
            numbers = every[:, 0].astype(np.int64)
            matrix: Matrix = GivenMatrix(self.matrix.block(numbers, numbers))
            every = matrix.landmarks(among)
        elif type(self.matrix) is KernelMatrix:
            matrix = KernelMatrix(self.matrix.kernel, every)
        else:
            raise InvalidInput("the landmarks of a diffusion kernel need all other rows")
        L = lower(self._rows[: self.rank], self.rank, self._factor.F.dtype)
        factor = Factor(matrix.rows(L.dtype), self.rank, L.dtype, self._factor.threads)
        factor.extend(every, L, 0)
        return replace(self, matrix=matrix, indices=among, _factor=factor, _all=every, used=among)

    def transform(self, Y: ArrayLike) -> Numbers:
        """Return the Nyström features ``L^-1 k(landmarks, y)``, whose products give the kernel.

        Of points Y (m, d) they are float64 (m, rank); of a precomputed matrix, Y has the new rows'
        entries with the landmarks, (m, landmarks). A row's have the same bits in whatever batch it
        comes. Raises `InvalidInput` if `Y` does not fit or a value is not finite.
        """
        rows = self.matrix.new_rows(Y, self._all)
        factor = Factor(rows, self.rank, np.dtype(np.float64), self._factor.threads)
        L = lower(self._rows[: self.rank], self.rank, factor.F.dtype)
        factor.extend(self._all[self.used], L, 0)
        return np.asarray(factor.F[:, : self.rank])

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
        i, j = np.broadcast_arrays(rows, columns)
        out, F = np.empty(i.size), self.factor
        i_flat, j_flat = i.reshape(-1), j.reshape(-1)
        for first in range(0, i.size, _ROWS):
            some = slice(first, first + _ROWS)
            out[some] = np.einsum("ik,ik->i", F[i_flat[some]], F[j_flat[some]], dtype=np.float64)
        return out.reshape(i.shape)

    def svd(self, k: int) -> tuple[Numbers, Numbers]:
        """Return the k leading eigenvectors (n, k) of ``F F^T``, and eigenvalues, descending.

        They are the left singular vectors and the squared singular values of F. Those of
        ``F^T F`` would lose half of the digits, and the last vectors would be orthogonal no more.
        The paper's estimate in §II-C takes the landmarks for a uniform sample, which oASIS's are
        not. Raises `InvalidInput` if k is not between 1 and `rank`.
        """
        r = self.rank
        check_count("k", k)
        if k > r:
            raise InvalidInput(f"k={shown(k)} must be between 1 and the {r} columns of the factor")
        F, R = self.factor, np.zeros((0, r))
        step = max(_ROWS, 2 * r)
        parts = [slice(first, first + step) for first in range(0, self.n, step)]
        for some in parts:
            (R,) = scipy.linalg.qr(np.vstack([R, F[some]]), mode="r", overwrite_a=True)
            R = R[:r]
        _, values, V = np.linalg.svd(R)
        turned, U = V[:k].T / values[:k], np.empty((self.n, k))
        for some in parts:
            U[some] = F[some] @ turned
        return U, values[:k] ** 2


def landmarks_of(matrix: Matrix, selection: Selection, indices: Indices, stopped: str) -> Landmarks:
    """Return the landmarks of a selection among the rows of a matrix, in the order chosen."""
    selection.flush()
    rank = len(selection)
    selection.factor.trim(rank)
    # Those that the selection has were checked when it got them.
    every = selection.landmarks if rank else matrix.landmarks(indices)
    return Landmarks(
        matrix=matrix,
        indices=indices,
        schur=np.array(selection.schur),
        stopped=stopped,
        _factor=selection.factor,
        _rows=selection.rows,
        _all=every,
        used=np.arange(rank),
    )


def begun(
    X: Any, kernel: Kernel | Diffusion | str, max_landmarks: int, seed: int, dtype: DTypeLike
) -> tuple[Matrix, np.dtype[Any], np.random.Generator]:
    """Check the arguments common to all methods; return matrix, factor's type and generator."""
    check_count("max_landmarks", max_landmarks)
    check_count("seed", seed, least=0)
    random = np.random.Generator(np.random.Philox(seed))
    return as_matrix(X, kernel), check_dtype(dtype), random


@documented(
    GIVEN
    | {
        "indices": Option(type="sequence of int", doc="Rows of `X` that are the landmarks."),
        "points": Option(
            type="array of shape (landmarks, d)",
            doc="Instead of it: landmarks that need not be among the rows.",
        ),
    }
)
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
    matrix, real = as_matrix(X, kernel), check_dtype(dtype)
    if (indices is None) == (points is None):
        raise InvalidInput("nystrom needs either indices= or points=")
    if points is not None:
        return of_points(matrix, checked_points(points, "points"), real, threads)
    chosen = np.asarray(indices)
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise InvalidInput("indices must be a sequence of row numbers, at least one")
    if chosen.min() < 0 or chosen.max() >= matrix.n:
        raise InvalidInput(
            f"indices are from {chosen.min()} to {chosen.max()}, but X has {matrix.n} rows"
        )
    return of_rows(matrix, chosen.astype(np.int64), real, threads)


def of_rows(
    matrix: Matrix,
    indices: Indices,
    dtype: np.dtype[Any],
    threads: int | None,
    stopped: str = "count",
) -> Landmarks:
    """Return the approximation from rows of the matrix, without the redundant ones."""
    own, every = matrix.rows(dtype).take(indices), matrix.landmarks(indices)
    return _spanned(matrix, own, every, dtype, threads, indices=indices, stopped=stopped)


def of_points(
    matrix: Matrix,
    points: Numbers,
    dtype: np.dtype[Any],
    threads: int | None,
    stopped: str = "count",
) -> Landmarks:
    """Return the approximation from points that need not be rows of the matrix."""
    if not isinstance(matrix, KernelMatrix):
        raise InvalidInput(
            "landmarks outside X need points, which a precomputed matrix does not have: pass X of "
            "shape (n, d) and a kernel, or indices"
        )
    if points.shape[1] != matrix.points.shape[1]:
        raise InvalidInput(
            f"points has {points.shape[1]} columns and X {matrix.points.shape[1]}; "
            "they must be the same columns"
        )
    among = matrix.among(points)
    own, every = among.rows(dtype), among.landmarks(np.arange(len(points)))
    return _spanned(matrix, own, every, dtype, threads, indices=None, stopped=stopped)


def _spanned(
    matrix: Matrix,
    own: KernelRows,
    every: Numbers,
    dtype: np.dtype[Any],
    threads: int | None,
    *,
    indices: Indices | None,
    stopped: str,
) -> Landmarks:
    """Return the approximation from landmarks, whose own rows of the matrix are given.

    They enter the factor in the order of a greedy choice among them: in another, what rounding left
    of a landmark that is nearly spanned would be divided by its small pivot, and grow.
    """
    check_range(float(matrix.diagonal().max()), dtype)
    selection = Selection(own, len(own), dtype, threads)
    used: list[int] = []
    while len(used) < len(own):
        delta, _ = selection.best()
        if delta <= selection.rounding:
            break
        used += selection.take(every.__getitem__, len(own) - len(used), 0.0)
    factor = Factor(matrix.rows(dtype), len(used), dtype, threads)
    factor.extend(every[used], lower(selection.rows, len(used), dtype), 0)
    selection.flush()
    factor.check(selection.rows)
    return Landmarks(
        matrix=matrix,
        indices=indices,
        schur=np.array(selection.schur),
        stopped=stopped,
        _factor=factor,
        _rows=selection.rows,
        _all=every,
        used=np.array(used, np.int64),
    )
