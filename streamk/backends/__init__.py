"""The hot loops, in twin modules with the same function names.

`numpy_backend` is the readable reference, `numba_backend` the compiled twin. Both work on features
in chunks of `CHUNK`: a chunk's frequencies are one contiguous (d, CHUNK) tile in turns
(w / 2 pi), so that a loop over a chunk is one pass over consecutive memory.

Every function treats each row of a batch by itself and adds in a fixed order, so that a row's
result is the same, bit for bit, in whatever batch it comes and however the batch is divided among
threads. Each twin defines::

    frequencies(seed, law, dof, scale, keys, first_chunk, W, b)   fill chunks of frequencies, phases
    accumulate(X, W, b, A, cosine, wide, acc)                     acc += A . features(X)
    gradient(X, W, b, G, cosine, wide, out)                       out = features(X)^T G
    features(X, W, b, cosine, wide, out)                          out = features(X)

with X (n, d), W (chunks, d, CHUNK), b (chunks, CHUNK), A and the gradient's out
(chunks, outputs, CHUNK), acc (n, outputs, LANES), G (n, outputs), features' out
(n, chunks * CHUNK), keys uint64 (d,). A feature here is cos(2 pi (w.x + b)), or w.x where `cosine`
is false; the factor sqrt(2) of the paper is applied by the caller, once a sum. `wide` asks for
phases summed in float64.
"""

from __future__ import annotations

import importlib
import importlib.util
from enum import IntEnum
from typing import Any, Protocol

from numpy.typing import NDArray

from streamk.errors import BackendUnavailable, InvalidInput

CHUNK = 64
"""Features a chunk."""
LANES = 16
"""Partial sums kept for each output until the last chunk has been added."""


class Law(IntEnum):
    """Distribution of one random frequency before it is divided by the bandwidth."""

    NORMAL = 0
    CAUCHY = 1
    LAPLACE = 2
    STUDENT = 3


TAG_FREQUENCY = 0
TAG_PHASE = 1
TAG_RADIUS = 16

BACKENDS = ("numpy", "numba")
"""Names of the backends, besides ``auto``."""


class Backend(Protocol):
    """What a backend module defines; see the module's docstring."""

    def frequencies(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        keys: NDArray[Any],
        first_chunk: int,
        W: NDArray[Any],
        b: NDArray[Any],
    ) -> None:
        """Fill chunks of frequencies and phases."""
        ...

    def accumulate(
        self,
        X: NDArray[Any],
        W: NDArray[Any],
        b: NDArray[Any],
        A: NDArray[Any],
        cosine: bool,
        wide: bool,
        acc: NDArray[Any],
    ) -> None:
        """Add coefficients times features to the partial sums."""
        ...

    def gradient(
        self,
        X: NDArray[Any],
        W: NDArray[Any],
        b: NDArray[Any],
        G: NDArray[Any],
        cosine: bool,
        wide: bool,
        out: NDArray[Any],
    ) -> None:
        """Write the sum of G times features."""
        ...

    def features(
        self,
        X: NDArray[Any],
        W: NDArray[Any],
        b: NDArray[Any],
        cosine: bool,
        wide: bool,
        out: NDArray[Any],
    ) -> None:
        """Write the features."""
        ...


def select(name: str = "auto") -> Backend:
    """Return the backend of that name; ``auto`` is numba where it is installed, else numpy.

    Raises
    ------
    InvalidInput
        If there is no such backend.
    BackendUnavailable
        If its package is not installed.
    """
    if name == "auto":
        name = "numba" if importlib.util.find_spec("numba") else "numpy"
    if name not in BACKENDS:
        raise InvalidInput(f"no backend is called {name!r}; there are auto, {', '.join(BACKENDS)}")
    try:
        module: Any = importlib.import_module(f"streamk.backends.{name}_backend")
    except ImportError as error:
        raise BackendUnavailable(
            f"backend {name!r} needs a package that is missing here ({error}); "
            f"install it with: pip install {name}, or choose backend='numpy'"
        ) from error
    backend: Backend = module
    return backend
