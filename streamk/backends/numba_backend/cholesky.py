"""A Cholesky factor in single precision, in tiles of `GROUP` rows and columns.

The factor L lies in panels of `PANEL` rows. A panel is an array (groups, columns, GROUP): the rows
of a group lie in the lanes of vectors, column after column, up to the panel's own ones. Where L has
its blocks (GROUP, GROUP) on the diagonal, the inverses of these lie instead, so that all that is
done with them is a product of matrices. All arrays are float32 and C-contiguous. What is computed
for a row is the same, bit for bit, whatever rows are computed with it.

All but the blocks on the diagonal is products of tiles, made by the register tiles of `pairwise`.
They take the widest vectors that there are, which the BLAS that comes with NumPy may not, and
nothing is rearranged for them. A sum goes over `_CHUNK` columns in registers, as many as stay in
the first cache, and then it is taken from the matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import GROUP, KernelCode
from streamk.backends.numba_backend.compiling import compiled
from streamk.backends.numba_backend.pairwise import sums

__all__ = ["backward", "eliminate", "factor", "forward"]

_LINEAR = KernelCode.LINEAR
_TILE = GROUP * GROUP
_CHUNK = 256
"""Columns of a sum: a divisor of a panel's rows."""
_NONE = np.float32(0.0)


@compiled
def _subtract(K: Any, T: Any) -> None:
    for i in range(K.shape[0]):
        T[i] -= K[i]


@compiled
def _inverse_factor(T: Any, row: Any, X: Any) -> Any:
    """Turn a tile, T[c * GROUP + r], into the inverse of its factor; row and X are room."""
    zero, one = np.float32(0.0), np.float32(1.0)
    for c in range(GROUP):
        own = T[c * GROUP : (c + 1) * GROUP]
        if not own[c] > zero:
            return False
        scale = one / math.sqrt(own[c])
        for r in range(GROUP):
            row[r] = own[r] * scale
        row[:c] = zero
        own[:] = row
        for k in range(c + 1, GROUP):
            multiple, other = row[k], T[k * GROUP : (k + 1) * GROUP]
            for r in range(GROUP):
                other[r] -= multiple * row[r]
    for r in range(GROUP):
        row[:] = zero
        row[r] = one
        for k in range(r):
            multiple, known = T[k * GROUP + r], X[k * GROUP : (k + 1) * GROUP]
            for c in range(GROUP):
                row[c] -= multiple * known[c]
        scale, found = one / T[r * GROUP + r], X[r * GROUP : (r + 1) * GROUP]
        for c in range(GROUP):
            found[c] = row[c] * scale
    for r in range(GROUP):
        for c in range(GROUP):
            T[c * GROUP + r] = X[r * GROUP + c]
    return True


@compiled
def _reduce(own: Any, i: Any, panel: Any, j: Any, since: Any, count: Any, at: Any, K: Any) -> None:
    """Take the products of two groups over `count` columns from the tile of own group i at `at`."""
    if count > 0:
        T, P = own.reshape(-1), panel.reshape(-1)
        p, y = i * own.shape[1] * GROUP, j * panel.shape[1] * GROUP
        start = since * GROUP
        sums(_LINEAR, T, p + start, count, P, y + start, GROUP, 1, GROUP, _NONE, K)
        first = p + at * GROUP
        _subtract(K, T[first : first + _TILE])


@compiled
def _divide(own: Any, i: Any, panel: Any, j: Any, at: Any, K: Any) -> None:
    """Turn the tile of own group i at `at` into the factor's, by the diagonal one of group j."""
    T, P = own.reshape(-1), panel.reshape(-1)
    p, y = (i * own.shape[1] + at) * GROUP, (j * panel.shape[1] + at) * GROUP
    sums(_LINEAR, T, p, GROUP, P, y, GROUP, 1, GROUP, _NONE, K)
    T[p : p + _TILE] = K


@compiled
def _eliminate(own: Any, first: Any, stop: Any, panel: Any, at: Any) -> None:
    K = np.empty(_TILE, np.float32)
    for since in range(0, at, _CHUNK):
        for j in range(panel.shape[0]):
            for i in range(first, stop):
                _reduce(own, i, panel, j, since, _CHUNK, at + j * GROUP, K)
    for j in range(panel.shape[0]):
        for i in range(first, stop):
            _reduce(own, i, panel, j, at, j * GROUP, at + j * GROUP, K)
            _divide(own, i, panel, j, at + j * GROUP, K)


def eliminate(own: Any, first: int, stop: int, panel: Any, at: int) -> None:
    """Turn the columns of another panel into those of the factor.

    They begin at number `at`, and are those of the groups from `first` to `stop` of the panel
    `own`, which has the factor's columns before them, and the matrix's from there on. `panel`
    has the factor's rows of these numbers, all of them.
    """
    _eliminate(own, first, stop, panel, at)


