"""Losses l(f, y) and their (sub)gradients in the prediction f, binary, multi-class and regression.

A classification loss sees the labels as class indices. With two classes there is one output f and
y = -1 for the first class, +1 for the second; softmax has one output a class always. With more
classes, ``squared`` and ``logistic`` measure every output against its own -1/+1, and the hinges are
those of Crammer and Singer: the margin is that of the true class over the best other one.
At a kink the subgradient is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LossCode as Code
from streamk.errors import InvalidInput, shown

Scores = NDArray[np.float64]


_CLASSIFICATION = (Code.SQUARED, Code.HINGE, Code.SQUARED_HINGE, Code.LOGISTIC, Code.SOFTMAX)
_REGRESSION = (Code.SQUARED, Code.HUBER, Code.EPSILON_INSENSITIVE, Code.QUANTILE)
_PARAMETERS = {
    Code.HUBER: ("delta", 1.0),
    Code.EPSILON_INSENSITIVE: ("epsilon", 0.1),
    Code.QUANTILE: ("q", 0.5),
}
LOSSES = tuple(code.name.lower() for code in Code)
"""Names of all losses."""


@dataclass(frozen=True)
class Loss:
    """A loss: `code` and, where it has one, its `parameter`. Made by `loss`.

    Attributes
    ----------
    code : Code
    parameter : float
        ``delta`` of huber, ``epsilon`` of epsilon_insensitive, ``q`` of quantile, 0 otherwise; in
        the unit of the label, except that q is a probability.
    """

    code: Code
    parameter: float = 0.0

    @property
    def name(self) -> str:
        """The loss's name, as `loss` takes it."""
        return self.code.name.lower()

    @property
    def classifies(self) -> bool:
        """True if labels can be classes."""
        return self.code in _CLASSIFICATION

    @property
    def regresses(self) -> bool:
        """True if labels can be numbers."""
        return self.code in _REGRESSION

    def n_outputs(self, n_classes: int) -> int:
        """Return the number of outputs for so many classes (0 classes: regression)."""
        if self.code == Code.SOFTMAX:
            return n_classes
        return n_classes if n_classes > 2 else 1

    def split_binary(self, f: NDArray[Any]) -> NDArray[Any]:
        """Turn the output of a two-class model into the first two of several, on the last axis.

        The losses measured against -1/+1 keep f for the second class and take -f for the first;
        a Crammer-Singer margin is the difference of two outputs, so each gets half.
        """
        half = 0.5 if self.code in (Code.HINGE, Code.SQUARED_HINGE) else 1.0
        return np.stack([-half * f, half * f], axis=-1)

    def value(self, F: Scores, y: NDArray[Any]) -> NDArray[np.float64]:
        """Loss of each event.

        Parameters
        ----------
        F : float array of shape (n, n_outputs)
        y : int array of class indices or float array of labels, shape (n,)

        Returns
        -------
        float64 array of shape (n,)

        Examples
        --------
        >>> import numpy as np
        >>> loss("huber", delta=1.0).value(np.array([[0.5], [3.0]]), np.array([0.0, 0.0]))
        array([0.125, 2.5  ])
        """
        F = np.asarray(F, dtype=np.float64)
        if self.code == Code.SOFTMAX:
            top = F.max(axis=1)
            chosen = F[np.arange(len(F)), y.astype(np.intp)]
            return np.asarray(np.log(np.exp(F - top[:, None]).sum(axis=1)) + top - chosen)
        if self._has_margins(F):
            violation = np.maximum(_crammer_singer(F, y)[0], 0.0)
            return violation if self.code == Code.HINGE else 0.5 * violation**2
        return np.asarray(_values(self.code, self.parameter, F, _targets(F, y)).sum(axis=1))

    def gradient(self, F: Scores, y: NDArray[Any]) -> NDArray[np.float64]:
        """(Sub)gradient of each event's loss in its outputs.

        Parameters
        ----------
        F : float array of shape (n, n_outputs)
        y : int array of class indices or float array of labels, shape (n,)

        Returns
        -------
        float64 array of shape (n, n_outputs)

        Examples
        --------
        >>> import numpy as np
        >>> loss("hinge").gradient(np.array([[0.5], [3.0]]), np.array([1, 1]))
        array([[-1.],
               [-0.]])
        """
        F = np.asarray(F, dtype=np.float64)
        rows = np.arange(len(F))
        if self.code == Code.SOFTMAX:
            slopes = softmax(F)
            slopes[rows, y.astype(np.intp)] -= 1.0
            return slopes
        if self._has_margins(F):
            margin, best = _crammer_singer(F, y)
            slope = (margin > 0) * (1.0 if self.code == Code.HINGE else margin)
            slopes = np.zeros(F.shape)
            slopes[rows, y.astype(np.intp)] -= slope
            slopes[rows, best] += slope
            return slopes
        return _slopes(self.code, self.parameter, F, _targets(F, y))

    def _has_margins(self, F: Scores) -> bool:
        """Return whether the true class is measured against the best other one."""
        return self.code in (Code.HINGE, Code.SQUARED_HINGE) and F.shape[1] > 1

    def probabilities(self, F: Scores) -> NDArray[np.float64]:
        """Class probabilities from outputs, rows summing to 1.

        Softmax and logistic are the model's own; several logistic outputs are normalised to sum
        to 1. The other losses estimate no probability: theirs is the logistic function of twice
        the margin, an uncalibrated but monotone score.

        Parameters
        ----------
        F : float array of shape (n, n_outputs)

        Returns
        -------
        float64 array of shape (n, n_classes)
        """
        F = np.asarray(F, dtype=np.float64)
        if self.code == Code.SOFTMAX:
            return softmax(F)
        sharpness = 1.0 if self.code == Code.LOGISTIC else 2.0
        if F.shape[1] == 1:
            p = sigmoid(sharpness * F)
            return np.concatenate([1.0 - p, p], axis=1)
        if self.code == Code.LOGISTIC:
            p = sigmoid(F)
            # All sigmoids can underflow together; softmax is their ratio there.
            total = p.sum(axis=1, keepdims=True)
            return np.where(total > 1e-30, p / np.maximum(total, 1e-30), softmax(F))
        return softmax(sharpness * F)

    def to_json(self) -> dict[str, Any]:
        """Return the loss as JSON data; ``loss(**data)`` turns it back.

        >>> loss("quantile", q=0.9).to_json()
        {'name': 'quantile', 'q': 0.9}
        """
        if self.code in _PARAMETERS:
            return {"name": self.name, _PARAMETERS[self.code][0]: self.parameter}
        return {"name": self.name}


