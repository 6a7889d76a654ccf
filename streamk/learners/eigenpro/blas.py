"""Products of matrices by SciPy's BLAS.

NumPy and SciPy each bring an OpenBLAS with threads of its own. After a product those of NumPy wait
actively for a while, and SciPy's factorizations and triangular solves then take twice as long; so
where these alternate with products, all go by SciPy's.
"""

from __future__ import annotations

from typing import Any

import scipy
from numpy.typing import NDArray

Numbers = NDArray[Any]


def product(A: Numbers, B: Numbers) -> Numbers:
    """Return A B, float64.

    Parameters
    ----------
    A : float64 array of shape (n, m)
    B : float64 array of shape (m, k)

    Examples
    --------
    >>> import numpy as np
    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    # BLAS has matrices by columns: A B is the transpose of B' A', and C order becomes its order.
    found: Numbers = scipy.linalg.blas.dgemm(1.0, B.T, A.T).T
    return found


def symmetric_product(S: Numbers, V: Numbers) -> Numbers:
    """Return S V, where S is symmetric and its lower triangle alone is read.

    Parameters
    ----------
    S : float64 array of shape (n, n)
        In columns (Fortran order).
    V : float64 array of shape (n, k)
    """
    # From the right: from the left OpenBLAS takes 60 times as long by a few columns.
    found: Numbers = scipy.linalg.blas.dsymm(1.0, S, V.T, side=1, lower=1).T
    return found


def largest_eigenvalue(S: Numbers) -> float:
    """Return the largest eigenvalue of a symmetric matrix (n, n)."""
    last = (len(S) - 1, len(S) - 1)
    values = scipy.linalg.eigvalsh(S, subset_by_index=last, check_finite=False)
    return float(values[-1])
