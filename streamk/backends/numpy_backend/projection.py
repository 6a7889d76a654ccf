"""Features, and what is summed up from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, LANES, Basis, Dense
from streamk.backends.numpy_backend.learning import descend, finish, loss_gradient


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
    basis: Basis,
    A: NDArray[Any],
    cosine: bool,
    wide: bool,
    acc: NDArray[Any],
) -> None:
    """Add each chunk's coefficients times features to the partial sums `acc`."""
    for w, phase, a in zip(*basis, A, strict=False):
        terms = _evaluate(X, w, phase, cosine, wide)[:, None, :] * a
        for first in range(0, CHUNK, LANES):
            acc += terms[:, :, first : first + LANES]


def predict(
    X: NDArray[Any],
    basis: Basis,
    A: NDArray[Any],
    cosine: bool,
    wide: bool,
    factor: float,
    F: NDArray[Any],
) -> None:
    """Write factor times coefficients times features into `F`."""
    acc = np.zeros((len(X), A.shape[1], LANES), A.dtype)
    accumulate(X, basis, A, cosine, wide, acc)
    finish(acc, factor, F)


def gradient(
    X: NDArray[Any],
    basis: Basis,
    G: NDArray[Any],
    cosine: bool,
    wide: bool,
    out: NDArray[Any],
) -> None:
    """Write the sum over the rows of G times features into `out`."""
    for w, phase, o in zip(*basis, out, strict=False):
        o[...] = 0.0
        for g, phi in zip(G, _evaluate(X, w, phase, cosine, wide), strict=True):
            o += g[:, None] * phi


def features(
    X: NDArray[Any],
    basis: Basis,
    cosine: bool,
    wide: bool,
    out: NDArray[Any],
) -> None:
    """Write the features of each row into `out`, chunk after chunk."""
    for c, (w, phase) in enumerate(zip(*basis, strict=True)):
        out[:, c * CHUNK : (c + 1) * CHUNK] = _evaluate(X, w, phase, cosine, wide)


def step(
    X: NDArray[Any],
    y: NDArray[Any],
    basis: Basis,
    A: NDArray[Any],
    squares: NDArray[Any],
    block: tuple[int, int, int],
    cosine: bool,
    wide: bool,
    loss: tuple[int, float, bool],
    factor: float,
    weight: float,
    rate: float,
    F: NDArray[Any],
) -> bool:
    """Predict the events and descend on the chunks of `block`, unless a prediction overflowed.

    `block` is its first chunk and its features start and stop, counted from that chunk.
    """
    first, start, stop = block
    some = slice(first, first - (-stop // CHUNK))
    acc = np.zeros((len(X), A.shape[1], LANES), A.dtype)
    accumulate(X, basis, A, cosine, wide, acc)
    G = np.empty(F.shape, A.dtype)
    finish(acc, factor, F)
    if not np.isfinite(F).all():
        return False
    loss_gradient(*loss, F, y, weight, G)
    g = np.empty_like(A[some])
    gradient(X, Dense(basis.W[some], basis.b[some]), G, cosine, wide, g)
    descend(A[some], squares[some], g, rate, start, stop)
    return True
