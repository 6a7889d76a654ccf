"""Sizes, codes and bounds that the twins share: losses, kernels, laws, and the forms of a basis."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Zonal(NamedTuple):
    """Directions and polynomials of chunks: a feature is ``sum_k C_k (w.x)^k``."""

    W: Array
    """(chunks, d, CHUNK), of length 1"""
    C: Array
    """(chunks, terms, CHUNK)"""


class Sketch(NamedTuple):
    """Signs and buckets of tensor sketches, one sketch a chunk.

    A feature is a product over the factors: of the Walsh-Hadamard transform of CHUNK buckets, to
    which each column is added with its sign.
    """

    buckets: Array
    """uint8 (chunks, factors, d): the bucket, and CHUNK more where the sign is minus"""


Basis = Dense | Hadamard | Zonal | Sketch


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

BACKENDS = ("numpy", "numba", "cupy")
"""Names of the backends, besides ``auto``."""
