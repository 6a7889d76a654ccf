"""Training of the kernel model of a leaf, by L-BFGS; see `streamk.prediction.tree`.

Points come in blocks of `GROUP`. Of a block everything stays in the first cache: kernel values, a
matrix (points, landmarks), are weighed, and turned into slopes there. All products of matrices are
the register tiles of `pairwise`, in single precision, as the model predicts; what is summed over
blocks, the parameters and the steps of L-BFGS have double precision. A leaf's numbers depend on
nothing but its own points, so that threads may share the leaves.

Parameters are one array: landmarks (m, d) and scale (d,) over `unit`, weights (m + p, outputs) of m
landmarks and p pairs of them, bias (outputs,).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamk.backends import GROUP, NOWHERE
from streamk.backends.jit.compiling import compiled, fast, part
from streamk.backends.numba_backend.exponential import exponential
from streamk.backends.numba_backend.pairwise import SINGLES, lay, multiply

KEPT = 10
"""Pairs of steps and slopes that L-BFGS keeps."""
_TRIES = 12
"""Lengths of a step, at most."""
_DECREASE, _CURVATURE = 1e-3, 0.9
"""Of Wolfe's strong conditions on a step, as of SciPy."""
_FLAT, _SMALL = 1e-5, 2.2e-9
"""Greatest slope, and relative decrease of the loss, below which it ends: SciPy's."""
_CURVED = 1e-10
"""Least curvature along a step, over that of its slopes, with which L-BFGS keeps it."""
_TILE = GROUP * GROUP
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Leaf(NamedTuple):
    """Points and targets of a leaf, in blocks of `GROUP`, the last one filled up with zeros."""

    points: Any
    """float32 (blocks * GROUP * (d + 1),): points, each with a 1 behind it"""
    squares: Any
    """float32 (blocks, d, GROUP): of the points' columns"""
    targets: Any
    """float32 (blocks, outputs, GROUP)"""
    masses: Any
    """float32 (blocks, GROUP): sums of the targets of classes, 1 of others"""
    pairs: Any
    """int64 (p, 2)"""
    n: int
    m: int
    classifies: bool
    ridge: float
    unit: float


