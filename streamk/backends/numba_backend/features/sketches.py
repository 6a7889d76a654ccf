"""Tensor sketches: products of transformed count sketches, `LANES` of them side by side.

A count sketch adds each column, with a random sign, to one of `CHUNK` random buckets. Products of
the Walsh-Hadamard transforms of several are the transform of a sketch of the columns' tensor
product (see `streamk.kernels.Polynomial`). What lies side by side are rows of a batch, or, of the
rows that are left over, chunks of one row: either way a number in each lane goes through the same
additions, so a row's features do not depend on its batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import CHUNK, LANES
from streamk.backends.numba_backend.compilation.compiling import compiled, part


@part
def _transform(s: Any) -> None:
    """Transform each lane of s (CHUNK, LANES), as Walsh and Hadamard do, unnormalised."""
    half = 1
    while half < CHUNK:
        for start in range(0, CHUNK, 2 * half):
            for k in range(start, start + half):
                a, b = s[k], s[k + half]
                for lane in range(LANES):
                    one, other = a[lane], b[lane]
                    a[lane] = one + other
                    b[lane] = one - other
        half *= 2


@part
def _multiply(first: Any, s: Any, f: Any) -> None:
    """Make f the first factor, or multiply it by a further one."""
    for k in range(CHUNK):
        for lane in range(LANES):
            f[k, lane] = s[k, lane] if first else f[k, lane] * s[k, lane]


@compiled
def _sketch_rows(x: Any, buckets: Any, s: Any, f: Any) -> None:
    """Sketch the rows in the lanes of x (d, LANES) by one chunk's buckets (factors, d)."""
    one = x.dtype.type(1.0)
    for p in range(buckets.shape[0]):
        s[:] = 0.0
        for j in range(x.shape[0]):
            code = np.int64(buckets[p, j])
            sign = -one if code >= CHUNK else one
            bucket, column = s[code % CHUNK], x[j]
            for lane in range(LANES):
                bucket[lane] += sign * column[lane]
        _transform(s)
        _multiply(p == 0, s, f)


@compiled
def _sketch_chunks(x: Any, buckets: Any, count: Any, s: Any, f: Any) -> None:
    """Sketch one row x (d,) by the buckets of some chunks (count, factors, d), one a lane."""
    one = x.dtype.type(1.0)
    for p in range(buckets.shape[1]):
        s[:] = 0.0
        for lane in range(count):
            codes = buckets[lane, p]
            for j in range(x.shape[0]):
                code = np.int64(codes[j])
                s[code % CHUNK, lane] += (-one if code >= CHUNK else one) * x[j]
        _transform(s)
        _multiply(p == 0, s, f)


@part
def _turn(f: Any, t: Any) -> None:
    """Write the lanes of f (CHUNK, LANES) as rows of t."""
    for k in range(CHUNK):
        for lane in range(LANES):
            t[lane, k] = f[k, lane]


@part
def _add(features: Any, a: Any, acc: Any) -> None:
    """Add a chunk's features, with the coefficients a (outputs, CHUNK), to a row's sums."""
    for k in range(a.shape[0]):
        sums, coefficients = acc[k], a[k]
        for first in range(0, CHUNK, LANES):
            for lane in range(LANES):
                sums[lane] += coefficients[first + lane] * features[first + lane]


@part
def _take(features: Any, A: Any, acc: Any, phi: Any, c: Any, r: Any, first: Any) -> None:
    """Add up or keep the features of chunk c and row r, or both."""
    if A is not None:
        _add(features, A[c], acc[r])
    if phi is not None:
        phi[c - first, r] = features


@compiled
def evaluate_sketches(
    X: Any, buckets: Any, A: Any, acc: Any, phi: Any, first: Any, stop: Any, outputs: Any,
    curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`; see `projection.evaluate`."""
    n, d = X.shape
    whole = n - n % LANES
    x, s = np.empty((d, LANES), X.dtype), np.empty((CHUNK, LANES), X.dtype)
    f, t = np.empty((CHUNK, LANES), X.dtype), np.empty((LANES, CHUNK), X.dtype)
    for r in range(0, whole, LANES):
        for j in range(d):
            for lane in range(LANES):
                x[j, lane] = X[r + lane, j]
        for c in range(first, stop):
            _sketch_rows(x, buckets[c], s, f)
            _turn(f, t)
            for lane in range(LANES):
                _take(t[lane], A, acc, phi, c, r + lane, first)
    for r in range(whole, n):
        for c in range(first, stop, LANES):
            count = min(LANES, stop - c)
            _sketch_chunks(X[r], buckets[c : c + count], count, s, f)
            _turn(f, t)
            for lane in range(count):
                _take(t[lane], A, acc, phi, c + lane, r, first)
