"""Online scaling of numbers to be predicted, which follows where their scale jumps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, count, number, taken
from streamk.errors import StateError
from streamk.scaling.quantiles import DECILES, Reservoir, RunningQuantiles
from streamk.scaling.running import RunningScale
from streamk.state import JSON, State

BLOCK = 64
"""Labels after which is looked whether the scale has jumped."""
_JUMP = 8.0
"""Deviations that the median of a block has to lie from the mean, or that its own one has to have,
to be of a larger scale or another place. Two blocks in a row have to be so: the jump may lie in the
first."""
_TWICE = 2
_SHRUNK, _PATIENCE = 1.0 / 32, 8
"""Deviations that a block has at most for being of a smaller scale, and how many such blocks in a
row there have to be: short runs of labels that resemble each other are common."""
_LONGER = 4
"""Factor of these numbers after each jump, but for labels where none were before. Labels that come
and go, by day and night, else jump for ever, and the scale never spans both."""
_MOST_LONGER = 6
"""Jumps after which the factor stays: a sample has forgotten sooner."""


@dataclass(frozen=True)
class Jumps:
    """Blocks in a row that were of a larger scale or another place, and of a smaller scale.

    Examples
    --------
    >>> block = np.arange(64.0)
    >>> once = Jumps().after(1e3 + block, 0.0, 1.0)
    >>> once, once.is_there, once.after(1e3 + block, 0.0, 1.0).is_there
    (Jumps(far=1, shrunk=0, found=0, known=None), False, True)
    """

    far: int = 0
    """Blocks in a row; one that is where no labels were before counts as `patience` of them."""
    shrunk: int = 0
    found: int = 0
    """Jumps that there were."""
    known: tuple[float, float] | None = None
    """Between which labels were then: before a jump and after it."""

    @classmethod
    def from_header(cls, header: Mapping[str, Any], owner: str) -> Self:
        """Return the counts that a state has, or raise StateError if it does not fit."""
        found = count(header, "found", owner)
        known = None
        if found:
            known = number(header, "lowest", owner), number(header, "highest", owner)
        made = cls(count(header, "far", owner), count(header, "shrunk", owner), found, known)
        if made.is_there or (known is not None and known[0] > known[1]):
            raise StateError(
                f"{owner} has found a jump and not followed it, or knows no labels; it is damaged "
                "or was changed by hand"
            )
        return made

    def to_header(self) -> dict[str, JSON]:
        """Return the counts as a state has them."""
        header: dict[str, JSON] = {"far": self.far, "shrunk": self.shrunk, "found": self.found}
        if self.known is not None:
            header["lowest"], header["highest"] = self.known
        return header

    @property
    def patience(self) -> int:
        """Factor of the blocks that a jump takes, 1 for the first one."""
        return int(_LONGER ** min(self.found, _MOST_LONGER))

    @property
    def is_there(self) -> bool:
        """True if the scale has jumped."""
        patience = self.patience
        return self.far >= _TWICE * patience or self.shrunk >= _PATIENCE * patience

    def followed(self, *places: tuple[float, float]) -> Jumps:
        """Return what is known after a jump between two places, each a mean and a deviation."""
        known = self
        for place in places:
            known = Jumps(found=self.found + 1, known=known._known_and(*place))
        return known

    def after(self, block: NDArray[np.float64], mean: float, deviation: float) -> Jumps:
        """Return the counts after another block of `BLOCK` labels, by mean and deviation so far."""
        ordered = np.sort(block)
        first, median, last = (_between(ordered, level) for level in (0.1, 0.5, 0.9))
        own = (last - first) / DECILES
        shrunk = 0.0 < own < _SHRUNK * deviation
        far = max(abs(median - mean), own) > _JUMP * deviation > 0.0
        low, high = self._known_and(mean, deviation)
        has_met = low <= median <= high and own <= high - low
        blocks = 1 if has_met else self.patience
        return replace(
            self, far=self.far + blocks if far else 0, shrunk=self.shrunk + 1 if shrunk else 0
        )

    def _known_and(self, mean: float, deviation: float) -> tuple[float, float]:
        """Return the range of where labels were, and are by mean and deviation."""
        reach = _JUMP * deviation
        low, high = self.known or (mean, mean)
        return min(low, mean - reach), max(high, mean + reach)


def _between(ordered: NDArray[np.float64], level: float) -> float:
    """Return a quantile of numbers in order, between two of them if need be."""
    place = level * (len(ordered) - 1)
    here = int(place)
    low, high = ordered[here : here + 2].tolist()
    return float(low + (place - here) * (high - low))


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
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Do as `RunningScale.transform_each`, one label after the other."""
        after, units = np.empty(X.shape, dtype), np.empty((len(X), 2, 1))
        rows, at, done = np.flatnonzero(known).tolist(), 0, 0
        while at < len(X):
            wanted = done + BLOCK - len(self._recent)
            stop = rows[wanted - 1] + 1 if wanted <= len(rows) else len(X)
            piece = np.clip(X[at:stop], *self._bounds)
            after[at:stop], units[at:stop] = self._scale.transform_each(
                piece, known[at:stop], dtype
            )
            self._recent = np.append(self._recent, X[rows[done:wanted], 0])
            if len(self._recent) == BLOCK:
                self._look()
                after[stop - 1 : stop] = self.transform(X[stop - 1 : stop], dtype)
            at, done = stop, wanted
        return after, units

    def _look(self) -> None:
        """Begin anew with the last labels if their scale has changed, and set the bounds."""
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
        header: dict[str, JSON] = {"type": self.TYPE, **self._jumps.to_header()}
        own = {"recent": self._recent.copy(), "bounds": self._bounds.copy()}
        return State.nest({"scale": self._scale.state()}, header, own)

    @classmethod
    def from_state(cls, state: State) -> LabelScale:
        """Return the scale of a state, or raise StateError if it does not fit."""
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


class LabelQuantiles(RunningQuantiles):
    """Running quantiles of one column or none, made of its last 64 values after a jump.

    Jumps are found as by `LabelScale`, with center and scale instead of mean and deviation;
    what came before one is forgotten. The scale comes to span labels that come and go.

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
            jumps = jumps.after(known[stop - BLOCK : stop], *self._place())
            if jumps.is_there:
                return max(1, end)
        return rest

    def _place(self) -> tuple[float, float]:
        """Return center and scale."""
        return float(self.center[0]), 1.0 / float(self.inverse[0])

    def _look(self) -> bool:
        """Begin anew with the last labels if their scale has changed; return True then."""
        block, self._recent = self._recent, np.zeros(0)
        self._jumps = self._jumps.after(block, *self._place())
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
        header: dict[str, JSON] = {"type": self.TYPE, **self._jumps.to_header()}
        return State.nest({"quantiles": super().state()}, header, {"recent": self._recent.copy()})

    @classmethod
    def from_state(cls, state: State) -> LabelQuantiles:
        """Return the quantiles of a state, or raise StateError if it does not fit."""
        header: Any = state.expect(cls.TYPE).header
        labels = cls()
        vars(labels).update(vars(RunningQuantiles.from_state(state.child("quantiles"))))
        labels._jumps = Jumps.from_header(header, _QUANTILES)
        arrays, _ = taken(
            (Declared("recent", "float64", ("labels",)),), state.arrays, {}, _QUANTILES
        )
        if len(arrays["recent"]) >= BLOCK:
            raise StateError(
                f"{_QUANTILES} needs fewer than {BLOCK} 'recent' labels; it is damaged"
            )
        labels._recent = arrays["recent"].copy()
        return labels


_QUANTILES = "a state of quantiles of labels"
