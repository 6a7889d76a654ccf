"""Systems and eigenvectors of ``W L W^T``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from streamk.errors import InvalidInput
from streamk.factorization.blocks import BlockDiagonal, Links

Numbers = NDArray[np.float64]

METHODS = ("woodbury", "cg", "minres")
_SMALL = 4096
"""Rank up to which a dense solve of it is taken: its time grows with the cube."""
_TOLERANCE = 1e-8
"""Of iterative methods: the residual, relative to the right-hand side."""
_ITERATIONS = 10_000
_SINGULAR = 1e-14
"""Reciprocal condition number of what cannot be solved."""


def solve(
    W: BlockDiagonal,
    L: Links,
    shift: float,
    y: Numbers,
    method: str | None,
    product: Callable[[Numbers], Numbers],
    threads: int | None,
) -> Numbers:
    """Return x with ``(shift I + W L W^T) x = y``, y and x of shape (n, p).

    Parameters
    ----------
    product : callable
        Takes v (n,) to ``(shift I + W L W^T) v``.
    """
    rank = sum(L.ranks)
    if method is None:
        method = "woodbury" if rank <= _SMALL else "minres"
    if method == "woodbury":
        return _woodbury(W, L, shift, y, threads)
    if method == "cg":
        smallest = shift + min(0.0, float(reduced(W, L)[0][0]))
        if smallest <= 0.0:
            raise InvalidInput(
                f"conjugate gradients need a positive definite matrix, and its smallest eigenvalue "
                f"is {smallest:.3g}: solve with psd(), a larger lam or method='minres'"
            )
    solver = sparse.linalg.cg if method == "cg" else sparse.linalg.minres
    A = sparse.linalg.LinearOperator((len(y), len(y)), matvec=product, dtype=np.float64)
    out = np.empty_like(y)
    for j in range(y.shape[1]):
        out[:, j], missed = solver(A, y[:, j], rtol=_TOLERANCE, maxiter=_ITERATIONS)
        if missed:
            raise InvalidInput(
                f"{method} did not converge in {_ITERATIONS} iterations: take a larger lam or "
                "method='woodbury'"
            )
    return out


def _woodbury(W: BlockDiagonal, L: Links, shift: float, y: Numbers, threads: int | None) -> Numbers:
    """Solve by ``(I - W (shift I + L W^T W)^-1 L W^T) / shift``, which takes no inverse of L."""
    A = L.times(linalg.block_diag(*W.gram()))
    A[np.diag_indices_from(A)] += shift
    factor, pivots = linalg.lu_factor(A, check_finite=False)
    norm = np.abs(A).sum(axis=0).max()
    condition, _ = linalg.lapack.dgecon(factor, norm)
    if condition < _SINGULAR:
        raise InvalidInput(
            f"lam I + G is singular to {condition:.1g}, as lam is so small, or the negative of an "
            "eigenvalue: take a larger lam, or psd() before"
        )
    inner = linalg.lu_solve((factor, pivots), L.times(W.down(y, threads)), check_finite=False)
    solved: Numbers = (y - W.up(inner, threads)) / shift
    return solved


def reduced(W: BlockDiagonal, L: Links) -> tuple[Numbers, Numbers]:
    """Return the eigenvalues of ``W L W^T`` beside the zeros, ascending, and U with vectors W U.

    With ``W^T W = R^T R`` they are those of ``R L R^T``.
    """
    roots = [_root(S) for S in W.gram()]
    R = linalg.block_diag(*roots)
    values, vectors = np.linalg.eigh(R @ L.times(np.ascontiguousarray(R.T)))
    return values, linalg.block_diag(*(np.linalg.pinv(root) for root in roots)) @ vectors


def _root(S: Numbers) -> Numbers:
    """Return R with ``R^T R = S``, for an S that may be singular."""
    values, vectors = np.linalg.eigh(S)
    root: Numbers = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return root
