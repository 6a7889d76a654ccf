"""Features, and what is summed up from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import (
    CHUNK,
    LANES,
    ROUNDS,
    Basis,
    Curve,
    Dense,
    Hadamard,
    Single,
    Sketch,
    Zonal,
)
from streamk.backends.host import put, xp
from streamk.backends.numpy_backend.learning import descend, finish, loss_gradient
from streamk.backends.single import BatchOfOne


def _period(basis: Basis) -> int:
    """Chunks whose features are evaluated together."""
    return max(basis.widths) // CHUNK if isinstance(basis, Hadamard) else 1


def _project(X: NDArray[Any], W: NDArray[Any], u: NDArray[Any]) -> None:
    """Add the projections on one chunk's frequencies, column by column: rows do not interact."""
    for x, w in zip(X.T, W, strict=True):
        u += x[:, None] * w


def _walsh_hadamard(v: NDArray[Any]) -> NDArray[Any]:
    """Fast Walsh-Hadamard transform of the last axis, unnormalised, in natural order."""
    width, half = v.shape[-1], 1
    while half < width:
        pairs = v.reshape(*v.shape[:-1], width // (2 * half), 2, half)
        one, other = pairs[..., 0, :], pairs[..., 1, :]
        v = np.stack([one + other, one - other], axis=-2).reshape(v.shape)
        half *= 2
    return v


def _flips(signs: NDArray[Any], width: int) -> NDArray[np.int8]:
    """Turn the bits of chunks' signs into -1 and +1, shape (blocks, width)."""
    bits = signs[:, None] >> np.arange(CHUNK, dtype=np.uint64) & np.uint64(1)
    return (1 - 2 * bits.astype(np.int8)).reshape(-1, width)


def _rotate(X: NDArray[Any], basis: Hadamard, some: slice, u: NDArray[Any]) -> None:
    """Add the transforms of each group of columns, for a period of chunks."""
    first = 0
    for g, width in enumerate(basis.widths):
        columns = X[:, first : first + width]
        x = np.zeros((len(X), 1, width), X.dtype)
        x[:, 0, : columns.shape[1]] = columns
        v = x
        for r in range(ROUNDS):
            v = _walsh_hadamard(v * _flips(basis.signs[some, g, r], width))
        u += v.reshape(u.shape) * basis.radii[some, g].ravel()
        first += width


def _cosines(u: NDArray[Any]) -> NDArray[np.float64]:
    """Return cos(2 pi u); a phase that overflowed counts as half a turn, so it gives -1."""
    turn = np.fmin(np.abs(u - np.round(u)), 0.5)
    return np.asarray(np.cos(2.0 * np.pi * turn.astype(np.float64)))


def _bent(u: NDArray[Any], curve: int) -> NDArray[Any]:
    """Return the curve at the phases u."""
    if curve == Curve.COSINE:
        return _cosines(u)
    if curve == Curve.IDENTITY:
        return u
    if curve == Curve.STEP:
        return np.asarray((u > 0).astype(u.dtype))
    ramp = np.fmax(u, u.dtype.type(0))
    return np.asarray(ramp if curve == Curve.RAMP else ramp * ramp)


def _polynomials(X: NDArray[Any], W: NDArray[Any], C: NDArray[Any]) -> NDArray[Any]:
    """Return one chunk's polynomials of the projections on its directions."""
    u = np.zeros((len(X), CHUNK), X.dtype)
    _project(X, W, u)
    phi = np.broadcast_to(C[-1], u.shape)
    for c in C[-2::-1]:
        phi = phi * u + c
    return phi


def _sketched(X: NDArray[Any], buckets: NDArray[np.uint8]) -> NDArray[Any]:
    """Return one chunk's products of transformed count sketches."""
    phi = np.ones((len(X), CHUNK), X.dtype)
    for codes in buckets:
        counts = np.zeros_like(phi)
        for x, code in zip(X.T, codes.tolist(), strict=True):
            counts[:, code % CHUNK] += -x if code >= CHUNK else x
        phi *= _walsh_hadamard(counts)
    return phi


def _evaluate(
    X: NDArray[Any], basis: Basis, chunks: int, curve: int, wide: bool
) -> Iterator[NDArray[Any]]:
    """Yield the features (n, CHUNK) of so many chunks, one after the other."""
    if isinstance(basis, Zonal | Sketch):
        for c in range(chunks):
            with np.errstate(over="ignore", invalid="ignore"):
                if isinstance(basis, Zonal):
                    phi = _polynomials(X, basis.W[c], basis.C[c])
                else:
                    phi = _sketched(X, basis.buckets[c])
            yield phi
        return
    X, period = X.astype(np.float64 if wide else basis.b.dtype), _period(basis)
    for first in range(0, chunks, period):
        some = slice(first, first + period)
        u = np.zeros((len(X), period * CHUNK), X.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if curve == Curve.COSINE:
                u += basis.b[some].ravel()
            if isinstance(basis, Dense):
                _project(X, basis.W[first], u)
            else:
                _rotate(X, basis, some, u)
            phi = _bent(u, curve).astype(basis.b.dtype)
        for start in range(0, min(period, chunks - first) * CHUNK, CHUNK):
            yield phi[:, start : start + CHUNK]


def accumulate(
    X: NDArray[Any],
    basis: Basis,
    A: NDArray[Any],
    curve: int,
    wide: bool,
    acc: NDArray[Any],
) -> None:
    """Add each chunk's coefficients times features to the partial sums `acc`."""
    for a, phi in zip(A, _evaluate(X, basis, len(A), curve, wide), strict=True):
        terms = phi[:, None, :] * a
        for first in range(0, CHUNK, LANES):
            acc += terms[:, :, first : first + LANES]


def predict(
    X: NDArray[Any],
    basis: Basis,
    A: NDArray[Any],
    curve: int,
    wide: bool,
    factor: float,
    F: NDArray[Any],
) -> None:
    """Write factor times coefficients times features into `F`."""
    acc = np.zeros((len(X), A.shape[1], LANES), A.dtype)
    accumulate(X, basis, A, curve, wide, acc)
    finish(acc, factor, F)


def gradient(
    X: NDArray[Any],
    basis: Basis,
    G: NDArray[Any],
    curve: int,
    wide: bool,
    out: NDArray[Any],
) -> None:
    """Write the sum over the rows of G times features into `out`."""
    for o, features in zip(out, _evaluate(X, basis, len(out), curve, wide), strict=True):
        o[...] = 0.0
        for g, phi in zip(G, features, strict=True):
            o += g[:, None] * phi


def features(
    X: NDArray[Any],
    basis: Basis,
    curve: int,
    wide: bool,
    out: NDArray[Any],
) -> None:
    """Write the features of each row into `out`, chunk after chunk."""
    chunks = out.shape[1] // CHUNK
    for c, phi in enumerate(_evaluate(X, basis, chunks, curve, wide)):
        out[:, c * CHUNK : (c + 1) * CHUNK] = phi


def _from(basis: Basis, chunk: int) -> Basis:
    """Return the basis of the chunks from that one on."""
    if isinstance(basis, Hadamard):
        widths, *arrays = basis
        return Hadamard(widths, *(array[chunk:] for array in arrays))
    return type(basis)(*(array[chunk:] for array in basis))


def step(
    X: NDArray[Any],
    y: NDArray[Any],
    basis: Basis,
    A: NDArray[Any],
    squares: NDArray[Any],
    block: tuple[int, int, int],
    curve: int,
    wide: bool,
    loss: tuple[int, float, bool],
    factor: float,
    weight: float,
    rate: float,
    F: NDArray[Any],
    threads: int = 1,  # noqa: ARG001
) -> bool:
    """Predict the events and descend on the chunks of `block`, unless a prediction overflowed.

    `block` is its first chunk and its features start and stop, counted from that chunk.
    """
    first, start, stop = block
    last = first - (-stop // CHUNK)
    predict(X, basis, A, curve, wide, factor, F)
    if not np.isfinite(F).all():
        return False
    G = np.empty(F.shape, A.dtype)
    loss_gradient(*loss, F, y, weight, G)
    before = first % _period(basis)
    g = np.empty((before + last - first, *A.shape[1:]), A.dtype)
    gradient(X, _from(basis, first - before), G, curve, wide, g)
    descend(A[first:last], squares[first:last], g[before:], rate, start, stop)
    return True


def single(
    basis: Basis,
    A: NDArray[Any],
    squares: NDArray[Any],
    curve: int,
    wide: bool,
    loss: tuple[int, float, bool],
) -> Single:
    """Prepare for single events."""
    return BatchOfOne(predict, step, put, xp, basis, A, squares, curve, wide, loss)
