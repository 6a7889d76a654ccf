"""The counter-based generator: Philox4x32-10, and what is drawn with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import (
    CHUNK,
    FACTORS,
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

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Philox4x32-10 (Salmon et al. 2011) of counters (..., 4), 32-bit words held in uint64."""
    c0, c1, c2, c3 = np.moveaxis(counter, -1, 0)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            (p1 >> _HALF) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _HALF) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def _uniforms(
    seed: int, tag: int, keys: NDArray[np.uint64], first_chunk: int, chunks: int
) -> NDArray[np.float64]:
    """Uniforms in (0, 1) of shape (chunks, columns, CHUNK): feature i is word i % 4 of call i // 4.

    The high word of a key is the third counter's neighbour, so keys are 64-bit.
    """
    groups = CHUNK // 4
    counter = np.empty((chunks, len(keys), groups, 4), dtype=np.uint64)
    first = np.uint64(first_chunk * groups)
    counter[..., 0] = first + np.arange(chunks * groups, dtype=np.uint64).reshape(chunks, 1, groups)
    counter[..., 1] = tag
    counter[..., 2] = (keys & _LOW)[:, None]
    counter[..., 3] = (keys >> _HALF)[:, None]
    words = philox(counter, seed).reshape(chunks, len(keys), CHUNK)
    return np.asarray((words + 0.5) * 2.0**-32)


