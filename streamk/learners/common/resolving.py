"""Coefficients of features solved for all events of a buffer at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import LossCode
from streamk.losses import Loss

Matrix = NDArray[np.float64]

RIDGE = 1.0
"""Factor of half the squared norm of what is solved for, beside the sum of losses: that of errors
as large as the function where nothing is known of either."""
_ITERATIONS = 12
_BOUNDS = {
    LossCode.SQUARED: (1.0, 1.0),
    LossCode.HUBER: (1.0, 1.0),
    LossCode.LOGISTIC: (0.25, 0.25),
    LossCode.SOFTMAX: (0.5, 0.5),
    LossCode.SQUARED_HINGE: (1.0, 2.0),
}
"""Bounds of the curvature of losses in a direction of the outputs: of one output, of several."""


def curvature(loss: Loss, n_outputs: int) -> float | None:
    """Return a bound on the curvature of a loss in its outputs, None where it has none.

    Examples
    --------
    >>> from streamk.losses import loss
    >>> curvature(loss("logistic"), 1), curvature(loss("hinge"), 1)
    (0.25, None)
    """
    bounds = _BOUNDS.get(loss.code)
    return bounds and bounds[n_outputs > 1]


def projected(Phi: Matrix, F: Matrix, ridge: float) -> Matrix:
    """Return coefficients W (l, outputs) that make ``Phi W`` most like F (n, outputs).

    It is the least ``|Phi W - F|^2 + ridge |W|^2``.
    """
    A = Phi.T @ Phi
    A[np.diag_indices_from(A)] += ridge
    return np.asarray(scipy.linalg.cho_solve(_factor(A), Phi.T @ F, check_finite=False))


def _factor(A: Matrix) -> tuple[NDArray[Any], bool]:
    """Return what `cho_solve` takes of a positive definite matrix.

    NumPy's factorization lets go of the interpreter, which SciPy's keeps from the thread that
    learns, for some tenths of a second where A is large.
    """
    return np.linalg.cholesky(A), True


def resolved(
    loss: Loss, Phi: Matrix, y: NDArray[Any], weights: Matrix, W: Matrix, prior: Matrix
) -> tuple[Matrix, Matrix]:
    """Return the coefficients of least loss on events, and the curvature matrix of that.

    The least ``sum of weights l(Phi W, y) + tr (W - W0)' prior (W - W0) / 2`` is searched for by
    steps of a bound on the curvature (Böhning and Lindsay 1988), with Nesterov's momentum; with
    squared loss the first is there.

    Parameters
    ----------
    loss : Loss
        One with a curvature.
    Phi : array of shape (n, l)
    y : int array of class numbers or float array, shape (n,)
    weights : array of shape (n,)
    W : array of shape (l, outputs)
        W0.
    prior : array of shape (l, l)

    Returns
    -------
    W (l, outputs) and ``sum of weights h phi phi' + prior`` with the bound h, (l, l)
    """
    bound = curvature(loss, W.shape[1])
    assert bound is not None
    A = (Phi.T * (bound * weights)) @ Phi + prior
    factor = _factor(A)
    at, ahead = W, W
    for turn in range(1 if loss.code == LossCode.SQUARED else _ITERATIONS):
        G = loss.gradient(Phi @ ahead, y) * weights[:, None]
        step = scipy.linalg.cho_solve(factor, Phi.T @ G + prior @ (ahead - W), check_finite=False)
        at, before = ahead - step, at
        ahead = at + turn / (turn + 3.0) * (at - before)
    return np.ascontiguousarray(at), A
