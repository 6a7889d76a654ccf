"""Coordinates in the span of landmarks, and which events are worth a place among them.

A triangular system has ``l^2 / 2`` multiply-adds, and each unknown waits for the one before it. One
event goes by columns: as soon as an unknown is known, its multiples are added to the sums of all
that come after, which is one pass over consecutive numbers. `GROUP` events lie in the lanes of
vectors, and the register tiles of `pairwise` make the sums of a few rows at a time from the
unknowns before them; so the factor is read once for all of them. Either way a sum has the same
terms in the same order, so that an event gets the same bits.

The factor L and its transpose lie in one symmetric square, as in the twin for numpy. Read from its
last row and column backwards it is the factor of the other system, ``L' q = phi``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamk.backends import KernelCode
from streamk.backends.landmarks import ADMIT, KEEP, LONGEST
from streamk.backends.numba_backend.compiling import compiled, exact
from streamk.backends.numba_backend.pairwise import GROUP, _lay, _of_sums, _sums
from streamk.backends.numpy_backend.pairwise import sum_factor

_ROWS = 8
"""Unknowns whose sums over all earlier ones are made together."""
_ALONE = 4
"""Events looked at one by one after a change: where changes are frequent, what a group has
computed for the events after the change is lost."""
_FEW = 6
"""Events from which on a group is quicker than one after the other."""
_LINEAR = KernelCode.LINEAR


@compiled
def _solve(S: Any, size: Any, k: Any, s: Any) -> None:
    """Turn k into ``L^-1 k``; `s` is room for as many numbers."""
    for i in range(size):
        s[i] = 0.0
    for m in range(size):
        row = S[m]
        value = (k[m] - s[m]) / row[m]
        k[m] = value
        for i in range(m + 1, size):
            s[i] += row[i] * value


@compiled
def _solve_back(S: Any, size: Any, k: Any, s: Any) -> None:
    """Turn k into ``L^-T k``."""
    for i in range(size):
        s[i] = 0.0
    for m in range(size - 1, -1, -1):
        row = S[m]
        value = (k[m] - s[m]) / row[m]
        k[m] = value
        for i in range(m):
            s[i] += row[i] * value


@compiled
def _solve_lanes(S: Any, size: Any, back: Any, T: Any, R: Any) -> None:
    """Turn a group's right-hand sides, T[m * GROUP + lane], into its solutions.

    With `back` they are those of ``L' q = phi``, from the last unknown to the first.
    """
    flat, stride = S.reshape(-1), S.shape[1]
    at, by, step = (0, stride, 1)
    if back:
        at, by, step = (size - 1) * (stride + 1), -stride, -1
    for first in range(0, size, _ROWS):
        rows = min(_ROWS, size - first)
        if first > 0:
            _sums(_LINEAR, T, 0, first, flat, at + first * by, rows, by, step, 0.0, R)
        else:
            R[:] = 0.0
        for i in range(rows):
            place = at + (first + i) * by + first * step
            sums = R[i * GROUP : (i + 1) * GROUP]
            for m in range(i):
                factor, start = flat[place + m * step], (first + m) * GROUP
                for lane in range(GROUP):
                    sums[lane] += factor * T[start + lane]
            pivot, start = flat[place + i * step], (first + i) * GROUP
            for lane in range(GROUP):
                T[start + lane] = (T[start + lane] - sums[lane]) / pivot


@exact
def _left(k: Any, size: Any) -> Any:
    """Return what the squares of k leave of 1."""
    left = 1.0
    for m in range(size):
        left -= k[m] * k[m]
    return left


@exact
def _left_lanes(T: Any, size: Any, left: Any) -> None:
    left[:] = 1.0
    for m in range(size):
        for lane in range(GROUP):
            value = T[m * GROUP + lane]
            left[lane] -= value * value


class _Room(NamedTuple):
    """What is computed on the way, for one event and for a group."""

    k: Any
    q: Any
    s: Any
    spare: Any
    E: Any
    """A group's events in the lanes."""
    T: Any
    U: Any
    R: Any
    left: Any


