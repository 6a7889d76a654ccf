"""Random binning: tables whose cells are bins of a few columns.

Two events share a cell of a table of random offsets with a probability that falls with their
distance, a Laplacian-like kernel of the table's columns (Rahimi and Recht 2007, section 4), and a
table of some columns is a kernel on these alone. So the sum over tables is a sum of kernels, and
the factor of each table, learned by exponentiated gradient, is that kernel's weight.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast

_MIX = 0x9E3779B97F4A7C15
_PRIOR = 1.0
"""Added to the root of a cell's squared slopes: its first step is no longer than the rate."""
_FORGET = 0.999
_LEAST, _MOST = 0.02, 4.0
"""Bounds of a table's factor, so that it can come back."""


@fast
def locate(r: Any, starts: Any, members: Any, shifts: Any, bins: Any, first: Any, cells: Any) -> None:
    """Write the number of each table's cell; `r` are ranks in [0, 1), negative where missing."""
    for table in range(len(bins)):
        b = bins[table]
        slots = first[table + 1] - first[table]
        direct = 1
        for _ in range(starts[table + 1] - starts[table]):
            direct = min(direct * (b + 2), slots + 1)
        h = 0
        if direct <= slots:
            for j in range(starts[table], starts[table + 1]):
                v = r[members[j]]
                h = h * (b + 2) + (b + 1 if v < 0.0 else int(v * b + shifts[j]))
        else:
            for j in range(starts[table], starts[table + 1]):
                v = r[members[j]]
                h = (h ^ (b + 1 if v < 0.0 else int(v * b + shifts[j]))) * _ODD
                h ^= (h >> 29) & 0x7FFFFFFFF
            h &= slots - 1
        cells[table] = first[table] + h


_ODD = _MIX - (1 << 64)
"""The multiplier as a signed number."""


@fast
def forecast(cells: Any, group: Any, factors: Any, A: Any, F: Any) -> None:
    """Write ``F[group, rule, output]``, the sums over the group's tables."""
    for g in range(F.shape[0]):
        for rule in range(F.shape[1]):
            for k in range(F.shape[2]):
                F[g, rule, k] = 0.0
    for table in range(len(cells)):
        a, f, w = A[cells[table]], F[group[table]], factors[table]
        for rule in range(F.shape[1]):
            for k in range(F.shape[2]):
                f[rule, k] += w[rule] * a[rule, k]


@fast
def update(
    cells: Any,
    group: Any,
    rates: Any,
    paces: Any,
    factors: Any,
    spread: Any,
    A: Any,
    squares: Any,
    G: Any,
) -> None:
    """Descend on the cells by AdaGrad, on the tables' factors by exponentiated gradient.

    `rates` (groups, rules) are of the cells, `paces` (rules,) of the factors, whose slopes are
    taken in units of their recent size, the root of `spread`.
    """
    number = A.dtype.type
    for table in range(len(cells)):
        cell = cells[table]
        for rule in range(A.shape[1]):
            a, g = A[cell, rule], G[group[table], rule]
            slope, square = number(0.0), number(0.0)
            for k in range(len(a)):
                slope += g[k] * a[k]
                square += g[k] * g[k]
            w = factors[table, rule]
            squares[cell, rule] += square
            step = number(rates[group[table], rule]) * w
            step /= math.sqrt(squares[cell, rule]) + number(_PRIOR)
            for k in range(len(a)):
                a[k] -= step * g[k]
            s = number(_FORGET) * spread[table, rule] + slope * slope
            spread[table, rule] = s
            w *= math.exp(-number(paces[rule]) * slope / (math.sqrt(s) + number(1e-6)))
            factors[table, rule] = min(max(w, number(_LEAST)), number(_MOST))
