"""Step sizes side by side: each has its coefficients, and those of least recent loss predict.

A stochastic gradient's size of steps is a compromise between the noise of the events and a target
that moves, and no size serves all streams. The features of an event cost more than its outputs, so
several sizes of steps, whose functions are outputs beside each other, take little more time than
one. A function's loss on an event is that of its prediction before the event was learned; which
one predicts is decided after each step, by sums of losses that fade (follow the leader).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK, Sizes
from streamk.declared import Declared, Domain, taken
from streamk.kernels import Kernel
from streamk.learners.common.steps import Ladder
from streamk.learners.doubly_stochastic.function import Coefficients, KernelFunction
from streamk.losses import Loss

_KEPT = 1.0 - 1.0 / 1000
"""Factor of a loss with each event after it: after 1,000 it counts 1 / e."""
_MOST = 1e300
_LOSSES = "losses"


class SeveralSteps(KernelFunction):
    """Functions of the same random features that differ in the size of their steps."""

    def __init__(
        self, kernel: Kernel, loss: Loss, *, step: Ladder, batch_size: int, **options: Any
    ) -> None:
        super().__init__(kernel, loss, step=step, **options)
        self._gammas, self._batch_size = np.array(step.gammas), batch_size
        decays = np.maximum(0.0, 1.0 - self._gammas * self._regularization)
        self._decays = decays.astype(self._dtype)
        self.coefficients = self._new(options["n_outputs"], len(step.gammas))
        self.losses = np.zeros(len(step.gammas))
        """Of each size, sums over recent events."""
        self._leading = self._new(options["n_outputs"], 1)
        self._taken: tuple[Any, int, int] = (None, 0, 0)

    def _new(self, n_outputs: int, functions: int) -> Coefficients:
        return Coefficients(
            self._dtype, n_outputs, squares=False, backend=self._backend, functions=functions
        )

    @property
    def nbytes(self) -> int:
        """Memory of all coefficients, of those that predict and of what is kept of the features."""
        return super().nbytes + self._leading.nbytes

    @property
    def leader(self) -> int:
        """Number of the size whose function predicts."""
        return int(self.losses.argmin())

    @property
    def _predicting(self) -> Coefficients:
        """The coefficients of the leader, a copy."""
        # Before the copy: a step that ends meanwhile asks for another one.
        values, n_steps, leader = self.coefficients.all_values, self.n_steps, self.leader
        array, steps, number = self._taken
        if array is not values or (steps, number) != (n_steps, leader):
            chosen = self.coefficients.divided(values)[:, leader]
            if self._leading.all_values.shape == chosen.shape:
                # In place, so that what is compiled for single events stays.
                self._leading.all_values[...] = chosen
            else:
                self._leading = self._new(self.coefficients.n_outputs, 1)
                self._leading.all_values = self._xp.ascontiguousarray(chosen)
            self._leading.grow(self.n_chunks)
            self._taken = values, n_steps, leader
        return self._leading

    @property
    def _served_by(self) -> Coefficients:
        """All coefficients: with each event those of the leader are others."""
        return self.coefficients

    def _chosen(self, F: Any) -> Any:
        return F.reshape(len(self._gammas), -1)[self.leader]

    def dense(self) -> NDArray[Any]:
        """Return the coefficients that predict, shape (n_features, n_outputs)."""
        return self._predicting.dense(self.n_features)

    def follow(self, P: Any, X: Any, y: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """Predict and learn events one after the other, see `KernelFunction.follow`."""
        alone = self._learning_alone()
        F = self._xp.empty((0 if alone is None else len(X), self.coefficients.n_outputs))
        rows = 0 if alone is None else self._follow_alone(alone, P, X, y, None if P is None else F)
        return rows, self._get(F[:rows])

    def learn_one(self, x: Any, y: float) -> bool:
        """Learn one event, see `KernelFunction.learn_one`."""
        alone = None if self._maps else self._learning_alone()
        if alone is None or not alone.takes(x):
            return False
        return self._follow_alone(alone, None, self._backend.put(x[None]), np.array([y]), None) == 1

    def _learning_alone(self) -> Any:
        """Return what serves single events once all features are there, None before."""
        return self._served(self.n_steps) if self.n_steps >= self._n_blocks else None

    def _follow_alone(self, alone: Any, P: Any, X: Any, y: NDArray[np.float64], F: Any) -> int:
        steps = Sizes(
            self.n_steps,
            self._block_size,
            self._max_features,
            _KEPT,
            _MOST,
            self._gammas,
            self._decays,
            self.losses,
        )
        rows: int = alone.single.follow_several(P, X, y, alone.blocks.amplitude, steps, F)
        self.n_steps += rows - int(np.isnan(y[:rows]).sum())
        return rows

    def learn(self, X: Any, y: NDArray[np.float64]) -> None:
        """Learn a mini-batch of events by each size of steps, see `KernelFunction.learn`.

        A function that overflows begins anew, and is the last to be chosen. An event moves the
        functions as far in a mini-batch that is not whole as in a whole one: the larger sizes are
        for means over so many events.
        """
        start, stop = self._block(self.n_steps + 1)
        F = self._outputs(X)
        finite = self._xp.isfinite(F).all(axis=(0, 2))
        self._check_finite(bool(finite.any()))
        F[:, ~finite] = 0.0
        self.coefficients.grow(-(-stop // CHUNK))
        G = self._xp.empty(F.shape, self._dtype)
        n, functions, outputs = F.shape
        put, rows = self._backend.put, (n * functions, outputs)
        weight, labels = self._features.amplitude / self._batch_size, put(np.repeat(y, functions))
        self._backend.loss_gradient(*self._loss, F.reshape(rows), labels, weight, G.reshape(rows))
        sizes = put((self._gammas / (stop - start)).astype(self._dtype))
        with np.errstate(over="ignore", invalid="ignore"):  # the next step clears the function
            G *= sizes[:, None]
        G[:, ~finite] = 0.0
        self._decay(finite)
        self._descend(X, G.reshape(n, functions * outputs), start, stop, 1.0)
        self._score(F, y, self._get(finite))
        self.n_steps += 1

    def _outputs(self, X: Any) -> Any:
        """Return the outputs of all functions, float64 (n, functions, outputs)."""
        coefficients = self.coefficients
        shape = len(X), coefficients.functions, coefficients.n_outputs
        if not self.n_steps:
            return self._xp.zeros(shape)
        return self._decide_by(coefficients, X).reshape(shape)

    def _decay(self, finite: Any) -> None:
        """Shrink all coefficients by the regularization; clear those of functions that overflow."""
        if self._regularization or not bool(finite.all()):
            values = self.coefficients.divided(self.coefficients.all_values[: self.n_chunks])
            values *= self._backend.put(self._decays)[:, None, None]
            values[:, ~finite] = 0.0

    def _score(self, F: Any, y: NDArray[np.float64], finite: NDArray[np.bool_]) -> None:
        """Add the losses of a mini-batch, by the outputs before it was learned."""
        losses, kept = self.losses.copy(), _KEPT ** len(y)
        with np.errstate(over="ignore", invalid="ignore"):
            self._backend.score(*self._loss, self._get(F), y, kept, _MOST, losses)
        losses[~finite] = _MOST
        self.losses = losses

    def mix(self, other: Self, weight: float) -> None:
        """Mix what is beside the coefficients, see `KernelFunction.mix`."""
        self.losses = weight * self.losses + (1.0 - weight) * other.losses

    # State

    def saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and arrays of what is beside the coefficients."""
        return {}, {_LOSSES: self.losses.copy()}

    def load(self, header: Mapping[str, Any], arrays: Mapping[str, Any], owner: str) -> None:
        """Take what `saved` gave, or raise StateError if something is missing or does not fit."""
        declared = [Declared(_LOSSES, "float64", ("sizes",), Domain(least=0.0))]
        found, _ = taken(declared, arrays, {"sizes": len(self._gammas)}, owner)
        self.losses = found[_LOSSES].copy()
