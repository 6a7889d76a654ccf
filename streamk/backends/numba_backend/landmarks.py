"""The growing factor of a kernel matrix: a row a point, a column a landmark.

Entry (i, m) of the factor is ``(k(x_i, z_m) - sum_q F[i, q] L[m, q]) / L[m, m]`` for the landmark
z_m, with L the rows of the landmarks themselves. The sums of a few points with a few landmarks stay
in registers while both pass by, a line of memory at a time; so the factor is read once for
`_TOGETHER` landmarks. Which columns a sum takes in lanes and which, at most `_TOGETHER` - 1, one by
one, depends on m alone: a point's row has the same bits however its columns are divided into
blocks.

Coordinates in the span of landmarks, and which events are worth a place among them.

The factor L of the landmarks' kernel matrix W lies in the lower triangle of a square room S and its
transpose in the upper one: S is symmetric, and both a row and a column of L are consecutive. The
room's side is a multiple of `LANES`; what lies beside the factor are finite numbers. An event x has
the coordinates ``phi = L^-1 k(points, x)``; of k(x, x) = 1 the Schur complement ``1 - |phi|^2`` is
left, and ``q = L^-T phi`` are the coefficients of its kernel's projection. All arrays are float64
and C-contiguous.

Of many events, `GROUP` at a time lie in the lanes of vectors, so that the landmarks and their
factor are read once for all of them; few are looked at one by one. An event's sums have the same
terms in the same order either way, so that it gets the same bits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from streamk.backends import ADMIT, GROUP, KEEP, LINE, sum_factor
from streamk.backends.jit.compiling import compiled, copy, exact, exact_part, part
from streamk.backends.jit.vectors import Emitter, emitted
from streamk.backends.numba_backend.cholesky import (
    ROWS,
    solve_lanes,
    solve_one,
    solve_one_back,
)
from streamk.backends.numba_backend.pairwise import lay, of_sums, sums, with_columns

_TOGETHER = 4
"""Landmarks whose sums stay in registers together; a power of two."""
_ROWS = 64
"""Points whose rows stay in the second cache while all landmarks of a block pass."""


def _emit(
    builder: Any, e: Emitter, points: list[Any], landmarks: list[Any], d: Any, by: Any
) -> Any:
    """Emit the sums of products of rows of d numbers, each point with each landmark."""
    ahead = builder.mul(by, e.size(len(points)))
    whole = builder.udiv(d, e.size(e.lanes))
    done = builder.mul(whole, e.size(e.lanes))
    rest = builder.sub(d, done)

    def add(j: Any, totals: list[Any]) -> list[Any]:
        at = e.offset((j, e.size(e.lanes)))
        xs, zs = ([e.load(e.at(row, at)) for row in rows] for rows in (points, landmarks))
        for row in points:
            place = e.at(row, e.offset((ahead, e.size(1)), (j, e.size(e.lanes))))
            e.prefetch(place)
        return products(xs, zs, totals)

    def products(xs: list[Any], zs: list[Any], totals: list[Any]) -> list[Any]:
        pairs = [(x, z) for z in zs for x in xs]
        return [e.fma(x, z, total) for (x, z), total in zip(pairs, totals, strict=True)]

    zeros = [e.constant(0.0)] * (len(points) * len(landmarks))
    totals = e.loop(whole, zeros, add)
    xs, zs = ([e.load_some(e.at(row, done), rest) for row in rows] for rows in (points, landmarks))
    return e.totals(products(xs, zs, totals))


def _tile(rows: int, landmarks: int) -> Any:
    """Return the intrinsic that sums the products of some rows of F with some of L into S.

    Its arguments are F, L and S, where each begins, the numbers between the rows of F and of L, the
    columns, and how many rows of L there are: the last one stands for those that are missing.
    """

    @emitted
    def tile(
        builder: Any, F: Any, L: Any, S: Any, f_at: Any, l_at: Any, s_at: Any, by: Any, step: Any,
        d: Any, count: Any,
    ) -> None:  # fmt: skip
        element = F.type.pointee
        e = Emitter(builder, element, lanes=LINE // (4 if element == ir.FloatType() else 8))
        points = [e.at(F, e.offset((f_at, e.size(1)), (e.size(i), by))) for i in range(rows)]
        others, place = [], e.at(L, l_at)
        for i in range(landmarks):
            others.append(place)
            there = builder.icmp_signed("<", e.size(i + 1), count)
            place = builder.select(there, e.at(place, step), place)
        totals = _emit(builder, e, points, others, d, by)
        for j in range(landmarks):
            own = e.chosen(totals, range(j * rows, (j + 1) * rows))
            place = e.at(S, e.offset((s_at, e.size(1)), (e.size(j), e.size(_ROWS))))
            stored = builder.store(own, builder.bitcast(place, own.type.as_pointer()))
            stored.align = e.bytes

    return tile


_four_by_four, _one_by_four = _tile(4, _TOGETHER), _tile(1, _TOGETHER)
_four_by_one, _one_by_one = _tile(4, 1), _tile(1, 1)


@compiled
def _sums(F: Any, L: Any, S: Any, r: Any, rows: Any, m: Any, count: Any, d: Any) -> None:
    """Write the sums of `rows` points with `count` landmarks over d columns, a landmark a row."""
    by, step = F.strides[0] // F.itemsize, L.strides[0] // L.itemsize
    fours = rows - rows % 4
    if count > 1:
        for i in range(0, fours, 4):
            _four_by_four(F, L, S, (r + i) * by, m * step, i, by, step, d, count)
        for i in range(fours, rows):
            _one_by_four(F, L, S, (r + i) * by, m * step, i, by, step, d, count)
    else:
        for i in range(0, fours, 4):
            _four_by_one(F, L, S, (r + i) * by, m * step, i, by, step, d, count)
        for i in range(fours, rows):
            _one_by_one(F, L, S, (r + i) * by, m * step, i, by, step, d, count)


@compiled
def extend(K: Any, L: Any, F: Any, start: Any, delta: Any) -> None:
    """Append columns to the factor, from column `start` on, and take their squares off delta."""
    new, n = K.shape
    one = F.dtype.type(1.0)
    S = np.empty((_TOGETHER, _ROWS), F.dtype)
    for r in range(0, n, _ROWS):
        rows = min(_ROWS, n - r)
        f, left = F[r : r + rows], delta[r : r + rows]
        m = 0
        while m < new:
            before = (start + m) - (start + m) % _TOGETHER
            count = min(new - m, before + _TOGETHER - (start + m))
            _sums(F, L, S, r, rows, m, count, before)
            skipped = start + m - before
            for j in range(count):
                s, k, pivot = S[j], K[m + j, r : r + rows], one / L[m + j, start + m + j]
                for q in range(skipped):
                    t, l = f[:, before + q], L[m + j, before + q]  # noqa: E741
                    for i in range(rows):
                        s[i] += t[i] * l
                for q in range(j):
                    t, l = S[q], L[m + j, start + m + q]  # noqa: E741
                    for i in range(rows):
                        s[i] += t[i] * l
                for i in range(rows):
                    value = (k[i] - s[i]) * pivot
                    s[i] = value
                    left[i] -= np.float64(value) * np.float64(value)
                column = f[:, start + m + j]
                for i in range(rows):
                    column[i] = s[i]
            m += count


@compiled
def choose(K: Any, F: Any, start: Any, delta: Any, least: Any, places: Any, schur: Any) -> Any:
    """Append a column for the row of the largest delta, and go on while that exceeds `least`."""
    row = np.empty((1, F.shape[1]), F.dtype)
    for m in range(len(places)):
        place = delta.argmax()  # that of a NaN if there is one
        if m > 0 and not delta[place] > least:
            return m
        places[m], schur[m] = place, delta[place]
        row[0] = F[place]
        row[0, start + m] = math.sqrt(delta[place])
        extend(K[place : place + 1], row, F, start + m, delta)
        delta[place] = -np.inf
    return len(places)


_LONGEST = 512.0
"""Half-lives after which a landmark's claim no longer shrinks."""
_ALONE = 4
"""Events looked at one by one after a change: where changes are frequent, what a group has
computed for the events after the change is lost."""
_FEW = 6
"""Events from which on a group is quicker than one after the other."""


