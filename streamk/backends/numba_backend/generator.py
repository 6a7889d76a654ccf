"""The counter-based generator: Philox4x32-10, and what is drawn with it.

Numbers are drawn a chunk at a time. In single precision normals come from explicit vectors,
within 4e-7 (1 + |z|) of the reference; in double precision the library's functions are applied to
the same words.

Regenerating frequencies must stay cheap beside evaluating them, so the 16 calls of Philox that a
chunk needs for one column run as the 16 lanes of vectors, and Box-Muller is done on these lanes by
polynomials. The intrinsics below emit this as LLVM's vector instructions, which LLVM splits for
machines with narrower registers. It is about 205 instructions on 16 lanes for 64 normals, 80
of them multiplications.

A word of 32 bits lies in the low half of a lane of 64, eight lanes a vector and two vectors a word:
multiplying words then needs nothing else, and what is in the high half does not matter. Only in the
last round the two vectors become one of 16 lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from streamk.backends import (
    CHUNK,
    ROUNDS,
    TAG_BUCKET,
    TAG_DIRECTION,
    TAG_FREQUENCY,
    TAG_LENGTH,
    TAG_PHASE,
    TAG_RADIUS,
    TAG_SIGN,
    Law,
)
from streamk.backends.jit.compiling import compiled, part
from streamk.backends.jit.parts import overload
from streamk.backends.jit.vectors import emitted

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


def _places(builder: Any, start: Any, vector: Any) -> list[Any]:
    """Return pointers to a chunk's vectors in an array."""
    return [
        builder.bitcast(builder.gep(start, [_I64(i)]), vector.as_pointer())
        for i in range(0, CHUNK, _CALLS)
    ]


@emitted
def chunk_words(builder: Any, group: Any, tag: Any, key: Any, seed: Any, out: Any) -> None:
    """Write the words of the calls group ... group + 15 into 64 numbers uint32."""
    words = _in_order(builder, Philox(builder, seed).words(group, tag, key))
    for value, place in zip(words, _places(builder, out, words[0].type), strict=True):
        builder.store(value, place).align = 4


@emitted
def chunk_normals(
    builder: Any, group: Any, tag: Any, key: Any, seed: Any, factor: Any, out: Any
) -> None:
    """Write the normals of these calls times factors into 64 numbers float32."""
    w0, w1, w2, w3 = Philox(builder, seed).words(group, tag, key)
    pairs = BoxMuller(builder)
    normals = _in_order(builder, [*pairs.pair(w0, w1), *pairs.pair(w2, w3)])
    factors, places = (_places(builder, start, pairs.floats) for start in (factor, out))
    for value, source, place in zip(normals, factors, places, strict=True):
        times = builder.load(source)
        times.align = 4
        builder.store(builder.fmul(value, times), place).align = 4


# An overload has all the arguments of what it stands for.


_CAUCHY, _LAPLACE = int(Law.CAUCHY), int(Law.LAPLACE)
_STUDENT, _RATIONAL = int(Law.STUDENT), int(Law.RATIONAL)
_GROUPS = CHUNK // 4


@part
def _uniform(word: Any) -> Any:
    return (word + 0.5) * 2.0**-32


def _normals(first: Any, tag: Any, keys: Any, seed: Any, factor: Any, words: Any, out: Any) -> None:
    """Write normals times factors into chunks (chunks, keys, CHUNK); the words are scratch.

    The factors are those of each chunk, or one row for all of them.
    """
    raise NotImplementedError("only compiled")


@overload(_normals)
def _compiled_normals(
    first: Any, tag: Any, keys: Any, seed: Any, factor: Any, words: Any, out: Any
) -> Any:
    def single(
        first: Any, tag: Any, keys: Any, seed: Any, factor: Any, words: Any, out: Any
    ) -> None:
        for c in range(out.shape[0]):
            factors = factor[min(c, factor.shape[0] - 1)]
            for j in range(keys.shape[0]):
                chunk_normals((first + c) * _GROUPS, tag, keys[j], seed, factors, out[c, j])

    def double(
        first: Any, tag: Any, keys: Any, seed: Any, factor: Any, words: Any, out: Any
    ) -> None:
        for c in range(out.shape[0]):
            factors = factor[min(c, factor.shape[0] - 1)]
            for j in range(keys.shape[0]):
                chunk_words((first + c) * _GROUPS, tag, keys[j], seed, words)
                for i in range(0, CHUNK, 2):
                    r = math.sqrt(-2.0 * math.log(_uniform(words[i])))
                    p = 2.0 * math.pi * _uniform(words[i + 1])
                    out[c, j, i] = r * math.cos(p) * factors[i]
                    out[c, j, i + 1] = r * math.sin(p) * factors[i + 1]

    return single if out.dtype == types.float32 else double


@part
def _cauchy(u: Any) -> Any:
    return math.tan(math.pi * (u - 0.5))


@part
def _laplace(u: Any) -> Any:
    return math.log(2.0 * u) if u < 0.5 else -math.log(2.0 * (1.0 - u))


