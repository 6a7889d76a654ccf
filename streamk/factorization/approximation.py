"""The MEKA approximation of a kernel matrix, ``W L W^T``, and its use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import kernels
from streamk.declared import Declared, Domain, number, reading, taken
from streamk.errors import InvalidInput, shown
from streamk.factorization import solving
from streamk.factorization.blocks import BlockDiagonal, LinkMatrix
from streamk.factorization.checks import columns_of, indices_of
from streamk.factorization.clusters import ClusteredMatrix, Clusters, by_cluster, divided
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers, checked_points
from streamk.landmarks.selection import check_count
from streamk.options import Choice, Real
from streamk.state import State

_ENTRIES = 1 << 22
"""Entries of the kernel matrix that `error` has at a time, about."""
_COORDINATES = 1 << 18
"""Coordinates of points that `approximate` has at a time, about."""
_POSITIVE = Real(open_below=True)
_OWNER = "a MEKA's damaged state"
_DECLARED = (
    Declared("centers", "float64", ("clusters", "columns")),
    Declared("points", "float64", ("points", "columns")),
    Declared("ranks", "int64", ("clusters",), Domain(1, 2**31)),
    Declared("counts", "int64", ("clusters",), Domain(0, 2**31)),
    Declared("landmarks", "float64", ("landmarks", "columns")),
    Declared("maps", "float64", ("weights",)),
)
_OWN = ("type", "format", "shift", "clear")
"""Of a header; the others are the kernel's."""


