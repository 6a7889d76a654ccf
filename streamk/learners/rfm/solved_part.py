"""Kernel ridge regression that is solved for part by part, anew with each block of events."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.backends import PANEL
from streamk.declared import Declared, Domain, count, flag, number, reading, taken
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.centers import Centers
from streamk.learners.kernel_ridge import BLOCK
from streamk.learners.rfm.ridge import RidgeFactor, kernel_rows, nbytes_of

Numbers = NDArray[Any]

PART = 3_072
"""Events whose equations are solved together."""
SHARED = 2_048
"""Events of one part that are in the next one, too."""
_RIDGES = Domain(least=1e-12, most=1e12)


class SolvedPart:
    """The function ``sum of a_j k(x, x_j)`` of up to `capacity` events, solved for part by part.

    The coefficients of the first 3,072 events solve ``(K + r I) a = y``. Then the last 2,048 of
    these and the next 1,024 are a part: what is added to its coefficients solves the same for what
    the function so far leaves of the equations, nothing for the shared events and the errors of the
    new ones. So goes a sweep of block Gauss-Seidel over all equations, in blocks that overlap: the
    shared events hold the function where it is known while there are few new ones. One sweep is
    about as good as to solve for all at once, and takes ``n 3072^2`` multiplications in place of
    ``n^3 / 3``, and 20 MiB at most for the factor.

    Events are added while there is room, and then the coefficients of the last part are solved
    for. That takes as many multiplications as to solve once for all of it, but for the last
    substitution, since the Cholesky factor grows with the matrix.
    """

    def __init__(
        self, kernel: Kernel, ridge: float, capacity: int, *, n_columns: int, n_outputs: int
    ) -> None:
        self.kernel, self.ridge, self.capacity, self.closed = kernel, ridge, capacity, False
        """Closed, it stays as it is although there is room."""
        self._done = Centers(kernel, capacity, n_columns=n_columns, n_outputs=n_outputs)
        """Events whose coefficients stay."""
        self._last = self._begun(n_columns, n_outputs)
        """Those of the last part, the shared ones first, with what is added to coefficients."""
        self._factor: RidgeFactor | None = None
        """Of the last part; None also where it is not made yet, as in a function out of a state."""
        self._known: Numbers | None = None
        """Outputs of the others for its events, float64 (n, outputs), if they were asked for."""

    def _begun(self, n_columns: int, n_outputs: int) -> Centers:
        """Return a part that has no event."""
        size = min(self.capacity, PART)
        return Centers(self.kernel, size, n_columns=n_columns, n_outputs=n_outputs)

    def __len__(self) -> int:
        return len(self._done) + len(self._last) - self._shared

    @property
    def _shared(self) -> int:
        """Events of the last part that are others' too."""
        return min(len(self._done), SHARED, len(self._last))

    @property
    def n_last(self) -> int:
        """Events of the last part."""
        return len(self._last)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes, with that of the factor even where it is still to be made."""
        return self._done.nbytes + self._last.nbytes + self.factor_nbytes

    @property
    def factor_nbytes(self) -> int:
        """Memory of the factor alone, in bytes."""
        return nbytes_of(len(self._last)) if self.grows else 0

    @property
    def grows(self) -> bool:
        """True if another block can be added."""
        return self.room >= BLOCK

    @property
    def room(self) -> int:
        """Events that can be added."""
        return 0 if self.closed else self.capacity - len(self)

    def close(self) -> None:
        """Take no further events."""
        self.closed, self._factor, self._known = True, None, None

    def forget_factor(self) -> None:
        """Free the memory of the factor, which is made again when the next events are added."""
        self._factor = None

    def add(self, points: Numbers, labels: Numbers, targets: Callable[[Numbers], Numbers]) -> None:
        """Add events (n, d), float32, with labels (n,), n being a multiple of 64, and solve.

        The targets of labels (n,) are what the function is to be there, (n, outputs). If rounding
        leaves no positive definite matrix, the events of a part are not added, and no others can
        be; of the first events that is a LinAlgError.
        """
        assert self.closed or len(points) <= self.room
        at = 0
        while at < len(points) and not self.closed:
            stop = min(len(points), at + PART - len(self._last))
            self._add_to_last(points[at:stop], labels[at:stop])
            if not self.closed:
                self._solve(targets)
            at = stop

    def extending(
        self, points: Numbers, labels: Numbers, targets: Callable[[Numbers], Numbers]
    ) -> Callable[[], SolvedPart]:
        """Return the work of adding events to a copy, which it returns.

        It may be done in another thread, while this one is read and gets columns; the factor is the
        copy's from now on. Arguments are those of `add`.
        """
        factors, self._factor = [self._factor], None
        now = copy.copy(self)
        now._done, now._last = copy.copy(self._done), copy.copy(self._last)

        def work() -> SolvedPart:
            new = copy.copy(now)
            new._last = now._last.copy()
            # Where the work is begun once more, as after a fork, the factor may be half done.
            new._factor = factors.pop() if factors else None
            new.add(points, labels, targets)
            return new

        return work

    def _add_to_last(self, points: Numbers, labels: Numbers) -> None:
        last, first = self._last, len(self._last)
        try:
            if self._factor is None:  # by the same steps as before
                self._factor = RidgeFactor(last.capacity)
                self._extend(self._factor, 0)
            last.append(points, labels, np.zeros((len(points), last.n_outputs)))
            self._extend(self._factor, first)
        except np.linalg.LinAlgError:
            if not first and not len(self._done):
                raise
            self._last = self._begun(points.shape[1], last.n_outputs)
            some = np.arange(first)
            self._last.append(last.points[some], last.labels[some], last.coefficients(some))
            self.close()

    def _extend(self, factor: RidgeFactor, first: int) -> None:
        """Take the last part's events from one on into the factor."""
        Z = self._last.points
        while first < len(Z):
            stop = min(len(Z), first + PANEL - first % PANEL)
            factor.append(kernel_rows(self.kernel, Z, first, stop), 1.0 + self.ridge)
            first = stop

    def _solve(self, targets: Callable[[Numbers], Numbers]) -> None:
        """Solve for the coefficients of the last part, after events were added."""
        last = self._last
        assert self._factor is not None
        if self._known is None:
            self._known = targets(last.labels[: self._shared])  # their equations are solved
        new = last.points[len(self._known) :]
        self._known = np.concatenate([self._known, self._done.outputs(new)])
        A = self._factor.solved((targets(last.labels) - self._known).astype(np.float32))
        last.set_coefficients(np.arange(len(last)), A)
        if len(last) == PART:
            self._close_last()
        if len(last) == PART or not self.grows:
            self._factor = self._known = None  # they would not be used again

    def _close_last(self) -> None:
        """Go on with a part that shares events with the last one, if there is room."""
        done, last, shared = self._done.copy(), self._last, self._shared
        self._done = done  # that of another one, whose copy this is, stays
        A = last.coefficients(np.arange(len(last)))
        old = np.arange(len(done) - shared, len(done))
        done.set_coefficients(old, done.coefficients(old) + A[:shared])
        done.append(last.points[shared:], last.labels[shared:], A[shared:])
        self._last = self._begun(last.points.shape[1], last.n_outputs)
        if self.grows:
            self._share(np.zeros((SHARED, last.n_outputs)))

    def _share(self, A: Numbers) -> None:
        """Begin the last part with events of others, and what is added to their coefficients."""
        some = slice(len(self._done) - len(A), None)
        self._last.append(self._done.points[some], self._done.labels[some], A)

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of points X (n, d), float32: float64 (n, outputs)."""
        return self._done.outputs(X) + self._last.outputs(X)

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        for part in (self._done, self._last):
            part.add_columns(count)

    def fit_outputs(self, fitted: Callable[[Numbers], Numbers]) -> None:
        """Have other outputs: ``fitted`` of the coefficients (n, outputs)."""
        for part in (self._done, self._last):
            part.set_outputs(fitted(part.coefficients(np.arange(len(part)))))
        self._known = None

    def header(self) -> dict[str, Any]:
        """The data that `of` takes beside the arrays, for JSON."""
        return {
            "kernel": self.kernel.to_json(),
            "ridge": self.ridge,
            "closed": self.closed,
            "shared": self._shared,
        }

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        done, last, shared = self._done.arrays(), self._last.arrays(), self._shared
        found = {name: np.concatenate([done[name], last[name][shared:]]) for name in done}
        return {**found, "added": last["coefficients"][:shared]}

    @classmethod
    def of(
        cls,
        header: Any,
        arrays: dict[str, Numbers],
        *,
        capacity: int,
        sizes: dict[str, int],
        labels: Domain,
        owner: str,
    ) -> Self:
        """Return the part whose data and arrays these are; raise StateError if they do not fit."""
        with reading(owner):
            kernel = kernels.from_json(header["kernel"])
        closed = flag(header, "closed", owner)
        ridge = number(header, "ridge", owner, _RIDGES)
        declared = (
            Declared("points", "float32", ("base", "columns")),
            Declared("labels", "float64", ("base",), labels),
            Declared("coefficients", "float32", ("base", "outputs")),
        )
        found, known = taken(declared, arrays, sizes, owner)
        n = known["base"]
        if not n or n > capacity or not (closed or n % BLOCK == 0):
            raise StateError(f"{owner} has {n} points, where there can be up to {capacity}")
        done = 0 if n < PART else n - (n - PART) % (PART - SHARED)  # in parts that are full
        most, shared = SHARED if done else 0, count(header, "shared", owner)
        if shared != most and (shared or n > done):
            raise StateError(f"'shared' of {owner} must be {most}, not {shared}")
        one = Declared("added", "float32", (shared, "outputs"))
        added = taken((one,), arrays, known, owner)[0]["added"]
        part = cls(kernel, ridge, capacity, n_columns=known["columns"], n_outputs=known["outputs"])
        part.closed = closed
        part._done.append(*(found[each.name][:done] for each in declared))
        part._share(added)
        part._last.append(*(found[each.name][done:] for each in declared))
        return part
