"""What a careful user would write without streamk, from a start to the same landmarks.

`in_place` is the paper's update (equations 5 and 6) as BLAS does it in place: columns of C and of
R' lie one after the other in arrays of Fortran's order, so that the leading ones are an array that
dgemv and dger take as it is, and nothing is copied. A step reads C for q'C', reads and writes R',
and reads both for the column sums. `running` is the same without those sums: Algorithm 1 takes
them anew at each step, but equation 6 says that they change by s (q'C' - c')^2, so this is the
paper's update improved by what pivoted Cholesky knows.

`cholesky` is the pivoted Cholesky factorization as one writes it in NumPy: a product with the
factor so far, a division, a subtraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemv, dger

Matrix = NDArray[np.float64]
Column = Callable[[int], Matrix]
"""The column of an index, anew at each call."""


class Updated(NamedTuple):
    """What the paper's algorithm keeps."""

    indices: list[int]
    C: Matrix
    W_inverse: Matrix
    R: Matrix
    """Transposed, as C is: (n, l)."""


def in_place(
    column: Column, diagonal: Matrix, count: int, start: int, *, running: bool = False
) -> Updated:
    """Algorithm 1 from one starting column.

    `running` keeps the Schur complements instead of summing up C and R for them at each step.
    """
    n = len(diagonal)
    C, R = np.zeros((n, count), order="F"), np.zeros((n, count), order="F")
    W, q = np.zeros((count, count), order="F"), np.zeros(count)
    delta, indices, i = diagonal.copy(), list[int](), start
    schur = float(diagonal[start])
    for k in range(count):
        C[:, k] = column(i)
        q[:k], q[k] = R[i, :k], -1.0
        # (C q - c), by one product: q ends in -1 and C in c.
        rest = dgemv(1.0, C[:, : k + 1], q[: k + 1])
        # Equation 6, and with q ending in -1 its last row too; equation 5 likewise.
        dger(1.0 / schur, rest, q[: k + 1], a=R[:, : k + 1], overwrite_a=1, overwrite_x=0)
        dger(1.0 / schur, q, q, a=W, overwrite_a=1, overwrite_x=0, overwrite_y=0)
        indices.append(i)
        if running:
            rest *= rest
            rest /= schur
            delta -= rest
        else:
            np.einsum("ij,ij->i", C[:, : k + 1], R[:, : k + 1], out=delta)
            np.subtract(diagonal, delta, out=delta)
        i, schur = _largest(delta, indices)
    return Updated(indices, C, W, R)


def cholesky(
    column: Column, diagonal: Matrix, count: int, start: int, dtype: Any = np.float64
) -> tuple[list[int], Matrix]:
    """Pivoted Cholesky: the indices, and the factor's rows (l, n)."""
    F = np.empty((count, len(diagonal)), dtype)
    delta, indices, i = diagonal.astype(dtype), list[int](), start
    for k in range(count):
        f = F[k]
        np.matmul(F[:k, i], F[:k], out=f)
        np.subtract(column(i), f, out=f)
        f /= np.sqrt(delta[i])
        delta -= f * f
        indices.append(i)
        i = _largest(delta, indices)[0]
    return indices, F


def _largest(delta: Matrix, taken: list[int]) -> tuple[int, float]:
    """The largest |delta| of what is not taken, the lowest index in a tie."""
    delta[taken] = 0.0
    i = int(np.abs(delta).argmax())
    return i, float(delta[i])
