"""The memory efficient kernel approximation G ~ W L W^T: Si, Hsieh and Dhillon, JMLR 18 (2017).

Points are clustered; each cluster has a basis of its own, W(s), and L links the clusters' bases. So
nk + (ck)^2 numbers make an approximation of rank ck (§5.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, DTypeLike, NDArray

from streamk.factorization.approximation import Meka
from streamk.factorization.blocks import BlockDiagonal, LinkMatrix
from streamk.factorization.checks import checked_kernel
from streamk.factorization.clusters import Clusters, clustered
from streamk.kernels import Kernel
from streamk.kernels.base import check_dtype
from streamk.landmarks import METHODS
from streamk.landmarks.matrices import Numbers, checked_points
from streamk.landmarks.methods import scikit_learn
from streamk.options import Checked, Choice, Real, Whole

RULES = ("same", "size", "spectrum")


def by_size(rank: int, sizes: Sequence[int]) -> list[int]:
    """Return ranks of at least 1 in proportion to sizes, in all ``rank * clusters``.

    Examples
    --------
    >>> by_size(10, [10, 30])
    [5, 15]
    """
    total = rank * len(sizes)
    wanted = total * np.asarray(sizes) / sum(sizes)
    found = np.maximum(1.0, np.floor(wanted))
    while found.sum() < total:
        found[np.argmax(wanted - found)] += 1
    while found.sum() > total:
        found[np.argmax(np.where(found > 1, found - wanted, -np.inf))] -= 1
    return [int(k) for k in found]


def by_spectrum(rank: int, spectra: Sequence[NDArray[Any]]) -> list[int]:
    """Return how many of each cluster's values are among the largest ``rank * clusters`` of all.

    The largest of each cluster is one of them in any case.

    Examples
    --------
    >>> by_spectrum(2, [np.array([9.0, 3.0, 2.0]), np.array([5.0, 1.0])])
    [3, 1]
    """
    others = np.concatenate([values[1:] for values in spectra])
    owners = np.repeat(np.arange(len(spectra)), [len(values) - 1 for values in spectra])
    largest = np.argsort(-others, kind="stable")[: (rank - 1) * len(spectra)]
    counts = 1 + np.bincount(owners[largest], minlength=len(spectra))
    return [int(k) for k in counts]


SAMPLINGS = ("leverage", "uniform")

_CUT = 1e-6
"""Singular values of the sampled rows below this part of the largest one are left out."""
_SOUND, _MORE = 0.4, 1.5
"""Least singular value of weighted rows that see all directions of an orthonormal basis (it is 1 of
all rows, and about .5 of four times as many rows as directions), and by how much more rows are
drawn where it is less."""
_ROUNDS = 30
"""Of spreading probabilities over rows that are not certain yet; a few are enough."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a cluster, and what solves for coordinates from them."""

    points: Numbers
    """(q, d)"""
    inverse: Numbers
    """Pseudo-inverse of the (weighted) rows of W(s), times the weights, (rank, q)."""


def sample(
    X: Numbers, W: Numbers, sampling: str, count: int, random: np.random.Generator
) -> Sample:
    """Draw `count` rows of a cluster of points X (n, d) with the basis W (n, rank), or all.

    By leverage more are drawn, half as many again each time, until they see all directions of the
    basis: else the least squares might say anything about one that they miss.
    """
    while True:
        rows, weights = _drawn(W, sampling, count, random)
        U, values, V = np.linalg.svd(W[rows] * weights[:, None], full_matrices=False)
        if sampling == "uniform" or len(rows) == len(X) or values[-1] >= _SOUND:
            break
        count = math.ceil(_MORE * count)
    kept = values > _CUT * values[0]
    inverse = (V[kept].T / values[kept]) @ U[:, kept].T * weights
    return Sample(X[rows], inverse)


def _drawn(
    W: Numbers, sampling: str, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], Numbers]:
    """Return rows and their weights."""
    if count >= len(W):
        return np.arange(len(W)), np.ones(len(W))
    if sampling == "uniform":
        return np.sort(random.choice(len(W), count, replace=False)), np.ones(count)
    return by_leverage(W, count, random)


