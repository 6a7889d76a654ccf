"""The generator's words and single-precision normals of a chunk, in explicit vectors.

Regenerating frequencies must stay cheap beside evaluating them, so the 16 calls of Philox that a
chunk needs for one column run as the 16 lanes of vectors, and Box-Muller is done on these lanes by
polynomials. The intrinsics below emit this as LLVM's vector instructions, which LLVM splits for
machines with narrower registers. It is about 205 instructions on 16 lanes for 64 normals, 80
of them multiplications.

A word of 32 bits lies in the low half of a lane of 64, eight lanes a vector and two vectors a word:
multiplying words then needs nothing else, and what is in the high half does not matter. Only in the
last round the two vectors become one of 16 lanes.
"""

# An intrinsic is typed by a function of all its arguments.

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from streamk.backends import CHUNK

_CALLS = CHUNK // 4
_HALF = _CALLS // 2
_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10

# Minimax polynomials, lowest coefficient first, and their relative errors:
# -2 log(1 + f) / f of f in [sqrt(1/2) - 1, sqrt(2) - 1]: 2.6e-8;
_LOGARITHM = (-1.99999995, 0.999999759, -0.666683712, 0.500041481, -0.399136672,
              0.331247863, -0.299045331, 0.287336854, -0.174447115)  # fmt: skip
# sin(pi/2 t) / t and cos(pi/2 t) in t^2, of t in [-1/2, 1/2]: 3.3e-9 and 5e-8.
_SINE = (1.57079632, -0.64596346, 0.0796800328, -0.00460165789)
_COSINE = (1.0, -1.23369666, 0.253594947, -0.0203985818)
_ROOT_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""


def _constant(like: Any, value: float) -> Any:
    """Return a number of the type of another value, in all its lanes."""
    vector = isinstance(like.type, ir.VectorType)
    return ir.Constant(like.type, [value] * like.type.count if vector else value)


