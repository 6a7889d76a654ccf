"""The reference backend: the same numbers as the compiled one, in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Philox4x32-10 (Salmon et al. 2011) of counters (..., 4), 32-bit words held in uint64."""
    c0, c1, c2, c3 = np.moveaxis(counter, -1, 0)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            (p1 >> _HALF) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _HALF) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def _uniforms(
    seed: int, tag: int, keys: NDArray[np.uint64], first_chunk: int, chunks: int
) -> NDArray[np.float64]:
    """Uniforms in (0, 1) of shape (chunks, columns, CHUNK): feature i is word i % 4 of call i // 4.

    The high word of a key is the third counter's neighbour, so keys are 64-bit.
    """
    groups = CHUNK // 4
    counter = np.empty((chunks, len(keys), groups, 4), dtype=np.uint64)
    first = np.uint64(first_chunk * groups)
    counter[..., 0] = first + np.arange(chunks * groups, dtype=np.uint64).reshape(chunks, 1, groups)
    counter[..., 1] = tag
    counter[..., 2] = (keys & _LOW)[:, None]
    counter[..., 3] = (keys >> _HALF)[:, None]
    words = philox(counter, seed).reshape(chunks, len(keys), CHUNK)
    return np.asarray((words + 0.5) * 2.0**-32)


def _normals(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Box-Muller on neighbouring uniforms of the last axis."""
    r = np.sqrt(-2.0 * np.log(u[..., 0::2]))
    angle = 2.0 * np.pi * u[..., 1::2]
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1).reshape(u.shape)


def frequencies(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    keys: NDArray[Any],
    first_chunk: int,
    W: NDArray[Any],
    b: NDArray[Any],
) -> None:
    """Fill chunks of frequencies and phases, both in turns, from the counter-based generator."""
    chunks = len(W)
    zero = np.zeros(1, dtype=np.uint64)
    u = _uniforms(seed, TAG_FREQUENCY, keys, first_chunk, chunks)
    if law == Law.CAUCHY:
        w = np.tan(np.pi * (u - 0.5))
    elif law == Law.LAPLACE:
        w = np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))
    else:
        w = _normals(u)
    if law == Law.STUDENT:
        radius = np.zeros((chunks, 1, CHUNK))
        for j in range(dof):
            radius += _normals(_uniforms(seed, TAG_RADIUS + j, zero, first_chunk, chunks)) ** 2
        w *= np.sqrt(dof / radius)
    W[...] = w * (scale / (2.0 * np.pi))
    b[...] = _uniforms(seed, TAG_PHASE, zero, first_chunk, chunks)[:, 0]


def _evaluate(
    X: NDArray[Any], W: NDArray[Any], b: NDArray[Any], cosine: bool, wide: bool
) -> NDArray[Any]:
    """Features (n, CHUNK) of one chunk, added column by column so that rows do not interact."""
    u = np.zeros((len(X), CHUNK), dtype=np.float64 if wide else W.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for x, w in zip(X.T, W, strict=True):
            u += x[:, None].astype(u.dtype) * w
        if not cosine:
            return u.astype(W.dtype)
        u += b
        u -= np.round(u)
    # A phase that overflowed counts as a whole turn.
    u = np.where(np.abs(u) <= 0.5, u, u.dtype.type(0))
    return np.asarray(np.cos(2.0 * np.pi * u.astype(np.float64)).astype(W.dtype))


def accumulate(
    X: NDArray[Any],
    W: NDArray[Any],
    b: NDArray[Any],
    A: NDArray[Any],
    cosine: bool,
    wide: bool,
    acc: NDArray[Any],
) -> None:
    """Add each chunk's coefficients times features to the partial sums `acc`."""
    for w, phase, a in zip(W, b, A, strict=True):
        terms = _evaluate(X, w, phase, cosine, wide)[:, None, :] * a
        for first in range(0, CHUNK, LANES):
            acc += terms[:, :, first : first + LANES]


def gradient(
    X: NDArray[Any],
    W: NDArray[Any],
    b: NDArray[Any],
    G: NDArray[Any],
    cosine: bool,
    wide: bool,
    out: NDArray[Any],
) -> None:
    """Write the sum over the rows of G times features into `out`."""
    for w, phase, o in zip(W, b, out, strict=True):
        o[...] = 0.0
        for g, phi in zip(G, _evaluate(X, w, phase, cosine, wide), strict=True):
            o += g[:, None] * phi


def features(
    X: NDArray[Any],
    W: NDArray[Any],
    b: NDArray[Any],
    cosine: bool,
    wide: bool,
    out: NDArray[Any],
) -> None:
    """Write the features of each row into `out`, chunk after chunk."""
    for c, (w, phase) in enumerate(zip(W, b, strict=True)):
        out[:, c * CHUNK : (c + 1) * CHUNK] = _evaluate(X, w, phase, cosine, wide)


def finish(acc: NDArray[Any], factor: float, F: NDArray[Any]) -> None:
    """Write the partial sums' sum, times the factor, into `F`."""
    F[...] = acc[:, :, 0]
    for lane in range(1, LANES):
        F += acc[:, :, lane]
    F *= factor


def softmax(F: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row of a float64 array of shape (n, k)."""
    E = np.exp(F - F.max(axis=1, keepdims=True))
    return np.asarray(E / E.sum(axis=1, keepdims=True))


def sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic function, with one exponential of a negative number: no overflow at either end."""
    e = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, e) / (1.0 + e))


def targets(F: NDArray[np.float64], y: NDArray[Any], classes: bool) -> NDArray[np.float64]:
    """Return what each output is measured against: y itself, or -1/+1 for class numbers."""
    if not classes:
        return np.asarray(y, dtype=np.float64)[:, None]
    if F.shape[1] == 1:
        return np.asarray(2.0 * y[:, None] - 1.0)
    T = np.full(F.shape, -1.0)
    T[np.arange(len(F)), y.astype(np.intp)] = 1.0
    return T