@compiled
def _make_room(size: Any, d: Any, n: Any) -> Any:
    padded = -(-size // GROUP) * GROUP
    many, few = (size * GROUP, d) if n >= _FEW else (0, 0)
    return _Room(
        np.empty(padded),
        np.empty(size),
        np.empty(size),
        np.empty(max(many, padded)),
        np.empty((1, few, GROUP)),
        np.empty(many),
        np.empty(many),
        np.empty(_ROWS * GROUP),
        np.empty(GROUP),
    )


@compiled
def _one(kernel: Any, span: Any, x: Any, room: Any) -> Any:
    """Write the coordinates of an event into k and return its Schur complement."""
    code, parameter, f = kernel
    points, P, S = span
    groups, d, size = P.shape[0], P.shape[1], points.shape[0]
    for g in range(groups):
        _sums(code, P, g * d * GROUP, d, x, 0, 1, d, 1, f, room.k[g * GROUP :])
    _of_sums(code, parameter, f, room.k, room.spare[: groups * GROUP])
    _solve(S, size, room.k, room.s)
    return _left(room.k, size)


@compiled
def _group(kernel: Any, span: Any, X: Any, first: Any, room: Any) -> None:
    """Write the coordinates of a group of events into T, their Schur complements into `left`."""
    code, parameter, f = kernel
    points, _, S = span
    size, d = points.shape
    _lay(X, first, room.E)
    _sums(code, room.E, 0, d, points.reshape(-1), 0, size, d, 1, f, room.T)
    _of_sums(code, parameter, f, room.T, room.spare[: size * GROUP])
    _solve_lanes(S, size, False, room.T, room.R)
    _left_lanes(room.T, size, room.left)


@compiled
def _coordinates(kernel: Any, span: Any, X: Any, Phi: Any, left: Any) -> None:
    n, size = Phi.shape
    room = _make_room(size, X.shape[1], n)
    r = 0
    while r < n:
        count = min(GROUP, n - r)
        if count < _FEW:
            left[r] = _one(kernel, span, X[r], room)
            Phi[r] = room.k[:size]
            r += 1
            continue
        _group(kernel, span, X, r, room)
        for lane in range(count):
            left[r + lane] = room.left[lane]
            for m in range(size):
                Phi[r + lane, m] = room.T[m * GROUP + lane]
        r += count


@exact
def _cheapest(q: Any, delta: Any, now: Any, rule: Any) -> Any:
    """Return the landmark that an event should replace, KEEP if none."""
    inverse, leaned, _, threshold, rate, _ = rule
    best, at = threshold, KEEP
    for m in range(len(q)):
        gain = delta * inverse[m] + q[m] * q[m]
        if rate > 0.0:
            gain *= 2.0 ** min(rate * (now - leaned[m]), LONGEST)
        if gain > best:
            best, at = gain, m
    return at


@exact
def _verdict(q: Any, delta: Any, now: Any, rule: Any) -> Any:
    """Return what becomes of an event; note the landmark that it leans on most."""
    _, leaned, floor, _, rate, full = rule
    if rate > 0.0 and len(q) > 0:
        most = 0
        for m in range(1, len(q)):
            if abs(q[m]) > abs(q[most]):
                most = m
        leaned[most] = now
    if not delta > floor:
        return KEEP
    return _cheapest(q, delta, now, rule) if full else ADMIT


@compiled
def _watch_one(kernel: Any, span: Any, rule: Any, x: Any, now: Any, room: Any) -> Any:
    _, _, floor, _, rate, full = rule
    delta = _one(kernel, span, x, room)
    if rate > 0.0 or (full and delta > floor):
        room.q[:] = room.k[: len(room.q)]
        _solve_back(span[2], len(room.q), room.q, room.s)
    return _verdict(room.q, delta, now, rule), delta


@compiled
def _watch_group(
    kernel: Any, span: Any, rule: Any, X: Any, first: Any, number: Any, room: Any
) -> Any:
    """Return how many of a group were looked at, the verdict on the last and its complement."""
    _, _, floor, _, rate, full = rule
    size, count = len(room.q), min(GROUP, X.shape[0] - first)
    _group(kernel, span, X, first, room)
    above = False
    for lane in range(count):
        above |= room.left[lane] > floor
    leans = rate > 0.0 or (full and above)
    if leans:
        for m in range(size):
            here, there = m * GROUP, (size - 1 - m) * GROUP
            room.U[there : there + GROUP] = room.T[here : here + GROUP]
        _solve_lanes(span[2], size, True, room.U, room.R)
    for lane in range(count):
        delta = room.left[lane]
        if rate > 0.0 or delta > floor:
            if leans:
                for m in range(size):
                    room.q[m] = room.U[(size - 1 - m) * GROUP + lane]
            verdict = _verdict(room.q, delta, number + lane + 1, rule)
            if verdict != KEEP:
                for m in range(size):
                    room.k[m] = room.T[m * GROUP + lane]
                return lane + 1, verdict, delta
    return count, KEEP, 0.0


@compiled
def _watch(kernel: Any, span: Any, rule: Any, X: Any, number: Any, phi: Any) -> Any:
    n, size = X.shape[0], len(phi)
    room = _make_room(size, X.shape[1], n)
    r, verdict, delta = 0, KEEP, 0.0
    while r < n and verdict == KEEP:
        if r < _ALONE or n - r < _FEW:
            verdict, delta = _watch_one(kernel, span, rule, X[r], number + r + 1, room)
            r += 1
        else:
            seen, verdict, delta = _watch_group(kernel, span, rule, X, r, number + r, room)
            r += seen
    phi[:] = room.k[:size]
    return r, verdict, delta


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
    worst, row = 0.0, np.empty(size)
    for i in range(size):
        row[:] = 0.0
        for m in range(i + 1):
            factor, other = S[i, m], S[m]
            for c in range(m, size):
                row[c] += factor * other[c]
        for c in range(i, size):
            worst = max(worst, abs(row[c] - W[i, c]))
    return worst


@compiled
def _factorise(W: Any, S: Any) -> Any:
    size = len(W)
    k, s = np.empty(size), np.empty(size)
    for i in range(size):
        k[:] = W[i]
        _solve(S, i, k, s)
        left = W[i, i]
        for m in range(i):
            left -= k[m] * k[m]
        if not left > 0.0:
            return False
        S[i, :i] = k[:i]
        S[:i, i] = k[:i]
        S[i, i] = math.sqrt(left)
    return True


@compiled
def _solve_rows(S: Any, K: Any, back: Any) -> None:
    s = np.empty(K.shape[1])
    for r in range(K.shape[0]):
        if back:
            _solve_back(S, K.shape[1], K[r], s)
        else:
            _solve(S, K.shape[1], K[r], s)


def laid(points: Any) -> Any:
    """Return the landmarks laid into lanes."""
    size, d = points.shape
    P = np.empty((-(-size // GROUP), d, GROUP))
    _lay(points, 0, P)
    return P


def coordinates(kernel: Any, span: Any, X: Any, Phi: Any, schur: Any) -> None:
    """Write ``L^-1 k(points, x)`` of the rows of `X`, and their Schur complements."""
    _coordinates(_with_factor(kernel), span, X, Phi, schur)


def watch(
    kernel: Any, span: Any, rule: Any, X: Any, number: int, phi: Any
) -> tuple[int, int, float]:
    """Look at events until one should change the landmarks."""
    seen, verdict, delta = _watch(_with_factor(kernel), span, rule, X, number, phi)
    return int(seen), int(verdict), float(delta)


def _with_factor(kernel: Any) -> Any:
    code, parameter, scale = kernel
    factor = sum_factor(code, parameter, scale, np.dtype(np.float64))
    return int(code), float(parameter), factor


def solve(S: Any, K: Any) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-1 k``."""
    _solve_rows(S, K, False)


def solve_back(S: Any, K: Any) -> None:
    """Turn the rows k of `K` (n, l) into ``L^-T k``."""
    _solve_rows(S, K, True)


def remove_row(S: Any, size: int, j: int, cosines: Any, sines: Any) -> None:
    """Make of the factor of W, of that size, the factor of W without row and column j."""
    _remove_row(S, size, j, cosines, sines)


def residual(S: Any, W: Any) -> float:
    """Return the largest error of an element of ``L L'``."""
    return float(_residual(S, len(W), W))


def factorise(W: Any, S: Any) -> bool:
    """Write the factor of `W` (l, l) into `S`; False if it is not positive definite."""
    return bool(_factorise(W, S))
