"""Recursive least squares with forgetting: a linear model that learns in a second-order step."""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.banks.rules import dot
from streamk.backends.numba_backend.experts.compiled import fast

_MOST = 1e2
"""Mean of P's diagonal from which on forgetting does not let it grow."""


@fast
def _begin_anew(phi: Any, P: Any, out: Any) -> None:
    """Make P the identity, and write ``P phi``."""
    for i in range(len(phi)):
        for j in range(len(phi)):
            P[i, j] = P.dtype.type(1.0 if i == j else 0.0)
        out[i] = phi[i]


@fast
def gain(phi: Any, P: Any, forget: Any, out: Any) -> None:
    """Write the gain ``P phi / (forget + phi' P phi)`` and take the event into P.

    P is the inverse of the discounted sum of ``phi phi'``. Where the discount alone would let it
    grow, in directions that no event has, it stays.
    """
    n, number = len(phi), phi.dtype.type
    for i in range(n):
        out[i] = 0.0
    for j in range(n):  # P is symmetric: sums along its rows fill vectors, and need no last sum
        row, v = P[j], phi[j]
        if v != number(0.0):
            for i in range(n):
                out[i] += v * row[i]
    form, trace = dot(phi, out), number(0.0)
    if not form >= number(0.0):  # rounding has made P useless: begin anew
        _begin_anew(phi, P, out)
        form = dot(phi, phi)
    q = forget + form
    for i in range(n):
        trace += P[i, i]
    scale = number(1.0) / forget if trace < number(_MOST * n) else number(1.0)
    root = number(1.0) / math.sqrt(q)
    for i in range(n):
        out[i] *= root
    for i in range(n):  # products of the same two numbers: else what is not symmetric would grow
        f, row = out[i], P[i]
        for j in range(n):
            row[j] = (row[j] - f * out[j]) * scale
    for i in range(n):
        out[i] *= root


@fast
def update(step: Any, A: Any, k: Any, residual: Any) -> None:
    """Move output k along the gain."""
    for i in range(len(step)):
        A[k, i] += residual * step[i]