def by_leverage(
    W: Numbers, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], Numbers]:
    """Draw rows by their leverage scores, half of the probability spread over all rows.

    Uniformly drawn rows may miss a direction that few points have, and the least squares then say
    anything about it. The half that is spread bounds the weights. It is a systematic sample in
    random order, so that each row comes at most once, with its probability.
    """
    scores = np.einsum("ik,ik->i", W, W)
    p = 0.5 * scores / scores.sum() + 0.5 / len(W)
    chance = np.minimum(1.0, count * p)
    for _ in range(_ROUNDS):
        free = chance < 1.0
        left = count - np.count_nonzero(~free)
        chance[free] = np.minimum(1.0, left * p[free] / p[free].sum())
        if np.count_nonzero(chance < 1.0) == np.count_nonzero(free):
            break
    order = random.permutation(len(W))
    edges = np.cumsum(chance[order])
    marks = random.random() + np.arange(count)
    rows = np.sort(order[np.unique(np.searchsorted(edges, marks[marks < edges[-1]], "right"))])
    return rows, 1.0 / np.sqrt(chance[rows])


LANDMARKS = {
    "uniform": "uniform",
    "k_means": "k-means",
    "oasis": "oasis",
    "rpcholesky": "block-rpcholesky",
}
"""Methods of `streamk.landmarks` by the names of the bases."""
RANDOMIZED = "randomized_svd"
BASES = (*LANDMARKS, RANDOMIZED)

_SMALLEST, _SMALLEST_SQUARE = 1e-10, 1e-12
"""Eigenvalues of a kernel matrix, and of its square, below these parts of the largest one are
rounding."""
_NOTHING = 1e-100
"""Largest number of a factor whose squares may underflow."""
_ORTHONORMAL = 1e-6
"""By how much products of a basis' columns may be off before they are made orthonormal again."""
_ENTRIES = 1 << 18
"""Numbers of the rows that are computed at a time, about: 2 MB."""