@compiled
def _factor(own: Any, first: Any, stop: Any, at: Any) -> Any:
    K, X, row = (
        np.empty(_TILE, np.float32),
        np.empty(_TILE, np.float32),
        np.empty(GROUP, np.float32),
    )
    for since in range(0, at, _CHUNK):
        for j in range(stop):
            for i in range(max(first, j), stop):
                _reduce(own, i, own, j, since, _CHUNK, at + j * GROUP, K)
    for j in range(stop):
        here = at + j * GROUP
        for i in range(max(first, j), stop):
            _reduce(own, i, own, j, at, j * GROUP, here, K)
            if i > j:
                _divide(own, i, own, j, here, K)
                continue
            place = (i * own.shape[1] + here) * GROUP
            if not _inverse_factor(own.reshape(-1)[place : place + _TILE], row, X):
                return False
    return True


def factor(own: Any, first: int, stop: int, at: int) -> bool:
    """Turn the columns of the panel itself, from `at` on, into those of the factor.

    The groups before `first` have theirs. Returns whether the matrix is positive definite, but
    for rounding; if not, the groups from `first` on are left as they are by then.
    """
    return bool(_factor(own, first, stop, at))


@compiled
def _forward(panel: Any, at: Any, A: Any, first: Any) -> None:
    P, by, K = panel.reshape(-1), panel.shape[1] * GROUP, np.empty(_TILE, np.float32)
    groups = min(panel.shape[0], (A.shape[1] - at) // GROUP)
    for q in range(A.shape[0]):
        T = A[q].reshape(-1)
        for since in range(0, at, _CHUNK):
            for g in range(first, groups):
                y, t = g * by + since * GROUP, (at + g * GROUP) * GROUP
                sums(_LINEAR, T, since * GROUP, _CHUNK, P, y, GROUP, 1, GROUP, _NONE, K)
                _subtract(K, T[t : t + _TILE])
        for g in range(first, groups):
            y, t = g * by + at * GROUP, (at + g * GROUP) * GROUP
            if g > 0:
                sums(_LINEAR, T, at * GROUP, g * GROUP, P, y, GROUP, 1, GROUP, _NONE, K)
                _subtract(K, T[t : t + _TILE])
            sums(_LINEAR, T, t, GROUP, P, g * by + t, GROUP, 1, GROUP, _NONE, K)
            T[t : t + _TILE] = K


@compiled
def _forward_narrow(panel: Any, at: Any, A: Any, first: Any) -> None:
    (_, n, outputs), P, by = A.shape, panel.reshape(-1), panel.shape[1] * GROUP
    T, K = A.reshape(-1), np.empty(outputs * GROUP, np.float32)
    for g in range(first, min(panel.shape[0], (n - at) // GROUP)):
        t = at + g * GROUP
        for since in range(0, t, _CHUNK):
            count, p = min(_CHUNK, t - since), g * by + since * GROUP
            sums(_LINEAR, P, p, count, T, since * outputs, outputs, 1, outputs, _NONE, K)
            for i in range(K.shape[0]):
                A[0, t + i % GROUP, i // GROUP] -= K[i]
        p = g * by + t * GROUP
        sums(_LINEAR, P, p, GROUP, T, t * outputs, outputs, 1, outputs, _NONE, K)
        for i in range(K.shape[0]):
            A[0, t + i % GROUP, i // GROUP] = K[i]


def forward(panel: Any, at: int, A: Any, first: int) -> None:
    """Solve ``L x = y`` for the rows of a panel, the first of which has number `at`.

    A is (parts, n, lanes), with the outputs in the lanes, which are GROUP, or fewer and then
    one part: x in the rows before the panel's group `first`, y in the others, of which those of
    the panel become x. There may be fewer of them than the panel has.
    """
    (_forward if A.shape[2] == GROUP else _forward_narrow)(panel, at, A, first)


@compiled
def _backward(panel: Any, at: Any, A: Any) -> None:
    P, by, K = panel.reshape(-1), panel.shape[1] * GROUP, np.empty(_TILE, np.float32)
    groups = min(panel.shape[0], (A.shape[1] - at) // GROUP)
    for q in range(A.shape[0]):
        T = A[q].reshape(-1)
        for g in range(groups - 1, -1, -1):
            t = (at + g * GROUP) * GROUP
            sums(_LINEAR, T, t, GROUP, P, g * by + t, GROUP, GROUP, 1, _NONE, K)
            T[t : t + _TILE] = K
            for c in range(0, t, _TILE):
                sums(_LINEAR, T, t, GROUP, P, g * by + c, GROUP, GROUP, 1, _NONE, K)
                _subtract(K, T[c : c + _TILE])


def backward(panel: Any, at: int, A: Any) -> None:
    """Solve ``L' x = y`` for the rows of a panel, from the last panel to the first.

    Those of A have what later panels leave of y, and become x; from those before them their
    part is taken away.
    """
    if A.shape[2] == GROUP:
        _backward(panel, at, A)
        return
    # Few outputs go by the sums over lanes of a library of BLAS, as fast as the memory is.
    groups = panel[: (A.shape[1] - at) // GROUP]
    for g, group in reversed(list(enumerate(groups))):
        tile = slice(at + g * GROUP, at + (g + 1) * GROUP)
        A[:, tile] = group[tile] @ A[:, tile]
        A[:, : tile.start] -= group[: tile.start] @ A[:, tile]
