"""Outputs that overflowed, and coefficients of a model whose classes grow or meet another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.common.classes import Label
from streamk.losses import Loss

Matrix = NDArray[np.float64]

_MOST = 1e300
"""Outputs are bounded by this: twice an output, and the difference of two, are numbers too."""
_MOST_SINGLE = 1e36


def bounded(F: NDArray[Any]) -> NDArray[Any]:
    """Return outputs or coefficients that are finite, those that overflowed being the largest.

    They are bounded by 1e300, in single precision by 1e36; no number is 0. An event whose output
    overflowed is not learned, so what is predicted of it is of little worth. But it is a number, by
    which whoever takes it can see that.

    Examples
    --------
    >>> bounded(np.array([[1.0, np.inf, -np.inf, np.nan]]))
    array([[ 1.e+000,  1.e+300, -1.e+300,  0.e+000]])
    """
    most = _MOST if F.dtype == np.float64 else _MOST_SINGLE
    if (np.abs(F) <= most).all():
        return F
    return np.asarray(np.clip(np.nan_to_num(F), -most, most))


def widened(W: Matrix, n_outputs: int, loss: Loss) -> Matrix:
    """Return coefficients with so many outputs, new ones 0, that say of old classes what W said.

    Examples
    --------
    >>> from streamk.losses import loss
    >>> widened(np.array([[2.0]]), 3, loss("logistic"))
    array([[-2.,  2.,  0.]])
    """
    if W.shape[1] == 1 < n_outputs and loss.name != "softmax":
        W = loss.split_binary(W[:, 0])
    return np.ascontiguousarray(np.pad(W, ((0, 0), (0, n_outputs - W.shape[1]))))


def aligned(
    W: Matrix, there: Sequence[Label], here: Sequence[Label], n_outputs: int, loss: Loss
) -> Matrix:
    """Return another model's coefficients with its outputs in this one's order.

    Parameters
    ----------
    W : float64 array of shape (n, outputs)
    there, here : sequence of labels
        The other's classes, and those of this one, which has all of them.
    n_outputs : int
        Of this one.
    loss : Loss

    Examples
    --------
    >>> from streamk.losses import loss
    >>> aligned(np.array([[2.0]]), ["a", "b"], ["b", "a"], 1, loss("logistic"))
    array([[-2.]])
    """
    if W.shape[1] == n_outputs == 1:
        # The one output stands for the second class, and that may be the other's first.
        swapped = there[1:2] != here[1:2] and there[:1] != here[:1]
        return -W if swapped else W
    if W.shape[1] == 1 and loss.name != "softmax":
        W = loss.split_binary(W[:, 0])
    there = there[: W.shape[1]]
    order = [there.index(label) if label in there else W.shape[1] for label in here]
    return np.ascontiguousarray(np.pad(W, ((0, 0), (0, 1)))[:, order])
