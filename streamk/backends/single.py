"""Single events by the functions for batches, where a backend has no shorter way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streamk.backends import CHUNK, Basis


class BatchOfOne:
    """A `streamk.backends.Single` that makes a batch of each event.

    Parameters
    ----------
    predict, step, put, xp
        The backend's.
    basis, A, squares, cosine, wide, loss
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
        cosine: bool,
        wide: bool,
        loss: tuple[int, float, bool],
    ) -> None:
        self._backend_predict, self._backend_step = predict, step
        self._put, self._xp = put, xp
        self._basis, self._A, self._squares = basis, A, squares
        self._cosine, self._wide, self._loss = cosine, wide, loss

    def predict(self, x: Any, factor: float, F: Any) -> bool:
        """Write factor times coefficients times features into `F`; False if x is not finite."""
        if not self._finite(x):
            return False
        self._backend_predict(
            x[None], self._basis, self._A, self._cosine, self._wide, factor, F[None]
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
            self._cosine,
            self._wide,
            self._loss,
            factor,
            weight,
            rate,
            F[None],
        )

    def _finite(self, x: Any) -> bool:
        return bool(self._xp.isfinite(x).all())
