"""The function of a doubly stochastic learner whose steps are preconditioned."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK
from streamk.declared import flag, number
from streamk.kernels import Kernel
from streamk.learners.common.resolving import curvature
from streamk.learners.doubly_stochastic.coefficients import Coefficients
from streamk.learners.doubly_stochastic.kernel_function import KernelFunction
from streamk.learners.doubly_stochastic.preconditioner import (
    DAMPINGS,
    Block,
    Search,
    damping_of_few,
)
from streamk.losses import Loss

_AVERAGES = "averages"
_ETA = 3
"""Of polynomial-decay averaging (Shamir and Zhang 2013): about the last quarter of the steps."""


class PreconditionedFunction(KernelFunction):
    """Coefficients of which each step moves one block, preconditioned by its covariance.

    Parameters
    ----------
    kernel : Kernel
    loss : Loss
    averaging : bool
        Whether the averages of the coefficients predict.
    batch_size : int
        Events of a whole mini-batch.
    **options
        Those of `KernelFunction`; without a `step` its size is searched for.
    """

    def __init__(
        self, kernel: Kernel, loss: Loss, *, averaging: bool, batch_size: int, **options: Any
    ) -> None:
        super().__init__(kernel, loss, **options)
        self._batch_size = batch_size
        self.averages = self.coefficients.copy() if averaging else None
        self.search = Search(loss) if self._step is None else None
        self._bound = partial(curvature, loss)

    @property
    def nbytes(self) -> int:
        """Memory of coefficients, averages and of what is kept of the features, in bytes."""
        return super().nbytes + (self.averages.nbytes if self.averages else 0)

    @property
    def every(self) -> tuple[Coefficients, ...]:
        """The coefficients, and their averages if there are any."""
        return (self.coefficients,) if self.averages is None else (self.coefficients, self.averages)

    @property
    def _predicting(self) -> Coefficients:
        """The averages, if there are any."""
        return self.coefficients if self.averages is None else self.averages

    def learn(self, X: Any, y: NDArray[np.float64]) -> None:
        """Learn a mini-batch of events, see `KernelFunction.learn`; one block of features moves.

        After the first step an event of a mini-batch that is not whole counts as in a whole one.
        """
        t, coefficients = self.n_steps + 1, self.coefficients
        start, stop = self._block(t)
        first, last = start // CHUNK, -(-stop // CHUNK)
        some = slice(start - first * CHUNK, stop - first * CHUNK)
        F = self._decide_by(coefficients, X) if self.n_steps else self._decide(X)
        self._check_finite(bool(self._xp.isfinite(F).all()))
        G = self._xp.empty(F.shape, self._dtype)
        self._backend.loss_gradient(*self._loss, F, self._backend.put(y), 1.0, G)
        coefficients.grow(last)
        W = coefficients.chunks(first, last)
        Phi = self._features.features(X, first, last)[:, some]
        with np.errstate(over="ignore", invalid="ignore"):  # the next step says that it overflowed
            block = Block(
                self._xp,
                Phi,
                G,
                W[some],
                curvature=self._bound(coefficients.n_outputs) or 1.0,
                regularization=self._regularization,
            )
            part = len(y) / self._batch_size if self.n_steps else 1.0
            W[some] += part * self._change(block, t, F, y)
        coefficients.set_chunks(first, W)
        self.n_steps = t
        if self.averages is not None:
            self.averages.grow(last)
            self.averages.approach(coefficients, (1 + _ETA) / (t + _ETA))

    def _change(self, block: Block, t: int, F: Any, y: NDArray[np.float64]) -> Any:
        if self.search is None:
            assert self._step is not None
            return self._step.size(t) * block.direction(damping_of_few(*block.shape))
        return self.search.step(block, self._get(F), self._as_labels(y))

    # State

    def saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and arrays of what is beside the coefficients."""
        search, averages = self.search, self.averages
        header = {} if search is None else {"damping": search.damping, "rising": search.rising}
        if averages is None:
            return header, {}
        arrays = averages.arrays(self.n_chunks)
        return {**header, "averages_scale": averages.scale}, {_AVERAGES: arrays["coefficients"]}

    def load(self, header: Mapping[str, Any], arrays: Mapping[str, Any], owner: str) -> None:
        """Take what `saved` gave.

        Raises
        ------
        StateError
            If something is missing or does not fit.
        """
        if self.search is not None:
            self.search.damping = number(header, "damping", owner, DAMPINGS)
            self.search.rising = flag(header, "rising", owner)
        if self.averages is not None:
            found = {"coefficients": arrays[_AVERAGES]} if _AVERAGES in arrays else {}
            scale = number(header, "averages_scale", owner)
            self.averages.load(found, self.n_chunks, scale)
