"""Online scaling of numbers to be predicted, which follows where their scale jumps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, taken
from streamk.errors import StateError
from streamk.scaling.estimates import DECILES
from streamk.scaling.jumps import BLOCK, Jumps
from streamk.scaling.running import RunningScale
from streamk.state import JSON, State

_FURTHEST = 20.0
"""Deviations from the mean that a label counts as at most."""


class LabelScale:
    """Running mean and deviation of numbers, made anew where their scale has jumped.

    From the 65th label on one farther from the mean than 20 deviations counts as that far. After
    every 64 labels their median and the spread of their deciles are compared with mean and
    deviation. Where the median is more than 8 deviations from the mean, or the spread more than 8
    deviations, twice in a row, or the spread less than 1/32 of one eight times in a row, mean and
    deviation become those of the last 64 labels, and go on from there. A learner whose function is
    in units of the deviation then says in the new scale what it said in the old one. After each
    jump the next one takes four times as many blocks, but to where no labels were before.

    Examples
    --------
    >>> import numpy as np
    >>> scale, f = LabelScale(), np.arange(64.0)[:, None] % 8
    >>> for block in (f, 1e6 + 1e3 * f, 1e6 + 1e3 * f):
    ...     scale.update(block)
    >>> scale.invert(np.zeros((1, 1))).tolist()
    [[1003500.0]]
    """

    TYPE = "label-scale"

    def __init__(self) -> None:
        self._scale = RunningScale(1)
        self._recent = np.zeros(0)
        """Labels since the last look."""
        self._bounds = np.array([-math.inf, math.inf])
        self._jumps = Jumps()

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._scale.nbytes + self._recent.nbytes + self._bounds.nbytes

    def update(self, X: NDArray[np.float64]) -> None:
        """Take in labels, float64 of shape (n, 1)."""
        self.transform_each(X, np.ones(len(X), bool), X.dtype)

    def transform(self, X: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return labels scaled, in the dtype wanted."""
        return self._scale.transform(np.clip(X, *self._bounds), dtype)

    def transform_each(
        self,
        X: NDArray[np.float64],
        known: NDArray[np.bool_],
        dtype: np.dtype[Any],
        *,
        units: bool = False,
    ) -> tuple[NDArray[Any], None, NDArray[np.float64] | None]:
        """Take in labels one by one, and return each as it is scaled then.

        As `RunningScale.transform_each`, of which it has not what is scaled before.
        """
        after, unit = np.empty(X.shape, dtype), np.empty((len(X), 2, 1))
        rows, at, done = np.flatnonzero(known).tolist(), 0, 0
        while at < len(X):
            wanted = done + BLOCK - len(self._recent)
            stop = rows[wanted - 1] + 1 if wanted <= len(rows) else len(X)
            piece = np.clip(X[at:stop], *self._bounds)
            after[at:stop], _, before = self._scale.transform_each(
                piece, known[at:stop], dtype, units=True
            )
            unit[at:stop] = before
            self._recent = np.append(self._recent, X[rows[done:wanted], 0])
            if len(self._recent) == BLOCK:
                self._look()
                after[stop - 1 : stop] = self.transform(X[stop - 1 : stop], dtype)
            at, done = stop, wanted
        return after, None, unit if units else None

    def _look(self) -> None:
        """Begin anew with the last labels if their scale is another one, and set the bounds."""
        block, (mean, deviation) = self._recent, self._now()
        self._recent = np.zeros(0)
        self._jumps = self._jumps.after(block, mean, deviation)
        if self._jumps.is_there:
            first, median, last = np.quantile(block, (0.1, 0.5, 0.9))
            self._begin(block, median, (last - first) / DECILES or deviation)
            before, (mean, deviation) = (mean, deviation), self._now()
            self._jumps = self._jumps.followed(before, (mean, deviation))
        reach = _FURTHEST * deviation or math.inf
        bounds = np.array([mean - reach, mean + reach])
        # The variance of labels near the largest that are taken overflows.
        self._bounds = np.array([-math.inf, math.inf]) if np.isnan(bounds).any() else bounds

    def _now(self) -> tuple[float, float]:
        """Return mean and deviation, which is 0 where all labels were the same."""
        factor = self._scale.invert(np.array([[0.0], [1.0]]))[:, 0]
        deviation = float(factor[1] - factor[0])
        return float(factor[0]), deviation if self._scale.varies() else 0.0

    def _begin(self, block: NDArray[np.float64], median: float, deviation: float) -> None:
        """Begin anew with a block of labels, those far out in it as far as 4 deviations."""
        self._scale = RunningScale(1)
        near = np.clip(block, median - 4.0 * deviation, median + 4.0 * deviation)
        if near.min() == near.max():  # there is no spread to tell: take the one there was
            near = median + deviation * np.resize([-1.0, 1.0], len(block))
        self._scale.update(near[:, None])

    def invert(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what scales to Z."""
        return self._scale.invert(Z)

    def undo(self, n: int) -> Callable[[], None]:
        """Return a function that undoes the taking in of the next n labels or less."""
        before = self.copy()
        return lambda: vars(self).update(vars(before))

    def copy(self) -> LabelScale:
        """Return an independent copy."""
        other = copy.copy(self)
        other._scale = self._scale.copy()
        return other

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, JSON] = {"type": self.TYPE}
        header |= self._jumps.to_header()
        nested = State.nest({"scale": self._scale.state()}, header)
        own = {"recent": self._recent.copy(), "bounds": self._bounds.copy()}
        return State(nested.header, {**nested.arrays, **own})

    @classmethod
    def from_state(cls, state: State) -> LabelScale:
        """Return the scale whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its parts do not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        jumps = Jumps.from_header(header, _OWNER)
        arrays, _ = taken(_DECLARED, state.arrays, {}, _OWNER)
        recent, bounds, scale = arrays["recent"], arrays["bounds"], cls()
        if len(recent) >= BLOCK or bounds[0] > bounds[1]:
            raise StateError(
                f"a state of a label scale needs fewer than {BLOCK} 'recent' labels and two "
                "ascending 'bounds'; it is damaged or was changed by hand"
            )
        scale._scale = RunningScale.from_state(state.child("scale"))
        if len(scale._scale) != 1:
            raise StateError("a label scale is of one column; the state is damaged")
        scale._jumps = jumps
        scale._recent, scale._bounds = recent.copy(), bounds.copy()
        return scale


_OWNER = "a label scale"
_DECLARED = (
    Declared("recent", "float64", ("labels",)),
    Declared("bounds", "float64", (2,), Domain(infinite=True)),
)
"""There are no bounds before the first look."""
