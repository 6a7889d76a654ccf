"""Solving for coefficients on landmarks, and optimizers that carry them on to other landmarks.

A function is ``f(x) = W' phi(x)`` of coordinates phi in an orthonormal basis of the landmarks' span
(`streamk.landmarks.IncrementalOasis`), so ``|W|`` is its norm in the kernel's space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.declared import Declared, taken
from streamk.errors import InvalidInput
from streamk.landmarks import Change, carried
from streamk.learners.common.classes import bounded
from streamk.learners.common.steps import Step
from streamk.losses import Loss, LossCode

Matrix = NDArray[np.float64]

RIDGE = 1.0
"""Factor of half the squared norm of what is solved for, beside the sum of losses: that of errors
as large as the function where nothing is known of either."""
_ITERATIONS = 12

_FADED = 8.0
"""Most halvings of a coordinate's ridge by forgetting before it is given back."""


def curvature(loss: Loss, n_outputs: int) -> float | None:
    """Return a bound on the curvature of a loss in its outputs, None where it has none.

    Examples
    --------
    >>> from streamk.losses import loss
    >>> curvature(loss("logistic"), 1), curvature(loss("hinge"), 1)
    (0.25, None)
    """
    bounds = loss.kind.curvature
    return bounds and bounds[n_outputs > 1]


def projected(Phi: Matrix, F: Matrix, ridge: float) -> Matrix:
    """Return coefficients W (l, outputs) that make ``Phi W`` most like F (n, outputs).

    It is the least ``|Phi W - F|^2 + ridge |W|^2``.
    """
    A = Phi.T @ Phi
    A[np.diag_indices_from(A)] += ridge
    return np.asarray(scipy.linalg.cho_solve(_factor(A), Phi.T @ F, check_finite=False))


def _factor(A: Matrix) -> tuple[NDArray[Any], bool]:
    """Return what `cho_solve` takes of a positive definite matrix.

    NumPy's factorization lets go of the interpreter, which SciPy's keeps from the thread that
    learns, for some tenths of a second where A is large.
    """
    return np.linalg.cholesky(A), True


def resolved(
    loss: Loss, Phi: Matrix, y: NDArray[Any], weights: Matrix, W: Matrix, prior: Matrix
) -> tuple[Matrix, Matrix]:
    """Return the coefficients of least loss on events, and the curvature matrix of that.

    The least ``sum of weights l(Phi W, y) + tr (W - W0)' prior (W - W0) / 2`` is searched for from
    W0 (l, outputs) on by steps of a bound h on the curvature (Böhning and Lindsay 1988), with
    Nesterov's momentum; with squared loss the first is there. Phi is (n, l), y (n,) of class
    numbers or floats, weights (n,), prior (l, l), as is ``sum of weights h phi phi' + prior``.
    """
    bound = curvature(loss, W.shape[1])
    assert bound is not None
    A = (Phi.T * (bound * weights)) @ Phi + prior
    factor = _factor(A)
    at, ahead = W, W
    for turn in range(1 if loss.code == LossCode.SQUARED else _ITERATIONS):
        G = loss.gradient(Phi @ ahead, y) * weights[:, None]
        step = scipy.linalg.cho_solve(factor, Phi.T @ G + prior @ (ahead - W), check_finite=False)
        at, before = ahead - step, at
        ahead = at + turn / (turn + 3.0) * (at - before)
    return np.ascontiguousarray(at), A


class Contribution(NamedTuple):
    """The contribution of one optimizer where several are joined."""

    optimizer: Any
    B: Matrix
    """(l, l of its own): its coordinates are turned into those of the joint basis by this."""
    n_events: int


