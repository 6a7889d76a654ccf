"""Features of events by the cluster that they are in, which clusters gain more of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.declared import NON_NEGATIVE, Declared, Domain, count, number, reading, taken
from streamk.errors import StateError
from streamk.factorization.checks import checked_kernel
from streamk.factorization.clusters import Labels, by_cluster, nearest
from streamk.factorization.meka import meka
from streamk.kernels import Kernel, Linear
from streamk.landmarks import Admission, IncrementalOasis
from streamk.learners.common.optimizers import Optimizer
from streamk.state import State

Matrix = NDArray[np.float64]

_DOT = Linear()
"""Its matrices are products whose bits depend on nothing but the numbers, unlike those of BLAS,
whose threads may be limited while something else runs."""


@dataclass
class _Cluster:
    """One cluster's part."""

    landmarks: Matrix
    """(m, d)"""
    map: Matrix
    """From kernel values at the landmarks to the features of the factorization, (m, rank)."""
    grown: IncrementalOasis
    """Those landmarks, and the events that have become landmarks since."""
    kept: NDArray[np.int64]
    """Those of the landmarks that it took: the others are in their span."""
    columns: list[int] = field(default_factory=list)
    """Places of the gained coordinates among all features."""

    @property
    def points(self) -> Matrix:
        """All landmarks, those gained at the end."""
        return np.vstack([self.landmarks, self.grown.points[len(self.kept) :]])


