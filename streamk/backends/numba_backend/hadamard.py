"""Tiles of Walsh-Hadamard features: transformed, taken the cosine of and summed up in registers.

A transform of p numbers is three rounds of sign flips and log2(p) stages of sums and differences.
Stages commute, so a round may begin with those between the chunks of 64 and end with those within,
or the other way about. That makes four passes over p numbers of what would be six::

    within 1 | between 1, signs, between 2 | within 2, signs, within 3 | between 3, cosine, sum

and for p = 64 all of it stays in registers. A stage between vectors is an addition each; one
between lanes of a vector costs a shuffle besides, and shuffles are what these loops wait for most.
So `SIDE` transforms go side by side, of as many rows of a batch or of consecutive chunks of one
event: a vector holds four numbers of each, two stages are left between lanes instead of four, and
afterwards they are parted. What does not fill them goes by itself. Either way each number goes
through the same operations in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streamk.backends import CHUNK, LANES, ROUNDS, WIDEST
from streamk.backends.jit.compiling import compiled, inlined, part
from streamk.backends.jit.lanes import (
    cast,
    flipped,
    fma,
    folded,
    joined,
    load,
    load_each,
    load_first,
    load_rows,
    parted,
    repeated,
    room,
    store,
    store_rows,
    walsh,
    weighed,
)
from streamk.backends.jit.parts import overload
from streamk.backends.numba_backend.phases import curve_of

SIDE = 4
"""Transforms side by side."""
FEW = LANES // SIDE
"""Numbers of each in a vector of `LANES`."""
PARTS = CHUNK // FEW
"""Such vectors that hold a chunk of each."""
_VECTORS = CHUNK // LANES


def _tile(*, side: int = 1, repeats: bool = False, hands: bool = False, given: bool = False) -> Any:
    """Return what takes transforms, and what becomes of them.

    There are 1 of them or `SIDE`, whose signs are laid out by `_join`. If it `repeats`, all
    transforms are of the same numbers; else X has `FEW` of each in turn. If it `hands` them on,
    phases are kept rather than features; and `given`, the phases are b.

    Its arguments are X, signs, radii, the phases b; A and acc, and phi, where features are kept,
    each None where it is not wanted; where to begin in each of the seven; how many numbers there
    are in X, and how many outputs and groups; how far on in phi the next chunk is; how many chunks
    on the next transform is, and how far in acc and in phi; the strides between chunks of a
    transform; and the curve, see `phases`.
    """

    def tile(
        X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any, r: Any,
        p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, apart: Any,
        next_chunk: Any, next_sum: Any, next_phi: Any, strides: Any, curve: Any,
    ) -> None:  # fmt: skip
        raise NotImplementedError("only compiled")

    @overload(tile, forceinline=True)
    def compiled_tile(
        X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any, r: Any,
        p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, apart: Any,
        next_chunk: Any, next_sum: Any, next_phi: Any, strides: Any, curve: Any,
    ) -> Any:  # fmt: skip
        if given:
            return _finished(1, repeats=False, hands=False, chunks=1, curve=curve)[1]
        if len(strides) == 0:
            return _whole(side, repeats, hands, curve)
        return _several(side, repeats, hands, 2 ** len(strides), curve)

    return tile


def _finished(side: int, *, repeats: bool, hands: bool, chunks: int, curve: Any) -> tuple[Any, Any]:
    """Return what becomes of vectors of transforms, and the loop of phases that are given.

    Of transforms of one chunk, a vector has a chunk of each transform; of others, `LANES` numbers
    of each chunk.
    """
    count = side if chunks == 1 else chunks
    each = CHUNK if chunks == 1 else LANES
    lanes, sums = count * each, max(1, count * each // CHUNK) * LANES
    starts, together = hands or isinstance(curve, types.Float), chunks > 1 or repeats or side == 1
    typed, features = _typed(curve), curve_of(curve, each, lanes)[1]

    @inlined
    def finish(
        u: Any, A: Any, acc: Any, phi: Any, b: Any, outputs: Any, a: Any, f: Any, k: Any,
        next_a: Any, next_sum: Any, next_phi: Any, curve: Any,
    ) -> None:  # fmt: skip
        """Hand phases on, or keep or add up their features."""
        x = u if hands else features(u, b, 0, 0, curve)
        if phi is not None:
            store_rows(x, phi, k, next_phi, count)
        if acc is not None:
            for o in range(outputs):
                # Short chains, one beside another.
                weights = load_rows(A, a + o * CHUNK, next_a, count, lanes)
                total, place = weighed(x, weights, repeated(b.dtype.type(0.0), sums)), f + o * LANES
                if together:
                    store(folded(load(acc, place), total), acc, place)
                else:
                    total = load_rows(acc, place, next_sum, side, sums) + total
                    store_rows(total, acc, place, next_sum, side)

    @inlined
    def start(b: Any, p: Any, step: Any, curve: Any) -> Any:
        """Return the phases at x = 0."""
        if starts:
            return typed(load_rows(b, p, step, count, lanes), curve)
        return typed(repeated(b.dtype.type(0.0), lanes), curve)

    def of_phases(
        X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any, r: Any,
        p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, apart: Any,
        next_chunk: Any, next_sum: Any, next_phi: Any, strides: Any, curve: Any,
    ) -> None:  # fmt: skip
        u = typed(load(b, p, lanes), curve)
        finish(u, A, acc, phi, radii, outputs, a, f, k, 0, 0, 0, curve)

    return (finish, start), of_phases


@inlined
def _cast(x: Any, curve: Any) -> Any:
    return cast(x, curve)


@inlined
def _same(x: Any, curve: Any) -> Any:
    return x


def _typed(curve: Any) -> Any:
    """Return what casts numbers to the type of phases."""
    return _cast if isinstance(curve, types.Float) else _same


def _stages(side: int, repeats: bool, curve: Any) -> tuple[Any, Any, Any]:
    """Return what begins a chunk, does the stages within it, and puts each transform together."""
    lanes, typed, minus = CHUNK * side, _typed(curve), _minus_of(curve)

    @inlined
    def within(x: Any, b: Any, curve: Any) -> Any:
        """Do the stages within chunks."""
        if side == 1:
            return walsh(x, 1, CHUNK, minus(b, curve))
        return walsh(walsh(x, 1, FEW), LANES, lanes, minus(b, curve))

    @inlined
    def begun(
        X: Any, x: Any, c: Any, there: Any, signs: Any, s: Any, b: Any, curve: Any
    ) -> Any:  # fmt: skip
        """Return the numbers of chunk c after the first signs and stages."""
        if side == 1:
            found = load_first(X, x + c * CHUNK, there - c * CHUNK, lanes)
        elif repeats:
            found = load_each(X, x + c * CHUNK, FEW, lanes)
        else:
            found = load(X, x + c * lanes, lanes)
        return within(flipped(typed(found, curve), signs, s, 1), b, curve)

    @inlined
    def apart_again(x: Any) -> Any:
        """Return the numbers of each transform together."""
        return x if side == 1 else parted(x)

    return begun, within, apart_again


def _whole(side: int, repeats: bool, hands: bool, curve: Any) -> Any:
    """Return the loop of tiles whose transforms are of one chunk."""
    lanes, vectors = CHUNK * side, CHUNK * side // LANES
    unit = vectors if side == 1 else 1  # masks in a number of the signs
    begun, within, apart_again = _stages(side, repeats, curve)
    (finish, start), _ = _finished(side, repeats=repeats, hands=hands, chunks=1, curve=curve)

    def whole(
        X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any, r: Any,
        p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, apart: Any,
        next_chunk: Any, next_sum: Any, next_phi: Any, strides: Any, curve: Any,
    ) -> None:  # fmt: skip
        v = begun(X, x, 0, there, signs, s * unit, b, curve)
        for round_ in range(1, ROUNDS):
            v = within(flipped(v, signs, s * unit + round_ * vectors, 1), b, curve)
        far = next_chunk * CHUNK
        v = apart_again(v)
        u = fma(v, load_rows(radii, r, far * groups, side, lanes), start(b, p, far, curve))
        finish(u, A, acc, phi, b, outputs, a, f, k, far * outputs, next_sum, next_phi, curve)

    return whole


def _several(side: int, repeats: bool, hands: bool, chunks: int, curve: Any) -> Any:
    """Return the loop of tiles whose transforms are of some chunks."""
    lanes, vectors, typed = CHUNK * side, CHUNK * side // LANES, _typed(curve)
    unit = vectors if side == 1 else 1  # masks in a number of the signs
    begun, within, apart_again = _stages(side, repeats, curve)
    (finish, start), _ = _finished(side, repeats=repeats, hands=hands, chunks=chunks, curve=curve)
    wide, size, minus = chunks * LANES, WIDEST * side, _minus_of(curve)
    inner = _VECTORS if repeats else side

    def several(
        X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any, r: Any,
        p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, apart: Any,
        next_chunk: Any, next_sum: Any, next_phi: Any, strides: Any, curve: Any,
    ) -> None:  # fmt: skip
        z, s = room(size, minus(b, curve)), s * unit
        masks = ROUNDS * vectors * (groups if side == 1 else 1)  # of a chunk
        full = min((there + CHUNK - 1) // CHUNK, chunks)
        for c in range(full):
            store(begun(X, x, c, there, signs, s + c * masks, b, curve), z, c * lanes)
        none = typed(repeated(b.dtype.type(0.0), lanes), curve)
        for c in range(full, chunks):  # without columns
            store(none, z, c * lanes)
        for v in range(vectors):
            y = walsh(load_rows(z, v * LANES, lanes, chunks, wide), LANES, wide, minus(b, curve))
            y = flipped(y, signs, s + vectors + v, masks)
            y = walsh(y, LANES, wide, minus(b, curve))
            store_rows(y, z, v * LANES, lanes, chunks)
        for c in range(chunks):
            y = within(load(z, c * lanes, lanes), b, curve)
            y = within(flipped(y, signs, s + c * masks + 2 * vectors, 1), b, curve)
            store(apart_again(y), z, c * lanes)
        for n in range(vectors):
            # Rows have their constants in common, chunks their sums.
            one, other = n % inner, n // inner
            i, at = (other, one * LANES) if repeats else (one, other * LANES)
            y = walsh(load_rows(z, i * CHUNK + at, lanes, chunks, wide), LANES, wide)
            far = i * next_chunk * CHUNK + at
            lengths = load_rows(radii, r + (far - at) * groups + at, CHUNK * groups, chunks, wide)
            u = fma(y, lengths, start(b, p + far, CHUNK, curve))
            finish(
                u, A, acc, phi, b, outputs, a + (far - at) * outputs + at, f + i * next_sum,
                k + i * next_phi + at, CHUNK * outputs, 0, apart, curve,
            )  # fmt: skip

    return several


def _minus_of(curve: Any) -> Any:
    """Return what gives -1 in the type of phases, see `walsh`."""
    return _given if isinstance(curve, types.Float) else _minus


@inlined
def _given(_: Any, curve: Any) -> Any:
    return curve


@inlined
def _minus(b: Any, _: Any) -> Any:
    return b.dtype.type(-1.0)


one_tile, rows_tile = _tile(), _tile(side=SIDE)
chunks_tile = _tile(side=SIDE, repeats=True)
hand_tile, phases_tile = _tile(hands=True), _tile(given=True)


_PIECE = 256
"""Rows that are laid out side by side at a time."""
MASKS = ROUNDS * PARTS // SIDE
"""Masks of signs that a chunk asks for where transforms go side by side."""
STRIDES = {CHUNK << k: tuple(CHUNK << i for i in range(k)) for k in range(5)}
"""Of each width of a transform, how far apart the pairs of its stages between chunks are."""


@part
def _interleave(X: Any, first: Any, out: Any) -> None:
    """Lay rows from `first` on out side by side: `FEW` numbers of each in turn, 0 at the end."""
    d, size = X.shape[1], out.shape[1] * LANES
    for q in range(out.shape[0]):
        for j in range(0, size // SIDE, LANES):
            at = (first + q * SIDE) * d + j
            a, b = load_first(X, at, d - j), load_first(X, at + d, d - j)
            e, f = load_first(X, at + 2 * d, d - j), load_first(X, at + 3 * d, d - j)
            store(parted(joined(a, b, e, f)), out, q * size + j * SIDE)


@part
def _join(signs: Any, c: Any, step: Any, apart: Any, masks: Any) -> None:
    """Lay out the signs of `SIDE` transforms of `step` chunks that begin `apart` chunks apart.

    A vector of the four's numbers has its 16 bits together.
    """
    words, on, low = signs.reshape(-1), apart * ROUNDS, np.uint64(2**FEW - 1)
    for i in range(step * ROUNDS):
        first = c * ROUNDS + i
        a, b = words[first], words[first + on]
        e, f = words[first + 2 * on], words[first + 3 * on]
        for v in range(PARTS):
            n = np.uint64(FEW * v)
            both = (a >> n & low) | (b >> n & low) << np.uint64(FEW)
            others = (e >> n & low) | (f >> n & low) << np.uint64(FEW)
            masks[i * PARTS + v] = both | others << np.uint64(2 * FEW)


@part
def _evaluate_rows(
    X: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any,
    stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate the rows that go side by side, as many at a time as the second cache holds."""
    n, d, step = X.shape[0], X.shape[1], 2 ** len(strides)
    whole, size = n - n % SIDE, step * CHUNK * SIDE
    quads = np.empty((min(whole, _PIECE) // SIDE, step * PARTS, LANES), X.dtype)
    masks = np.empty(step * ROUNDS * PARTS, np.uint16)
    for begin in range(0, whole, _PIECE):
        count = min(_PIECE, whole - begin) // SIDE
        _interleave(X, begin, quads[:count])
        for c in range(first, stop, step):
            _join(signs, c, step, 0, masks)
            for q in range(count):
                r = begin + q * SIDE
                rows_tile(
                    quads, masks, radii, b, A, acc, phi,
                    q * size, 0, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
                    r * outputs * LANES, ((c - first) * n + r) * CHUNK,
                    d, outputs, 1, n * CHUNK, 0, outputs * LANES, CHUNK, strides, curve,
                )  # fmt: skip


@compiled
def join_all(signs: Any, step: Any, masks: Any) -> None:
    """Lay out the signs of all transforms that go side by side with their neighbours."""
    size = SIDE * step
    for c in range(0, signs.shape[0] - size + 1, size):
        _join(signs, c, step, step, masks[c * MASKS :])


@part
def evaluate_row(
    X: Any, r: Any, strides: Any, signs: Any, masks: Any, radii: Any, b: Any, x: Any, A: Any,
    acc: Any, phi: Any, first: Any, stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate one row, transforms going side by side from `first` on.

    `masks` are the signs from there on as `join_all` lays them out; `x` is room for the numbers
    that are transformed.
    """
    n, d, step = X.shape[0], X.shape[1], 2 ** len(strides)
    for j in range(d):
        x[j] = X[r, j]
    for j in range(d, step * CHUNK):
        x[j] = 0.0
    c = first
    while c + SIDE * step <= stop:
        chunks_tile(
            x, masks, radii, b, A, acc, phi,
            0, (c - first) * MASKS, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
            r * outputs * LANES, ((c - first) * n + r) * CHUNK,
            d, outputs, 1, n * CHUNK, step, 0, step * n * CHUNK, strides, curve,
        )  # fmt: skip
        c += SIDE * step
    while c < stop:
        one_tile(
            x, signs, radii, b, A, acc, phi,
            0, c * ROUNDS, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
            r * outputs * LANES, ((c - first) * n + r) * CHUNK,
            d, outputs, 1, n * CHUNK, 0, 0, 0, strides, curve,
        )  # fmt: skip
        c += step


@part
def evaluate_hadamard(
    X: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any,
    stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`, one group; see `projection.evaluate`."""
    n, step = X.shape[0], 2 ** len(strides)
    whole = n - n % SIDE
    if whole:
        _evaluate_rows(X, strides, signs, radii, b, A, acc, phi, first, stop, outputs, curve)
    if whole < n:
        x, masks = np.empty(step * CHUNK, X.dtype), np.empty((stop - first) * MASKS, np.uint16)
        join_all(signs[first:stop], step, masks)
        for r in range(whole, n):
            evaluate_row(
                X, r, strides, signs, masks, radii, b, x, A, acc, phi, first, stop, outputs, curve
            )


@part
def _hand_on(
    width: Any, X: Any, signs: Any, radii: Any, room: Any, x: Any, s: Any, at: Any, there: Any,
    groups: Any, curve: Any,
) -> None:  # fmt: skip
    """Add a transform of one group's columns to the phases in `room`."""
    one, two, four, eight = CHUNK, 2 * CHUNK, 4 * CHUNK, 8 * CHUNK
    places = (x, s * ROUNDS, s * CHUNK, at, 0, 0, at, there, 0, groups, CHUNK, 0, 0, 0)
    if width == CHUNK:
        hand_tile(X, signs, radii, room, None, None, room, *places, (), curve)
    elif width == two:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one,), curve)
    elif width == four:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one, two), curve)
    elif width == eight:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one, two, four), curve)
    else:
        strides = (one, two, four, eight)
        hand_tile(X, signs, radii, room, None, None, room, *places, strides, curve)