class Optimizer:
    """Coefficients W (l, outputs) of coordinates, and what learning them takes.

    `classes` tells whether labels are numbers of classes.
    """

    def __init__(self, loss: Loss, *, classes: bool, n_outputs: int) -> None:
        self.W: Matrix = np.zeros((0, n_outputs))
        self.n_steps = 0
        self.loss = loss
        self._loss = (int(loss.code), float(loss.parameter), classes)

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return int(self.W.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def begin(self, W: Matrix, Phi: Matrix, y: Matrix, n_steps: int) -> None:
        """Begin in other coordinates, as after so many steps.

        W (l, outputs) are coefficients of what was known before, Phi (n, l) coordinates of the last
        events learned, or of a sample, and y (n,) their labels.
        """
        raise NotImplementedError

    def outputs(self, Q: Matrix) -> Matrix:
        """Return the outputs (n, outputs), bounded, of events with coordinates Q (n, l)."""
        F = np.empty((len(Q), self.n_outputs))
        loops.coordinates.outputs(np.ascontiguousarray(Q), self.W, F)
        return bounded(F)

    def learn(self, Phi: Matrix, y: Matrix, Q: Matrix | None = None) -> Matrix:
        """Learn from the coordinates Phi (n, l) of events with labels y (n,), one after the other.

        Q (n, l) are the coordinates that each is predicted by before. Returns what was predicted,
        as `outputs` does; undefined without Q. Raises `InvalidInput` if a prediction overflows; the
        events before it are learned.
        """
        F = np.empty((len(Phi), self.n_outputs))
        if Q is not None:
            Q = np.ascontiguousarray(Q)
        labels = np.ascontiguousarray(y, dtype=np.float64)
        done = self._learn(np.ascontiguousarray(Phi), labels, Q, F)
        self.n_steps += done
        if done < len(Phi):
            raise InvalidInput(
                f"predictions overflowed at step {self.n_steps + 1}; scale the labels, or use a "
                "smaller step"
            )
        return F

    def _labels(self, y: Matrix) -> NDArray[Any]:
        """Return labels as `Loss` takes them."""
        return y.astype(np.intp) if self._loss[2] else y

    def _learn(self, Phi: Matrix, y: Matrix, Q: Matrix | None, F: Matrix) -> int:
        """Learn, the outputs of Q going into F if it is there; return how many are learned."""
        raise NotImplementedError

    def carry(self, change: Change) -> None:
        """Follow a change of the landmarks."""
        self.W = carried(self.W, change)

    def join(self, parts: Sequence[Contribution], common_events: int) -> None:
        """Become what several learned, in other bases, since they had `common_events` in common."""
        raise NotImplementedError

    def arrays(self) -> dict[str, Matrix]:
        """The arrays to go on from, by name; what overflowed is bounded, so that a state loads."""
        return {"coefficients": bounded(self.W)}

    def load(self, arrays: Mapping[str, NDArray[Any]], size: int) -> None:
        """Take what `arrays` gave, of so many landmarks, or raise StateError if it does not fit."""
        sizes = {"landmarks": size, "outputs": self.n_outputs}
        found, _ = taken(self._declared, arrays, sizes, "an optimizer")
        self._take({name: np.array(array, order="C") for name, array in found.items()})

    _declared: ClassVar[tuple[Declared, ...]] = (
        Declared("coefficients", "float64", ("landmarks", "outputs")),
    )

    def _take(self, arrays: Mapping[str, Matrix]) -> None:
        """Take arrays that fit."""
        self.W = arrays["coefficients"]


class StochasticGradient(Optimizer):
    """A step down the gradient of the loss for each event, not by AdaGrad."""

    def __init__(
        self, loss: Loss, step: Step, regularization: float, *, classes: bool, n_outputs: int
    ) -> None:
        super().__init__(loss, classes=classes, n_outputs=n_outputs)
        self._step, self._regularization = step, regularization

    def begin(self, W: Matrix, Phi: Matrix, y: Matrix, n_steps: int) -> None:
        """Begin in other coordinates, as after so many steps.

        Numbers are solved for, where the loss has a curvature; what W says of the events counts as
        much as their labels, as the events may be older than what was learned last. Of classes,
        gradient steps are taken on the events: their labels often come in runs, and what a step
        remembers is part of what it says.
        """
        self.W, self.n_steps = np.ascontiguousarray(W), n_steps
        if self._loss[2] or curvature(self.loss, self.n_outputs) is None:
            self.n_steps = max(0, n_steps - len(Phi))
            self.learn(Phi, y)
            return
        prior = (curvature(self.loss, self.n_outputs) or 0.0) * (Phi.T @ Phi)
        prior[np.diag_indices_from(prior)] += max(RIDGE, len(Phi) * self._regularization)
        self.W, _ = resolved(self.loss, Phi, self._labels(y), np.ones(len(Phi)), W, prior)

    def _learn(self, Phi: Matrix, y: Matrix, Q: Matrix | None, F: Matrix) -> int:
        sizes = self._step.sizes(self.n_steps + 1, len(Phi))
        decays = 1.0 - sizes * self._regularization
        return int(loops.coordinates.descend(Phi, y, self.W, self._loss, decays, sizes, Q, F))

    def join(self, parts: Sequence[Contribution], common_events: int) -> None:
        """Become the mean, weighed by the events since."""
        since = [part.n_events - common_events for part in parts]
        W = np.zeros((len(parts[0].B), self.n_outputs))
        for part, events in zip(parts, since, strict=True):
            W += events / sum(since) * (part.B @ part.optimizer.W)
        self.W = W
        self.n_steps = max(part.optimizer.n_steps for part in parts)


class Newton(Optimizer):
    """A step of second order for each event; of the squared loss, recursive least squares.

    That is the least ``sum of (W' phi - y)^2 + ridge |W|^2`` after each event. Of another loss the
    squares are those of a bound on its curvature where the event was predicted, and all outputs
    share them.

    With `forgetting` an event counts that much less for each one after it, and the ridge always as
    much. The inverse P of the squares' matrix is kept as a triangle T with ``T' T = P``, so it is
    symmetric and positive whatever rounding does (Carlson 1973). It stays bounded, however long
    nothing is learned in some direction: what the ridge loses by forgetting it gets back, a
    coordinate an event in their turn, or several where they would fade too far in between.

    Where a landmark goes, W and P are those of the coordinates that are left, as of a normal
    distribution: nothing becomes surer by it.

    The loss has a curvature, the ridge is above 0, and `forgetting` is above 0 and up to 1.
    """

    def __init__(
        self, loss: Loss, ridge: float, forgetting: float, *, classes: bool, n_outputs: int
    ) -> None:
        super().__init__(loss, classes=classes, n_outputs=n_outputs)
        self.T: Matrix = np.zeros((0, 0))
        self._ridge, self._forgetting = float(ridge), float(forgetting)

    @property
    def inverse(self) -> Matrix:
        """P, the inverse of the squares' matrix."""
        return self.T.T @ self.T

    def begin(self, W: Matrix, Phi: Matrix, y: Matrix, n_steps: int) -> None:
        """Begin in other coordinates, as after so many steps.

        Events before those given count as these do with what W says of them, and fade.
        """
        n, self.n_steps = len(Phi), n_steps
        weights = self._forgetting ** np.arange(n - 1.0, -1.0, -1.0)
        share = self._share(max(0, n_steps - n), n_steps)
        old = share / (1.0 - share)
        prior = old * (curvature(self.loss, self.n_outputs) or 0.0) * ((Phi.T * weights) @ Phi)
        prior[np.diag_indices_from(prior)] += self._ridge
        self.W, A = resolved(self.loss, Phi, self._labels(y), weights, W, prior)
        # A = U U' with U upper triangular, so that T, its inverse, is that, too.
        U = np.linalg.cholesky(A[::-1, ::-1])[::-1, ::-1]
        self.T = np.ascontiguousarray(scipy.linalg.solve_triangular(U, np.eye(len(U))))

    def _learn(self, Phi: Matrix, y: Matrix, Q: Matrix | None, F: Matrix) -> int:
        options = (self._forgetting, self._ridge, self.n_steps, self._pulls(len(self.T)))
        return int(loops.coordinates.newton(Phi, y, self.W, self.T, self._loss, *options, Q, F))

    def carry(self, change: Change) -> None:
        """Follow a change of the landmarks."""
        super().carry(change)
        size = len(self.T)
        if len(self.W) > size:
            self.T = np.pad(self.T, (0, 1))
            self.T[size, size] = self._ridge**-0.5
        else:
            self.T = loops.coordinates.triangular(carried(self.T.T, change))

    def join(self, parts: Sequence[Contribution], common_events: int) -> None:
        """Become what is least for the squares of all, those in common counted once."""
        size, extra = len(parts[0].B), -1.0
        A, b = np.zeros((size, size)), np.zeros((size, self.n_outputs))
        for optimizer, B, n_events in parts:
            weight = 1.0 - self._share(common_events, n_events) / len(parts)
            # Of what is out of its own span it knows the ridge alone.
            P = B @ optimizer.inverse @ B.T + (np.eye(size) - B @ B.T) / self._ridge
            squares = weight * np.linalg.inv(0.5 * (P + P.T))
            A += squares
            b += squares @ (B @ optimizer.W)
            extra += weight
        values, vectors = np.linalg.eigh(0.5 * (A + A.T) - extra * self._ridge * np.eye(size))
        values = np.maximum(values, self._least(size))
        root = vectors / np.sqrt(values)
        self.W = np.ascontiguousarray(root @ (root.T @ b))
        self.T = np.ascontiguousarray(np.linalg.qr(root.T, mode="r"))
        self.n_steps = max(part.optimizer.n_steps for part in parts)

    def _pulls(self, size: int) -> int:
        """Return how many coordinates get back their ridge at an event."""
        halvings = -size * math.log2(self._forgetting)
        return max(1, min(size, math.ceil(halvings / _FADED)))

    def _least(self, size: int) -> float:
        """Return the least eigenvalue that the squares' matrix may have."""
        return self._ridge * self._forgetting ** -(-size // self._pulls(size))

    def _share(self, first: int, n: int) -> float:
        """Return how much of the weight of n events their first ones have."""
        keep = self._forgetting
        if keep == 1.0:
            return first / n
        return keep ** (n - first) * (1.0 - keep**first) / (1.0 - keep**n)

    def arrays(self) -> dict[str, Matrix]:
        """The arrays to go on from, by name; what overflowed is bounded, so that a state loads."""
        return {**super().arrays(), "root": bounded(self.T)}

    _declared = (*Optimizer._declared, Declared("root", "float64", ("landmarks", "landmarks")))

    def _take(self, arrays: Mapping[str, Matrix]) -> None:
        """Take arrays that fit."""
        super()._take(arrays)
        self.T = arrays["root"]
