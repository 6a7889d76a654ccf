"""A kernel model on few landmarks: the model of one leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.landmarks.methods import centers_of
from streamk.prediction.tree import TreeOptions

Numbers = NDArray[Any]

EXPONENTIAL = 8
"""Multiply-adds that an exponential counts as."""


@dataclass(frozen=True)
class LocalModel:
    """Scores ``bias + W' c`` on the kernel values of landmarks and products of two of them.

    The values are those of the Gaussian kernel with a width of each column's own, ``c_j = exp(-|s z
    - l_j|^2)``. The product of two is a constant times a Gaussian of half the variance around the
    midpoint of the two landmarks: a pseudo landmark whose kernel value takes one multiplication.
    """

    outputs: NDArray[np.int64]
    """(q,), numbers of the outputs that it has scores for, ascending"""
    landmarks: Numbers
    """float64 (m, d), scaled by `scale` as points are"""
    scale: Numbers
    """float64 (d,), s"""
    pairs: NDArray[np.int64]
    """(p, 2)"""
    weights: Numbers
    """float64 (m + p, q)"""
    bias: Numbers
    """float64 (q,)"""

    def scores(self, Z: Numbers) -> Numbers:
        """Return the scores (n, q) of points (n, d), in double precision."""
        found: Numbers = self.bias + self.basis(Z) @ self.weights
        return found

    def basis(self, Z: Numbers) -> Numbers:
        """Return the kernel values and their products (n, m + p)."""
        return with_products(np.exp(-squared(Z * self.scale, self.landmarks)), self.pairs)


def squared(X: Numbers, Y: Numbers) -> Numbers:
    """Return the squared distances (n, m) of points (n, d) and (m, d)."""
    found: Numbers = X @ Y.T
    found *= -2.0
    found += np.einsum("ij,ij->i", X, X)[:, None]
    found += np.einsum("ij,ij->i", Y, Y)
    return np.maximum(found, 0.0, out=found)


def with_products(C: Numbers, pairs: NDArray[np.int64]) -> Numbers:
    """Return kernel values (n, m) beside the products of the pairs (n, m + p)."""
    if not len(pairs):
        return C
    return np.concatenate([C, C[:, pairs[:, 0]] * C[:, pairs[:, 1]]], axis=1)


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


_ITERATIONS = 5
"""Of k-means, as of the landmarks of `streamk.landmarks.k_means`."""
_RIDGE = 1e-2
"""Of the first weights, relative to kernel values of 1."""
_SOLVED = 1500
"""Points of a leaf, at most, for which the local kernel machine is solved."""
_LEAST_WEIGHT = 1e-12
"""In k-means, relative to the greatest: of points that are no support vectors, or were not solved
for."""
_SURE = 3.0
"""Logit that a first score of 1 stands for."""


def fit_local(
    Z: Numbers,
    T: Numbers,
    outputs: NDArray[np.int64],
    options: TreeOptions,
    random: np.random.Generator,
    importance: Numbers | None = None,
    *,
    is_classifier: bool,
) -> LocalModel:
    """Return the model of a leaf.

    Parameters
    ----------
    Z : float64 array of shape (n, d)
        Points of the leaf and of its halo, at least one.
    T : float64 array of shape (n, q)
        Probabilities of its classes (of two classes that of the second, q = 1), or numbers.
    outputs : int64 array of shape (q,)
    options : TreeOptions
        With a number of landmarks.
    random : Generator
    importance : float64 array of shape (n,), optional
        Squares of the points' coefficients in a kernel machine. By default they are those of kernel
        ridge regression on the leaf's points, if `options.weighted`.
    is_classifier : bool
    """
    assert options.landmarks is not None
    centered = 2.0 * T - 1.0 if is_classifier else T  # +1 and -1 of sure labels
    bias = centered.mean(axis=0)
    apart = 2.0 * float(Z.var(axis=0).sum())  # the mean squared distance of two points
    if np.ptp(T, axis=0).max() == 0.0 or not apart > 1e-12:
        return _constant(Z, T, outputs, is_classifier)
    gamma = 1.0 / apart
    if importance is None and options.weighted:
        importance = _importance(Z, centered - bias, gamma, random)
    landmarks = _landmarks(Z, importance, options.landmarks, random)
    m = len(landmarks)
    scale = np.full(Z.shape[1], np.sqrt(gamma))
    pairs = _pairs(m, options.products, random)
    model = LocalModel(outputs, landmarks * scale, scale, pairs, np.empty(0), bias)
    basis = model.basis(Z)
    system = basis.T @ basis
    system[np.diag_indices(len(system))] += _RIDGE
    weights = np.linalg.solve(system, basis.T @ (centered - bias))
    if is_classifier:
        weights, bias = _SURE * weights, _SURE * bias
    return refine(
        replace(model, weights=weights, bias=bias),
        Z,
        T,
        is_classifier=is_classifier,
        ridge=options.ridge,
        iterations=options.iterations,
    )


def _constant(
    Z: Numbers, T: Numbers, outputs: NDArray[np.int64], is_classifier: bool
) -> LocalModel:
    """Return a model without landmarks: the mean of the targets."""
    mean = T.mean(axis=0)
    if is_classifier:
        n = len(T)
        smooth = (n * mean + 0.5) / (n + 1.0)
        mean = np.log(smooth / (1.0 - smooth)) if len(mean) == 1 else np.log(smooth)
    nothing = np.empty((0, Z.shape[1]))
    return LocalModel(
        outputs,
        nothing,
        np.zeros(Z.shape[1]),
        np.empty((0, 2), np.int64),
        np.empty((0, len(mean))),
        mean,
    )


def _importance(Z: Numbers, Y: Numbers, gamma: float, random: np.random.Generator) -> Numbers:
    """Return the squared coefficients (n,) of kernel ridge regression on the points."""
    n = len(Z)
    some = np.arange(n) if n <= _SOLVED else np.sort(random.choice(n, _SOLVED, replace=False))
    K = np.exp(-gamma * squared(Z[some], Z[some]))
    K[np.diag_indices(len(K))] += 0.1
    coefficients = np.linalg.solve(K, Y[some])
    found = np.zeros(n)
    found[some] = np.square(coefficients).sum(axis=1)
    return found


def _landmarks(
    Z: Numbers, importance: Numbers | None, count: int, random: np.random.Generator
) -> Numbers:
    if len(Z) <= count:
        return np.unique(Z, axis=0)
    weights = None
    if importance is not None and importance.max() > 0.0:
        # Support vectors may be fewer than landmarks, and k-means draws these by weight.
        weights = importance / importance.max() + _LEAST_WEIGHT
    return centers_of(Z, count, random, init="random", iterations=_ITERATIONS, weights=weights)


def _pairs(m: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return different pairs of m landmarks, of a landmark with itself too, at random."""
    first, second = np.triu_indices(m)
    chosen = random.choice(len(first), min(count, len(first)), replace=False)
    return np.stack([first[chosen], second[chosen]], axis=1).astype(np.int64)
