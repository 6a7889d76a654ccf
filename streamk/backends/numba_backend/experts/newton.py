"""The second-order expert: recursive least squares with forgetting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import BINARY, NUMBERS
from streamk.backends.jit.compiling import fast
from streamk.backends.numba_backend.experts import slot, two_stage, view
from streamk.backends.numba_backend.experts.linear import dot, forecast_linear

_CONFIDENCE = 3.0
"""Logit that the expert's answer of 1 counts for."""
_FORGET = 0.9995


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (1, outputs)."""
    A = view.newton_a(table)
    k, p = A.shape
    forecast_linear(view.z(table)[:p], A.reshape((1, k, p)), F)
    # Its answers are 1 and 0, or -1.
    confidence = np.float32(1.0 if table[slot.TASK] == NUMBERS else _CONFIDENCE)
    for j in range(k):
        F[0, j] *= confidence


@fast
def learn(table: Any, y: Any, F: Any) -> None:
    """Update the expert by the label; F (1, outputs) is its output before."""
    k, task = table[slot.OUTPUTS], table[slot.TASK]
    step, A = view.newton_step(table), view.newton_a(table)
    newton_gain(view.z(table)[: len(step)], view.newton_p(table), np.float32(_FORGET), step)
    for j in range(k):
        if task == NUMBERS:
            longest = np.float32(two_stage.longest(view.loss(table)))
            residual = min(max(np.float32(y) - F[0, j], -longest), longest)
        elif task == BINARY:
            residual = np.float32(2.0 * y - 1.0) - F[0, j] / np.float32(_CONFIDENCE)
        else:
            residual = np.float32(1.0 if j == int(y) else 0.0) - F[0, j] / np.float32(_CONFIDENCE)
        update_newton(step, A, j, residual)


_LARGEST_MEAN = 1e2
"""Mean of P's diagonal from which on forgetting does not let it grow."""


@fast
def _begin_anew(phi: Any, P: Any, out: Any) -> None:
    """Make P the identity, and write ``P phi``."""
    for i in range(len(phi)):
        for j in range(len(phi)):
            P[i, j] = P.dtype.type(1.0 if i == j else 0.0)
        out[i] = phi[i]


@fast
def newton_gain(phi: Any, P: Any, forget: Any, out: Any) -> None:
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
    scale = number(1.0) / forget if trace < number(_LARGEST_MEAN * n) else number(1.0)
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
def update_newton(step: Any, A: Any, k: Any, residual: Any) -> None:
    """Move output k along the gain."""
    for i in range(len(step)):
        A[k, i] += residual * step[i]
