"""The hot loops, for the host and for NVIDIA GPUs, and what both share.

`numba_backend` is for the host, `cupy_backend` for GPUs. What they share is here: sizes, codes of
losses, kernels and laws, bounds, and layouts of arrays. The loops that only the host has are
modules of `loops`. Both backends work on features in chunks of `CHUNK`: feature i of a point x is
the `Curve` of the phase u: ``cos(2 pi u)``, u in turns, say, or u itself. The factor sqrt(2) of the
paper is in `factor` and `weight`. A *basis* holds what gives the phases of consecutive chunks:
`Dense` frequencies, ``u = b + w.x``, or the constants of `Hadamard` transforms. `ZonalDirections`
and tensor `Sketch` have features of their own, whatever the curve.

What is predicted for a row is computed for that row by itself, in a fixed order, so that it is the
same, bit for bit, in whatever batch it comes and however the batch is divided among threads. What
each backend defines is in `protocol.Backend`.
"""

from __future__ import annotations

import importlib
import math
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends.protocol import Array as Array
from streamk.backends.protocol import Backend as Backend
from streamk.backends.protocol import Basis as Basis
from streamk.backends.protocol import Dense as Dense
from streamk.backends.protocol import Hadamard as Hadamard
from streamk.backends.protocol import Single as Single
from streamk.backends.protocol import Sizes as Sizes
from streamk.backends.protocol import Sketch as Sketch
from streamk.backends.protocol import Steps as Steps
from streamk.backends.protocol import ZonalDirections as ZonalDirections
from streamk.errors import InvalidInput

CHUNK = 64
"""Features a chunk."""
LANES = 16
"""Partial sums kept for each output until the last chunk has been added."""
LINE = 64
"""Bytes that memory comes in."""
GROUP = 2 * LANES
"""Points that lie in lanes together where points are many."""
LATE = 8
"""Events learned between the prediction of an event and its learning from which on that is late."""
OF_LAGS = 1 / 32
"""Rate of the running mean of how many events these are."""


class Law(IntEnum):
    """Distribution of one random frequency before it is divided by the bandwidth."""

    NORMAL = 0
    CAUCHY = 1
    LAPLACE = 2
    STUDENT = 3
    """Normal over the root of an independent chi-squared of `dof`, divided by `dof`."""
    RATIONAL = 4
    """Normal times that root."""
    SPHERE = 5
    """Uniform on the unit sphere of the columns, with a degree beside it."""
    BUCKETS = 6
    """None: signs and buckets of columns."""


class Curve(IntEnum):
    """Feature of the phase u, in turns where it is a cosine's."""

    IDENTITY = 0
    COSINE = 1
    """cos(2 pi u)"""
    STEP = 2
    """1 where u > 0, else 0"""
    RAMP = 3
    """max(u, 0)"""
    SQUARED_RAMP = 4


def chunks_of(basis: Basis) -> int:
    """Return how many chunks there are in a basis."""
    return len(basis[-1])