def _normals(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Box-Muller on neighbouring uniforms of the last axis."""
    r = np.sqrt(-2.0 * np.log(u[..., 0::2]))
    angle = 2.0 * np.pi * u[..., 1::2]
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1).reshape(u.shape)


def _phases(seed: int, first_chunk: int, chunks: int) -> NDArray[np.float64]:
    zero = np.zeros(1, dtype=np.uint64)
    return _uniforms(seed, TAG_PHASE, zero, first_chunk, chunks)[:, 0]


def _stretch(
    seed: int, law: int, dof: int, first_chunk: int, chunks: int
) -> NDArray[np.float64] | float:
    """Return the random factor that all columns of a feature have in common, (chunks, 1, CHUNK)."""
    if law not in (Law.STUDENT, Law.RATIONAL):
        return 1.0
    zero = np.zeros(1, dtype=np.uint64)
    chi2 = np.zeros((chunks, 1, CHUNK))
    for j in range(dof):
        chi2 += _normals(_uniforms(seed, TAG_RADIUS + j, zero, first_chunk, chunks)) ** 2
    return np.asarray(np.sqrt(dof / chi2 if law == Law.STUDENT else chi2 / dof))


def frequencies(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    keys: NDArray[Any],
    first_chunk: int,
    W: NDArray[Any],
    b: NDArray[Any],
) -> None:
    """Fill chunks of frequencies and phases, both in turns, from the counter-based generator."""
    chunks = len(W)
    u = _uniforms(seed, TAG_FREQUENCY, keys, first_chunk, chunks)
    if law == Law.CAUCHY:
        w = np.tan(np.pi * (u - 0.5))
    elif law == Law.LAPLACE:
        w = np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))
    else:
        w = _normals(u) * _stretch(seed, law, dof, first_chunk, chunks)
    W[...] = w * (scale / (2.0 * np.pi))
    b[...] = _phases(seed, first_chunk, chunks)


def _orthonormal(V: NDArray[np.float64]) -> None:
    """Make the columns of a square matrix orthonormal, one after the other (Gram-Schmidt)."""
    for i in range(len(V)):
        v = V[:, i]
        v /= np.sqrt((v * v).sum())
        rest = V[:, i + 1 :]
        rest -= v[:, None] * (v[:, None] * rest).sum(axis=0)


def orthogonal(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    widths: tuple[int, ...],
    first_chunk: int,
    W: NDArray[Any],
    b: NDArray[Any],
) -> None:
    """Fill chunks of frequencies whose directions are orthogonal, and phases, both in turns.

    In a group of p columns, p consecutive features have the directions of a random rotation: of p
    normal vectors that are made orthogonal to one another (Yu et al. 2016, section 4). Their
    lengths are those that the normal vectors had, which do not depend on the directions, so each
    frequency has the law of an independent one. `first_chunk` begins a group of features.
    """
    first = 0
    for width in widths:
        span = width // CHUNK
        places = np.arange(first, first + width, dtype=np.uint64)
        there = min(width, W.shape[1] - first)
        for c in range(0, len(W), span):
            z = _normals(_uniforms(seed, TAG_DIRECTION, places, first_chunk + c, span))
            V = z.astype(W.dtype).astype(np.float64).transpose(1, 0, 2).reshape(width, width)
            lengths = np.sqrt((V * V).sum(axis=0))
            _orthonormal(V)
            w = (V * lengths)[:there].reshape(there, span, CHUNK).transpose(1, 0, 2)
            W[c : c + span, first : first + there] = w[: len(W) - c]
        first += width
    turns = _stretch(seed, law, dof, first_chunk, len(W)) * (scale / (2.0 * np.pi))
    W *= np.asarray(turns, W.dtype)
    b[...] = _phases(seed, first_chunk, len(W))


def sketches(seed: int, keys: NDArray[Any], first_chunk: int, buckets: NDArray[np.uint8]) -> None:
    """Fill chunks of signs and buckets: a byte a factor, of one call for a chunk and a column."""
    chunks, factors, d = buckets.shape
    counter = np.empty((chunks, d, 4), dtype=np.uint64)
    counter[..., 0] = (np.uint64(first_chunk) + np.arange(chunks, dtype=np.uint64))[:, None]
    counter[..., 1] = TAG_BUCKET
    counter[..., 2] = keys & _LOW
    counter[..., 3] = keys >> _HALF
    words = philox(counter, seed)
    codes = words[..., None] >> np.arange(0, 32, 8, dtype=np.uint64) & np.uint64(2 * CHUNK - 1)
    buckets[...] = codes.reshape(chunks, d, FACTORS)[..., :factors].transpose(0, 2, 1)


def _signs(
    seed: int, tag: int, groups: NDArray[np.uint64], first_chunk: int, chunks: int
) -> NDArray[np.uint64]:
    """Return the signs of each chunk and group, 64 bits from half a call of the generator."""
    chunk = np.uint64(first_chunk) + np.arange(chunks, dtype=np.uint64)
    counter = np.zeros((chunks, len(groups), 4), dtype=np.uint64)
    counter[..., 0] = (chunk // np.uint64(2))[:, None]
    counter[..., 1] = tag
    counter[..., 2] = groups
    words = philox(counter, seed)
    halves = words[..., 0::2] | words[..., 1::2] << _HALF
    return np.asarray(np.where(chunk[:, None] % np.uint64(2) == 0, halves[..., 0], halves[..., 1]))


def rotations(
    seed: int,
    law: int,
    dof: int,
    scale: float,
    widths: tuple[int, ...],
    first_chunk: int,
    signs: NDArray[Any],
    radii: NDArray[Any],
    b: NDArray[Any],
) -> None:
    """Fill chunks of signs, lengths and phases, the lengths and phases in turns.

    A row of a group's transform of width p has the length p^1.5; of p normals it would have the
    length chi of p degrees of freedom. That is drawn from one normal as Wilson and Hilferty (1931)
    have it: a cube of a normal for chi squared. At p = 64 that moves a kernel's value by less than
    1e-6, a thousandth of what three rounds lack of a random rotation.
    """
    chunks, groups = len(b), np.arange(len(widths), dtype=np.uint64)
    p = np.array(widths, dtype=np.float64)[:, None]
    z = _normals(_uniforms(seed, TAG_LENGTH, groups, first_chunk, chunks))
    spread = 2.0 / (9.0 * p)
    chi = np.sqrt(p) * (1.0 - spread + z * np.sqrt(spread)) ** 1.5
    stretch = _stretch(seed, law, dof, first_chunk, chunks)
    radii[...] = chi / p**1.5 * stretch * (scale / (2.0 * np.pi))
    for r in range(ROUNDS):
        signs[..., r] = _signs(seed, TAG_SIGN + r, groups, first_chunk, chunks)
    b[...] = _phases(seed, first_chunk, chunks)
