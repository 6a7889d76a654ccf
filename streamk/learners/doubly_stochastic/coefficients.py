"""Coefficients of random features: a growing array under one lazily applied scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, Backend
from streamk.declared import Declared, Domain, taken
from streamk.learners.common.outputs import bounded

SCALES = (2.0**-40, 2.0**40)
"""A scale below the first (or above the other) is multiplied into the array, once in a long time.
"""

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
    backend : Backend
        On whose device the arrays are.
    functions : int, default 1
        Functions side by side, each with so many outputs; the arrays have those of one after those
        of the other.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        n_outputs: int,
        *,
        squares: bool,
        backend: Backend,
        functions: int = 1,
    ) -> None:
        self.scale, self.functions = 1.0, functions
        self._chunks = 0
        self._backend, self._xp, self._dtype = backend, backend.xp, dtype
        self._keeps_squares = squares
        self.all_values = self._xp.zeros((0, functions * n_outputs, CHUNK), dtype)
        self.all_squares = self._xp.zeros((0, functions * n_outputs, CHUNK), dtype)
        """The arrays; others where their size changes."""

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        outputs: int = self.all_values.shape[1] // self.functions
        return outputs

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return int(self.all_values.nbytes + self.all_squares.nbytes)

    def values(self, first: int, stop: int) -> Any:
        """Return a view of the unscaled coefficients of these chunks (chunks, outputs, CHUNK)."""
        return self.all_values[first:stop]

    def squares(self, first: int, stop: int) -> Any:
        """Return a view of the sums of squares of these chunks, without chunks if none are kept."""
        return self.all_squares[first:stop]

    def chunks(self, first: int, stop: int) -> Any:
        """Return the coefficients of these chunks, a float64 copy (features, outputs)."""
        values = self.all_values[first:stop].transpose(0, 2, 1).astype(np.float64)
        return self.scale * values.reshape(-1, self.n_outputs)

    def set_chunks(self, first: int, W: Any) -> None:
        """Set the coefficients W (features, outputs) of whole chunks from one on."""
        values = W.reshape(-1, CHUNK, self.n_outputs).transpose(0, 2, 1) / self.scale
        self.all_values[first : first + len(values)] = values

    def approach(self, other: Self, weight: float) -> None:
        """Go a part of the way to other coefficients, of as many chunks."""
        mine, theirs = self.all_values[: self._chunks], other.all_values[: self._chunks]
        mine *= (1.0 - weight) * self.scale
        mine += (weight * other.scale) * theirs
        self.scale = 1.0

    def dense(self, n_features: int) -> NDArray[Any]:
        """Return the coefficients as a new NumPy array of shape (n_features, outputs)."""
        values = self.scale * self._backend.get(self.all_values[: self._chunks])
        flat = values.transpose(0, 2, 1).reshape(-1, self.n_outputs)
        return np.ascontiguousarray(flat[:n_features], self._dtype)

    def grow(self, chunks: int) -> None:
        """Make room for so many chunks, the new ones zero; and so are those to spare behind."""
        if chunks > len(self.all_values):
            # By constant pieces: what is to spare is a constant, not a share of the model.
            room = -(-chunks // _PIECE) * _PIECE
            self._resize(lambda old: self._padded(old, (room, *old.shape[1:])))
        self._chunks = max(self._chunks, chunks)

    def lazy_scale(self, factor: float) -> float | None:
        """Return the scale after a decay by `factor`, None where the array must be touched."""
        scale = self.scale * factor
        return scale if SCALES[0] < abs(scale) < SCALES[1] else None

    def decay(self, factor: float) -> None:
        """Multiply all coefficients by a factor; 0 clears them."""
        scale = self.lazy_scale(factor)
        if scale is None:
            self._backend.decay(self.all_values[: self._chunks], self.scale * factor)
            scale = 1.0
        self.scale = scale

    def add_outputs(self, n_outputs: int) -> None:
        """Append outputs with zero coefficients up to so many."""
        if n_outputs > self.n_outputs:
            shape = self.functions, n_outputs, CHUNK
            self._resize(
                lambda old: self._joined(self._padded(self.divided(old), (len(old), *shape)))
            )

    def split(self, binary: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Turn the only output into two by `binary`, which appends an axis of two."""
        both = np.moveaxis(binary(self._backend.get(self.all_values)), -1, 2)
        self.all_values = self._backend.put(np.ascontiguousarray(self._joined(both)))
        self.all_squares = self._xp.repeat(self.all_squares, 2, axis=1)

    def select(self, outputs: Sequence[int | None]) -> None:
        """Take the outputs numbered, in that order; None is a new one with zero coefficients."""
        numbers = [self.n_outputs if number is None else number for number in outputs]
        self.add_outputs(self.n_outputs + 1)
        self._resize(
            lambda old: self._xp.ascontiguousarray(self._joined(self.divided(old)[:, :, numbers]))
        )

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)(
            self._dtype,
            self.n_outputs,
            squares=self._keeps_squares,
            backend=self._backend,
            functions=self.functions,
        )
        other._take(self.arrays(self._chunks), self._chunks, self.scale)
        return other

    def mix(self, other: Self, weight: float) -> None:
        """Become ``weight * self + (1 - weight) * other``, and so the sums of squares."""
        chunks = max(self._chunks, other._chunks)
        self.grow(chunks)
        other.grow(chunks)
        mine = (weight * self.scale) * self.all_values[:chunks].astype(np.float64)
        mine += ((1.0 - weight) * other.scale) * other.all_values[:chunks]
        self.all_values = self.all_values.copy()  # another array, by which a change is seen
        self.all_values[:chunks] = mine
        self.scale = 1.0
        if self._keeps_squares:
            self.all_squares[:chunks] *= weight
            self.all_squares[:chunks] += (1.0 - weight) * other.all_squares[:chunks]

    def arrays(self, chunks: int) -> dict[str, NDArray[Any]]:
        """Return NumPy copies of the unscaled arrays of the first chunks, by name.

        Coefficients that overflowed are bounded, so that a state loads.
        """
        get = self._backend.get
        arrays = {"coefficients": bounded(get(self.all_values[:chunks].copy()))}
        if self._keeps_squares:
            arrays["squares"] = get(self.all_squares[:chunks].copy())
        return arrays

    def load(self, arrays: Mapping[str, NDArray[Any]], chunks: int, scale: float) -> None:
        """Take what `arrays` and `scale` gave, after checking that it fits so many chunks.

        Raises
        ------
        StateError
            If an array is missing or its shape or values do not fit.
        """
        declared = [Declared("coefficients", self._dtype.name, ("chunks", "outputs", CHUNK))]
        if self._keeps_squares:
            shape = declared[0].shape
            squares = Domain(least=0.0, infinite=True)  # a gradient's may overflow
            declared.append(Declared("squares", self._dtype.name, shape, squares))
        sizes = {"chunks": chunks, "outputs": self.functions * self.n_outputs}
        found, _ = taken(declared, arrays, sizes, "random features")
        self._take(found, chunks, scale)

    def _take(self, arrays: Mapping[str, NDArray[Any]], chunks: int, scale: float) -> None:
        """Take arrays that fit."""
        self._chunks, self.scale = 0, scale
        self._resize(lambda old: old[:0])
        self.grow(chunks)
        put = self._backend.put
        self.all_values[:chunks] = put(np.ascontiguousarray(arrays["coefficients"]))
        if self._keeps_squares:
            self.all_squares[:chunks] = put(np.ascontiguousarray(arrays["squares"]))

    def _resize(self, change: Callable[[Any], Any]) -> None:
        self.all_values = change(self.all_values)
        if self._keeps_squares:
            self.all_squares = change(self.all_squares)
        else:
            self.all_squares = self._xp.zeros((0, *self.all_values.shape[1:]), self._dtype)

    def divided(self, array: Any) -> Any:
        """Return an array of these coefficients as (chunks, functions, outputs, CHUNK)."""
        return array.reshape(len(array), self.functions, array.shape[1] // self.functions, CHUNK)

    def _joined(self, array: Any) -> Any:
        """Return an array of `divided` as (chunks, functions * outputs, CHUNK)."""
        return array.reshape(len(array), array.shape[1] * array.shape[2], CHUNK)

    def _padded(self, old: Any, shape: tuple[int, ...]) -> Any:
        """Return the array in the corner of a larger one of zeros."""
        new = self._xp.zeros(shape, self._dtype)
        new[tuple(slice(0, n) for n in old.shape)] = old
        return new
