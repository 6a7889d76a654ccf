"""Events that wait for their labels under numbers of their own, through restarts.

Predictions that are pending under an event's values alone are one for two events that are equal,
and in no state. A caller that holds events until their labels come gives each a number: the
predictions of the experts are kept under it, and can be saved beside the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import StateError
from streamk.learners.common.prequential import Prequential
from streamk.learners.multi_kernel.pending_predictions import PendingPredictions
from streamk.learners.multi_kernel.pooled_learning import PooledLearning

_UNBOUNDED = 1 << 62
"""Bytes: what is moved from one place to another must not be forgotten on the way."""


class HeldLearning(PooledLearning):
    """A pool of experts that learns from held events; see `streamk.learners.MultiKernel`."""

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events in turn; what the experts say is kept under their numbers.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing.
        numbers : sequence of n int
            No two of those that wait are equal.

        Returns
        -------
        Prequential
            As `predict_then_learn_many` gives it for events without labels.

        Raises
        ------
        InvalidInput
            If a value is infinite.
        """
        events, asked = self._check(X), PendingPredictions(_UNBOUNDED)
        model: Any = self  # whose class has what follows
        with self._keeping(asked):
            found: Prequential = model.predict_then_learn_many(events, [None] * len(events))
        for number, event in zip(numbers, events, strict=True):
            said = asked.find(event.tobytes())
            if said is not None:
                self._held.keep(_name(number), said.copy())
        return found

    def learn_held_many(
        self, X: ArrayLike, y: Sequence[Any] | NDArray[Any], numbers: Sequence[int]
    ) -> None:
        """Learn from held events one by one: by what was said of them when they were predicted.

        An event of which nothing is kept is learned as if it had been predicted just now.

        Parameters
        ----------
        X : array of shape (n, d)
        y : sequence of n labels, as of `learn_many`
        numbers : sequence of n int
            Those that `predict_held_many` was given.

        Raises
        ------
        InvalidInput
            As `learn_many`.
        """
        events = self._check(X)
        model: Any = self
        labels = model.check_labels(y, len(events))
        for some in _unequal(events):
            waiting = PendingPredictions(_UNBOUNDED)
            for number, event in zip(numbers[some], events[some], strict=True):
                said = self._held.take(_name(number))
                if said is not None:
                    waiting.keep(event.tobytes(), said)
            with self._keeping(waiting):
                model.learn_many(events[some], labels[some])

    def held_predictions(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return what is kept for held events, which `state` has not.

        Returns
        -------
        numbers : int64 array of shape (n,)
            The oldest first.
        said : float32 array of shape (n, experts, outputs)
        """
        kept = self._held.items()
        numbers = np.array([int.from_bytes(name, "little") for name, _ in kept], np.int64)
        if not kept:
            return numbers, np.zeros((0, 0, 0), np.float32)
        return numbers, np.stack([said for _, said in kept])

    def restore_held_predictions(
        self, numbers: NDArray[np.int64], said: NDArray[np.float32]
    ) -> None:
        """Go on with what `held_predictions` gave. Raises `StateError` if it does not fit."""
        shape = self._pool.arrays["KEPT"].shape if self._columns is not None else (0, 0)
        if len(said) and (said.shape[1:] != shape or np.isinf(said).any()):
            raise StateError(
                f"predictions of held events have the shape {said.shape[1:]}, not {shape}, or are"
                " infinite; the checkpoint is damaged or was changed by hand"
            )
        self._held.clear()
        for number, one in zip(numbers.tolist(), said, strict=True):
            self._held.keep(_name(number), one.copy())


def _name(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _unequal(events: NDArray[np.float64]) -> Iterator[slice]:
    """Yield slices in which no two events are equal, one after the other.

    >>> list(_unequal(np.array([[1.0], [2.0], [1.0]])))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    first, met = 0, set[bytes]()
    for n, event in enumerate(events):
        name = event.tobytes()
        if name in met:
            yield slice(first, n)
            first, met = n, set()
        met.add(name)
    if first < len(events):
        yield slice(first, len(events))
