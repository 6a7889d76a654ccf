"""Tiles of Walsh-Hadamard features: transformed, taken the cosine of and summed up in registers.

A transform of p numbers is three rounds of sign flips and log2(p) stages of sums and differences.
Stages commute, so a round may begin with those between the chunks of 64 and end with those within,
or the other way about. That makes four passes over p numbers of what would be six::

    within 1 | between 1, signs, between 2 | within 2, signs, within 3 | between 3, cosine, sum

and for p = 64 all of it stays in registers. A stage between vectors is an addition each; one
between lanes of a vector costs a shuffle besides, and shuffles are what these loops wait for most.
So of a batch four rows go together, a vector holding four numbers of each: two stages are left
between lanes instead of four. Of a single event the 16 lanes are consecutive numbers, and `ITEMS`
chunks go together where they are transforms by themselves, one waiting while another goes on.
Either way each number goes through the same operations in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import CHUNK, LANES, ROUNDS, WIDEST
from streamk.backends.numba_backend.vectors import Emitter, data, stack

ITEMS = 4
"""Transforms of 64 numbers of a single event that go together."""
ROWS = 4
"""Rows of a batch that go together."""


class _Tile:
    """Emits the body of an intrinsic: one transform, or several of them side by side.

    Parameters
    ----------
    rows : int
        Rows that share a vector, 1 or `ROWS`. With `ROWS`, X, signs and acc are laid out for it as
        `streamk.backends.numba_backend.hadamard` describes.
    items : int
        Transforms side by side, of consecutive chunks.
    """

    def __init__(
        self,
        context: Any,
        builder: Any,
        kinds: Any,
        values: Any,
        rows: int,
        items: int,
        hands: bool,
    ) -> None:
        self.b, self.rows, self.hands = builder, rows, hands
        self.adds, self.keeps = kinds[5] != types.none, kinds[6] != types.none
        self.e = Emitter(context, builder, context.get_data_type(kinds[2].dtype))
        self.X, signs, self.radii, self.start, self.A, self.acc, self.phi = (
            None if kind == types.none else self.e.at(data(context, builder, kind, value), offset)
            for kind, value, offset in zip(kinds[:7], values[:7], values[7:14], strict=True)
        )
        self.signs = builder.bitcast(signs, ir.IntType(LANES).as_pointer())
        self.there, self.outputs, self.between, self.row, self.apart = values[14:19]
        self.chunks, minus = 2 ** len(kinds[19]), kinds[20]
        self.cosine = minus != types.none
        self.u = (
            Emitter(context, builder, context.get_data_type(minus), values[20])
            if self.cosine
            else self.e
        )
        self.items = range(items)
        self.lanes = LANES // rows  # numbers of a row in a vector
        self.vectors = CHUNK // self.lanes  # of a chunk

    def _at(self, pointer: Any, *terms: tuple[Any, Any]) -> Any:
        return self.e.at(pointer, self.e.offset(*terms))

    # The three rounds

    def _begun(self, start: Any, c: Any) -> list[Any]:
        """Return the numbers from `start` on after the first signs, those of chunk c."""
        u = self.u
        x = self._at(self.X, (start, u.size(self.rows)))
        if self.rows > 1:
            loaded = [u.load(x, v * LANES) for v in range(self.vectors)]
        else:
            there = self.b.sub(self.there, start)
            loaded = [u.load_some(x, v * LANES, there) for v in range(self.vectors)]
        return self._signed(loaded, 0, c)

    def _sign(self, value: Any, round_: int, c: Any, v: Any) -> Any:
        """Return vector v of chunk c with the signs of a round."""
        e = self.e
        size = self.b.mul(self.between, e.size(ROUNDS * self.vectors))
        place = self._at(
            self.signs, (c, size), (e.size(round_ * self.vectors), e.size(1)), (v, e.size(1))
        )
        return self.u.negate(value, self.b.load(place))

    def _signed(self, values: list[Any], round_: int, c: Any) -> list[Any]:
        """Return the vectors of chunk c with the signs of a round."""
        return [self._sign(x, round_, c, self.e.size(v)) for v, x in enumerate(values)]

    def _within(self, chunks: list[list[Any]]) -> list[list[Any]]:
        """Return chunks, as lists of vectors, after the stages within them."""
        stride = 1
        while stride < self.lanes:
            chunks = [[self.u.butterflies(x, stride) for x in chunk] for chunk in chunks]
            stride *= 2
        return [self._across(chunk) for chunk in chunks]

    def _across(self, values: Sequence[Any], *, mixed: int = 2) -> list[Any]:
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

    def _all_rounds(self) -> list[list[Any]]:
        """Return chunks that are transforms by themselves after the three rounds."""
        zero, numbers = self.u.size(0), [self.u.size(i) for i in self.items]
        chunks = self._within([self._begun(zero, i) for i in numbers])
        for round_ in range(1, ROUNDS):
            pairs = zip(chunks, numbers, strict=True)
            chunks = self._within([self._signed(chunk, round_, i) for chunk, i in pairs])
        return chunks

    def _to_last(self) -> Any:
        """Emit all but the stages between chunks of the last round; return where it lies."""
        u, b = self.u, self.b
        room = stack(b, u.element, WIDEST * self.rows)
        chunks, size = u.size(self.chunks), u.size(CHUNK * self.rows)

        def first(c: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(c, size))
            begun = self._begun(b.mul(c, u.size(CHUNK)), c)
            for v, value in enumerate(self._within([begun])[0]):
                u.store(value, place, v * LANES)
            return []

        def between(v: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(v, u.size(LANES)))
            numbers = range(self.chunks)
            values = [u.load(place, c * CHUNK * self.rows) for c in numbers]
            values = self._across(values, mixed=LANES)
            values = [self._sign(x, 1, u.size(c), v) for c, x in zip(numbers, values, strict=True)]
            for c, value in enumerate(self._across(values, mixed=LANES)):
                u.store(value, place, c * CHUNK * self.rows)
            return []

        def last(c: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(c, size))
            values = self._within([[u.load(place, v * LANES) for v in range(self.vectors)]])[0]
            for v, value in enumerate(self._within([self._signed(values, 2, c)])[0]):
                u.store(value, place, v * LANES)
            return []

        u.loop(chunks, [], first)
        u.loop(u.size(self.vectors), [], between)
        u.loop(chunks, [], last)
        return room

    # What becomes of it

    def _constants(self, pointer: Any, apart: Any, c: Any, first: Any) -> Any:
        """Return the constants of the numbers from `first` on in chunk c, for every row."""
        place = self._at(pointer, (c, apart), (first, self.e.size(1)))
        return self.u.load_repeated(place, self.lanes)

    def _phases(self, values: Sequence[Any], places: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Return the phases of transformed vectors at (chunk, number within the chunk)."""
        found, chunk = [], self.e.size(CHUNK)
        apart = self.b.mul(self.between, chunk)
        for value, (c, first) in zip(values, places, strict=True):
            start = self.u.constant(0.0)
            if self.cosine or self.hands:
                start = self._constants(self.start, chunk, c, first)
            found.append(self.u.fma(value, self._constants(self.radii, apart, c, first), start))
        return found

    def _sink(self, phases: Sequence[Any], places: Sequence[tuple[Any, Any]]) -> None:
        """Hand phases on; or keep their features, add them up, or both."""
        e, chunk = self.e, self.e.size(CHUNK)
        if self.hands:
            for x, (c, first) in zip(phases, places, strict=True):
                self.u.store(x, self._at(self.phi, (c, self.apart), (first, e.size(1))))
            return
        features = [e.narrowed(self.u.cosine(x) if self.cosine else x) for x in phases]
        if self.keeps:
            for x, (c, first) in zip(features, places, strict=True):
                place = self._at(self.phi, (c, self.apart), (first, e.size(1)))
                e.store_rows(x, place, self.row, self.lanes)
        if not self.adds:
            return

        def add(k: Any, _: list[Any]) -> list[Any]:
            """Add an output's coefficients times features to its sums."""
            sums: dict[int, Any] = {}
            at = {}
            for n, (x, (c, first)) in enumerate(zip(features, places, strict=True)):
                # Lane l of the sums takes the features that are l modulo LANES.
                number = n % self.rows if self.chunks == 1 else 0
                if number not in sums:
                    part = self.b.urem(first, e.size(LANES))
                    lane = self.b.add(self.b.mul(k, e.size(LANES)), part)
                    at[number] = self._at(self.acc, (lane, e.size(self.rows)))
                    sums[number] = e.load(at[number])
                A = self._at(
                    self.A, (self.b.mul(c, self.outputs), chunk), (k, chunk), (first, e.size(1))
                )
                sums[number] = e.fma(e.load_repeated(A, self.lanes), x, sums[number])
            for number, total in sums.items():
                e.store(total, at[number])
            return []

        e.loop(self.outputs, [], add)

    def emit_phases(self) -> None:
        """Emit what becomes of the phases of a chunk."""
        offsets = range(0, CHUNK, LANES)
        phases = [self.u.load(self.start, offset) for offset in offsets]
        self._sink(phases, [(self.u.size(0), self.u.size(offset)) for offset in offsets])

    def emit(self) -> None:
        """Emit it all."""
        u, b = self.u, self.b
        if self.chunks == 1:
            places = [
                (u.size(i), u.size(v * self.lanes)) for i in self.items for v in range(self.vectors)
            ]
            values = [x for chunk in self._all_rounds() for x in chunk]
            self._sink(self._phases(values, places), places)
            return
        room = self._to_last()

        def last(v: Any, _: list[Any]) -> list[Any]:
            place = u.at(room, b.mul(v, u.size(LANES)))
            values = [u.load(place, c * CHUNK * self.rows) for c in range(self.chunks)]
            first = b.mul(v, u.size(self.lanes))
            places = [(u.size(c), first) for c in range(self.chunks)]
            self._sink(self._phases(self._across(values), places), places)
            return []

        u.loop(u.size(self.vectors), [], last)


