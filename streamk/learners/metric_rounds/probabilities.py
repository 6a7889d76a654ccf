"""Probabilities of classes from the margins of squared loss, by an inverse temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.common.calibration import LARGEST, LEAST
from streamk.learners.metric_rounds.weights import Weights, mean_error
from streamk.losses import softmax

Numbers = NDArray[Any]

_STEPS = 60
"""Of golden sections: the interval's logarithm is then 1e-12 wide."""
_SHARE = (math.sqrt(5.0) - 1.0) / 2.0


def probabilities(F: Numbers, factor: float) -> Numbers:
    """Return ``softmax(factor F)``.

    Parameters
    ----------
    F : float64 array of shape (n, outputs)
        Margins, near 1 for the class and -1 for others; one output stands for (-f, f).
    factor : float
        The inverse temperature.

    Returns
    -------
    float64 array of shape (n, classes)

    Examples
    --------
    >>> probabilities(np.array([[0.5]]), 2.0).round(3)
    array([[0.119, 0.881]])
    """
    return softmax(factor * _of_each_class(F))


def inverse_temperature(F: Numbers, classes: Numbers, weights: Weights = None) -> float:
    """Return the factor of margins with the least log loss (Guo et al. 2017, section 4.2).

    Labels count as if one event beside the n ones had been of another class (Platt 1999, section
    2.2): otherwise, where every class is right, no factor would be large enough.

    Parameters
    ----------
    F : float64 array of shape (n, outputs)
        Margins of events that were not learned.
    classes : array of shape (n,)
        Numbers of their classes.
    weights : float64 array of shape (n,), optional
        How much each event counts, relative to the mean of all.

    Returns
    -------
    float
        .01 to 100.

    Examples
    --------
    >>> F, classes = np.array([[1.0]] * 300 + [[-1.0]]), np.array([1] * 200 + [0] * 101)
    >>> round(inverse_temperature(F, classes), 2)
    0.35
    """
    every = _of_each_class(F)
    n, count = every.shape
    own = every[np.arange(n), classes.astype(np.int64)]
    margins = every - own[:, None]
    # Mean margin of the class that is meant over the one of the label, 0 but for Platt's event.
    other: float = mean_error(margins, weights) / (count - 1) / (n + 2)

    def loss(logarithm: float) -> float:
        """Mean log loss, a convex function of the factor."""
        Z = math.exp(logarithm) * margins
        top = Z.max(axis=1)
        of_sum = top + np.log(np.exp(Z - top[:, None]).sum(axis=1))
        return mean_error(of_sum[:, None], weights) - math.exp(logarithm) * other

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


def _of_each_class(F: Numbers) -> Numbers:
    """Return margins of each class (n, classes), where one output f stands for (-f, f)."""
    return np.hstack([-F, F]) if F.shape[1] == 1 else F
