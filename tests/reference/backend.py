"""The functions of `streamk.backends` in plain NumPy, in the order that their docstrings promise.

The tests of the backend for GPUs hold it to these, and the host's to these and to `naive`'s one
number at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import (
    CHUNK,
    LANES,
    ROUNDS,
    TAG_FREQUENCY,
    TAG_LENGTH,
    TAG_PHASE,
    TAG_RADIUS,
    TAG_SIGN,
    Basis,
    Curve,
    Dense,
    Hadamard,
    KernelCode,
    Law,
    philox,
    sum_factor,
)
from streamk.backends.numba_backend.tangent import lacking
from streamk.losses import Loss, LossCode

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_EXPONENTIALS = (KernelCode.GAUSSIAN, KernelCode.LAPLACIAN, KernelCode.POWER_EXPONENTIAL)
"""Those that are the exponential of their sum."""
_ROWS, _CENTERS = 64, 512
"""Points of a tile, whose few temporaries then stay in the second cache."""

# --- the generator --------------------------------------------------------------------------------


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


def _phases(seed: int, first_chunk: int, chunks: int) -> NDArray[np.float64]:
    zero = np.zeros(1, dtype=np.uint64)
    return _uniforms(seed, TAG_PHASE, zero, first_chunk, chunks)[:, 0]


def _stretch(
    seed: int, law: int, dof: int, first_chunk: int, chunks: int
) -> NDArray[np.float64] | float:
    """Return the random factor that all columns of a feature have in common, (chunks, 1, CHUNK)."""
    if law not in (Law.STUDENT, Law.RATIONAL):
        return 1.0
    zero = np.zeros(1, dtype=np.uint64)
    chi2 = np.zeros((chunks, 1, CHUNK))
    for j in range(dof):
        chi2 += _normals(_uniforms(seed, TAG_RADIUS + j, zero, first_chunk, chunks)) ** 2
    return np.asarray(np.sqrt(dof / chi2 if law == Law.STUDENT else chi2 / dof))


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
    u = _uniforms(seed, TAG_FREQUENCY, keys, first_chunk, chunks)
    if law == Law.CAUCHY:
        w = np.tan(np.pi * (u - 0.5))
    elif law == Law.LAPLACE:
        w = np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))
    else:
        w = _normals(u) * _stretch(seed, law, dof, first_chunk, chunks)
    W[...] = w * (scale / (2.0 * np.pi))
    b[...] = _phases(seed, first_chunk, chunks)


def _signs(
    seed: int, tag: int, groups: NDArray[np.uint64], first_chunk: int, chunks: int
) -> NDArray[np.uint64]:
    """Return the signs of each chunk and group, 64 bits from half a call of the generator."""
    chunk = np.uint64(first_chunk) + np.arange(chunks, dtype=np.uint64)
    counter = np.zeros((chunks, len(groups), 4), dtype=np.uint64)
    counter[..., 0] = (chunk // np.uint64(2))[:, None]
    counter[..., 1] = tag
    counter[..., 2] = groups
    words = philox(counter, seed)
    halves = words[..., 0::2] | words[..., 1::2] << _HALF
    return np.asarray(np.where(chunk[:, None] % np.uint64(2) == 0, halves[..., 0], halves[..., 1]))


def rotations(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    widths: tuple[int, ...],
    first_chunk: int,
    signs: NDArray[Any],
    radii: NDArray[Any],
    b: NDArray[Any],
) -> None:
    """Fill chunks of signs, lengths and phases, the lengths and phases in turns.

    A row of a group's transform of width p has the length p^1.5; of p normals it would have the
    length chi of p degrees of freedom. That is drawn from one normal as Wilson and Hilferty (1931)
    have it: a cube of a normal for chi squared. At p = 64 that moves a kernel's value by less than
    1e-6, a thousandth of what three rounds lack of a random rotation.
    """
    chunks, groups = len(b), np.arange(len(widths), dtype=np.uint64)
    p = np.array(widths, dtype=np.float64)[:, None]
    z = _normals(_uniforms(seed, TAG_LENGTH, groups, first_chunk, chunks))
    spread = 2.0 / (9.0 * p)
    chi = np.sqrt(p) * (1.0 - spread + z * np.sqrt(spread)) ** 1.5
    stretch = _stretch(seed, law, dof, first_chunk, chunks)
    radii[...] = chi / p**1.5 * stretch * (scale / (2.0 * np.pi))
    for r in range(ROUNDS):
        signs[..., r] = _signs(seed, TAG_SIGN + r, groups, first_chunk, chunks)
    b[...] = _phases(seed, first_chunk, chunks)


# --- learning -------------------------------------------------------------------------------------


def finish(acc: NDArray[Any], factor: float, F: NDArray[Any]) -> None:
    """Write the partial sums' sum, times the factor, into `F`."""
    F[...] = acc[:, :, 0]
    for lane in range(1, LANES):
        F += acc[:, :, lane]
    F *= factor


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
    loss = Loss(LossCode(code), parameter)
    G[...] = weight * loss.gradient(F, y.astype(np.intp) if classes else y)


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


