"""The ways to draw the frequencies of random features.

A sampler knows its columns. It gives the constants of any chunks of features, a basis of the
backend's, out of the seed alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import (
    CHUNK,
    ROUNDS,
    WIDEST,
    WIDEST_ORTHOGONAL,
    Backend,
    Basis,
    Curve,
    Dense,
    Hadamard,
    Law,
    Sketch,
    ZonalDirections,
    chunks_of,
)
from streamk.backends.threads import divide
from streamk.errors import InvalidInput
from streamk.kernels import Composed, Kernel, Polynomial
from streamk.kernels import Zonal as ZonalKernel

SAMPLERS = ("iid", "hadamard", "orthogonal")
"""Names of the ways to draw frequencies."""

_COSINE_FLOPS = 20
"""Operations of a feature beside its projection."""
_NORMAL_FLOPS = 100
"""Operations of a normal number."""


def check_sampler(sampler: str, kernel: Kernel) -> str:
    """Return the sampler's name, which must be one of `SAMPLERS` and fit the kernel.

    One that rotates asks for a kernel that is the same in all directions, with frequencies.
    """
    if kernel.law is None:
        raise InvalidInput(
            f"kernel {kernel.name!r} has no random features;"
            " choose another kernel, such as 'gaussian', or a learner that takes values of kernels,"
            " such as OnlineNystrom, OnlineKernelRidge or EigenPro"
        )
    if sampler not in SAMPLERS:
        raise InvalidInput(f"no sampler is called {sampler!r}; there are {', '.join(SAMPLERS)}")
    if sampler == "iid":
        return sampler
    if not kernel.isotropic:
        raise InvalidInput(
            f"sampler {sampler!r} rotates, but kernel {kernel.name!r} is not the same in all "
            "directions; choose sampler='iid', or a kernel of the Euclidean distance such as "
            "'gaussian' or 'matern'"
        )
    if kernel.law in (Law.SPHERE, Law.BUCKETS):
        raise InvalidInput(
            f"sampler {sampler!r} draws frequencies, but features of kernel {kernel.name!r} have "
            "none, or their own; choose sampler='iid'"
        )
    return sampler


class Sampler(ABC):
    """The source of the bases of chunks of features, of certain columns."""

    widths: tuple[int, ...] = ()
    """Widths of the groups in which the columns lie, for a sampler whose features depend on it."""
    period = 1
    """Chunks are asked for from a multiple of this to another."""
    chunk_bytes: int
    """Memory of a chunk's basis."""
    chunk_flops: int
    """Multiplications or additions to evaluate a chunk for one event, about."""

    def __init__(
        self,
        kernel: Kernel,
        keys: NDArray[np.uint64],
        *,
        widths: tuple[int, ...],
        seed: int,
        backend: Backend,
        dtype: np.dtype[Any],
        threads: int,
    ) -> None:
        assert kernel.law is not None  # as `check_sampler` tells
        self._given = widths
        self._law = (kernel.law, kernel.degrees_of_freedom, kernel.frequency_scale)
        self._d, self._seed, self._backend = len(keys), seed, backend
        self._dtype, self._threads = dtype, threads

    @abstractmethod
    def allocate(self, chunks: int) -> Basis:
        """Return a basis of so many chunks, not filled."""

    @abstractmethod
    def generate(self, first: int, basis: Any) -> None:
        """Fill a basis with the chunks from `first` on."""

    @abstractmethod
    def extend(self, old: Any, basis: Any, chunks: int) -> tuple[Basis, int]:
        """Make the most of the first `chunks` of a sampler of fewer columns, this one's first.

        Returns a basis, and how many chunks it holds of these columns.
        """


