"""A new factorization of events that are kept, and a function that goes on in its features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.factorization import meka
from streamk.kernels import Kernel
from streamk.learners.common.optimizers import Optimizer
from streamk.learners.common.resolving import RIDGE, projected
from streamk.learners.meka.clustered_function import ClusteredFunction
from streamk.learners.meka.growing_features import GrowingFeatures

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Recipe:
    """The options by which features are made of events."""

    kernel: Kernel
    rank: int
    n_clusters: int
    room: int
    tol: float

    def features(self, X: Matrix, seed: int) -> tuple[GrowingFeatures, NDArray[np.int64]]:
        """Return features of events, and how many of these each cluster has."""
        found = meka(
            X,
            self.kernel,
            rank=self.rank,
            n_clusters=self.n_clusters,
            seed=seed,
            dtype=np.float64,
            threads=1,
        )
        sizes = np.bincount(found.labels, minlength=found.n_clusters)
        return GrowingFeatures.of(found, room=self.room, tol=self.tol), sizes


@dataclass(frozen=True)
class Snapshot:
    """The data of a factorization, as they were when it was begun."""

    X: Matrix
    """The buffer's events (n, d)."""
    y: Matrix
    held_back: Matrix
    decide: Callable[[Matrix], Matrix]
    """The function so far."""
    optimizer: Optimizer
    """One that has learned nothing."""
    n_steps: int
    """Steps so far."""
    seed: int

    def refactorized(self, recipe: Recipe) -> ClusteredFunction:
        """Factorize, carry the function over, and solve for the buffer anew.

        Raises
        ------
        InvalidInput
            If the function is not finite at the buffer's events.
        """
        F = self.decide(self.X)
        if not np.isfinite(F).all():
            raise InvalidInput(
                "predictions of the events to factorize overflowed; scale the labels, or take a "
                "smaller step"
            )
        features, sizes = recipe.features(self.X, self.seed)
        Phi = features.transform(self.X, features.nearest(self.X))
        W = projected(Phi, F, RIDGE)
        self.optimizer.begin(W, Phi, self.y, self.n_steps)
        error = kernel_error(features, self.held_back)
        return ClusteredFunction(features, self.optimizer, sizes, error)


def kernel_error(features: GrowingFeatures, X: Matrix) -> float | None:
    """Return the relative Frobenius error of products of features as kernels of events."""
    if not len(X):
        return None
    G = features.kernel.pairwise(X)
    missed = features.pairwise(X) - G
    return math.sqrt(float((missed * missed).sum()) / float((G * G).sum()))
