"""The hot loops, in twin modules with the same function names.

`numpy_backend` is the readable reference, `numba_backend` the compiled twin. Both work on features
in chunks of `CHUNK`: a chunk's frequencies are one contiguous (d, CHUNK) tile in turns
(w / 2 pi), so that a loop over a chunk is one pass over consecutive memory.

What is predicted for a row is computed for that row by itself, in a fixed order, so that it is the
same, bit for bit, in whatever batch it comes and however the batch is divided among threads. Each
twin defines::

    frequencies(seed, law, dof, scale, keys, first_chunk, W, b)   fill chunks of frequencies, phases
    features(X, W, b, cosine, wide, out)                          out = features(X)
    accumulate(X, W, b, A, cosine, wide, acc)                     acc += A . features(X)
    finish(acc, factor, F)                                        F = factor * sum of the lanes
    loss_gradient(code, parameter, classes, F, y, weight, G)      G = weight * l'(F, y)
    gradient(X, W, b, G, cosine, wide, out)                       out = features(X)^T G
    descend(A, squares, g, rate, start, stop)                     A -= rate * g, or AdaGrad's
    step(...)                                                     all of these for a mini-batch
    measure(X, count, mean, squares, numeric)                     take rows into columns' statistics
    spread(count, mean, squares, numeric, factor)                 factor = 1 / spread of the columns
    rescale(X, mean, factor, out)                                 out = (X - mean) * factor, bounded

with X (n, d), W (chunks, d, CHUNK), b (chunks, CHUNK), A, squares, g and the gradient's out
(chunks, outputs, CHUNK), acc (n, outputs, LANES), F float64 and G (n, outputs), y float64 (n,),
features' out (n, chunks * CHUNK), keys uint64 (d,). A feature here is cos(2 pi (w.x + b)), or w.x
where `cosine` is false; the factor sqrt(2) of the paper is in `factor` and `weight`. `wide` asks
for phases summed in float64. `squares` has no chunks where the step is not AdaGrad's.
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


class LossCode(IntEnum):
    """Integer code of a loss."""

    SQUARED = 0
    HINGE = 1
    SQUARED_HINGE = 2
    LOGISTIC = 3
    SOFTMAX = 4
    HUBER = 5
    EPSILON_INSENSITIVE = 6
    QUANTILE = 7


TAG_FREQUENCY = 0
TAG_PHASE = 1
TAG_RADIUS = 16

FAIR_COIN = 0.5
"""Deviation that a column of zeros and ones is given, however rare its ones are: divided by its
own, a rare one would outweigh all other columns."""
FARTHEST = 1e18
"""Scaled value from which on a value counts as this far out, so that single precision can hold
what a learner makes of it. The scaled values of events that the scale has taken in stay below the
root of their number, so this is for predicting an event that is unlike all before it."""
ROUNDING = 1e-12
"""Deviation, relative to the mean, up to which a column is constant but for rounding."""

BACKENDS = ("numpy", "numba")
"""Names of the backends, besides ``auto``."""


Array = NDArray[Any]


class Backend(Protocol):
    """What a backend module defines; see the package's docstring."""

    def frequencies(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        keys: Array,
        first_chunk: int,
        W: Array,
        b: Array,
    ) -> None:
        """Fill chunks of frequencies and phases."""
        ...

    def features(self, X: Array, W: Array, b: Array, cosine: bool, wide: bool, out: Array) -> None:
        """Write the features."""
        ...

    def accumulate(
        self, X: Array, W: Array, b: Array, A: Array, cosine: bool, wide: bool, acc: Array
    ) -> None:
        """Add coefficients times features to the partial sums."""
        ...

    def finish(self, acc: Array, factor: float, F: Array) -> None:
        """Write the sums of the partial sums."""
        ...

    def loss_gradient(
        self,
        code: int,
        parameter: float,
        classes: bool,
        F: Array,
        y: Array,
        weight: float,
        G: Array,
    ) -> None:
        """Write the weighted gradients of the losses."""
        ...

    def gradient(
        self, X: Array, W: Array, b: Array, G: Array, cosine: bool, wide: bool, out: Array
    ) -> None:
        """Write the sum of G times features."""
        ...

    def descend(
        self, A: Array, squares: Array, g: Array, rate: float, start: int, stop: int
    ) -> None:
        """Subtract the gradient from the features start...stop of these chunks."""
        ...

    def step(
        self,
        X: Array,
        y: Array,
        W: Array,
        b: Array,
        A: Array,
        squares: Array,
        block: tuple[int, int, int],
        cosine: bool,
        wide: bool,
        loss: tuple[int, float, bool],
        factor: float,
        weight: float,
        rate: float,
    ) -> bool:
        """Predict, and descend on the block; False and no change if a prediction overflowed."""
        ...

    def measure(self, X: Array, count: Array, mean: Array, squares: Array, numeric: Array) -> None:
        """Take rows into the statistics of their columns."""
        ...

    def spread(
        self, count: Array, mean: Array, squares: Array, numeric: Array, factor: Array
    ) -> None:
        """Write the factors that scale the columns."""
        ...

    def rescale(self, X: Array, mean: Array, factor: Array, out: Array) -> None:
        """Write the scaled rows, a NaN as 0, all between -`FARTHEST` and `FARTHEST`."""
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
