"""Recursive least squares with forgetting: a linear model that learns in a second-order step."""

from __future__ import annotations

from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.rules import dot


@fast
def gain(phi: Any, P: Any, forget: Any, out: Any) -> None:
    """Write the gain ``P phi / (forget + phi' P phi)`` and take the event into P.

    P is the inverse of the discounted sum of ``phi phi'``. Where the discount alone would let it
    grow, in directions that no event has, it stays.
    """
    for i in range(len(phi)):
        out[i] = dot(P[i], phi)
    q = forget + dot(phi, out)
    trace = 0.0
    for i in range(len(phi)):
        trace += P[i, i]
    scale = 1.0 / forget if trace < 1e4 * len(phi) else 1.0
    for i in range(len(phi)):
        f = out[i] / q
        for j in range(len(phi)):
            P[i, j] = (P[i, j] - f * out[j]) * scale
    for i in range(len(phi)):
        out[i] /= q


@fast
def update(step: Any, A: Any, k: Any, residual: Any) -> None:
    """Move output k along the gain."""
    for i in range(len(step)):
        A[k, i] += residual * step[i]
