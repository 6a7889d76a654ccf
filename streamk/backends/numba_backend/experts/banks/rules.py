"""Linear models on dense features, each by several step rules side by side."""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast

ADAGRAD = 0
"""Step ``rate / sqrt(sum of squared gradients)`` for each coefficient (Duchi et al. 2011)."""
NORMALIZED = 1
"""Step ``rate / |features|^2`` (normalised least mean squares, Nagumo and Noda 1967)."""


@fast
def dot(a: Any, b: Any) -> Any:
    """Return the inner product of two vectors."""
    total = a[0] * b[0]
    for i in range(1, len(a)):
        total += a[i] * b[i]
    return total


@fast
def forecast(phi: Any, A: Any, F: Any) -> None:
    """Write ``F[rule, output] = A[rule, output] . phi``; A may have room for more outputs."""
    for rule in range(A.shape[0]):
        for k in range(F.shape[1]):
            F[rule, k] = dot(A[rule, k], phi)


@fast
def update(phi: Any, A: Any, squares: Any, rates: Any, kinds: Any, G: Any) -> None:
    """Descend: `G` (rules, outputs) are the slopes of the losses in F, A as there."""
    norm = dot(phi, phi) + phi.dtype.type(1e-6)
    for rule in range(A.shape[0]):
        rate = phi.dtype.type(rates[rule])
        for k in range(G.shape[1]):
            g = G[rule, k]
            if abs(g) < 1e-5:  # too sure to learn: most classes of most events
                continue
            a = A[rule, k]
            if kinds[rule] == NORMALIZED:
                step = rate * g / norm
                for i in range(len(phi)):
                    a[i] -= step * phi[i]
            else:
                s = squares[rule, k]
                for i in range(len(phi)):
                    h = g * phi[i]
                    s[i] += h * h
                    # Divided by the root alone, which machines estimate at a third of the time.
                    a[i] -= rate * h / math.sqrt(s[i] + phi.dtype.type(1e-12))
