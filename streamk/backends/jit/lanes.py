"""Vectors as values: compiled functions load, multiply, shuffle and store some numbers at once.

The vectoriser of LLVM does not see all that fills vectors: numbers that repeat throughout a row,
rows too short to be worth its checks, sums that go on side by side. Here vectors are in the program
itself. Each function below is one or a few of LLVM's vector instructions, with `LANES` lanes if not
said otherwise, whatever the machine has: LLVM splits them for narrower registers, with the same
results. Of vectors of numbers there are +, -, *, <, > and >= besides.

Where nothing is compiled, a function is what it says, with NumPy, and a vector is an array. So all
that is written with these functions is its own plain twin. Of vectors of both precisions the single
one becomes double, and a number of floating point stands for a vector that repeats it, of the type
of those beside it. A place is the number of a number in an array of any shape.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import imputils, types
from numba.core.datamodel import models, registry
from numba.core.typing import templates

from streamk.backends import LANES
from streamk.backends.jit.vectors import Emitter, data

_base: Any = types.Type


class _Vector(_base):
    """The type of `count` numbers of one type side by side."""

    def __init__(self, element: Any, count: int) -> None:
        self.element, self.count = element, count
        super().__init__(f"vector({element}, {count})")


def _model(manager: Any, kind: Any) -> Any:
    truth = kind.element == types.boolean
    lane = ir.IntType(1) if truth else manager.lookup(kind.element).get_value_type()
    primitive: Any = models.PrimitiveModel
    return primitive(manager, kind, ir.VectorType(lane, kind.count))


_manager: Any = registry.default_manager
_manager.register(_Vector, _model)
_typed: Any = templates.builtin_registry
_lowered: Any = imputils.builtin_registry
_template: Any = templates.AbstractTemplate
_any: Any = types.VarArg(types.Any)


def _emits(
    function: Any, returns: Callable[..., Any], emit: Callable[..., Any], *kinds: tuple[Any, ...]
) -> None:
    """Have a function be what `emit` writes where it is compiled.

    `returns` gives the result's type by the arguments' types, and None where these are not its own.
    `emit` takes an emitter, for the widest vector among arguments and result, and values: pointers
    for arrays, such vectors for vectors and numbers of floating point, and 64 bits for a whole one,
    which are a constant of LLVM's where it is written in the program.
    `kinds` are the types of arguments for which it is, if the function has others besides.
    """

    def generic(_: Any, given: Any, __: Any) -> Any:
        found = returns(*given)
        handed = [kind if isinstance(kind, types.Literal) else _handed(kind) for kind in given]
        return None if found is None else found(*handed)

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        wide = widest(signature.return_type, *signature.args)
        element = context.get_data_type(wide.element) if wide else ir.FloatType()
        e = Emitter(builder, element, lanes=wide.count if wide else LANES)
        given = []
        for kind, value in zip(signature.args, values, strict=True):
            if isinstance(kind, types.IntegerLiteral):
                given.append(e.size(kind.literal_value))
            elif isinstance(kind, types.Array):
                given.append(data(context, builder, kind, value))
            elif isinstance(kind, types.Float):
                given.append(e.splat(value))
            elif isinstance(kind, _Vector) and isinstance(kind.element, types.Float):
                given.append(e.converted(value))
            else:
                given.append(value)
        result = emit(e, *given)
        return context.get_dummy_value() if result is None else result

    members = {"key": function, "prefer_literal": True, "generic": generic}
    template = type(f"_{function.__name__}", (_template,), members)
    _typed.register(template)
    _typed.register_global(function, types.Function(template))
    for kind in kinds or [(_any,)]:
        _lowered.lower(function, *kind)(lower)


def _handed(kind: Any) -> Any:
    return types.int64 if isinstance(kind, types.Integer) else kind


def operation(returns: Callable[..., Any], emit: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator that has a function be what `emit` writes, see `_emits`."""

    def decorate(function: Any) -> Any:
        _emits(function, returns, emit)
        return function

    return decorate


def widest(*kinds: Any) -> Any:
    """Return the widest vector among some types, of floating point if there is one, or None."""
    vectors = [k for k in kinds if isinstance(k, _Vector) and k.element != types.boolean]
    floating = [k for k in vectors if isinstance(k.element, types.Float)]
    return max(floating or vectors, key=lambda kind: kind.element.bitwidth, default=None)