@exact_part
def _left(k: Any, size: Any) -> Any:
    """Return what the squares of k leave of 1."""
    left = 1.0
    for m in range(size):
        left -= k[m] * k[m]
    return left


@exact_part
def _left_lanes(T: Any, size: Any, left: Any) -> None:
    left[:] = 1.0
    for m in range(size):
        for lane in range(GROUP):
            value = T[m * GROUP + lane]
            left[lane] -= value * value


class _Room(NamedTuple):
    """Workspace for one event and for a group."""

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
def _make_room(size: Any, d: Any, n: Any, side: Any) -> Any:
    padded = -(-size // GROUP) * GROUP
    many, few = (size * GROUP, d) if n >= _FEW else (0, 0)
    return _Room(
        np.empty(padded),
        np.empty(size),
        np.empty(side),
        np.empty(max(many, padded)),
        np.empty((1, few, GROUP)),
        np.empty(many),
        np.empty(many),
        np.empty(ROWS * GROUP),
        np.empty(GROUP),
    )


@part
def _one(kernel: Any, span: Any, x: Any, room: Any) -> Any:
    """Write the coordinates of an event into k and return its Schur complement."""
    code, parameter, f = kernel
    points, P, S = span
    groups, d, size = P.shape[0], P.shape[1], points.shape[0]
    for g in range(groups):
        sums(code, P, g * d * GROUP, d, x, 0, 1, d, 1, f, room.k[g * GROUP :])
    of_sums(code, parameter, f, room.k, room.spare[: groups * GROUP])
    solve_one(S, size, room.k, room.s)
    return _left(room.k, size)


@part
def _group(kernel: Any, span: Any, X: Any, first: Any, room: Any) -> None:
    """Write the coordinates of a group of events into T, their Schur complements into `left`."""
    code, parameter, f = kernel
    points, _, S = span
    size, d = points.shape
    lay(X, first, room.E)
    sums(code, room.E, 0, d, points.reshape(-1), 0, size, d, 1, f, room.T)
    of_sums(code, parameter, f, room.T, room.spare[: size * GROUP])
    solve_lanes(S, size, False, room.T, room.R)
    _left_lanes(room.T, size, room.left)


@part
def _write(T: Any, Phi: Any) -> None:
    """Write the coordinates of the first events of a group."""
    for lane in range(Phi.shape[0]):
        for m in range(Phi.shape[1]):
            Phi[lane, m] = T[m * GROUP + lane]


@compiled
def _coordinates(kernel: Any, span: Any, X: Any, Phi: Any, left: Any) -> None:
    n, size = Phi.shape
    room = _make_room(size, X.shape[1], n, len(span[2]))
    r = 0
    while r < n:
        count = min(GROUP, n - r)
        if count < _FEW:
            left[r] = _one(kernel, span, X[r], room)
            Phi[r] = room.k[:size]
            r += 1
            continue
        _group(kernel, span, X, r, room)
        copy(room.left, left[r : r + count])
        _write(room.T, Phi[r : r + count])
        r += count


@exact_part
def _most(q: Any, delta: Any, now: Any, inverse: Any, leaned: Any, rate: Any) -> Any:
    """Return the landmark in whose place an event gains most, and how much."""
    best, at = -1.0, KEEP
    for m in range(len(q)):
        gain = delta * inverse[m] + q[m] * q[m]
        if rate > 0.0:
            gain *= 2.0 ** min(rate * (now - leaned[m]), _LONGEST)
        if gain > best:
            best, at = gain, m
    return at, best


@exact
def _outcome(q: Any, delta: Any, now: Any, rule: Any) -> Any:
    """Return what becomes of an event; note the landmark that it leans on most."""
    inverse, leaned, floor, rounding, noise, threshold, rate, full = rule
    if rate > 0.0 and len(q) > 0:
        most = 0
        for m in range(1, len(q)):
            if abs(q[m]) > abs(q[most]):
                most = m
        leaned[most] = now
    if not delta > floor:
        return KEEP
    j, gain = _most(q, delta, now, inverse, leaned, 0.0)
    if not gain < delta / noise:
        return KEEP
    if not gain < delta / rounding:
        return j if gain > 1.0 else KEEP
    if not full:
        return ADMIT
    if rate > 0.0:
        j, gain = _most(q, delta, now, inverse, leaned, rate)
    return j if gain > threshold else KEEP


@part
def _watch_one(kernel: Any, span: Any, rule: Any, x: Any, now: Any, room: Any) -> Any:
    floor, rate = rule[2], rule[6]
    delta = _one(kernel, span, x, room)
    if rate > 0.0 or delta > floor:
        copy(room.k, room.q)
        solve_one_back(span[2], len(room.q), room.q, room.s)
    return _outcome(room.q, delta, now, rule), delta


@part
def _watch_group(
    kernel: Any, span: Any, rule: Any, X: Any, first: Any, number: Any, room: Any
) -> Any:
    """Return how many of a group were looked at, the verdict on the last and its complement."""
    floor, rate = rule[2], rule[6]
    size, count = len(room.q), min(GROUP, X.shape[0] - first)
    _group(kernel, span, X, first, room)
    above = rate > 0.0
    for lane in range(count):
        above |= room.left[lane] > floor
    if above:
        for m in range(size):
            here, there = m * GROUP, (size - 1 - m) * GROUP
            copy(room.T[here : here + GROUP], room.U[there : there + GROUP])
        solve_lanes(span[2], size, True, room.U, room.R)
    for lane in range(count):
        delta = room.left[lane]
        if rate > 0.0 or delta > floor:
            for m in range(size):
                room.q[m] = room.U[(size - 1 - m) * GROUP + lane]
            verdict = _outcome(room.q, delta, number + lane + 1, rule)
            if verdict != KEEP:
                return lane + 1, verdict, delta
    return count, KEEP, 0.0


@compiled
def _watch(kernel: Any, span: Any, rule: Any, X: Any, number: Any, Phi: Any) -> Any:
    n, size = Phi.shape
    room = _make_room(size, X.shape[1], n, len(span[2]))
    r, verdict, delta = 0, KEEP, 0.0
    while r < n and verdict == KEEP:
        if r < _ALONE or n - r < _FEW:
            verdict, delta = _watch_one(kernel, span, rule, X[r], number + r + 1, room)
            Phi[r] = room.k[:size]
            r += 1
        else:
            seen, verdict, delta = _watch_group(kernel, span, rule, X, r, number + r, room)
            _write(room.T, Phi[r : r + seen])
            r += seen
    return r, verdict, delta


def laid(points: Any) -> Any:
    """Return the points (l, d) in the layout that `Span` wants them in besides."""
    size, d = points.shape
    P = np.empty((-(-size // GROUP), max(d, 1), GROUP))
    lay(with_columns(points), 0, P)
    return P


def coordinates(kernel: Any, span: Any, X: Any, Phi: Any, schur: Any) -> None:
    """Write the coordinates (n, l) and Schur complements (n,) of the rows of `X` (n, d)."""
    _coordinates(_with_factor(kernel), _with_columns(span), with_columns(X), Phi, schur)


def watch(
    kernel: Any, span: Any, rule: Any, X: Any, number: int, Phi: Any
) -> tuple[int, int, float]:
    """Look at the rows of `X` up to the first that should change the landmarks.

    `number` is that of the event before the first row; `rule.leaned` is brought up to date.

    Returns
    -------
    tuple of int, int, float
        How many events were looked at; the verdict on the last of them: KEEP, ADMIT, or the
        number of the landmark to replace; its Schur complement. `Phi` (n, l) has the
        coordinates of all that were looked at.
    """
    seen, verdict, delta = _watch(
        _with_factor(kernel), _with_columns(span), rule, with_columns(X), number, Phi
    )
    return int(seen), int(verdict), float(delta)


def _with_columns(span: Any) -> Any:
    return span if span.points.shape[1] else span._replace(points=with_columns(span.points))


def _with_factor(kernel: Any) -> Any:
    code, parameter, scale = kernel
    factor = sum_factor(code, parameter, scale, np.dtype(np.float64))
    return int(code), float(parameter), factor
