"""Probabilities of a learner of squared loss: an inverse temperature that follows the labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.declared import NON_NEGATIVE, Declared, taken

Numbers = NDArray[Any]

UNCALIBRATED = 1.0
"""The factor before the first event, as of `streamk.losses.Loss.probabilities`."""
LEAST, LARGEST = 0.01, 100.0
_FURTHEST, _FAR = 1e6, 10.0
"""Margins beyond are as far: to give probabilities, and to learn from; targets are 1 and -1."""
_PRIOR = 10.0
"""Curvature that it has then."""
_MEMORY = 2_000
"""Events that count: older ones fade."""
_STEPS = 60
"""Of golden sections: the interval's logarithm is then 1e-12 wide."""
_SHARE = (math.sqrt(5.0) - 1.0) / 2.0


class Calibration:
    """Class probabilities from margins, ``softmax(t f)``.

    Margins of squared loss are near 1 and -1 and say which class is likelier, but not by how much.
    The inverse temperature t (Platt 1999; one for all classes, Guo et al. 2017) moves by Newton
    steps on the log loss of margins before their event was learned, to no more than twice and no
    less than half of it at once. Of two classes there may be one margin, f, which stands for
    (-f, f).

    Attributes
    ----------
    factor : float
        The inverse temperature, .01 to 100.

    Examples
    --------
    >>> margins, classes = np.array([[0.9], [-0.8], [0.7], [0.1]]), np.array([1.0, 0.0, 1.0, 0.0])
    >>> calibration = Calibration()
    >>> for _ in range(50):
    ...     calibration.add(margins, classes)
    ...     calibration.close(4)
    >>> calibration.probabilities(margins).round(2)[:, 1]
    array([0.96, 0.06, 0.92, 0.59])
    """

    def __init__(self) -> None:
        self.factor = UNCALIBRATED
        self._curvature = _PRIOR
        self._now = np.zeros(2)
        """Slope and curvature of the log loss of events since the last step."""

    def probabilities(self, F: Numbers) -> Numbers:
        """Return probabilities (n, classes) of margins F (n, outputs), rows summing to 1."""
        P = np.empty((len(F), max(2, F.shape[1])))
        loops.learning.probabilities(F, self.factor, _FURTHEST, P)
        return P

    def add(self, F: Numbers, classes: Numbers) -> None:
        """Take in margins F (n, outputs) from before their events of these classes (n,)."""
        loops.learning.slopes(F, classes, *self.sums)

    @property
    def sums(self) -> tuple[float, float, Numbers]:
        """The factor, the bound of margins and the sums that loops take margins in by."""
        return self.factor, _FAR, self._now

    def close(self, n: int) -> None:
        """Take a step, after n events since the last one."""
        slope, curvature = self._now
        self._curvature = self._curvature * (1.0 - 1.0 / _MEMORY) ** n + float(curvature)
        moved = self.factor - float(slope) / max(self._curvature, 1e-3)
        moved = min(max(moved, 0.5 * self.factor), 2.0 * self.factor)
        self.factor = min(max(moved, LEAST), LARGEST)
        self._now = np.zeros(2)

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name."""
        known = np.array([self.factor, self._curvature, self._now[1]])
        return {"calibration": known, "calibration_slope": self._now[:1].copy()}

    def load(self, arrays: Mapping[str, Numbers], owner: str) -> None:
        """Take what `arrays` gave; raise StateError if an array is missing or does not fit."""
        found, _ = taken(_DECLARED, arrays, {}, owner)
        factor, self._curvature, curvature = found["calibration"].tolist()
        self.factor = min(max(factor, LEAST), LARGEST)
        self._now = np.array([found["calibration_slope"][0], curvature])


_DECLARED = (
    Declared("calibration", "float64", (3,), NON_NEGATIVE),
    Declared("calibration_slope", "float64", (1,)),
)


def inverse_temperature(F: Numbers, classes: Numbers) -> float:
    """Return the factor of margins with the least log loss (Guo et al. 2017, section 4.2).

    Labels count as if one event beside the n ones had been of another class (Platt 1999, section
    2.2): otherwise, where every class is right, no factor would be large enough.

    Margins F (n, outputs) are of events of these classes (n,), as numbers, that were not learned;
    one output f stands for (-f, f). The factor is from .01 to 100.
    """
    every = np.hstack([-F, F]) if F.shape[1] == 1 else F
    n, count = every.shape
    own = every[np.arange(n), classes.astype(np.int64)]
    margins = every - own[:, None]
    # Mean margin of the class that is meant over the one of the label, 0 but for Platt's event.
    other: float = margins.sum() / n / (count - 1) / (n + 2)

    def loss(logarithm: float) -> float:
        """Mean log loss, a convex function of the factor."""
        Z = math.exp(logarithm) * margins
        top = Z.max(axis=1)
        of_sum = top + np.log(np.exp(Z - top[:, None]).sum(axis=1))
        return float(of_sum.sum() / n - math.exp(logarithm) * other)

    low, high = math.log(LEAST), math.log(LARGEST)
    left, right = high - _SHARE * (high - low), low + _SHARE * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _SHARE * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _SHARE * (high - low)
            at_right = loss(right)
    return math.exp(0.5 * (low + high))
