"""The counter-based generator: Philox4x32-10, and what is drawn with it.

Numbers are drawn a chunk at a time. In single precision normals come from the vectors of `normals`,
within 4e-7 (1 + |z|) of the reference; in double precision the library's functions are applied to
the same words.
"""

# An overload has all the arguments of what it stands for.

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import types

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
from streamk.backends.numba_backend.compiling import compiled, overload, part
from streamk.backends.numba_backend.features.normals import chunk_normals, chunk_words

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