def leaf(
    Z: Any, T: Any, pairs: Any, m: int, *, classifies: bool, ridge: float, unit: float
) -> Leaf:
    """Lay out points (n, d) and targets (n, outputs) of a model with m landmarks."""
    (n, d), q = Z.shape, T.shape[1]
    blocks = -(-n // GROUP)
    points = np.zeros((blocks * GROUP, d + 1), np.float32)
    points[:n, :d] = Z
    points[:n, d] = 1.0
    squares = np.empty((blocks, d, GROUP), np.float32)
    lay(np.square(points[:n, :d]), 0, squares)
    targets = np.empty((blocks, q, GROUP), np.float32)
    lay(T.astype(np.float32), 0, targets)
    masses = np.zeros(blocks * GROUP, np.float32)
    masses[:n] = T.sum(axis=1) if q > 1 else 1.0
    shaped = masses.reshape(blocks, GROUP)
    return Leaf(points.reshape(-1), squares, targets, shaped, pairs, n, m, classifies, ridge, unit)


class _Model(NamedTuple):
    """Parameters as the tiles take them: m and m + p are filled up to groups M and N."""

    landmarks: Any
    """(M, d + 1, GROUP): 2 s l of each column, and -|l|^2"""
    scale: Any
    """(d,): -s^2"""
    weights: Any
    """(N, outputs, GROUP)"""
    rows: Any
    """(outputs, N * GROUP): the same, with rows of zeros that fill tiles"""
    bias: Any


class _Room(NamedTuple):
    """Numbers of a block, and sums over blocks."""

    far: Any
    """(GROUP,): -|s z|^2 of each point, and later the sum of its slopes"""
    kernels: Any
    """(N, points * GROUP)"""
    slopes: Any
    """The same: the loss's derivatives in kernel values, and later in their exponents."""
    across: Any
    """(N * GROUP, points): kernel values"""
    scores: Any
    """(outputs, points): scores, and later the loss's derivatives in them; 0 beyond the outputs"""
    most: Any
    total: Any
    tile: Any
    of_weights: Any
    """float64 (N, outputs * GROUP)"""
    of_points: Any
    """float64 (M, (d + 1) * GROUP): sums of slopes times points, and of slopes"""
    of_squares: Any
    of_bias: Any


@part
def _made(d: Any, q: Any, M: Any, N: Any) -> Any:
    """Return room for a model and its blocks, of zeros."""
    f, rest = np.float32, q % SINGLES
    # Rows beside a whole tile take four times as long each.
    rows = q + SINGLES - rest if 4 * rest > SINGLES else q
    model = _Model(
        np.zeros((M, d + 1, GROUP), f),
        np.zeros(d, f),
        np.zeros((N, q, GROUP), f),
        np.zeros((rows, N * GROUP), f),
        np.zeros(q, f),
    )
    room = _Room(
        np.zeros(GROUP, f),
        np.zeros((N, _TILE), f),
        np.zeros((N, _TILE), f),
        np.zeros((N * GROUP, GROUP), f),
        np.zeros((rows, GROUP), f),
        np.zeros(GROUP, f),
        np.zeros(GROUP, f),
        np.zeros(max(rows, d + 1) * GROUP, f),
        np.zeros((N, q * GROUP)),
        np.zeros((M, (d + 1) * GROUP)),
        np.zeros(d),
        np.zeros(q),
    )
    return model, room


@part
def _place(j: Any, m: Any) -> Any:
    """Return where number j of the basis is: products begin at a group of their own."""
    return j if j < m else (m + GROUP - 1) // GROUP * GROUP + j - m


@part
def _lay_model(leaf: Any, x: Any, model: Any) -> None:
    m, d, q, unit = leaf.m, len(model.scale), len(model.bias), leaf.unit
    basis, L, first = m + len(leaf.pairs), model.landmarks, (m + 1) * d
    for g in range(len(L)):
        for lane in range(GROUP):
            L[g, d, lane] = NOWHERE
    for k in range(d):
        model.scale[k] = -((x[m * d + k] * unit) ** 2)
    for j in range(m):
        g, lane, square = j // GROUP, j % GROUP, 0.0
        for k in range(d):
            at = x[j * d + k] * unit
            L[g, k, lane] = 2.0 * x[m * d + k] * unit * at
            square += at * at
        L[g, d, lane] = -square
    for j in range(basis):
        place = _place(j, m)
        for k in range(q):
            model.rows[k, place] = x[first + j * q + k]
            model.weights[place // GROUP, k, place % GROUP] = x[first + j * q + k]
    for k in range(q):
        model.bias[k] = x[first + basis * q + k]


@part
def _kernels(K: Any, far: Any) -> None:
    """Turn products (points, GROUP) into kernel values."""
    for i in range(GROUP):
        for lane in range(GROUP):
            e = K[i * GROUP + lane] + far[i]
            K[i * GROUP + lane] = exponential(e if e < _ZERO else _ZERO)


@part
def _multiply_pairs(pairs: Any, C: Any, M: Any) -> None:
    """Write the products of pairs of kernel values."""
    for j in range(len(pairs)):
        a, b = pairs[j, 0], pairs[j, 1]
        for i in range(GROUP):
            first = C[a // GROUP, i * GROUP + a % GROUP]
            second = C[b // GROUP, i * GROUP + b % GROUP]
            C[M + j // GROUP, i * GROUP + j % GROUP] = first * second


@part
def _add_slopes(pairs: Any, C: Any, B: Any, M: Any) -> None:
    """Add the derivatives in products to those in the kernel values that they are made of."""
    for j in range(len(pairs)):
        a, b = pairs[j, 0], pairs[j, 1]
        for i in range(GROUP):
            slope = B[M + j // GROUP, i * GROUP + j % GROUP]
            one, other = i * GROUP + a % GROUP, i * GROUP + b % GROUP
            first, second = C[a // GROUP, one], C[b // GROUP, other]
            B[a // GROUP, one] += slope * second
            B[b // GROUP, other] += slope * first


@part
def _score(leaf: Any, b: Any, model: Any, room: Any) -> None:
    """Write the kernel values of a block, and its scores."""
    d, q, M, N = len(model.scale), len(model.bias), len(model.landmarks), len(model.weights)
    C, across, S, row = room.kernels, room.across, room.scores, d + 1
    squares, landmarks = leaf.squares.reshape(-1), model.landmarks.reshape(-1)
    at = b * GROUP * row
    multiply(squares, b * d * GROUP, d, model.scale, 0, 1, d, 1, room.far)
    for v in range(M):
        p = v * row * GROUP
        multiply(landmarks, p, row, leaf.points, at, GROUP, row, 1, C[v])
        _kernels(C[v], room.far)
    _multiply_pairs(leaf.pairs, C, M)
    for v in range(N):
        own = C[v]
        for lane in range(GROUP):
            for i in range(GROUP):
                across[v * GROUP + lane, i] = own[i * GROUP + lane]
    wide = N * GROUP
    rows, scores = model.rows.reshape(-1), S.reshape(-1)
    multiply(across.reshape(-1), 0, wide, rows, 0, len(S), wide, 1, scores)
    for k in range(q):
        for i in range(GROUP):
            S[k, i] += model.bias[k]


@part
def _square(S: Any, T: Any, mass: Any) -> Any:
    """Turn the scores of numbers into the loss's derivatives, and return the loss."""
    total = 0.0
    for k in range(len(T)):
        for i in range(GROUP):
            S[k, i] = (S[k, i] - T[k, i]) * mass[i]
            total += 0.5 * np.float64(S[k, i]) ** 2
    return total


@part
def _logistic(S: Any, T: Any, mass: Any, spare: Any) -> Any:
    """Do so for the scores of two classes."""
    total = 0.0
    for i in range(GROUP):
        spare[i] = exponential(-abs(S[0, i]))
    for i in range(GROUP):
        s, e = S[0, i], spare[i]
        loss = max(np.float64(s), 0.0) + math.log1p(np.float64(e))
        total += np.float64(mass[i]) * (loss - np.float64(T[0, i]) * np.float64(s))
        S[0, i] = mass[i] * ((_ONE if s > _ZERO else e) / (_ONE + e) - T[0, i])
    return total


@part
def _softmax(S: Any, T: Any, mass: Any, most: Any, powers: Any) -> Any:
    """Do so for the scores of several classes."""
    total = 0.0
    for i in range(GROUP):
        most[i], powers[i] = S[0, i], _ZERO
    for k in range(1, len(T)):
        for i in range(GROUP):
            most[i] = S[k, i] if S[k, i] > most[i] else most[i]
    for k in range(len(T)):
        for i in range(GROUP):
            s = S[k, i] - most[i]
            S[k, i] = exponential(s)
            powers[i] += S[k, i]
            total -= np.float64(T[k, i]) * np.float64(s)
    for i in range(GROUP):
        total += np.float64(mass[i]) * math.log(np.float64(powers[i]))
        powers[i] = mass[i] / powers[i]
    for k in range(len(T)):
        for i in range(GROUP):
            S[k, i] = S[k, i] * powers[i] - T[k, i]
    return total


@fast
def _total(K: Any, first: Any) -> Any:
    """Return the sum of GROUP numbers."""
    total = _ZERO
    for lane in range(GROUP):
        total += K[first + lane]
    return total


@part
def _clear(a: Any) -> None:
    for i in range(len(a)):
        a[i] = 0.0


@part
def _add_to(sums_: Any, K: Any) -> None:
    for i in range(len(sums_)):
        sums_[i] += K[i]


@part
def _descend(leaf: Any, b: Any, model: Any, room: Any) -> None:
    """Add a block's derivatives to the sums over blocks."""
    d, q, M, N = len(model.scale), len(model.bias), len(model.landmarks), len(model.weights)
    C, B, errors, tile, row = room.kernels, room.slopes, room.scores.reshape(-1), room.tile, d + 1
    weights, at = model.weights.reshape(-1), b * GROUP * row
    for v in range(N):
        multiply(weights, v * q * GROUP, q, errors, 0, GROUP, 1, GROUP, B[v])
        multiply(C[v], 0, GROUP, errors, 0, len(room.scores), GROUP, 1, tile)
        _add_to(room.of_weights[v], tile)
    _add_slopes(leaf.pairs, C, B, M)
    _clear(room.far)
    for v in range(M):
        own, kernels = B[v], C[v]
        for i in range(_TILE):
            own[i] *= kernels[i]
        for i in range(GROUP):
            room.far[i] += _total(own, i * GROUP)
        multiply(own, 0, GROUP, leaf.points, at, row, 1, row, tile)
        _add_to(room.of_points[v], tile)
    for k in range(q):
        room.of_bias[k] += _total(errors, k * GROUP)
    for k in range(d):
        for i in range(GROUP):
            tile[i] = room.far[i] * leaf.squares[b, k, i]
        room.of_squares[k] += _total(tile, 0)


@part
def _collect(leaf: Any, x: Any, room: Any, g: Any) -> Any:
    """Write the derivatives in the parameters, and return the squares of the weights."""
    m, d, q, unit = leaf.m, len(room.of_squares), len(room.of_bias), leaf.unit
    basis, first, share, norm = m + len(leaf.pairs), (m + 1) * d, 1.0 / leaf.n, 0.0
    factor = 2.0 * share * unit
    for k in range(d):
        g[m * d + k] = -factor * x[m * d + k] * unit * room.of_squares[k]
    for j in range(m):
        sums_, lane = room.of_points[j // GROUP], j % GROUP
        for k in range(d):
            landmark, of_point = x[j * d + k] * unit, sums_[k * GROUP + lane]
            away = x[m * d + k] * unit * of_point - landmark * sums_[d * GROUP + lane]
            g[j * d + k] = factor * away
            g[m * d + k] += factor * landmark * of_point
    for j in range(basis):
        place = _place(j, m)
        for k in range(q):
            w = x[first + j * q + k]
            slope = room.of_weights[place // GROUP, k * GROUP + place % GROUP]
            g[first + j * q + k] = share * slope + leaf.ridge * w
            norm += w * w
    for k in range(q):
        g[first + basis * q + k] = share * room.of_bias[k]
    return norm


@part
def _loss(leaf: Any, x: Any, model: Any, room: Any, g: Any) -> Any:
    """Return the loss of parameters x, and write its derivatives to g."""
    _clear(room.of_weights.reshape(-1))
    _clear(room.of_points.reshape(-1))
    _clear(room.of_squares)
    _clear(room.of_bias)
    _lay_model(leaf, x, model)
    loss = 0.0
    for b in range(len(leaf.squares)):
        _score(leaf, b, model, room)
        S, T, mass = room.scores, leaf.targets[b], leaf.masses[b]
        if not leaf.classifies:
            loss += _square(S, T, mass)
        elif len(T) == 1:
            loss += _logistic(S, T, mass, room.most)
        else:
            loss += _softmax(S, T, mass, room.most, room.total)
        _descend(leaf, b, model, room)
    return loss / leaf.n + 0.5 * leaf.ridge * _collect(leaf, x, room, g)


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
def _aim(g: Any, steps: Any, turns: Any, curved: Any, kept: Any, out: Any) -> None:
    """Write the direction of L-BFGS, of so many pairs of steps and changes of the slopes."""
    few, factors = min(kept, KEPT), np.empty(KEPT)
    for i in range(len(g)):
        out[i] = -g[i]
    for age in range(few):
        at = (kept - 1 - age) % KEPT
        factors[at] = _dot(steps[at], out) / curved[at]
        _add(-factors[at], turns[at], out)
    if few:
        last = (kept - 1) % KEPT
        size = curved[last] / _dot(turns[last], turns[last])
        for i in range(len(g)):
            out[i] *= size
    for age in range(few - 1, -1, -1):
        at = (kept - 1 - age) % KEPT
        _add(factors[at] - _dot(turns[at], out) / curved[at], steps[at], out)


@part
def _keep(out: Any, turn: Any, steps: Any, turns: Any, curved: Any, kept: Any) -> Any:
    """Keep a step and the change of the slopes if the loss is curved there; return how many are."""
    curvature, at = _dot(out, turn), kept % KEPT
    if not curvature > _CURVED * _dot(turn, turn):
        return kept
    curved[at] = curvature
    for i in range(len(out)):
        steps[at, i], turns[at, i] = out[i], turn[i]
    return kept + 1


@part
def _steepest(g: Any) -> Any:
    most = 0.0
    for i in range(len(g)):
        most = max(most, abs(g[i]))
    return most


@part
def _between(a: Any, f: Any, s: Any, b: Any, f_b: Any, s_b: Any) -> Any:
    """Return where the cubic of two losses and slopes is least, well between a and b."""
    width = b - a
    bend = 3.0 * (f - f_b) / width + s + s_b
    root = math.sqrt(max(bend * bend - s * s_b, 0.0))
    share = (bend - s + root) / (s_b - s + 2.0 * root)
    return a + width * min(max(share, 0.1), 0.9)


@part
def _beyond(a: Any, s: Any, b: Any, s_b: Any, high: Any) -> Any:
    """Return where the slope may be 0 beyond b, where it is still as steep nearly as at a."""
    if high < np.inf:
        return 0.5 * (b + high)
    width = b - a
    away = s_b / (s - s_b) if s_b > s else np.inf
    return b + width * min(max(away, 1.1), 4.0)


@compiled
def learn(leaf: Any, iterations: Any, x: Any, g: Any) -> Any:
    """Move the parameters x to where the loss is less; return it, and write its slopes to g."""
    size, d, q, m = len(x), leaf.squares.shape[1], leaf.targets.shape[1], leaf.m
    M = (m + GROUP - 1) // GROUP
    model, room = _made(d, q, M, M + (len(leaf.pairs) + GROUP - 1) // GROUP)
    moved, anew, out, turn = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for i in range(size):
        moved[i] = x[i]
    steps, turns, curved = np.empty((KEPT, size)), np.empty((KEPT, size)), np.empty(KEPT)
    loss, slope, length, high, kept, tries = np.inf, 0.0, 0.0, np.inf, 0, 0
    low, low_loss, low_slope = 0.0, 0.0, 0.0
    while True:
        found, rise = _loss(leaf, moved, model, room, anew), _dot(anew, out)
        above = not found <= loss + _DECREASE * length * slope
        if tries and tries < _TRIES and (above or abs(rise) > -_CURVATURE * slope):
            if above or rise > 0.0:
                high = length
                after = _between(low, low_loss, low_slope, length, found, rise)
            else:
                after = _beyond(low, low_slope, length, rise, high)
                low, low_loss, low_slope = length, found, rise
            _add(after - length, out, moved)
            length = after
            tries += 1
            continue
        if tries:
            if not found < loss:
                return loss
            for i in range(size):
                out[i], turn[i] = moved[i] - x[i], anew[i] - g[i]
            kept = _keep(out, turn, steps, turns, curved, kept)
            if loss - found <= _SMALL * max(abs(loss), abs(found), 1.0):
                iterations = 0
        loss = found
        for i in range(size):
            x[i], g[i] = moved[i], anew[i]
        if iterations <= 0 or _steepest(g) <= _FLAT:
            return loss
        iterations -= 1
        _aim(g, steps, turns, curved, kept, out)
        slope, high, tries = _dot(g, out), np.inf, 1
        low, low_loss, low_slope = 0.0, loss, slope
        length = 1.0 if kept else 1.0 / math.sqrt(_dot(g, g))
        _add(length, out, moved)
