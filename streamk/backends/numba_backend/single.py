"""One event at a time: the same loops behind a call that costs little.

Handing an array to compiled code takes about 60 ns, which for one event is a good part of its
time. So what stays the same from event to event, the arrays of a basis and of coefficients, is
handed over as a table of their addresses. These calls keep the interpreter's lock, so that two
threads never share their room. Many events in turn are one call, which lets the lock go and so has
room of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from streamk import backends
from streamk.backends import CHUNK, LANES, ROUNDS, Basis, Curve, Dense, Hadamard, Sizes, Steps
from streamk.backends.jit.compiling import compiling, exact, parts
from streamk.backends.jit.lanes import load, store
from streamk.backends.jit.vectors import carray
from streamk.backends.numba_backend import projection
from streamk.backends.numba_backend.hadamard import MASKS, STRIDES, evaluate_row, join_all
from streamk.backends.numba_backend.learning import finish, loss_gradient, score
from streamk.backends.numba_backend.tiles import evaluate_dense, evaluate_pair
from streamk.backends.single import BatchOfOne

_alone = compiling()
_inner = parts()

_A, _SQUARES, _FREQUENCIES, _RADII, _B, _MASKS, _X, _ACC, _G, _PHI, _LABEL, _SPARE, _BOTH = range(
    13
)
_CHUNKS, _CODE, _CLASSES, _START, _STOP, _CURVE = range(13, 19)
"""Places in the table: addresses of arrays, then numbers; the last one is that of the curve."""


def _point(_: Any, address: Any, like: Any) -> Any:
    """Return an address as a pointer to numbers like an array's, or like a number."""
    kind_of: Any = types.CPointer
    kind = kind_of(like.dtype if isinstance(like, types.Array) else like)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return kind(address, like), codegen


_pointer: Any = intrinsic(_point)
"""``carray(_pointer(address, like), shape)`` is the array there. Whoever fills the table keeps the
arrays alive."""


