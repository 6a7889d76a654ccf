"""Single events by the functions for batches, where a backend has no shorter way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streamk.backends import CHUNK, Basis, Sizes, Steps


class BatchOfOne:
    """A `streamk.backends.Single` that makes a batch of each event.

    Parameters
    ----------
    predict, step, put, xp
        The backend's.
    basis, A, squares, curve, wide, loss
        Those of `streamk.backends.Backend.single`.
    """

    def __init__(
        self,
        predict: Callable[..., None],
        step: Callable[..., bool],
        put: Callable[[Any], Any],
        xp: Any,
        basis: Basis,
        A: Any,
        squares: Any,
        curve: int,
        wide: bool,
        loss: tuple[int, float, bool],
    ) -> None:
        self._backend_predict, self._backend_step = predict, step
        self._put, self._xp = put, xp
        self._basis, self._A, self._squares = basis, A, squares
        self._curve, self._wide, self._loss = curve, wide, loss

    def predict(self, x: Any, factor: float, F: Any) -> bool:
        """Write factor times coefficients times features into `F`; False if x is not finite."""
        if not self._finite(x):
            return False
        self._backend_predict(
            x[None], self._basis, self._A, self._curve, self._wide, factor, F[None]
        )
        return True

    def step(
        self,
        x: Any,
        y: float,
        block: tuple[int, int],
        factor: float,
        weight: float,
        rate: float,
        F: Any,
    ) -> bool:
        """Predict into `F` and descend on the features of the block; False if it did not."""
        if not self._finite(x):
            return False
        start, stop = block
        first = start // CHUNK
        return self._backend_step(
            x[None],
            self._put(np.array([y])),
            self._basis,
            self._A,
            self._squares,
            (first, start - first * CHUNK, stop - first * CHUNK),
            self._curve,
            self._wide,
            self._loss,
            factor,
            weight,
            rate,
            F[None],
        )

    def follow(
        self,
        P: Any,
        X: Any,
        y: Any,
        scale: float,
        amplitude: float,
        steps: Steps,
        F: Any,
    ) -> tuple[int, float]:
        """Row by row, predict P into F and step on X; return how many rows, and the scale."""
        t, (low, high) = 0, steps.bounds
        spare = self._xp.empty((1, self._A.shape[1]))
        for r in range(len(X)):
            known, f = not np.isnan(y[r]), spare[0] if F is None else F[r]
            if P is not None and (P is not X or not known):
                self.predict(P[r], scale * amplitude, f)
            if not known:
                continue
            now = scale * float(steps.decays[t])
            if not low < abs(now) < high:
                return r, scale
            start, stop = block_of(steps.first + t, steps.block_size, steps.features)
            rate = float(steps.rates[t]) / (stop - start) / now
            into = f if P is X else spare[0]
            if not self.step(
                X[r], float(y[r]), (start, stop), scale * amplitude, amplitude, rate, into
            ):
                return r, scale
            scale, t = now, t + 1
        return len(X), scale

    def follow_several(self, P: Any, X: Any, y: Any, amplitude: float, steps: Sizes, F: Any) -> int:
        """Take no row: there is no shorter way than that of batches."""
        return 0

    def _finite(self, x: Any) -> bool:
        return bool(self._xp.isfinite(x).all())


def block_of(t: int, block_size: int, features: int) -> tuple[int, int]:
    """Return which features a step moves, start and stop, after t steps before it."""
    start = t % -(-features // block_size) * block_size
    return start, min(start + block_size, features)
