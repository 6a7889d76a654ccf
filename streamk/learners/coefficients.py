"""Coefficients of random features: a growing array under one lazily applied scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK
from streamk.errors import StateError

_SMALL = 2.0**-40
"""A scale below this (or above its inverse) is multiplied into the array, once in a long time."""

_PIECE = 64
"""Chunks by which the arrays grow (16 KiB an output)."""


class Coefficients:
    """The coefficients of features in chunks, ``scale * array``, and their squared gradients.

    Step 6 of Algorithm 1 shrinks every coefficient at every step. Here it is one multiplication
    of the scale, and new coefficients are divided by it.

    Parameters
    ----------
    dtype : numpy dtype
    n_outputs : int
    squares : bool
        Whether sums of squared gradients are kept (AdaGrad).
    """

    def __init__(self, dtype: np.dtype[Any], n_outputs: int, *, squares: bool) -> None:
        self.scale = 1.0
        self._chunks = 0
        self._values = np.zeros((0, n_outputs, CHUNK), dtype)
        self._squares = np.zeros((0, n_outputs, CHUNK), dtype) if squares else None

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return int(self._values.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._values.nbytes + (0 if self._squares is None else self._squares.nbytes)

    def raw(self, chunks: int) -> tuple[NDArray[Any], float]:
        """Return the unscaled array of the first chunks (chunks, outputs, CHUNK) and the scale."""
        return self._values[:chunks], self.scale

    def dense(self, n_features: int) -> NDArray[Any]:
        """Return the coefficients as a new array of shape (n_features, outputs)."""
        values = self.scale * self._values[: self._chunks]
        flat = values.transpose(0, 2, 1).reshape(-1, self.n_outputs)
        return np.ascontiguousarray(flat[:n_features], self._values.dtype)

    def grow(self, chunks: int) -> None:
        """Make room for so many chunks, the new ones zero."""
        if chunks > len(self._values):
            # By constant pieces: what is to spare is a constant, not a share of the model.
            room = -(-chunks // _PIECE) * _PIECE
            self._resize(lambda old: _padded(old, (room, *old.shape[1:])))
        self._chunks = max(self._chunks, chunks)

    def decay(self, factor: float) -> None:
        """Multiply all coefficients by a factor; 0 clears them."""
        if factor == 0.0:
            self._values[: self._chunks] = 0
            self.scale = 1.0
            return
        self.scale *= factor
        if not _SMALL < abs(self.scale) < 1.0 / _SMALL:
            self._values[: self._chunks] *= self._values.dtype.type(self.scale)
            self.scale = 1.0

    def descend(self, first: int, g: NDArray[Any], rate: float, start: int, stop: int) -> None:
        """Subtract ``rate * g`` from the features start...stop among the chunks from `first`.

        Parameters
        ----------
        first : int
            The first chunk that `g` covers.
        g : array of shape (chunks, outputs, CHUNK)
        rate : float
            Step size over block size. With squares each gradient is also divided by the root of
            the sum of its squares.
        start, stop : int
            Features outside are left alone.
        """
        edges = np.arange(first * CHUNK, (first + len(g)) * CHUNK).reshape(-1, 1, CHUNK)
        some = slice(first, first + len(g))
        if edges[0, 0, 0] < start or edges[-1, 0, -1] >= stop:
            g = g * ((edges >= start) & (edges < stop))
        if self._squares is not None:
            self._squares[some] += g * g
            g = g / (np.sqrt(self._squares[some]) + g.dtype.type(1e-8))
        self._values[some] -= g.dtype.type(rate / self.scale) * g

    def add_outputs(self, n_outputs: int) -> None:
        """Append outputs with zero coefficients up to so many."""
        if n_outputs > self.n_outputs:
            self._resize(lambda old: _padded(old, (len(old), n_outputs, CHUNK)))

    def split(self, binary: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Turn the only output into two by `binary`, which appends an axis of two."""
        self._values = np.ascontiguousarray(np.moveaxis(binary(self._values[:, 0]), -1, 1))
        if self._squares is not None:
            self._squares = np.repeat(self._squares, 2, axis=1)

    def permute(self, order: NDArray[np.intp]) -> None:
        """Reorder the outputs."""
        self._resize(lambda old: np.ascontiguousarray(old[:, order]))

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)(self._values.dtype, self.n_outputs, squares=self._squares is not None)
        other.load(self.arrays(), self.scale)
        return other

    def mix(self, other: Self, weight: float) -> None:
        """Become ``weight * self + (1 - weight) * other``, and so the sums of squares."""
        chunks = max(self._chunks, other._chunks)
        self.grow(chunks)
        other.grow(chunks)
        mine = (weight * self.scale) * self._values[:chunks].astype(np.float64)
        mine += ((1.0 - weight) * other.scale) * other._values[:chunks]
        self._values[:chunks] = mine
        self.scale = 1.0
        if self._squares is not None and other._squares is not None:
            self._squares[:chunks] *= weight
            self._squares[:chunks] += (1.0 - weight) * other._squares[:chunks]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of the unscaled arrays in use, by name."""
        arrays = {"coefficients": self._values[: self._chunks].copy()}
        if self._squares is not None:
            arrays["squares"] = self._squares[: self._chunks].copy()
        return arrays

    def load(self, arrays: dict[str, NDArray[Any]], scale: float) -> None:
        """Take what `arrays` and `scale` gave, checking that it fits."""
        names = ["coefficients"] + (["squares"] if self._squares is not None else [])
        for name in names:
            found = arrays.get(name)
            if found is None or found.ndim != 3 or found.shape[1:] != self._values.shape[1:]:
                raise StateError(
                    f"array {name!r} of the state must have shape (chunks, {self.n_outputs}, "
                    f"{CHUNK}), not {None if found is None else found.shape}"
                )
        self._values = np.array(arrays["coefficients"], dtype=self._values.dtype, order="C")
        if self._squares is not None:
            self._squares = np.array(arrays["squares"], dtype=self._values.dtype, order="C")
        self._chunks, self.scale = len(self._values), scale

    def _resize(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self._values = change(self._values)
        if self._squares is not None:
            self._squares = change(self._squares)


def _padded(old: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array in the corner of a larger one of zeros."""
    new = np.zeros(shape, old.dtype)
    new[tuple(slice(0, n) for n in old.shape)] = old
    return new
