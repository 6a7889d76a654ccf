"""Features of dense frequencies: projected, taken the cosine of and summed up in one pass.

The loops over a chunk run over `CHUNK` neighbouring floats and nothing else, which is what the
vectoriser understands. The rounding to a turn and the cosine are written without calls: a library
cosine would not be vectorised.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from streamk.backends import CHUNK, LANES
from streamk.backends.numba_backend.compiling import compiled, exact
from streamk.backends.numba_backend.learning import descend, finish, loss_gradient

ROWS = 16
"""Rows that pass through a chunk together: their phases and features stay in the first cache."""


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


@compiled
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


@compiled
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


@compiled
def _accumulate(X: Any, W: Any, b: Any, A: Any, cosine: Any, u: Any, phi: Any, acc: Any) -> None:
    n = X.shape[0]
    for c in range(W.shape[0]):
        for r in range(0, n, ROWS):
            end = min(r + ROWS, n)
            _project(X[r:end], W[c], b[c], cosine, u, phi)
            _add(A[c], phi, acc[r:end])


@compiled
def _add_gradient(G: Any, phi: Any, out: Any) -> None:
    """Add a few rows' loss gradients times their features to one chunk's sums."""
    for k in range(out.shape[0]):
        o = out[k]
        for r in range(G.shape[0]):
            g, f = G[r, k], phi[r]
            for i in range(CHUNK):
                o[i] += g * f[i]


@compiled
def _gradient(X: Any, W: Any, b: Any, G: Any, cosine: Any, u: Any, phi: Any, out: Any) -> None:
    n = X.shape[0]
    for c in range(W.shape[0]):
        out[c] = 0.0
        for r in range(0, n, ROWS):
            end = min(r + ROWS, n)
            _project(X[r:end], W[c], b[c], cosine, u, phi)
            _add_gradient(G[r:end], phi, out[c])


@compiled
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


def accumulate(X: Any, basis: Any, A: Any, cosine: bool, wide: bool, acc: Any) -> None:
    """Add each chunk's coefficients times features to the partial sums `acc`."""
    W, b = basis
    rows, u, phi = _scratch(X, W, wide)
    _accumulate(rows, W[: len(A)], b, A, cosine, u, phi, acc)


def predict(X: Any, basis: Any, A: Any, cosine: bool, wide: bool, factor: float, F: Any) -> None:
    """Write factor times coefficients times features into `F`."""
    acc = np.zeros((len(X), A.shape[1], LANES), A.dtype)
    accumulate(X, basis, A, cosine, wide, acc)
    finish(acc, factor, F)


def gradient(X: Any, basis: Any, G: Any, cosine: bool, wide: bool, out: Any) -> None:
    """Write the sum over the rows of G times features into `out`."""
    W, b = basis
    rows, u, phi = _scratch(X, W, wide)
    _gradient(rows, W[: len(out)], b, G, cosine, u, phi, out)


def features(X: Any, basis: Any, cosine: bool, wide: bool, out: Any) -> None:
    """Write the features of each row into `out`, chunk after chunk."""
    W, b = basis
    rows, u, phi = _scratch(X, W, wide)
    _features(rows, W[: out.shape[1] // CHUNK], b, cosine, u, phi, out)


@compiled
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


@compiled
def _gradient_of(kept: Any, G: Any, out: Any) -> None:
    for c in range(kept.shape[0]):
        out[c] = 0.0
        _add_gradient(G, kept[c], out[c])


@exact
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
    F: Any,
) -> Any:
    first, start, stop = block
    code, parameter, classes = loss
    n, outputs, chunks = X.shape[0], A.shape[1], (stop + CHUNK - 1) // CHUNK
    acc = np.zeros((n, outputs, LANES), A.dtype)
    phi, kept = np.empty((min(ROWS, n), CHUNK), A.dtype), np.empty((chunks, n, CHUNK), A.dtype)
    _predict_keeping(X, W, b, A, first, cosine, u, phi, kept, acc)
    G = np.empty((n, outputs), A.dtype)
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
    basis: Any,
    A: Any,
    squares: Any,
    block: tuple[int, int, int],
    cosine: bool,
    wide: bool,
    loss: tuple[int, float, bool],
    factor: float,
    weight: float,
    rate: float,
    F: Any,
) -> bool:
    """Predict the events and descend on the chunks of `block`, unless a prediction overflowed.

    `block` is its first chunk and its features start and stop, counted from that chunk.
    """
    W, b = basis
    W = W[: len(A)]
    rows, u, _ = _scratch(X, W, wide)
    done: bool = _step(rows, y, W, b, A, squares, block, cosine, loss, factor, weight, rate, u, F)
    return done
