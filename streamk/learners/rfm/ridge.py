"""Kernel ridge regression: its Cholesky factor, which grows with the events, and its solvers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.backends import GROUP, PANEL, KernelSum, loops
from streamk.backends.memory import room
from streamk.declared import Declared, Domain, count, flag, number, reading, taken
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.learners.centers import Centers
from streamk.learners.kernel_ridge import BLOCK

Numbers = NDArray[Any]

_NARROW = 4
"""Outputs up to which their products are made one by one, and not in all lanes."""
_NEAR, _COST = 4.0, 24
"""Ratio of regularizations up to which one is solved for by the factor of the other, and events for
each lane from which on that takes less."""
_RESIDUAL, _MOST_STEPS, _TINY = 1e-3, 12, np.float32(1e-30)
"""Part of the right-hand side that is left there, and steps at most."""


class RidgeFactor:
    """The lower Cholesky factor of ``K + r I``, which gets rows from time to time, in float32.

    Only the lower triangle is kept, 2 n^2 bytes. To append to n rows takes n^2 multiplications for
    each, so that all of them together take as many as a factorization at once. How rows come
    changes no bit of it.

    Parameters
    ----------
    capacity : int
        Rows at most. Their memory is asked for at once, used as they come, and all of it goes back
        to the system with the factor.
    """

    def __init__(self, capacity: int) -> None:
        self._room = room(nbytes_of(capacity) // 4)
        self.clear()

    def __len__(self) -> int:
        return self._count

    def clear(self) -> None:
        """Remove all rows, and keep their memory."""
        self._count = 0
        self._solved_for: tuple[Numbers, Numbers] | None = None
        """The last right-hand sides Y, and what ``L x = Y`` has for them."""

    def append(self, rows: Numbers, diagonal: float) -> None:
        """Take in the matrix's next rows, as of `kernel_rows`, and a number on its diagonal.

        They must not cross a multiple of 256. Of a matrix that is not positive definite, but for
        rounding, the factor stays as it was, and LinAlgError is raised.
        """
        n, many = self._count, len(rows) * GROUP
        at, own = n % PANEL, self._panel(n // PANEL)
        first, stop = at // GROUP, (at + many) // GROUP
        own[first:stop, : n + many] = rows
        each = np.arange(many)
        own[first + each // GROUP, n + each, each % GROUP] = diagonal
        for place in range(n // PANEL):
            loops.cholesky.eliminate(own, first, stop, self._panel(place), place * PANEL)
        if not loops.cholesky.factor(own, first, stop, n - at):
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        self._count += many

    def _panel(self, place: int) -> Numbers:
        """Return a panel's array (groups, columns, 32)."""
        first, stop = (nbytes_of(rows) // 4 for rows in (place * PANEL, (place + 1) * PANEL))
        return self._room[first:stop].reshape(PANEL // GROUP, -1, GROUP)

    def solved(self, Y: Numbers) -> Numbers:
        """Return ``K^-1 Y``, float32 (n, c), of right-hand sides Y float32 (n, c).

        Where the first rows of Y are those of the last call, ``L x = Y`` is solved for the others
        alone: a half of the work.
        """
        n, c = Y.shape
        lanes = _lanes(c)
        A = np.zeros((self._count, lanes), np.float32)
        A[:n, :c] = Y
        width = min(lanes, GROUP)
        parts = A.reshape(len(A), lanes // width, width)
        A = np.ascontiguousarray(parts.transpose(1, 0, 2))
        known = self._take_known(Y, A)
        edges = range(0, self._count, PANEL)
        for at in edges[known * GROUP // PANEL :]:
            loops.cholesky.forward(self._panel(at // PANEL), at, A, max(0, known - at // GROUP))
        self._solved_for = Y.copy(), A.copy()
        for at in reversed(edges):
            loops.cholesky.backward(self._panel(at // PANEL), at, A)
        return A.transpose(1, 0, 2).reshape(self._count, -1)[:n, :c]

    def _take_known(self, Y: Numbers, A: Numbers) -> int:
        """Write what is known of ``L x = Y`` into A; return for how many groups of rows it is."""
        if self._solved_for is None:
            return 0
        right, halves = self._solved_for
        rows = min(len(right), len(Y)) // GROUP * GROUP
        if right.shape[1] != Y.shape[1] or not np.array_equal(right[:rows], Y[:rows]):
            return 0
        A[:, :rows] = halves[:, :rows]
        return rows // GROUP


def _lanes(outputs: int) -> int:
    """Return the lanes that so many outputs take."""
    return outputs if outputs <= _NARROW else -(-outputs // GROUP) * GROUP


def kernel_rows(kernel: Kernel, Z: Numbers, first: int, stop: int) -> Numbers:
    """Return rows of the kernel matrix of Z (n, d), with their columns up to the diagonal.

    They are in groups of 32, float32 (groups, columns, 32), from a row on whose number is a
    multiple of 32; if they are not multiples, there are rows and columns of zeros beside them.
    """
    groups = -(-(stop - first) // GROUP)
    rows = np.zeros((groups, first + groups * GROUP, GROUP), np.float32)
    for g in range(groups):
        some = slice(first + g * GROUP, min(first + (g + 1) * GROUP, stop))
        K = kernel.pairwise(Z[: some.stop], Z[some], dtype=np.float32)
        rows[g, : some.stop, : K.shape[1]] = K
    return rows


def nbytes_of(n: int) -> int:
    """Return the memory of a factor with n rows, in bytes."""
    panels = -(-n // PANEL)
    return 2 * PANEL**2 * panels * (panels + 1)


class SingleRidge:
    """Coefficients ``(K + r I)^-1 Y`` in single precision, for several numbers r.

    Of a number near the last one they come from its factor, where that takes less than another:
    with B the inverse for r, those for s are the solution of ``(I + (s - r) B) A = B Y``, whose
    eigenvalues lie between 1 and s / r, by conjugate gradients.
    """

    def __init__(self, kernel: Kernel, P: Numbers, Y: Numbers) -> None:
        self._Y = Y.astype(np.float32)
        Z, edges = P.astype(np.float32), range(0, len(P), PANEL)
        self._panels = [kernel_rows(kernel, Z, at, min(at + PANEL, len(P))) for at in edges]
        self._factor = RidgeFactor(len(P))
        self._known: tuple[float, Numbers] | None = None
        """The number that the factor is for, and its coefficients."""

    def solve(self, ridge: float) -> Numbers:
        """Return the coefficients for a regularization, float32 (n, outputs)."""
        if self._known is not None and _COST * _lanes(self._Y.shape[1]) <= len(self._Y):
            ratio = ridge / self._known[0]
            if 1.0 / _NEAR <= ratio <= _NEAR:
                return self._moved(ridge)
        self._factor.clear()
        for panel in self._panels:
            self._factor.append(panel, 1.0 + ridge)
        self._known = ridge, self._factor.solved(self._Y)
        return self._known[1]

    def _moved(self, ridge: float) -> Numbers:
        """Return the coefficients for a number near that of the factor."""
        assert self._known is not None
        known, R = self._known
        step, A, D = np.float32(ridge - known), np.zeros_like(R), R
        left = _products(R, R)
        enough = _RESIDUAL**2 * left
        for _ in range(_MOST_STEPS):
            M = D + step * self._factor.solved(D)
            size = left / np.maximum(_products(D, M), _TINY)
            A, R, before = A + size * D, R - size * M, left
            left = _products(R, R)
            if (left <= enough).all():
                break
            D = R + left / np.maximum(before, _TINY) * D
        return A


def _products(R: Numbers, S: Numbers) -> Numbers:
    """Return the products of the columns of two arrays (n, outputs)."""
    return np.asarray((R * S).sum(axis=0))


PART = 1_024
"""Events whose equations are solved together."""
SHARED = 512
"""Events of one part that are in the next one, too."""
_RIDGES = Domain(least=1e-12, most=1e12)


class SolvedPart:
    """The function ``sum of a_j k(x, x_j)`` of up to `capacity` events, solved for part by part.

    The coefficients of the first events solve ``(K + r I) a = y``: of `first`, 1,024 at least. Then
    the last 512 of these and the next 512 are a part: what is added to its coefficients solves the
    same for what the function so far leaves of the equations, nothing for the shared events and the
    errors of the new ones. So goes a sweep of block Gauss-Seidel over all equations, in blocks that
    overlap: the shared events hold the function where it is known while there are few new ones. It
    takes ``1024^2 / 3`` multiplications an event, and 2.5 MiB at most for the factor, where n first
    events take ``n^3 / 6`` and ``2 n^2`` bytes, but are solved for once.

    Events are added while there is room, and then the coefficients of the last part are solved
    for. That takes as many multiplications as to solve once for all of it, but for the last
    substitution, since the Cholesky factor grows with the matrix.
    """

    def __init__(
        self,
        kernel: Kernel,
        ridge: float,
        capacity: int,
        *,
        n_columns: int,
        n_outputs: int,
        first: int = 0,
    ) -> None:
        self.kernel, self.ridge, self.capacity, self.closed = kernel, ridge, capacity, False
        """Closed, it stays as it is although there is room."""
        self._first = max(PART, first)
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
        size = min(self.capacity, self._size)
        return Centers(self.kernel, size, n_columns=n_columns, n_outputs=n_outputs)

    @property
    def _size(self) -> int:
        """Events of the last part when it is full."""
        return PART if len(self._done) else self._first

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

        The targets of labels (n,) are the values of the function there, (n, outputs). If rounding
        leaves no positive definite matrix, the events of a part are not added, and no others can
        be; of the first events that is a LinAlgError.
        """
        assert self.closed or len(points) <= self.room
        at = 0
        while at < len(points) and not self.closed:
            stop = min(len(points), at + self._size - len(self._last))
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
        is_full = len(last) == self._size
        if is_full:
            self._close_last()
        if is_full or not self.grows:
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

    @property
    def sums(self) -> tuple[KernelSum, KernelSum]:
        """Both parts of the function as compiled loops take them."""
        return self._done.sum, self._last.sum

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
            "first": self._first,
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
        n, first = known["base"], count(header, "first", owner, least=PART)
        if not n or n > capacity or not (closed or n % BLOCK == 0):
            raise StateError(f"{owner} has {n} points, where there can be up to {capacity}")
        done = 0 if n < first else n - (n - first) % (PART - SHARED)  # in parts that are full
        most, shared = SHARED if done else 0, count(header, "shared", owner)
        if shared != most and (shared or n > done):
            raise StateError(f"'shared' of {owner} must be {most}, not {shared}")
        one = Declared("added", "float32", (shared, "outputs"))
        added = taken((one,), arrays, known, owner)[0]["added"]
        columns, outputs = known["columns"], known["outputs"]
        part = cls(kernel, ridge, capacity, n_columns=columns, n_outputs=outputs, first=first)
        part.closed = closed
        part._done.append(*(found[each.name][:done] for each in declared))
        part._share(added)
        part._last.append(*(found[each.name][done:] for each in declared))
        return part
