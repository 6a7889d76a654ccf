"""Vectors as values: compiled functions load, multiply, shuffle and store some numbers at once.

The vectoriser of LLVM does not see all that fills vectors: numbers that repeat throughout a row,
rows too short to be worth its checks, sums that go on side by side. Here vectors are in the program
itself. Each function below is one or a few of LLVM's vector instructions, with `LANES` lanes if not
said otherwise, whatever the machine has: LLVM splits them for narrower registers, with the same
results. Of vectors of numbers there are +, -, *, <, > and >= besides.

Where nothing is compiled, the body of a function runs, with NumPy, and a vector is an array. So a
loop that is written with these functions is its own plain twin, unless it takes its width from a
type (`jit.parts.overload`). Of vectors of both precisions the single one becomes double, and a
number of floating point stands for a vector that repeats it, of the type of those beside it. A
place is an index into the numbers of an array, row by row; arrays lie in C's order.
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
from streamk.backends.jit.vectors import Emitter, array_at, data, stack


class _Vector(types.Type):
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
_var_arg: Any = types.VarArg
_any = _var_arg(types.Any)


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
        if any(isinstance(kind, types.Array) and kind.layout != "C" for kind in given):
            return None
        found = returns(*given)
        handed = [kind if isinstance(kind, types.Literal) else _handed(kind) for kind in given]
        return None if found is None else found(*handed)

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        wide = result = signature.return_type
        if not (isinstance(result, _Vector) and isinstance(result.element, types.Float)):
            wide = widest(*signature.args, result)
        element = context.get_data_type(wide.element) if wide else ir.FloatType()
        e = Emitter(builder, element, lanes=wide.count if wide else LANES)
        e.context, e.result = context, signature.return_type
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


def _of(element: Any, lanes: Any) -> Any:
    """Return the type of vectors of so many lanes, which are written in the program."""
    return _Vector(element, LANES if lanes is None else lanes.literal_value)


def _loaded(array: Any, _: Any, lanes: Any = None) -> Any:
    return _of(array.dtype, lanes)


def _loaded_first(array: Any, _: Any, __: Any, lanes: Any = None) -> Any:
    return _of(array.dtype, lanes)


def _wide(array: Any, *more: Any) -> Any:
    """Return the type of vectors of as many lanes as the last argument says."""
    return _of(array.dtype, more[-1])


def _first(kind: Any, *_: Any) -> Any:
    return kind


def _none(*_: Any) -> Any:
    return types.void


# Memory


def _emit_room(e: Emitter, count: Any, _: Any) -> Any:
    b, context, kind = e.builder, e.context, e.result
    place = stack(b, context.get_data_type(kind.dtype), count.constant)
    return array_at(context, b, kind, b.ptrtoint(place, ir.IntType(64)), [count])


@operation(lambda _, like: types.Array(like, 1, "C"), _emit_room)
def room(count: int, like: float) -> Any:
    """Return an array for so many numbers of a type, which lasts as long as the function."""
    return np.empty(count, type(like))


@operation(_loaded, lambda e, A, at, *_: e.load(e.at(A, at)))
def load(A: Any, at: int, lanes: int = LANES) -> Any:
    """Return the vector at a place of an array."""
    return A.reshape(-1)[at : at + lanes].copy()


@operation(
    _loaded_first,
    lambda e, A, at, count, *_: e.load_some(e.at(A, at), count),
)
def load_first(A: Any, at: int, count: int, lanes: int = LANES) -> Any:
    """Return the vector at a place of which `count` numbers are there, with 0 for the others."""
    found, there = np.zeros(lanes, A.dtype), A.reshape(-1)[at : at + max(0, min(count, lanes))]
    found[: len(there)] = there
    return found


@operation(_none, lambda e, value, A, at: e.store(value, e.at(A, at)))
def store(value: Any, A: Any, at: int) -> None:
    """Put a vector at a place of an array, in the array's type."""
    A.reshape(-1)[at : at + len(value)] = value


@operation(_none, lambda e, value, A, at, count: e.store_some(value, e.at(A, at), count))
def store_first(value: Any, A: Any, at: int, count: int) -> None:
    """Put the first `count` numbers of a vector at a place of an array, in the array's type."""
    some = value[: max(0, count)]
    A.reshape(-1)[at : at + len(some)] = some


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
    """Return the numbers at some places of an array: signed whole numbers, none negative."""
    return A.reshape(-1)[places]