def loss(name: str, **parameter: float) -> Loss:
    """Make a loss by its name.

    Parameters
    ----------
    name : str
        One of `LOSSES`.
    **parameter : float
        ``delta=1.0`` of huber, ``epsilon=0.1`` of epsilon_insensitive, ``q=0.5`` of quantile.

    Raises
    ------
    InvalidInput
        If there is no such loss, it has no such parameter or the value is out of range.

    Examples
    --------
    >>> loss("quantile", q=0.9).name
    'quantile'
    """
    if name not in LOSSES:
        raise InvalidInput(f"no loss is called {name!r}; there are {', '.join(LOSSES)}")
    code = Code[name.upper()]
    key, value = _PARAMETERS.get(code, ("", 0.0))
    value = parameter.pop(key, value)
    if not isinstance(value, int | float):
        raise InvalidInput(f"{key}={shown(value)} of loss {name!r} must be a number")
    if parameter:
        takes = f"{key}=" if key else "no parameter"
        raise InvalidInput(f"loss {name!r} takes {takes}, not {', '.join(sorted(parameter))}")
    if key == "q" and not 0 < value < 1:
        raise InvalidInput(f"q={shown(value)} of loss 'quantile' must lie between 0 and 1")
    if not math.isfinite(value) or value < 0 or (key == "delta" and value == 0):
        raise InvalidInput(f"{key}={shown(value)} of loss {name!r} must be a positive number")
    return Loss(code, value)


def softmax(F: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of each row of a float64 array of shape (n, k)."""
    E = np.exp(F - F.max(axis=1, keepdims=True))
    return np.asarray(E / E.sum(axis=1, keepdims=True))


def sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic function, with one exponential of a negative number: no overflow at either end."""
    e = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, e) / (1.0 + e))


def _targets(F: Scores, y: NDArray[Any]) -> NDArray[np.float64]:
    """Return what each output is measured against: y itself, or -1/+1 for class numbers."""
    if not np.issubdtype(y.dtype, np.integer):
        return np.asarray(y, dtype=np.float64)[:, None]
    if F.shape[1] == 1:
        return np.asarray(2.0 * y[:, None] - 1.0)
    T = np.full(F.shape, -1.0)
    T[np.arange(len(F)), y.astype(np.intp)] = 1.0
    return T


def _crammer_singer(F: Scores, y: NDArray[Any]) -> tuple[Scores, NDArray[np.intp]]:
    """Return 1 + (best other output) - (true output), and the number of the best other."""
    rows, true = np.arange(len(F)), y.astype(np.intp)
    others = F.copy()
    others[rows, true] = -np.inf
    best = others.argmax(axis=1)
    return 1.0 + F[rows, best] - F[rows, true], best


def _slopes(code: int, p: float, F: Scores, Y: NDArray[np.float64]) -> NDArray[np.float64]:
    r = F - Y
    match code:
        case Code.SQUARED:
            return r
        case Code.HINGE:
            return -Y * (Y * F < 1.0)
        case Code.SQUARED_HINGE:
            return -Y * np.maximum(0.0, 1.0 - Y * F)
        case Code.LOGISTIC:
            return -Y * sigmoid(-Y * F)
        case Code.HUBER:
            return np.clip(r, -p, p)
        case Code.EPSILON_INSENSITIVE:
            return np.asarray(np.sign(r) * (np.abs(r) > p))
        case _:
            return np.where(r > 0, 1.0 - p, np.where(r < 0, -p, 0.0))


def _values(code: int, p: float, F: Scores, Y: NDArray[np.float64]) -> NDArray[np.float64]:
    r = F - Y
    match code:
        case Code.SQUARED:
            return 0.5 * r * r
        case Code.HINGE:
            return np.maximum(0.0, 1.0 - Y * F)
        case Code.SQUARED_HINGE:
            return 0.5 * np.maximum(0.0, 1.0 - Y * F) ** 2
        case Code.LOGISTIC:
            return np.logaddexp(0.0, -Y * F)
        case Code.HUBER:
            a = np.abs(r)
            return np.where(a <= p, 0.5 * r * r, p * (a - 0.5 * p))
        case Code.EPSILON_INSENSITIVE:
            return np.maximum(0.0, np.abs(r) - p)
        case _:
            return np.maximum(-p * r, (1.0 - p) * r)
