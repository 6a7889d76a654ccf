"""Step sizes of stochastic functional gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, shown


@dataclass(frozen=True)
class Step:
    """A step-size rule; `size` is gamma_t of Algorithm 1."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for option, value in vars(self).items():
            self._check(option, value)

    def _check(self, option: str, value: Any) -> None:
        """Raise InvalidInput unless a value is a positive number."""
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise InvalidInput(
                f"{option}={shown(value)} of {type(self).__name__} must be a positive number"
            )

    def settled(self, *, curvature: float, noise: float, events: int) -> Step:
        """Return the rule for a loss, features and mini-batches of so many events.

        See `InverseTime` and `Ladder`; others are as they are.
        """
        return self

    def size(self, t: int) -> float:
        """Return gamma_t for step t = 1, 2, ..."""
        raise NotImplementedError

    def rate(self, t: int) -> float:
        """Return the factor of the gradient in step t, gamma_t but for AdaGrad."""
        return self.size(t)

    def sizes(self, first: int, count: int) -> NDArray[np.float64]:
        """Return gamma_t of so many steps from t = `first` on, bit for bit as `size` does."""
        raise NotImplementedError

    def rates(self, first: int, count: int) -> NDArray[np.float64]:
        """Return the factors of the gradient in such steps, as `rate` does."""
        return self.sizes(first, count)

    def to_json(self) -> dict[str, Any]:
        """Return the rule as JSON data; `step_from_json` turns it back.

        >>> Constant(0.5).to_json()
        {'step': 'constant', 'gamma': 0.5}
        """
        return {"step": self.name, **vars(self)}


@dataclass(frozen=True)
class InverseTime(Step):
    """``gamma_t = theta / (t + offset)``, the rule of the theorems (Dai et al. 2014, Theorem 4).

    They ask for ``theta * regularization`` in (1, 2) or whole, and have no offset. Then the first
    steps are as long as theta, and f grows by powers of ten before it comes to rest.

    Parameters
    ----------
    theta : float
    offset : float, optional
        At least 0. By default `DoublyStochastic` takes one with which f does not grow (see
        `settled`), and the other learners 0.
    """

    name = "inverse-time"
    theta: float
    offset: float | None = None

    def __post_init__(self) -> None:
        offset = self.offset
        if offset is not None and not (isinstance(offset, int | float) and 0 <= offset < math.inf):
            raise InvalidInput(
                f"offset={shown(offset)} of InverseTime must be a number of at least 0"
            )
        self._check("theta", self.theta)

    def settled(self, *, curvature: float, noise: float, events: int) -> Step:
        """Return the rule with an offset: ``theta h + noise (theta h)^2`` unless one was given.

        With the first term the first step is no longer than that which meets an event's label. The
        second one bounds the noise of few random features: it makes E f^2 greater by a factor of
        some 1 + noise (gamma h)^2 a step, which the regularization's 1 - 2 gamma nu outweighs from
        the first step on, ``theta nu`` being above 1.

        The curvature h is a bound on that of the loss, times k(x, x); the noise is one over the
        features of a block times the events of a step.
        """
        if self.offset is not None:
            return self
        scale = self.theta * curvature
        return InverseTime(self.theta, offset=scale + noise * scale * scale)

    def size(self, t: int) -> float:
        """Return theta / (t + offset)."""
        return self.theta / (t + (self.offset or 0.0))

    def sizes(self, first: int, count: int) -> NDArray[np.float64]:
        """Return theta / (t + offset) of so many steps from t = `first` on."""
        times = np.arange(first, first + count, dtype=np.float64)
        return np.asarray(self.theta / (times + (self.offset or 0.0)))


@dataclass(frozen=True)
class Constant(Step):
    """``gamma_t = gamma``.

    Parameters
    ----------
    gamma : float
    """

    name = "constant"
    gamma: float

    def size(self, t: int) -> float:
        """Return gamma."""
        return self.gamma

    def sizes(self, first: int, count: int) -> NDArray[np.float64]:
        """Return gamma for each of so many steps."""
        return np.full(count, self.gamma, np.float64)


@dataclass(frozen=True)
class AdaGrad(Step):
    """A step for each coefficient: gamma over the root of its summed squared gradients.

    The gradient g is summed over the outputs' losses of a mini-batch's mean, before the division
    by the number of features in the block: ``coefficient -= gamma / m * g / (sqrt(sum g^2) +
    1e-8)``. The decay of regularisation uses ``gamma / sqrt(t)``. It doubles the model's memory,
    and a coefficient profits only when its feature is visited again.

    Parameters
    ----------
    gamma : float
    """

    name = "adagrad"
    gamma: float

    def size(self, t: int) -> float:
        """Return gamma / sqrt(t), which only the decay of regularisation uses."""
        return self.gamma / math.sqrt(t)

    def sizes(self, first: int, count: int) -> NDArray[np.float64]:
        """Return gamma / sqrt(t) of so many steps from t = `first` on."""
        return self.gamma / np.sqrt(np.arange(first, first + count, dtype=np.float64))

    def rates(self, first: int, count: int) -> NDArray[np.float64]:
        """Return gamma for each of so many steps."""
        return np.full(count, self.gamma, np.float64)

    def rate(self, t: int) -> float:
        """Return gamma: the rest of the step size is each coefficient's own."""
        return self.gamma


@dataclass(frozen=True)
class Ladder(Step):
    """Constant sizes side by side, for streams of which no good size is known.

    Each size has coefficients of its own, of the same random features; those with the least loss on
    recent events predict (follow the leader). See
    `streamk.learners.doubly_stochastic.several_steps`.

    Parameters
    ----------
    gammas : tuple of float, optional
        Up to 16 sizes. By default a factor 4 apart, see `settled`.
    """

    name = "ladder"
    gammas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.gammas, tuple) or len(self.gammas) > _MOST_RUNGS:
            raise InvalidInput(
                f"gammas={shown(self.gammas)} of Ladder must be a tuple of up to"
                f" {_MOST_RUNGS} numbers"
            )
        for gamma in self.gammas:
            self._check("gammas", gamma)

    def settled(self, *, curvature: float, noise: float, events: int) -> Step:
        """Return the rule with its sizes, those of ``4^k / curvature`` unless some were given.

        The step of 1 / curvature meets an event's label. Three sizes are smaller, for noise. The
        gradient of a mini-batch of `events` is their mean, so larger sizes up to `events` times as
        much can be of use. A mini-batch that is not whole counts as if its other events had no
        gradient, so that these sizes are not too large for it.
        """
        if self.gammas:
            return self
        rungs = [0, -1, -2, -3, *range(1, min(_MOST_RUNGS - 4, int(math.log2(events) / 2)) + 1)]
        return Ladder(tuple(4.0**k / curvature for k in rungs))


_MOST_RUNGS = 16
_STEPS: dict[str, type[Step]] = {
    step.name: step for step in (InverseTime, Constant, AdaGrad, Ladder)
}


def step_from_json(data: dict[str, Any]) -> Step:
    """Make the rule that `Step.to_json` described.

    >>> step_from_json({"step": "inverse-time", "theta": 2.0, "offset": 4.0})
    InverseTime(theta=2.0, offset=4.0)
    """
    options = dict(data)
    kind = _STEPS[options.pop("step")]
    if kind is Ladder:
        options["gammas"] = tuple(options["gammas"])
    return kind(**options)