def _emit_load_each(e: Emitter, A: Any, at: Any, few: Any, *_: Any) -> Any:
    each = Emitter(e.builder, e.element, lanes=few.constant)
    places = _places(e, A, at, few, e.lanes // LANES)
    order = [lane % each.lanes for lane in range(LANES)]
    return _joined(e, [e.chosen(each.load(place), order) for place in places])


@operation(_wide, _emit_load_each)
def load_each(A: Any, at: int, few: int, lanes: int) -> Any:
    """Return the numbers from a place on, `few` at a time repeated throughout `LANES` lanes."""
    numbers = A.reshape(-1)[at : at + lanes * few // LANES].reshape(-1, few)
    return np.tile(numbers, LANES // few).ravel()


def _emit_load_rows(e: Emitter, A: Any, at: Any, step: Any, count: Any, *_: Any) -> Any:
    each = Emitter(e.builder, e.element, lanes=e.lanes // count.constant)
    return _joined(e, [each.load(place) for place in _places(e, A, at, step, count.constant)])


def _places(e: Emitter, A: Any, at: Any, step: Any, count: int) -> list[Any]:
    return [e.at(A, e.offset((at, e.size(1)), (step, e.size(i)))) for i in range(count)]


@operation(_wide, _emit_load_rows)
def load_rows(A: Any, at: int, step: int, count: int, lanes: int) -> Any:
    """Return a vector of `count` vectors, from a place on and `step` apart."""
    each = np.arange(lanes // count)
    return A.reshape(-1)[(at + step * np.arange(count)[:, None] + each).ravel()]


def _emit_store_rows(e: Emitter, x: Any, A: Any, at: Any, step: Any, count: Any) -> None:
    places = _places(e, A, at, step, count.constant)
    each = Emitter(e.builder, e.element, lanes=e.lanes // count.constant)
    for value, place in zip(_pieces(e, x, each.lanes), places, strict=True):
        each.store(value, place)


@operation(_none, _emit_store_rows)
def store_rows(x: Any, A: Any, at: int, step: int, count: int) -> None:
    """Put `count` vectors, which are one, at places from one on and `step` apart."""
    each = np.arange(len(x) // count)
    A.reshape(-1)[(at + step * np.arange(count)[:, None] + each).ravel()] = x


def _joined(e: Emitter, vectors: list[Any]) -> Any:
    """Return the lanes of some vectors, one after the other; their number is a power of two."""
    while len(vectors) > 1:
        both = range(2 * vectors[0].type.count)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [e.mixed(a, b, both) for a, b in pairs]
    return vectors[0]


def _pieces(e: Emitter, x: Any, lanes: int) -> list[Any]:
    """Return a vector's lanes, some at a time."""
    return [e.chosen(x, range(i, i + lanes)) for i in range(0, x.type.count, lanes)]


@operation(_none, lambda e, A, at: e.prefetch(e.at(A, at)))
def prefetch(A: Any, at: int) -> None:
    """Ask for the memory at a place that will be read soon, if there is any."""


# Arithmetic


@operation(
    lambda x, lanes=None: _of(x, lanes),
    lambda _, x, *__: x,
)
def repeated(x: Any, lanes: int = LANES) -> Any:
    """Return a vector of one number of floating point."""
    return np.full(lanes, x)


def _emit_throughout(e: Emitter, few: Any, *_: Any) -> Any:
    return e.chosen(few, [lane % few.type.count for lane in range(e.lanes)])


@operation(
    lambda few, lanes=None: _of(few.element, lanes),
    _emit_throughout,
)
def throughout(few: Any, lanes: int = LANES) -> Any:
    """Return the lanes of a vector repeated throughout a wider one."""
    return np.tile(few, lanes // len(few))


def _emit_spread(e: Emitter, A: Any, at: Any, step: Any, count: Any, *_: Any) -> Any:
    each = Emitter(e.builder, e.element, lanes=e.lanes // count.constant)
    places = _places(e, A, at, step, count.constant)
    return _joined(e, [each.splat(e.builder.load(place)) for place in places])


@operation(_wide, _emit_spread)
def spread(A: Any, at: int, step: int, count: int, lanes: int) -> Any:
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
    """Round towards 0, to 32 bits; NaN and numbers beyond these have no defined result."""
    return x.astype(np.int32)


@operation(lambda x, like: _Vector(like, x.count), lambda _, x, __: x)
def cast(x: Any, like: float) -> Any:
    """Return the numbers in the type of a number."""
    return x.astype(type(like))


def _emit_cosine(e: Emitter, x: Any) -> Any:
    # One after the other: side by side, the polynomials of a wide vector would fill all registers.
    each = Emitter(e.builder, e.element)
    return _joined(e, [each.cosine(piece) for piece in _pieces(e, x, LANES)])


@operation(widest, _emit_cosine)
def cosine(x: Any) -> Any:
    """Return cos(2 pi x), within 1.1e-6 in single and 1e-14 in double precision.

    An infinite number, or NaN, counts as half a turn.
    """
    x = np.where(np.isfinite(x), x, 0.5)
    return np.cos(2.0 * np.pi * (x - np.rint(x)))


# Transforms


def _emit_flipped(e: Emitter, x: Any, masks: Any, at: Any, step: Any) -> Any:
    b, kind, found = e.builder, ir.VectorType(ir.IntType(1), LANES), []
    first = b.bitcast(masks, ir.IntType(LANES).as_pointer())
    for i, piece in enumerate(_pieces(e, x, LANES)):
        bits = b.load(e.at(first, e.offset((at, e.size(1)), (step, e.size(i)))))
        found.append(b.select(b.bitcast(bits, kind), b.fneg(piece), piece))
    return _joined(e, found)


@operation(_first, _emit_flipped)
def flipped(x: Any, masks: Any, at: int, step: int) -> Any:
    """Return the vector with the sign changed of lanes whose bit is set.

    `LANES` lanes have theirs in 16 bits of an array, at such a place and `step` such places apart.
    """
    words = masks.reshape(-1).view("<u2")[at + step * np.arange(len(x) // LANES)]
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return np.where(bits, -x, x)


def _emit_walsh(e: Emitter, x: Any, first: Any, end: Any, minus: Any = None) -> Any:
    stride = first.constant
    while stride < end.constant:
        if stride < LANES or minus is None:
            other = e.chosen(x, [lane ^ stride for lane in range(e.lanes)])
            signs = e.constant([-1.0 if lane & stride else 1.0 for lane in range(e.lanes)])
            x = e.fma(x, signs, other)
        else:
            halves = _pieces(e, x, stride)
            by, found = e.chosen(minus, range(stride)), []
            for a, b in zip(halves[::2], halves[1::2], strict=True):
                found += [e.builder.fadd(a, b), e.fma(b, by, a)]
            x = _joined(e, found)
        stride *= 2
    return x


@operation(_first, _emit_walsh)
def walsh(x: Any, first: int, end: int, minus: float = -1.0) -> Any:
    """Return sums and differences of lanes `first` apart, of these twice as far, on to `end`.

    With all strides it is the Walsh-Hadamard transform, unnormalised. `minus` is -1 as a
    number that LLVM does not know: it would make a plain subtraction of a product with it, and both
    halves of a stage would wait for the adders while the multipliers are idle.
    """
    while first < end:
        a, b = x.reshape(-1, 2, first).swapaxes(0, 1)
        x, first = np.stack([a + b, a + minus * b], axis=1).ravel(), 2 * first
    return x


def _emit_transposed(e: Emitter, x: Any) -> Any:
    each = Emitter(e.builder, e.element)
    return _joined(e, each.transposed(_pieces(e, x, LANES)))


@operation(_first, _emit_transposed)
def transposed(x: Any) -> Any:
    """Return the columns of the matrix of `LANES` rows of as many lanes."""
    return x.reshape(LANES, LANES).T.ravel()


@operation(
    lambda *kinds: _Vector(kinds[0].element, sum(kind.count for kind in kinds)),
    lambda e, *vectors: _joined(e, list(vectors)),
)
def joined(*vectors: Any) -> Any:
    """Return the lanes of vectors, one after the other; there is a power of two of them."""
    return np.concatenate(vectors)


def _emit_parted(e: Emitter, x: Any) -> Any:
    each = Emitter(e.builder, e.element)
    pieces = _pieces(e, x, LANES)
    fours = [each.parted(pieces[i : i + 4]) for i in range(0, len(pieces), 4)]
    return _joined(e, [four[i] for i in range(4) for four in fours])


@operation(_first, _emit_parted)
def parted(x: Any) -> Any:
    """Return the first fours of each `LANES` lanes, then the second ones, the third and fourth."""
    return x.reshape(-1, 4, LANES // 4).swapaxes(0, 1).ravel()


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
    """Return the greatest of all lanes, none of which is NaN."""
    return x.max()


def _emit_weighed(e: Emitter, x: Any, a: Any, total: Any) -> Any:
    rows = e.lanes // LANES
    pieces, weights = _pieces(e, x, LANES), _pieces(e, a, LANES)
    parts = len(pieces) // rows
    weights = weights if len(weights) == len(pieces) else weights * rows
    for part in range(parts):
        total = e.fma(_joined(e, weights[part::parts]), _joined(e, pieces[part::parts]), total)
    return total


@operation(lambda *kinds: kinds[-1], _emit_weighed)
def weighed(x: Any, a: Any, total: Any) -> Any:
    """Return the total (rows, LANES) and the products of each row of x and one of a.

    `LANES` products are added at a time. All rows may have the same of a.
    """
    rows = x.reshape(len(total) // LANES, -1, LANES)
    products = rows * a.reshape(-1, rows.shape[1], LANES)
    for part in range(rows.shape[1]):
        total = total + products[:, part].ravel()
    return total


def _emit_folded(e: Emitter, total: Any, x: Any) -> Any:
    for piece in _pieces(e, x, e.lanes):
        total = e.builder.fadd(total, piece)
    return total


@operation(_first, _emit_folded)
def folded(total: Any, x: Any) -> Any:
    """Return the total and a wider vector, as many lanes of it at a time."""
    for piece in x.reshape(-1, len(total)):
        total = total + piece
    return total


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
