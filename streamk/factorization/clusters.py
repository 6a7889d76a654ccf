"""Clusters of points, between which a shift-invariant kernel is small (§4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import select
from streamk.backends.threads import divide
from streamk.errors import InvalidInput
from streamk.factorization.checks import check_range
from streamk.kernels import Kernel, RationalQuadratic
from streamk.landmarks.matrices import Indices, Numbers, checked_points
from streamk.landmarks.methods import centers_of
from streamk.landmarks.selection import check_count

Labels = NDArray[np.int32]

SAMPLE = 20_000
"""Points that centres are found from (§5)."""
_ITERATIONS = 300
_ENTRIES = 1 << 15
"""Distances that are evaluated before they are compared: they stay in the second cache."""
INVERSE_DISTANCE = RationalQuadratic(alpha=0.5, bandwidth=1e-75)
"""Of so small a bandwidth it is 1e-75 over the distance, with all digits, as it comes out of the
differences of columns: a product of matrices loses the digits of clusters far from the origin, and
its last bits change with the batch."""


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """Points divided among the nearest of some centres.

    Attributes
    ----------
    centers : float64 array of shape (c, d)
        None of them without points.
    labels : int32 array of shape (n,)
        Cluster of each point.
    rows : list of c int64 arrays
        Points of each cluster, ascending.
    threads : int, optional
        Those of `nearest`.
    """

    centers: Numbers
    labels: Labels
    rows: list[Indices]
    threads: int | None

    def __len__(self) -> int:
        return len(self.centers)

    def __repr__(self) -> str:
        return f"<{len(self)} clusters of {len(self.labels)} points>"

    def nearest(self, Y: ArrayLike) -> Labels:
        """Return the cluster that each point of Y (m, d) is nearest to, int32 (m,).

        Of equally near ones it is the first, and the same in whatever batch a point comes.
        """
        points = checked_points(Y, "Y", least=0)
        if points.shape[1] != self.centers.shape[1]:
            raise InvalidInput(
                f"Y has {points.shape[1]} columns, but the points of the clusters have "
                f"{self.centers.shape[1]}"
            )
        check_range(points, "Y")
        return nearest(points, self.centers, self.threads)


@dataclass(frozen=True, eq=False, repr=False)
class ClusteredMatrix:
    """The matrix of a kernel between points that are divided among clusters."""

    kernel: Kernel
    points: Numbers
    clusters: Clusters

    @property
    def n(self) -> int:
        """Points."""
        return len(self.points)

    @property
    def d(self) -> int:
        """Columns of the points."""
        return int(self.points.shape[1])

    @property
    def n_clusters(self) -> int:
        """Clusters."""
        return len(self.clusters)

    @property
    def centers(self) -> Numbers:
        """Centres of the clusters, (n_clusters, d)."""
        return self.clusters.centers

    @property
    def labels(self) -> Labels:
        """Cluster of each point, int32 of shape (n,)."""
        return self.clusters.labels

    def rows(self, s: int) -> Indices:
        """Return the points of a cluster, ascending."""
        return self.clusters.rows[s]

    def _drawn(self, n_rows: int, seed: int) -> Indices:
        """Return rows drawn at random, or all if there are no more."""
        check_count("n_rows", n_rows)
        check_count("seed", seed, least=0)
        random = np.random.Generator(np.random.Philox(seed))
        return np.asarray(random.choice(self.n, min(n_rows, self.n), replace=False))


def clustered(
    X: ArrayLike,
    n_clusters: int,
    *,
    seed: int,
    sample: int = SAMPLE,
    threads: int | None = None,
) -> Clusters:
    """Divide points among the centres that k-means finds (k-means++, Lloyd).

    Parameters
    ----------
    X : array of shape (n, d)
    n_clusters : int
        Most clusters; those without points vanish, as those beyond the number of different points
        do.
    seed : int
    sample : int, default 20,000
        Points that k-means sees, drawn without replacement; then all go to the nearest centre.
    threads : int, optional
        All cores by default. The centres are found by one. Results do not depend on it.

    Returns
    -------
    Clusters

    Raises
    ------
    InvalidInput
        If an argument cannot be used.
    BackendUnavailable
        If scikit-learn is not installed.

    Examples
    --------
    >>> from streamk.factorization.clusters import clustered
    >>> found = clustered([[9.0], [0.0], [1.0], [8.0]], 2, seed=0)
    >>> found.centers.tolist(), found.labels.tolist()
    ([[0.5], [8.5]], [1, 0, 0, 1])
    """
    check_count("n_clusters", n_clusters)
    check_count("seed", seed, least=0)
    check_count("sample", sample)
    if threads is not None:
        check_count("threads", threads)
    points = checked_points(X, "X")
    check_range(points, "X")
    random = np.random.Generator(np.random.Philox(seed))
    seen = points
    if sample < len(points):
        seen = points[np.sort(random.choice(len(points), sample, replace=False))]
    centers = centers_of(seen, n_clusters, random, init="k-means++", iterations=_ITERATIONS)
    labels = nearest(points, centers, threads)
    used, numbers = np.unique(labels, return_inverse=True)
    return divided(centers[used], numbers.astype(np.int32), threads)


def divided(centers: Numbers, labels: Labels, threads: int | None = None) -> Clusters:
    """Return clusters by the labels of their points, all of which are in use."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(1, len(centers)))
    return Clusters(centers, labels, np.split(order, edges), threads)


def nearest(points: Numbers, centers: Numbers, threads: int | None = None) -> Labels:
    """Return the number of the centre that each point is nearest to, the first of equal ones."""
    n, c = len(points), len(centers)
    labels, step = np.empty(n, np.int32), max(1, _ENTRIES // c)
    kernel, host = INVERSE_DISTANCE, select()

    def work(some: slice) -> None:
        for first in range(some.start * step, min(some.stop * step, n), step):
            part = slice(first, min(first + step, n))
            K = np.empty((c, part.stop - first))
            scale = kernel.frequency_scale
            host.pairwise(kernel.code, kernel.parameter, scale, centers, points[part], K)
            labels[part] = K.argmax(axis=0)

    divide(-(-n // step), n * c * points.shape[1], work, threads)
    return labels


def by_cluster(labels: Labels) -> Iterator[tuple[int, Indices]]:
    """Yield the clusters that there are among labels, with the rows of each."""
    for s in np.unique(labels).tolist():
        yield s, np.flatnonzero(labels == s)
