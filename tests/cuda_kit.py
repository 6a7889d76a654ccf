"""What the tests of the CuPy backend share: where it runs, and arrays of the host's.

What may differ from the loops of the host: the generator's normals, by 4e-7 (1 + |z|) in single
precision; the cosine, by 6e-7 in single precision; and sums, by the order of their terms. Where
nothing but that is in question, equality is bit for bit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from cuda_host import compiler, host_backend

from streamk.backends import CHUNK, Basis, Dense, Hadamard, Law
from streamk.backends import numba_backend as host
from streamk.backends.cupy_backend import connect
from streamk.errors import BackendUnavailable

TYPES = [("float32", False), ("float32", True), ("float64", True)]
"""Types of numbers, and whether phases are double."""
WIDTHS: list[tuple[int, ...]] = [(), (64,), (128, 64), (64, 1024)]
"""Groups of the bases tested; () is dense."""
SEED = 0xFEDCBA9876543210


def lacking_for_a_gpu() -> str | None:
    """What is missing to run the kernels where they belong."""
    try:
        connect()
    except BackendUnavailable as error:
        return str(error)
    return None


GPU_LACKS = lacking_for_a_gpu()
PLACES = ["host", "host backwards"] + ["gpu"] * (GPU_LACKS is None)
"""Where the backend runs: compiled for the host, its threads in either order, and on a GPU."""
FORWARDS = [place for place in PLACES if place != "host backwards"]
"""Those for whole learners, whose loops are tried in either order by themselves."""


def backend_at(place: str) -> Any:
    """The backend there, else skip naming what is missing."""
    if place == "gpu":
        return connect()
    if compiler() is None:
        pytest.skip("the kernels run on the host only where there is a C compiler (cc)")
    return host_backend(backwards=place == "host backwards")


def tolerance(dtype: str) -> float:
    return 1e-6 if dtype == "float32" else 1e-13


def points(n: int, d: int, dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def basis_of(widths: tuple[int, ...], d: int, chunks: int, dtype: str, scale: float = 0.5) -> Basis:
    """A basis of the host, of normals."""
    b = np.empty((chunks, CHUNK), dtype)
    if not widths:
        W = np.empty((chunks, d, CHUNK), dtype)
        keys = np.arange(d, dtype=np.uint64)
        host.frequencies(SEED, Law.NORMAL, 0, scale, keys, 0, W, b)
        return Dense(W, b)
    signs = np.empty((chunks, len(widths), 3), np.uint64)
    radii = np.empty((chunks, len(widths), CHUNK), dtype)
    host.rotations(SEED, Law.NORMAL, 0, scale, widths, 0, signs, radii, b)
    return Hadamard(widths, signs, radii, b)


def put(backend: Any, given: Any) -> Any:
    """A basis or an array on the device; anything else as it is."""
    if isinstance(given, Dense | Hadamard):
        return type(given)(*(put(backend, part) for part in given))
    return backend.put(given) if isinstance(given, np.ndarray) else given


def as_whole(given: Any) -> Any:
    """A code as the whole number that it is, which compiled functions know."""
    return int(given) if isinstance(given, IntEnum) else given


def both(backend: Any, function: str, *arguments: Any) -> tuple[Any, Any]:
    """What a function of the backend, and of the host, writes into its last argument."""
    there = [put(backend, one) for one in arguments]
    getattr(backend, function)(*there)
    getattr(host, function)(*map(as_whole, arguments))
    return backend.get(there[-1]), arguments[-1]


def some_of(basis: Basis, chunks: slice) -> Basis:
    if isinstance(basis, Dense):
        return Dense(basis.W[chunks], basis.b[chunks])
    return Hadamard(basis.widths, *(array[chunks] for array in basis[1:]))


def columns_of(widths: tuple[int, ...]) -> int:
    """Columns that leave some of the last group empty."""
    return sum(widths) - 11 if widths else 13


def chunks_of(widths: tuple[int, ...]) -> int:
    """More chunks than one tile has."""
    return max((2 * CHUNK, *widths)) // CHUNK
