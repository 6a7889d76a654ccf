"""The learner's rules of step sizes that this benchmark uses, chosen in this one place.

The paper's theorems have ``gamma_t = theta / t``; its code starts slower. `inverse_time` is
``theta / (t + t0)``: the learner's own rule where that has an offset, else the same rule here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.learners.common.steps import InverseTime, Step


@dataclass(frozen=True)
class Delayed(Step):
    """``gamma_t = theta / (t + t0)``."""

    name = "delayed"
    theta: float
    t0: float

    def __post_init__(self) -> None:
        if not (self.theta > 0.0 and self.t0 >= 0.0):
            raise InvalidInput(f"theta={self.theta} is above 0, and t0={self.t0} not below")

    def size(self, t: int) -> float:
        """Return theta / (t + t0)."""
        return self.theta / (t + self.t0)

    def sizes(self, first: int, count: int) -> NDArray[np.float64]:
        """Return theta / (t + t0) of so many steps from t = `first` on."""
        times = np.arange(first, first + count, dtype=np.float64)
        return np.asarray(self.theta / (times + self.t0))


def _offsets() -> list[str]:
    """Names of the offset of the learner's rule; none where it has no offset."""
    return [field.name for field in dataclasses.fields(InverseTime) if field.name != "theta"]


def inverse_time(theta: float, t0: float = 0.0) -> Step:
    """Return the rule ``theta / (t + t0)``; `t0` 0 is that of the theorems."""
    options: dict[str, Any] = dict.fromkeys(_offsets(), t0)
    if options:
        try:
            return InverseTime(theta, **options)
        except InvalidInput:
            return Delayed(theta, t0)
    return Delayed(theta, t0) if t0 else InverseTime(theta)


def default(theta: float) -> Step | None:
    """Return the learner's own rule with the offset that it has by default; None without one."""
    return InverseTime(theta) if _offsets() else None


def decreasing(first: float, steps: float) -> Step:
    """Return ``first / (1 + 10 t / steps)``: of so many steps the last is an eleventh of `first`.

    The authors' code has such steps, too, which do not depend on the regularization.
    """
    return inverse_time(first * steps / 10.0, steps / 10.0)