def filled(count: Any) -> Any:
    """Return a count, or an array of counts, rounded up to a multiple of LANES."""
    return -(-count // LANES) * LANES


class LocalKernels(NamedTuple):
    """Trees of hyperplanes with a small kernel model at each leaf, laid out for prediction.

    A raw event x (d,) becomes ``z = (x - shift) * factor``, with `fill` where x is NaN and bounded
    by `FARTHEST_LOCAL`. From the root of each tree it goes to the second child where ``normal . z
    >= offset``, to the first one else; a root or child below 0 is the leaf numbered ``-1 - child``.

    A leaf has m landmarks l, p pairs of them and q outputs. Its basis is ``c_j = exp(-|s z -
    l_j|^2)`` and ``c_a c_b`` of each pair, its scores are ``bias + W' c``. With several outputs in
    all, the greatest of them is subtracted, and outputs that the leaf does not have are `absent`.
    An event's scores are the means over the trees.

    In `numbers` there are, from the leaf's place on and each filled up to LANES numbers or a
    multiple: ``-s^2`` (d,); ``-|l_j|^2``; ``2 s l_j``, as (d, landmarks); bias; and W, as (m + p,
    outputs) with m filled up, or as one row if there is one output, with both filled up. The
    numbers in the places of ``-|l_j|^2`` and of the bias are `NOWHERE` where they fill up.
    """

    shift: Array
    """float64 (d,)"""
    factor: Array
    """float64 (d,)"""
    fill: Array
    """float64 (d,)"""
    normals: Array
    """float32 (nodes, d)"""
    offsets: Array
    """float32 (nodes,)"""
    children: Array
    """int64 (nodes, 2)"""
    roots: Array
    """int64 (trees,)"""
    absent: Array
    """float32 (leaves,)"""
    leaves: Array
    """int64 (leaves, LEAF): landmarks, pairs and outputs; and where the leaf begins in `numbers`,
    in `pairs` and in `outputs`"""
    numbers: Array
    """float32"""
    pairs: Array
    """int64 (all pairs, 2)"""
    outputs: Array
    """int64: numbers of the outputs of each leaf, in ascending order"""

    @property
    def filled_normals(self) -> Array:
        """Return `normals` with columns that fill vectors, of zeros."""
        nodes, d = self.normals.shape
        normals = np.zeros((nodes, filled(d)), np.float32)
        normals[:, :d] = self.normals
        return normals

    @property
    def workspace(self) -> int:
        """Numbers of room for a leaf's kernel values, products and scores, each filled up."""
        return int(filled(self.leaves[:, :3].max(axis=0)).sum())


LEAF = 6
"""Numbers about a leaf of `LocalKernels`."""
FARTHEST_LOCAL = 1e6
"""Scaled value from which on a value counts as this far out in `LocalKernels`: kernels are 0 there,
and single precision holds the squares."""
NOWHERE = -1e30
"""Exponent of a landmark that is none: its kernel is 0. Score of an output that is none."""


class KernelCode(IntEnum):
    """Integer code of a kernel."""

    GAUSSIAN = 0
    LAPLACIAN = 1
    MATERN = 2
    CAUCHY = 3
    RATIONAL_QUADRATIC = 4
    LINEAR = 5
    NTK = 6
    POWER_EXPONENTIAL = 7


DEEPEST = 12
"""Hidden layers of a neural tangent kernel: of more, it is nearly the same for all points but those
that are near each other, and polynomials of its angle take too many terms."""


# Tags of the generator: streams of its random numbers. No two may be the same, since keys and
# numbers of events overlap.
TAG_FREQUENCY = 0
TAG_PHASE = 1
TAG_SIGN = 2
"""Signs of the three rounds: 2, 3 and 4."""
TAG_LENGTH = 5
TAG_SAMPLE = 6
"""Places of events in a sample."""
TAG_EVENT = 7
"""Numbers of each event of a two-sample test."""
TAG_BUCKET = 8
TAG_DIRECTION = 9
"""Normals that are made orthogonal to one another."""
TAG_RADIUS = 16
"""Of a law with degrees of freedom: 16 and as many more as they are."""

FACTORS = 16
"""Factors that one call of the generator has bytes for: the highest degree of a tensor sketch."""

ROUNDS = 3
"""Rounds of sign flips and Walsh-Hadamard transforms of a structured feature."""
WIDEST = 1024
"""Columns that one transform takes at most: its numbers then stay in the first cache."""
WIDEST_ORTHOGONAL = 256
"""Columns, and so features, of one orthogonal matrix at most: making it takes their cube."""

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


# Rows of entities, see `numba_backend.entities`.
KEY, COUNT, TIME, LABEL_TIME = 0, 1, 2, 3
HEAD = 4
"""Numbers of a row before the decayed numbers of events, one for each span."""
USED, OLDEST, NEWEST, EVICTED, LIMIT = 0, 1, 2, 3, 4
"""Rows in use; those seen longest ago and last, -1 for none; entities that made room for others;
and the number of rows that there may be."""
MOMENTS = 6
"""Of all values of a statistic: number, mean, variance; of those whose entity had some before: mean
square apart from it, and number; and the sum of the squares of the entities' numbers."""
LABEL = -1
"""The source of the label's statistic. That of the share of class c is ``LABEL - 1 - c``, and
that of a number its place."""
MOST_EVENTS = 1000.0
"""Events of the population, at most, that weigh as much as those of an entity."""
SPREAD_EVENTS = 2.0
"""The same for its variance within entities."""
MOST_SCORE = 1000.0
"""Spreads from its entity's mean from which on a number counts as this far from it."""


# Columns of events, and functions of many kernels, as the compiled loops take them.


class KernelNumbers(NamedTuple):
    """A kernel as the loops know it; see `streamk.kernels.Kernel`."""

    code: int
    parameter: float
    scale: float


class KernelSum(NamedTuple):
    """The function ``sum of a_j k(x, z_j)`` of centers, see `numba_backend.centers`."""

    code: int
    parameter: float
    factor: Any
    """As of `sum_factor`."""
    laid: Array
    A: Array


class Span(NamedTuple):
    """The landmarks."""

    points: Array
    """(l, d)"""
    laid: Array
    """The same as `streamk.backends.numba_backend.landmarks.laid` returns them."""
    S: Array


class Rule(NamedTuple):
    """The numbers that decide on an event."""

    inverse: Array
    """Diagonal of the inverse of W, (l,)."""
    leaned: Array
    """Number of the last event that leaned on each landmark most, (l,)."""
    floor: float
    """Schur complement that is too little, at least `rounding`."""
    rounding: float
    """Schur complement, given all the others, down to which a landmark is worth its place."""
    noise: float
    """Schur complement that cannot be told from 0."""
    threshold: float
    """Factor by which the determinant of W must grow, claims counted in."""
    rate: float
    """Halvings of an idle landmark's claim in an event; 0 for none."""
    full: bool


class Functions(NamedTuple):
    """Functions of the same centers, learned side by side with a ridge each; all float64."""

    ridges: Array
    """(functions,)"""
    A: Array
    """Coefficients (centers, functions times outputs), those of a function side by side."""
    errors: Array
    """(functions,); the squared errors of events are added."""


class ColumnMap(NamedTuple):
    """A scale of columns: ``(x - means) factors``, x by ranks or as it is, float64 (d,)."""

    medians: Array
    """Stand for NaN."""
    means: Array
    factors: Array
    values: Array
    """Of all columns, one after the other: ascending numbers between which ranks are interpolated,
    float64 (knots,)."""
    ranks: Array
    """Of these, float64 (knots,)."""
    ends: Array
    """The end of each column's knots, int64 (d,). A column without any stays as it is."""


KEEP, ADMIT = -2, -1
"""Verdicts on an event besides the number of the landmark that it should replace."""
FEW = 7
"""Outputs of a sum of kernels of which each is summed up by itself: to have so many in lanes would
take longer."""
PANEL = 256
"""Rows of a panel of a Cholesky factor."""


@cache
def sum_factor(code: int, parameter: float, scale: float, dtype: np.dtype[Any]) -> Any:
    """Return what a pair's sum over columns is multiplied with, of the type of the points.

    It is kept where that type can hold it: 0 times infinity is no kernel.
    """
    factor = {
        KernelCode.GAUSSIAN: 0.5 * scale * scale,
        KernelCode.LAPLACIAN: scale,
        KernelCode.POWER_EXPONENTIAL: math.sqrt(scale),
        KernelCode.MATERN: 2.0 * parameter * scale * scale,
        KernelCode.CAUCHY: scale * scale,
        KernelCode.RATIONAL_QUADRATIC: scale * scale / (2.0 * parameter if parameter else 1.0),
        KernelCode.LINEAR: 1.0,
        KernelCode.NTK: 0.25,
    }[KernelCode(code)]
    limits = np.finfo(dtype)
    return dtype.type(min(max(factor, float(limits.tiny)), float(limits.max)))


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


def numbered_words(first: int, stop: int, tag: int, seed: int) -> NDArray[np.uint64]:
    """Return four 32-bit words (stop - first, 4) of each of some numbers, held in uint64."""
    numbers = np.arange(first, stop, dtype=np.uint64)
    counter = np.zeros((len(numbers), 4), np.uint64)
    counter[:, 0], counter[:, 1], counter[:, 2] = numbers & _LOW, tag, numbers >> _HALF
    return philox(counter, seed)


BACKENDS = ("auto", "cupy")
"""Names of the backends: the host's, and that for GPUs."""


def select(name: str = "auto") -> Backend:
    """Return the backend of that name; ``auto`` is the host's.

    Raises
    ------
    InvalidInput
        If there is no such backend.
    BackendUnavailable
        If there is no CuPy, driver or device.
    """
    if name not in BACKENDS:
        raise InvalidInput(f"no backend is called {name!r}; there are {' and '.join(BACKENDS)}")
    if name == "auto":
        return _host()
    module: Any = importlib.import_module("streamk.backends.cupy_backend")
    connected: Backend = module.connect()
    return connected


@cache
def _host() -> Backend:
    module: Any = importlib.import_module("streamk.backends.numba_backend")
    compiled: Backend = module
    return compiled


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