def crammer_singer(
    F: NDArray[np.float64], y: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return 1 + (best other output) - (true output), and the number of the best other."""
    rows, true = np.arange(len(F)), y.astype(np.intp)
    others = F.copy()
    others[rows, true] = -np.inf
    best = others.argmax(axis=1)
    return 1.0 + F[rows, best] - F[rows, true], best


def _slopes(
    code: int, p: float, F: NDArray[np.float64], Y: NDArray[np.float64]
) -> NDArray[np.float64]:
    r = F - Y
    match code:
        case LossCode.SQUARED:
            return r
        case LossCode.HINGE:
            return -Y * (Y * F < 1.0)
        case LossCode.SQUARED_HINGE:
            return -Y * np.maximum(0.0, 1.0 - Y * F)
        case LossCode.LOGISTIC:
            return -Y * sigmoid(-Y * F)
        case LossCode.HUBER:
            return np.clip(r, -p, p)
        case LossCode.EPSILON_INSENSITIVE:
            return np.asarray(np.sign(r) * (np.abs(r) > p))
        case _:
            return np.where(r > 0, 1.0 - p, np.where(r < 0, -p, 0.0))


def loss_gradient(
    code: int,
    parameter: float,
    classes: bool,
    F: NDArray[Any],
    y: NDArray[Any],
    weight: float,
    G: NDArray[Any],
) -> None:
    """Write the weighted (sub)gradient of each row's loss in its outputs into `G`."""
    if code == LossCode.SOFTMAX:
        slopes = softmax(F)
        slopes[np.arange(len(F)), y.astype(np.intp)] -= 1.0
    elif code in (LossCode.HINGE, LossCode.SQUARED_HINGE) and F.shape[1] > 1:
        margin, best = crammer_singer(F, y)
        slope = (margin > 0) * (1.0 if code == LossCode.HINGE else margin)
        slopes = np.zeros(F.shape)
        slopes[np.arange(len(F)), y.astype(np.intp)] -= slope
        slopes[np.arange(len(F)), best] += slope
    else:
        slopes = _slopes(code, parameter, F, targets(F, y, classes))
    G[...] = weight * slopes


def descend(
    A: NDArray[Any], squares: NDArray[Any], g: NDArray[Any], rate: float, start: int, stop: int
) -> None:
    """Subtract ``rate * g`` from the features start...stop of these chunks.

    Where there are `squares`, they take in the squared gradient, and the gradient is divided by
    their root.
    """
    feature = np.arange(len(A) * CHUNK).reshape(len(A), 1, CHUNK)
    g = g * ((feature >= start) & (feature < stop))
    if len(squares):
        squares += g * g
        g = g / (np.sqrt(squares) + g.dtype.type(1e-8))
    A -= A.dtype.type(rate) * g


def step(
    X: NDArray[Any],
    y: NDArray[Any],
    W: NDArray[Any],
    b: NDArray[Any],
    A: NDArray[Any],
    squares: NDArray[Any],
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
    first, start, stop = block
    some = slice(first, first - (-stop // CHUNK))
    acc = np.zeros((len(X), A.shape[1], LANES), A.dtype)
    accumulate(X, W, b, A, cosine, wide, acc)
    F, G = np.empty(acc.shape[:2]), np.empty(acc.shape[:2], A.dtype)
    finish(acc, factor, F)
    if not np.isfinite(F).all():
        return False
    loss_gradient(*loss, F, y, weight, G)
    g = np.empty_like(A[some])
    gradient(X, W[some], b[some], G, cosine, wide, g)
    descend(A[some], squares[some], g, rate, start, stop)
    return True


def measure(
    X: NDArray[Any],
    count: NDArray[Any],
    mean: NDArray[Any],
    squares: NDArray[Any],
    numeric: NDArray[Any],
) -> None:
    """Take rows into each column's count, mean and sum of squared deviations (Chan et al. 1979).

    A NaN is missing. `numeric` becomes true where a value is neither 0 nor 1.
    """
    known = ~np.isnan(X)
    n = known.sum(axis=0)
    center = np.where(known, X, 0.0).sum(axis=0) / np.maximum(n, 1)
    deviations = np.where(known, X - center, 0.0)
    shift = center - mean
    share = n / np.maximum(count + n, 1.0)
    squares += (deviations * deviations).sum(axis=0) + shift * shift * count * share
    mean += shift * share
    count += n
    numeric |= (known & (X != 0.0) & (X != 1.0)).any(axis=0)


def spread(
    count: NDArray[Any],
    mean: NDArray[Any],
    squares: NDArray[Any],
    numeric: NDArray[Any],
    factor: NDArray[Any],
) -> None:
    """Write what makes each column's deviation, and then the sum of all variances, 1."""
    variance = squares / np.maximum(count, 1.0)
    deviation = np.sqrt(variance)
    varies = deviation > ROUNDING * np.abs(mean)
    variance, deviation = np.where(varies, variance, 0.0), np.where(varies, deviation, 1.0)
    deviation = np.where(numeric, deviation, FAIR_COIN)
    total = (variance / (deviation * deviation)).sum()
    factor[...] = 1.0 / (deviation * np.sqrt(total if total > 0 else 1.0))


def rescale(X: NDArray[Any], mean: NDArray[Any], factor: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the rows less the mean, times the factor, bounded; a NaN becomes 0."""
    with np.errstate(over="ignore"):  # an infinity is bounded too
        Z = (X - mean) * factor
    out[...] = np.where(np.isnan(Z), 0.0, np.clip(Z, -FARTHEST, FARTHEST))
