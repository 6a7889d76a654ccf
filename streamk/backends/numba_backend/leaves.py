"""Training of the kernel model of a leaf, by L-BFGS; see `streamk.prediction.tree`.

Points come in blocks of `GROUP`. Of a block everything stays in the first cache: kernel values, a
matrix (points, landmarks), are summed up, weighed, and turned into slopes there. All products of
matrices are the register tiles of `pairwise`, in single precision, as the model predicts; what is
summed over blocks, the parameters and the steps of L-BFGS have double precision. A leaf's numbers
depend on nothing but its own points, so that threads may share the leaves.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamk.backends import GROUP, NOWHERE, KernelCode
from streamk.backends.numba_backend.compiling import compiled, fast, part
from streamk.backends.numba_backend.pairwise import lay, sums
from streamk.backends.numba_backend.simd import exponential

KEPT = 10
"""Pairs of steps and slopes that L-BFGS keeps."""
_LINEAR = KernelCode.LINEAR
_TRIES = 12
"""Lengths of a step, at most."""
_DECREASE, _CURVATURE = 1e-4, 0.9
"""Of Wolfe's conditions on a step."""
_FLAT, _SMALL = 1e-5, 2.2e-9
"""Greatest slope, and relative decrease of the loss, below which it ends."""
_TILE = GROUP * GROUP


class Points(NamedTuple):
    """Points and targets of a leaf, in blocks of `GROUP`, the last one filled up with zeros."""

    rows: Any
    """float32 (blocks * GROUP, d + 1): points, and 1."""
    squares: Any
    """float32 (blocks, d, GROUP)"""
    targets: Any
    """float32 (blocks, outputs, GROUP)"""
    masses: Any
    """float32 (blocks, GROUP): sums of the targets of classes, 1 of others"""
    n: int