def decay(A: NDArray[Any], factor: float) -> None:
    """Multiply all coefficients by the factor."""
    A *= A.dtype.type(factor)


# --- kernels between points -----------------------------------------------------------------------


def pairwise(
    code: int, parameter: float, scale: float, X: NDArray[Any], Y: NDArray[Any], out: NDArray[Any]
) -> None:
    """Write the kernel between the rows of `X` and of `Y` into `out`."""
    for r in range(0, len(X), _ROWS):
        for c in range(0, len(Y), _CENTERS):
            K = _tile(code, parameter, scale, X[r : r + _ROWS], Y[c : c + _CENTERS])
            out[r : r + _ROWS, c : c + _CENTERS] = K


def pairwise_product(
    code: int,
    parameter: float,
    scale: float,
    X: NDArray[Any],
    Y: NDArray[Any],
    V: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Write the kernel between the rows of `X` and of `Y`, times `V`, into `out`."""
    for r in range(0, len(X), _ROWS):
        rows = X[r : r + _ROWS]
        total = np.zeros((len(rows), V.shape[1]))
        for c in range(0, len(Y), _CENTERS):
            K = _tile(code, parameter, scale, rows, Y[c : c + _CENTERS])
            # No matrix product: a row's sum is then the same in whatever batch it comes.
            for o, v in enumerate(V[c : c + _CENTERS].T):
                total[:, o] += (K * v).sum(axis=1, dtype=np.float64)
        out[r : r + _ROWS] = total


def _tile(
    code: int, parameter: float, scale: float, X: NDArray[Any], Y: NDArray[Any]
) -> NDArray[Any]:
    factor = sum_factor(code, parameter, scale, X.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _of_sums(code, parameter, factor, _sums(code, factor, X, Y))


def _sums(code: int, factor: Any, X: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Return the sum or product of the kernel's term of each column."""
    S = np.full((len(X), len(Y)), 1.0 if code == KernelCode.CAUCHY else 0.0, X.dtype)
    for x, y in zip(X.T, Y.T, strict=True):
        if code == KernelCode.LINEAR:
            S += x[:, None] * y
            continue
        t = x[:, None] - y
        if code == KernelCode.LAPLACIAN:
            S += np.abs(t, out=t)
        elif code == KernelCode.POWER_EXPONENTIAL:
            S += np.sqrt(np.abs(t, out=t), out=t)
        elif code == KernelCode.CAUCHY:
            t *= t
            S *= 1.0 + factor * t
        else:
            t *= t
            S += t
    return S


def _of_sums(code: int, parameter: float, factor: Any, S: NDArray[Any]) -> NDArray[Any]:
    """Return the kernel from those sums."""
    if code == KernelCode.LINEAR:
        return S
    if code == KernelCode.CAUCHY:
        return np.asarray(1.0 / S)
    if code in _EXPONENTIALS:
        return np.asarray(np.exp(-factor * S))
    if code == KernelCode.RATIONAL_QUADRATIC:
        return np.asarray((1.0 / np.sqrt(1.0 + factor * S)) ** round(2.0 * parameter))
    if code == KernelCode.NTK:
        return neural_tangent(factor * S, round(parameter))
    r = np.sqrt(factor * S)
    K = np.asarray(np.exp(-r))
    # Where the kernel is 0 the polynomial may be infinite.
    r = np.where(K > 0.0, r, 0.0)
    if parameter == 1.5:
        K *= 1.0 + r
    elif parameter == 2.5:
        K *= 1.0 + r + r * r / 3.0
    return K


def neural_tangent(half: NDArray[Any], depth: int) -> NDArray[Any]:
    """Return the kernel from ``sin(theta / 2)^2``, a quarter of the squared distance.

    It is that of a network of `depth` hidden layers, divided by its value at angle 0, which is
    depth + 1.
    """
    half = np.minimum(half, 1.0)
    return np.asarray(1.0 - lacking(2.0 * np.arctan2(np.sqrt(half), np.sqrt(1.0 - half)), depth))


# --- features, and what is summed up from them ----------------------------------------------------


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


def _evaluate(
    X: NDArray[Any], basis: Basis, chunks: int, curve: int, wide: bool
) -> Iterator[NDArray[Any]]:
    """Yield the features (n, CHUNK) of so many chunks, one after the other."""
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
