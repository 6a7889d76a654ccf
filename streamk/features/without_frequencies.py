"""Samplers of kernels without a Fourier law: zonal harmonics, and tensor sketches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, Basis, Law, Sketch, Zonal, chunks_of
from streamk.backends.threads import divide
from streamk.features.samplers import HadamardSampler, IidSampler, OrthogonalSampler, Sampler
from streamk.kernels import Composed, Kernel, Polynomial
from streamk.kernels import Zonal as ZonalKernel

_SAMPLERS = {"iid": IidSampler, "hadamard": HadamardSampler, "orthogonal": OrthogonalSampler}


def make_sampler(
    sampler: str,
    kernel: Kernel,
    keys: NDArray[np.uint64],
    *,
    widths: tuple[int, ...],
    **options: Any,
) -> Sampler:
    """Return the sampler of a kernel's features, whose names `check_sampler` has checked.

    Parameters
    ----------
    sampler : {"iid", "hadamard", "orthogonal"}
    kernel : Kernel
    keys : uint64 array of shape (d,)
        Of the mapped columns.
    widths : tuple of int
        The groups of columns so far, of a sampler that has groups.
    **options
        `seed`, `backend`, `dtype` and `threads` of `Sampler`.
    """
    plain = kernel.kernel if isinstance(kernel, Composed) else kernel
    if plain.law == Law.SPHERE:
        return ZonalSampler(plain, keys, **options)
    if plain.law == Law.BUCKETS:
        return SketchSampler(plain, keys, **options)
    if sampler != "iid":
        options["widths"] = widths
    made: Sampler = _SAMPLERS[sampler](kernel, keys, **options)
    return made


class ZonalSampler(Sampler):
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

    def allocate(self, chunks: int) -> Zonal:
        """Return a basis of so many chunks, not filled."""
        empty, terms = self._backend.xp.empty, len(self._steps)
        return Zonal(
            empty((chunks, self._d, CHUNK), self._dtype),
            empty((chunks, terms, CHUNK), self._dtype),
        )

    def generate(self, first: int, basis: Zonal) -> None:
        """Fill a basis with the chunks from `first` on."""
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

    def extend(self, old: ZonalSampler, basis: Zonal, chunks: int) -> tuple[Basis, int]:
        """Keep nothing: further columns turn all directions."""
        return self.allocate(0), 0


class SketchSampler(Sampler):
    """Signs and buckets of tensor sketches, functions of the chunk and the columns' keys."""

    def __init__(self, kernel: Kernel, keys: NDArray[np.uint64], **options: Any) -> None:
        super().__init__(kernel, keys, **options)
        assert isinstance(kernel, Polynomial)
        self._keys, self._factors = self._backend.put(keys), kernel.degree
        self.chunk_bytes = self._factors * max(self._d, 1)
        self.chunk_flops = self._factors * (2 * self._d + 7 * CHUNK)

    def allocate(self, chunks: int) -> Sketch:
        """Return a basis of so many chunks, not filled."""
        return Sketch(self._backend.xp.empty((chunks, self._factors, self._d), np.uint8))

    def generate(self, first: int, basis: Sketch) -> None:
        """Fill a basis with the chunks from `first` on."""
        self._generate(first, self._keys, basis.buckets)

    def _generate(self, first: int, keys: Any, buckets: Any) -> None:
        def fill(some: slice) -> None:
            self._backend.sketches(self._seed, keys, first + some.start, buckets[some])

        divide(len(buckets), 40 * buckets.size, fill, self._threads)

    def extend(self, old: SketchSampler, basis: Sketch, chunks: int) -> tuple[Basis, int]:
        """Keep the old columns' buckets and draw the new ones'."""
        new, d = self.allocate(chunks), old._d
        added = self._backend.xp.empty((chunks, self._factors, self._d - d), np.uint8)
        self._generate(0, self._keys[d:], added)
        new.buckets[..., :d], new.buckets[..., d:] = basis.buckets[:chunks], added
        assert chunks_of(new) == chunks
        return new, chunks