def _splat(builder: Any, value: Any, lanes: int = _HALF) -> Any:
    """Return a vector of one number."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    single = builder.insert_element(undefined, value, _I32(0))
    return _shuffle(builder, single, undefined, [0] * lanes)


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


class Philox:
    """Emits Philox4x32-10 of the 16 calls from `group` on, with one tag, key and seed.

    Call 4 (l % 4) + l // 4 is in lane l, so that a chunk is written with shuffles inside of the
    quarters of a vector.
    """

    def __init__(self, builder: Any, seed: Any) -> None:
        self.builder = builder
        self.seeds = self.low(seed), builder.lshr(seed, _I64(32))

    def words(self, group: Any, tag: Any, key: Any) -> list[Any]:
        """Return the calls' four words, each a vector of 16."""
        b = self.builder
        # Only the first counter differs between the lanes: the first round has one product of
        # lanes, which does not depend on the key, and the second round has one as well.
        p1 = self.product(1, key)
        second = _splat(b, self.product(0, self.mixed(p1, tag, self.key(0, 0))))
        p1, rest = _splat(b, p1), _splat(b, b.xor(b.lshr(key, _I64(32)), self.key(1, 0)))
        states, products = [], []
        for odd in (0, 1):
            calls = [4 * (lane % 4) + lane // 4 for lane in range(odd, _CALLS, 2)]
            p0 = self.product(0, b.add(_splat(b, group), ir.Constant(rest.type, calls)))
            q0, q1 = second, self.product(1, self.mixed(p0, rest, _constant(rest, 0)))
            state = self.mixed(q1, p1, self.keys(0, 1)), q1, self.mixed(q0, p0, self.keys(1, 1)), q0
            for r in range(2, _ROUNDS - 1):
                q0, q1 = self.product(0, state[0]), self.product(1, state[2])
                state = (
                    self.mixed(q1, state[1], self.keys(0, r)), q1,
                    self.mixed(q0, state[3], self.keys(1, r)), q0,
                )  # fmt: skip
            states.append(state)
            products.append((self.product(0, state[0]), self.product(1, state[2])))
        (even0, even1), (odd0, odd1) = products
        c1, c3 = (self.packed(states[0][i], states[1][i], 0) for i in (1, 3))
        k0, k1 = (b.trunc(self.key(i, _ROUNDS - 1), _I32) for i in (0, 1))
        k0, k1 = _splat(b, k0, _CALLS), _splat(b, k1, _CALLS)
        return [
            b.xor(b.xor(self.packed(even1, odd1, 1), c1), k0), self.packed(even1, odd1, 0),
            b.xor(b.xor(self.packed(even0, odd0, 1), c3), k1), self.packed(even0, odd0, 0),
        ]  # fmt: skip

    def low(self, value: Any) -> Any:
        """Return the low half of each lane."""
        return self.builder.and_(value, _constant(value, 0xFFFFFFFF))

    def key(self, which: int, round_: int) -> Any:
        """Return the key of a round; its high half does not matter."""
        return self.builder.add(self.seeds[which], _I64(round_ * _KEY_STEPS[which]))

    def keys(self, which: int, round_: int) -> Any:
        """Return the key of a round in all lanes."""
        return _splat(self.builder, self.key(which, round_))

    def product(self, which: int, word: Any) -> Any:
        """Return the 64 bits of multiplier times word."""
        return self.builder.mul(self.low(word), _constant(word, _MULTIPLIERS[which]))

    def mixed(self, product: Any, word: Any, key: Any) -> Any:
        """Return the high word of a product, xor a word and a key."""
        b = self.builder
        return b.xor(b.xor(b.lshr(product, _constant(product, 32)), word), key)

    def packed(self, even: Any, odd: Any, high: int) -> Any:
        """Return the low or the high words of both vectors in one of 16 lanes."""
        b, words = self.builder, ir.VectorType(_I32, _CALLS)
        lanes = [2 * (lane // 2) + high + lane % 2 * _CALLS for lane in range(_CALLS)]
        return _shuffle(b, b.bitcast(even, words), b.bitcast(odd, words), lanes)


class BoxMuller:
    """Emits pairs of normals of pairs of words, the uniform of a word w being (w + 1/2) / 2^32."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.floats, self.ints = ir.VectorType(_F32, _CALLS), ir.VectorType(_I32, _CALLS)

    def pair(self, w: Any, v: Any) -> tuple[Any, Any]:
        """Return sqrt(-2 log u) times cosine and sine of 2 pi u', u of w and u' of v."""
        b = self.builder
        radius = self.radius(w)
        cosine, sine = self.direction(v)
        return b.fmul(radius, cosine), b.fmul(radius, sine)

    def radius(self, w: Any) -> Any:
        """Return sqrt(-2 log u), by log u = e log 2 + log(1 + f)."""
        b = self.builder
        number = b.fadd(b.uitofp(w, self.floats), self.real(0.5))
        bits = b.sub(b.bitcast(number, self.ints), self.whole(_ROOT_HALF + (32 << 23)))
        exponent = b.sitofp(b.ashr(bits, self.whole(23)), self.floats)
        mantissa = b.add(b.and_(bits, self.whole(2**23 - 1)), self.whole(_ROOT_HALF))
        far = b.fsub(b.bitcast(mantissa, self.floats), self.real(1.0))
        # Where e = 0, f = u - 1 is as small as 2^-33 and must not be a difference: less 2^32, the
        # word is the same word read as signed.
        near = self.multiply_add(b.sitofp(w, self.floats), self.real(2.0**-32), self.real(2.0**-33))
        f = b.select(b.icmp_signed(">=", bits, self.whole(0)), near, far)
        logarithm = b.fmul(self.polynomial(f, _LOGARITHM), f)
        square = self.multiply_add(exponent, self.real(-2.0 * math.log(2.0)), logarithm)
        kind = ir.FunctionType(self.floats, [self.floats])
        return b.call(b.module.declare_intrinsic(f"llvm.sqrt.v{_CALLS}f32", fnty=kind), [square])

    def direction(self, w: Any) -> tuple[Any, Any]:
        """Return cosine and sine of 2 pi u: a quadrant and -1/2 <= t <= 1/2 of the next one."""
        b = self.builder
        # Without its two leading bits and read as signed, the word is t in units of 2^-32; half a
        # unit of w is two of them.
        fraction = b.sitofp(b.shl(w, self.whole(2)), self.floats)
        t = self.multiply_add(fraction, self.real(2.0**-32), self.real(2.0**-31))
        square = b.fmul(t, t)
        sine = b.fmul(self.polynomial(square, _SINE), t)
        cosine = self.polynomial(square, _COSINE)
        quadrant = b.add(w, self.whole(1 << 29))
        odd = b.icmp_signed("!=", b.and_(quadrant, self.whole(1 << 30)), self.whole(0))
        return (
            self.signed(b.select(odd, sine, cosine), b.add(quadrant, self.whole(1 << 30))),
            self.signed(b.select(odd, cosine, sine), quadrant),
        )

    def signed(self, value: Any, sign: Any) -> Any:
        """Return the value with its sign flipped where the leading bit is set."""
        b = self.builder
        flip = b.and_(sign, self.whole(1 << 31))
        return b.bitcast(b.xor(b.bitcast(value, self.ints), flip), self.floats)

    def polynomial(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Return the polynomial of these coefficients, the lowest first."""
        value = self.real(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.multiply_add(value, x, self.real(coefficient))
        return value

    def multiply_add(self, x: Any, y: Any, z: Any) -> Any:
        """Return x * y + z, rounded once where the machine can."""
        b, contract = self.builder, ("contract",)
        return b.fadd(b.fmul(x, y, flags=contract), z, flags=contract)

    def real(self, value: float) -> Any:
        """Return a constant in all lanes."""
        return ir.Constant(self.floats, [value] * _CALLS)

    def whole(self, value: int) -> Any:
        """Return a constant in all lanes."""
        return ir.Constant(self.ints, [value] * _CALLS)


def _in_order(builder: Any, words: list[Any]) -> list[Any]:
    """Return the four numbers of each call side by side, as vectors of a chunk."""
    quarters = range(0, _CALLS, 4)
    low = [q + lane for q in quarters for lane in (0, _CALLS, 1, _CALLS + 1)]
    high = [q + lane for q in quarters for lane in (2, _CALLS + 2, 3, _CALLS + 3)]
    first = [q + lane for q in quarters for lane in (0, 1, _CALLS, _CALLS + 1)]
    second = [q + lane for q in quarters for lane in (2, 3, _CALLS + 2, _CALLS + 3)]
    vectors = []
    for pair in (low, high):
        left, right = (_shuffle(builder, words[i], words[i + 1], pair) for i in (0, 2))
        vectors += [_shuffle(builder, left, right, half) for half in (first, second)]
    return vectors


def _places(context: Any, builder: Any, array_type: Any, array: Any, vector: Any) -> list[Any]:
    """Return pointers to a chunk's vectors in an array."""
    start = context.make_array(array_type)(context, builder, array).data
    return [
        builder.bitcast(builder.gep(start, [_I64(i)]), vector.as_pointer())
        for i in range(0, CHUNK, _CALLS)
    ]


def _write_words(typing: Any, group: Any, tag: Any, key: Any, seed: Any, out: Any) -> Any:
    """Write the words of the calls group ... group + 15 into 64 numbers uint32."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        group, tag, key, seed, out = values
        words = _in_order(builder, Philox(builder, seed).words(group, tag, key))
        places = _places(context, builder, signature.args[4], out, words[0].type)
        for value, place in zip(words, places, strict=True):
            builder.store(value, place).align = 4
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 4, out), emit


def _write_normals(
    typing: Any, group: Any, tag: Any, key: Any, seed: Any, factor: Any, out: Any
) -> Any:
    """Write the normals of these calls times factors into 64 numbers float32."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        group, tag, key, seed, factor, out = values
        w0, w1, w2, w3 = Philox(builder, seed).words(group, tag, key)
        pairs = BoxMuller(builder)
        normals = _in_order(builder, [*pairs.pair(w0, w1), *pairs.pair(w2, w3)])
        factors = _places(context, builder, signature.args[4], factor, pairs.floats)
        places = _places(context, builder, signature.args[5], out, pairs.floats)
        for value, source, place in zip(normals, factors, places, strict=True):
            times = builder.load(source)
            times.align = 4
            builder.store(builder.fmul(value, times), place).align = 4
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 4, factor, out), emit


chunk_words: Any = intrinsic(_write_words)
chunk_normals: Any = intrinsic(_write_normals)