def _tile(*, rows: int = 1, items: int = 1, hands: bool = False, given: bool = False) -> Any:
    """Return the intrinsic for so many rows in a vector and so many transforms side by side.

    Its arguments are X, signs, radii, the phases b; A and acc, and phi, where features are kept,
    each None where it is not wanted; where to begin in each of the seven; how many numbers there
    are in X, and how many outputs and groups; how far on in phi the next row and the next chunk
    are; the strides between chunks of a transform; and -1 in the type of phases, or None where
    features are phases. With `hands`, what is kept is the phases; `given`, they are b.
    """

    @intrinsic
    def tile(
        _: Any, X: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, x: Any, s: Any,
        r: Any, p: Any, a: Any, f: Any, k: Any, there: Any, outputs: Any, groups: Any, row: Any,
        apart: Any, strides: Any, minus: Any,
    ) -> Any:  # fmt: skip
        kinds = (X, signs, radii, b, A, acc, phi, *[types.int64] * 12, strides, minus)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            body = _Tile(context, builder, signature.args, values, rows, items, hands)
            if given:
                body.emit_phases()
            else:
                body.emit()
            return context.get_dummy_value()

        return types.void(*kinds), codegen

    return tile


row_tile, items_tile, rows_tile = _tile(), _tile(items=ITEMS), _tile(rows=ROWS)
hand_tile, phases_tile = _tile(hands=True), _tile(given=True)
