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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamk.backends import CHUNK, LANES, ROUNDS, WIDEST
from streamk.backends.jit.compiling import compiled, part
from streamk.backends.jit.parts import overload
from streamk.backends.jit.vectors import Emitter, data, stack
from streamk.backends.numba_backend.phases import Bend

_intrinsic: Callable[[Any], Any] = intrinsic
SIDE = 4
"""Transforms side by side."""
FEW = LANES // SIDE
"""Numbers of each in a vector."""
PARTS = CHUNK // FEW
"""Vectors that hold a chunk of each."""
_VECTORS = CHUNK // LANES


class _Tile:
    """Emits the body of an intrinsic: transforms, and what becomes of them.

    Parameters
    ----------
    side : int
        Transforms, 1 or `SIDE`. With `SIDE`, the signs are laid out by `join_signs`.
    repeats : bool
        Whether all transforms are of the same numbers. Else X has `FEW` of each in turn.
    hands : bool
        Whether phases are kept rather than features.
    """

    def __init__(
        self,
        context: Any,
        builder: Any,
        kinds: Any,
        values: Any,
        *,
        side: int = 1,
        repeats: bool = False,
        hands: bool = False,
    ) -> None:
        self.b, self.side, self.repeats, self.hands = builder, side, repeats, hands
        self.adds, self.keeps = kinds[5] != types.none, kinds[6] != types.none
        self.e = Emitter(builder, context.get_data_type(kinds[2].dtype))
        self.X, signs, self.radii, self.start, self.A, self.acc, self.phi = (
            None if kind == types.none else self.e.at(data(context, builder, kind, value), offset)
            for kind, value, offset in zip(kinds[:7], values[:7], values[7:14], strict=True)
        )
        self.signs = builder.bitcast(signs, ir.IntType(LANES).as_pointer())
        self.there, self.outputs, self.groups, self.apart = values[14:18]
        self.next_chunk, self.next_sum, self.next_phi = values[18:21]
        self.chunks = 2 ** len(kinds[21])
        self.bend = Bend(context, builder, kinds[22], values[22], self.e)
        self.u = self.bend.u
        self.lanes = LANES // side
        self.vectors = CHUNK // self.lanes  # that hold a chunk of each transform

    def _at(self, pointer: Any, *terms: tuple[Any, Any]) -> Any:
        return self.e.at(pointer, self.e.offset(*terms))

    # The three rounds

    def _begun(self, c: Any) -> list[Any]:
        """Return the numbers of chunk c after the first signs."""
        u, b = self.u, self.b
        first = b.mul(c, u.size(CHUNK))
        if self.side == 1:
            x, there = u.at(self.X, first), b.sub(self.there, first)
            loaded = [u.load_some(x, v * LANES, there) for v in range(self.vectors)]
        elif self.repeats:
            x = u.at(self.X, first)
            places = [u.at(x, u.size(v * FEW)) for v in range(self.vectors)]
            loaded = [u.load_repeated(place, FEW) for place in places]
        else:
            x = u.at(self.X, b.mul(first, u.size(SIDE)))
            loaded = [u.load(x, v * LANES) for v in range(self.vectors)]
        return self._signed(loaded, 0, c)

    def _sign(self, value: Any, round_: int, c: Any, v: Any) -> Any:
        """Return vector v of chunk c with the signs of a round."""
        e, b = self.e, self.b
        size = e.size(ROUNDS * self.vectors)
        if self.side == 1:
            size = b.mul(self.groups, size)
        number = b.add(v, e.size(round_ * self.vectors))
        bits = b.load(self._at(self.signs, (c, size), (number, e.size(1))))
        return self.u.negate(value, bits)

    def _signed(self, values: list[Any], round_: int, c: Any) -> list[Any]:
        """Return the vectors of chunk c with the signs of a round."""
        return [self._sign(x, round_, c, self.e.size(v)) for v, x in enumerate(values)]

    def _within(self, values: list[Any]) -> list[Any]:
        """Return the vectors of a chunk after the stages within it."""
        stride = 1
        while stride < self.lanes:
            values = [self.u.butterflies(x, stride) for x in values]
            stride *= 2
        return self._across(values)

    def _across(self, values: Sequence[Any], *, mixed: int = 4) -> list[Any]:
        """Return vectors after the stages between them.

        Those of a stride of up to `mixed` take their differences by multipliers, so that these do
        not idle while the adders are busy.
        """
        values, stride = list(values), 1
        while stride < len(values):
            for i in range(len(values)):
                if not i & stride:
                    pair = self.u.butterfly(values[i], values[i + stride], stride <= mixed)
                    values[i], values[i + stride] = pair
            stride *= 2
        return values

    def _parted(self, values: list[Any]) -> list[Any]:
        """Return a chunk's vectors, those of each transform together."""
        if self.side == 1:
            return values
        fours = [self.u.parted(values[v : v + SIDE]) for v in range(0, len(values), SIDE)]
        return [four[i] for i in range(SIDE) for four in fours]

    def _to_last(self) -> Any:
        """Emit all but the stages between chunks of the last round; return where it lies."""
        u, b = self.u, self.b
        room = stack(b, u.element, WIDEST * self.side)
        chunks, far = u.size(self.chunks), CHUNK * self.side

        def first(c: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(c, u.size(far)))
            for v, value in enumerate(self._within(self._begun(c))):
                u.store(value, place, v * LANES)
            return []

        def between(v: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(v, u.size(LANES)))
            values = self._across([u.load(place, c * far) for c in range(self.chunks)], mixed=LANES)
            values = [self._sign(x, 1, u.size(c), v) for c, x in enumerate(values)]
            for c, value in enumerate(self._across(values, mixed=LANES)):
                u.store(value, place, c * far)
            return []

        def last(c: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(c, u.size(far)))
            values = self._within([u.load(place, v * LANES) for v in range(self.vectors)])
            values = self._within(self._signed(values, 2, c))
            for v, value in enumerate(self._parted(values)):
                u.store(value, place, v * LANES)
            return []

        def empty(n: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(b.add(begun, n), u.size(far)))
            for v in range(self.vectors):
                u.store(u.constant(0.0), place, v * LANES)
            return []

        # Chunks without columns stay zero.
        begun = b.udiv(b.add(self.there, u.size(CHUNK - 1)), u.size(CHUNK))
        begun = b.select(b.icmp_signed("<", begun, chunks), begun, chunks)
        u.loop(begun, [], first)
        u.loop(b.sub(chunks, begun), [], empty)
        u.loop(u.size(self.vectors), [], between)
        u.loop(chunks, [], last)
        return room

    # What becomes of it

    def _phases(
        self, values: Sequence[Any], i: Any, places: Sequence[tuple[int, Any]]
    ) -> list[Any]:
        """Return the phases of vectors of transform i at (chunk, number within the chunk)."""
        e, u, found = self.e, self.u, []
        number = self.b.mul(i, self.next_chunk)
        for value, (c, first) in zip(values, places, strict=True):
            chunk = self.b.add(number, e.size(c))
            start = u.constant(0.0)
            if self.bend.wave or self.hands:
                start = u.load(self._at(self.start, (chunk, e.size(CHUNK)), (first, e.size(1))))
            chunk = self.b.mul(chunk, self.groups)
            radii = u.load(self._at(self.radii, (chunk, e.size(CHUNK)), (first, e.size(1))))
            found.append(u.fma(value, radii, start))
        return found

    def _sink(
        self, transforms: Sequence[tuple[Any, Sequence[Any]]], places: Sequence[tuple[int, Any]]
    ) -> None:
        """Take the phases of numbered transforms: hand them on, or keep or add up features."""
        e, one = self.e, self.e.size(1)
        if not self.hands:
            transforms = [(i, self.bend.features(list(phases))) for i, phases in transforms]
        if self.keeps:
            writer = self.u if self.hands else e
            for i, features in transforms:
                kept = self._at(self.phi, (i, self.next_phi))
                for x, (c, first) in zip(features, places, strict=True):
                    spot = self._at(kept, (e.size(c), self.apart), (first, one))
                    writer.store(x, spot)
        if not self.adds:
            return

        def add(k: Any, _: list[Any]) -> list[Any]:
            """Add an output's coefficients times features to its sum."""
            for i, features in transforms:
                spot = self._at(self.acc, (i, self.next_sum), (k, e.size(LANES)))
                total = e.load(spot)
                for n in range(0, len(features), _VECTORS):  # short chains, one beside another
                    part = None
                    for x, (c, first) in zip(features[n:], places[n : n + _VECTORS], strict=False):
                        row = e.offset((i, self.next_chunk), (e.size(c), one))
                        row = e.offset((row, self.outputs), (k, one))
                        A = e.load(self._at(self.A, (row, e.size(CHUNK)), (first, one)))
                        part = self.b.fmul(A, x) if part is None else e.fma(A, x, part)
                    total = self.b.fadd(total, part)
                e.store(total, spot)
            return []

        e.loop(self.outputs, [], add)

    def emit(self) -> None:
        """Emit it all."""
        u, b = self.u, self.b
        if self.chunks == 1:
            zero = u.size(0)
            values = self._within(self._begun(zero))
            for round_ in range(1, ROUNDS):
                values = self._within(self._signed(values, round_, zero))
            self._sink_chunk(self._parted(values))
            return
        room, far = self._to_last(), CHUNK * self.side

        def last(n: Any, _: list[Any]) -> list[Any]:
            # Rows have their constants in common, chunks their sums.
            inner = u.size(_VECTORS if self.repeats else self.side)
            one, other = b.urem(n, inner), b.udiv(n, inner)
            i, v = (other, one) if self.repeats else (one, other)
            place = self._at(room, (i, u.size(CHUNK)), (v, u.size(LANES)))
            # Cosines keep the multipliers busy enough.
            values = self._across([u.load(place, c * far) for c in range(self.chunks)], mixed=0)
            first = b.mul(v, u.size(LANES))
            places = [(c, first) for c in range(self.chunks)]
            self._sink([(i, self._phases(values, i, places))], places)
            return []

        u.loop(u.size(_VECTORS * self.side), [], last)

    def _sink_chunk(self, values: list[Any]) -> None:
        """Emit what becomes of the numbers of transforms of one chunk each."""
        places = [(0, self.u.size(v * LANES)) for v in range(_VECTORS)]
        transforms = []
        for n in range(self.side):
            some, i = values[n * _VECTORS : (n + 1) * _VECTORS], self.u.size(n)
            transforms.append((i, self._phases(some, i, places)))
        self._sink(transforms, places)

    def emit_phases(self) -> None:
        """Emit what becomes of the phases of a chunk."""
        offsets = range(0, CHUNK, LANES)
        phases = [self.u.load(self.start, offset) for offset in offsets]
        places = [(0, self.u.size(offset)) for offset in offsets]
        self._sink([(self.u.size(0), phases)], places)


