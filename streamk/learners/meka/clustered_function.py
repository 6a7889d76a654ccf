"""A function that is linear in features by clusters, and is learned while these grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import NON_NEGATIVE, Declared, Domain, count, number, taken
from streamk.errors import StateError
from streamk.factorization.clusters import Labels, by_cluster, nearest
from streamk.kernels import Kernel
from streamk.landmarks import Admission
from streamk.learners.common.optimizers import Optimizer
from streamk.learners.meka.growing_features import GrowingFeatures, Matrix
from streamk.state import State

Served = Sequence[tuple[Matrix, Matrix]]
"""Landmarks and coefficients of each cluster."""


class ClusteredFunction:
    """Features, their coefficients, and how many events each cluster has had since they were made.

    Parameters
    ----------
    features : GrowingFeatures
    optimizer : Optimizer
        Of so many coefficients.
    sizes : array of shape (c,)
        Points of each cluster that the features were made of.
    error : float, optional
        Of the kernel of events held back then.
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

        Parameters
        ----------
        eligible : bool array of shape (n,)
            Which events may become landmarks.
        asked : array of shape (n, d), optional
            Events to be predicted, each before that of X is looked at.

        Returns
        -------
        array of shape (n, outputs)
            What was predicted; of no use where nothing was asked for.

        Raises
        ------
        InvalidInput
            If a prediction overflows; the events before it are learned.
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

    def widen(self, W: Matrix) -> None:
        """Take coefficients of more outputs."""
        self.optimizer.W = W

    def decide(self, X: Matrix) -> Matrix:
        """Return the outputs (n, outputs) of events."""
        return self.optimizer.outputs(self.features.transform(X, self.features.nearest(X)))

    def frozen(self) -> Callable[[Matrix], Matrix]:
        """Return what `decide` says now but for rounding, whatever is learned later."""
        kernel, centers = self.features.kernel, self.features.centers
        served = [self.features.expanded(s, self.optimizer.W) for s in range(len(self.features))]
        return lambda X: _decided(kernel, X, nearest(X, centers), served)

    def add_columns(self, count: int) -> None:
        """Append columns that were zero in all events so far."""
        self.features.add_columns(count)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.features.nbytes + self.optimizer.nbytes

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        steps = self.optimizer.n_steps
        header: dict[str, Any] = {"type": self.TYPE, "n_steps": steps}
        header["error"] = self.error
        whole = State.nest({"features": self.features.state()}, header)
        own = {name: array.copy() for name, array in self.optimizer.arrays().items()}
        counts = {"sizes": self.sizes, "seen": self.seen.copy()}
        return State(whole.header, {**whole.arrays, **own, **counts})

    @classmethod
    def from_state(cls, state: State, optimizer: Optimizer, columns: int) -> Self:
        """Return the function whose state this is, with an optimizer that has learned nothing.

        Parameters
        ----------
        state : State
        optimizer : Optimizer
        columns : int
            Those that events have.

        Raises
        ------
        StateError
            If it is the state of something else, or its arrays do not fit.
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


def _decided(kernel: Kernel, X: Matrix, labels: Labels, served: Served) -> Matrix:
    """Return the outputs (n, outputs) of events of clusters."""
    F = np.zeros((len(X), served[0][1].shape[1]))
    for s, rows in by_cluster(labels):
        landmarks, coefficients = served[s]
        if len(landmarks):
            F[rows] = kernel.product(X[rows], landmarks, coefficients)
    return F
