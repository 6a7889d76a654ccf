"""The frequencies of a growing sequence of random features: kept up to a budget, then regenerated.

Frequencies are a pure function of the seed, the feature's number and the column's key, so keeping
them is only ever a matter of speed: what comes out is the same, bit for bit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, LANES, Backend, Dense
from streamk.kernels import Kernel

_REGENERATED_BYTES = 1 << 22
"""Size of the buffer through which frequencies that are not kept pass."""
_PARALLEL_FLOPS = 4_000_000
"""Work below which handing it to threads costs more than it saves (about 100 microseconds)."""


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="streamk")


# A forked process has none of the threads, and would wait for them for ever.
os.register_at_fork(after_in_child=_pool.cache_clear)


class FeatureBlocks:
    """Random features of given columns, evaluated chunk by chunk.

    Parameters
    ----------
    kernel : Kernel
    keys : uint64 array of shape (d,)
        See `streamk.features.columns.column_keys`.
    seed : int
    backend : Backend
    dtype : numpy dtype
        float32 or float64, of frequencies and features.
    cache_bytes : int
        Memory for kept frequencies; 0 keeps none.
    threads : int
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
        threads: int | None = None,
    ) -> None:
        self.kernel, self.keys, self.seed, self.dtype = kernel, keys, seed, dtype
        self._backend = backend
        self._threads = threads or os.cpu_count() or 1
        self._chunk_bytes = CHUNK * (len(keys) + 1) * dtype.itemsize
        self._budget = cache_bytes // self._chunk_bytes
        self._burst = max(1, _REGENERATED_BYTES // self._chunk_bytes)
        self._kept = 0
        # Frequencies are kept in turns; without a cosine the radians come back in here.
        self.amplitude = math.sqrt(2.0) if kernel.cosine else 2.0 * math.pi
        self._W, self._b = self._allocate(0)

    @property
    def nbytes(self) -> int:
        """Memory of the kept frequencies, in bytes."""
        return self._W.nbytes + self._b.nbytes

    def decide(self, X: NDArray[Any], A: NDArray[Any], scale: float) -> NDArray[np.float64]:
        """Return ``scale * A . features`` of each row.

        Parameters
        ----------
        X : array of shape (n, d)
        A : array of shape (chunks, outputs, CHUNK)
            Coefficients of the features from 0 on.
        scale : float

        Returns
        -------
        float64 array of shape (n, outputs)
        """
        acc = np.zeros((len(X), A.shape[1], LANES), self.dtype)
        wide, cosine = self.kernel.heavy_tailed, self.kernel.cosine
        for first, W, b in self._chunks(0, len(A)):
            a = A[first : first + len(W)]

            def add(rows: slice, W: Any = W, b: Any = b, a: Any = a) -> None:
                self._backend.accumulate(X[rows], Dense(W, b), a, cosine, wide, acc[rows])

            self._divide(len(X), len(X) * W.size, add)
        F = np.empty(acc.shape[:2])
        self._backend.finish(acc, scale * self.amplitude, F)
        return F

    def gradient(
        self, X: NDArray[Any], G: NDArray[Any], first: int, stop: int
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first chunk, cosines^T G) for pieces of the chunks from `first` to `stop`.

        Each piece has shape (chunks, outputs, CHUNK); the amplitude is the caller's, in G.
        """
        wide, cosine = self.kernel.heavy_tailed, self.kernel.cosine
        for start, W, b in self._chunks(first, stop):
            out = np.empty((len(W), G.shape[1], CHUNK), self.dtype)

            def fill(some: slice, W: Any = W, b: Any = b, out: Any = out) -> None:
                self._backend.gradient(X, Dense(W[some], b[some]), G, cosine, wide, out[some])

            self._divide(len(W), len(X) * W.size, fill)
            yield start, out

    def kept(self, stop: int, n: int) -> Dense | None:
        """Return the basis of the chunks before `stop` if a step on n events may go in one call.

        None where they are not all kept, or threads would share the work.
        """
        self._keep(stop)
        flops = n * stop * CHUNK * len(self.keys)
        if stop > self._kept or (self._threads > 1 and flops > _PARALLEL_FLOPS):
            return None
        return Dense(self._W[:stop], self._b[:stop])

    def take(self, old: FeatureBlocks) -> None:
        """Take over the kept frequencies of the same features in fewer columns, the first ones."""
        d = len(old.keys)
        chunks = min(old._kept, self._budget)
        self._W, self._b = self._allocate(chunks)
        self._W[:, :d], self._b[:] = old._W[:chunks], old._b[:chunks]
        added = np.empty((chunks, len(self.keys) - d, CHUNK), self.dtype)
        self._generate(0, added, self._b, self.keys[d:])
        self._W[:, d:] = added
        self._kept = chunks

    def features(self, X: NDArray[Any], first: int, stop: int) -> NDArray[Any]:
        """Return the features of the chunks from `first` to `stop`, (n, chunks * CHUNK)."""
        out = np.empty((len(X), (stop - first) * CHUNK), self.dtype)
        wide, cosine = self.kernel.heavy_tailed, self.kernel.cosine
        for start, W, b in self._chunks(first, stop):
            piece = np.empty((len(X), len(W) * CHUNK), self.dtype)
            self._backend.features(X, Dense(W, b), cosine, wide, piece)
            out[:, (start - first) * CHUNK :][:, : piece.shape[1]] = piece
        out *= self.dtype.type(self.amplitude)
        return out

    def _allocate(self, chunks: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return (
            np.empty((chunks, len(self.keys), CHUNK), self.dtype),
            np.empty((chunks, CHUNK), self.dtype),
        )

    def _generate(
        self,
        first: int,
        W: NDArray[Any],
        b: NDArray[Any],
        keys: NDArray[np.uint64] | None = None,
    ) -> None:
        law, scale = self.kernel.law, self.kernel.frequency_scale
        dof = self.kernel.degrees_of_freedom
        keys = self.keys if keys is None else keys

        def fill(some: slice) -> None:
            self._backend.frequencies(
                self.seed, law, dof, scale, keys, first + some.start, W[some], b[some]
            )

        # A normal costs about as much as a hundred multiplications.
        self._divide(len(W), 100 * W.size, fill)

    def _keep(self, chunks: int) -> None:
        """Keep the frequencies of so many chunks, or as many as the budget has room for."""
        chunks = min(chunks, self._budget)
        if chunks <= self._kept:
            return
        if chunks > len(self._W):
            room = min(max(chunks, 2 * self._kept), self._budget)
            W, b = self._allocate(room)
            W[: self._kept], b[: self._kept] = self._W[: self._kept], self._b[: self._kept]
            self._W, self._b = W, b
        self._generate(self._kept, self._W[self._kept : chunks], self._b[self._kept : chunks])
        self._kept = chunks

    def _chunks(self, first: int, stop: int) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Yield (first chunk, W, b) of consecutive pieces of the chunks from `first` to `stop`."""
        self._keep(stop)
        kept = min(stop, self._kept)
        if first < kept:
            yield first, self._W[first:kept], self._b[first:kept]
        start = max(first, kept)
        if start >= stop:
            return
        W, b = self._allocate(min(self._burst, stop - start))
        while start < stop:
            some = min(len(W), stop - start)
            self._generate(start, W[:some], b[:some])
            yield start, W[:some], b[:some]
            start += some

    def _divide(self, n: int, flops: int, work: Callable[[slice], None]) -> None:
        """Do `work` on all of range(n), in parts by as many threads as it is worth."""
        parts = min(self._threads, n, 1 + flops // _PARALLEL_FLOPS)
        if parts < 2:
            work(slice(0, n))
            return
        edges = [n * part // parts for part in range(parts + 1)]
        jobs = [_pool(self._threads).submit(work, slice(a, b)) for a, b in pairwise(edges)]
        for job in jobs:
            job.result()
