"""Metrics of the columns, and the scales by which metrics and bandwidths are fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.metric_rounds.weights import Weights, covariance, deviations

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Metric:
    """A positive semidefinite matrix M by which differences of points are measured.

    ``|t|_M^2 = t' M t`` is the squared Euclidean distance of mapped points: each x becomes ``R x``,
    with ``R R = M``.

    Attributes
    ----------
    root : float64 array of shape (d,) or (d, d)
        R, of a diagonal one its diagonal.

    Examples
    --------
    >>> metric = Metric(np.array([2.0, 0.5]))
    >>> metric.mapped(np.ones((1, 2)))
    array([[2. , 0.5]])
    >>> metric.matrix.tolist(), metric.shares.round(3).tolist()
    ([[4.0, 0.0], [0.0, 0.25]], [0.941, 0.059])
    """

    root: Numbers

    @classmethod
    def of(cls, M: Numbers) -> Metric:
        """Return the metric of a matrix (d, d), or of a diagonal (d,)."""
        if M.ndim == 1:
            return cls(np.sqrt(np.maximum(M, 0.0)))
        values, vectors = np.linalg.eigh(M)
        return cls((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    @property
    def is_diagonal(self) -> bool:
        """True if columns are only scaled."""
        return self.root.ndim == 1

    @property
    def matrix(self) -> Numbers:
        """M, float64 (d, d)."""
        return np.diag(self.root**2) if self.is_diagonal else self.root @ self.root

    @property
    def diagonal(self) -> Numbers:
        """The diagonal of M, float64 (d,)."""
        return self.root**2 if self.is_diagonal else np.einsum("ij,ij->i", self.root, self.root)

    @property
    def shares(self) -> Numbers:
        """The diagonal of M over its sum, float64 (d,); equal shares where it is 0."""
        total = float(self.diagonal.sum())
        d = len(self.root)
        return self.diagonal / total if total > 0.0 else np.full(d, 1.0 / max(1, d))

    def mapped(self, X: Numbers) -> Numbers:
        """Return ``R x`` of points X (n, d)."""
        return X * self.root if self.is_diagonal else X @ self.root

    def unmapped(self, G: Numbers) -> Numbers:
        """Return ``R G R``, the outer products of gradients with respect to x.

        Parameters
        ----------
        G : array of shape (d, d) or (d,)
            Those with respect to ``R x``, of a diagonal metric perhaps the diagonal alone.
        """
        if G.ndim == 1:
            return self.root**2 * G
        R = np.diag(self.root) if self.is_diagonal else self.root
        return np.asarray(R @ G @ R)


def rescaled(M: Numbers, X: Numbers, *, power: float = 2.0, weights: Weights = None) -> Numbers:
    """Return the multiple of M by which points are as far apart as by the identity.

    The mean squared distance of two points stays as it is, or that of another power: sharpening a
    metric does not change the bandwidth, and a metric cannot grow or vanish from round to round.

    Parameters
    ----------
    M : array of shape (d, d) or (d,)
    X : array of shape (n, d)
    power : float, default 2
        Below 2, distances are sums of ``(sqrt(M_jj) |x_j - z_j|)^power``; deviations of columns
        stand for their differences.
    weights : float64 array of shape (n,), optional

    Returns
    -------
    array of the shape of M
        The identity where M gives no distance to any points.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> rescaled(np.array([3.0, 1.0]), X)
    array([1.5, 0.5])
    """
    if power < 2.0:
        spread = deviations(X, weights) ** power
        now, aim = float(np.maximum(M, 0.0) ** (0.5 * power) @ spread), float(spread.sum())
        factor = (aim / now) ** (2.0 / power) if now > 0.0 else 0.0
    elif M.ndim == 1:
        variances = np.square(deviations(X, weights))
        now, aim = float(M @ variances), float(variances.sum())
        factor = aim / now if now > 0.0 else 0.0
    else:
        C = covariance(X, weights)
        now, aim = float(np.sum(M * C)), float(np.trace(C))
        factor = aim / now if now > 0.0 else 0.0
    if factor <= 0.0 or not np.isfinite(factor):
        return np.ones(len(M)) if M.ndim == 1 else np.eye(len(M))
    return M * factor
