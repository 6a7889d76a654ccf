"""The compiled backend: plain loops that LLVM turns into vector code.

The loops over a chunk run over `CHUNK` neighbouring floats and nothing else, which is what the
vectoriser understands. ``contract`` lets it fuse a multiply and an add, which changes no order;
reassociation stays off, because a row's result must not depend on its batch. The rounding to a
turn and the cosine are written without calls: a library cosine would not be vectorised.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import overload

from streamk.backends import (
    CHUNK,
    FAIR_COIN,
    FARTHEST,
    LANES,
    ROUNDING,
    TAG_FREQUENCY,
    TAG_PHASE,
    TAG_RADIUS,
    Law,
    LossCode,
)

_compile = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
# What the fused step and the step in parts share outside the loops over features must round in the
# same way in both, so nothing may be fused there.
_exact = njit(cache=True, nogil=True, error_model="numpy")

_CAUCHY, _LAPLACE, _STUDENT = int(Law.CAUCHY), int(Law.LAPLACE), int(Law.STUDENT)
_SQUARED, _HINGE = int(LossCode.SQUARED), int(LossCode.HINGE)
_SQUARED_HINGE, _LOGISTIC = int(LossCode.SQUARED_HINGE), int(LossCode.LOGISTIC)
_SOFTMAX, _HUBER = int(LossCode.SOFTMAX), int(LossCode.HUBER)
_EPSILON_INSENSITIVE = int(LossCode.EPSILON_INSENSITIVE)
_GROUPS = CHUNK // 4

ROWS = 16
"""Rows that pass through a chunk together: their phases and features stay in the first cache."""


@_compile
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Philox4x32-10 (Salmon et al. 2011); all arguments and results are 32-bit words in uint64."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c0, c1, c2, c3


@_compile
def _uniforms(group: Any, tag: Any, key: Any, seed: Any) -> Any:
    """Return the four uniforms in (0, 1) of one call of the generator."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = philox(
        np.uint64(group), np.uint64(tag), key & low, key >> half, seed & low, seed >> half
    )
    unit = 2.0**-32
    return (c0 + 0.5) * unit, (c1 + 0.5) * unit, (c2 + 0.5) * unit, (c3 + 0.5) * unit


@_compile
def _normals(group: Any, tag: Any, key: Any, seed: Any) -> Any:
    u0, u1, u2, u3 = _uniforms(group, tag, key, seed)
    r, s = math.sqrt(-2.0 * math.log(u0)), math.sqrt(-2.0 * math.log(u2))
    p, q = 2.0 * math.pi * u1, 2.0 * math.pi * u3
    return r * math.cos(p), r * math.sin(p), s * math.cos(q), s * math.sin(q)


@_compile
def _cauchy(u: Any) -> Any:
    return math.tan(math.pi * (u - 0.5))


@_compile
def _laplace(u: Any) -> Any:
    return math.log(2.0 * u) if u < 0.5 else -math.log(2.0 * (1.0 - u))


@_compile
def _fill(seed: Any, law: Any, dof: Any, scale: Any, keys: Any, first: Any, W: Any, b: Any) -> None:
    zero = np.uint64(0)
    radius = np.ones(CHUNK)
    for c in range(W.shape[0]):
        for g in range(_GROUPS):
            group, i = (first + c) * _GROUPS + g, 4 * g
            b[c, i], b[c, i + 1], b[c, i + 2], b[c, i + 3] = _uniforms(group, TAG_PHASE, zero, seed)
            if law == _STUDENT:
                r0, r1, r2, r3 = 0.0, 0.0, 0.0, 0.0
                for t in range(dof):
                    z0, z1, z2, z3 = _normals(group, TAG_RADIUS + t, zero, seed)
                    r0, r1, r2, r3 = r0 + z0 * z0, r1 + z1 * z1, r2 + z2 * z2, r3 + z3 * z3
                radius[i], radius[i + 1] = math.sqrt(dof / r0), math.sqrt(dof / r1)
                radius[i + 2], radius[i + 3] = math.sqrt(dof / r2), math.sqrt(dof / r3)
        for j in range(keys.shape[0]):
            for g in range(_GROUPS):
                group, i = (first + c) * _GROUPS + g, 4 * g
                if law in (_CAUCHY, _LAPLACE):
                    u0, u1, u2, u3 = _uniforms(group, TAG_FREQUENCY, keys[j], seed)
                    if law == _CAUCHY:
                        w0, w1, w2, w3 = _cauchy(u0), _cauchy(u1), _cauchy(u2), _cauchy(u3)
                    else:
                        w0, w1, w2, w3 = _laplace(u0), _laplace(u1), _laplace(u2), _laplace(u3)
                else:
                    w0, w1, w2, w3 = _normals(group, TAG_FREQUENCY, keys[j], seed)
                W[c, j, i], W[c, j, i + 1] = w0 * radius[i] * scale, w1 * radius[i + 1] * scale
                W[c, j, i + 2] = w2 * radius[i + 2] * scale
                W[c, j, i + 3] = w3 * radius[i + 3] * scale


