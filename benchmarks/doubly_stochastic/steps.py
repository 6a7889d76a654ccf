"""The rules of step sizes that this benchmark uses, chosen in this one place.

The paper's theorems have ``gamma_t = theta / t``; its code starts slower.
"""

from __future__ import annotations

from streamk.learners.common.steps import InverseTime, Step


def inverse_time(theta: float, t0: float = 0.0) -> Step:
    """Return the rule ``theta / (t + t0)``; `t0` 0 is that of the theorems."""
    return InverseTime(theta, offset=t0)


def default(theta: float) -> Step:
    """Return the learner's own rule with the offset that it has by default."""
    return InverseTime(theta)


def decreasing(first: float, steps: float) -> Step:
    """Return ``first / (1 + 10 t / steps)``: of so many steps the last is an eleventh of `first`.

    The authors' code has such steps, too, which do not depend on the regularization.
    """
    return inverse_time(first * steps / 10.0, steps / 10.0)
