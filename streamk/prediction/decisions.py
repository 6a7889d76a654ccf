"""Weights of classes, by which a model's decisions follow from its probabilities.

The class with the largest product of weight and probability is the decision: a weight is what it
costs to miss the class (Elkan 2001), and of two classes any threshold is such a weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["agreement", "weights_of"]

Numbers = NDArray[Any]
Places = NDArray[np.intp]

_ROUNDS = 20
"""In which each class has its weight moved, at most."""
_MOST = 1e150
"""Weight over another one, at most."""


def agreement(P: Numbers, weights: Numbers, decided: Places) -> float:
    """Return the share of decisions (n,) that weights (classes,) of P (n, classes) explain."""
    return float(np.mean((P * weights).argmax(axis=1) == decided))


def weights_of(P: Numbers, decided: Places) -> Numbers:
    """Return the weights of classes that explain most decisions.

    Each class in turn gets the weight with which most events are decided as they were, in the
    middle of all that do as well; where 1 does, it stays.

    Parameters
    ----------
    P : float64 array of shape (n, classes)
        Probabilities.
    decided : int array of shape (n,)
        The place of the class that was decided on.

    Returns
    -------
    float64 array of shape (classes,)

    Examples
    --------
    >>> P = np.array([[0.95, 0.05], [0.85, 0.15], [0.8, 0.2]])
    >>> weights = weights_of(P, np.array([0, 1, 1]))  # by a threshold of 0.1
    >>> (P * weights).argmax(axis=1)
    array([0, 1, 1])
    """
    weights = np.ones(P.shape[1])
    explained = agreement(P, weights, decided)
    for _ in range(_ROUNDS):
        wrong = (P * weights).argmax(axis=1) != decided
        for k in np.union1d(decided[wrong], (P[wrong] * weights).argmax(axis=1)).tolist():
            weights[k] = _weight(P, weights, decided, k)
        before, explained = explained, agreement(P, weights, decided)
        if explained <= before:
            break
    return weights


def _weight(P: Numbers, weights: Numbers, decided: Places, k: int) -> float:
    """Return the weight of class k with which most events are decided as they were."""
    others = P * weights
    others[:, k] = 0.0
    best = others.argmax(axis=1)
    # The class is chosen where its weight is above this. Without a probability it never is.
    given = P[:, k] > 0.0
    with np.errstate(over="ignore"):
        least = np.clip(others[given].max(axis=1) / P[given, k], 1.0 / _MOST, _MOST)
    gains = np.where(decided == k, 1, np.where(best == decided, -1, 0))[given]
    order = np.argsort(least)
    edges = np.concatenate([[0.0], least[order], [np.inf]])
    right = np.concatenate([[0], np.cumsum(gains[order])])
    right[edges[:-1] == edges[1:]] = -len(P)  # no weight is between the two
    places = np.flatnonzero(right == right.max())
    low, high = edges[places], edges[places + 1]
    if ((low < weights[k]) & (weights[k] <= high)).any():
        return float(weights[k])
    # Neighbours that do as well are one; the widest is the surest.
    first = np.concatenate([[True], low[1:] != high[:-1]])
    low, high = low[first], high[np.concatenate([first[1:], [True]])]
    widest = int(np.argmax(np.minimum(high, _MOST) / np.maximum(low, 1.0 / _MOST)))
    return _middle(float(low[widest]), float(high[widest]))


def _middle(low: float, high: float) -> float:
    if np.isinf(high):
        return 2.0 * low
    return 0.5 * high if low == 0.0 else float(np.sqrt(low * high))
