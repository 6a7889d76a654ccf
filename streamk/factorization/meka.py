"""The memory efficient kernel approximation G ~ W L W^T: Si, Hsieh and Dhillon, JMLR 18 (2017).

Points are clustered; each cluster has a basis of its own, W(s), and L links the clusters' bases. So
nk + (ck)^2 numbers make an approximation of rank ck (§5.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.factorization.approximation import Meka
from streamk.factorization.bases import BASES, Basis, leading_directions
from streamk.factorization.blocks import BlockDiagonal, Links
from streamk.factorization.checks import check_choice, check_number, checked_kernel
from streamk.factorization.clusters import Clusters, clustered
from streamk.factorization.links import SAMPLINGS, Sample, link, sample
from streamk.factorization.ranks import RULES, by_size, by_spectrum
from streamk.kernels import Kernel
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices.points import checked_points
from streamk.landmarks.nystrom import checked_dtype

Numbers = NDArray[np.float64]

COLUMNS = ("cluster", "row")


def meka(
    X: ArrayLike,
    kernel: Kernel,
    *,
    rank: int,
    n_clusters: int,
    basis: str = "rpcholesky",
    oversampling: float = 2.0,
    columns: str = "cluster",
    rank_rule: str = "same",
    link_samples: float = 3.0,
    sampling: str = "leverage",
    threshold: float = 0.0,
    seed: int = 0,
    dtype: DTypeLike = "float32",
    threads: int | None = None,
) -> Meka:
    """Approximate the matrix of a shift-invariant kernel by clusters (Algorithm 1).

    Parameters
    ----------
    X : array of shape (n, d)
    kernel : Kernel
        Gaussian, Laplacian, PowerExponential, Matern, RationalQuadratic or Cauchy.
    rank : int
        k, directions of a cluster's basis; fewer where the cluster's matrix has fewer.
    n_clusters : int
        c. k-means finds centres on 20,000 points; those without points vanish. Each pair of
        clusters has a link, so that time and memory of links grow with c^2.
    basis : {"rpcholesky", "uniform", "k_means", "oasis", "randomized_svd"}, default "rpcholesky"
        How the landmarks of a cluster are chosen, or "randomized_svd" for uniform ones whose
        kernel matrix is cut by a randomized SVD (RNys). The basis are the leading left singular
        vectors of their Nyström factor.
    oversampling : float, default 2
        Landmarks for each direction, at least 1.
    columns : {"cluster", "row"}, default "cluster"
        Columns that a basis is made of: those of landmarks in the cluster, or as many from all
        other clusters, too (§7.2), where clusters are not far apart.
    rank_rule : {"same", "size", "spectrum"}, default "same"
        The same rank for each cluster, ranks by size, or by which eigenvalues of all clusters are
        the ``rank * n_clusters`` largest. By size takes more memory, as large clusters get more
        directions. The spectrum has nothing to choose from where `oversampling` is 1: a cluster
        offers no more directions than it has landmarks.
    link_samples : float, default 3
        rho: least squares for links see ``(1 + rho) k`` rows of each cluster, by leverage more
        where these miss a direction. The paper takes 2 or 3.
    sampling : {"leverage", "uniform"}, default "leverage"
        How these rows are drawn: by their leverage in the basis, weighted in turn, or uniformly as
        in the paper, which may miss directions and then be far off.
    threshold : float, default 0
        epsilon: clusters whose centres' kernel is at most so large are not linked.
    seed : int, default 0
    dtype : {float32, float64}, default float32
        Of W and L as they are stored; sums are in float64.
    threads : int, optional
        All cores by default.

    Returns
    -------
    Meka

    Raises
    ------
    InvalidInput
        If an argument cannot be used.
    BackendUnavailable
        If scikit-learn is not installed.

    Notes
    -----
    Memory: before W is there, the Nyström factor of one cluster at a time takes
    ``8 * oversampling * rank`` bytes for each of its points; later W(s) of one cluster in double
    precision comes to W and L. Of 50,000 points of 10 columns and a rank of 128, W and L are 29 MB
    in 10 clusters, and the peak is 43 MB; in 2 clusters they are 26 MB and it is 58 MB, with
    ``columns="row"`` 71 MB.

    Products of the columns of W(s) are those of orthonormal ones within 1e-6, however steep the
    spectrum is; in single precision, within the rounding of that.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.factorization import meka
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> found = meka(X, Gaussian(gamma=1.0), rank=20, n_clusters=5)
    >>> found
    <MEKA of 1000 points in 5 clusters, rank 100, 0.1 MB>
    >>> bool(found.error() < 0.03)
    True
    """
    plan = _Plan(
        kernel, rank, basis, oversampling, columns, rank_rule, link_samples, sampling, threshold,
        seed, threads,
    )  # fmt: skip
    points, real = checked_points(X, "X"), checked_dtype(dtype)
    clusters = clustered(points, n_clusters, seed=seed, threads=threads)
    bases = plan.bases(points, clusters)
    values = np.empty(
        sum(len(rows) * len(b.values) for rows, b in zip(clusters.rows, bases, strict=True)), real
    )
    W = BlockDiagonal(values, clusters.rows, [len(b.values) for b in bases])
    bases = [
        found.write(W.block(s), points, rows, kernel, threads)
        for s, (rows, found) in enumerate(zip(clusters.rows, bases, strict=True))
    ]
    L = plan.links(points, clusters, bases, W)
    landmarks, maps = tuple(b.landmarks for b in bases), tuple(b.map for b in bases)
    return Meka(kernel, points, 0.0, clusters, W, L, landmarks, maps, threads)


@dataclass(frozen=True)
class _Plan:
    """The options of `meka`, checked, and the steps that they rule."""

    kernel: Kernel
    rank: int
    basis: str
    oversampling: float
    columns: str
    rank_rule: str
    link_samples: float
    sampling: str
    threshold: float
    seed: int
    threads: int | None

    def __post_init__(self) -> None:
        checked_kernel(self.kernel)
        check_count("rank", self.rank)
        check_count("seed", self.seed, least=0)
        check_choice("basis", self.basis, BASES)
        check_choice("columns", self.columns, COLUMNS)
        check_choice("rank_rule", self.rank_rule, RULES)
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_number("oversampling", self.oversampling, 1.0)
        check_number("link_samples", self.link_samples, 0.0)
        check_number("threshold", self.threshold, 0.0)

    def bases(self, points: Numbers, clusters: Clusters) -> list[Basis]:
        """Return each cluster's directions, as many as the rule gives it."""
        sizes = [len(rows) for rows in clusters.rows]
        wanted = [self.rank] * len(sizes)
        if self.rank_rule == "size":
            wanted = by_size(self.rank, sizes)
        made = (self._basis(points, clusters, s, k) for s, k in enumerate(wanted))
        if self.rank_rule != "spectrum":
            return [b.first(k) for b, k in zip(made, wanted, strict=True)]
        found = list(made)
        wanted = by_spectrum(self.rank, [b.values for b in found])
        return [b.first(k) for b, k in zip(found, wanted, strict=True)]

    def _basis(self, points: Numbers, clusters: Clusters, s: int, rank: int) -> Basis:
        own, landmarks = clusters.rows[s], int(np.ceil(self.oversampling * rank))
        if self.rank_rule == "spectrum":  # it may give a cluster more than the rank
            rank = landmarks
        seed, rest = self._seed(s), len(points) - len(own)
        others = own[:0]
        if self.columns == "row":
            random = np.random.Generator(np.random.Philox(seed))
            drawn = random.choice(rest, min(landmarks, rest), replace=False)
            others = np.flatnonzero(clusters.labels != s)[np.sort(drawn)]
        return leading_directions(
            points[own],
            points[others],
            rest / max(1, len(others)),
            self.kernel,
            self.basis,
            rank,
            landmarks,
            seed,
            self.threads,
        )

    def links(
        self, points: Numbers, clusters: Clusters, bases: list[Basis], W: BlockDiagonal
    ) -> Links:
        """Return the links of all clusters whose centres are near enough, the diagonal first."""
        random = np.random.Generator(np.random.Philox(self._seed(len(clusters))))

        def drawn(s: int, rank: int) -> Sample:
            count = int(np.ceil((1.0 + self.link_samples) * rank))
            own = W.block(s).astype(np.float64, copy=False)
            return sample(points[clusters.rows[s]], own, self.sampling, count, random)

        samples = [drawn(s, rank) for s, rank in enumerate(W.ranks)]
        near = self.kernel.pairwise(clusters.centers) > self.threshold
        apart = np.argwhere(np.triu(near, 1))

        def made(s: int, t: int) -> Numbers:
            return bases[s].link if s == t else link(samples[s], samples[t], self.kernel)

        pairs = np.concatenate([np.repeat(np.arange(len(bases))[:, None], 2, axis=1), apart])
        return Links.of(pairs, made, W.ranks, W.values.dtype)

    def _seed(self, number: int) -> int:
        """Return the seed of a part of the work."""
        return int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
