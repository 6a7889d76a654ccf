"""The hot loops, in twin packages with the same function names.

`numpy_backend` is the readable reference, `numba_backend` the compiled twin, `cupy_backend` the one
for NVIDIA GPUs. They work on features in chunks of `CHUNK`: feature i of a point x is
``cos(2 pi u)`` of the phase u in turns, or u itself where `cosine` is false. The factor sqrt(2) of
the paper is in `factor` and `weight`. A *basis* holds what gives the phases of consecutive chunks:
`Dense` frequencies, ``u = b + w.x``, or the constants of `Hadamard` transforms.

What is predicted for a row is computed for that row by itself, in a fixed order, so that it is the
same, bit for bit, in whatever batch it comes and however the batch is divided among threads. Each
twin defines::

    frequencies(seed, law, dof, scale, keys, first_chunk, W, b)      fill a Dense basis
    rotations(seed, law, dof, scale, widths, first_chunk, signs, radii, b)   fill a Hadamard basis
    features(X, basis, cosine, wide, out)                            out = features(X)
    accumulate(X, basis, A, cosine, wide, acc)                       acc += A . features(X)
    finish(acc, factor, F)                                           F = factor * sum of the lanes
    predict(X, basis, A, cosine, wide, factor, F)                    these two in one call
    loss_gradient(code, parameter, classes, F, y, weight, G)         G = weight * l'(F, y)
    gradient(X, basis, G, cosine, wide, out)                         out = features(X)^T G
    descend(A, squares, g, rate, start, stop)                        A -= rate * g, or AdaGrad's
    step(X, y, basis, A, squares, block, ..., F)                     predict and learn a mini-batch
    single(basis, A, squares, cosine, wide, loss)                    the same for single events
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
phases in float64. `squares` has no chunks where the step is not AdaGrad's.

Of `pairwise` and its product, X (n, d), Y (m, d) and V (m, outputs) are contiguous and of one type,
float32 or float64; the kernels are evaluated in it. `parameter` is Matern's nu or the rational
quadratic's alpha, `scale` 1 / bandwidth. The product never stores K: beside out it takes the memory
of a tile.

The last ones let the factor of a kernel matrix grow by landmarks: K (landmarks, n), F (n,
capacity), L (landmarks, start + landmarks or more) their own rows of it, delta float64 (n,); to
choose, K (n, n), places int64 and schur float64 (most,).

All arrays are on the backend's device, made by its `xp` (NumPy's or CuPy's functions) or brought
there by `put`, and come back by `get`; those of measure, spread, rescale, rescale_each, extend and
choose are NumPy's with every backend. They are C-contiguous, or slices of the first axis of such.
"""

from __future__ import annotations

import importlib
import importlib.util
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from streamk.errors import BackendUnavailable, InvalidInput

Array = NDArray[Any]

CHUNK = 64
"""Features a chunk."""
LANES = 16
"""Partial sums kept for each output until the last chunk has been added."""
LINE = 64
"""Bytes that memory comes in."""
GROUP = 2 * LANES
"""Points that lie in lanes together where points are many."""


class Law(IntEnum):
    """Distribution of one random frequency before it is divided by the bandwidth."""

    NORMAL = 0
    CAUCHY = 1
    LAPLACE = 2
    STUDENT = 3
    """Normal over the root of an independent chi-squared of `dof`, divided by `dof`."""
    RATIONAL = 4
    """Normal times that root."""


class Dense(NamedTuple):
    """Frequencies in turns (w / 2 pi) and phases of chunks: ``u = b + w.x``.

    A chunk's frequencies are one contiguous tile, so that a loop over a chunk is one pass over
    consecutive memory.
    """

    W: Array
    """(chunks, d, CHUNK)"""
    b: Array
    """(chunks, CHUNK)"""


class Hadamard(NamedTuple):
    """Signs, lengths and phases of structured features: ``u = b + sum_g radii_g * T_g(x_g)``.

    The columns lie in groups of the given `widths`, powers of two from CHUNK to WIDEST, the last
    one filled up with zeros. T is three rounds of sign flips and unnormalised Walsh-Hadamard
    transforms of a group's width p, ``H D3 H D2 H D1``, whose p outputs are consecutive features.
    Chunks begin and end at a multiple of all widths.
    """

    widths: tuple[int, ...]
    signs: Array
    """uint64 (chunks, groups, ROUNDS): bit i is set where the sign of feature i of the chunk is
    minus. For the first round, feature i stands for column i of the transform's input."""
    radii: Array
    """(chunks, groups, CHUNK), in turns, with all factors that are left out of T"""
    b: Array
    """(chunks, CHUNK)"""