@dataclass(frozen=True, eq=False, repr=False)
class Meka(ClusteredMatrix):
    """The approximation ``W L W^T + shift I`` of a kernel matrix; made by `meka`.

    Attributes
    ----------
    kernel : Kernel
    points : float64 array of shape (n, d)
        What the matrix is of; the memory is that of the array given, if it was float64.
    shift : float
        What `psd` has added to the diagonal.

    Raises
    ------
    InvalidInput
        By methods, if a shape does not fit or a value is not finite.
    """

    shift: float
    _W: BlockDiagonal
    _L: LinkMatrix
    _landmarks: tuple[Numbers, ...]
    _maps: tuple[Numbers, ...]
    """From kernel values at a cluster's landmarks to coordinates, (landmarks, rank)."""
    _threads: int | None
    _clear: bool = False
    """True once `psd` has made it positive semidefinite."""

    def __repr__(self) -> str:
        return (
            f"<MEKA of {self.n} points in {self.n_clusters} clusters, rank {self.rank}, "
            f"{self.nbytes / 1e6:.1f} MB>"
        )

    # What it is

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.n, self.n

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Directions of each cluster's basis, (c,)."""
        return np.array(self._W.ranks, np.int64)

    @property
    def rank(self) -> int:
        """Directions of all clusters."""
        return sum(self._W.ranks)

    @property
    def nbytes(self) -> int:
        """Memory of W and L, in bytes; L is symmetric, and a pair of blocks is stored once."""
        return self._W.nbytes + self._L.nbytes

    @property
    def map_nbytes(self) -> int:
        """Memory of what new points need: landmarks and their maps, in bytes."""
        return sum(a.nbytes for a in (*self._landmarks, *self._maps))

    def basis(self, s: int) -> NDArray[Any]:
        """W(s), (points of the cluster, its rank), a view."""
        return self._W.block(range(self.n_clusters)[s])

    def link(self, s: int, t: int) -> NDArray[Any]:
        """L(s, t), (rank of s, rank of t); 0 where the threshold left it out."""
        clusters = range(self.n_clusters)
        s, t = clusters[s], clusters[t]
        found = self._L.block(s, t)
        if found is None:
            return np.zeros((self._W.ranks[s], self._W.ranks[t]), self._L.values.dtype)
        return found

    @property
    def links(self) -> NDArray[np.bool_]:
        """True for each block of L that there is, (c, c)."""
        return self._L.there()

    # The matrix

    def matvec(self, v: ArrayLike) -> Numbers:
        """Return the matrix times v, (n,) or (n, p)."""
        V = columns_of(v, self.n, "v")
        return solving.times(self._W, self._L, self.shift, V, self._threads)

    __matmul__ = matvec

    def approximate(self, rows: ArrayLike, columns: ArrayLike) -> Numbers:
        """Return entries of the approximation; the two are broadcast against each other."""
        self._check_rows()
        i, j = np.broadcast_arrays(indices_of(rows), indices_of(columns))
        out, a, b = np.empty(i.size), i.reshape(-1), j.reshape(-1)
        pairs = self.labels[a].astype(np.int64) * self.n_clusters + self.labels[b]
        order = np.argsort(pairs, kind="stable")
        present, starts = np.unique(pairs[order], return_index=True)
        step = max(1, _COORDINATES // max(self._W.ranks))
        for pair, every in zip(present.tolist(), np.split(order, starts[1:]), strict=False):
            s, t = divmod(pair, self.n_clusters)
            for first in range(0, len(every), step):
                some = every[first : first + step]
                left = self.basis(s)[self._places[a[some]]].astype(np.float64)
                right = self.basis(t)[self._places[b[some]]].astype(np.float64)
                out[some] = np.einsum("ik,ik->i", left @ self.link(s, t), right)
        out[a % self.n == b % self.n] += self.shift
        return out.reshape(i.shape)

    def error(self, n_rows: int = 1000, seed: int = 0) -> float:
        """Return the error ``|G - G~|_F / |G|_F`` on all columns of rows drawn at random (§6.1).

        They are all rows if there are fewer.
        """
        self._check_rows()
        drawn = self._drawn(n_rows, seed)
        missed = total = 0.0
        step = max(1, _ENTRIES // max(map(len, self.clusters.rows)))
        for s in range(self.n_clusters):
            own = drawn[self.labels[drawn] == s]
            for first in range(0, len(own), step):
                some = own[first : first + step]
                W = self.basis(s)[self._places[some]].astype(np.float64)
                for t, rows in enumerate(self.clusters.rows):
                    G = self.kernel.pairwise(self.points[some], self.points[rows])
                    total += float(np.vdot(G, G))
                    G -= (W @ self.link(s, t)) @ self.basis(t).T
                    if s == t:
                        G[np.arange(len(some)), self._places[some]] -= self.shift
                    missed += float(np.vdot(G, G))
        return float(np.sqrt(missed / total))

    def psd(self, method: str = "clip") -> Meka:
        """Return the approximation without negative eigenvalues (§7.1).

        Parameters
        ----------
        method : {"clip", "shift"}, default "clip"
            Set the negative eigenvalues of L to 0 ("MEKA-PSD"), or add the magnitude of the
            smallest one of ``W L W^T`` to the diagonal. Clipped, L is stored in its precision
            again: in single precision some are left, down to about -1e-8 of the largest one. A
            shift is as large as the approximation is poor, so it can raise `error` much, and new
            points know nothing of it.

        Notes
        -----
        Takes dense matrices of the rank, as `eigh` and `features` do.
        """
        if method == "clip":
            return replace(self, _L=self._L.clipped(), _clear=True)
        if method == "shift":
            self._check_rows()
            smallest = float(solving.reduced(self._W, self._L)[0][0])
            return replace(self, shift=max(self.shift, -smallest), _clear=True)
        raise InvalidInput(f"method={method!r} of psd must be 'clip' or 'shift'")

    def is_definite(self, lam: float, *, weights: ArrayLike | None = None) -> bool:
        """Return whether ``lam I + G~``, or what `solve` has with weights, is positive definite.

        LinkMatrix by least squares may make negative eigenvalues. Where one is near -lam, `solve`
        returns coefficients that have nothing to do with the kernel's; take `psd` before.

        Up to a rank of 8,192 a dense Cholesky factorization of it decides. Beyond, conjugate
        gradients on a random vector do, with nothing dense: a direction of negative curvature says
        no, and a residual of 1e-8 without one says yes, which is wrong with a chance of 1e-8 times
        the root of the rank. No is also what they say where 10,000 steps do not tell, which may be
        where what lam leaves of the smallest eigenvalue is below about 1e-6 of the largest one.

        Raises
        ------
        InvalidInput
            If lam is not a positive number, or weights are none.
        """
        _POSITIVE.check("lam", lam)
        self._check_rows()
        W, shift, _ = solving.weighted(self._W, float(lam), self.shift, weights)
        return solving.definite(W, self._L, shift)

    def solve(
        self,
        lam: float,
        y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        method: str | None = None,
    ) -> Numbers:
        """Solve ``(lam I + G~) alpha = y``, as kernel ridge regression does.

        Parameters
        ----------
        lam : float
            Positive.
        y : array of shape (n,) or (n, p)
        weights : array of shape (n,), optional
            How much the squared error of each point counts, at least 0: it solves
            ``(lam diag(weights)^-1 + G~) alpha = y``.
        method : {"woodbury", "cg", "minres"}, optional
            "woodbury" solves one dense system of the rank: ``(I - W (lam I + L W^T W)^-1 L W^T) y
            / lam``, which unlike the form in §7.3 takes no inverse of L. "cg" needs ``lam I + G~``
            to be positive definite, which `is_definite` is asked before; "minres" takes nothing
            dense. By default "woodbury" up to a rank of 8,192, whose system is a matrix of 512 MB,
            and "minres" beyond.

        Returns
        -------
        float64 array of the shape of `y`
            Its residual is about 1e-8 of y, where lam is tiny up to 1e-5; with weights both count
            by their roots.

        Raises
        ------
        InvalidInput
            If an argument cannot be used, a larger residual is left, as of a matrix that is
            singular, or "cg" is asked of one that is not positive definite.
        """
        _POSITIVE.check("lam", lam)
        if method is not None:
            Choice(choices=solving.METHODS).check("method", method)
        self._check_rows()
        Y = columns_of(y, self.n, "y")
        W, shift, scale = solving.weighted(self._W, float(lam), self.shift, weights)
        wanted = scale * Y.reshape(self.n, -1)
        try:
            found = solving.solve(W, self._L, shift, wanted, method, self._threads)
        except solving.Unsolvable as error:
            instead = "" if self._clear else ", or psd() before"
            raise solving.Unsolvable(f"{error}: take a larger lam{instead}") from None
        return (scale * found).reshape(Y.shape)

    def eigh(self, k: int) -> tuple[Numbers, Numbers]:
        """Return the k largest of the eigenvalues of ``W L W^T`` beside its zeros, plus the shift.

        They are float64 (k,), descending, with orthonormal eigenvectors (n, k). Raises
        `InvalidInput` if k is larger than the rank.
        """
        check_count("k", k)
        if k > self.rank:
            raise InvalidInput(f"k={shown(k)} is larger than the rank {self.rank}")
        self._check_rows()
        values, U = solving.reduced(self._W, self._L)
        vectors = self._W.up(np.ascontiguousarray(U[:, ::-1][:, :k]))
        return values[::-1][:k] + self.shift, vectors

    # Points that were not there

    def coordinates(self, X: ArrayLike) -> tuple[NDArray[np.int32], Numbers]:
        """Return the clusters (m,) of points, and the coordinates there, (m, largest rank).

        Rows of clusters of a smaller rank end with zeros.
        """
        points, labels = self._placed(X)
        w = np.zeros((len(points), max(self._W.ranks)))
        for s, some in by_cluster(labels):
            w[some, : self._W.ranks[s]] = self.kernel.product(
                points[some], self._landmarks[s], self._maps[s], threads=self._threads
            )
        return labels, w

    def weights(self, alpha: ArrayLike) -> Numbers:
        """Return ``L W^T alpha``, (rank,) or (rank, p): what `predict` takes coordinates with.

        A `shift` is not part of it.
        """
        return self._L.times(self._W.down(np.ascontiguousarray(columns_of(alpha, self.n, "alpha"))))

    def predict(self, X: ArrayLike, beta: ArrayLike) -> Numbers:
        """Return the approximate kernel between points X (m, d) and the matrix's, times alpha.

        It is ``W L W^T`` alone: a `shift` of the diagonal, as noise, says nothing of new points.
        Beta (rank,) or (rank, p) is what `weights` returns of alpha; the result is float64, (m,) or
        (m, p). A row's is the same, bit for bit, in whatever batch it comes.
        """
        B = columns_of(beta, self.rank, "beta", "directions")
        points, labels = self._placed(X)
        return self._predictor(B, np.unique(labels).tolist()).of(points, labels)

    def predictor(self, beta: ArrayLike) -> MekaPredictor:
        """Return what predicts as `predict` with these coefficients and keeps no more than that."""
        B = columns_of(beta, self.rank, "beta", "directions")
        alone = self._clusters_alone()
        return replace(self._predictor(B, range(self.n_clusters)), clusters=alone)

    def _predictor(self, B: Numbers, clusters: Iterable[int]) -> MekaPredictor:
        wide = self._W.columns
        weights = {s: self._maps[s] @ B[wide[s] : wide[s + 1]] for s in clusters}
        return MekaPredictor(self.kernel, self.clusters, self._landmarks, weights, B.shape[1:])

    def features(self, X: ArrayLike) -> Numbers:
        """Return features (m, rank) whose products are the approximate kernel, clipped as in `psd`.

        A `shift` is not part of them.
        A row's features are the same, bit for bit, in whatever batch it comes.
        """
        return self.predict(X, self._root)

    def feature_map(self, s: int) -> tuple[Numbers, Numbers]:
        """Return landmarks Z (m, d) of a cluster and V (m, rank): features are ``k(x, Z) V``."""
        first = int(self._W.columns[s])
        return self._landmarks[s], self._maps[s] @ self._root[first : first + self._W.ranks[s]]

    @cached_property
    def _root(self) -> Numbers:
        """A root of the positive part of L, (rank, rank)."""
        values, vectors = np.linalg.eigh(self._L.dense())
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def pairwise(self, X: ArrayLike, Y: ArrayLike | None = None) -> Numbers:
        """Return the approximate kernel ``w(x)^T L w(y)`` of points, without the shift, (m, p).

        Points are X (m, d) and Y (p, d), which is `X` by default.
        """
        sides = [self.coordinates(X)]
        sides.append(sides[0] if Y is None else self.coordinates(Y))
        out = np.empty([len(labels) for labels, _ in sides])
        for s, some in by_cluster(sides[0][0]):
            for t, others in by_cluster(sides[1][0]):
                left, right = sides[0][1][some], sides[1][1][others]
                k, m = self._W.ranks[s], self._W.ranks[t]
                out[np.ix_(some, others)] = left[:, :k] @ self.link(s, t) @ right[:, :m].T
        return out

    def compact(self) -> Meka:
        """Return what new points need, without W and the points: a matrix of no rows."""
        none = np.empty((0, self.points.shape[1]))
        clusters = self._clusters_alone()
        W = BlockDiagonal(self._W.values[:0].copy(), clusters.rows, self._W.ranks)
        return replace(self, points=none, clusters=clusters, _W=W)

    # State

    def state(self) -> State:
        """Return all of it; a Meka made from it is the same, bit for bit."""
        counts = np.array([len(Z) for Z in self._landmarks], np.int64)
        arrays: dict[str, NDArray[Any]] = {
            "points": self.points,
            "centers": self.centers,
            "labels": self.labels,
            "ranks": self.ranks,
            "W": self._W.values,
            "L": self._L.values,
            "pairs": self._L.pairs,
            "counts": counts,
            "landmarks": np.concatenate(self._landmarks),
            "maps": np.concatenate([T.reshape(-1) for T in self._maps]),
        }
        header = {"type": "meka", **self.kernel.to_json()}
        header |= {"shift": self.shift, "clear": self._clear}
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State, threads: int | None = None) -> Meka:
        """Return what `state` was made of, or raise StateError if it is damaged or another's."""
        state.expect("meka")
        with reading("a MEKA's state"):  # damage is one of many errors
            return cls(**_parts_of(state, threads))

    # Inside

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Row of each point in its cluster's block, (n,)."""
        places = np.empty(self.n, np.int64)
        for rows in self.clusters.rows:
            places[rows] = np.arange(len(rows))
        return places

    def _clusters_alone(self) -> Clusters:
        """Return the clusters without their points."""
        return divided(self.centers, self.labels[:0].copy(), self._threads)

    def _check_rows(self) -> None:
        if not self.n:
            raise InvalidInput("a compact approximation has no rows; ask the one it was made from")

    def _placed(self, X: ArrayLike) -> tuple[Numbers, NDArray[np.int32]]:
        points = checked_points(X, "X", least=0)
        return points, self.clusters.nearest(points)


@dataclass(frozen=True, eq=False, repr=False)
class MekaPredictor:
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


def _parts_of(state: State, threads: int | None) -> dict[str, Any]:
    """Return the fields of a `Meka`."""
    header = dict(state.header)
    kernel = kernels.from_json({k: v for k, v in header.items() if k not in _OWN})
    a = _checked(state.arrays)
    ranks, counts = a["ranks"].tolist(), a["counts"].tolist()
    if not ranks:
        raise ValueError("it has no clusters")
    clusters = divided(a["centers"], a["labels"], threads)
    # Compiled loops go by these sizes and look at no others.
    pairs = a["pairs"].tolist()
    parts = [m * k for m, k in zip(counts, ranks, strict=True)]
    wanted = {
        "W": sum(len(rows) * k for rows, k in zip(clusters.rows, ranks, strict=True)),
        "L": sum(ranks[s] * ranks[t] for s, t in pairs),
        "landmarks": sum(counts),
        "maps": sum(parts),
    }
    if any(len(a[name]) != length for name, length in wanted.items()):
        raise ValueError(f"its arrays do not fit each other: these lengths do, {wanted}")
    if any(s > t for s, t in pairs) or len(set(map(tuple, pairs))) < len(pairs):
        raise ValueError("array 'pairs' has a pair twice, or one that is not ascending")
    W, L = BlockDiagonal(a["W"], clusters.rows, ranks), LinkMatrix(a["L"], a["pairs"], ranks)
    landmarks = np.split(a["landmarks"], np.cumsum(counts)[:-1])
    maps = np.split(a["maps"], np.cumsum(parts)[:-1])
    shaped = (T.reshape(m, k) for T, m, k in zip(maps, counts, ranks, strict=True))
    return {
        "kernel": kernel,
        "points": a["points"],
        "shift": number(header, "shift", _OWNER),
        "clusters": clusters,
        "_W": W,
        "_L": L,
        "_landmarks": tuple(landmarks),
        "_maps": tuple(shaped),
        "_threads": threads,
        "_clear": bool(header["clear"]),
    }


def _checked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state, each of which fits by itself."""
    found, sizes = taken(_DECLARED, arrays, {}, _OWNER)
    clusters = Domain(0, sizes["clusters"] - 1)
    # W and L are stored in single precision or in double.
    stored = {name: getattr(arrays.get(name), "dtype", None) for name in ("W", "L")}
    dtype = {name: "float32" if kind == np.float32 else "float64" for name, kind in stored.items()}
    more = (
        Declared("labels", "int32", ("points",), clusters),
        Declared("pairs", "int64", ("links", 2), clusters),
        Declared("W", dtype["W"], ("coordinates",)),
        Declared("L", dtype["L"], ("products",)),
    )
    return found | taken(more, arrays, sizes, _OWNER)[0]
