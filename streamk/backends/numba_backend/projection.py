"""Features of either basis, and what is summed up from them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numba import types

from streamk.backends import (
    CHUNK,
    LANES,
    Basis,
    Curve,
    Hadamard,
    Sketch,
    ZonalDirections,
)
from streamk.backends.jit.compiling import compiled, exact, part
from streamk.backends.jit.parts import overload
from streamk.backends.numba_backend.hadamard import (
    STRIDES,
    evaluate_groups,
    evaluate_hadamard,
)
from streamk.backends.numba_backend.learning import descend, finish, loss_gradient
from streamk.backends.numba_backend.tiles import evaluate_dense, evaluate_sketches
from streamk.backends.threads import PARALLEL_FLOPS, divide

_PIECE = 1 << 18
"""Features times events that are kept at a time for their gradient: 1 MiB in single precision."""


def evaluate(
    X: Any, basis: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any, curve: Any
) -> None:
    """Evaluate the features of the chunks from `first` to `stop` of a basis.

    They are added up into `acc` with the coefficients A, unless these are None, and kept in `phi`
    (stop - first, n, CHUNK), unless that is None. `curve`: see `phases`.
    """
    raise NotImplementedError


@overload(evaluate)
def _evaluate(
    X: Any, basis: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any, curve: Any
) -> Any:
    function: Any = evaluate_hadamard
    if len(basis) == len(ZonalDirections._fields):
        function = evaluate_dense
    elif len(basis) == len(Sketch._fields):
        function = evaluate_sketches
    elif isinstance(basis[0], types.Array):
        function = evaluate_groups

    def call(
        X: Any, basis: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any,
        curve: Any,
    ) -> None:  # fmt: skip
        function(X, *basis, A, acc, phi, first, stop, outputs, curve)

    return call


@compiled
def _accumulate(X: Any, basis: Any, A: Any, acc: Any, curve: Any) -> None:
    evaluate(X, basis, A, acc, None, 0, A.shape[0], A.shape[1], curve)


@compiled
def _predict(X: Any, basis: Any, A: Any, factor: Any, F: Any, room: Any, curve: Any) -> None:
    n, outputs = F.shape
    acc = room[: n * outputs * LANES].reshape((n, outputs, LANES))
    acc[:] = 0.0
    evaluate(X, basis, A, acc, None, 0, A.shape[0], outputs, curve)
    finish(acc, factor, F)


@compiled
def _keep(X: Any, basis: Any, first: Any, phi: Any, curve: Any) -> None:
    evaluate(X, basis, None, None, phi, first, first + phi.shape[0], 0, curve)


@part
def _add_gradient(G: Any, phi: Any, out: Any) -> None:
    """Add a chunk's features times the rows' gradients to its sums."""
    for k in range(out.shape[0]):
        o = out[k]
        for r in range(G.shape[0]):
            g, f = G[r, k], phi[r]
            for i in range(CHUNK):
                o[i] += g * f[i]


@compiled
def _sum_gradient(G: Any, kept: Any, first: Any, g: Any) -> None:
    """Add the features kept from `first` on, times the rows' gradients."""
    for c in range(g.shape[0]):
        _add_gradient(G, kept[first + c], g[c])