def _tile(*, given: bool = False, **options: Any) -> Any:
    """Return the intrinsic with such options of `_Tile`; `given`, the phases are b.

    Its arguments are X, signs, radii, the phases b; A and acc, and phi, where features are kept,
    each None where it is not wanted; where to begin in each of the seven; how many numbers there
    are in X, and how many outputs and groups; how far on in phi the next chunk is; how many chunks
    on the next transform is, and how far in acc and in phi; the strides between chunks of a
    transform; and -1 in the type of phases, or None where features are phases.
    """

    @_intrinsic
    def tile(
        _: Any, X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any,
        r: Any, p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, apart: Any,
        next_chunk: Any, next_sum: Any, next_phi: Any, strides: Any, curve: Any,
    ) -> Any:  # fmt: skip
        kinds = (X, signs, radii, b, A, acc, phi, *[types.int64] * 14, strides, curve)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            body = _Tile(context, builder, signature.args, values, **options)
            if given:
                body.emit_phases()
            else:
                body.emit()
            return context.get_dummy_value()

        return types.void(*kinds), codegen

    return tile


one_tile, rows_tile = _tile(), _tile(side=SIDE)
chunks_tile = _tile(side=SIDE, repeats=True)
hand_tile, phases_tile = _tile(hands=True), _tile(given=True)