Basis = Dense | Hadamard


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


class KernelCode(IntEnum):
    """Integer code of a kernel."""

    GAUSSIAN = 0
    LAPLACIAN = 1
    MATERN = 2
    CAUCHY = 3
    RATIONAL_QUADRATIC = 4
    LINEAR = 5


TAG_FREQUENCY = 0
TAG_PHASE = 1
TAG_SIGN = 2
"""Signs of the three rounds: 2, 3 and 4."""
TAG_LENGTH = 5
TAG_RADIUS = 16

ROUNDS = 3
"""Rounds of sign flips and Walsh-Hadamard transforms of a structured feature."""
WIDEST = 1024
"""Columns that one transform takes at most: its numbers then stay in the first cache."""

FAIR_COIN = 0.5
"""Deviation that a column of zeros and ones is given, however rare its ones are: divided by its
own, a rare one would outweigh all other columns."""
FARTHEST = 1e18
"""Scaled value from which on a value counts as this far out, so that single precision can hold
what a learner makes of it. The scaled values of events that the scale has taken in stay below the
root of their number, so this is for predicting an event that is unlike all before it."""
LARGEST = 1e150
"""Larger values would overflow the variance of their column, and so end the model."""
ROUNDING = 1e-14
"""Deviation, relative to the mean, up to which a column is constant but for rounding: some 50 of
its last binary places."""

BINARY, CLASSES, NUMBERS = 0, 1, 2
"""Tasks of a pool of experts; the first two are classification, which turns from one into the
other. A binary score is one logit; of several classes, their log-probabilities."""
OUTERMOST = 8.0
"""Value in a robust scale from which on a value counts as this far out."""
HIGHEST_RANK = 0.999
"""Ranks are less than 1."""
SAMPLED = 1e30
"""Larger values are sampled, and ranked, as this: products of differences of such are finite."""

BACKENDS = ("numpy", "numba", "cupy")
"""Names of the backends, besides ``auto``."""


class Steps(NamedTuple):
    """Which features some consecutive steps move, and how far."""

    first: int
    """Steps taken before."""
    block_size: int
    """Features a step; the blocks are visited in turn."""
    features: int
    """Of all blocks; the last one may be smaller."""
    decays: Array
    """Of each step, float64: the factor of all earlier coefficients."""
    rates: Array
    """Of each step, float64: the factor of the gradient, before its division by the features."""
    bounds: tuple[float, float]
    """Between which the scale of the coefficients is to stay."""


class Single(Protocol):
    """Predicts and learns single events by the same arrays, bit for bit as batches are.

    What can be prepared, is. Several threads may predict by it at once.
    """

    def predict(self, x: Array, factor: float, F: Array) -> bool:
        """Write factor times coefficients times features of x (d,) into F (outputs,).

        Returns
        -------
        bool
            Whether x is finite; F is of no use if not.
        """
        ...

    def step(
        self,
        x: Array,
        y: float,
        block: tuple[int, int],
        factor: float,
        weight: float,
        rate: float,
        F: Array,
    ) -> bool:
        """Predict into F and descend on the features of the block, its start and stop.

        Returns
        -------
        bool
            False, and no descent, if x is not finite or a prediction overflowed.
        """
        ...

    def follow(
        self,
        P: Array | None,
        X: Array,
        y: Array,
        scale: float,
        amplitude: float,
        steps: Steps,
        F: Array | None,
    ) -> tuple[int, float]:
        """Row by row, predict P (n, d) into F (n, outputs) and step on X (n, d) with label y.

        Coefficients are `scale` times A, and a step's decay is one of the scale. Where y is NaN
        there is no step. P may be X, and both P and F None where nothing is to be predicted. Rows
        are finite, as are the labels that are there. It holds no lock: other threads may predict
        meanwhile.

        Returns
        -------
        int, float
            How many rows were taken, fewer than there are where a prediction overflowed or the
            scale would leave its bounds; and the scale after them.
        """
        ...


