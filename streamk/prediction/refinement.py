"""Landmarks, widths and weights of a local model, moved to where its loss is least.

The paper leaves landmarks where weighted k-means puts them. They are parameters like the weights:
the same number of them predicts far better if the loss decides on their places, at no cost when
predicting. L-BFGS (Liu and Nocedal 1989, SciPy's) needs no step size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.prediction.local_model import LocalModel, squared, with_products

__all__ = ["errors", "loss_and_slopes", "refine"]

Numbers = NDArray[Any]

_KEPT = 10
"""Pairs of steps and slopes that L-BFGS keeps."""


def refine(
    model: LocalModel,
    Z: Numbers,
    T: Numbers,
    *,
    is_classifier: bool,
    ridge: float,
    iterations: int,
) -> LocalModel:
    """Return the model after so many iterations of L-BFGS on points (n, d) and targets (n, q).

    The loss is the mean of the cross-entropy with the targets' probabilities (of two classes that
    of the second one, q = 1), or of half the squared errors, and ``ridge / 2`` times the squares of
    the weights.
    """
    from scipy.optimize import minimize

    if not iterations:  # SciPy takes a step before it looks at their number
        return model
    # In units of the scale's deviations the slopes of landmarks are about as large as of weights.
    unit = float(model.scale.mean())

    def function(parameters: Numbers) -> tuple[float, Numbers]:
        loss, (landmarks, scale, weights, bias) = loss_and_slopes(
            _unpacked(parameters, model, unit), Z, T, is_classifier=is_classifier, ridge=ridge
        )
        return loss, _packed(landmarks * unit, scale * unit, weights, bias)

    start = _packed(model.landmarks / unit, model.scale / unit, model.weights, model.bias)
    options = {"maxiter": iterations, "maxcor": _KEPT}
    found = minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    return _unpacked(found.x, model, unit) if np.all(np.isfinite(found.x)) else model


def loss_and_slopes(
    model: LocalModel, Z: Numbers, T: Numbers, *, is_classifier: bool, ridge: float
) -> tuple[float, tuple[Numbers, Numbers, Numbers, Numbers]]:
    """Return the loss and its derivatives in landmarks, scale, weights and bias."""
    n, m = len(Z), len(model.landmarks)
    scaled = Z * model.scale
    C = np.exp(-squared(scaled, model.landmarks))
    basis = with_products(C, model.pairs)
    scores = basis @ model.weights + model.bias
    loss, E = errors(scores, T, is_classifier)
    loss, E = loss / n + 0.5 * ridge * float(np.vdot(model.weights, model.weights)), E / n
    of_weights = basis.T @ E + ridge * model.weights
    of_basis = E @ model.weights.T
    of_kernels = of_basis[:, :m]
    if len(model.pairs):
        first, second = model.pairs.T
        of_products = of_basis[:, m:]
        of_kernels = of_kernels + _sums(of_products * C[:, second], first, m)
        of_kernels += _sums(of_products * C[:, first], second, m)
    slopes = of_kernels * C
    by_landmark, by_point = slopes.sum(axis=0), slopes.sum(axis=1)
    of_landmarks = 2.0 * (slopes.T @ scaled - by_landmark[:, None] * model.landmarks)
    away = by_point[:, None] * scaled - slopes @ model.landmarks
    of_scale = -2.0 * np.einsum("ij,ij->j", away, Z)
    return loss, (of_landmarks, of_scale, of_weights, E.sum(axis=0))


def errors(scores: Numbers, T: Numbers, is_classifier: bool) -> tuple[float, Numbers]:
    """Return the sum of the losses, and their derivatives in the scores."""
    if not is_classifier:
        errors = scores - T
        return 0.5 * float(np.vdot(errors, errors)), errors
    if scores.shape[1] == 1:
        loss = float(np.logaddexp(0.0, scores).sum() - np.vdot(T, scores))
        return loss, 0.5 * (1.0 + np.tanh(0.5 * scores)) - T
    scores = scores - scores.max(axis=1, keepdims=True)
    powers = np.exp(scores)
    totals = powers.sum(axis=1, keepdims=True)
    loss = float((np.log(totals) * T.sum(axis=1, keepdims=True)).sum() - np.vdot(T, scores))
    return loss, powers / totals * T.sum(axis=1, keepdims=True) - T


def _sums(values: Numbers, columns: NDArray[np.int64], m: int) -> Numbers:
    """Return the sums (n, m) of columns of values (n, p) that belong to the same landmark."""
    chosen = np.zeros((len(columns), m))
    chosen[np.arange(len(columns)), columns] = 1.0
    return values @ chosen


def _packed(landmarks: Numbers, scale: Numbers, weights: Numbers, bias: Numbers) -> Numbers:
    return np.concatenate([landmarks.ravel(), scale, weights.ravel(), bias])


def _unpacked(parameters: Numbers, model: LocalModel, unit: float) -> LocalModel:
    sizes = [model.landmarks.size, model.scale.size, model.weights.size]
    landmarks, scale, weights, bias = np.split(parameters, np.cumsum(sizes))
    return replace(
        model,
        landmarks=landmarks.reshape(model.landmarks.shape) * unit,
        scale=scale * unit,
        weights=weights.reshape(model.weights.shape),
        bias=bias,
    )