@dataclass(frozen=True)
class Basis:
    """Directions of a cluster, in the order of their importance."""

    landmarks: Numbers
    """(m, d)"""
    map: Numbers
    """From kernel values at the landmarks to coordinates, (m, directions)."""
    values: Numbers
    """Eigenvalues, (directions,)."""
    link: Numbers
    """L(s, s): what the Nyström approximation is in these coordinates, (directions, directions)."""

    def first(self, k: int) -> Basis:
        """Return the k leading directions, or all if there are fewer."""
        # Copies: views would keep the directions that are left out in memory.
        return Basis(
            self.landmarks, self.map[:, :k].copy(), self.values[:k], self.link[:k, :k].copy()
        )

    def write(
        self,
        out: NDArray[Any],
        X: Numbers,
        rows: NDArray[np.int64],
        kernel: Kernel,
        threads: int | None,
    ) -> Basis:
        """Write coordinates of some rows of X, those of the cluster, and return their basis.

        The basis differs where rounding in small eigenvalues, which come of squares, has left the
        columns oblique: one that is orthonormal in these rows, and spans the same.
        """

        def parts() -> Iterator[tuple[slice, Numbers]]:
            step = max(1, _ENTRIES // max(1, len(self.values)))
            for first in range(0, len(rows), step):
                part = slice(first, first + step)
                yield part, kernel.product(X[rows[part]], self.landmarks, self.map, threads=threads)

        G = np.zeros(self.link.shape)
        for part, W in parts():
            out[part] = W
            G += W.T @ W
        if np.abs(G - np.eye(len(G))).max(initial=0.0) <= _ORTHONORMAL:
            return self
        R = scipy.linalg.cholesky(G)
        # The rows as they were, not by the new map: it would round anew, by as much again.
        for part, W in parts():
            out[part] = _over(W, R)
        return Basis(self.landmarks, _over(self.map, R), self.values, R @ self.link @ R.T)


def _randomized(M: Numbers, rank: int, seed: int) -> Numbers:
    """Return U S^-1/2 of the leading part of M as Li, Kwok and Lu find it (2010)."""
    svd = scikit_learn("utils.extmath", f"the basis {RANDOMIZED!r}").randomized_svd
    U, s, _ = svd(M, min(rank, len(M)), n_oversamples=10, n_iter=1, random_state=seed % 2**32)
    kept = s > _SMALLEST * s[0]
    return np.asarray(U[:, kept] / np.sqrt(s[kept]))


def _leading(gram: Numbers, smallest: float = _SMALLEST) -> tuple[Numbers, Numbers]:
    """Return eigenvalues, descending, and eigenvectors of what is not rounding."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > smallest * values[-1]
    return values[kept][::-1], vectors[:, kept][:, ::-1]


def _over(A: Numbers, R: Numbers) -> Numbers:
    """Return ``A R^-1`` of an upper triangular R."""
    solved: Numbers = scipy.linalg.solve_triangular(R, A.T, trans="T", check_finite=False).T
    return np.ascontiguousarray(solved)


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
        checked_kernel(kernel), rank, basis, oversampling, columns, rank_rule, link_samples,
        sampling, threshold, seed, threads,
    )  # fmt: skip
    points, real = checked_points(X, "X"), check_dtype(dtype)
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
    return Meka(kernel, points, clusters, 0.0, W, L, landmarks, maps, threads)


@dataclass(frozen=True)
class _Plan(Checked):
    """The options of `meka`, checked, and the steps that they rule."""

    kernel: Kernel
    rank: Annotated[int, Whole(most=None)]
    basis: Annotated[str, Choice(choices=BASES)]
    oversampling: Annotated[float, Real(least=1.0)]
    columns: Annotated[str, Choice(choices=COLUMNS)]
    rank_rule: Annotated[str, Choice(choices=RULES)]
    link_samples: Annotated[float, Real()]
    sampling: Annotated[str, Choice(choices=SAMPLINGS)]
    threshold: Annotated[float, Real()]
    seed: int
    threads: int | None

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
        factor = self._factor(points[own], rank, min(landmarks, len(own)), seed)
        share = rest / max(1, len(others))
        return self._directions(points[own], points[others], share, *factor)

    def _directions(
        self, X: Numbers, others: Numbers, share: float, found: Numbers, root: Numbers, F: Numbers
    ) -> Basis:
        """Return directions of the cluster of points X (n, d) by what `_factor` gave.

        The basis looks at the columns of `others` (m, d), too, points of other clusters (§7.2),
        each of which stands for so many; there are none for the columns of the cluster alone.
        """
        if not len(others):
            values, V = _leading(F.T @ F)
            return Basis(found, root @ (V / np.sqrt(values)), values, np.diag(values))
        # Left singular vectors of columns, each weighted by how many it stands for.
        seen = np.concatenate([found, others])
        weights = np.sqrt(np.repeat([len(X) / len(found), share], [len(found), len(others)]))
        gram, with_factor = np.zeros((len(seen),) * 2), np.zeros((len(seen), F.shape[1]))
        step = max(1, _ENTRIES // len(seen))
        for first in range(0, len(X), step):
            B = self.kernel.pairwise(X[first : first + step], seen)
            B *= weights
            gram += B.T @ B
            with_factor += B.T @ F[first : first + step]
        squares, V = _leading(gram, _SMALLEST_SQUARE)
        V /= np.sqrt(squares)
        A = V.T @ with_factor
        return Basis(seen, weights[:, None] * V, np.sqrt(squares), A @ A.T)

    def _factor(
        self, X: Numbers, rank: int, landmarks: int, seed: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return landmarks Z (m, d), R (m, r) and a Nyström factor ``F = K(X, Z) R`` (n, r)."""
        kernel, threads = self.kernel, self.threads
        if self.basis == RANDOMIZED:
            random = np.random.Generator(np.random.Philox(seed))
            Z = X[random.choice(len(X), landmarks, replace=False)]
            R = _randomized(kernel.pairwise(Z), rank, seed)
            return Z, R, kernel.product(X, Z, R, threads=threads)
        options: Any = {"max_landmarks": landmarks, "seed": seed, "threads": threads}
        found = METHODS[LANDMARKS[self.basis]](X, kernel, **options)
        if max(found.factor.max(), -found.factor.min()) < _NOTHING:
            # A narrow kernel sees no point from the centres of clusters; from points it does.
            found = METHODS["uniform"](X, kernel, **options)
        R = scipy.linalg.solve_triangular(found.L, np.eye(found.rank), lower=True, trans="T")
        assert found.points is not None
        return found.points[found.used], R, found.factor

    def links(
        self, points: Numbers, clusters: Clusters, bases: list[Basis], W: BlockDiagonal
    ) -> LinkMatrix:
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
            if s == t:
                return bases[s].link
            one, other = samples[s], samples[t]  # the least squares solution on their block
            G = self.kernel.pairwise(one.points, other.points)
            return np.asarray(one.inverse @ G @ other.inverse.T)

        pairs = np.concatenate([np.repeat(np.arange(len(bases))[:, None], 2, axis=1), apart])
        return LinkMatrix.of(pairs, made, W.ranks, W.values.dtype)

    def _seed(self, number: int) -> int:
        """Return the seed of a part of the work."""
        return int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