def _begun(b: Any, c: Any, i: Any, curve: Any) -> Any:
    """Return the phase at x = 0 of feature i from chunk c on: 0 where the curve is no wave."""
    raise NotImplementedError("only compiled")


@overload(_begun)
def _compiled_begun(b: Any, c: Any, i: Any, curve: Any) -> Any:
    def random(b: Any, c: Any, i: Any, curve: Any) -> Any:
        return b[c + i // CHUNK, i % CHUNK]

    def zero(b: Any, c: Any, i: Any, curve: Any) -> Any:
        return 0.0

    return random if isinstance(curve, types.Float) else zero


@part
def evaluate_groups(
    X: Any, widths: Any, signs: Any, radii: Any, b: Any, room: Any, A: Any, acc: Any, phi: Any,
    first: Any, stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`, several groups; see `projection.evaluate`.

    The phases of a row's chunks, as many as the widest group's transform gives, wait in `room` for
    all groups.
    """
    n, d, groups = X.shape[0], X.shape[1], widths.shape[0]
    period = widths.max() // CHUNK
    for c in range(first, stop, period):
        for r in range(n):
            for i in range(period * CHUNK):
                room[i] = _begun(b, c, i, curve)
            column = 0
            for g in range(groups):
                width = widths[g]
                for k in range(0, period, width // CHUNK):
                    _hand_on(
                        width, X, signs, radii, room, r * d + column, (c + k) * groups + g,
                        k * CHUNK, d - column, groups, curve,
                    )  # fmt: skip
                column += width
            for k in range(period):
                phases_tile(
                    X, signs, radii, room, A, acc, phi,
                    0, 0, 0, k * CHUNK, (c + k) * outputs * CHUNK, r * outputs * LANES,
                    ((c + k - first) * n + r) * CHUNK,
                    0, outputs, groups, n * CHUNK, 0, 0, 0, (), curve,
                )  # fmt: skip
