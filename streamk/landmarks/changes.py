"""Changes of the landmarks, and of a function in their span."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops

Matrix = NDArray[np.float64]


class Admission(NamedTuple):
    """A landmark was added: the coordinates got a new one at their end."""


class Removal(NamedTuple):
    """A landmark was removed, and the span of the landmarks lost a direction.

    The coordinates from `position` on were rotated, each with the next, and the last one dropped.
    """

    position: int
    cosines: Matrix
    sines: Matrix


Change = Admission | Removal


def carried(W: Matrix, change: Change) -> Matrix:
    """Return what coefficients become when the landmarks change.

    The function ``W' phi(x)`` stays the same at an admission, and becomes its projection on the
    span of the landmarks that are left at a removal.

    Parameters
    ----------
    W : array of shape (l, outputs)
        Coefficients of the coordinates, as `IncrementalOasis.transform` returns them.
    change : Admission or Removal

    Returns
    -------
    array of shape (l + 1, outputs) or (l - 1, outputs)

    Examples
    --------
    >>> import numpy as np
    >>> carried(np.array([[2.0]]), Admission())
    array([[2.],
           [0.]])
    """
    if isinstance(change, Admission):
        return np.vstack([W, np.zeros((1, W.shape[1]))])
    V = np.array(W, dtype=np.float64, order="C")
    loops.coordinates.rotate(V, change.position, change.cosines, change.sines)
    return V[:-1]
