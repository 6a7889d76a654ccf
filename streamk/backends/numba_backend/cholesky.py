"""Cholesky factors, and triangular systems.

A Cholesky factor in single precision, in tiles of `GROUP` rows and columns.

The factor L lies in panels of `PANEL` rows. A panel is an array (groups, columns, GROUP): the rows
of a group lie in the lanes of vectors, column after column, up to the panel's own ones. Where L has
its blocks (GROUP, GROUP) on the diagonal, the inverses of these lie instead, so that all that is
done with them is a product of matrices. All arrays are float32 and C-contiguous. What is computed
for a row is the same, bit for bit, whatever rows are computed with it.

All but the blocks on the diagonal is products of tiles, made by the register tiles of `pairwise`.
They take the widest vectors that there are, which the BLAS that comes with NumPy may not, and
nothing is rearranged for them. A sum goes over `_CHUNK` columns in registers, as many as stay in
the first cache, and then it is taken from the matrix.

Triangular systems, and a Cholesky factor that loses a row.

A triangular system has ``l^2 / 2`` multiply-adds, and each unknown waits for those before it. One
system goes by columns: when a block of unknowns is known, their multiples are added to the sums of
all that come after, in passes over consecutive numbers. `GROUP` systems with one factor lie in the
lanes of vectors, and the register tiles of `pairwise` make the sums of a few rows from all unknowns
before them. Either way a sum has the same terms in the same order, and so the same bits.

The factor L and its transpose lie in one symmetric square whose side is a multiple of `LANES`. Read
from the last row and column backwards it is the factor of the other system, ``L' q = phi``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import GROUP, LANES
from streamk.backends.jit.compiling import compiled, copy, part
from streamk.backends.jit.lanes import fma, load, store, summed
from streamk.backends.numba_backend.pairwise import multiply

ROWS = 8
"""Unknowns of a group's systems whose sums over all earlier ones are made together."""


@part
def _add_rows(S: Any, s: Any, v: Any, at: Any, by: Any, s_at: Any, size: Any) -> None:
    """Add to consecutive sums the multiples of LANES rows, one row after the other.

    The rows' numbers begin at `at` in S and lie `by` apart, the sums at `s_at`; their number is
    rounded up to LANES. v holds the factors.
    """
    for first in range(0, size, LANES):
        total = load(s, s_at + first)
        for i in range(LANES):
            total = fma(load(S, at + i * by + first), v[i], total)
        store(total, s, s_at + first)


@part
def solve_one(S: Any, size: Any, k: Any, s: Any) -> None:
    """Turn k into ``L^-1 k``; `s` is room, as many numbers as S has rows."""
    stride, v = S.shape[1], np.empty(LANES)
    s[:] = 0.0
    for first in range(0, size, LANES):
        stop = min(size, first + LANES)
        for i in range(first, stop):
            row, sum_ = S[i], s[i]
            for m in range(first, i):
                sum_ += row[m] * k[m]
            k[i] = (k[i] - sum_) / row[i]
        if stop < size:
            copy(k[first:stop], v)
            _add_rows(S, s, v, first * stride + stop, stride, stop, size - stop)


