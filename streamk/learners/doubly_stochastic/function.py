"""Coefficients of random features under one lazily applied scale, and the function they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, Backend, Basis, Steps
from streamk.declared import Declared, Domain, taken
from streamk.errors import InvalidInput
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import FeatureBlocks
from streamk.kernels import Kernel
from streamk.learners.common.classes import bounded
from streamk.learners.common.steps import AdaGrad, Step
from streamk.losses import Loss

SCALES = (2.0**-40, 2.0**40)
"""A scale below the first (or above the other) is multiplied into the array, once in a long time.
"""

_FUSED = 1 << 20
"""Features times events of a step up to which it is one call, which keeps them all for a moment."""

_PATIENCE = 4
"""Single events that the same arrays serve before they are prepared for more: it takes the time of
some."""
_PIECE = 64
"""Chunks by which the arrays grow (16 KiB an output)."""


class Coefficients:
    """The coefficients of features in chunks, ``scale * array``, and their squared gradients.

    Step 6 of Algorithm 1 shrinks every coefficient at every step. Here it is one multiplication
    of the scale, and new coefficients are divided by it. With `squares` sums of squared gradients
    are kept (AdaGrad). The arrays are (chunks, outputs, CHUNK), on the backend's device; of several
    functions side by side they have the outputs of one after those of the other.
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
        return int(self.all_values.shape[1] // self.functions)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return int(self.all_values.nbytes + self.all_squares.nbytes)

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
        """Take what `arrays` gave of so many chunks, or raise StateError if it does not fit."""
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


class _Alone:
    """A compiled function of single events, for as long as the coefficients are the same arrays.

    That is compared, object by object, so whoever changes an array need not know.
    """

    __slots__ = (
        "basis", "blocks", "dtype", "outputs", "seen", "shape", "single", "squares", "turns",
        "values",
    )  # fmt: skip

    def __init__(self, turns: int, values: Any, squares: Any, blocks: FeatureBlocks) -> None:
        self.turns, self.values, self.squares = turns, values, squares
        self.blocks, self.basis = blocks, blocks.basis
        self.outputs, self.dtype, self.shape = values.shape[1], values.dtype, (blocks.d,)
        self.seen = 0
        self.single: Any = None

    def takes(self, x: Any) -> bool:
        """Return whether x is an array of one event just as the compiled functions know it."""
        return (
            type(x) is np.ndarray
            and x.dtype is self.dtype
            and x.shape == self.shape
            and x.flags.carray
        )


class KernelFunction:
    """Coefficients of random features, which follow from the seed (Dai et al. 2014).

    Options are those of `streamk.learners.DoublyStochastic`, checked there; `classes` tells whether
    labels are numbers of classes.
    """

    def __init__(
        self,
        kernel: Kernel,
        loss: Loss,
        *,
        classes: bool,
        n_outputs: int,
        seed: int,
        step: Step | None,
        regularization: float,
        block_size: int,
        max_features: int,
        cache_bytes: int,
        sampler: str,
        dtype: np.dtype[Any],
        threads: int | None,
        backend: Backend,
    ) -> None:
        self.columns: tuple[Column, ...] | None = None
        """The columns of a batch, None before they are set."""
        self.n_steps = 0
        self.coefficients = Coefficients(
            dtype, n_outputs, squares=isinstance(step, AdaGrad), backend=backend
        )
        self._kernel, self._seed, self._step = kernel, seed, step
        self._maps = type(kernel).mapped is not Kernel.mapped
        self._regularization = regularization
        self._block_size, self._max_features = block_size, max_features
        self._n_blocks = -(-max_features // block_size)
        self._cache_bytes, self._dtype, self._threads = cache_bytes, dtype, threads
        self.sampler, self.by_place = sampler, sampler != "iid" or kernel.by_place
        """The sampler; and whether features depend on the places of columns, not on their names."""
        self._backend, self._xp, self._get = backend, backend.xp, backend.get
        self._loss = (int(loss.code), loss.parameter, classes)
        self._blocks: FeatureBlocks | None = None
        self._alone: _Alone | None = None

    @property
    def n_features(self) -> int:
        """Random features in use."""
        return min(self.n_steps * self._block_size, self._max_features)

    @property
    def n_chunks(self) -> int:
        """Chunks that hold the features in use."""
        return -(-self.n_features // CHUNK)

    @property
    def nbytes(self) -> int:
        """Memory of coefficients and of what is kept of the features, in bytes."""
        return self.coefficients.nbytes + (self._blocks.nbytes if self._blocks else 0)

    @property
    def widths(self) -> tuple[int, ...]:
        """Groups of columns on which the features depend, () if on none."""
        return self._blocks.widths if self._blocks else ()

    def dense(self) -> NDArray[Any]:
        """Return the coefficients, shape (n_features, n_outputs), a copy."""
        return self.coefficients.dense(self.n_features)

    def put(self, X: NDArray[Any]) -> Any:
        """Return events (n, d), mapped for the kernel, on the device on which they are learned."""
        return self._backend.put(self._kernel.mapped(X))

    def add_columns(self, names: tuple[Column, ...], widths: tuple[int, ...] = ()) -> None:
        """Set the columns, or append some; `widths` are the groups of another model, to be met.

        Raises `InvalidInput` if a column is there already, or features of the kernel would be
        others with more.
        """
        before = self.columns or ()
        if names and before and self.n_steps:
            self._kernel.check_late_columns(names)
        # Without columns the features are waves of no direction, in whatever groups.
        widths = widths or (self.widths if before else ())
        old, self._blocks = (
            self._blocks,
            FeatureBlocks(
                self._kernel,
                column_keys((*before, *names)),
                seed=self._seed,
                backend=self._backend,
                dtype=self._dtype,
                cache_bytes=self._cache_bytes,
                sampler=self.sampler,
                widths=widths,
                threads=self._threads,
            ),
        )
        self.columns = (*before, *names)
        if old is not None:
            self._blocks.take(old)

    def decide(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return f(x) of each row (Algorithm 2), float64 of shape (n, n_outputs)."""
        if len(X) == 1 and (alone := self.decide_one(X[0])) is not None:
            return alone[None]
        return bounded(self._get(self._decide(self.put(X))))

    def decide_one(self, x: Any) -> NDArray[np.float64] | None:
        """Return f(x) of one event, float64 of shape (n_outputs,), where that goes a short way.

        None if `decide` must be asked: where x is not an array just as the backend takes it, or not
        finite, or must be mapped, or the arrays of coefficients and features are new.
        """
        alone = None if self._maps else self._served(self.n_steps)
        if alone is None or not alone.takes(x):
            return None
        F = self._xp.empty(alone.outputs)
        factor = self._served_by.scale * alone.blocks.amplitude
        finite = alone.single.predict(self._backend.put(x), factor, F)
        return self._get(self._chosen(F)) if finite else None

    def _decide(self, X: Any) -> Any:
        """Return f(x) of each row, on the backend's device as X is."""
        if not self.n_steps:
            return self._xp.zeros((len(X), self.coefficients.n_outputs))
        return self._decide_by(self._predicting, X)

    def _decide_by(self, coefficients: Coefficients, X: Any) -> Any:
        features = self._features
        A = coefficients.all_values[: features.whole(self.n_chunks)]
        return features.decide(X, A, coefficients.scale)

    @property
    def every(self) -> tuple[Coefficients, ...]:
        """All coefficients of the features that there are."""
        return (self.coefficients,)

    @property
    def _predicting(self) -> Coefficients:
        """The coefficients by which is predicted."""
        return self.coefficients

    @property
    def _served_by(self) -> Coefficients:
        """The coefficients by which single events are predicted."""
        return self._predicting

    def _chosen(self, F: Any) -> Any:
        """Return the outputs that predict, of those by `_served_by` of one event."""
        return F

    def learn(self, X: Any, y: NDArray[np.float64]) -> None:
        """Steps 4 to 6 of Algorithm 1 for a mini-batch of events and the next block of features.

        X (n, d) is what `put` returned, or rows of it, and y float64 (n,). Raises `InvalidInput` if
        a prediction overflows; nothing is learned then.
        """
        t, coefficients, features = self.n_steps + 1, self.coefficients, self._features
        start, stop, decay, rate = self._plan(t)
        last = -(-stop // CHUNK)
        coefficients.grow(last)
        if len(X) == 1 and (alone := self._served(t)) and self._step_alone(alone, X[0], y[0]):
            return
        weight = features.amplitude / len(X)
        scale = coefficients.lazy_scale(decay)
        chunks = features.whole(max(last, self.n_chunks))
        small = len(X) * features.span(start // CHUNK, last) * CHUNK <= _FUSED
        kept = features.kept(chunks) if small and scale is not None else None
        targets = self._backend.put(y)
        if kept is not None and scale is not None:
            self._learn_fused(X, targets, kept, chunks, start, stop, weight, rate / scale)
            coefficients.scale = scale
        else:
            self._learn_in_parts(X, targets, start, stop, weight, rate, decay)
        self.n_steps = t

    def learn_one(self, x: Any, y: float) -> bool:
        """Learn as `learn` from one event, where that goes a short way, see `decide_one`.

        Returns False, and nothing is learned, if `learn` must be asked.
        """
        alone = None if self._maps else self._served(self.n_steps + 1)
        if alone is None or not alone.takes(x):
            return False
        return self._step_alone(alone, self._backend.put(x), y)

    def follow(self, P: Any, X: Any, y: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """Predict and learn events one after the other, where that goes a short way.

        P (n, d) are the events as they are predicted, which may be X, or None not to predict, and X
        (n, d) as they are learned; both are what `put` returned, or rows of it. An event whose
        label in y (n,) is NaN is not learned.

        Returns how many events were taken, perhaps 0: the next one must go by `decide` and `learn`.
        And what was predicted, each event before it was learned; undefined without P.
        """
        coefficients, t = self.coefficients, self.n_steps
        assert self._step is not None
        alone = self._served(t) if t >= self._n_blocks else None
        if alone is None:
            return 0, np.empty((0, coefficients.n_outputs))
        count, nu = len(y) - int(np.isnan(y).sum()), self._regularization
        decays = 1.0 - self._step.sizes(t + 1, count) * nu
        rates = self._step.rates(t + 1, count)
        steps = Steps(t, self._block_size, self._max_features, decays, rates, SCALES)
        F = None if P is None else self._xp.empty((len(X), alone.outputs))
        amplitude = alone.blocks.amplitude
        rows, scale = alone.single.follow(P, X, y, coefficients.scale, amplitude, steps, F)
        coefficients.scale = scale
        self.n_steps = t + rows - int(np.isnan(y[:rows]).sum())
        return rows, np.empty((rows, alone.outputs)) if F is None else self._get(F[:rows])

    def _plan(self, t: int) -> tuple[int, int, float, float]:
        """Return which features step t moves, start and stop, the decay of all and the rate."""
        assert self._step is not None
        start, stop = self._block(t)
        decay = 1.0 - self._step.size(t) * self._regularization
        return start, stop, decay, self._step.rate(t) / (stop - start)

    def _block(self, t: int) -> tuple[int, int]:
        """Return the features that step t moves, start and stop."""
        start = (t - 1) % self._n_blocks * self._block_size
        return start, min(start + self._block_size, self._max_features)

    def _step_alone(self, alone: _Alone, x: Any, y: float) -> bool:
        """Step on one event; False, and nothing is learned, if it must go the way of batches."""
        t, coefficients, amplitude = self.n_steps + 1, self.coefficients, alone.blocks.amplitude
        start, stop, decay, rate = self._plan(t)
        scale = coefficients.lazy_scale(decay)
        if scale is None:
            return False
        F, factor = self._xp.empty(alone.outputs), coefficients.scale * amplitude
        if not alone.single.step(x, float(y), (start, stop), factor, amplitude, rate / scale, F):
            return False
        coefficients.grow(-(-stop // CHUNK))
        coefficients.scale, self.n_steps = scale, t
        return True

    def _served(self, steps: int) -> _Alone | None:
        """Return what serves single events with the features of so many steps, if it pays."""
        turns = steps if steps < self._n_blocks else self._n_blocks
        alone, blocks, coefficients = self._alone, self._blocks, self._served_by
        if (
            alone is None
            or alone.turns != turns
            or alone.blocks is not blocks
            or alone.basis is not blocks.basis
            or alone.values is not coefficients.all_values
            or alone.squares is not coefficients.all_squares
        ):
            if blocks is None or not turns:
                return None
            self._alone = alone = _Alone(
                turns, coefficients.all_values, coefficients.all_squares, blocks
            )
        if alone.single is None:
            alone.seen += 1
            # A model that grows has other features in each step.
            if alone.seen == (1 if turns == self._n_blocks else _PATIENCE):
                self._prepare(alone)
        return None if alone.single is None else alone

    def _prepare(self, alone: _Alone) -> None:
        """Prepare for single events, unless the features are too many or not kept."""
        features = min(alone.turns * self._block_size, self._max_features)
        chunks = alone.blocks.whole(-(-features // CHUNK))
        coefficients = self._served_by
        A, squares = coefficients.all_values[:chunks], coefficients.all_squares[:chunks]
        basis = alone.blocks.kept(chunks) if features <= _FUSED else None
        if basis is not None and len(A) == chunks:
            alone.basis = basis
            curve, wide = self._kernel.curve, self._kernel.heavy_tailed
            alone.single = self._backend.single(basis, A, squares, curve, wide, self._loss)

    def _learn_fused(
        self,
        X: Any,
        y: Any,
        kept: Basis,
        chunks: int,
        start: int,
        stop: int,
        weight: float,
        rate: float,
    ) -> None:
        """Step on the features from `start` to `stop` in one call, all constants being kept."""
        first, coefficients = start // CHUNK, self.coefficients
        finite = self._backend.step(
            X,
            y,
            kept,
            coefficients.all_values[:chunks],
            coefficients.all_squares[:chunks],
            (first, start - first * CHUNK, stop - first * CHUNK),
            self._kernel.curve,
            self._kernel.heavy_tailed,
            self._loss,
            coefficients.scale * self._features.amplitude,
            weight,
            rate,
            self._xp.empty((len(X), coefficients.n_outputs)),
            self._features.threads_for(len(X), chunks),
        )
        self._check_finite(finite)

    def _learn_in_parts(
        self, X: Any, y: Any, start: int, stop: int, weight: float, rate: float, decay: float
    ) -> None:
        """Step on the features from `start` to `stop`, chunk by chunk."""
        coefficients = self.coefficients
        F = self._decide(X)
        self._check_finite(bool(self._xp.isfinite(F).all()))
        G = self._xp.empty(F.shape, self._dtype)
        self._backend.loss_gradient(*self._loss, F, y, weight, G)
        coefficients.decay(decay)
        self._descend(X, G, start, stop, rate / coefficients.scale)

    def _descend(self, X: Any, G: Any, start: int, stop: int, rate: float) -> None:
        """Subtract the rate times the gradient, by those of the outputs G, chunk by chunk."""
        coefficients = self.coefficients
        for begin, g in self._features.gradient(X, G, start // CHUNK, -(-stop // CHUNK)):
            some, edge = slice(begin, begin + len(g)), begin * CHUNK
            values, squares = coefficients.all_values[some], coefficients.all_squares[some]
            self._backend.descend(values, squares, g, rate, start - edge, stop - edge)

    def _as_labels(self, y: NDArray[np.float64]) -> NDArray[Any]:
        """Return numbers of classes, or numbers to be predicted, as a `Loss` takes them."""
        return y.astype(np.int64) if self._loss[2] else y

    def _check_finite(self, finite: bool) -> None:
        if not finite:
            raise InvalidInput(
                f"predictions overflowed at step {self.n_steps + 1}; scale the columns or labels, "
                "or use a smaller step"
            )

    def mix(self, other: Self, weight: float) -> None:
        """Mix what a kind of function has beside the coefficients with another one's.

        The weight is that of this function; the other's is ``1 - weight``.
        """

    def saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and arrays of what a kind of function has beside the coefficients."""
        return {}, {}

    def load(self, header: Mapping[str, Any], arrays: Mapping[str, Any], owner: str) -> None:
        """Take what `saved` gave, or raise StateError if something is missing or does not fit."""

    @property
    def _features(self) -> FeatureBlocks:
        assert self._blocks is not None, "columns are set before the first step"
        return self._blocks