@part
def _columns_by_themselves(
    law: Any, first: Any, keys: Any, seed: Any, scale: Any, words: Any, W: Any
) -> None:
    """Write frequencies of the laws that have no normals."""
    for c in range(W.shape[0]):
        for j in range(keys.shape[0]):
            w = W[c, j]
            chunk_words((first + c) * _GROUPS, TAG_FREQUENCY, keys[j], seed, words)
            if law == _CAUCHY:
                for i in range(CHUNK):
                    w[i] = _cauchy(_uniform(words[i])) * scale
            else:
                for i in range(CHUNK):
                    w[i] = _laplace(_uniform(words[i])) * scale


@part
def _phases(first: Any, seed: Any, words: Any, b: Any) -> None:
    for c in range(b.shape[0]):
        chunk_words((first + c) * _GROUPS, TAG_PHASE, 0, seed, words)
        for i in range(CHUNK):
            b[c, i] = _uniform(words[i])


@compiled
def _add_squares(
    first: Any, dof: Any, key: Any, seed: Any, one: Any, words: Any, z: Any, chi2: Any
) -> None:
    """Add the squares of as many normals as there are degrees of freedom to `chi2`."""
    for t in range(dof):
        _normals(first, TAG_RADIUS + t, key, seed, one, words, z)
        for c in range(chi2.shape[0]):
            for i in range(CHUNK):
                chi2[c, i] += np.float64(z[c, 0, i]) * np.float64(z[c, 0, i])


def _factors(
    first: int, chunks: int, seed: Any, law: int, dof: int, scale: float, dtype: Any
) -> Any:
    """Return the scale times the law's radius, which all columns of a feature have in common."""
    if law not in (_STUDENT, _RATIONAL):
        return np.full((1, CHUNK), scale, dtype)
    z, chi2 = np.empty((chunks, 1, CHUNK), dtype), np.zeros((chunks, CHUNK))
    one, words = np.ones((1, CHUNK), dtype), np.empty(CHUNK, np.uint32)
    _add_squares(first, dof, np.zeros(1, np.uint64), seed, one, words, z, chi2)
    return (scale * np.sqrt(dof / chi2 if law == _STUDENT else chi2 / dof)).astype(dtype)


# Arrays are made outside: compiled, their making takes longer to compile than all the rest.
@compiled
def _fill(
    seed: Any, law: Any, scale: Any, factor: Any, keys: Any, first: Any, words: Any, W: Any, b: Any
) -> None:
    _phases(first, seed, words, b)
    if law in (_CAUCHY, _LAPLACE):
        _columns_by_themselves(law, first, keys, seed, scale, words, W)
    else:
        _normals(first, TAG_FREQUENCY, keys, seed, factor, words, W)


