"""Block kernel approximation: the kernel within clusters, and nothing between them (§4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from streamk.errors import InvalidInput, shown
from streamk.factorization.checks import check_size, checked_kernel, columns_of, indices_of
from streamk.factorization.clusters import ClusteredMatrix, Labels, by_cluster, clustered
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Indices, Numbers, checked_points
from streamk.options import Real

_PAIRS = 256
"""Pairs of points whose kernels are evaluated together, with those between all of the points."""
_ENTRIES = 1 << 22
"""Entries of rows of the matrix that are held at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class BlockKernel(ClusteredMatrix):
    """The block diagonal matrix of a kernel within clusters of points, made by `block_kernel`.

    It is positive definite as the kernel is. Blocks are evaluated when they are needed, and none is
    kept: at a time the memory is that of the points and of at most one block.

    Attributes
    ----------
    points : float64 array of shape (n, d)
    kernel : Kernel
    clusters : Clusters
    """

    def __repr__(self) -> str:
        return f"<kernel of {self.n} points in {self.n_clusters} blocks>"

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, 8 an entry, by which the paper compares; they are not kept here."""
        return sum(8 * len(rows) ** 2 for rows in self.clusters.rows)

    def block(self, s: int) -> Numbers:
        """Return the kernel between the points of cluster s.

        Raises `InvalidInput` if it took more than 4 GiB, which 23,170 points do.
        """
        return _block(self.points, self.kernel, self.rows(s))

    def matvec(self, v: ArrayLike) -> Numbers:
        """Return the matrix times v, (n,) or (n, p), float64, without forming a block."""
        V = columns_of(v, self.n, "v")
        return self._product(self.points, self.labels, V)

    __matmul__ = matvec

    def approximate(self, rows: ArrayLike, columns: ArrayLike) -> Numbers:
        """Return entries of the matrix; rows and columns are broadcast against each other.

        Examples
        --------
        >>> from streamk.factorization import block_kernel
        >>> from streamk.kernels import Gaussian
        >>> blocks = block_kernel([[0.0], [1.0], [9.0]], Gaussian(gamma=0.5), n_clusters=2)
        >>> blocks.approximate([[0], [2]], [0, 1, 2]).round(4)
        array([[1.    , 0.6065, 0.    ],
               [0.    , 0.    , 1.    ]])
        """
        i, j = np.broadcast_arrays(indices_of(rows), indices_of(columns))
        shape, out = i.shape, np.zeros(i.size)
        i, j = i.reshape(-1), j.reshape(-1)
        together = np.flatnonzero(self.labels[i] == self.labels[j])
        for first in range(0, len(together), _PAIRS):
            some = together[first : first + _PAIRS]
            a, at_a = np.unique(i[some], return_inverse=True)
            b, at_b = np.unique(j[some], return_inverse=True)
            out[some] = self.kernel.pairwise(self.points[a], self.points[b])[at_a, at_b]
        return out.reshape(shape)

    def error(self, n_rows: int = 1_000, seed: int = 0) -> float:
        """Return the error over rows drawn at random, in the Frobenius norm and relative to it.

        They are all rows if there are no more.
        """
        chosen = np.sort(self._drawn(n_rows, seed))
        within = between = 0.0
        step = max(1, _ENTRIES // self.n)
        for first in range(0, len(chosen), step):
            some = chosen[first : first + step]
            squares = self.kernel.pairwise(self.points[some], self.points) ** 2
            together = self.labels[some][:, None] == self.labels
            within += float(squares[together].sum())
            between += float(squares[~together].sum())
        return float(np.sqrt(between / (within + between)))

    def solve(self, lam: float, y: ArrayLike) -> Numbers:
        """Return the solution of ``(lam I + matrix) alpha = y``, block by block by Cholesky.

        That is kernel ridge regression in each cluster by itself, of which `predict` predicts.

        Parameters
        ----------
        lam : float
            Not negative.
        y : array of shape (n,) or (n, p)

        Returns
        -------
        float64 array of the shape of `y`

        Raises
        ------
        InvalidInput
            If an argument cannot be used, a block took more than 4 GiB, or one is singular up to
            rounding for `lam`.

        Examples
        --------
        >>> import numpy as np
        >>> from streamk.factorization import block_kernel
        >>> from streamk.kernels import Gaussian
        >>> X = np.linspace(0.0, 6.0, 300)[:, None]
        >>> blocks = block_kernel(X, Gaussian(bandwidth=0.5), n_clusters=5)
        >>> alpha = blocks.solve(1e-3, np.sin(X[:, 0]))
        >>> bool(np.abs(blocks.predict([[1.0], [2.5]], alpha) - np.sin([1.0, 2.5])).max() < 1e-2)
        True
        """
        return solve_blocks(self.points, self.kernel, self.clusters.rows, lam, y)

    def predict(self, Y: ArrayLike, alpha: ArrayLike) -> Numbers:
        """Return the approximate kernel between new points Y (m, d) and these, times alpha.

        A new point belongs to the cluster with the nearest centre, and its kernel with the points
        of all others counts as 0. With alpha (n,) or (n, p) predictions are float64, (m,) or (m,
        p), each the same in whatever batch it comes.
        """
        A, new = columns_of(alpha, self.n, "alpha"), checked_points(Y, "Y", least=0)
        return self._product(new, self.clusters.nearest(new), A)

    def _product(self, new: Numbers, labels: Labels, A: Numbers) -> Numbers:
        """Return the approximate kernel of points in those clusters, times A."""
        out, threads = np.empty((len(new), *A.shape[1:])), self.clusters.threads
        for s, some in by_cluster(labels):
            rows = self.rows(s)
            out[some] = self.kernel.product(new[some], self.points[rows], A[rows], threads=threads)
        return out


def block_kernel(
    X: ArrayLike, kernel: Kernel, *, n_clusters: int, seed: int = 0, threads: int | None = None
) -> BlockKernel:
    """Approximate a kernel matrix by its blocks within clusters of points (Si et al., §4.1).

    Of all divisions into so many clusters, those of k-means nearly maximise what the blocks hold of
    a shift-invariant kernel. It is close where the bandwidth is small to the distances between
    clusters.

    Parameters
    ----------
    X : array of shape (n, d)
    kernel : Kernel
        A shift-invariant one, as all but NTK and Linear are.
    n_clusters : int
        Most clusters, see `streamk.factorization.clusters.clustered`. Blocks of n/c points each
        have n^2/c entries together.
    seed : int, default 0
    threads : int, optional
        All cores by default. Results do not depend on it.

    Returns
    -------
    BlockKernel

    Raises
    ------
    InvalidInput
        If an argument cannot be used.
    BackendUnavailable
        If scikit-learn is not installed, by which clusters are found.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.factorization import block_kernel
    >>> from streamk.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(size=(1_000, 2))
    >>> for bandwidth in (0.5, 0.1, 0.01):
    ...     print(f"{block_kernel(X, Gaussian(bandwidth=bandwidth), n_clusters=10).error():.1f}")
    0.9
    0.5
    0.0
    """
    allowed, points = checked_kernel(kernel), checked_points(X, "X")
    return BlockKernel(allowed, points, clustered(points, n_clusters, seed=seed, threads=threads))


def solve_blocks(
    points: Numbers, kernel: Kernel, parts: Sequence[Indices], lam: float, y: ArrayLike
) -> Numbers:
    """Return the solution of ``(lam I + K) alpha = y`` within each part of the points."""
    Real().check("lam", lam)
    alpha = np.empty_like(Y := columns_of(y, len(points), "y"))
    for rows in parts:
        K = _block(points, kernel, rows).T  # symmetric, and in the order of LAPACK without a copy
        np.fill_diagonal(K, K.diagonal() + lam)
        try:
            factor = scipy.linalg.cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            raise InvalidInput(
                f"the kernel of the {len(rows)} points of one part, with lam={shown(lam)} on its "
                "diagonal, is singular up to rounding; use a larger lam"
            ) from None
        alpha[rows] = scipy.linalg.cho_solve(factor, Y[rows], check_finite=False)
    return alpha


def _block(points: Numbers, kernel: Kernel, rows: Indices) -> Numbers:
    check_size(len(rows))
    return kernel.pairwise(points[rows])
