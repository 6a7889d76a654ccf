"""The hot loops, in twin packages with the same function names.

`numpy_backend` is the readable reference, `numba_backend` the compiled twin, `cupy_backend` the one
for NVIDIA GPUs. They work on features in chunks of `CHUNK`: feature i of a point x is
the `Curve` of the phase u: ``cos(2 pi u)``, u in turns, say, or u itself. The factor sqrt(2) of the
paper is in `factor` and `weight`. A *basis* holds what gives the phases of consecutive chunks:
`Dense` frequencies, ``u = b + w.x``, or the constants of `Hadamard` transforms. `Zonal` directions
and tensor `Sketch` have features of their own, whatever the curve.

What is predicted for a row is computed for that row by itself, in a fixed order, so that it is the
same, bit for bit, in whatever batch it comes and however the batch is divided among threads. Each
twin defines::

    frequencies(seed, law, dof, scale, keys, first_chunk, W, b)      fill a Dense basis
    rotations(seed, law, dof, scale, widths, first_chunk, signs, radii, b)   fill a Hadamard basis
    orthogonal(seed, law, dof, scale, widths, first_chunk, W, b)     fill a Dense basis of rotations
    sketches(seed, keys, first_chunk, buckets)                       fill a Sketch
    features(X, basis, curve, wide, out)                             out = features(X)
    accumulate(X, basis, A, curve, wide, acc)                        acc += A . features(X)
    finish(acc, factor, F)                                           F = factor * sum of the lanes
    predict(X, basis, A, curve, wide, factor, F)                     these two in one call
    loss_gradient(code, parameter, classes, F, y, weight, G)         G = weight * l'(F, y)
    score(code, parameter, classes, F, y, kept, most, losses)        losses = kept losses + l(F, y)
    gradient(X, basis, G, curve, wide, out)                          out = features(X)^T G
    descend(A, squares, g, rate, start, stop)                        A -= rate * g, or AdaGrad's
    step(X, y, basis, A, squares, block, ..., F)                     predict and learn a mini-batch
    single(basis, A, squares, curve, wide, loss)                     the same for single events
    decay(A, factor)                                                 A *= factor
    measure(X, count, mean, squares, numeric)                        rows into columns' statistics
    spread(count, mean, squares, numeric, factor)                    factor = 1 / spread of columns
    rescale(X, mean, factor, out)                                    out = (X - mean) * factor
    rescale_each(X, known, statistics, ..., before, after, units)    these three row by row
    pairwise(code, parameter, scale, X, Y, out)                      out = K(X, Y)
    pairwise_product(code, parameter, scale, X, Y, V, out)           out = K(X, Y) V
    extend(K, L, F, start, delta)                                    F^T = L^-1 K, further columns
    choose(K, F, start, delta, least, places, schur)                 the same, greedily chosen

with X (n, d), A, squares, g and the gradient's out (chunks, outputs, CHUNK), acc (n, outputs,
LANES), F float64 and G (n, outputs), y float64 (n,), features' out (n, chunks * CHUNK), keys uint64
(d,). Where A or out has fewer chunks than the basis, the others are left out. `wide` asks for
phases in float64. `squares` has no chunks where the step is not AdaGrad's. F of `score` is (n,
functions, outputs), losses (functions,).

Of `pairwise` and its product, X (n, d), Y (m, d) and V (m, outputs) are contiguous and of one type,
float32 or float64; the kernels are evaluated in it, and the product's out is float64. `parameter`
is Matern's nu, the rational quadratic's alpha or the depth of a neural tangent kernel, `scale`
1 / bandwidth. The points of the latter are unit vectors, which each host twin's module `tangent`
makes of others (`to_sphere`), and its `scale` is not used. The product never stores K: beside out
it takes the memory of a tile.

The last ones let the factor of a kernel matrix grow by landmarks: K (landmarks, n), F (n,
capacity), L (landmarks, start + landmarks or more) their own rows of it, delta float64 (n,); to
choose, K (n, n), places int64 and schur float64 (most,).

All arrays are on the backend's device, made by its `xp` (NumPy's or CuPy's functions) or brought
there by `put`, and come back by `get` or `fetch`; those of score, measure, spread, rescale,
rescale_each, extend and choose are NumPy's with every backend. They are C-contiguous, or slices of
the first axis of such.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

from streamk.backends.codes import (
    BACKENDS,
    BINARY,
    CHUNK,
    CLASSES,
    DEEPEST,
    FACTORS,
    FAIR_COIN,
    FARTHEST,
    FARTHEST_LOCAL,
    GROUP,
    HIGHEST_RANK,
    LANES,
    LARGEST,
    LEAF,
    LINE,
    NOWHERE,
    NUMBERS,
    OUTERMOST,
    ROUNDING,
    ROUNDS,
    SAMPLED,
    TAG_BUCKET,
    TAG_DIRECTION,
    TAG_EVENT,
    TAG_FREQUENCY,
    TAG_LENGTH,
    TAG_PHASE,
    TAG_RADIUS,
    TAG_SAMPLE,
    TAG_SIGN,
    WIDEST,
    WIDEST_ORTHOGONAL,
    Array,
    Basis,
    Curve,
    Dense,
    Hadamard,
    KernelCode,
    Law,
    LocalKernels,
    LossCode,
    Sketch,
    Zonal,
    chunks_of,
    filled,
)
from streamk.backends.protocol import Backend, Single, Sizes, Steps
from streamk.errors import BackendUnavailable, InvalidInput

__all__ = [
    "BACKENDS",
    "BINARY",
    "CHUNK",
    "CLASSES",
    "DEEPEST",
    "FACTORS",
    "FAIR_COIN",
    "FARTHEST",
    "FARTHEST_LOCAL",
    "GROUP",
    "HIGHEST_RANK",
    "LANES",
    "LARGEST",
    "LEAF",
    "LINE",
    "NOWHERE",
    "NUMBERS",
    "OUTERMOST",
    "ROUNDING",
    "ROUNDS",
    "SAMPLED",
    "TAG_BUCKET",
    "TAG_DIRECTION",
    "TAG_EVENT",
    "TAG_FREQUENCY",
    "TAG_LENGTH",
    "TAG_PHASE",
    "TAG_RADIUS",
    "TAG_SAMPLE",
    "TAG_SIGN",
    "WIDEST",
    "WIDEST_ORTHOGONAL",
    "Array",
    "Backend",
    "Basis",
    "Curve",
    "Dense",
    "Hadamard",
    "KernelCode",
    "Law",
    "LocalKernels",
    "LossCode",
    "Single",
    "Sizes",
    "Sketch",
    "Steps",
    "Zonal",
    "chunks_of",
    "filled",
    "of_numba",
    "select",
    "select_devices",
    "twin",
]


def select(name: str = "auto") -> Backend:
    """Return the backend of that name; ``auto`` is numba where it is installed, else numpy.

    Raises
    ------
    InvalidInput
        If there is no such backend.
    BackendUnavailable
        If its package is not installed; for cupy, also if there is no driver or no device.
    """
    return _host() if name == "auto" else _selected(name)


def select_devices(count: int | None = None) -> list[Backend]:
    """Return the backend "cupy" on each of the first so many devices, by default on all.

    Raises
    ------
    BackendUnavailable
        If there is no CuPy, driver or device, or there are fewer devices.
    """
    module: Any = importlib.import_module("streamk.backends.cupy_backend")
    found: list[Backend] = module.connect_each(count)
    return found


@cache
def twin(name: str, backend: str = "auto") -> Any:
    """Return the module of that name of a backend of the host's."""
    host: Any = select(backend)
    return importlib.import_module(f"{host.__name__}.{name}")


def of_numba(name: str, owner: str) -> Any:
    """Return a module of the backend "numba" that has no twin, for an owner named in the error.

    Raises
    ------
    BackendUnavailable
        If numba is not installed.
    """
    try:
        return importlib.import_module(f"streamk.backends.numba_backend.{name}")
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            f"{owner} needs numba, which is missing here ({error}): pip install numba"
        ) from error


@cache
def _host() -> Backend:
    return _selected("numba" if importlib.util.find_spec("numba") else "numpy")


def _selected(name: str) -> Backend:
    if name not in BACKENDS:
        raise InvalidInput(f"no backend is called {name!r}; there are auto, {', '.join(BACKENDS)}")
    try:
        module: Any = importlib.import_module(f"streamk.backends.{name}_backend")
    except ImportError as error:
        raise BackendUnavailable(
            f"backend {name!r} needs a package that is missing here ({error}); "
            f"install it with: pip install {name}, or choose backend='numpy'"
        ) from error
    backend: Backend = module.connect() if name == "cupy" else module
    return backend
