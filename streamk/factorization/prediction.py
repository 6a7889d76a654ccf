"""Predictions of new points by the landmarks of the clusters that they are nearest to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.factorization.clusters import Clusters, by_cluster
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.matrices.points import checked_points


@dataclass(frozen=True, eq=False, repr=False)
class Predictor:
    """A predictor by a `Meka` and coefficients; the links are not kept."""

    kernel: Kernel
    clusters: Clusters
    landmarks: Sequence[Numbers]
    weights: Mapping[int, Numbers]
    """By cluster what the kernel with its landmarks is multiplied by, (landmarks,) or with p."""
    shape: tuple[int, ...]
    """() or (p,)."""

    def __call__(self, X: ArrayLike) -> Numbers:
        """Predict points X (m, d), each alike in whatever batch it comes."""
        points = checked_points(X, "X", least=0)
        return self.of(points, self.clusters.nearest(points))

    def of(self, points: Numbers, labels: NDArray[np.int32]) -> Numbers:
        """Predict points of these clusters."""
        out = np.empty((len(points), *self.shape))
        for s, some in by_cluster(labels):
            Z, V = self.landmarks[s], self.weights[s]
            out[some] = self.kernel.product(points[some], Z, V, threads=self.clusters.threads)
        return out