def frequencies(
    seed: int, law: int, dof: int, scale: float, keys: Any, first_chunk: int, W: Any, b: Any
) -> None:
    """Fill chunks of frequencies and phases, both in turns, from the counter-based generator."""
    _fill(np.uint64(seed), int(law), dof, scale / (2.0 * math.pi), keys, first_chunk, W, b)


def _cos_turns(u: Any) -> Any:
    """Return cos(2 pi u), with an error of 4.2e-7 in single and 1e-14 in double precision.

    Adding and subtracting 1.5 * 2^(mantissa bits) leaves the nearest integer, so what remains is in
    [-1/2, 1/2]; on it a polynomial in t^2 does: minimax of degree 6 in single precision, Taylor's
    of a quarter of the angle, doubled twice, in double precision. A phase too large to have a
    fraction, or infinite, counts as a whole turn: the polynomial must not run away with it.
    """
    return np.cos(2.0 * np.pi * u)


@overload(_cos_turns)
def _compiled_cos_turns(u: Any) -> Any:
    if u == types.float32:
        f32 = np.float32
        a0, a1, a2, a3 = f32(1.0), f32(-19.739204), f32(64.93912), f32(-85.450165)
        a4, a5, a6 = f32(60.16783), f32(-25.968313), f32(6.5296106)
        big, half, zero = f32(1.5 * 2.0**23), f32(0.5), f32(0.0)

        def single(u: Any) -> Any:
            t = u - ((u + big) - big)
            t = t if abs(t) <= half else zero
            s = t * t
            return (((((a6 * s + a5) * s + a4) * s + a3) * s + a2) * s + a1) * s + a0

        return single

    c1, c2, c3, c4, c5, c6, c7, c8 = (
        (-1) ** k * (math.pi / 2) ** (2 * k) / math.factorial(2 * k) for k in range(1, 9)
    )

    def double(u: Any) -> Any:
        t = u - ((u + 6755399441055744.0) - 6755399441055744.0)
        t = t if abs(t) <= 0.5 else 0.0
        s = t * t
        c = c8 * s + c7
        c = (((((c * s + c6) * s + c5) * s + c4) * s + c3) * s + c2) * s + c1
        c = c * s + 1.0
        c = 2.0 * c * c - 1.0
        return 2.0 * c * c - 1.0

    return double


@_compile
def _project(X: Any, W: Any, b: Any, cosine: Any, u: Any, phi: Any) -> None:
    """Write the features of a few rows and one chunk into phi, by way of the phases u."""
    rows, d = X.shape
    whole = d - d % 4
    for r in range(rows):
        x, v = X[r], u[r]
        for i in range(CHUNK):
            v[i] = b[i] if cosine else 0.0
        for j in range(0, whole, 4):
            x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
            for i in range(CHUNK):
                v[i] = (((v[i] + x0 * W[j, i]) + x1 * W[j + 1, i]) + x2 * W[j + 2, i]) + x3 * W[
                    j + 3, i
                ]
        for j in range(whole, d):
            x0 = x[j]
            for i in range(CHUNK):
                v[i] += x0 * W[j, i]
    # One loop over all of them: entering a vector loop costs as much as a few of its rounds.
    phases, features = u.reshape(-1), phi.reshape(-1)
    if cosine:
        for i in range(rows * CHUNK):
            features[i] = _cos_turns(phases[i])
    else:
        for i in range(rows * CHUNK):
            features[i] = phases[i]


