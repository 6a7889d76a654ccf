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
from streamk.backends.numba_backend.experts import view
from streamk.backends.numba_backend.experts.linear import forecast_linear, update_linear


@fast
def features(table: Any) -> None:
    """Write the random features of all bandwidths."""
    u = view.gaussian_u(table)
    project(view.z(table), view.gaussian_projection(table), u)
    cosines(u, view.gaussian_offsets(table), view.gaussian_scales(table), view.gaussian_phi(table))


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (bandwidths times rules, outputs)."""
    phi, A = view.gaussian_phi(table), view.gaussian_a(table)
    n = A.shape[1]
    for i in range(len(A)):
        forecast_linear(phi[i], A[i], F[i * n : (i + 1) * n])


@fast
def descend(table: Any, G: Any) -> None:
    """Update the models by the slopes (bandwidths times rules, outputs) of their losses."""
    phi, A, squares = view.gaussian_phi(table), view.gaussian_a(table), view.gaussian_squares(table)
    rates, kinds, n = view.gaussian_rates(table), view.gaussian_kinds(table), A.shape[1]
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