@part
def solve_one_back(S: Any, size: Any, k: Any, s: Any) -> None:
    """Turn k into ``L^-T k``."""
    stride, v = S.shape[1], np.zeros(LANES)
    s[:] = 0.0
    for first in range((size - 1) // LANES * LANES, -1, -LANES):
        stop = min(size, first + LANES)
        for i in range(stop - 1, first - 1, -1):
            row, sum_ = S[i], s[i]
            for m in range(stop - 1, i, -1):
                sum_ += row[m] * k[m]
            k[i] = (k[i] - sum_) / row[i]
            v[first + LANES - 1 - i] = k[i]
        # The factors of rows that the last block lacks are still 0.
        last = (first + LANES - 1) * stride
        _add_rows(S, s, v, last, -stride, 0, first)


@part
def solve_lanes(S: Any, size: Any, back: Any, T: Any, R: Any) -> None:
    """Turn a group's right-hand sides, T[m * GROUP + lane], into its solutions.

    With `back` they are those of ``L' q = phi``, from the last unknown to the first.
    """
    flat, stride = S.reshape(-1), S.shape[1]
    at, by, step = (0, stride, 1)
    if back:
        at, by, step = (size - 1) * (stride + 1), -stride, -1
    for first in range(0, size, ROWS):
        rows = min(ROWS, size - first)
        if first > 0:
            multiply(T, 0, first, flat, at + first * by, rows, by, step, R)
        else:
            R[:] = 0.0
        for i in range(rows):
            place = at + (first + i) * by + first * step
            totals = R[i * GROUP : (i + 1) * GROUP]
            for m in range(i):
                factor, start = flat[place + m * step], (first + m) * GROUP
                for lane in range(GROUP):
                    totals[lane] += factor * T[start + lane]
            pivot, start = flat[place + i * step], (first + i) * GROUP
            for lane in range(GROUP):
                T[start + lane] = (T[start + lane] - totals[lane]) / pivot


@compiled
def _remove_row(S: Any, size: Any, j: Any, cosines: Any, sines: Any) -> None:
    last = size - 1
    for i in range(j):
        row = S[i]
        for c in range(j, last):
            row[c] = row[c + 1]
    carried = S[j, 1:size].copy()
    for i in range(j, last):
        above, below = S[i], S[i + 1]
        a, b = carried[i], below[i + 1]
        r = math.sqrt(a * a + b * b)
        c, s = a / r, b / r
        cosines[i - j], sines[i - j] = c, s
        for m in range(i, last):
            x, y = carried[m], below[m + 1]
            above[m] = c * x + s * y
            carried[m] = c * y - s * x
        above[i] = r
    for i in range(j, last):
        for m in range(i):
            S[i, m] = S[m, i]


@compiled
def _residual(S: Any, size: Any, W: Any) -> Any:
    stride, v = S.shape[1], np.empty(LANES)
    worst, row = 0.0, np.empty(S.shape[0])
    for i in range(size):
        row[:] = 0.0
        start = i // LANES * LANES
        for first in range(0, i + 1, LANES):
            stop = min(i + 1, first + LANES)
            v[:] = 0.0
            copy(S[i, first:stop], v[: stop - first])
            _add_rows(S, row, v, first * stride + start, stride, start, size - start)
        for c in range(i, size):
            worst = max(worst, abs(row[c] - W[i, c]))
    return worst


@compiled
def _factorise(W: Any, S: Any, least: Any) -> Any:
    size = len(W)
    k, s = np.empty(size), np.empty(S.shape[0])
    for i in range(size):
        copy(W[i], k)
        solve_one(S, i, k, s)
        left = W[i, i]
        for m in range(i):
            left -= k[m] * k[m]
        if not left > least:
            return i
        copy(k, S[i, :i])
        copy(k, S[:i, i])
        S[i, i] = math.sqrt(left)
    return size


@compiled
def _solve_rows(S: Any, K: Any, back: Any) -> None:
    s = np.empty(S.shape[0])
    for r in range(K.shape[0]):
        if back:
            solve_one_back(S, K.shape[1], K[r], s)
        else:
            solve_one(S, K.shape[1], K[r], s)


def solve(S: Any, K: Any) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-1 k``."""
    _solve_rows(S, K, False)


def solve_back(S: Any, K: Any) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-T k``."""
    _solve_rows(S, K, True)


def remove_row(S: Any, size: int, j: int, cosines: Any, sines: Any) -> None:
    """Make of the factor of W, of that size, the factor of W without row and column j.

    L without row j has a number beyond the diagonal in each later row. Rotations of
    neighbouring columns, from j on, put them away; `cosines` and `sines` (size - 1 - j,) tell
    them.
    """
    _remove_row(S, size, j, cosines, sines)


def residual(S: Any, W: Any) -> float:
    """Return the largest error of an element of ``L L'``."""
    return float(_residual(S, len(W), W))


def factorise(W: Any, S: Any, least: float) -> int:
    """Write the factor of the first rows and columns of `W` (l, l) into `S`, return how many.

    They end where a Schur complement is not above `least`, or with W.
    """
    return int(_factorise(W, S, least))


_TILE = GROUP * GROUP
_CHUNK = 256
"""Columns of a sum: a divisor of a panel's rows."""


@part
def _subtract(K: Any, T: Any) -> None:
    for i in range(K.shape[0]):
        T[i] -= K[i]


@part
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
        copy(row, own)
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


@part
def _reduce(own: Any, i: Any, panel: Any, j: Any, since: Any, count: Any, at: Any, K: Any) -> None:
    """Take the products of two groups over `count` columns from the tile of own group i at `at`."""
    if count > 0:
        T, P = own.reshape(-1), panel.reshape(-1)
        p, y = i * own.shape[1] * GROUP, j * panel.shape[1] * GROUP
        start = since * GROUP
        multiply(T, p + start, count, P, y + start, GROUP, 1, GROUP, K)
        first = p + at * GROUP
        _subtract(K, T[first : first + _TILE])


@part
def _divide(own: Any, i: Any, panel: Any, j: Any, at: Any, K: Any) -> None:
    """Turn the tile of own group i at `at` into the factor's, by the diagonal one of group j."""
    T, P = own.reshape(-1), panel.reshape(-1)
    p, y = (i * own.shape[1] + at) * GROUP, (j * panel.shape[1] + at) * GROUP
    multiply(T, p, GROUP, P, y, GROUP, 1, GROUP, K)
    copy(K, T[p : p + _TILE])


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
                multiply(T, since * GROUP, _CHUNK, P, y, GROUP, 1, GROUP, K)
                _subtract(K, T[t : t + _TILE])
        for g in range(first, groups):
            y, t = g * by + at * GROUP, (at + g * GROUP) * GROUP
            if g > 0:
                multiply(T, at * GROUP, g * GROUP, P, y, GROUP, 1, GROUP, K)
                _subtract(K, T[t : t + _TILE])
            multiply(T, t, GROUP, P, g * by + t, GROUP, 1, GROUP, K)
            copy(K, T[t : t + _TILE])


@compiled
def _forward_narrow(panel: Any, at: Any, A: Any, first: Any) -> None:
    (_, n, outputs), P, by = A.shape, panel.reshape(-1), panel.shape[1] * GROUP
    T, K = A.reshape(-1), np.empty(outputs * GROUP, np.float32)
    for g in range(first, min(panel.shape[0], (n - at) // GROUP)):
        t = at + g * GROUP
        for since in range(0, t, _CHUNK):
            count, p = min(_CHUNK, t - since), g * by + since * GROUP
            multiply(P, p, count, T, since * outputs, outputs, 1, outputs, K)
            for i in range(K.shape[0]):
                A[0, t + i % GROUP, i // GROUP] -= K[i]
        p = g * by + t * GROUP
        multiply(P, p, GROUP, T, t * outputs, outputs, 1, outputs, K)
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
            multiply(T, t, GROUP, P, g * by + t, GROUP, GROUP, 1, K)
            copy(K, T[t : t + _TILE])
            for c in range(0, t, _TILE):
                multiply(T, t, GROUP, P, g * by + c, GROUP, GROUP, 1, K)
                _subtract(K, T[c : c + _TILE])


@part
def _products(P: Any, p: Any, x: Any, K: Any, columns: Any) -> None:
    """Write the products of columns of a group, from p in P on, with x (GROUP,) to K."""
    low, high = load(x, 0), load(x, LANES)
    for c in range(columns):
        at = p + c * GROUP
        K[c] = summed(fma(load(P, at + LANES), high, load(P, at) * low))


@compiled
def _backward_narrow(panel: Any, at: Any, A: Any) -> None:
    (_, n, outputs), P, by = A.shape, panel.reshape(-1), panel.shape[1] * GROUP
    x, K = np.empty(GROUP, np.float32), np.empty(n, np.float32)
    for g in range(min(panel.shape[0], (n - at) // GROUP) - 1, -1, -1):
        t = at + g * GROUP
        stop = t + GROUP
        for q in range(outputs):
            copy(A[0, t:stop, q], x)
            _products(P, g * by + t * GROUP, x, K, GROUP)
            copy(K, x)
            copy(x, A[0, t:stop, q])
            _products(P, g * by, x, K, t)
            for c in range(t):
                A[0, c, q] -= K[c]


def backward(panel: Any, at: int, A: Any) -> None:
    """Solve ``L' x = y`` for the rows of a panel, from the last panel to the first.

    Those of A have what later panels leave of y, and become x; from those before them their
    part is taken away.
    """
    (_backward if A.shape[2] == GROUP else _backward_narrow)(panel, at, A)