@_compile
def _add(A: Any, phi: Any, acc: Any) -> None:
    """Add one chunk's coefficients times a few rows' features to the rows' partial sums."""
    for k in range(A.shape[0]):
        a = A[k]
        for r in range(acc.shape[0]):
            f, s = phi[r], acc[r, k]
            for i in range(LANES):
                s[i] = (
                    ((s[i] + a[i] * f[i]) + a[i + LANES] * f[i + LANES])
                    + a[i + 2 * LANES] * f[i + 2 * LANES]
                ) + a[i + 3 * LANES] * f[i + 3 * LANES]


@_compile
def _accumulate(X: Any, W: Any, b: Any, A: Any, cosine: Any, u: Any, phi: Any, acc: Any) -> None:
    n = X.shape[0]
    for c in range(W.shape[0]):
        for r in range(0, n, ROWS):
            end = min(r + ROWS, n)
            _project(X[r:end], W[c], b[c], cosine, u, phi)
            _add(A[c], phi, acc[r:end])


@_compile
def _add_gradient(G: Any, phi: Any, out: Any) -> None:
    """Add a few rows' loss gradients times their features to one chunk's sums."""
    for k in range(out.shape[0]):
        o = out[k]
        for r in range(G.shape[0]):
            g, f = G[r, k], phi[r]
            for i in range(CHUNK):
                o[i] += g * f[i]


@_compile
def _gradient(X: Any, W: Any, b: Any, G: Any, cosine: Any, u: Any, phi: Any, out: Any) -> None:
    n = X.shape[0]
    for c in range(W.shape[0]):
        out[c] = 0.0
        for r in range(0, n, ROWS):
            end = min(r + ROWS, n)
            _project(X[r:end], W[c], b[c], cosine, u, phi)
            _add_gradient(G[r:end], phi, out[c])


@_compile
def _features(X: Any, W: Any, b: Any, cosine: Any, u: Any, phi: Any, out: Any) -> None:
    n = X.shape[0]
    for c in range(W.shape[0]):
        for r in range(0, n, ROWS):
            end = min(r + ROWS, n)
            _project(X[r:end], W[c], b[c], cosine, u, phi)
            out[r:end, c * CHUNK : (c + 1) * CHUNK] = phi[: end - r]


def _scratch(X: Any, W: Any, wide: bool) -> tuple[Any, Any, Any]:
    """Return X, the phases and the features of a few rows, in the precision of each."""
    shape = (min(ROWS, len(X)), CHUNK)
    phi = np.empty(shape, W.dtype)
    if wide:
        return X.astype(np.float64), np.empty(shape), phi
    return X, np.empty(shape, W.dtype), phi


def accumulate(X: Any, W: Any, b: Any, A: Any, cosine: bool, wide: bool, acc: Any) -> None:
    """Add each chunk's coefficients times features to the partial sums `acc`."""
    rows, u, phi = _scratch(X, W, wide)
    _accumulate(rows, W, b, A, cosine, u, phi, acc)


def gradient(X: Any, W: Any, b: Any, G: Any, cosine: bool, wide: bool, out: Any) -> None:
    """Write the sum over the rows of G times features into `out`."""
    rows, u, phi = _scratch(X, W, wide)
    _gradient(rows, W, b, G, cosine, u, phi, out)


def features(X: Any, W: Any, b: Any, cosine: bool, wide: bool, out: Any) -> None:
    """Write the features of each row into `out`, chunk after chunk."""
    rows, u, phi = _scratch(X, W, wide)
    _features(rows, W, b, cosine, u, phi, out)


@_exact
def finish(acc: Any, factor: Any, F: Any) -> None:
    """Write the partial sums' sum, times the factor, into `F`."""
    for r in range(F.shape[0]):
        for k in range(F.shape[1]):
            total = 0.0
            for i in range(LANES):
                total += acc[r, k, i]
            F[r, k] = total * factor


