"""The oracle of features without a Fourier law, and of orthogonal frequencies.

Plain Python, one feature of one point at a time. Nothing here imports streamk.

Tensor sketches: Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature maps"
(KDD 2013), for a hash that adds buckets bit by bit. Arc-cosine kernels: Cho and Saul, "Kernel
methods for deep learning" (NIPS 2009). Zonal harmonics: Mueller, "Spherical harmonics" (1966).
Orthogonal frequencies: Yu et al., "Orthogonal random features" (NIPS 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import product

import numpy as np

from . import naive

CHUNK = 64
BUCKET, DIRECTION = 8, 9  # stream tags
CONSTANT = 2**64 - 1  # key of the constant column

Feature = Callable[[int, int, Sequence[float], Sequence[int | str]], float]
"""phi_i(x) from seed, i, the row x and the names of its columns."""


def keys_of(columns: Sequence[int | str]) -> tuple[int, ...]:
    return (CONSTANT, *(naive.column_key(name) for name in columns))


def unit(bandwidth: float, x: Sequence[float]) -> list[float]:
    """The unit vector of (bandwidth, x)."""
    whole = [bandwidth, *(float(v) for v in x)]
    length = math.sqrt(sum(v * v for v in whole))
    return [v / length for v in whole]


def dot(u: Sequence[float], v: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(u, v, strict=True))


# --- polynomial kernels and tensor sketches -------------------------------------------------------


def polynomial(
    degree: int, offset: float, bandwidth: float, x: Sequence[float], y: Sequence[float]
) -> float:
    return (dot([float(v) for v in x], [float(v) for v in y]) / bandwidth**2 + offset) ** degree


@cache
def bucket(seed: int, chunk: int, factor: int, key: int) -> tuple[int, int]:
    """The bucket and the sign of a column in a factor of a chunk's sketch: seven bits of a byte."""
    words = naive.philox4x32(
        (chunk, BUCKET, key & naive.MASK, key >> 32), (seed & naive.MASK, seed >> 32)
    )
    code = words[factor // 4] >> (8 * (factor % 4)) & 0x7F
    return code % CHUNK, -1 if code >= CHUNK else 1


@lru_cache(64)
def tensor_sketch(seed: int, chunk: int, degree: int, keys: tuple[int, ...], u: tuple[float, ...]):
    """The CHUNK buckets of a sketch of u (x) ... (x) u, every product of entries in its bucket.

    The bucket of a tuple of columns is the exclusive or of theirs, its sign the product.
    """
    buckets = [0.0] * CHUNK
    for places in product(range(len(u)), repeat=degree):
        where, value = 0, 1.0
        for factor, j in enumerate(places):
            each, sign = bucket(seed, chunk, factor, keys[j])
            where, value = where ^ each, value * sign * u[j]
        buckets[where] += value
    return buckets


def polynomial_feature(degree: int, offset: float, bandwidth: float) -> Feature:
    """A feature is a Walsh-Hadamard coefficient of the sketch of (sqrt(offset), x / bandwidth)."""

    def feature(seed: int, i: int, x: Sequence[float], columns: Sequence[int | str]) -> float:
        u = (math.sqrt(offset), *(float(v) / bandwidth for v in x))
        chunk, k = divmod(i, CHUNK)
        buckets = tensor_sketch(seed, chunk, degree, keys_of(columns), u)
        return sum((-1) ** (k & b).bit_count() * v for b, v in enumerate(buckets))

    return feature


# --- arc-cosine kernels ---------------------------------------------------------------------------


def arc_cosine(order: int, bandwidth: float, x: Sequence[float], y: Sequence[float]) -> float:
    """J_order(t) / J_order(0) of the angle t between the unit vectors."""
    c = max(-1.0, min(1.0, dot(unit(bandwidth, x), unit(bandwidth, y))))
    t = math.acos(c)
    if order == 0:
        return (math.pi - t) / math.pi
    if order == 1:
        return (math.sin(t) + (math.pi - t) * c) / math.pi
    return (3.0 * math.sin(t) * c + (math.pi - t) * (1.0 + 2.0 * c * c)) / (3.0 * math.pi)


def neuron(order: int, projection: float) -> float:
    """sqrt(2 / J_order(0) pi) times the step, ramp or squared ramp."""
    above = 1.0 if projection > 0 else 0.0
    return math.sqrt(2.0 / (1, 1, 3)[order]) * above * projection**order


def arc_cosine_feature(order: int, bandwidth: float) -> Feature:
    def feature(seed: int, i: int, x: Sequence[float], columns: Sequence[int | str]) -> float:
        w = [naive.normal(seed, naive.FREQUENCY, i, key) for key in keys_of(columns)]
        return neuron(order, dot(w, unit(bandwidth, x)))

    return feature


# --- rotation-invariant kernels on the sphere -----------------------------------------------------


def gegenbauer(n: int, q: int, t: float) -> float:
    """P_n of q dimensions, P_n(1) = 1, by the explicit sum; Chebyshev's where q = 2."""
    if q == 1:
        return t**n
    if q == 2:
        return math.cos(n * math.acos(max(-1.0, min(1.0, t))))
    half = (q - 2) / 2.0

    def c(s: float) -> float:
        return sum(
            (-1) ** k
            * math.exp(math.lgamma(n - k + half) - math.lgamma(half))
            / (math.factorial(k) * math.factorial(n - 2 * k))
            * (2.0 * s) ** (n - 2 * k)
            for k in range(n // 2 + 1)
        )

    return c(t) / c(1.0)


def harmonics(n: int, q: int) -> float:
    """Harmonics of degree n in q dimensions (Mueller 1966, equation 11)."""
    if q == 1 or n == 0:
        return 1.0
    return (2 * n + q - 2) / n * math.comb(n + q - 3, n - 1)


def zonal(
    weights: Sequence[float], bandwidth: float, x: Sequence[float], y: Sequence[float]
) -> float:
    t = dot(unit(bandwidth, x), unit(bandwidth, y))
    terms = (b * gegenbauer(n, len(x) + 1, t) for n, b in enumerate(weights))
    return sum(terms) / sum(weights)


def zonal_feature(weights: Sequence[float], bandwidth: float) -> Feature:
    """The degree follows from the phase, the direction from the normal frequency."""

    def feature(seed: int, i: int, x: Sequence[float], columns: Sequence[int | str]) -> float:
        draw, n = naive.uniform(seed, naive.PHASE, i, 0) * sum(weights), 0
        while draw >= weights[n]:
            draw, n = draw - weights[n], n + 1
        w = [naive.normal(seed, naive.FREQUENCY, i, key) for key in keys_of(columns)]
        t = dot(w, unit(bandwidth, x)) / math.sqrt(dot(w, w))
        q = len(x) + 1
        return math.sqrt(harmonics(n, q)) * gegenbauer(n, q, t)

    return feature


# --- orthogonal frequencies -----------------------------------------------------------------------


@cache
def rotation(seed: int, block: int, first: int, p: int) -> np.ndarray:
    """p normal vectors made orthogonal by Gram and Schmidt, each with the length that it had."""
    vectors = [
        [naive.normal(seed, DIRECTION, block * p + i, first + j) for j in range(p)]
        for i in range(p)
    ]
    found: list[np.ndarray] = []
    for row in vectors:
        v = np.array(row)
        length = math.sqrt(float(v @ v))
        for before in found:
            v = v - float(v @ before) * before
        found.append(v / math.sqrt(float(v @ v)))
        row[:] = (length * found[-1]).tolist()
    return np.array(vectors)


def orthogonal_feature(k: naive.Kernel, widths: tuple[int, ...]) -> Feature:
    """phi_i of a kernel of naive's whose columns lie in groups of these widths.

    Of 2 p cosines, the last p have the frequencies of the first with phases a quarter of a turn on.
    """
    span = max(widths)

    def feature(seed: int, i: int, x: Sequence[float], columns: Sequence[int | str]) -> float:
        assert len(columns) == len(x)
        number, turn = i, 0
        if k.name != "linear":
            period, place = divmod(i, 2 * span)
            turn, place = divmod(place, span)
            number = period * span + place
        first, projection = 0, 0.0
        for p in widths:
            omega = rotation(seed, number // p, first, p)[number % p]
            projection += dot(omega.tolist()[: len(x) - first], [float(v) for v in x[first:][:p]])
            first += p
        scale = 1.0 if k.name == "linear" else k.scale
        projection *= naive.stretch(k, seed, number) / scale
        if k.name == "linear":
            return projection
        phase = naive.uniform(seed, naive.PHASE, number, 0) + 0.25 * turn
        return math.sqrt(2.0) * math.cos(projection + 2.0 * math.pi * phase)

    return feature