@compiled
def _gradient(X: Any, basis: Any, G: Any, step: Any, out: Any, curve: Any) -> None:
    n, chunks = X.shape[0], out.shape[0]
    some = max(1, _PIECE // (n * CHUNK * step)) * step
    phi = np.empty((min(some, -(-chunks // step) * step), n, CHUNK), out.dtype)
    for c in range(0, chunks, some):
        count = min(some, -(-(chunks - c) // step) * step)
        _keep(X, basis, c, phi[:count], curve)
        out[c : c + count] = 0.0
        _sum_gradient(G, phi, 0, out[c : c + count])


@part
def _sum_keeping(X: Any, basis: Any, A: Any, acc: Any, first: Any, kept: Any, curve: Any) -> None:
    """Add up all features, keeping those of the chunks from `first` on."""
    outputs, last = A.shape[1], first + kept.shape[0]
    evaluate(X, basis, A, acc, None, 0, first, outputs, curve)
    evaluate(X, basis, A, acc, kept, first, last, outputs, curve)
    evaluate(X, basis, A, acc, None, last, A.shape[0], outputs, curve)


@compiled
def _predict_keeping(
    X: Any, basis: Any, A: Any, acc: Any, first: Any, kept: Any, curve: Any
) -> None:
    _sum_keeping(X, basis, A, acc, first, kept, curve)


@exact
def slopes(acc: Any, y: Any, loss: Any, factor: Any, weight: Any, F: Any, G: Any) -> Any:
    """Write predictions and the gradients of their losses, unless one overflowed."""
    code, parameter, classes = loss
    finish(acc, factor, F)
    for r in range(F.shape[0]):
        for k in range(F.shape[1]):
            if not np.isfinite(F[r, k]):
                return False
    loss_gradient(code, parameter, classes, F, y, weight, G)
    return True


@exact
def _step(
    X: Any, y: Any, basis: Any, A: Any, squares: Any, target: Any, block: Any, loss: Any,
    factors: Any, F: Any, room: Any, curve: Any,
) -> Any:  # fmt: skip
    """Predict with A and descend on the chunks `target` of the coefficients."""
    first, before, count, start, stop = block
    factor, weight, rate = factors
    n, outputs = F.shape
    size, chunks = n * outputs, target.shape[0]
    acc = room[: size * LANES].reshape((n, outputs, LANES))
    acc[:] = 0.0
    at = size * LANES
    G = room[at : at + size].reshape((n, outputs))
    at += size
    g = room[at : at + chunks * outputs * CHUNK].reshape((chunks, outputs, CHUNK))
    at += chunks * outputs * CHUNK
    kept = room[at : at + count * n * CHUNK].reshape((count, n, CHUNK))
    _sum_keeping(X, basis, A, acc, before, kept, curve)
    if not slopes(acc, y, loss, factor, weight, F, G):
        return False
    g[:] = 0.0
    _sum_gradient(G, kept, first - before, g)
    descend(target, squares, g, rate, start, stop)
    return True


# --- calls -------------------------------------------------------------------------------------

_local = threading.local()


def _room(count: int, dtype: Any, use: int) -> Any:
    """Return room for so many numbers, for each use the same in all calls of a thread."""
    rooms: dict[Any, Any] = _local.__dict__
    found = rooms.get((dtype, use))
    if found is None or len(found) < count:
        found = rooms[dtype, use] = np.empty(count, dtype)
    return found


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_WAVES = {_FLOAT32: np.float32(-1.0), _FLOAT64: np.float64(-1.0)}
_POWERS = {Curve.STEP: np.int64(0), Curve.RAMP: np.int64(1), Curve.SQUARED_RAMP: np.int64(2)}


def _curve(basis: Basis, curve: int, wide: bool) -> Any:
    """Return the curve as the compiled functions take it, see `phases`."""
    if isinstance(basis, Sketch):
        return None
    if isinstance(basis, ZonalDirections):
        return np.uint64(basis.C.shape[1])
    if curve == Curve.COSINE:
        return _WAVES[_FLOAT64] if wide else _WAVES[basis.b.dtype]
    return _POWERS.get(Curve(curve))


def _arrays(basis: Basis, curve: Any) -> tuple[Any, ...]:
    """Return the basis as the compiled functions take it."""
    if not isinstance(basis, Hadamard):
        return tuple(basis)
    widths, signs, radii, b = basis
    if len(widths) == 1:
        return (STRIDES[widths[0]], signs, radii, b)
    dtype = np.dtype(type(curve)) if isinstance(curve, np.floating) else b.dtype
    return (np.array(widths), signs, radii, b, _room(max(widths), dtype, 1))


def period_of(basis: Basis) -> int:
    """Return the chunks of the widest transform."""
    return max(basis.widths) // CHUNK if isinstance(basis, Hadamard) else 1


def _filled(A: Any, period: int) -> Any:
    """Return coefficients of whole transforms, zeros at the end."""
    missing = -len(A) % period
    return np.concatenate([A, np.zeros((missing, *A.shape[1:]), A.dtype)]) if missing else A


def accumulate(X: Any, basis: Basis, A: Any, cosine: bool, wide: bool, acc: Any) -> None:
    """Add each chunk's coefficients times features to the partial sums `acc`."""
    curve = _curve(basis, cosine, wide)
    _accumulate(X, _arrays(basis, curve), _filled(A, period_of(basis)), acc, curve)


def predict(X: Any, basis: Basis, A: Any, cosine: bool, wide: bool, factor: float, F: Any) -> None:
    """Write factor times coefficients times features into `F`."""
    curve = _curve(basis, cosine, wide)
    room = _room(F.size * LANES, A.dtype, 0)
    _predict(X, _arrays(basis, curve), _filled(A, period_of(basis)), factor, F, room, curve)


def features(X: Any, basis: Basis, cosine: bool, wide: bool, out: Any) -> None:
    """Write the features of each row into `out`, chunk after chunk."""
    curve, n, chunks = _curve(basis, cosine, wide), len(X), out.shape[1] // CHUNK
    period = period_of(basis)
    some = max(1, _PIECE // (max(n, 1) * CHUNK * period)) * period
    for c in range(0, chunks, some):
        phi = np.empty((-(-min(some, chunks - c) // period) * period, n, CHUNK), out.dtype)
        _keep(X, _arrays(basis, curve), c, phi, curve)
        stop = min(c + some, chunks)
        block = phi[: stop - c].transpose(1, 0, 2).reshape(n, (stop - c) * CHUNK)
        out[:, c * CHUNK : stop * CHUNK] = block


def gradient(X: Any, basis: Basis, G: Any, cosine: bool, wide: bool, out: Any) -> None:
    """Write the sum over the rows of G times features into `out`."""
    curve = _curve(basis, cosine, wide)
    _gradient(X, _arrays(basis, curve), G, period_of(basis), out, curve)


def step(
    X: Any,
    y: Any,
    basis: Basis,
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
    threads: int = 1,
) -> bool:
    """Predict the events into `F` and descend on the chunks of `block`, unless one overflowed.

    `block` is its first chunk and its features start and stop, counted from that chunk.
    """
    first, start, stop = block
    last, period, curve = first - (-stop // CHUNK), period_of(basis), _curve(basis, cosine, wide)
    before = first - first % period
    count = -(-last // period) * period - before
    n, outputs = F.shape
    whole, target, squares = _filled(A, period), A[first:last], squares[first:last]
    if threads > 1 and n > 1:
        prepared = (X, y, basis, whole, curve)
        places = (before, count, first - before, start, stop)
        return _step_together(
            prepared, places, target, squares, loss, (factor, weight, rate), F, threads
        )
    size = n * outputs * (LANES + 1) + (last - first) * outputs * CHUNK + count * n * CHUNK
    done: bool = _step(
        X, y, _arrays(basis, curve), whole, squares, target, (first, before, count, start, stop),
        loss, (factor, weight, rate), F, _room(size, A.dtype, 0), curve,
    )  # fmt: skip
    return done


def _step_together(
    prepared: tuple[Any, Any, Basis, Any, Any],
    places: tuple[int, int, int, int, int],
    target: Any,
    squares: Any,
    loss: tuple[int, float, bool],
    factors: tuple[float, float, float],
    F: Any,
    threads: int,
) -> bool:
    """Do what `_step` does with several threads: a part of the rows each, then of the chunks."""
    X, y, basis, A, curve = prepared
    before, count, skip, start, stop = places
    factor, weight, rate = factors
    n, outputs = F.shape
    acc, G = np.zeros((n, outputs, LANES), A.dtype), np.empty((n, outputs), A.dtype)
    kept: dict[int, tuple[slice, Any]] = {}

    def predict(rows: slice) -> None:
        phi = np.empty((count, rows.stop - rows.start, CHUNK), A.dtype)
        kept[rows.start] = rows, phi
        _predict_keeping(X[rows], _arrays(basis, curve), A, acc[rows], before, phi, curve)

    divide(n, n * PARALLEL_FLOPS, predict, threads)
    if not slopes(acc, y, loss, factor, weight, F, G):
        return False

    def descend_on(some: slice) -> None:
        g = np.zeros((some.stop - some.start, outputs, CHUNK), A.dtype)
        for _, (rows, phi) in sorted(kept.items()):
            _sum_gradient(G[rows], phi, skip + some.start, g)
        edge = some.start * CHUNK
        descend(target[some], squares[some], g, rate, start - edge, stop - edge)

    divide(len(target), len(target) * PARALLEL_FLOPS, descend_on, threads)
    return True