class GrowingFeatures:
    """Features ``w(x) L^(1/2)`` of a factorization, and one for each landmark gained since.

    An event of cluster s whose Schur complement given the landmarks of s is above a tolerance
    becomes a landmark of it. Its coordinate, orthogonal to the span of those before, becomes a
    feature of the events of s; for all others it is 0.

    Clusters with centers (c, d) have landmarks (m, d) and maps (m, rank) each. All together may
    gain as many landmarks as there is `room`.
    """

    TYPE = "growing-features"

    def __init__(
        self,
        kernel: Kernel,
        centers: Matrix,
        landmarks: Sequence[Matrix],
        maps: Sequence[Matrix],
        *,
        room: int,
        tol: float,
    ) -> None:
        self.kernel, self.centers, self.room = kernel, centers, room
        self.rank = self.size = int(maps[0].shape[1])
        self._clusters = []
        for Z, V in zip(landmarks, maps, strict=True):
            grown = IncrementalOasis(kernel, max_landmarks=len(Z) + room, tol=0.0, margin=None)
            found = grown.begin(Z)
            grown.tol = tol
            self._clusters.append(_Cluster(Z, V, grown, found))

    @classmethod
    def of(
        cls,
        X: Matrix,
        kernel: Kernel,
        *,
        rank: int,
        n_clusters: int,
        seed: int,
        room: int,
        tol: float,
    ) -> tuple[Self, NDArray[np.int64]]:
        """Return the features of a factorization of events, and how many each cluster has."""
        found = meka(
            X, kernel, rank=rank, n_clusters=n_clusters, seed=seed, dtype=np.float64, threads=1
        )
        parts = [found.feature_map(s) for s in range(found.n_clusters)]
        landmarks, maps = zip(*parts, strict=True)
        sizes = np.bincount(found.labels, minlength=found.n_clusters)
        return cls(kernel, found.centers, landmarks, maps, room=room, tol=tol), sizes

    @classmethod
    def empty(cls, kernel: Kernel, d: int, *, room: int, tol: float) -> Self:
        """Return the features of a single cluster without landmarks, all of which it has to gain.

        They are coordinates of the plain kernel in the span of the events that became landmarks.
        """
        none = np.zeros((0, d))
        return cls(kernel, np.zeros((1, d)), [none], [none[:, :0]], room=room, tol=tol)

    @property
    def n_grown(self) -> int:
        """Landmarks gained."""
        return self.size - self.rank

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        parts = (c.landmarks.nbytes + c.map.nbytes + c.grown.nbytes for c in self._clusters)
        return self.centers.nbytes + sum(parts)

    def nearest(self, X: Matrix) -> Labels:
        """Return the cluster of each event."""
        return nearest(X, self.centers)

    def grow(self, X: Matrix, labels: Labels, eligible: NDArray[np.bool_]) -> list[int]:
        """Look at events of clusters, and return the rows of those that became landmarks.

        Each got a feature, in their order. What it is of the events before, `transform` tells too.
        """
        rows, found = np.flatnonzero(eligible), list[int]()
        while len(rows) and self.n_grown < self.room:
            # So many at a time as there is room for: then each cluster's are its own affair.
            some, rows = np.split(rows, [self.room - self.n_grown])
            found += self._grow(X, labels, some)
        return found

    def _grow(self, X: Matrix, labels: Labels, some: NDArray[np.int64]) -> list[int]:
        """Look at some rows, fewer than there is room for."""
        found = []
        for s, places in by_cluster(labels[some]):
            rows = some[places]
            for part, changes, *_ in self._clusters[s].grown.follow(X[rows]):
                if changes:
                    found.append((int(rows[part.start]), s))
        for _, s in sorted(found):
            self._clusters[s].columns.append(self.size)
            self.size += 1
        return sorted(row for row, _ in found)

    def transform(self, X: Matrix, labels: Labels) -> Matrix:
        """Return the features (n, size) of events of clusters."""
        Phi = np.zeros((len(X), self.size))
        for s, rows in by_cluster(labels):
            one = self._clusters[s]
            if self.rank:
                Phi[rows, : self.rank] = self.kernel.product(X[rows], one.landmarks, one.map)
            if one.columns:
                gained = one.grown.transform(X[rows])[:, len(one.kept) :]
                Phi[rows[:, None], one.columns] = gained
        return Phi

    def pairwise(self, X: Matrix) -> Matrix:
        """Return the kernel matrix of events that products of features give."""
        Phi = self.transform(X, self.nearest(X))
        return _DOT.pairwise(Phi)

    def expanded(self, s: int, W: Matrix) -> tuple[Matrix, Matrix]:
        """Return landmarks (l, d) of a cluster and their coefficients (l, outputs).

        The sum of their kernels is the function ``W' features``, W (size, outputs), in the cluster.
        """
        one = self._clusters[s]
        coefficients = np.zeros((len(one.landmarks), W.shape[1]))
        if self.rank:
            coefficients += _DOT.pairwise(one.map, np.ascontiguousarray(W[: self.rank].T))
        if not one.columns:
            return one.landmarks, coefficients
        inner = np.zeros((one.grown.n_landmarks, W.shape[1]))
        inner[len(one.kept) :] = W[one.columns]
        more = one.grown.coefficients(inner)
        coefficients[one.kept] += more[: len(one.kept)]
        return one.points, np.vstack([coefficients, more[len(one.kept) :]])

    def __len__(self) -> int:
        return len(self._clusters)

    def add_columns(self, count: int) -> None:
        """Append columns that were zero in all events so far."""
        self.centers = np.pad(self.centers, ((0, 0), (0, count)))
        for one in self._clusters:
            one.landmarks = np.pad(one.landmarks, ((0, 0), (0, count)))
            one.grown.add_columns(count)

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            "kernel": self.kernel.to_json(),
            "size": self.size,
            "room": self.room,
            "clusters": len(self),
        }
        parts = {}
        for s, one in enumerate(self._clusters):
            arrays = {
                "landmarks": one.landmarks,
                "map": one.map,
                "kept": one.kept,
                "columns": np.array(one.columns, np.int64),
            }
            grown = {"grown": one.grown.state()}
            parts[f"cluster{s}"] = State.nest(grown, {"type": "cluster"}, arrays)
        return State.nest(parts, header, {"centers": self.centers})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the features of a state, or raise StateError if it does not fit."""
        header: Any = state.expect(cls.TYPE).header
        made = cls.__new__(cls)
        with reading(_FEATURES):
            made.kernel = checked_kernel(kernels.from_json(header["kernel"]))
        made.room = count(header, "room", _FEATURES)
        found, sizes = taken(_FEATURES_ARRAYS, state.arrays, {}, _FEATURES)
        if count(header, "clusters", _FEATURES, least=1) != sizes["clusters"]:
            raise StateError(
                f"'clusters' of {_FEATURES} are {header['clusters']}, not as many as there are "
                f"'centers', {sizes['clusters']}"
            )
        made.centers = np.array(found["centers"], order="C")
        made._clusters = []
        for s in range(sizes["clusters"]):
            cluster, sizes = _restored(state.child(f"cluster{s}"), sizes)
            made._clusters.append(cluster)
        made.rank = sizes["rank"]
        if made.rank > sum(len(one.landmarks) for one in made._clusters):
            raise StateError(
                f"arrays 'map' of {_FEATURES} have more columns than there are landmarks"
            )
        made.size = made.rank + sum(len(one.columns) for one in made._clusters)
        places = sorted(place for one in made._clusters for place in one.columns)
        if places != list(range(made.rank, made.size)) or header.get("size") != made.size:
            raise StateError(
                f"arrays 'columns' of {_FEATURES} must number the features from {made.rank} to "
                f"{made.size - 1} once each, and its 'size' be {made.size}"
            )
        return made


def _restored(state: State, sizes: dict[str, int]) -> tuple[_Cluster, dict[str, int]]:
    """Return a cluster out of its state, and the sizes that all clusters have in common."""
    # What differs from one to the next is not known yet.
    common = {name: size for name, size in sizes.items() if name in ("columns", "rank")}
    found, own = taken(_OF_CLUSTER, state.arrays, common, "a cluster")
    landmarks, kept = found["landmarks"], found["kept"]
    numbers = Declared("kept", "int64", ("kept",), Domain(0, len(landmarks) - 1))
    taken([numbers], found, own, "a cluster")
    grown = IncrementalOasis.from_state(state.child("grown"))
    points = grown.points
    if grown.n_events and points.shape[1] != own["columns"]:
        raise StateError(
            f"array 'points' of a cluster must have {own['columns']} columns, not {points.shape[1]}"
        )
    if len(points) != own["kept"] + own["gained"]:
        raise StateError(
            f"a cluster has {len(points)} landmarks in array 'points', but {own['kept']} in 'kept' "
            f"and {own['gained']} in 'columns'; it is damaged"
        )
    landmarks, V = (np.array(found[name], order="C") for name in ("landmarks", "map"))
    cluster = _Cluster(landmarks, V, grown, kept.copy(), found["columns"].tolist())
    return cluster, {**sizes, "rank": own["rank"]}


_FEATURES = "growing features"
_FEATURES_ARRAYS = (Declared("centers", "float64", ("clusters", "columns")),)
_OF_CLUSTER = (
    Declared("landmarks", "float64", ("landmarks", "columns")),
    Declared("map", "float64", ("landmarks", "rank")),
    Declared("kept", "int64", ("kept",)),
    Declared("columns", "int64", ("gained",)),
)


class ClusteredFunction:
    """Features, their coefficients, and how many events each cluster has had since they were made.

    They were made of points of which the clusters had `sizes` (c,); the kernel of events held back
    then had the `error`.
    """

    TYPE = "clustered-function"

    def __init__(
        self,
        features: GrowingFeatures,
        optimizer: Optimizer,
        sizes: NDArray[np.int64],
        error: float | None = None,
    ) -> None:
        self.features, self.optimizer = features, optimizer
        self.sizes, self.error = sizes, error
        self.seen = np.zeros(len(features), np.int64)

    @property
    def shift(self) -> float:
        """Half the sum over clusters of how far their shares of events are from what they were."""
        if not (self.seen.sum() and self.sizes.sum()):
            return 0.0
        return 0.5 * float(
            np.abs(self.seen / self.seen.sum() - self.sizes / self.sizes.sum()).sum()
        )

    def learn(
        self, X: Matrix, y: Matrix, eligible: NDArray[np.bool_], asked: Matrix | None = None
    ) -> Matrix:
        """Learn from events X (n, d) one after the other, each after the features grew by it.

        Those that are eligible (n,) may become landmarks. Each of `asked` (n, d) is predicted
        before that of X is looked at. Returns what was predicted, (n, outputs); undefined where
        nothing was asked for. Raises `InvalidInput` if a prediction overflows; the events before it
        are learned.
        """
        labels, size = self.features.nearest(X), self.features.size
        rows = self.features.grow(X, labels, eligible)
        Phi = self.features.transform(X, labels)
        Q = None
        if asked is not None:
            Q = Phi if asked is X else self.features.transform(asked, self.features.nearest(asked))
        at, optimizer, F = 0, self.optimizer, np.empty((len(X), self.optimizer.n_outputs))
        try:
            for count, row in enumerate(rows):
                if row > at:
                    use = size + count
                    ahead = None if Q is None else Q[at:row, :use]
                    F[at:row] = optimizer.learn(Phi[at:row, :use], y[at:row], ahead)
                # The new feature has no coefficient yet, and so no say in what is predicted.
                optimizer.carry(Admission())
                at = row
            F[at:] = optimizer.learn(Phi[at:], y[at:], None if Q is None else Q[at:])
        finally:
            while len(self.optimizer.W) < self.features.size:
                self.optimizer.carry(Admission())
        self.seen += np.bincount(labels, minlength=len(self.seen))
        return F

    def decide(self, X: Matrix) -> Matrix:
        """Return the outputs (n, outputs) of events."""
        return self.optimizer.outputs(self.features.transform(X, self.features.nearest(X)))

    def frozen(self) -> Callable[[Matrix], Matrix]:
        """Return what `decide` says now but for rounding, whatever is learned later."""
        kernel, centers = self.features.kernel, self.features.centers
        served = [self.features.expanded(s, self.optimizer.W) for s in range(len(self.features))]

        def decide(X: Matrix) -> Matrix:
            F = np.zeros((len(X), served[0][1].shape[1]))
            for s, rows in by_cluster(nearest(X, centers)):
                landmarks, coefficients = served[s]
                if len(landmarks):
                    F[rows] = kernel.product(X[rows], landmarks, coefficients)
            return F

        return decide

    def add_columns(self, count: int) -> None:
        """Append columns that were zero in all events so far."""
        self.features.add_columns(count)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.features.nbytes + self.optimizer.nbytes

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, Any] = {"type": self.TYPE, "n_steps": self.optimizer.n_steps}
        header["error"] = self.error
        own: dict[str, NDArray[Any]] = {"sizes": self.sizes, "seen": self.seen.copy()}
        own |= {name: array.copy() for name, array in self.optimizer.arrays().items()}
        return State.nest({"features": self.features.state()}, header, own)

    @classmethod
    def from_state(cls, state: State, optimizer: Optimizer, columns: int) -> Self:
        """Return the function of a state, with an optimizer that has learned nothing.

        Raises `StateError` if it does not fit, or events have so many columns and it others.
        """
        header: Any = state.expect(cls.TYPE).header
        features = GrowingFeatures.from_state(state.child("features"))
        if features.centers.shape[1] != columns:
            raise StateError(
                f"array 'centers' of {_OWNER} must have {columns} columns, not "
                f"{features.centers.shape[1]}"
            )
        optimizer.load(state.arrays, features.size)
        optimizer.n_steps = count(header, "n_steps", _OWNER)
        error = None
        if header.get("error") is not None:
            error = number(header, "error", _OWNER, NON_NEGATIVE)
        found, _ = taken(_DECLARED, state.arrays, {"clusters": len(features)}, _OWNER)
        made = cls(features, optimizer, found["sizes"].copy(), error)
        made.seen = found["seen"].copy()
        return made


_OWNER = "a clustered function"
_EVENTS = Domain(least=0, most=2**53)
_DECLARED = (
    Declared("sizes", "int64", ("clusters",), _EVENTS),
    Declared("seen", "int64", ("clusters",), _EVENTS),
)