def _of_array(array: Any, _: Any, *more: Any) -> Any:
    """Return the type of what is loaded; the number of lanes, if any, comes last."""
    lanes = more[-1].literal_value if more and hasattr(more[-1], "literal_value") else LANES
    return _Vector(array.dtype, lanes)


# Memory


@operation(_of_array, lambda e, A, at, *_: e.load(e.at(A, at)))
def load(A: Any, at: int, lanes: int = LANES) -> Any:
    """Return the vector at a place of an array."""
    return A.reshape(-1)[at : at + lanes].copy()


@operation(_of_array, lambda e, A, at, count, *_: e.load_some(e.at(A, at), 0, count))
def load_first(A: Any, at: int, count: int, lanes: int = LANES) -> Any:
    """Return the vector at a place of which `count` numbers are there, with 0 for the others."""
    found, there = np.zeros(lanes, A.dtype), A.reshape(-1)[at : at + max(0, min(count, lanes))]
    found[: len(there)] = there
    return found


@operation(lambda *_: types.void, lambda e, value, A, at: e.store(value, e.at(A, at)))
def store(value: Any, A: Any, at: int) -> None:
    """Put a vector at a place of an array, in the array's type."""
    A.reshape(-1)[at : at + len(value)] = value


@operation(
    lambda *_: types.void, lambda e, value, A, at, count: e.store_some(value, e.at(A, at), count)
)
def store_first(value: Any, A: Any, at: int, count: int) -> None:
    """Put the first `count` numbers of a vector at a place of an array of its type."""
    A.reshape(-1)[at : at + count] = value[:count]


def _emit_gathered(e: Emitter, A: Any, places: Any) -> Any:
    b, bits = e.builder, ir.VectorType(ir.IntType(1), e.lanes)
    start = e.splat(A, ir.VectorType(A.type, e.lanes))
    pointers = b.gep(start, [places], inbounds=True, source_etype=e.element)
    word, every = ir.IntType(32), ir.Constant(bits, [1] * e.lanes)
    signature = ir.FunctionType(e.vector, [pointers.type, word, bits, e.vector])
    gather = e.function(signature, f"llvm.masked.gather.v{e.lanes}f{8 * e.bytes}.v{e.lanes}p0")
    return b.call(gather, [pointers, word(e.bytes), every, e.constant(0.0)])


@operation(lambda A, places: _Vector(A.dtype, places.count), _emit_gathered)
def gathered(A: Any, places: Any) -> Any:
    """Return the numbers at some places of an array, a vector of whole numbers."""
    return A.reshape(-1)[places]


@operation(lambda *_: types.void, lambda e, A, at: e.prefetch(e.at(A, at)))
def prefetch(A: Any, at: int) -> None:
    """Ask for the memory at a place that will be read soon, if there is any."""


# Arithmetic


@operation(
    lambda x, lanes=None: _Vector(x, LANES if lanes is None else lanes.literal_value),
    lambda _, x, *__: x,
)
def repeated(x: Any, lanes: int = LANES) -> Any:
    """Return a vector of one number of floating point."""
    return np.full(lanes, x)


def _emit_throughout(e: Emitter, few: Any, *_: Any) -> Any:
    return e.chosen(few, [lane % few.type.count for lane in range(e.lanes)])


