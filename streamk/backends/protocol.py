"""The functions that a backend defines, with their arguments.

X is (n, d), A, squares, g and the gradient's out (chunks, outputs, CHUNK), acc (n, outputs, LANES),
F float64 and G (n, outputs), y float64 (n,), features' out (n, chunks * CHUNK), keys uint64 (d,).
Where A or out has fewer chunks than the basis, the others are left out. `wide` asks for phases in
float64. `squares` has no chunks where the step is not AdaGrad's. F of `score` is (n, functions,
outputs), losses (functions,).

All arrays are on the backend's device, made by its `xp` (NumPy's or CuPy's functions) or brought
there by `put`, and come back by `get` or `fetch`; those of score, measure, spread, rescale,
rescale_each, extend and choose are NumPy's with every backend. They are C-contiguous, or slices of
the first axis of such.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

__all__ = [
    "Array",
    "Backend",
    "Basis",
    "Dense",
    "Hadamard",
    "Single",
    "Sizes",
    "Sketch",
    "Steps",
    "ZonalDirections",
]

Array = NDArray[Any]


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


class ZonalDirections(NamedTuple):
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


Basis = Dense | Hadamard | ZonalDirections | Sketch


class Steps(NamedTuple):
    """The features that some consecutive steps move, and how far."""

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


class Sizes(NamedTuple):
    """Steps of several functions that differ in size."""

    first: int
    """Steps taken before."""
    block_size: int
    """Features a step; the blocks are visited in turn."""
    features: int
    """Of all blocks; the last one may be smaller."""
    kept: float
    """The factor of a loss with each event after it."""
    most: float
    """The largest loss."""
    sizes: Array
    """Of each function, float64: the factor of the gradient, before it is divided by the features.
    """
    decays: Array
    """Of each function, of the type of the coefficients: their factor in each step."""
    losses: Array
    """Of each function, float64: sums over recent events, which are updated."""


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

    def follow_several(
        self, P: Array | None, X: Array, y: Array, amplitude: float, steps: Sizes, F: Array | None
    ) -> int:
        """Do `follow` with several functions, whose outputs stand one after those of the other.

        F (n, outputs) is predicted by the function of least loss. Coefficients have no scale, and X
        may have values that are not finite: such a row is not taken, nor is one where the output of
        a function overflowed. One thread learns at once.

        Returns
        -------
        int
            How many rows were taken, 0 where there is no short way.
        """


class Backend(Protocol):
    """The functions of a backend.

    A step predicts ``F = factor A phi``, with the features phi of n rows, takes slopes ``G = weight
    l'(F, y)``, and descends on the m features of its block, ``A -= rate G' phi``. Where the
    coefficients are s A, and the amplitude of features is a, factor is s a, weight is a / n, and
    rate the step size over m s.
    """

    xp: Any
    """The module whose functions make arrays on the device: `numpy` or `cupy`."""

    def put(self, array: Any) -> Any:
        """Return a host array on the device."""

    def get(self, array: Any) -> Any:
        """Return an array of the device on the host."""

    def fetch(self, array: Any) -> Callable[[], Any]:
        """Return a function that waits for an array of the device and gives it on the host."""

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which `xp` makes arrays on this device, where there are several."""

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
        """Fill chunks of a Dense basis."""

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
        """Fill chunks of a Hadamard basis."""

    def orthogonal(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        widths: tuple[int, ...],
        first_chunk: int,
        W: Array,
        b: Array,
    ) -> None:
        """Fill chunks of a Dense basis of rotations, whose directions are orthogonal."""

    def sketches(self, seed: int, keys: Array, first_chunk: int, buckets: Array) -> None:
        """Fill chunks of a Sketch."""

    def features(self, X: Array, basis: Basis, curve: int, wide: bool, out: Array) -> None:
        """Write ``out = features(X)``."""

    def accumulate(
        self, X: Array, basis: Basis, A: Array, curve: int, wide: bool, acc: Array
    ) -> None:
        """Add ``A . features(X)`` to the partial sums."""

    def predict(
        self, X: Array, basis: Basis, A: Array, curve: int, wide: bool, factor: float, F: Array
    ) -> None:
        """Do `accumulate` and `finish` in one call."""

    def finish(self, acc: Array, factor: float, F: Array) -> None:
        """Write ``F = factor * sum of the lanes``."""

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
        """Write ``G = weight * l'(F, y)``."""

    def score(
        self,
        code: int,
        parameter: float,
        classes: bool,
        F: Array,
        y: Array,
        kept: float,
        most: float,
        losses: Array,
    ) -> None:
        """Shrink the losses of functions by a factor and add theirs on rows, up to the most."""

    def gradient(
        self, X: Array, basis: Basis, G: Array, curve: int, wide: bool, out: Array
    ) -> None:
        """Write ``out = features(X)^T G``."""

    def descend(
        self, A: Array, squares: Array, g: Array, rate: float, start: int, stop: int
    ) -> None:
        """Subtract ``rate * g``, or AdaGrad's step, from the features start...stop of A."""

    def step(
        self,
        X: Array,
        y: Array,
        basis: Basis,
        A: Array,
        squares: Array,
        block: tuple[int, int, int],
        curve: int,
        wide: bool,
        loss: tuple[int, float, bool],
        factor: float,
        weight: float,
        rate: float,
        F: Array,
        threads: int = 1,
    ) -> bool:
        """Predict into F and descend on the block; False and no descent if one overflowed.

        The block is its first chunk, and start and stop of its features, counted from there.
        """

    def single(
        self,
        basis: Basis,
        A: Array,
        squares: Array,
        curve: int,
        wide: bool,
        loss: tuple[int, float, bool],
    ) -> Single:
        """Prepare for single events; A has whole transforms, the arrays must stay where they are.

        Their numbers may change, but not those of the basis.
        """

    def decay(self, A: Array, factor: float) -> None:
        """Multiply all coefficients."""

    def measure(self, X: Array, count: Array, mean: Array, squares: Array, numeric: Array) -> None:
        """Take rows into the statistics of their columns."""

    def spread(
        self, count: Array, mean: Array, squares: Array, numeric: Array, factor: Array
    ) -> None:
        """Write ``factor = 1 / spread`` of the columns."""

    def rescale(self, X: Array, mean: Array, factor: Array, out: Array) -> bool:
        """Write the scaled rows, a NaN as 0, all between -`FARTHEST` and `FARTHEST`.

        Returns
        -------
        bool
            Whether no value of X is beyond `LARGEST`.
        """

    def rescale_each(
        self,
        X: Array,
        known: Array,
        statistics: tuple[Array, Array, Array, Array],
        factor: Array,
        after: Array,
        units: Array,
    ) -> None:
        """Rescale row by row, those that are `known` being measured, and spread, before.

        Parameters
        ----------
        X : float64 array of shape (n, d)
        known : bool array of shape (n,)
        statistics : count, mean, squares and numeric
        factor : float64 array of shape (d,)
            What `spread` wrote last.
        after : array of shape (n, d)
            The rows as `rescale` writes them.
        units : float64 array of shape (n, 2, d)
            Mean and factor before each row.
        """

    def pairwise(
        self, code: int, parameter: float, scale: float, X: Array, Y: Array, out: Array
    ) -> None:
        """Write ``out = K(X, Y)``.

        X (n, d), Y (m, d) and V (m, outputs) of the product are contiguous and of one type, float32
        or float64; the kernels are evaluated in it, and the product's out is float64. `parameter`
        is Matern's nu, the rational quadratic's alpha or the depth of a neural tangent kernel,
        `scale` 1 / bandwidth. The points of the latter are unit vectors, which the host's module
        `tangent` makes of others (`to_sphere`), and its `scale` is not used.
        """

    def pairwise_product(
        self, code: int, parameter: float, scale: float, X: Array, Y: Array, V: Array, out: Array
    ) -> None:
        """Write ``out = K(X, Y) V`` in the memory of a tile, without storing K."""

    def extend(self, K: Array, L: Array, F: Array, start: int, delta: Array) -> None:
        """Append columns ``F^T = L^-1 K`` to the factor, and take their squares off delta.

        K is (landmarks, n), F (n, capacity), whose columns begin at `start`, L (landmarks, start +
        landmarks or more) the landmarks' own rows of it, delta float64 (n,). A row has the same
        bits in however many calls the columns are appended.
        """

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

        K is (n, n), places int64 and schur float64 (most,). Which rows they were goes into
        `places`, as many at most as that is long, and their deltas into `schur`; theirs in delta
        become -inf.

        Returns
        -------
        int
            How many there were, at least one.
        """