@_exact
def _slope(code: Any, p: Any, f: Any, y: Any) -> Any:
    """Return the derivative in f of a loss of one output measured against y."""
    r = f - y
    if code == _SQUARED:
        return r
    if code == _HINGE:
        return -y if y * f < 1.0 else 0.0
    if code == _SQUARED_HINGE:
        return -y * max(0.0, 1.0 - y * f)
    if code == _LOGISTIC:
        e = math.exp(-abs(f))
        return -y * ((1.0 if y * f <= 0 else e) / (1.0 + e))
    if code == _HUBER:
        return min(max(r, -p), p)
    if code == _EPSILON_INSENSITIVE:
        return 0.0 if abs(r) <= p else math.copysign(1.0, r)
    if r == 0.0:
        return 0.0
    return 1.0 - p if r > 0 else -p


@_exact
def _softmax_slopes(f: Any, true: Any, weight: Any, g: Any) -> None:
    top, total = f.max(), 0.0
    for k in range(f.shape[0]):
        total += math.exp(f[k] - top)
    for k in range(f.shape[0]):
        g[k] = weight * (math.exp(f[k] - top) / total - (1.0 if k == true else 0.0))


@_exact
def _crammer_singer_slopes(squared: Any, f: Any, true: Any, weight: Any, g: Any) -> None:
    best = 1 if true == 0 else 0
    for k in range(f.shape[0]):
        g[k] = 0.0
        if k != true and f[k] > f[best]:
            best = k
    margin = 1.0 + f[best] - f[true]
    if margin > 0.0:
        slope = weight * (margin if squared else 1.0)
        g[true], g[best] = -slope, slope


@_exact
def loss_gradient(
    code: Any, parameter: Any, classes: Any, F: Any, y: Any, weight: Any, G: Any
) -> None:
    """Write the weighted (sub)gradient of each row's loss in its outputs into `G`."""
    outputs = F.shape[1]
    for r in range(F.shape[0]):
        if code == _SOFTMAX:
            _softmax_slopes(F[r], int(y[r]), weight, G[r])
        elif outputs > 1 and code in (_HINGE, _SQUARED_HINGE):
            _crammer_singer_slopes(code == _SQUARED_HINGE, F[r], int(y[r]), weight, G[r])
        else:
            for k in range(outputs):
                target = y[r]
                if classes:
                    positive = y[r] == 1.0 if outputs == 1 else y[r] == k
                    target = 1.0 if positive else -1.0
                G[r, k] = weight * _slope(code, parameter, F[r, k], target)


@_exact
def descend(A: Any, squares: Any, g: Any, rate: Any, start: Any, stop: Any) -> None:
    """Subtract ``rate * g`` from the features start...stop of these chunks.

    Where there are `squares`, they take in the squared gradient, and the gradient is divided by
    their root.
    """
    small, factor = A.dtype.type(1e-8), A.dtype.type(rate)
    for c in range(A.shape[0]):
        low, high = max(0, start - c * CHUNK), min(CHUNK, stop - c * CHUNK)
        for k in range(A.shape[1]):
            a, d = A[c, k], g[c, k]
            if squares.shape[0] == 0:
                for i in range(low, high):
                    a[i] -= factor * d[i]
            else:
                s = squares[c, k]
                for i in range(low, high):
                    s[i] += d[i] * d[i]
                    a[i] -= factor * (d[i] / (np.sqrt(s[i]) + small))


@_compile
def _predict_keeping(
    X: Any, W: Any, b: Any, A: Any, first: Any, cosine: Any, u: Any, phi: Any, kept: Any, acc: Any
) -> None:
    """Accumulate, keeping the features of the chunks from `first` on that `kept` has room for."""
    n = X.shape[0]
    for c in range(W.shape[0]):
        inside = first <= c < first + kept.shape[0]
        for r in range(0, n, ROWS):
            end = min(r + ROWS, n)
            some = kept[c - first, r:end] if inside else phi
            _project(X[r:end], W[c], b[c], cosine, u, some)
            _add(A[c], some, acc[r:end])


