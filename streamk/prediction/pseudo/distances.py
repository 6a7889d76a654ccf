"""Euclidean distances, and kernels as functions of them."""

from __future__ import annotations

import numpy as np

from streamk.kernels import Kernel, RationalQuadratic
from streamk.landmarks.matrices import Numbers

_BANDWIDTH = 1e-75
_INVERSE_DISTANCE = RationalQuadratic(alpha=0.5, bandwidth=_BANDWIDTH)
"""Of so small a bandwidth it is 1e-75 over the distance, with all digits, as it comes out of the
differences of columns; a row has the same bits in whatever batch it comes."""


def is_radial(kernel: Kernel) -> bool:
    """Return whether a kernel is a function of the Euclidean distance alone."""
    return kernel.isotropic and kernel.shift_invariant


def distances(X: Numbers, Y: Numbers) -> Numbers:
    """Return the Euclidean distances between the rows of X (n, d) and Y (m, d), (n, m).

    Those of equal points are 1e-75. They are sound for values of points up to 1e50.
    """
    found: Numbers = _BANDWIDTH / _INVERSE_DISTANCE.pairwise(X, Y)
    return found


def at_distances(kernel: Kernel, D: Numbers) -> Numbers:
    """Return the values of a radial kernel at distances, in an array of their shape."""
    # Points of one column, at these distances from 0. As second points they lie in vectors.
    values: Numbers = kernel.pairwise(np.zeros((1, 1)), D.reshape(-1, 1))
    return values.reshape(D.shape)
