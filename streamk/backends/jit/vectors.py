"""The writer of LLVM's vector instructions, of 16 numbers if not said otherwise.

The innermost loops of this backend keep a tile of numbers in registers through a whole evaluation:
loaded once, transformed, taken the cosine of, summed up. Plain loops over arrays put every stage
through memory and stall on it. Most are written with the vectors of `lanes`, which are values of
compiled functions; these, and a few intrinsics, are made here by an `Emitter`. Nothing here runs at
run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj, numpy_support

from streamk.backends import LANES

_INT = ir.IntType(64)
COSINE = {
    "float": (0.999999225, -19.7389812, 64.9286652, -85.271759, 58.7914009, -21.0728855),
    "double": tuple((-1) ** k * (math.pi / 2) ** (2 * k) / math.factorial(2 * k) for k in range(9)),
}
"""Of cos(2 pi t) in t^2: minimax on [-1/2, 1/2], error 1.1e-6; and Taylor's of a quarter of it."""


def registers() -> int:
    """Return how many numbers of 4 bytes all vector registers of the target hold."""
    features: str | None = getattr(numba.config, "CPU_FEATURES", None)
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return 32 * 16 if "+avx512f" in features.split(",") else 16 * 8


class Emitter:
    """Writes vector instructions on numbers of one type, "float" or "double".

    Parameters
    ----------
    builder
        Of the intrinsic.
    element : llvmlite type
    lanes : int, default LANES
        Of its vectors.
    """

    def __init__(self, builder: Any, element: Any, *, lanes: int = LANES) -> None:
        self.builder, self.element, self.lanes = builder, element, lanes
        self.vector = ir.VectorType(element, self.lanes)
        self.bytes = 4 if element == ir.FloatType() else 8
        self.context: Any = None
        self.result: Any = None

    # Numbers and loops

    def size(self, value: int) -> Any:
        """Return a constant of the type of sizes and offsets."""
        return ir.Constant(_INT, value)

    def offset(self, *terms: tuple[Any, Any]) -> Any:
        """Return the sum of products of sizes."""
        total: Any = None
        for a, b in terms:
            product = self.builder.mul(a, b)
            total = product if total is None else self.builder.add(total, product)
        return total

    def loop(
        self, count: Any, carried: Sequence[Any], body: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """Emit a loop of `count` rounds that hands values on, and return the last ones."""
        b = self.builder
        before = b.block
        head, rounds, after = (b.append_basic_block(name) for name in ("head", "rounds", "after"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(_INT)
        phis = [b.phi(value.type) for value in carried]
        b.cbranch(b.icmp_signed("<", i, count), rounds, after)
        b.position_at_end(rounds)
        results = body(i, phis)
        following, last = b.add(i, self.size(1)), b.block
        starts, nexts = [self.size(0), *carried], [following, *results]
        for phi, start, next_ in zip([i, *phis], starts, nexts, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(next_, last)
        b.branch(head)
        b.position_at_end(after)
        return phis

    # Memory

    def at(self, pointer: Any, offset: Any) -> Any:
        """Return the pointer moved on by so many numbers."""
        return self.builder.gep(pointer, [offset], inbounds=True)

    def load(self, pointer: Any) -> Any:
        """Load a vector, of whichever type the place is."""
        vector = ir.VectorType(pointer.type.pointee, self.lanes)
        value = self.builder.load(self.builder.bitcast(pointer, vector.as_pointer()))
        value.align = 4
        return self.converted(value)

    def load_some(self, pointer: Any, count: Any) -> Any:
        """Load a vector of which the first `count` numbers are there; the others are 0."""
        b, given = self.builder, ir.VectorType(pointer.type.pointee, self.lanes)
        place, mask = b.bitcast(pointer, given.as_pointer()), self._first(count)
        signature = ir.FunctionType(given, [place.type, ir.IntType(32), mask.type, given])
        name = f"llvm.masked.load.{_suffix(given)}.p0"
        masked = self.function(signature, name)
        align, zero = ir.Constant(ir.IntType(32), 4), ir.Constant(given, [0.0] * self.lanes)
        return self.converted(b.call(masked, [place, align, mask, zero]))

    def store(self, value: Any, pointer: Any) -> None:
        """Store a vector, in the type of the place."""
        value, place = self._in_type_of(pointer, value)
        self.builder.store(value, place).align = 4

    def store_some(self, value: Any, pointer: Any, count: Any) -> None:
        """Store the first `count` numbers of a vector, in the type of the place."""
        mask, (value, place) = self._first(count), self._in_type_of(pointer, value)
        kinds = [value.type, place.type, ir.IntType(32), mask.type]
        name = f"llvm.masked.store.{_suffix(value.type)}.p0"
        masked = self.function(ir.FunctionType(ir.VoidType(), kinds), name)
        self.builder.call(masked, [value, place, ir.Constant(ir.IntType(32), 4), mask])

    def _in_type_of(self, pointer: Any, value: Any) -> tuple[Any, Any]:
        """Return a vector in the type of a place, and the place of a vector there."""
        vector = ir.VectorType(pointer.type.pointee, self.lanes)
        if value.type != vector:
            is_wider = isinstance(vector.element, ir.DoubleType)
            value = (self.builder.fpext if is_wider else self.builder.fptrunc)(value, vector)
        return value, self.builder.bitcast(pointer, vector.as_pointer())

    def _first(self, count: Any) -> Any:
        """Return which lanes are among the first `count`."""
        numbers = ir.VectorType(_INT, self.lanes)
        lanes = ir.Constant(numbers, list(range(self.lanes)))
        return self.builder.icmp_signed("<", lanes, self.splat(count, numbers))

    def converted(self, value: Any) -> Any:
        """Return a vector of numbers of this emitter's type."""
        if value.type.element == self.element:
            return value
        convert = self.builder.fpext if self.bytes == 8 else self.builder.fptrunc
        return convert(value, ir.VectorType(self.element, value.type.count))

    # Arithmetic

    def constant(self, value: float | Sequence[float]) -> Any:
        """Return a constant vector."""
        lanes = [value] * self.lanes if isinstance(value, int | float) else list(value)
        return ir.Constant(self.vector, lanes)

    def splat(self, value: Any, vector: Any = None) -> Any:
        """Return a vector of one number."""
        b, vector = self.builder, vector or self.vector
        if value.type != vector.element:
            wider = isinstance(vector.element, ir.DoubleType)
            value = (b.fpext if wider else b.fptrunc)(value, vector.element)
        one = b.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(_INT, 0))
        return self.chosen(one, [0] * self.lanes)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c, rounded once where the machine can."""
        return self.call("llvm.fmuladd", a, b, c)

    def totals(self, values: Sequence[Any]) -> Any:
        """Return a vector of the sums of the lanes of each of some vectors.

        Each sum is added up in halves, whatever the others are; their number is a power of two.
        """
        length = self.lanes
        parts = list(values)
        while length > 1:
            half = length // 2
            lanes = range(0, parts[0].type.count, length)
            low = [start + lane for start in lanes for lane in range(half)]
            if len(parts) > 1:
                low += [lane + parts[0].type.count for lane in low]
                pairs = list(zip(parts[::2], parts[1::2], strict=True))
            else:
                pairs = [(parts[0], parts[0])]
            high = [lane + half for lane in low]
            parts = [
                self.builder.fadd(self.mixed(a, b, low), self.mixed(a, b, high)) for a, b in pairs
            ]
            length = half
        while len(parts) > 1:
            both = list(range(2 * parts[0].type.count))
            pairs = list(zip(parts[::2], parts[1::2], strict=True))
            parts = [self.mixed(a, b, both) for a, b in pairs]
        return parts[0]

    def prefetch(self, pointer: Any) -> None:
        """Ask for the memory at a place that will be read soon, if there is any."""
        kind = ir.IntType(32)
        place = self.builder.bitcast(pointer, ir.IntType(8).as_pointer())
        signature = ir.FunctionType(ir.VoidType(), [place.type, kind, kind, kind])
        function = self.function(signature, "llvm.prefetch.p0")
        self.builder.call(function, [place, kind(0), kind(3), kind(1)])

    def transposed(self, values: Sequence[Any]) -> list[Any]:
        """Return the columns of the matrix whose rows are as many vectors as they have lanes."""
        rows, half = list(values), self.lanes // 2
        while half:
            low = [i + (self.lanes - half if i & half else 0) for i in range(self.lanes)]
            high = [lane + half for lane in low]
            for i in range(self.lanes):
                if not i & half:
                    a, b = rows[i], rows[i + half]
                    rows[i], rows[i + half] = self.mixed(a, b, low), self.mixed(a, b, high)
            half //= 2
        return rows

    def parted(self, values: Sequence[Any]) -> list[Any]:
        """Return of four vectors the first fours of each, the second ones, the third and fourth."""
        a, b, c, d = values
        halves = [list(range(4)) + list(range(16, 20)), list(range(4, 8)) + list(range(20, 24))]
        order = [half + [lane + 8 for lane in half] for half in halves]
        pairs = [(self.mixed(a, b, o), self.mixed(c, d, o)) for o in order]
        low, high = (list(range(first, first + 8)) for first in (0, 8))
        return [
            self.mixed(one, other, half + [lane + 16 for lane in half])
            for half in (low, high)
            for one, other in pairs
        ]

    def mixed(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        """Return a vector of the lanes numbered of two."""
        order = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
        return self.builder.shuffle_vector(a, b, order)

    def chosen(self, value: Any, lanes: Sequence[int]) -> Any:
        """Return a vector of the lanes numbered."""
        return self.mixed(value, ir.Constant(value.type, ir.Undefined), lanes)

    def function(self, signature: Any, name: str) -> Any:
        """Return a function of LLVM's, declared."""
        insert: Any = cgutils.get_or_insert_function
        return insert(self.builder.module, signature, name)

    def call(self, name: str, *values: Any) -> Any:
        """Call a function of LLVM's on vectors."""
        kind = values[0].type
        signature = ir.FunctionType(kind, [kind] * len(values))
        function = self.function(signature, f"{name}.{_suffix(kind)}")
        return self.builder.call(function, values)

    def cosine(self, u: Any) -> Any:
        """Return cos(2 pi u), with an error of 1.1e-6 in single and 1e-14 in double precision.

        What remains of u beside the nearest whole number is in [-1/2, 1/2], and on it a
        polynomial in its square does. An infinite phase or NaN counts as half a turn: the
        polynomial must not run away with it.
        """
        b = self.builder
        t = b.fsub(u, self.call("llvm.nearbyint", u))
        s, quarter = b.fmul(t, t), self.constant(0.25)
        s = b.select(b.fcmp_ordered("<", s, quarter), s, quarter)
        coefficients = COSINE["float" if self.bytes == 4 else "double"]
        c = self.constant(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            c = self.fma(c, s, self.constant(coefficient))
        if self.bytes == 8:
            two, minus = self.constant(2.0), self.constant(-1.0)
            for _ in range(2):
                c = self.fma(b.fmul(two, c), c, minus)
        return c


def _suffix(vector: Any) -> str:
    """Return what LLVM appends to the name of an intrinsic on such vectors."""
    return f"v{vector.count}f{32 if vector.element == ir.FloatType() else 64}"


def emitted(emit: Callable[..., Any]) -> Any:
    """Return the intrinsic, which returns nothing, of what emits its instructions.

    That takes the builder, and of the intrinsic's arguments a pointer for an array, 64 bits for a
    whole number, and other numbers as they are.
    """

    @wraps(emit)
    def typed(_: Any, *kinds: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            emit(
                builder,
                *(
                    data(context, builder, kind, value) if isinstance(kind, types.Array) else value
                    for kind, value in zip(signature.args, values, strict=True)
                ),
            )
            return context.get_dummy_value()

        handed = [types.int64 if isinstance(k, types.Integer) else k for k in kinds]
        return types.void(*handed), codegen

    return intrinsic(typed)


def stack(builder: Any, element: Any, count: int) -> Any:
    """Return room for so many numbers in the function's own frame, aligned to 64 bytes."""
    with builder.goto_entry_block():
        room = builder.alloca(element, count)
        room.align = 64
    return room


def data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the pointer to an array's first number."""
    return context.make_array(kind)(context, builder, value).data


_populate: Any = arrayobj.populate_array
carray: Any = numpy_support.carray
"""Returns the array of a pointer and a shape, in compiled functions."""
unpacked: Any = cgutils.unpack_tuple
"""Returns the values in a tuple of numba's, by a builder."""


def array_at(context: Any, builder: Any, kind: Any, address: Any, lengths: Sequence[Any]) -> Any:
    """Return the array of a type at an address, a number, with such lengths of its axes."""
    word = context.get_value_type(types.intp)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [word(size)]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
    found = context.make_array(kind)(context, builder)
    pointer = builder.inttoptr(address, found.data.type)
    _populate(found, pointer, lengths, strides, size, meminfo=None)
    return found._getvalue()
