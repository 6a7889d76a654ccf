"""The counter-based generator: Philox4x32-10, and what is drawn with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import CHUNK, TAG_FREQUENCY, TAG_PHASE, TAG_RADIUS, Law
from streamk.backends.numba_backend.compiling import compiled

_CAUCHY, _LAPLACE, _STUDENT = int(Law.CAUCHY), int(Law.LAPLACE), int(Law.STUDENT)
_GROUPS = CHUNK // 4


@compiled
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Philox4x32-10 (Salmon et al. 2011); all arguments and results are 32-bit words in uint64."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c0, c1, c2, c3


@compiled
def _uniforms(group: Any, tag: Any, key: Any, seed: Any) -> Any:
    """Return the four uniforms in (0, 1) of one call of the generator."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = philox(
        np.uint64(group), np.uint64(tag), key & low, key >> half, seed & low, seed >> half
    )
    unit = 2.0**-32
    return (c0 + 0.5) * unit, (c1 + 0.5) * unit, (c2 + 0.5) * unit, (c3 + 0.5) * unit


@compiled
def _normals(group: Any, tag: Any, key: Any, seed: Any) -> Any:
    u0, u1, u2, u3 = _uniforms(group, tag, key, seed)
    r, s = math.sqrt(-2.0 * math.log(u0)), math.sqrt(-2.0 * math.log(u2))
    p, q = 2.0 * math.pi * u1, 2.0 * math.pi * u3
    return r * math.cos(p), r * math.sin(p), s * math.cos(q), s * math.sin(q)


@compiled
def _cauchy(u: Any) -> Any:
    return math.tan(math.pi * (u - 0.5))


@compiled
def _laplace(u: Any) -> Any:
    return math.log(2.0 * u) if u < 0.5 else -math.log(2.0 * (1.0 - u))


@compiled
def _fill(seed: Any, law: Any, dof: Any, scale: Any, keys: Any, first: Any, W: Any, b: Any) -> None:
    zero = np.uint64(0)
    radius = np.ones(CHUNK)
    for c in range(W.shape[0]):
        for g in range(_GROUPS):
            group, i = (first + c) * _GROUPS + g, 4 * g
            b[c, i], b[c, i + 1], b[c, i + 2], b[c, i + 3] = _uniforms(group, TAG_PHASE, zero, seed)
            if law == _STUDENT:
                r0, r1, r2, r3 = 0.0, 0.0, 0.0, 0.0
                for t in range(dof):
                    z0, z1, z2, z3 = _normals(group, TAG_RADIUS + t, zero, seed)
                    r0, r1, r2, r3 = r0 + z0 * z0, r1 + z1 * z1, r2 + z2 * z2, r3 + z3 * z3
                radius[i], radius[i + 1] = math.sqrt(dof / r0), math.sqrt(dof / r1)
                radius[i + 2], radius[i + 3] = math.sqrt(dof / r2), math.sqrt(dof / r3)
        for j in range(keys.shape[0]):
            for g in range(_GROUPS):
                group, i = (first + c) * _GROUPS + g, 4 * g
                if law in (_CAUCHY, _LAPLACE):
                    u0, u1, u2, u3 = _uniforms(group, TAG_FREQUENCY, keys[j], seed)
                    if law == _CAUCHY:
                        w0, w1, w2, w3 = _cauchy(u0), _cauchy(u1), _cauchy(u2), _cauchy(u3)
                    else:
                        w0, w1, w2, w3 = _laplace(u0), _laplace(u1), _laplace(u2), _laplace(u3)
                else:
                    w0, w1, w2, w3 = _normals(group, TAG_FREQUENCY, keys[j], seed)
                W[c, j, i], W[c, j, i + 1] = w0 * radius[i] * scale, w1 * radius[i + 1] * scale
                W[c, j, i + 2] = w2 * radius[i + 2] * scale
                W[c, j, i + 3] = w3 * radius[i + 3] * scale


def frequencies(
    seed: int, law: int, dof: int, scale: float, keys: Any, first_chunk: int, W: Any, b: Any
) -> None:
    """Fill chunks of frequencies and phases, both in turns, from the counter-based generator."""
    _fill(np.uint64(seed), int(law), dof, scale / (2.0 * math.pi), keys, first_chunk, W, b)
