"""Running quantiles of numbers to be predicted, which begin anew where their scale has jumped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, taken
from streamk.errors import StateError
from streamk.scaling.jumps import BLOCK, Jumps
from streamk.scaling.quantiles import RunningQuantiles
from streamk.scaling.reservoir import Reservoir
from streamk.state import JSON, State

__all__ = ["LabelQuantiles"]


class LabelQuantiles(RunningQuantiles):
    """Running quantiles of one column or none, made of its last 64 values after a jump.

    After every 64 labels their median and the spread of their deciles are compared with center and
    scale. Where the median is more than 8 scales from the center, or the spread more than 8 scales,
    twice in a row, or the spread less than 1/32 of one eight times in a row, what came before is
    forgotten. A learner whose function is in units of the scale then predicts in the new one what
    it predicted in the old one. After each jump the next one takes four times as many blocks, but
    to where no labels were before: the scale comes to span labels that come and go.

    Parameters
    ----------
    d : int
        1, or 0 for labels that are classes.
    seed : int, default 0
        See `RunningQuantiles`.

    Attributes
    ----------
    jumped : bool
        Whether the last call of `observe` has found a jump.

    Examples
    --------
    >>> labels = LabelQuantiles(1)
    >>> f = np.arange(64.0)[:, None] % 8
    >>> for block in (f, f, f, f, 1e6 + 1e3 * f, 1e6 + 1e3 * f):
    ...     changed = labels.observe(block)
    >>> labels.jumped, labels.center
    (True, array([1003500.]))
    """

    TYPE = "label-quantiles"

    def __init__(self, d: int = 0, *, seed: int = 0) -> None:
        super().__init__(d, seed=seed)
        self.jumped = False
        self._jumps = Jumps()
        self._recent = np.zeros(0)
        """Labels since the last look."""

    def observe(self, X: NDArray[np.float64]) -> bool:
        """Take in labels (n, d), see `RunningQuantiles.observe`."""
        self.jumped = False
        if not len(self):
            return super().observe(X)
        changed, at = False, 0
        while at < len(X):
            some = X[at : at + BLOCK - len(self._recent)]
            changed |= super().observe(some)
            self._recent = np.append(self._recent, some[:, 0])
            if len(self._recent) == BLOCK:
                changed |= self._look()
            at += len(some)
        return changed

    def until_change(self, labels: NDArray[np.float64] | None = None) -> int:
        """Return how many of the labels (n,) that come may be observed at once.

        As `RunningQuantiles.until_change`, and a jump is at the first of them or not among them.
        """
        rest = super().until_change()
        if labels is None or not len(self):
            return rest
        rest = min(rest, len(labels))
        ends = range(BLOCK - 1 - len(self._recent), rest, BLOCK)
        if len(ends) and self._events + 1 == self.moment:
            return 1  # the first of them changes what the others are compared with
        known, jumps = np.append(self._recent, labels[:rest]), self._jumps
        for end in ends:
            stop = len(self._recent) + end + 1
            jumps = self._after(jumps, known[stop - BLOCK : stop])
            if jumps.is_there:
                return max(1, end)
        return rest

    def _after(self, jumps: Jumps, block: NDArray[np.float64]) -> Jumps:
        return jumps.after(block, *self._place())

    def _place(self) -> tuple[float, float]:
        """Return center and scale."""
        return float(self.center[0]), 1.0 / float(self.inverse[0])

    def _look(self) -> bool:
        """Begin anew with the last labels if their scale is another one; return whether it is."""
        block, self._recent = self._recent, np.zeros(0)
        self._jumps = self._after(self._jumps, block)
        if not self._jumps.is_there:
            return False
        before, self.jumped, self._events = self._place(), True, 0
        sample = self._sample
        self._sample = Reservoir(1, capacity=sample.capacity, seed=sample.seed)
        self._numeric[:] = False
        self._plan()
        super().observe(block[:, None])
        self._jumps = self._jumps.followed(before, self._place())
        self.version += 1
        return True

    def undo(self, n: int) -> Callable[[], None]:
        """Return a function that undoes the taking in of the next n labels or less."""
        before = LabelQuantiles.from_state(self.state())
        return lambda: vars(self).update(vars(before))

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, JSON] = {"type": self.TYPE}
        nested = State.nest({"quantiles": super().state()}, header | self._jumps.to_header())
        return State(nested.header, {**nested.arrays, "recent": self._recent.copy()})

    @classmethod
    def from_state(cls, state: State) -> LabelQuantiles:
        """Return the quantiles whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its parts do not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        labels = cls()
        vars(labels).update(vars(RunningQuantiles.from_state(state.child("quantiles"))))
        labels._jumps = Jumps.from_header(header, _OWNER)
        arrays, _ = taken((Declared("recent", "float64", ("labels",)),), state.arrays, {}, _OWNER)
        if len(arrays["recent"]) >= BLOCK:
            raise StateError(f"{_OWNER} needs fewer than {BLOCK} 'recent' labels; it is damaged")
        labels._recent = arrays["recent"].copy()
        return labels


_OWNER = "a state of quantiles of labels"
