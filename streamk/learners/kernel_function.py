"""The function that a doubly stochastic learner learns, on checked arrays and numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, Backend, Basis
from streamk.errors import InvalidInput
from streamk.features.blocks import FeatureBlocks
from streamk.features.columns import Column, column_keys
from streamk.kernels import Kernel
from streamk.learners.coefficients import Coefficients
from streamk.learners.steps import AdaGrad, Step
from streamk.losses import Loss

_FUSED = 1 << 18
"""Features times events of a step up to which it is one call, which keeps them all for a moment."""


class KernelFunction:
    """Coefficients of random features, which follow from the seed (Dai et al. 2014).

    Parameters
    ----------
    kernel : Kernel
    loss : Loss
    classes : bool
        Whether labels are numbers of classes (else numbers to be predicted).
    n_outputs : int
    seed : int
    step : Step
    regularization : float
    block_size, max_features, cache_bytes : int
    sampler : str
    dtype : numpy dtype
    threads : int or None
    backend : Backend
        Options are those of `streamk.learners.DoublyStochastic`, checked there.
    """

    def __init__(
        self,
        kernel: Kernel,
        loss: Loss,
        *,
        classes: bool,
        n_outputs: int,
        seed: int,
        step: Step,
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
        self.put = backend.put
        """What brings an array of events to where they are learned."""
        self._kernel, self._seed, self._step = kernel, seed, step
        self._regularization = regularization
        self._block_size, self._max_features = block_size, max_features
        self._n_blocks = -(-max_features // block_size)
        self._cache_bytes, self._dtype, self._threads = cache_bytes, dtype, threads
        self.sampler = sampler
        self._backend, self._xp, self._get = backend, backend.xp, backend.get
        self._loss = (int(loss.code), loss.parameter, classes)
        self._blocks: FeatureBlocks | None = None

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

    def add_columns(self, names: tuple[Column, ...], widths: tuple[int, ...] = ()) -> None:
        """Set the columns, or append some to them.

        Parameters
        ----------
        names : tuple of str or int
        widths : tuple of int
            The groups they are to lie in, where another model's are to be met.

        Raises
        ------
        InvalidInput
            If a column is there already.
        """
        before = self.columns or ()
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
        F: NDArray[np.float64] = self._get(self._decide(self.put(X)))
        return F

    def _decide(self, X: Any) -> Any:
        """Return f(x) of each row, on the backend's device as X is."""
        if not self.n_steps:
            return self._xp.zeros((len(X), self.coefficients.n_outputs))
        features, coefficients = self._features, self.coefficients
        A = coefficients.values(0, features.whole(self.n_chunks))
        return features.decide(X, A, coefficients.scale)

    def learn(self, X: Any, y: NDArray[np.float64]) -> None:
        """Steps 4 to 6 of Algorithm 1 for a mini-batch of events and the next block of features.

        Parameters
        ----------
        X : array of shape (n, d)
            What `put` returned, or rows of it.
        y : float64 array of shape (n,)

        Raises
        ------
        InvalidInput
            If a prediction overflows; nothing is learned then.
        """
        t, coefficients, features = self.n_steps + 1, self.coefficients, self._features
        start = (t - 1) % self._n_blocks * self._block_size
        stop = min(start + self._block_size, self._max_features)
        last = -(-stop // CHUNK)
        coefficients.grow(last)
        decay = 1.0 - self._step.size(t) * self._regularization
        rate = self._step.rate(t) / (stop - start)
        weight = features.amplitude / len(X)
        scale = coefficients.lazy_scale(decay)
        chunks = features.whole(max(last, self.n_chunks))
        small = len(X) * (stop - start) <= _FUSED
        kept = features.kept(chunks, len(X)) if small and scale is not None else None
        targets = self.put(y)
        if kept is not None and scale is not None:
            self._learn_fused(X, targets, kept, chunks, start, stop, weight, rate / scale)
            coefficients.scale = scale
        else:
            self._learn_in_parts(X, targets, start, stop, weight, rate, decay)
        self.n_steps = t

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
            coefficients.values(0, chunks),
            coefficients.squares(0, chunks),
            (first, start - first * CHUNK, stop - first * CHUNK),
            self._kernel.cosine,
            self._kernel.heavy_tailed,
            self._loss,
            coefficients.scale * self._features.amplitude,
            weight,
            rate,
            self._xp.empty((len(X), coefficients.n_outputs)),
        )
        self._check_finite(finite)

    def _learn_in_parts(
        self,
        X: Any,
        y: Any,
        start: int,
        stop: int,
        weight: float,
        rate: float,
        decay: float,
    ) -> None:
        """Step on the features from `start` to `stop`, chunk by chunk."""
        coefficients = self.coefficients
        F = self._decide(X)
        self._check_finite(bool(self._xp.isfinite(F).all()))
        G = self._xp.empty(F.shape, self._dtype)
        self._backend.loss_gradient(*self._loss, F, y, weight, G)
        coefficients.decay(decay)
        rate /= coefficients.scale
        for begin, g in self._features.gradient(X, G, start // CHUNK, -(-stop // CHUNK)):
            end, edge = begin + len(g), begin * CHUNK
            values, squares = coefficients.values(begin, end), coefficients.squares(begin, end)
            self._backend.descend(values, squares, g, rate, start - edge, stop - edge)

    def _check_finite(self, finite: bool) -> None:
        if not finite:
            raise InvalidInput(
                f"predictions overflowed at step {self.n_steps + 1}; scale the columns or labels, "
                "or take a smaller step"
            )

    @property
    def _features(self) -> FeatureBlocks:
        assert self._blocks is not None, "columns are set before the first step"
        return self._blocks