@_inner
def _descend(table: Any, X: Any, outputs: Any, rate: Any) -> None:
    """Subtract the gradient, as `learning.descend` does."""
    chunks, start, stop = table[_CHUNKS], table[_START], table[_STOP]
    A = carray(_pointer(table[_A], X), (chunks, outputs, CHUNK))
    phi = carray(_pointer(table[_PHI], X), (chunks, CHUNK))
    G = carray(_pointer(table[_G], X), (1, outputs))
    if table[_SQUARES] == 0 and start % CHUNK == stop % CHUNK == 0:
        for c in range(start // CHUNK, stop // CHUNK):
            for k in range(outputs):
                for i in range(0, CHUNK, LANES):
                    at = (c * outputs + k) * CHUNK + i
                    store(load(A, at) - (load(phi, c * CHUNK + i) * G[0, k]) * rate, A, at)
        return
    small = X.dtype.type(1e-8)
    for c in range(start // CHUNK, (stop + CHUNK - 1) // CHUNK):
        low, high = max(0, start - c * CHUNK), min(CHUNK, stop - c * CHUNK)
        for k in range(outputs):
            g = G[0, k]
            if table[_SQUARES] != 0:
                s = carray(_pointer(table[_SQUARES], X), (chunks, outputs, CHUNK))
                for i in range(low, high):
                    d = g * phi[c, i]
                    s[c, k, i] += d * d
                    A[c, k, i] -= rate * (d / (np.sqrt(s[c, k, i]) + small))
            else:
                for i in range(low, high):
                    A[c, k, i] -= rate * (g * phi[c, i])


@_inner
def _evaluate(table: Any, X: Any, strides: Any, bend: Any, phi: Any, outputs: Any) -> Any:
    """Add up the features of the only row of X; return the sums."""
    chunks = table[_CHUNKS]
    A = carray(_pointer(table[_A], X), (chunks, outputs, CHUNK))
    b = carray(_pointer(table[_B], X), (chunks, CHUNK))
    acc = carray(_pointer(table[_ACC], X), (1, outputs, LANES))
    acc[:] = 0.0
    if strides is None:
        W = carray(_pointer(table[_FREQUENCIES], X), (chunks, X.shape[1], CHUNK))
        evaluate_dense(X, W, b, A, acc, phi, 0, chunks, outputs, bend)
    else:
        signs = carray(_pointer(table[_FREQUENCIES], np.uint64(0)), (chunks, 1, ROUNDS))
        masks = carray(_pointer(table[_MASKS], np.uint16(0)), (chunks * MASKS,))
        radii = carray(_pointer(table[_RADII], X), (chunks, 1, CHUNK))
        x = carray(_pointer(table[_X], X), (CHUNK * 2 ** len(strides),))
        evaluate_row(
            X, 0, strides, signs, masks, radii, b, x, A, acc, phi, 0, chunks, outputs, bend
        )
    return acc


@_inner
def _evaluate_both(table: Any, x: Any, p: Any, strides: Any, bend: Any, outputs: Any) -> Any:
    """Add up the features of two rows, the first one's being kept; return the sums of each."""
    chunks, d = table[_CHUNKS], x.shape[1]
    acc = carray(_pointer(table[_ACC], x), (2, outputs, LANES))
    phi = carray(_pointer(table[_PHI], x), (2, chunks, 1, CHUNK))
    if strides is None:
        A = carray(_pointer(table[_A], x), (chunks, outputs, CHUNK))
        b = carray(_pointer(table[_B], x), (chunks, CHUNK))
        W = carray(_pointer(table[_FREQUENCIES], x), (chunks, d, CHUNK))
        both = carray(_pointer(table[_BOTH], x), (2, d))
        both[0], both[1], acc[:] = x[0], p[0], 0.0
        evaluate_pair(both, W, b, A, acc, phi, chunks, outputs, bend)
    else:
        acc[1:] = _evaluate(table, p, strides, bend, None, outputs)
        _evaluate(table, x, strides, bend, phi[0], outputs)
    return acc[:1], acc[1:]


@_inner
def _learn(table: Any, X: Any, y: Any, factors: Any, acc: Any, F: Any) -> Any:
    """Descend on the loss of the event whose features are kept, unless its prediction overflows."""
    factor, weight, rate = factors
    outputs = F.shape[1]
    G = carray(_pointer(table[_G], X), (1, outputs))
    label = carray(_pointer(table[_LABEL], np.float64(0.0)), (2,))
    label[0] = y
    loss = table[_CODE], label[1], table[_CLASSES] != 0
    if not projection.slopes(acc, label, loss, factor, weight, F, G):
        return False
    _descend(table, X, outputs, X.dtype.type(rate))
    return True


@_inner
def _learn_each(table: Any, x: Any, y: Any, amplitude: Any, steps: Any, rows: Any) -> None:
    """Descend on the loss of each function, and score it, by the outputs rows (functions, outputs).

    The features of the event are kept.
    """
    _, _, _, kept, most, sizes, decays, losses = steps
    functions, outputs = rows.shape
    G = carray(_pointer(table[_G], x), (functions, outputs))
    A = carray(_pointer(table[_A], x), (table[_CHUNKS], functions, outputs, CHUNK))
    label = carray(_pointer(table[_LABEL], np.float64(0.0)), (2,))
    label[0] = y
    code, parameter, classes = table[_CODE], label[1], table[_CLASSES] != 0
    for k in range(functions):
        one = slice(k, k + 1)
        loss_gradient(code, parameter, classes, rows[one], label[:1], amplitude, G[one])
        G[k] *= x.dtype.type(sizes[k] / (table[_STOP] - table[_START]))
        if decays[k] != 1.0:
            for c in range(table[_CHUNKS]):
                A[c, k] *= decays[k]
    _descend(table, x, functions * outputs, x.dtype.type(1.0))
    both = rows.reshape((1, functions, outputs))
    score(code, parameter, classes, both, label[:1], kept, most, losses)


@_inner
def _finite(x: Any) -> Any:
    bad = 0
    for j in range(len(x)):
        bad += not np.isfinite(x[j])
    return bad == 0


@cache
def _compiled(
    strides: tuple[int, ...] | None, wave: bool, power: bool, wide: bool
) -> tuple[Any, Any]:
    """Return the functions that predict and learn with such a basis; None: a dense one.

    What is known of the basis costs nothing in a call that way.
    """
    double = np.float64

    @_alone
    def predict(address: Any, x: Any, factor: Any, F: Any) -> Any:
        """Predict into F; see `streamk.backends.Single`."""
        table = carray(_pointer(address, np.int64(0)), (_CURVE + 1,))
        X, outputs = x.reshape((1, len(x))), len(F)
        bend = None
        if wave:
            bend = double(table[_CURVE]) if wide else x.dtype.type(table[_CURVE])
        if power:
            bend = table[_CURVE]
        acc = _evaluate(table, X, strides, bend, None, outputs)
        finish(acc, factor, F.reshape((1, outputs)))
        return _finite(x)

    @_alone
    def step(
        address: Any, x: Any, y: Any, block: Any, factor: Any, weight: Any, rate: Any, F: Any
    ) -> Any:
        """Predict into F and descend; see `streamk.backends.Single`."""
        table = carray(_pointer(address, np.int64(0)), (_CURVE + 1,))
        X, outputs = x.reshape((1, len(x))), len(F)
        bend = None
        if wave:
            bend = double(table[_CURVE]) if wide else x.dtype.type(table[_CURVE])
        if power:
            bend = table[_CURVE]
        phi = carray(_pointer(table[_PHI], x), (table[_CHUNKS], 1, CHUNK))
        acc = _evaluate(table, X, strides, bend, phi, outputs)
        if not _finite(x):
            return False
        table[_START], table[_STOP] = block
        return _learn(table, X, y, (factor, weight, rate), acc, F.reshape((1, outputs)))

    return predict, step


@cache
def _compiled_follow(strides: tuple[int, ...] | None, wave: bool, power: bool, wide: bool) -> Any:
    """Return the function that predicts and learns many events in turn with such a basis."""
    double = np.float64

    @exact
    def follow(
        address: Any, P: Any, same: Any, X: Any, y: Any, scale: Any, amplitude: Any, steps: Any,
        F: Any,
    ) -> Any:  # fmt: skip
        """Predict and descend row by row; see `streamk.backends.Single`. `same`: P is X."""
        table = carray(_pointer(address, np.int64(0)), (_CURVE + 1,))
        first, size, features, decays, rates, (low, high) = steps
        blocks, outputs, t = -(-features // size), F.shape[1], 0
        bend = None
        if wave:
            bend = double(table[_CURVE]) if wide else X.dtype.type(table[_CURVE])
        if power:
            bend = table[_CURVE]
        phi = carray(_pointer(table[_PHI], X), (table[_CHUNKS], 1, CHUNK))
        spare = carray(_pointer(table[_SPARE], np.float64(0.0)), (1, outputs))
        for r in range(X.shape[0]):
            at, x, factor = min(r, F.shape[0] - 1), X[r : r + 1], scale * amplitude
            f = F[at : at + 1]
            if np.isnan(y[r]):
                if P is not None:
                    finish(_evaluate(table, P[r : r + 1], strides, bend, None, outputs), factor, f)
                continue
            now = scale * decays[t]
            if not low < abs(now) < high:
                return r, scale
            if P is None or same:
                acc = _evaluate(table, x, strides, bend, phi, outputs)
            else:
                acc, ahead = _evaluate_both(table, x, P[r : r + 1], strides, bend, outputs)
                finish(ahead, factor, f)
            start = (first + t) % blocks * size
            stop = min(start + size, features)
            table[_START], table[_STOP] = start, stop
            rate = rates[t] / (stop - start) / now
            if not _learn(table, x, y[r], (factor, amplitude, rate), acc, f if same else spare):
                return r, scale
            scale, t = now, t + 1
        return X.shape[0], scale

    return follow


@cache
def _compiled_follow_several(
    strides: tuple[int, ...] | None, wave: bool, power: bool, wide: bool
) -> Any:
    """Return the function that does so with several functions, whose steps differ in size."""
    double = np.float64

    @exact
    def follow(
        address: Any, P: Any, same: Any, X: Any, y: Any, amplitude: Any, steps: Any, room: Any,
        F: Any,
    ) -> Any:  # fmt: skip
        """Predict and descend row by row; see `streamk.backends.Single`. `same`: P is X."""
        table = carray(_pointer(address, np.int64(0)), (_CURVE + 1,))
        first, size, features, _, _, sizes, _, losses = steps
        functions, outputs, blocks, t = len(sizes), F.shape[1], -(-features // size), 0
        every = functions * outputs
        bend = None
        if wave:
            bend = double(table[_CURVE]) if wide else X.dtype.type(table[_CURVE])
        if power:
            bend = table[_CURVE]
        phi = carray(_pointer(table[_PHI], X), (table[_CHUNKS], 1, CHUNK))
        now, before = room[:1], room[1:]
        for r in range(X.shape[0]):
            at, x = min(r, F.shape[0] - 1), X[r : r + 1]
            if np.isnan(y[r]):
                if P is not None:
                    acc = _evaluate(table, P[r : r + 1], strides, bend, None, every)
                    finish(acc, amplitude, before)
                    F[at] = before.reshape((functions, outputs))[losses.argmin()]
                continue
            if P is None or same:
                acc = _evaluate(table, x, strides, bend, phi, every)
            else:
                acc, ahead = _evaluate_both(table, x, P[r : r + 1], strides, bend, every)
                finish(ahead, amplitude, before)
            finish(acc, amplitude, now)
            if not (_finite(x[0]) and _finite(now[0])):
                return r
            rows = now.reshape((functions, outputs))
            if P is not None:
                F[at] = (rows if same else before.reshape(rows.shape))[losses.argmin()]
            start = (first + t) % blocks * size
            table[_START], table[_STOP] = start, min(start + size, features)
            _learn_each(table, x, y[r], amplitude, steps, rows)
            t += 1
        return X.shape[0]

    return follow


class _Tables:
    """Makes tables of the addresses of a basis and of coefficients, and of room to compute in."""

    def __init__(
        self,
        basis: Dense | Hadamard,
        A: Any,
        squares: Any,
        curve: int,
        loss: tuple[int, float, bool],
    ) -> None:
        self._chunks, self.outputs, self._dtype = len(A), A.shape[1], A.dtype
        # The loops trust the table: what does not fit would be read or written out of bounds.
        assert self._chunks % projection.period_of(basis) == 0
        assert len(basis.b) >= self._chunks
        for array in (A, squares, *(x for x in basis if isinstance(x, np.ndarray))):
            assert array.flags.carray
            assert array.dtype in (A.dtype, np.uint64)
        self.strides: tuple[int, ...] | None = None
        masks = np.empty(0, np.uint16)
        if isinstance(basis, Dense):
            self._width, frequencies, radii = 0, basis.W, np.empty(0, A.dtype)
        else:
            self._width, frequencies, radii = basis.widths[0], basis.signs, basis.radii
            self.strides, masks = STRIDES[self._width], np.empty(self._chunks * MASKS, np.uint16)
            join_all(frequencies[: self._chunks], self._width // CHUNK, masks)
        self._fixed = (A, squares, frequencies, radii, basis.b, masks)
        self._curve = curve - Curve.STEP if curve >= Curve.STEP else -1
        self._loss = loss

    def table(self, rows: int, d: int) -> tuple[Any, tuple[Any, ...]]:
        """Return a table with room of its own for so many rows, and what it points to."""
        chunks, outputs, dtype = self._chunks, self.outputs, self._dtype
        code, parameter, classes = self._loss
        sizes = (self._width, rows * outputs * LANES, outputs, rows * chunks * CHUNK)
        room = [np.empty(size, dtype) for size in sizes]
        label, spare, both = np.array([0.0, parameter]), np.empty(outputs), np.empty(2 * d, dtype)
        arrays = (*self._fixed, *room, label, spare, both)
        addresses = [array.ctypes.data if array.size else 0 for array in arrays]
        table = np.array([*addresses, chunks, code, classes, 0, 0, self._curve], np.int64)
        return table, arrays


class SingleEvents:
    """Predicts and learns single events with the same arrays; see `streamk.backends.Single`."""

    def __init__(
        self,
        basis: Dense | Hadamard,
        A: Any,
        squares: Any,
        curve: int,
        wide: bool,
        loss: tuple[int, float, bool],
    ) -> None:
        tables = _Tables(basis, A, squares, curve, loss)
        kind = tables.strides, curve == Curve.COSINE, curve >= Curve.STEP, wide
        # Functions, as methods would cost more.
        self.predict, self.step = _alone_with(tables, *_compiled(*kind))
        self.follow = _in_turn_with(tables, _compiled_follow(*kind))
        self.follow_several = _several_with(tables, _compiled_follow_several(*kind))


def _alone_with(
    tables: _Tables, compiled_predict: Any, compiled_step: Any
) -> tuple[Callable[..., bool], Callable[..., bool]]:
    """Return what predicts and what learns an event alone, in one room."""
    kept = tables.table(1, 0)
    address = kept[0].ctypes.data

    # `kept`: they know no more than an address, and either may outlive the other.
    def predict(x: Any, factor: float, F: Any, _: Any = kept) -> bool:
        finite: bool = compiled_predict(address, x, factor, F)
        return finite

    def step(
        x: Any,
        y: float,
        block: tuple[int, int],
        factor: float,
        weight: float,
        rate: float,
        F: Any,
        _: Any = kept,
    ) -> bool:
        done: bool = compiled_step(address, x, y, block, factor, weight, rate, F)
        return done

    return predict, step


def _in_turn_with(tables: _Tables, compiled: Any) -> Callable[..., tuple[int, float]]:
    """Return what predicts and learns many events in turn, in a room for each call."""

    def follow(
        P: Any, X: Any, y: Any, scale: float, amplitude: float, steps: Steps, F: Any
    ) -> tuple[int, float]:
        own = tables.table(2, X.shape[1])
        into = np.empty((1, tables.outputs)) if F is None else F
        rows, scale = compiled(
            own[0].ctypes.data, P, P is X, X, y, scale, amplitude, tuple(steps), into
        )
        return int(rows), float(scale)

    return follow


def _several_with(tables: _Tables, compiled: Any) -> Callable[..., int]:
    """Return what does so with several functions, in a room that is made with the first events."""
    learning: list[Any] = []

    def follow_several(P: Any, X: Any, y: Any, amplitude: float, steps: Sizes, F: Any) -> int:
        if not learning:
            learning.extend((tables.table(2, X.shape[1]), np.empty((2, tables.outputs))))
        own, room = learning
        into = np.empty((1, tables.outputs // len(steps.sizes))) if F is None else F
        return int(
            compiled(own[0].ctypes.data, P, P is X, X, y, amplitude, tuple(steps), room, into)
        )

    return follow_several


def single(
    basis: Basis, A: Any, squares: Any, curve: int, wide: bool, loss: tuple[int, float, bool]
) -> backends.Single:
    """Prepare for single events."""
    groups = len(basis.widths) if isinstance(basis, Hadamard) else 1
    if groups > 1 or not isinstance(basis, Dense | Hadamard):
        return BatchOfOne(
            projection.predict,
            projection.step,
            np.asarray,
            np,
            basis,
            A,
            squares,
            curve,
            wide,
            loss,
        )
    return SingleEvents(basis, A, squares, curve, wide, loss)