@part
def _signs(first: Any, seed: Any, words: Any, signs: Any) -> None:
    """Write 64 random bits for each chunk, group and round: half a call of the generator."""
    chunks, shared = signs.shape[0], CHUNK // 2
    for g in range(signs.shape[1]):
        for r in range(ROUNDS):
            for start in range(-(first % 2), chunks, shared):
                chunk_words((first + start) // 2, TAG_SIGN + r, g, seed, words)
                for c in range(max(start, 0), min(start + shared, chunks)):
                    low, high = words[2 * (c - start)], words[2 * (c - start) + 1]
                    signs[c, g, r] = np.uint64(low) | np.uint64(high) << np.uint64(32)


@compiled
def _fill_rotations(
    seed: Any,
    factor: Any,
    widths: Any,
    keys: Any,
    one: Any,
    first: Any,
    words: Any,
    signs: Any,
    radii: Any,
    b: Any,
) -> None:
    chunks, groups, real = radii.shape[0], radii.shape[1], radii.dtype.type
    _phases(first, seed, words, b)
    _signs(first, seed, words, signs)
    _normals(first, TAG_LENGTH, keys, seed, one, words, radii)
    for c in range(chunks):
        factors = factor[min(c, factor.shape[0] - 1)]
        for g in range(groups):
            z, spread = radii[c, g], 2.0 / (9.0 * widths[g])
            center, slope = real(1.0 - spread), real(math.sqrt(spread))
            inverse = real(1.0 / widths[g])
            for i in range(CHUNK):
                t = center + slope * z[i]
                z[i] = t * np.sqrt(t) * inverse * factors[i]


def frequencies(
    seed: int, law: int, dof: int, scale: float, keys: Any, first_chunk: int, W: Any, b: Any
) -> None:
    """Fill chunks of frequencies and phases, both in turns, from the counter-based generator."""
    key, words, turns = np.uint64(seed), np.empty(CHUNK, np.uint32), scale / (2.0 * math.pi)
    factor = _factors(first_chunk, len(W), key, law, dof, turns, W.dtype)
    _fill(key, int(law), turns, factor, keys, first_chunk, words, W, b)


def rotations(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    widths: tuple[int, ...],
    first_chunk: int,
    signs: Any,
    radii: Any,
    b: Any,
) -> None:
    """Fill chunks of signs, lengths and phases of structured features, lengths in turns.

    A length is that of a normal vector of the transform's width p: the root of a chi-squared of p
    degrees, which is ``p (1 - 2 / (9 p) + z sqrt(2 / (9 p)))^3`` of a normal z up to an error far
    below that of the transform itself (Wilson and Hilferty 1931). The unnormalised transform makes
    vectors longer by p^(3/2).
    """
    key, words = np.uint64(seed), np.empty(CHUNK, np.uint32)
    factor = _factors(first_chunk, len(radii), key, law, dof, scale / (2.0 * math.pi), radii.dtype)
    keys, one = np.arange(len(widths), dtype=np.uint64), np.ones((1, CHUNK), radii.dtype)
    padded = np.array(widths, dtype=np.int64)
    _fill_rotations(key, factor, padded, keys, one, first_chunk, words, signs, radii, b)


@part
def _orthonormal(V: Any, t: Any) -> None:
    """Make the columns of a square matrix orthonormal, one after the other (Gram-Schmidt)."""
    p = V.shape[0]
    for i in range(p):
        square = 0.0
        for j in range(p):
            square += V[j, i] * V[j, i]
        length = math.sqrt(square)
        for j in range(p):
            V[j, i] /= length
        t[i:] = 0.0
        for j in range(p):
            v, row = V[j, i], V[j]
            for k in range(i + 1, p):
                t[k] += v * row[k]
        for j in range(p):
            v, row = V[j, i], V[j]
            for k in range(i + 1, p):
                row[k] -= v * t[k]


@compiled
def _fill_orthogonal(
    seed: Any, factor: Any, place: Any, keys: Any, one: Any, first: Any, words: Any, z: Any,
    V: Any, lengths: Any, t: Any, W: Any,
) -> None:  # fmt: skip
    """Fill the columns from `place` on, those of one group."""
    span, width = z.shape[0], V.shape[0]
    there = min(width, W.shape[1] - place)
    for c in range(0, W.shape[0], span):
        _normals(first + c, TAG_DIRECTION, keys, seed, one, words, z)
        lengths[:] = 0.0
        for s in range(span):
            for j in range(width):
                for i in range(CHUNK):
                    v = np.float64(z[s, j, i])
                    V[j, s * CHUNK + i] = v
                    lengths[s * CHUNK + i] += v * v
        _orthonormal(V, t)
        for s in range(min(span, W.shape[0] - c)):
            factors = factor[min(c + s, factor.shape[0] - 1)]
            for j in range(there):
                for i in range(CHUNK):
                    v = V[j, s * CHUNK + i] * math.sqrt(lengths[s * CHUNK + i])
                    W[c + s, place + j, i] = v * factors[i]


@compiled
def _only_phases(first: Any, seed: Any, words: Any, b: Any) -> None:
    _phases(first, seed, words, b)


def orthogonal(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    widths: tuple[int, ...],
    first_chunk: int,
    W: Any,
    b: Any,
) -> None:
    """Fill chunks of frequencies whose directions are orthogonal, and phases, both in turns.

    In a group of p columns, p consecutive features have the directions of a random rotation: of p
    normal vectors that are made orthogonal to one another (Yu et al. 2016, section 4). Their
    lengths are those that the normal vectors had, which do not depend on the directions, so each
    frequency has the law of an independent one. `first_chunk` begins a group of features.
    """
    key, words = np.uint64(seed), np.empty(CHUNK, np.uint32)
    factor = _factors(first_chunk, len(W), key, law, dof, scale / (2.0 * math.pi), W.dtype)
    one, place = np.ones((1, CHUNK), W.dtype), 0
    for width in widths:
        keys = np.arange(place, place + width, dtype=np.uint64)
        z = np.empty((width // CHUNK, width, CHUNK), W.dtype)
        V, lengths, t = np.empty((width, width)), np.empty(width), np.empty(width)
        _fill_orthogonal(
            key, factor, place, keys, one, first_chunk, words, z, V, lengths, t, W
        )  # fmt: skip
        place += width
    _only_phases(first_chunk, key, words, b)


@compiled
def _fill_sketches(seed: Any, keys: Any, first: Any, words: Any, buckets: Any) -> None:
    chunks, factors = buckets.shape[0], buckets.shape[1]
    for j in range(keys.shape[0]):
        for start in range(0, chunks, _GROUPS):
            chunk_words(first + start, TAG_BUCKET, keys[j], seed, words)
            for c in range(start, min(start + _GROUPS, chunks)):
                for f in range(factors):
                    code = words[4 * (c - start) + f // 4] >> np.uint32(8 * (f % 4))
                    buckets[c, f, j] = code & np.uint32(2 * CHUNK - 1)


def sketches(seed: int, keys: Any, first_chunk: int, buckets: Any) -> None:
    """Fill chunks of signs and buckets: a byte a factor, of one call for a chunk and a column."""
    _fill_sketches(np.uint64(seed), keys, first_chunk, np.empty(CHUNK, np.uint32), buckets)
