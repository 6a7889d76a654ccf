"""The growing factor of a kernel matrix, whose points lie in groups of `GROUP` lanes.

Entry (i, m) of the factor is ``(k(x_i, z_m) - sum_q F[i, q] L[m, q]) / L[m, m]`` for the landmark
z_m, with L the rows of the landmarks themselves. The sum is added up in the order of q, one
multiply-add after the other, however many landmarks come at once: so a point's row has the same
bits whether landmarks came to it one by one or in blocks. In blocks, the register tiles of
`pairwise` do all of it but a corner, and the factor is read once a block, not once a landmark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import GROUP, KernelCode
from streamk.backends.numba_backend.compiling import compiled
from streamk.backends.numba_backend.pairwise import (
    CENTERS,
    DOUBLES,
    SINGLES,
    of_sums,
    sums,
    with_columns,
)
from streamk.backends.numpy_backend.pairwise import sum_factor

_LINEAR = KernelCode.LINEAR


@compiled
def _cross(code: Any, parameter: Any, f: Any, P: Any, Y: Any, out: Any) -> None:
    (groups, d, _), m = P.shape, Y.shape[0]
    spare = np.empty(CENTERS * GROUP, P.dtype)
    for g in range(groups):
        K = out[g].reshape(m * GROUP)
        for c in range(0, m, CENTERS):
            centers = min(CENTERS, m - c)
            some = K[c * GROUP : (c + centers) * GROUP]
            sums(code, P, g * d * GROUP, d, Y, c * d, centers, d, 1, f, some)
            of_sums(code, parameter, f, some, spare)


def cross(code: int, parameter: float, scale: float, P: Any, Y: Any, out: Any) -> None:
    """Write the kernel between the points that lie in groups in `P` and the rows of `Y`."""
    f = sum_factor(code, parameter, scale, P.dtype)
    if not Y.shape[1]:
        P, Y = np.zeros((len(P), 1, GROUP), P.dtype), with_columns(Y)
    _cross(int(code), float(parameter), f, P, Y, out)


@compiled
def extend(K: Any, L: Any, F: Any, start: Any, delta: Any) -> None:
    """Append columns to the factor, from column `start` on, and take them off `delta`."""
    groups, capacity, _ = F.shape
    new = K.shape[1]
    real = F.dtype.type
    tile = SINGLES if F.itemsize == 4 else DOUBLES
    some = np.empty(tile * GROUP, F.dtype)
    for g in range(groups):
        for first in range(0, new, tile):
            rows, done = min(tile, new - first), start + first
            at = done * L.shape[1]
            sums(
                _LINEAR, F, g * capacity * GROUP, done, L, at, rows, L.shape[1], 1, real(1.0), some
            )
            for i in range(rows):
                m = done + i
                pivot = real(1.0) / L[m, m]
                for q in range(i):
                    for lane in range(GROUP):
                        some[i * GROUP + lane] += F[g, done + q, lane] * L[m, done + q]
                for lane in range(GROUP):
                    value = (K[g, first + i, lane] - some[i * GROUP + lane]) * pivot
                    F[g, m, lane] = value
                    delta[g, lane] -= np.float64(value) * np.float64(value)


@compiled
def gather(F: Any, count: Any, rows: Any, out: Any) -> None:
    """Copy the first `count` columns of some rows into the lanes of `out`; the rest becomes 0."""
    for g in range(out.shape[0]):
        for lane in range(GROUP):
            place = g * GROUP + lane
            if place < rows.shape[0]:
                group, there = divmod(rows[place], GROUP)
                for q in range(count):
                    out[g, q, lane] = F[group, q, there]
            else:
                for q in range(count):
                    out[g, q, lane] = 0.0
