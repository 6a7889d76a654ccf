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
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput, shown

Scores = NDArray[np.float64]


class LossCode(IntEnum):
    """Integer code of a loss."""

    SQUARED = 0
    HINGE = 1
    SQUARED_HINGE = 2
    LOGISTIC = 3
    SOFTMAX = 4
    HUBER = 5
    EPSILON_INSENSITIVE = 6
    QUANTILE = 7


@dataclass(frozen=True)
class LossKind:
    """The description of a loss.

    Attributes
    ----------
    about : str
        A line for `streamk models`.
    classifies, regresses : bool
        Whether labels can be classes, and numbers.
    parameter, meaning : str
        The name of its parameter, "" without, and a few words about it.
    default : float
        Of the parameter.
    curvature : (float, float), or None
        Largest second derivative of one output and of several; None where there is none.
    """

    about: str
    classifies: bool = True
    regresses: bool = False
    parameter: str = ""
    meaning: str = ""
    default: float = 0.0
    curvature: tuple[float, float] | None = None


KINDS: dict[LossCode, LossKind] = {
    LossCode.SQUARED: LossKind("½ (f-y)², classes and numbers", True, True, curvature=(1.0, 1.0)),
    LossCode.HINGE: LossKind("max(0, 1 - y f), classes"),
    LossCode.SQUARED_HINGE: LossKind("½ max(0, 1 - y f)², classes", curvature=(1.0, 2.0)),
    LossCode.LOGISTIC: LossKind(
        "log(1 + exp(-y f)), classes; each against the others", curvature=(0.25, 0.25)
    ),
    LossCode.SOFTMAX: LossKind(
        "cross entropy of all classes; the default for classes", curvature=(0.5, 0.5)
    ),
    LossCode.HUBER: LossKind(
        "squared up to delta, linear beyond: numbers with outliers",
        *(False, True, "delta", "in standard deviations of the label", 1.0),
        curvature=(1.0, 1.0),
    ),
    LossCode.EPSILON_INSENSITIVE: LossKind(
        "max(0, |f-y| - epsilon), numbers",
        *(False, True, "epsilon", "likewise", 0.1),
    ),
    LossCode.QUANTILE: LossKind(
        "the quantile q instead of the mean, numbers",
        *(False, True, "q", "between 0 and 1", 0.5),
    ),
}
LOSSES = tuple(code.name.lower() for code in LossCode)
"""Names of all losses."""


@dataclass(frozen=True)
class Loss:
    """A loss: `code` and, where it has one, its `parameter`. Made by `loss`.

    Attributes
    ----------
    code : LossCode
    parameter : float
        ``delta`` of huber, ``epsilon`` of epsilon_insensitive, ``q`` of quantile, 0 otherwise; in
        the unit of the label, except that q is a probability.
    """

    code: LossCode
    parameter: float = 0.0

    @property
    def kind(self) -> LossKind:
        """The description of the loss."""
        return KINDS[self.code]

    @property
    def name(self) -> str:
        """The loss's name, as `loss` takes it."""
        return self.code.name.lower()

    @property
    def classifies(self) -> bool:
        """True if labels can be classes."""
        return self.kind.classifies

    @property
    def regresses(self) -> bool:
        """True if labels can be numbers."""
        return self.kind.regresses

    def n_outputs(self, n_classes: int) -> int:
        """Return the number of outputs for so many classes (0 classes: regression)."""
        if self.code == LossCode.SOFTMAX:
            return n_classes
        return n_classes if n_classes > 2 else 1

    def split_binary(self, f: NDArray[Any]) -> NDArray[Any]:
        """Turn the output of a two-class model into the first two of several, on the last axis.

        The losses measured against -1/+1 keep f for the second class and take -f for the first;
        a Crammer-Singer margin is the difference of two outputs, so each gets half.
        """
        half = 0.5 if self.code in (LossCode.HINGE, LossCode.SQUARED_HINGE) else 1.0
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
        if self.code == LossCode.SOFTMAX:
            top = F.max(axis=1)
            chosen = F[np.arange(len(F)), y.astype(np.intp)]
            return np.asarray(np.log(np.exp(F - top[:, None]).sum(axis=1)) + top - chosen)
        if self._has_margins(F):
            violation = np.maximum(_crammer_singer(F, y)[0], 0.0)
            return violation if self.code == LossCode.HINGE else 0.5 * violation**2
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
        if self.code == LossCode.SOFTMAX:
            slopes = softmax(F)
            slopes[rows, y.astype(np.intp)] -= 1.0
            return slopes
        if self._has_margins(F):
            margin, best = _crammer_singer(F, y)
            slope = (margin > 0) * (1.0 if self.code == LossCode.HINGE else margin)
            slopes = np.zeros(F.shape)
            slopes[rows, y.astype(np.intp)] -= slope
            slopes[rows, best] += slope
            return slopes
        return _slopes(self.code, self.parameter, F, _targets(F, y))

    def _has_margins(self, F: Scores) -> bool:
        """Return whether the true class is measured against the best other one."""
        return self.code in (LossCode.HINGE, LossCode.SQUARED_HINGE) and F.shape[1] > 1

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
        if self.code == LossCode.SOFTMAX:
            return softmax(F)
        sharpness = 1.0 if self.code == LossCode.LOGISTIC else 2.0
        if F.shape[1] == 1:
            p = sigmoid(sharpness * F)
            return np.concatenate([1.0 - p, p], axis=1)
        if self.code == LossCode.LOGISTIC:
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
        parameter = {self.kind.parameter: self.parameter} if self.kind.parameter else {}
        return {"name": self.name, **parameter}


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
    code = LossCode[name.upper()]
    key = KINDS[code].parameter
    value = parameter.pop(key, KINDS[code].default)
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
        case LossCode.SQUARED:
            return r
        case LossCode.HINGE:
            return -Y * (Y * F < 1.0)
        case LossCode.SQUARED_HINGE:
            return -Y * np.maximum(0.0, 1.0 - Y * F)
        case LossCode.LOGISTIC:
            return -Y * sigmoid(-Y * F)
        case LossCode.HUBER:
            return np.clip(r, -p, p)
        case LossCode.EPSILON_INSENSITIVE:
            return np.asarray(np.sign(r) * (np.abs(r) > p))
        case _:
            return np.where(r > 0, 1.0 - p, np.where(r < 0, -p, 0.0))


def _values(code: int, p: float, F: Scores, Y: NDArray[np.float64]) -> NDArray[np.float64]:
    r = F - Y
    match code:
        case LossCode.SQUARED:
            return 0.5 * r * r
        case LossCode.HINGE:
            return np.maximum(0.0, 1.0 - Y * F)
        case LossCode.SQUARED_HINGE:
            return 0.5 * np.maximum(0.0, 1.0 - Y * F) ** 2
        case LossCode.LOGISTIC:
            return np.logaddexp(0.0, -Y * F)
        case LossCode.HUBER:
            a = np.abs(r)
            return np.where(a <= p, 0.5 * r * r, p * (a - 0.5 * p))
        case LossCode.EPSILON_INSENSITIVE:
            return np.maximum(0.0, np.abs(r) - p)
        case _:
            return np.maximum(-p * r, (1.0 - p) * r)
