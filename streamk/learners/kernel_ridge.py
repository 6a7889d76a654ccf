"""Kernel ridge regression on a stream, with its events as centers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.declared import count
from streamk.features.columns import Column
from streamk.kernels import Kernel
from streamk.learners.centers import RIDGES, SETTLED, Centers, OnCenters
from streamk.learners.common.classes import MOST_CLASSES, Label, bounded
from streamk.learners.common.merging import merge_by_events
from streamk.learners.common.options import GIVEN, KERNEL, MAX_CLASSES, OF_DOMAIN, SEED
from streamk.options import Option, Real, Whole, documented
from streamk.state import State

Numbers = NDArray[Any]

BLOCK = 64
"""Events after which older coefficients are corrected, and how many of them are together."""


@documented(GIVEN, Raises=OF_DOMAIN)
class OnlineKernelRidge(OnCenters):
    """Kernel ridge regression with the last events as centers.

    The function is ``f(x) = c + sum of a_j k(x, x_j)`` over the last `max_centers` events x_j, and
    its coefficients go toward those of kernel ridge regression on these, ``(K + r I) a = y - c``,
    for classes with +1 and -1 for each of them. Block Gauss-Seidel steps on this system, which is
    coordinate ascent on its dual problem, take them there (Tu, Roelofs, Venkataraman and Recht
    2016): some rows of K at a time are solved for exactly, given the other coefficients. They have
    no step size, and cannot diverge.

    An event is learned at once: its own row is solved for, so that the next event is predicted
    with it. After each 64 events random blocks of 64 older rows are corrected: one block where
    there are many centers, up to all of them while there are few, so that about as much is
    computed for each event.

    Where events past `max_centers` take the places of the oldest, the centers whose outputs change
    most by that are corrected, too.

    Of l centers and d columns, an event takes the time of some ``2 l d`` multiplications.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Laplacian
    >>> from streamk.learners import OnlineKernelRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OnlineKernelRidge(Laplacian(bandwidth=1.0))
    >>> model.learn_many(X[:500], y[:500])
    >>> bool((model.predict_many(X[500:]) == y[500:]).mean() > 0.9)
    True
    >>> model.n_features
    500
    """

    TYPE = "kernel-ridge"
    WORK: ClassVar[int] = 65_536
    """Rows of the kernel matrix times centers, over BLOCK, that are computed after each block."""
    RIDGES: ClassVar[tuple[float, ...]] = RIDGES
    """Regularizations that are learned side by side."""
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": KERNEL,
        "regularization": Real(
            open_below=True,
            optional=True,
            about="variance of labels' noise (chosen by itself)",
            doc="The variance of the labels' noise for a function of variance 1. By default "
            "functions of .1, .5, 2 and 8 are learned side by side, which takes little more time, "
            "and the one with the least squared error on the events before they were learned is "
            "asked, the last 2,000 counting most.",
        ),
        "max_centers": Whole(
            least=BLOCK,
            about="events that carry the function",
            doc="Events that carry the function, the last ones; at least 64.",
        ),
        "corrections": Whole(
            about="how much older centers learn anew; 3 take thrice as long",
            doc="Blocks of older events that are corrected after each 64 events, for 65,536 "
            "centers; of fewer centers there are as many more. With more an event takes longer, "
            "and what one kernel can tell of a stream that does not change is told sooner.",
        ),
        "seed": SEED,
        "max_classes": MAX_CLASSES,
    }

    def __init__(
        self,
        kernel: Kernel,
        *,
        task: str = "classification",
        regularization: float | None = None,
        max_centers: int = 32_768,
        corrections: int = 1,
        seed: int = 0,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
    ) -> None:
        self.regularization, self.max_centers, self.seed = regularization, max_centers, seed
        self.corrections = corrections
        super().__init__(
            kernel,
            task=task,
            ridges=self.RIDGES if regularization is None else (regularization,),
            block=BLOCK,
            classes=classes,
            max_classes=max_classes,
        )
        self._settled = SETTLED
        self._centers = Centers(kernel, max_centers, n_columns=0, n_outputs=self._width)
        if columns is not None:
            self.add_columns(columns)

    # What it is

    @property
    def n_features(self) -> int:
        """Centers in use, and up to 63 events since that are none yet."""
        return len(self._centers) + self._n_pending

    @property
    def nbytes(self) -> int:
        """Memory of centers and coefficients, in bytes."""
        own = (self._pending, self._pending_labels, self._pending_coefficients)
        return self._centers.nbytes + sum(array.nbytes for array in own)

    # Learning and predicting

    def _outputs_of(self, X: Numbers) -> Numbers:
        return self._centers.outputs(X)

    def _take_block(self, X: Numbers, y: Numbers, A: Numbers) -> None:
        """Make centers of the block, and correct older coefficients."""
        centers = self._centers
        slots = centers.next_slots(BLOCK)
        lost = slots[slots < len(centers)]
        gone = centers.points[lost], centers.coefficients(lost)
        centers.append(X, y, A)
        blocks = centers.n_seen // BLOCK
        if centers.n_seen <= self._settled and blocks & (blocks - 1) == 0:
            self._constant = self._targets(centers.labels).mean(axis=0)
        if len(lost):
            change = self.kernel.product(centers.points, *gone, dtype=np.float32)
            self._correct(_largest(np.abs(change).sum(axis=1), BLOCK))
        n = len(centers)
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, blocks])))
        order = random.permutation(n)
        for turn in range(max(1, min(n // BLOCK, self.corrections * self.WORK // n))):
            self._correct(order[turn * BLOCK : (turn + 1) * BLOCK])

    def _correct(self, slots: Numbers) -> None:
        """Solve for the coefficients of some centers, given all others."""
        centers, outputs = self._centers, len(self._constant)
        A = centers.coefficients(slots).astype(np.float64)
        K, F = self.kernel.pairwise(centers.points[slots]), self._outputs_at(slots)
        Y = self._targets(centers.labels[slots]) - self._constant
        for place, ridge in enumerate(self._ridges.tolist()):
            own = slice(place * outputs, (place + 1) * outputs)
            if ridge < np.inf:  # else all coefficients are 0
                A[:, own] += _solved(K, ridge, Y - F[:, own] - ridge * A[:, own])
        centers.set_coefficients(slots, bounded(A))

    def _outputs_at(self, slots: Numbers) -> Numbers:
        """Return the outputs of some centers, float64 (n, width)."""
        return self._centers.outputs(self._centers.points[slots])

    def _centers_of(self, place: int) -> tuple[Numbers, Numbers]:
        outputs, centers = self._n_outputs(), self._centers
        A = centers.coefficients(np.arange(len(centers)))
        return centers.points, A[:, place * outputs : (place + 1) * outputs]

    # Columns and outputs

    def _add_columns(self, count: int) -> None:
        super()._add_columns(count)
        self._centers.add_columns(count)

    def _fit_centers(self, fitted: Callable[[Numbers], Numbers]) -> None:
        every = np.arange(len(self._centers))
        self._centers.set_outputs(fitted(self._centers.coefficients(every)))

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays."""
        header = {**self._header(), "n_seen": self._centers.n_seen}
        return State(header, {**self._centers.arrays(), **self._block_arrays()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner of a state."""
        learner = cls._from_header(state)
        n_seen = count(state.header, "n_seen", cls._owner())
        learner._centers.load(state, n_seen, learner._label_domain, cls._owner())
        learner._load_block(state)
        return learner

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        If this one has learned nothing since, it becomes the other. Else it learns the last events
        of the other, as many as are its centers.
        """
        merge_by_events(self, other, common_events, self._last_events_of)

    def _last_events_of(self, other: Self, events: int) -> tuple[Numbers, Numbers]:
        """Return the last events that are centers of another learner, and their labels."""
        kept = other._centers
        slots = (np.arange(kept.n_seen - len(kept), kept.n_seen) % kept.capacity)[-events:]
        theirs = np.concatenate([kept.points[slots], other._pending])[-events:]
        return theirs, np.concatenate([kept.labels[slots], other._pending_labels])[-events:]


def _solved(K: Numbers, ridge: float, Y: Numbers) -> Numbers:
    """Return ``(K + r I)^-1 Y``, float64 (n, outputs)."""
    M = K.copy()
    M.reshape(-1)[:: len(M) + 1] += ridge
    _, found, failed = scipy.linalg.lapack.dposv(M, Y)
    return np.asarray(np.linalg.solve(M, Y) if failed else found)


def _largest(numbers: Numbers, count: int) -> Numbers:
    """Return the places of so many of the largest numbers, of equal ones the first, ascending."""
    least = np.partition(numbers, len(numbers) - count)[len(numbers) - count]
    above, equal = numbers > least, np.flatnonzero(numbers == least)
    above[equal[: count - int(above.sum())]] = True
    return np.flatnonzero(above)
