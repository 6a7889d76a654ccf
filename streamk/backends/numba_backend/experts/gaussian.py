"""Linear models of Gaussian random features, at a ladder of bandwidths.

The ladder has Gaussian features at many bandwidths that share one projection,
``cos(2 pi (s u + b))`` for ``u = w . z`` in turns and s = 1/4, 1/2, ...: the frequencies of a
Gaussian kernel scale with the inverse bandwidth (Rahimi and Recht 2007), so the product is paid
once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends.jit.compiling import fast
from streamk.backends.jit.vectors import COSINE
from streamk.backends.numba_backend.experts.linear import forecast_linear, update_linear
from streamk.backends.numba_backend.experts.view import array_of

_z, _projection, _u, _offsets, _scales, _phi = map(
    array_of,
    (
        "z",
        "gaussian_projection",
        "gaussian_u",
        "gaussian_offsets",
        "gaussian_scales",
        "gaussian_phi",
    ),
)
_a, _squares, _rates, _kinds = map(
    array_of, ("gaussian_a", "gaussian_squares", "gaussian_rates", "gaussian_kinds")
)


@fast
def features(table: Any) -> None:
    """Write the random features of all bandwidths."""
    u = _u(table)
    project(_z(table), _projection(table), u)
    cosines(u, _offsets(table), _scales(table), _phi(table))


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (bandwidths times rules, outputs)."""
    phi, A = _phi(table), _a(table)
    n = A.shape[1]
    for i in range(len(A)):
        forecast_linear(phi[i], A[i], F[i * n : (i + 1) * n])


@fast
def descend(table: Any, G: Any) -> None:
    """Update the models by the slopes (bandwidths times rules, outputs) of their losses."""
    phi, A, squares = _phi(table), _a(table), _squares(table)
    rates, kinds, n = _rates(table), _kinds(table), A.shape[1]
    for i in range(len(A)):
        update_linear(phi[i], A[i], squares[i], rates, kinds, G[i * n : (i + 1) * n])


_COSINE = COSINE["float"]


@fast
def project(z: Any, W: Any, u: Any) -> None:
    """Write ``u = z W`` in turns; columns that are 0 cost nothing."""
    for i in range(len(u)):
        u[i] = 0.0
    for j in range(W.shape[0]):
        x = z[j]
        if x != 0.0:
            w = W[j]
            for i in range(len(u)):
                u[i] += x * w[i]


@fast
def cosines(u: Any, b: Any, scales: Any, phi: Any) -> None:
    """Write ``phi[s] = cos(2 pi (scales[s] u + b))``."""
    number = u.dtype.type
    c0, c1, c2, c3, c4, c5 = _COSINE
    for s in range(len(scales)):
        scale, row = number(scales[s]), phi[s]
        for i in range(len(u)):
            t = scale * u[i] + b[i]
            t -= np.rint(t)
            q = t * t
            c = number(c4) + q * number(c5)
            c = number(c2) + q * (number(c3) + q * c)
            row[i] = number(c0) + q * (number(c1) + q * c)
