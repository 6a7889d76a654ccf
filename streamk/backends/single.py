"""Single events by the functions for batches, where a backend has no shorter way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamk.backends import CHUNK, Basis, Sizes, Steps


@dataclass(frozen=True)
class BatchOfOne:
    """A `streamk.backends.Single` that makes a batch of each event."""

    backend_predict: Callable[..., None]
    backend_step: Callable[..., bool]
    put: Callable[[Any], Any]
    """The backend's, as the two before and the next one."""
    xp: Any
    basis: Basis
    """This and what follows are those of `streamk.backends.Backend.single`."""
    A: Any
    squares: Any
    curve: int
    wide: bool
    loss: tuple[int, float, bool]

    def predict(self, x: Any, factor: float, F: Any) -> bool:
        """Write factor times coefficients times features into `F`; False if x is not finite."""
        if not self._finite(x):
            return False
        self.backend_predict(x[None], self.basis, self.A, self.curve, self.wide, factor, F[None])
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
        return self.backend_step(
            x[None],
            self.put(np.array([y])),
            self.basis,
            self.A,
            self.squares,
            (first, start - first * CHUNK, stop - first * CHUNK),
            self.curve,
            self.wide,
            self.loss,
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
        spare = self.xp.empty((1, self.A.shape[1]))
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
        return bool(self.xp.isfinite(x).all())


def block_of(t: int, block_size: int, features: int) -> tuple[int, int]:
    """Return which features a step moves, start and stop, after t steps before it."""
    start = t % -(-features // block_size) * block_size
    return start, min(start + block_size, features)
