"""Step sizes of stochastic functional gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput


@dataclass(frozen=True)
class Step:
    """A step-size rule; `size` is gamma_t of Algorithm 1."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for option, value in vars(self).items():
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise InvalidInput(
                    f"{option}={value!r} of {type(self).__name__} must be a positive number"
                )

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
    """``gamma_t = theta / t``, the rule of the paper's theorems (Dai et al. 2014, Theorem 4).

    They ask for ``theta * regularization`` in (1, 2) or whole.

    Parameters
    ----------
    theta : float
    """

    name = "inverse-time"
    theta: float

    def size(self, t: int) -> float:
        """Return theta / t."""
        return self.theta / t

    def sizes(self, first: int, count: int) -> NDArray[np.float64]:
        """Return theta / t of so many steps from t = `first` on."""
        return self.theta / np.arange(first, first + count, dtype=np.float64)


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


_STEPS: dict[str, type[Step]] = {step.name: step for step in (InverseTime, Constant, AdaGrad)}


def step_from_json(data: dict[str, Any]) -> Step:
    """Make the rule that `Step.to_json` described.

    >>> step_from_json({"step": "inverse-time", "theta": 2.0})
    InverseTime(theta=2.0)
    """
    options = dict(data)
    return _STEPS[options.pop("step")](**options)