def laid(Z: Any, T: Any) -> Points:
    """Lay out points (n, d) and targets (n, outputs)."""
    (n, d), q = Z.shape, T.shape[1]
    blocks = -(-n // GROUP)
    rows = np.zeros((blocks * GROUP, d + 1), np.float32)
    rows[:n, :d] = Z
    rows[:n, d] = 1.0
    squares = np.empty((blocks, d, GROUP), np.float32)
    lay(np.square(rows[:n, :d]), 0, squares)
    targets, masses = np.empty((blocks, q, GROUP), np.float32), np.zeros((blocks, GROUP))
    lay(T.astype(np.float32), 0, targets)
    masses.reshape(-1)[:n] = T.sum(axis=1) if q > 1 else 1.0
    return Points(rows, squares, targets, masses.astype(np.float32), n)


@part
def _lay_model(
    x: Any, m: Any, d: Any, q: Any, basis: Any, unit: Any, L: Any, V: Any, W: Any
) -> None:
    """Lay out parameters: landmarks in the lanes of L, weights in those of V, and as rows of W."""
    scale = x[m * d : (m + 1) * d]
    for j in range(m):
        g, lane, square = j // GROUP, j % GROUP, 0.0
        for k in range(d):
            at = x[j * d + k] * unit
            L[g, k, lane] = 2.0 * scale[k] * unit * at
            square += at * at
        L[g, d, lane] = -square
    first = (m + 1) * d
    # Products begin at a group of their own.
    for j in range(basis):
        place = j if j < m else (m + GROUP - 1) // GROUP * GROUP + j - m
        for k in range(q):
            W[k, place] = x[first + j * q + k]
            V[place // GROUP, k, place % GROUP] = x[first + j * q + k]


@part
def _errors(S: Any, T: Any, mass: Any, q: Any, classifies: Any, spare: Any) -> Any:
    """Turn the scores of a block into the derivatives of its loss, which is returned."""
    one, total = np.float32(1.0), 0.0
    if not classifies:
        for k in range(q):
            for i in range(GROUP):
                e = (S[k, i] - T[k, i]) * mass[i]
                S[k, i] = e
                total += 0.5 * np.float64(e) * np.float64(e)
    elif q == 1:
        for i in range(GROUP):
            spare[i] = exponential(-abs(S[0, i]))
        for i in range(GROUP):
            s, e = S[0, i], spare[i]
            above = max(np.float64(s), 0.0) + math.log1p(np.float64(e))
            total += np.float64(mass[i]) * (above - np.float64(T[0, i]) * np.float64(s))
            p = (one if s > 0.0 else e) / (one + e)
            S[0, i] = mass[i] * (p - T[0, i])
    else:
        for i in range(GROUP):
            spare[i] = S[0, i]
        for k in range(1, q):
            for i in range(GROUP):
                spare[i] = S[k, i] if S[k, i] > spare[i] else spare[i]
        powers = spare[GROUP:]
        powers[:GROUP] = np.float32(0.0)
        for k in range(q):
            for i in range(GROUP):
                s = S[k, i] - spare[i]
                total -= np.float64(T[k, i]) * np.float64(s)
                S[k, i] = exponential(s)
                powers[i] += S[k, i]
        for i in range(GROUP):
            total += np.float64(mass[i]) * math.log(np.float64(powers[i]))
            spare[i] = mass[i] / powers[i]
        for k in range(q):
            for i in range(GROUP):
                S[k, i] = S[k, i] * spare[i] - T[k, i]
    return total


@part
def _kernels(K: Any, far: Any) -> None:
    """Turn products (points, GROUP) into kernel values; `far` are the points' own squares."""
    zero = np.float32(0.0)
    for i in range(GROUP):
        for lane in range(GROUP):
            e = K[i * GROUP + lane] + far[i]
            K[i * GROUP + lane] = exponential(e if e < zero else zero)


@part
def _add_products(C: Any, pairs: Any, M: Any) -> None:
    """Write the products of pairs of kernel values."""
    for j in range(len(pairs)):
        a, b = pairs[j, 0], pairs[j, 1]
        for i in range(GROUP):
            first = C[a // GROUP, i * GROUP + a % GROUP]
            second = C[b // GROUP, i * GROUP + b % GROUP]
            C[M + j // GROUP, i * GROUP + j % GROUP] = first * second


@part
def _add_slopes(C: Any, B: Any, pairs: Any, M: Any) -> None:
    """Add the derivatives in products to those in the kernel values that they are made of."""
    for j in range(len(pairs)):
        a, b = pairs[j, 0], pairs[j, 1]
        for i in range(GROUP):
            slope = B[M + j // GROUP, i * GROUP + j % GROUP]
            one, other = i * GROUP + a % GROUP, i * GROUP + b % GROUP
            first, second = C[a // GROUP, one], C[b // GROUP, other]
            B[a // GROUP, one] += slope * second
            B[b // GROUP, other] += slope * first


@fast
def _by_point(K: Any, i: Any) -> Any:
    """Return the sum of a point's slopes."""
    total = np.float32(0.0)
    for lane in range(GROUP):
        total += K[i * GROUP + lane]
    return total


@part
def _added(K: Any, G: Any) -> None:
    for i in range(len(G)):
        G[i] += K[i]


@compiled
def loss_and_slopes(
    rows: Any, squares: Any, targets: Any, masses: Any, n: Any, pairs: Any, m: Any,
    classifies: Any, ridge: Any, unit: Any, x: Any, g: Any,
) -> Any:  # fmt: skip
    """Return the loss of parameters x, and write its derivatives to g."""
    d, q, zero = rows.shape[1] - 1, targets.shape[1], np.float32(0.0)
    M = (m + GROUP - 1) // GROUP
    all_ = M + (len(pairs) + GROUP - 1) // GROUP
    basis, wide = m + len(pairs), all_ * GROUP
    L, V = np.zeros((M, d + 1, GROUP), np.float32), np.zeros((all_, q, GROUP), np.float32)
    W = np.zeros((q, wide), np.float32)
    L[:, d] = NOWHERE
    _lay_model(x, m, d, q, basis, unit, L, V, W)
    flat, by_output, by_basis = L.reshape(-1), V.reshape(-1), W.reshape(-1)
    scale, first = x[m * d : (m + 1) * d], (m + 1) * d
    bias = x[first + basis * q :]
    inverse = np.empty(d, np.float32)
    for k in range(d):
        inverse[k] = -((scale[k] * unit) ** 2)
    C, B = np.zeros((all_, _TILE), np.float32), np.zeros((all_, _TILE), np.float32)
    across, S = np.empty((wide, GROUP), np.float32), np.empty((q, GROUP), np.float32)
    far, spare = np.empty(GROUP, np.float32), np.empty(2 * GROUP, np.float32)
    tile = np.empty(max(q, d + 1) * GROUP, np.float32)
    of_weights, of_points = np.zeros((all_, q * GROUP)), np.zeros((M, (d + 1) * GROUP))
    of_squares, of_bias = np.zeros(d), np.zeros(q)
    points, apart, loss = rows.reshape(-1), squares.reshape(-1), 0.0
    columns, scores, errors = across.reshape(-1), S.reshape(-1), S.reshape(-1)
    for b in range(len(squares)):
        at = b * GROUP * (d + 1)
        sums(_LINEAR, apart, b * d * GROUP, d, inverse, 0, 1, d, 1, zero, far)
        for v in range(M):
            C_v = C[v]
            sums(_LINEAR, flat, v * (d + 1) * GROUP, d + 1, points, at, GROUP, d + 1, 1, zero, C_v)
            _kernels(C_v, far)
        _add_products(C, pairs, M)
        for v in range(all_):
            for i in range(GROUP):
                for lane in range(GROUP):
                    across[v * GROUP + lane, i] = C[v, i * GROUP + lane]
        sums(_LINEAR, columns, 0, wide, by_basis, 0, q, wide, 1, zero, scores)
        for k in range(q):
            more = np.float32(bias[k])
            for i in range(GROUP):
                S[k, i] += more
        loss += _errors(S, targets[b], masses[b], q, classifies, spare)
        for k in range(q):
            for i in range(GROUP):
                of_bias[k] += S[k, i]
        for v in range(all_):
            sums(_LINEAR, by_output, v * q * GROUP, q, errors, 0, GROUP, 1, GROUP, zero, B[v])
            sums(_LINEAR, C[v], 0, GROUP, errors, 0, q, GROUP, 1, zero, tile)
            _added(tile, of_weights[v])
        _add_slopes(C, B, pairs, M)
        for i in range(GROUP):
            far[i] = zero
        for v in range(M):
            B_v, C_v = B[v], C[v]
            for i in range(_TILE):
                B_v[i] *= C_v[i]
            for i in range(GROUP):
                far[i] += _by_point(B_v, i)
            sums(_LINEAR, B_v, 0, GROUP, points, at, d + 1, 1, d + 1, zero, tile)
            _added(tile, of_points[v])
        for k in range(d):
            total = zero
            for i in range(GROUP):
                total += far[i] * squares[b, k, i]
            of_squares[k] += total
    share, norm = 1.0 / n, 0.0
    for k in range(d):
        g[m * d + k] = -2.0 * share * unit * (scale[k] * unit) * of_squares[k]
    for j in range(m):
        v, lane = j // GROUP, j % GROUP
        of_landmark = of_points[v, d * GROUP + lane]
        for k in range(d):
            landmark, of_point = x[j * d + k] * unit, of_points[v, k * GROUP + lane]
            slope = scale[k] * unit * of_point - landmark * of_landmark
            g[j * d + k] = 2.0 * share * unit * slope
            g[m * d + k] += 2.0 * share * unit * landmark * of_point
    for j in range(basis):
        place = j if j < m else M * GROUP + j - m
        for k in range(q):
            w = x[first + j * q + k]
            slope = of_weights[place // GROUP, k * GROUP + place % GROUP]
            g[first + j * q + k] = share * slope + ridge * w
            norm += w * w
    for k in range(q):
        g[first + basis * q + k] = share * of_bias[k]
    return loss * share + 0.5 * ridge * norm


@fast
def _dot(a: Any, b: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@part
def _add(factor: Any, a: Any, to: Any) -> None:
    for i in range(len(to)):
        to[i] += factor * a[i]


@part
def _direction(g: Any, steps: Any, slopes: Any, products: Any, kept: Any, out: Any) -> None:
    """Write minus the slopes times L-BFGS's inverse of the curvature, of `kept` pairs in all."""
    few, factors = len(steps), np.empty(len(steps))
    for i in range(len(g)):
        out[i] = -g[i]
    for age in range(min(kept, few)):
        at = (kept - 1 - age) % few
        factors[at] = _dot(steps[at], out) / products[at]
        _add(-factors[at], slopes[at], out)
    if kept:
        last = (kept - 1) % few
        size = products[last] / _dot(slopes[last], slopes[last])
        for i in range(len(g)):
            out[i] *= size
    for age in range(min(kept, few) - 1, -1, -1):
        at = (kept - 1 - age) % few
        _add(factors[at] - _dot(slopes[at], out) / products[at], steps[at], out)


@compiled
def refine(
    rows: Any, squares: Any, targets: Any, masses: Any, n: Any, pairs: Any, m: Any,
    classifies: Any, ridge: Any, unit: Any, iterations: Any, x: Any,
) -> Any:  # fmt: skip
    """Move the parameters x to where the loss is less, and return how often it was computed."""
    size = len(x)
    g, moved, slopes_there = np.empty(size), np.empty(size), np.empty(size)
    direction, products = np.empty(size), np.empty(KEPT)
    steps, slopes = np.empty((KEPT, size)), np.empty((KEPT, size))
    loss = loss_and_slopes(
        rows, squares, targets, masses, n, pairs, m, classifies, ridge, unit, x, g
    )
    count, kept = 1, 0
    for _ in range(iterations):
        if np.abs(g).max() <= _FLAT:
            break
        _direction(g, steps, slopes, products, kept, direction)
        slope = _dot(g, direction)
        if not slope < 0.0:
            break
        low, high, found = 0.0, np.inf, np.inf
        length = 1.0 if kept else min(1.0, 1.0 / math.sqrt(_dot(g, g)))
        for _ in range(_TRIES):
            for i in range(size):
                moved[i] = x[i] + length * direction[i]
            found = loss_and_slopes(
                rows, squares, targets, masses, n, pairs, m, classifies, ridge, unit, moved,
                slopes_there,
            )  # fmt: skip
            count += 1
            if not found <= loss + _DECREASE * length * slope:
                high = length
                least = -0.5 * slope * length * length / (found - loss - length * slope)
                middle = 0.5 * (low + high)
                near = low + 0.1 * (high - low)
                length = least if near < least < middle else middle
            elif _dot(slopes_there, direction) < _CURVATURE * slope:
                low = length
                length = 2.0 * length if high == np.inf else 0.5 * (low + high)
            else:
                break
        if not found < loss:
            break
        at = kept % KEPT
        for i in range(size):
            steps[at, i] = moved[i] - x[i]
            slopes[at, i] = slopes_there[i] - g[i]
            x[i], g[i] = moved[i], slopes_there[i]
        products[at] = _dot(steps[at], slopes[at])
        if products[at] > 1e-10 * _dot(slopes[at], slopes[at]):
            kept += 1
        before, loss = loss, found
        if before - loss <= _SMALL * max(abs(before), abs(loss), 1.0):
            break
    return count