@operation(
    lambda few, lanes=None: _Vector(few.element, LANES if lanes is None else lanes.literal_value),
    _emit_throughout,
)
def throughout(few: Any, lanes: int = LANES) -> Any:
    """Return the lanes of a vector repeated throughout a wider one."""
    return np.tile(few, lanes // len(few))


def _emit_spread(e: Emitter, A: Any, at: Any, step: Any, count: Any, *_: Any) -> Any:
    each = Emitter(e.builder, e.element, lanes=e.lanes // count.constant)
    places = [e.offset((at, e.size(1)), (step, e.size(i))) for i in range(count.constant)]
    return _joined(e, [each.splat(e.builder.load(e.at(A, place))) for place in places])


def _joined(e: Emitter, vectors: list[Any]) -> Any:
    """Return the lanes of some vectors, one after the other."""
    while len(vectors) > 1:
        pairs = [vectors[i : i + 2] for i in range(0, len(vectors), 2)]
        vectors = [e.mixed(*pair, range(2 * pair[0].type.count)) for pair in pairs]
    return vectors[0]


@operation(_of_array, _emit_spread)
def spread(A: Any, at: int, step: int, count: int, lanes: int = LANES) -> Any:
    """Return a vector of `count` numbers, from a place on and `step` apart, each in some lanes.

    The count is a power of two.
    """
    return np.repeat(A.reshape(-1)[at + step * np.arange(count)], lanes // count)


@operation(widest, lambda e, x: e.call("llvm.fabs", x))
def absolute(x: Any) -> Any:
    """Return |x|."""
    return np.abs(x)


@operation(widest, lambda e, x: e.call("llvm.sqrt", x))
def root(x: Any) -> Any:
    """Return the square root, correctly rounded."""
    return np.sqrt(x)


@operation(widest, lambda e, a, b, c: e.fma(a, b, c))
def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once where the machine can."""
    return a * b + c


def _of_condition(mask: Any, *kinds: Any) -> Any:
    return widest(*kinds) or _Vector(kinds[0], mask.count)


@operation(_of_condition, lambda e, mask, a, b: e.builder.select(mask, a, b))
def where(mask: Any, a: Any, b: Any) -> Any:
    """Return a where the mask is true, and b elsewhere."""
    return np.where(mask, a, b)


@operation(
    lambda x: _Vector(types.int32, x.count),
    lambda e, x: e.builder.fptosi(x, ir.VectorType(ir.IntType(32), e.lanes)),
)
def whole(x: Any) -> Any:
    """Return numbers without what is behind the point, in 32 bits."""
    return x.astype(np.int32)


# Sums


def _emit_halved(e: Emitter, x: Any) -> Any:
    low = range(x.type.count // 2)
    return e.builder.fadd(e.chosen(x, low), e.chosen(x, [lane + len(low) for lane in low]))


@operation(lambda x: _Vector(x.element, x.count // 2), _emit_halved)
def halved(x: Any) -> Any:
    """Return the sums of the lanes of the first half with those of the second one."""
    half = len(x) // 2
    return x[:half] + x[half:]


@operation(lambda x: x.element, lambda e, x: e.builder.extract_element(e.totals([x]), e.size(0)))
def summed(x: Any) -> Any:
    """Return the sum of all lanes, added up in halves."""
    while len(x) > 1:
        x = halved(x)
    return x[0]


def _emit_greatest(e: Emitter, x: Any) -> Any:
    b, stride = e.builder, e.lanes // 2
    while stride:
        other = e.chosen(x, [lane ^ stride for lane in range(e.lanes)])
        x = b.select(b.fcmp_ordered(">", x, other), x, other)
        stride //= 2
    return b.extract_element(x, e.size(0))


@operation(lambda x: x.element, _emit_greatest)
def greatest(x: Any) -> Any:
    """Return the greatest of all lanes."""
    return x.max()


# Operators


def _of_comparison(*kinds: Any) -> Any:
    found = widest(*kinds)
    return found and _Vector(types.boolean, found.count)


def _arithmetic(name: str) -> Callable[..., Any]:
    """Return what emits an instruction on whole numbers, or the one on others."""

    def emit(e: Emitter, a: Any, b: Any) -> Any:
        whole = isinstance(a.type.element, ir.IntType)
        return getattr(e.builder, name if whole else f"f{name}")(a, b)

    return emit


def _comparison(sign: str) -> Callable[..., Any]:
    return lambda e, a, b: e.builder.fcmp_ordered(sign, a, b)


_PAIRS = (_Vector, _Vector), (_Vector, types.Float), (types.Float, _Vector)
for _sign, _name in ((operator.add, "add"), (operator.sub, "sub"), (operator.mul, "mul")):
    _emits(_sign, widest, _arithmetic(_name), *_PAIRS)
for _sign, _name in ((operator.lt, "<"), (operator.gt, ">"), (operator.ge, ">=")):
    _emits(_sign, _of_comparison, _comparison(_name), *_PAIRS)
_emits(operator.neg, widest, lambda e, x: e.builder.fneg(x), (_Vector,))