@_compile
def _gradient_of(kept: Any, G: Any, out: Any) -> None:
    for c in range(kept.shape[0]):
        out[c] = 0.0
        _add_gradient(G, kept[c], out[c])


@_exact
def _step(
    X: Any,
    y: Any,
    W: Any,
    b: Any,
    A: Any,
    squares: Any,
    block: Any,
    cosine: Any,
    loss: Any,
    factor: Any,
    weight: Any,
    rate: Any,
    u: Any,
) -> Any:
    first, start, stop = block
    code, parameter, classes = loss
    n, outputs, chunks = X.shape[0], A.shape[1], (stop + CHUNK - 1) // CHUNK
    acc = np.zeros((n, outputs, LANES), A.dtype)
    phi, kept = np.empty((min(ROWS, n), CHUNK), A.dtype), np.empty((chunks, n, CHUNK), A.dtype)
    _predict_keeping(X, W, b, A, first, cosine, u, phi, kept, acc)
    F, G = np.empty((n, outputs)), np.empty((n, outputs), A.dtype)
    finish(acc, factor, F)
    if not np.isfinite(F).all():
        return False
    loss_gradient(code, parameter, classes, F, y, weight, G)
    g = np.empty((chunks, outputs, CHUNK), A.dtype)
    _gradient_of(kept, G, g)
    last = first + chunks
    descend(A[first:last], squares[first:last], g, rate, start, stop)
    return True


def step(
    X: Any,
    y: Any,
    W: Any,
    b: Any,
    A: Any,
    squares: Any,
    block: tuple[int, int, int],
    cosine: bool,
    wide: bool,
    loss: tuple[int, float, bool],
    factor: float,
    weight: float,
    rate: float,
) -> bool:
    """Predict the events and descend on the chunks of `block`, unless a prediction overflowed.

    `block` is its first chunk and its features start and stop, counted from that chunk.
    """
    rows, u, _ = _scratch(X, W, wide)
    done: bool = _step(rows, y, W, b, A, squares, block, cosine, loss, factor, weight, rate, u)
    return done


@_exact
def measure(X: Any, count: Any, mean: Any, squares: Any, numeric: Any) -> None:
    """Take rows into each column's count, mean and sum of squared deviations (Chan et al. 1979).

    A NaN is missing. `numeric` becomes true where a value is neither 0 nor 1.
    """
    for j in range(X.shape[1]):
        n, total, other = 0, 0.0, False
        for r in range(X.shape[0]):
            x = X[r, j]
            if not math.isnan(x):
                n += 1
                total += x
                other |= x not in (0.0, 1.0)
        if n == 0:
            continue
        center, around = total / n, 0.0
        for r in range(X.shape[0]):
            deviation = X[r, j] - center
            if not math.isnan(deviation):
                around += deviation * deviation
        shift, share = center - mean[j], n / (count[j] + n)
        squares[j] += around + shift * shift * count[j] * share
        mean[j] += shift * share
        count[j] += n
        numeric[j] |= other


@_exact
def spread(count: Any, mean: Any, squares: Any, numeric: Any, factor: Any) -> None:
    """Write what makes each column's deviation, and then the sum of all variances, 1."""
    total = 0.0
    for j in range(len(factor)):
        variance = squares[j] / max(count[j], 1.0)
        deviation = math.sqrt(variance)
        if deviation <= ROUNDING * abs(mean[j]):
            variance, deviation = 0.0, 1.0
        if not numeric[j]:
            deviation = FAIR_COIN
        total += variance / (deviation * deviation)
        factor[j] = 1.0 / deviation
    if total > 0.0:
        for j in range(len(factor)):
            factor[j] /= math.sqrt(total)


@_exact
def rescale(X: Any, mean: Any, factor: Any, out: Any) -> None:
    """Write the rows less the mean, times the factor, bounded; a NaN becomes 0."""
    for r in range(X.shape[0]):
        for j in range(X.shape[1]):
            z = (X[r, j] - mean[j]) * factor[j]
            out[r, j] = 0.0 if math.isnan(z) else min(max(z, -FARTHEST), FARTHEST)
