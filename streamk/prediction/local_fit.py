"""Fits the model of a leaf: landmarks by weighted k-means, weights by ridge, then all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.landmarks.k_means import centers_of
from streamk.prediction.local_model import LocalModel, squared
from streamk.prediction.refinement import refine

__all__ = ["LocalOptions", "fit_local"]

Numbers = NDArray[Any]

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


@dataclass(frozen=True)
class LocalOptions:
    """Options that all leaves share, see `streamk.prediction.dc_pred`."""

    landmarks: int
    products: int
    weighted: bool
    ridge: float
    iterations: int
    is_classifier: bool


def fit_local(
    Z: Numbers,
    T: Numbers,
    outputs: NDArray[np.int64],
    options: LocalOptions,
    random: np.random.Generator,
    importance: Numbers | None = None,
) -> LocalModel:
    """Return the model of a leaf.

    Parameters
    ----------
    Z : float64 array of shape (n, d)
        Points of the leaf and of its halo, at least one.
    T : float64 array of shape (n, q)
        Probabilities of its classes (of two classes that of the second, q = 1), or numbers.
    outputs : int64 array of shape (q,)
    options : LocalOptions
    random : Generator
    importance : float64 array of shape (n,), optional
        Squares of the points' coefficients in a kernel machine. By default they are those of kernel
        ridge regression on the leaf's points, if `options.weighted`.
    """
    centered = _centered(T, options.is_classifier)
    bias = centered.mean(axis=0)
    gamma = _first_gamma(Z)
    constant = np.ptp(T, axis=0).max() == 0.0
    if constant or gamma is None:
        return _constant(Z, T, outputs, options.is_classifier)
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
    if options.is_classifier:
        weights, bias = _SURE * weights, _SURE * bias
    return refine(
        replace(model, weights=weights, bias=bias),
        Z,
        T,
        is_classifier=options.is_classifier,
        ridge=options.ridge,
        iterations=options.iterations,
    )


def _centered(T: Numbers, is_classifier: bool) -> Numbers:
    """Return +1 and -1 of probabilities 1 and 0, or the numbers."""
    return 2.0 * T - 1.0 if is_classifier else T


def _first_gamma(Z: Numbers) -> float | None:
    """Return 1 over the mean squared distance of two points; None if all are the same."""
    mean = 2.0 * float(Z.var(axis=0).sum())
    return 1.0 / mean if mean > 1e-12 else None


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