@_intrinsic
def lay_side_by_side(_: Any, X: Any, at: Any, there: Any, d: Any, out: Any, to: Any) -> Any:
    """Lay out LANES numbers of each of `SIDE` rows of X, `FEW` of each in turn.

    The first row's begin at `at` and the others d further on; only so many are `there`, the others
    are 0. `to` is where in out.
    """
    kinds = (X, types.int64, types.int64, types.int64, out, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        e = Emitter(builder, context.get_data_type(X.dtype))
        start = e.at(data(context, builder, signature.args[0], values[0]), values[1])
        place = e.at(data(context, builder, signature.args[4], values[4]), values[5])
        rows = [e.at(start, builder.mul(values[3], e.size(r))) for r in range(SIDE)]
        for r, row in enumerate(e.parted([e.load_some(row, 0, values[2]) for row in rows])):
            e.store(row, place, r * LANES)
        return context.get_dummy_value()

    return types.void(*kinds), codegen


@_intrinsic
def join_signs(
    _: Any, signs: Any, first: Any, second: Any, third: Any, fourth: Any, out: Any, at: Any
) -> Any:
    """Lay four words of signs out so that a vector of the four's numbers finds its 16 together."""
    kinds = (signs, *[types.int64] * 4, out, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        b, word = builder, ir.IntType(64)
        start = data(context, b, signature.args[0], values[0])
        words = [b.load(b.gep(start, [at])) for at in values[1:5]]
        low, few = ir.Constant(word, 0x0F0F0F0F0F0F0F0F), ir.Constant(word, FEW)
        even = [b.and_(w, low) for w in words]
        odd = [b.and_(b.lshr(w, few), low) for w in words]
        # Two words to a byte, then the bytes of even and odd parts, of both pairs, in turn.
        pairs = [b.or_(p[i], b.shl(p[i + 1], few)) for p in (even, odd) for i in (0, 2)]
        octets = [b.bitcast(pair, ir.VectorType(ir.IntType(8), 8)) for pair in pairs]
        halves = [_joined(b, octets[0], octets[1], 8), _joined(b, octets[2], octets[3], 8)]
        shorts = [b.bitcast(x, ir.VectorType(ir.IntType(16), 8)) for x in halves]
        found = _joined(b, shorts[0], shorts[1], 8)
        place = b.gep(data(context, b, signature.args[5], values[5]), [values[6]])
        b.store(found, b.bitcast(place, found.type.as_pointer())).align = 2
        return context.get_dummy_value()

    return types.void(*kinds), codegen


def _joined(b: Any, one: Any, other: Any, count: int) -> Any:
    """Return the vector of the numbers of two in turn."""
    order = [lane for i in range(count) for lane in (i, i + count)]
    kind = ir.VectorType(ir.IntType(32), 2 * count)
    return b.shuffle_vector(one, other, ir.Constant(kind, order))


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
            lay_side_by_side(X, at, d - j, d, out, q * size + j * SIDE)


@part
def _join(signs: Any, c: Any, step: Any, apart: Any, masks: Any) -> None:
    """Lay out the signs of `SIDE` transforms of `step` chunks that begin `apart` chunks apart."""
    for i in range(step):
        for round_ in range(ROUNDS):
            word, on = (c + i) * ROUNDS + round_, apart * ROUNDS
            at = (i * ROUNDS + round_) * PARTS
            join_signs(signs, word, word + on, word + 2 * on, word + 3 * on, masks, at)


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