class _Iid(Sampler):
    """Independent frequencies, each a function of the feature's number and the column's key."""

    def __init__(self, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> None:
        super().__init__(kernel, keys, **options)
        self._keys = self._backend.put(keys)
        self.chunk_bytes = CHUNK * (self._d + 1) * self._dtype.itemsize
        self.chunk_flops = CHUNK * (self._d + _COSINE_FLOPS)

    def allocate(self, chunks: int) -> Dense:
        empty = self._backend.xp.empty
        return Dense(
            empty((chunks, self._d, CHUNK), self._dtype), empty((chunks, CHUNK), self._dtype)
        )

    def generate(self, first: int, basis: Dense) -> None:
        self._generate(first, self._keys, *basis)

    def _generate(self, first: int, keys: Any, W: Any, b: Any) -> None:
        def fill(some: slice) -> None:
            self._backend.frequencies(
                self._seed, *self._law, keys, first + some.start, W[some], b[some]
            )

        divide(len(b), _NORMAL_FLOPS * W.size, fill, self._threads)

    def extend(self, old: _Iid, basis: Dense, chunks: int) -> tuple[Dense, int]:
        """Keep the old columns' frequencies and draw the new ones'."""
        new, d = self.allocate(chunks), old._d
        added = self._backend.xp.empty((chunks, self._d - d, CHUNK), self._dtype)
        self._generate(0, self._keys[d:], added, new.b)
        new.W[:, :d], new.W[:, d:] = basis.W[:chunks], added
        return new, chunks


class _Orthogonal(_Iid):
    """Frequencies whose directions are orthogonal, with the lengths of independent ones.

    Columns lie in groups whose widths are powers of two from 64 to 256. In a group of p columns, p
    consecutive features have the directions of a random rotation, and lengths drawn apart (Yu et
    al. 2016, section 4): each frequency has the law of an independent one, and so products of
    features have the kernel as their mean, but vary less. In a group that is not full, the other
    columns count as zeros: directions in all 64 dimensions vary least where columns are few.

    Where features are cosines, the p that follow have the same frequencies with phases a quarter of
    a turn on: the two are the cosine and the sine of Yu et al., and of their products nothing is
    left of the phase.

    A feature depends on the place of a column and not on its name. Columns that come late take the
    places that are left, then new groups, as those of `_Hadamard` do.
    """

    def __init__(self, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> None:
        super().__init__(kernel, keys, **options)
        self.widths = extended(self._given, self._d, WIDEST_ORTHOGONAL)
        self._turns = 2 if kernel.curve == Curve.COSINE else 1
        self._span = max(self.widths) // CHUNK
        self.period = self._turns * self._span

    def generate(self, first: int, basis: Dense) -> None:
        turns, span, xp = self._turns, self._span, self._backend.xp

        def fill(periods: slice) -> None:
            count = periods.stop - periods.start
            some = slice(periods.start * self.period, periods.stop * self.period)
            W = xp.empty((count * span, self._d, CHUNK), self._dtype)
            b = xp.empty((count * span, CHUNK), self._dtype)
            number = (first + some.start) // turns
            self._backend.orthogonal(self._seed, *self._law, self.widths, number, W, b)
            into = basis.W[some].reshape(count, turns, span, self._d, CHUNK)
            into[...] = W.reshape(count, 1, span, self._d, CHUNK)
            phases = basis.b[some].reshape(count, turns, span, CHUNK)
            for turn in range(turns):
                phases[:, turn] = (b + self._dtype.type(0.25 * turn)).reshape(count, span, CHUNK)

        work = len(basis.b) * CHUNK * sum(width * width for width in self.widths)
        divide(len(basis.b) // self.period, work, fill, self._threads)

    def extend(self, old: _Iid, basis: Dense, chunks: int) -> tuple[Dense, int]:
        """Keep nothing: the same numbers come again."""
        return self.allocate(0), 0


class _Hadamard(Sampler):
    """Frequencies that are the rows of random rotations, but for their lengths.

    A rotation is made of three rounds of random signs and Walsh-Hadamard transforms, for a power of
    two of columns: a feature costs additions in the logarithm of that, and memory for a few bits.
    On too few columns three rounds are not random enough, so they are filled up with zeros, to 64
    at least. Columns lie in groups of at most 1,024, each with rotations of its own.

    A feature depends on the place of a column and not on its name. Columns that come late take the
    places that are left, then new groups, whose widths double with what is there: what was zero
    adds nothing, so the features of events without them stay as they were.
    """

    def __init__(self, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> None:
        super().__init__(kernel, keys, **options)
        self.widths = extended(self._given, self._d)
        groups = len(self.widths)
        self.period = max(self.widths) // CHUNK
        self.chunk_bytes = CHUNK * (groups + 1) * self._dtype.itemsize + 8 * ROUNDS * groups
        stages = sum(ROUNDS * (width.bit_length() - 1) + 1 for width in self.widths)
        self.chunk_flops = CHUNK * (stages + _COSINE_FLOPS)

    def allocate(self, chunks: int) -> Hadamard:
        empty, groups = self._backend.xp.empty, len(self.widths)
        return Hadamard(
            self.widths,
            empty((chunks, groups, ROUNDS), np.uint64),
            empty((chunks, groups, CHUNK), self._dtype),
            empty((chunks, CHUNK), self._dtype),
        )

    def generate(self, first: int, basis: Hadamard) -> None:
        widths, signs, radii, b = basis

        def fill(some: slice) -> None:
            self._backend.rotations(
                self._seed,
                *self._law,
                widths,
                first + some.start,
                signs[some],
                radii[some],
                b[some],
            )

        divide(len(b), _NORMAL_FLOPS * radii.size, fill, self._threads)

    def extend(self, old: _Hadamard, basis: Hadamard, chunks: int) -> tuple[Hadamard, int]:
        """Keep all where the new columns found room, else nothing: new groups come seldom."""
        if old.widths == self.widths:
            return basis, chunks
        return self.allocate(0), 0


def extended(widths: tuple[int, ...], columns: int, widest: int = WIDEST) -> tuple[int, ...]:
    """Return the groups, with as many behind them as so many columns need.

    Examples
    --------
    >>> extended((), 54), extended((), 784), extended((), 1500)
    ((64,), (1024,), (1024, 1024))
    >>> extended((64,), 60), extended((64,), 65), extended((64, 64), 129)
    ((64,), (64, 64), (64, 64, 128))
    """
    for width in widths:
        if not (CHUNK <= width <= widest and width.bit_count() == 1):
            raise InvalidInput(
                f"a group of {width} columns must be a power of two from {CHUNK} to {widest} wide"
            )
    room = sum(widths)
    while room < columns or not widths:
        least = max(columns - room, room, CHUNK)
        widths += (min(1 << (least - 1).bit_length(), widest),)
        room += widths[-1]
    return widths


_SAMPLERS: dict[str, type[_Iid | _Hadamard]] = {
    "iid": _Iid,
    "hadamard": _Hadamard,
    "orthogonal": _Orthogonal,
}


def make_sampler(sampler: str, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> Sampler:
    """Return the sampler of a kernel's features, whose names `check_sampler` has checked."""
    plain = kernel.kernel if isinstance(kernel, Composed) else kernel
    if plain.law == Law.SPHERE:
        return _Zonal(plain, keys, **options)
    if plain.law == Law.BUCKETS:
        return _Sketch(plain, keys, **options)
    made: Sampler = _SAMPLERS[sampler](kernel, keys, **options)
    return made


class _Zonal(Sampler):
    """Directions uniform on the sphere of all columns, each with a degree of its own.

    Directions are those of independent normal frequencies, and degrees follow from their phases, so
    both are functions of the feature's number and the columns' keys. A further column turns all
    directions: nothing is kept then.
    """

    def __init__(self, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> None:
        super().__init__(kernel, keys, **options)
        assert isinstance(kernel, ZonalKernel)
        self._keys, xp = self._backend.put(keys), self._backend.xp
        probabilities = np.cumsum(kernel.weights) / sum(kernel.weights)
        self._highest = int(np.flatnonzero(kernel.weights)[-1])
        self._steps = xp.asarray(probabilities)
        self._polynomials = xp.asarray(kernel.polynomials(self._d).astype(self._dtype))
        terms = len(kernel.weights)
        self.chunk_bytes = CHUNK * (self._d + terms) * self._dtype.itemsize
        self.chunk_flops = CHUNK * (self._d + 2 * terms)

    def allocate(self, chunks: int) -> ZonalDirections:
        empty, terms = self._backend.xp.empty, len(self._steps)
        return ZonalDirections(
            empty((chunks, self._d, CHUNK), self._dtype),
            empty((chunks, terms, CHUNK), self._dtype),
        )

    def generate(self, first: int, basis: ZonalDirections) -> None:
        xp = self._backend.xp

        def fill(some: slice) -> None:
            W = basis.W[some]
            u = xp.empty((len(W), CHUNK), self._dtype)
            normal, turn = (Law.NORMAL, 0), 2.0 * math.pi  # frequencies come in turns
            self._backend.frequencies(
                self._seed, *normal, turn, self._keys, first + some.start, W, u
            )
            lengths = xp.sqrt((W.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
            W /= lengths.astype(self._dtype)
            degrees = xp.searchsorted(self._steps, u.astype(np.float64).ravel(), side="right")
            degrees = xp.minimum(degrees, self._highest).reshape(u.shape)
            basis.C[some] = self._polynomials[degrees].transpose(0, 2, 1)

        divide(len(basis.W), 200 * basis.W.size, fill, self._threads)

    def extend(self, old: _Zonal, basis: ZonalDirections, chunks: int) -> tuple[Basis, int]:
        """Keep nothing: further columns turn all directions."""
        return self.allocate(0), 0


class _Sketch(Sampler):
    """Signs and buckets of tensor sketches, functions of the chunk and the columns' keys."""

    def __init__(self, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> None:
        super().__init__(kernel, keys, **options)
        assert isinstance(kernel, Polynomial)
        self._keys, self._factors = self._backend.put(keys), kernel.degree
        self.chunk_bytes = self._factors * max(self._d, 1)
        self.chunk_flops = self._factors * (2 * self._d + 7 * CHUNK)

    def allocate(self, chunks: int) -> Sketch:
        return Sketch(self._backend.xp.empty((chunks, self._factors, self._d), np.uint8))

    def generate(self, first: int, basis: Sketch) -> None:
        self._generate(first, self._keys, basis.buckets)

    def _generate(self, first: int, keys: Any, buckets: Any) -> None:
        def fill(some: slice) -> None:
            self._backend.sketches(self._seed, keys, first + some.start, buckets[some])

        divide(len(buckets), 40 * buckets.size, fill, self._threads)

    def extend(self, old: _Sketch, basis: Sketch, chunks: int) -> tuple[Basis, int]:
        """Keep the old columns' buckets and draw the new ones'."""
        new, d = self.allocate(chunks), old._d
        added = self._backend.xp.empty((chunks, self._factors, self._d - d), np.uint8)
        self._generate(0, self._keys[d:], added)
        new.buckets[..., :d], new.buckets[..., d:] = basis.buckets[:chunks], added
        assert chunks_of(new) == chunks
        return new, chunks