class Backend(Protocol):
    """What a backend module defines; see the package's docstring."""

    xp: Any
    """The module whose functions make arrays on the device: `numpy` or `cupy`."""

    def put(self, array: Any) -> Any:
        """Return a host array on the device."""
        ...

    def get(self, array: Any) -> Any:
        """Return an array of the device on the host."""
        ...

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

    def rotations(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        widths: tuple[int, ...],
        first_chunk: int,
        signs: Array,
        radii: Array,
        b: Array,
    ) -> None:
        """Fill chunks of signs, lengths and phases."""
        ...

    def features(self, X: Array, basis: Basis, cosine: bool, wide: bool, out: Array) -> None:
        """Write the features."""
        ...

    def accumulate(
        self, X: Array, basis: Basis, A: Array, cosine: bool, wide: bool, acc: Array
    ) -> None:
        """Add coefficients times features to the partial sums."""
        ...

    def predict(
        self, X: Array, basis: Basis, A: Array, cosine: bool, wide: bool, factor: float, F: Array
    ) -> None:
        """Write factor times coefficients times features."""
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
        self, X: Array, basis: Basis, G: Array, cosine: bool, wide: bool, out: Array
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
        basis: Basis,
        A: Array,
        squares: Array,
        block: tuple[int, int, int],
        cosine: bool,
        wide: bool,
        loss: tuple[int, float, bool],
        factor: float,
        weight: float,
        rate: float,
        F: Array,
        threads: int = 1,
    ) -> bool:
        """Predict into F and descend on the block; False and no descent if one overflowed."""
        ...

    def single(
        self,
        basis: Basis,
        A: Array,
        squares: Array,
        cosine: bool,
        wide: bool,
        loss: tuple[int, float, bool],
    ) -> Single:
        """Prepare for single events; A has whole transforms, the arrays must stay where they are.

        Their numbers may change, but not those of the basis.
        """
        ...

    def decay(self, A: Array, factor: float) -> None:
        """Multiply all coefficients."""
        ...

    def measure(self, X: Array, count: Array, mean: Array, squares: Array, numeric: Array) -> None:
        """Take rows into the statistics of their columns."""
        ...

    def spread(
        self, count: Array, mean: Array, squares: Array, numeric: Array, factor: Array
    ) -> None:
        """Write the factors that scale the columns."""
        ...

    def rescale(self, X: Array, mean: Array, factor: Array, out: Array) -> bool:
        """Write the scaled rows, a NaN as 0, all between -`FARTHEST` and `FARTHEST`.

        Returns
        -------
        bool
            Whether no value of X is beyond `LARGEST`.
        """
        ...

    def rescale_each(
        self,
        X: Array,
        known: Array,
        statistics: tuple[Array, Array, Array, Array],
        factor: Array,
        before: Array | None,
        after: Array,
        units: Array | None,
    ) -> None:
        """Rescale row by row, those that are `known` being measured, and spread, in between.

        Parameters
        ----------
        X : float64 array of shape (n, d)
        known : bool array of shape (n,)
        statistics : count, mean, squares and numeric
        factor : float64 array of shape (d,)
            What `spread` wrote last.
        before, after : array of shape (n, d)
            The rows as `rescale` writes them, before each is measured and after; the first may be
            left out.
        units : float64 array of shape (n, 2, d), optional
            Mean and factor before each row.
        """
        ...

    def pairwise(
        self, code: int, parameter: float, scale: float, X: Array, Y: Array, out: Array
    ) -> None:
        """Write the kernel matrix."""
        ...

    def pairwise_product(
        self, code: int, parameter: float, scale: float, X: Array, Y: Array, V: Array, out: Array
    ) -> None:
        """Write the kernel matrix times V."""
        ...

    def extend(self, K: Array, L: Array, F: Array, start: int, delta: Array) -> None:
        """Append columns to the factor, from column start on, and take their squares off delta.

        A row has the same bits in however many calls the columns are appended.
        """
        ...

    def choose(
        self,
        K: Array,
        F: Array,
        start: int,
        delta: Array,
        least: float,
        places: Array,
        schur: Array,
    ) -> int:
        """Append a column for the row of the largest delta, and go on while that exceeds `least`.

        Which rows they were goes into `places`, as many at most as that is long, and their deltas
        into `schur`; theirs in delta become -inf.

        Returns
        -------
        int
            How many there were, at least one.
        """
        ...


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


@cache
def twin(name: str) -> Any:
    """Return the module of that name of the backend that ``auto`` stands for."""
    host: Any = _host()
    return importlib.import_module(f"{host.__name__}.{name}")


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
