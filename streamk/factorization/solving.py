"""Systems and eigenvectors of ``W L W^T``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from streamk.errors import InvalidInput
from streamk.factorization.blocks import BlockDiagonal, LinkMatrix, WeightedRows
from streamk.factorization.checks import weights_of
from streamk.landmarks.matrices import Numbers

METHODS = ("woodbury", "cg", "minres")
_SMALL = 8192
"""Rank up to which a dense solve of it is taken: a matrix of 512 MB."""
_WANTED, _ENOUGH = 1e-8, 1e-5
"""Residuals, relative to the right-hand side, to stop at and to put up with at the end."""
_STEADY = 1e-14
"""At which MINRES stops: its measure is relative to the norm of the matrix times that of the
solution, which for a small lam is far above that of the right-hand side."""
_ROUNDS = 10
"""Of solving for the residual of what was found, which iterative methods judge in another norm."""
_ITERATIONS = 10_000
_UNSEEN = 1e-8
"""Part of a random vector that an eigenvector is not expected to be below: of a rank r it is with a
chance of 1e-8 times the root of r."""
_SINGULAR = 1e-15
"""Reciprocal condition number of what cannot be solved."""


class Unsolvable(InvalidInput):
    """A system that is singular, or not definite where it must be."""


Solver = Callable[[Numbers], Numbers]
Bases = BlockDiagonal | WeightedRows


def weighted(
    W: BlockDiagonal, lam: float, shift: float, weights: ArrayLike | None
) -> tuple[Bases, float, Numbers]:
    """Return V, mu and the diagonal of D, (n, 1), that make of weights a system without them.

    ``(lam diag(weights)^-1 + shift I + W L W^T) x = y`` where x is D times what solves
    ``(mu I + V L V^T) z = D y``, with V = D W. The largest element of D is 1, so that all weights
    alike come to another lam.
    """
    if weights is None:
        return W, lam + shift, np.ones((1, 1))
    found = weights_of(weights, sum(W.sizes), "weights")
    found = found / (1.0 + shift / lam * found)  # a shift is noise of each point alike
    largest = float(found.max())
    roots = np.sqrt(found / largest)[:, None]
    return WeightedRows(W, roots), lam / largest, roots


def times(W: Bases, L: LinkMatrix, shift: float, V: Numbers, threads: int | None) -> Numbers:
    """Return ``(shift I + W L W^T) V``, for V (n,) or (n, p)."""
    inner = L.times(W.down(np.ascontiguousarray(V), threads))
    found = W.up(inner, threads)
    if shift:
        found += shift * V
    return found


def solve(
    W: Bases, L: LinkMatrix, shift: float, y: Numbers, method: str | None, threads: int | None
) -> Numbers:
    """Return x with ``(shift I + W L W^T) x = y``, y and x of shape (n, p)."""

    def product(V: Numbers) -> Numbers:
        return times(W, L, shift, V, threads)

    if method is None:
        method = "woodbury" if sum(L.ranks) <= _SMALL else "minres"
    if method == "woodbury":
        solver = _woodbury(W, L, shift, threads)
    else:
        if method == "cg" and not definite(W, L, shift):
            raise Unsolvable(
                "conjugate gradients need a positive definite matrix, and lam I + G does not seem "
                "to be one; method='minres' works without"
            )
        solver = _iterative(method, product)
    # By a power of 2, so that squares of numbers of any size are sound, and no digit changes.
    exponents = np.frexp(np.abs(y).max(axis=0, initial=0.0))[1]
    y = np.ldexp(y, -exponents)
    sizes = np.sqrt(np.einsum("np,np->p", y, y))
    sizes[sizes == 0.0] = 1.0
    x, best, missing = np.zeros_like(y), np.inf, y
    for _ in range(_ROUNDS):
        with np.errstate(over="ignore", invalid="ignore"):
            found = x + solver(missing)
            missed = y - product(found)
            residual = float(
                np.max(np.sqrt(np.einsum("np,np->p", missed, missed)) / sizes, initial=0.0)
            )
        if not residual < best:
            break
        x, best, missing = found, residual, missed
        if best <= _WANTED:
            break
    if not best <= _ENOUGH:
        raise Unsolvable(f"lam I + G seems singular: {method} leaves a residual of {best:.1g} of y")
    return np.asarray(np.ldexp(x, exponents))


def _iterative(method: str, product: Callable[[Numbers], Numbers]) -> Solver:
    """Return what solves for each column by conjugate gradients or MINRES, as far as they go."""
    iterate, least = scipy.sparse.linalg.cg, _WANTED
    if method == "minres":
        iterate, least = scipy.sparse.linalg.minres, _STEADY

    def solver(y: Numbers) -> Numbers:
        A = scipy.sparse.linalg.LinearOperator((len(y), len(y)), matvec=product, dtype=np.float64)
        x = np.empty_like(y)
        for j, b in enumerate(y.T):
            x[:, j], _ = iterate(A, b, rtol=least, maxiter=_ITERATIONS)
        return x

    return solver


def _woodbury(W: Bases, L: LinkMatrix, shift: float, threads: int | None) -> Solver:
    """Return what solves by ``(I - W (shift I + L W^T W)^-1 L W^T) / shift``.

    Unlike the form in §7.3 it takes no inverse of L.
    """
    grams = W.gram()
    A = L.dense(lambda _s, block, t: block @ grams[t])
    A[np.diag_indices_from(A)] += shift
    factor, pivots = scipy.linalg.lu_factor(A, check_finite=False)
    condition, _ = scipy.linalg.lapack.dgecon(factor, np.abs(A).sum(axis=0).max())
    if condition < _SINGULAR:
        raise Unsolvable(
            f"lam I + G is singular up to {condition:.1g}: lam is too small, or the negative of "
            "an eigenvalue"
        )

    def solver(y: Numbers) -> Numbers:
        down = L.times(W.down(y, threads))
        inner = scipy.linalg.lu_solve((factor, pivots), down, check_finite=False)
        return np.asarray((y - W.up(inner, threads)) / shift)

    return solver


def definite(W: Bases, L: LinkMatrix, shift: float) -> bool:
    """Return whether ``shift I + W L W^T`` is positive definite, for a positive shift."""
    if sum(L.ranks) > _SMALL:
        return _curves_up(W, L, shift)
    _, inner = _inner(W, L)
    inner[np.diag_indices_from(inner)] += shift
    try:
        scipy.linalg.cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return False
    return True


def _curves_up(W: Bases, L: LinkMatrix, shift: float) -> bool:
    """Return whether conjugate gradients find ``shift I + W L W^T`` positive definite.

    They have come down without negative curvature: then their residual is a polynomial of the
    matrix times b, which is 1 at 0 and has positive roots alone, so at least 1 at an eigenvalue
    that is not positive. What b has of its eigenvector is therefore no more than the residual.
    """
    roots, edges = [_root(S) for S in W.gram()], np.cumsum(L.ranks)[:-1]

    def product(v: Numbers) -> Numbers:
        down = [R.T @ part for R, part in zip(roots, np.split(v, edges), strict=True)]
        inner = np.split(L.times(np.concatenate(down)), edges)
        up = [R @ part for R, part in zip(roots, inner, strict=True)]
        return shift * v + np.concatenate(up)

    missing = np.random.Generator(np.random.Philox(0)).normal(size=sum(L.ranks))
    direction, square = missing.copy(), float(missing @ missing)
    enough = _UNSEEN**2 * square
    for _ in range(_ITERATIONS):
        image = product(direction)
        curvature = float(direction @ image)
        if not curvature > 0.0:
            return False
        missing -= square / curvature * image
        before, square = square, float(missing @ missing)
        if square <= enough:
            return True
        direction *= square / before
        direction += missing
    return False


def reduced(W: BlockDiagonal, L: LinkMatrix) -> tuple[Numbers, Numbers]:
    """Return the eigenvalues of ``W L W^T`` beside the zeros, ascending, and U with vectors W U.

    With ``W^T W = R^T R`` they are those of ``R L R^T``.
    """
    roots, inner = _inner(W, L)
    values, vectors = np.linalg.eigh(inner)
    return values, scipy.linalg.block_diag(*(np.linalg.pinv(root) for root in roots)) @ vectors


def _inner(W: Bases, L: LinkMatrix) -> tuple[list[Numbers], Numbers]:
    """Return each R(s) and R L R^T."""
    roots = [_root(S) for S in W.gram()]
    return roots, L.dense(lambda s, block, t: roots[s] @ block @ roots[t].T)


def _root(S: Numbers) -> Numbers:
    """Return R with ``R^T R = S``, for an S that may be singular."""
    values, vectors = np.linalg.eigh(S)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
