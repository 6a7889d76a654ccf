"""Random features of a kernel, an unbounded seeded sequence (Dai et al. 2014, §2)."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import backends
from streamk.backends import CHUNK, LANES, LARGEST, Backend, Basis, Hadamard, chunks_of
from streamk.backends.threads import cores, divide, sum_of_squares, worth
from streamk.errors import InvalidInput, shown
from streamk.features.columns import Column, column_keys
from streamk.features.samplers import check_sampler, make_sampler
from streamk.kernels import Kernel
from streamk.kernels.base import check_dtype

_REGENERATED_BYTES = 1 << 21
"""Size of the buffer through which constants that are not kept pass."""


class FeatureBlocks:
    """Random features of given columns, evaluated chunk by chunk.

    Arrays that come in and go out are the backend's. Points are mapped, see
    `streamk.kernels.Kernel.mapped`; keys (d,) are of the columns before that, uint64, see
    `streamk.features.columns.column_keys`. Frequencies and features are float32 or float64;
    constants of so many bytes are kept, 0 keeps none. Widths are groups of columns so far, see
    `streamk.features.samplers.extended`.
    """

    def __init__(
        self,
        kernel: Kernel,
        keys: NDArray[np.uint64],
        *,
        seed: int,
        backend: Backend,
        dtype: np.dtype[Any],
        cache_bytes: int,
        sampler: str = "iid",
        widths: tuple[int, ...] = (),
        threads: int | None = None,
    ) -> None:
        self._backend, self._xp, self._dtype = backend, backend.xp, dtype
        keys = kernel.mapped_keys(keys)
        self.d = len(keys)
        """Columns of mapped points."""
        # A device other than the host divides work by itself.
        self._threads = (threads or cores()) if backend.xp is np else 1
        self._sampler = make_sampler(
            sampler,
            kernel,
            keys,
            widths=widths,
            seed=seed,
            backend=backend,
            dtype=dtype,
            threads=self._threads,
        )
        self._period = self._sampler.period
        period_bytes = self._sampler.chunk_bytes * self._period
        self._budget = cache_bytes // period_bytes * self._period
        self._burst = max(1, _REGENERATED_BYTES // period_bytes) * self._period
        self._curve, self._wide = kernel.curve, kernel.heavy_tailed
        self.amplitude = kernel.amplitude
        self.basis = self._sampler.allocate(0)
        """The features kept, and room for more; another object where its arrays are others."""
        self._kept = 0
        self._growing = threading.Lock()

    @property
    def widths(self) -> tuple[int, ...]:
        """Groups of columns on which the features depend, () if on none."""
        return self._sampler.widths

    @property
    def nbytes(self) -> int:
        """Memory of the kept constants, in bytes."""
        return sum(array.nbytes for array in _arrays(self.basis))

    def whole(self, chunks: int) -> int:
        """Return the next number of chunks whose features are evaluated without a rest."""
        return chunks + -chunks % self._period

    def decide(self, X: Any, A: Any, scale: float) -> Any:
        """Return ``scale * A . features`` of each row of X (n, d), float64 (n, outputs).

        A (chunks, outputs, CHUNK) are coefficients of the features from 0 on; it is fastest where
        `whole` gives the chunks.
        """
        n, chunks, factor = len(X), len(A), scale * self.amplitude
        F = self._xp.empty((n, A.shape[1]))
        curve, wide = self._curve, self._wide
        if self._keep(chunks):
            basis = self.basis
            if self.threads_for(n, chunks) == 1:  # for one event slices and closures would cost
                self._backend.predict(X, basis, A, curve, wide, factor, F)
                return F

            def predict(rows: slice) -> None:
                self._backend.predict(X[rows], basis, A, curve, wide, factor, F[rows])

            divide(n, self._flops(n, chunks), predict, self._threads)
            return F
        acc = self._xp.zeros((n, A.shape[1], LANES), self._dtype)
        for first, piece in self._pieces(0, chunks):
            a = A[first : first + chunks_of(piece)]

            def add(rows: slice, piece: Basis = piece, a: Any = a) -> None:
                self._backend.accumulate(X[rows], piece, a, curve, wide, acc[rows])

            divide(n, self._flops(n, len(a)), add, self._threads)
        self._backend.finish(acc, factor, F)
        return F

    def gradient(self, X: Any, G: Any, first: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Yield (first chunk, features^T G) for pieces of the chunks from `first` to `stop`.

        Each piece has shape (chunks, outputs, CHUNK); the amplitude is the caller's, in G.
        """
        period = self._period
        for start, piece in self._pieces(first, stop):
            chunks = min(chunks_of(piece), stop - start)
            out = self._xp.empty((chunks, G.shape[1], CHUNK), self._dtype)

            def fill(periods: slice, piece: Basis = piece, out: Any = out) -> None:
                some = slice(periods.start * period, periods.stop * period)
                self._backend.gradient(X, _cut(piece, some), G, self._curve, self._wide, out[some])

            divide(-(-chunks // period), self._flops(len(X), chunks), fill, self._threads)
            skip = max(first - start, 0)
            yield start + skip, out[skip:]

    def kept(self, stop: int) -> Basis | None:
        """Return a basis of the chunks before `stop`, perhaps of more; None if not all are kept."""
        return self.basis if self._keep(stop) else None

    def threads_for(self, n: int, chunks: int) -> int:
        """Return how many threads are to share work on n events and so many chunks."""
        return 1 if n == 1 else worth(self._flops(n, chunks), self._threads)

    def span(self, first: int, stop: int) -> int:
        """Return how many chunks are evaluated where those from `first` to `stop` are asked for."""
        return self.whole(stop) - first + first % self._period

    def take(self, old: FeatureBlocks) -> None:
        """Take over what is kept of the same features in fewer columns, the first ones."""
        chunks = min(old._kept, self._budget)
        self.basis, self._kept = self._sampler.extend(old._sampler, old.basis, chunks)

    def features(self, X: Any, first: int, stop: int) -> Any:
        """Return the features of the chunks from `first` to `stop`, (n, chunks * CHUNK)."""
        out = self._xp.empty((len(X), (stop - first) * CHUNK), self._dtype)
        for start, piece in self._pieces(first, stop):
            chunks = min(chunks_of(piece), stop - start)
            Z = self._xp.empty((len(X), chunks * CHUNK), self._dtype)

            def fill(rows: slice, piece: Basis = piece, Z: Any = Z) -> None:
                self._backend.features(X[rows], piece, self._curve, self._wide, Z[rows])

            divide(len(X), self._flops(len(X), chunks), fill, self._threads)
            skip = max(first - start, 0)
            begin, end = start + skip - first, start + chunks - first
            out[:, begin * CHUNK : end * CHUNK] = Z[:, skip * CHUNK :]
        out *= self.amplitude
        return out

    def _flops(self, n: int, chunks: int) -> int:
        return n * chunks * self._sampler.chunk_flops

    def _keep(self, chunks: int) -> bool:
        """Keep the constants of so many chunks, or as many as the budget has room for.

        Returns whether all are kept.
        """
        if chunks <= self._kept:
            return True
        within = chunks <= self._budget
        with self._growing:  # several threads may predict
            self._grow(min(self.whole(chunks), self._budget))
        return within

    def _grow(self, chunks: int) -> None:
        """Keep the constants of so many chunks; those kept before stay where they can be read."""
        kept, basis = self._kept, self.basis
        if chunks <= kept:
            return
        if chunks > chunks_of(basis):
            room = min(max(chunks, 2 * kept), self._budget)
            basis = self._sampler.allocate(room)
            for ours, theirs in zip(_arrays(basis), _arrays(self.basis), strict=True):
                ours[:kept] = theirs[:kept]
        self._sampler.generate(kept, _cut(basis, slice(kept, chunks)))
        self.basis = basis
        self._kept = chunks

    def _pieces(self, first: int, stop: int) -> Iterator[tuple[int, Basis]]:
        """Yield (first chunk, basis) of consecutive pieces that hold the chunks from first to stop.

        They begin and end with a period, and so perhaps outside of what was asked for.
        """
        first, stop = first - first % self._period, self.whole(stop)
        self._keep(stop)
        kept = min(stop, self._kept)
        if first < kept:
            yield first, _cut(self.basis, slice(first, kept))
        start = max(first, kept)
        if start >= stop:
            return
        buffer = self._sampler.allocate(min(self._burst, stop - start))
        while start < stop:
            piece = _cut(buffer, slice(0, stop - start))
            self._sampler.generate(start, piece)
            yield start, piece
            start += chunks_of(piece)


def _arrays(basis: Basis) -> tuple[Any, ...]:
    """Return the arrays of a basis, whose first axis is that of the chunks."""
    return basis[1:] if isinstance(basis, Hadamard) else tuple(basis)


def _cut(basis: Basis, some: slice) -> Basis:
    """Return the basis of some of the chunks."""
    if isinstance(basis, Hadamard):
        return Hadamard(basis.widths, *(array[some] for array in basis[1:]))
    return type(basis)(*(array[some] for array in basis))


def check_range(start: int, stop: int) -> None:
    """Raise InvalidInput unless 0 <= start <= stop <= 2^34: so many features have own numbers."""
    if not 0 <= start <= stop <= 2**34:
        raise InvalidInput(f"start={start}, stop={stop} must satisfy 0 <= start <= stop <= 2^34")


def check_seed(seed: int) -> int:
    """Return the seed as an int, which must be in 0 ... 2^64 - 1, else raise InvalidInput."""
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**64:
        raise InvalidInput(f"seed={shown(seed)} must be a whole number from 0 to 2^64 - 1")
    return int(seed)


def check_events(
    X: ArrayLike,
    dtype: np.dtype[Any],
    columns: Sequence[Column] | None,
    *,
    missing: bool = False,
) -> NDArray[Any]:
    """Return a batch as a finite C-contiguous array of shape (n, d) of the dtype.

    `columns` are its columns' names, where they are known. With `missing` a NaN is let through, but
    nothing above 1e150.
    """
    try:
        if isinstance(X, np.ndarray) and X.dtype == dtype:
            events = np.ascontiguousarray(X)
        else:
            with np.errstate(over="ignore"):  # an infinity is named below
                events = np.ascontiguousarray(X, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a batch must be an array of numbers: {error}") from None
    if not events.flags.carray:
        events = events.copy()  # the compiled functions know no others
    if events.ndim != 2:
        raise InvalidInput(
            f"a batch must have shape (events, columns), not {events.shape}; pass a single event "
            "x as [x]"
        )
    if columns is not None and events.shape[1] != len(columns):
        raise InvalidInput(
            f"a batch has {events.shape[1]} columns and the model has {len(columns)}; "
            "call add_columns before sending more"
        )
    squares = sum_of_squares(events)
    if squares <= LARGEST**2 if missing else math.isfinite(squares):
        return events
    bad = np.abs(events) > LARGEST if missing else ~np.isfinite(events)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        name = column if columns is None else columns[column]
        raise InvalidInput(
            f"row {row}, column {name!r} is {events[row, column]}; drop the event or "
            + (
                "give NaN, which counts as missing"
                if missing
                else "scale the columns with Scaled, which takes a NaN as missing"
            )
        )
    return events


class RandomFeatures:
    """An endless sequence of random features whose products average to the kernel.

    Feature i of a point x is ``sqrt(2) cos(w_i.x + b_i)``, or what `streamk.kernels` says of a
    kernel without a Fourier law. Its frequency and phase are a function of the seed, of i and of
    the columns alone (Philox4x32-10), so it is the same in every process, and never has to be
    stored.

    Parameters
    ----------
    kernel : Kernel
    seed : int
        0 to 2^64 - 1.
    sampler : {"iid", "hadamard", "orthogonal"}, default "iid"
        ``iid``: independent frequencies, tied to the columns' names. ``hadamard``: the rows of
        random rotations, tied to the columns' places; for kernels of the Euclidean distance. Their
        products vary no more than independent ones', and from some 20 columns on they are faster.
        Of points dozens of bandwidths apart along one column they leave a kernel of up to 0.12.
        ``orthogonal``: frequencies of orthogonal directions (Yu et al. 2016), tied likewise and
        for the same kernels; as fast as independent ones once they are made. Up to 64 columns,
        products of points within a bandwidth vary a tenth as much, and none is biased.
    dtype : {"float32", "float64"}, default "float32"
    backend : {"auto", "cupy"}, default "auto"

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.features import RandomFeatures
    >>> from streamk.kernels import Gaussian
    >>> features = RandomFeatures(Gaussian(bandwidth=1.0), seed=7)
    >>> Z = features.transform([[0.0], [1.0]], 0, 100_000)
    >>> bool(abs(Z[0] @ Z[1] / 100_000 - np.exp(-0.5)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        seed: int,
        sampler: str = "iid",
        dtype: Any = "float32",
        backend: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.seed = check_seed(seed)
        self.sampler = check_sampler(sampler, kernel)
        self.dtype = check_dtype(dtype)
        self._backend = backends.select(backend)

    def transform(
        self, X: ArrayLike, start: int, stop: int, columns: Sequence[Column] | None = None
    ) -> NDArray[Any]:
        """Features `start` to `stop` of each point.

        Parameters
        ----------
        X : array of shape (n, d)
        start, stop : int
            Half-open range of the sequence.
        columns : sequence of str or int, optional
            Names of the columns; ``range(d)`` by default. Their order does not matter to ``iid``,
            and nothing but their order and number to the other samplers. The directions of a Zonal
            kernel depend on which columns there are.

        Returns
        -------
        array of shape (n, stop - start), of the dtype chosen

        Raises
        ------
        InvalidInput
            If a value is not finite, the range is empty of sense, the columns do not fit, or the
            map of a `streamk.kernels.Composed` kernel does not return finite numbers.
        """
        check_range(start, stop)
        points = check_events(X, self.dtype, columns)
        names = range(points.shape[1]) if columns is None else columns
        blocks = FeatureBlocks(
            self.kernel,
            column_keys(names),
            seed=self.seed,
            backend=self._backend,
            dtype=self.dtype,
            cache_bytes=0,
            sampler=self.sampler,
        )
        first, backend = start // CHUNK, self._backend
        mapped = backend.put(self.kernel.mapped(points))
        Z = backend.get(blocks.features(mapped, first, -(-stop // CHUNK)))
        return np.ascontiguousarray(Z[:, start - first * CHUNK : stop - first * CHUNK])
