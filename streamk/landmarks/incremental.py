"""Landmarks chosen while the events pass by: oASIS on a stream."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import kernels
from streamk.backends import ADMIT, KEEP, KernelCode, Rule, Span, filled, loops
from streamk.backends.threads import divide
from streamk.declared import NON_NEGATIVE, POSITIVE, Declared, Domain, count, number, reading, taken
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers, numbers
from streamk.landmarks.selection import check_count
from streamk.options import Option, Real, Whole
from streamk.state import State


class Admission(NamedTuple):
    """A landmark was added: the coordinates got a new one at their end."""


class Removal(NamedTuple):
    """A landmark was removed, and the span of the landmarks lost a direction.

    The coordinates from `position` on were rotated, each with the next, and the last one dropped.
    """

    position: int
    cosines: Numbers
    sines: Numbers


Change = Admission | Removal


def carried(W: Numbers, change: Change) -> Numbers:
    """Return what coefficients become when the landmarks change.

    The function ``W' phi(x)`` stays the same at an admission, and becomes its projection on the
    span of the landmarks that are left at a removal. W (l, outputs) are coefficients of the
    coordinates that `IncrementalOasis.transform` returns; there is one row more or less then.

    Examples
    --------
    >>> import numpy as np
    >>> carried(np.array([[2.0]]), Admission())
    array([[2.],
           [0.]])
    """
    if isinstance(change, Admission):
        return np.vstack([W, np.zeros((1, W.shape[1]))])
    V = np.array(W, dtype=np.float64, order="C")
    loops.coordinates.rotate(V, change.position, change.cosines, change.sines)
    return V[:-1]


def _square(size: int) -> Numbers:
    side = filled(size)
    return np.zeros((side, side))


class GrowingCholesky:
    """The factor L of a positive definite ``W = L L'`` to which rows are added and removed.

    A new row is a forward substitution. Removing one is an update by Givens rotations, which are
    orthogonal and so do not let rounding grow. The diagonal of the inverse of W is kept with it. Up
    to `capacity` rows room is made with care; more may come.

    Examples
    --------
    >>> import numpy as np
    >>> factor = GrowingCholesky()
    >>> for k, own in [([], 4.0), ([2.0], 5.0), ([2.0, 3.0], 6.0)]:
    ...     phi = factor.solve(np.array([k]))[0]
    ...     factor.append(phi, own - float(phi @ phi))
    >>> factor.lower
    array([[2., 0., 0.],
           [1., 2., 0.],
           [1., 1., 2.]])
    >>> cosines, sines = factor.remove(0)
    >>> (factor.lower @ factor.lower.T).round(12)
    array([[5., 3.],
           [3., 6.]])
    """

    def __init__(self, capacity: int = 0) -> None:
        self._capacity = capacity
        self.room = np.zeros((0, 0))
        """L and its transpose in the corner of a symmetric square."""
        self._inverse = np.zeros(0)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @classmethod
    def of(cls, W: Numbers, least: float, left: float, capacity: int = 0) -> Self:
        """Return the factor of the first rows and columns of W (l, l).

        They end before a row whose Schur complement is `least` or smaller, or that makes that of
        another one, given all, as small as `left`.
        """
        made, anew = cls(capacity), _square(len(W))
        n = loops.cholesky.factorise(W, anew, least)
        made._make_room(n)
        made.room[:n, :n] = anew[:n, :n]
        made._size = n
        sums = np.cumsum(made.solve(np.eye(n)) ** 2, axis=1)
        small = (sums * left >= 1.0).any(axis=0)
        if small.any():
            n = int(np.argmax(small))
            return cls.of(np.ascontiguousarray(W[:n, :n]), least, left, capacity)
        made._inverse[:n] = sums[:, -1:].sum(axis=1)
        return made

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.room.nbytes + self._inverse.nbytes

    @property
    def lower(self) -> Numbers:
        """L, a copy of shape (l, l)."""
        return np.tril(self.room[: self._size, : self._size])

    @property
    def inverse_diagonal(self) -> Numbers:
        """Diagonal of the inverse of W, shape (l,): 1 / the loss of removing each row."""
        return self._inverse[: self._size]

    def solve(self, K: Numbers) -> Numbers:
        """Return ``L^-1 k`` of each row k of `K` (n, l)."""
        Phi = np.array(K)
        loops.cholesky.solve(self.room, Phi)
        return Phi

    def solve_back(self, Phi: Numbers) -> Numbers:
        """Return ``L^-T phi`` of each row phi of `Phi` (n, l)."""
        Q = np.array(Phi)
        loops.cholesky.solve_back(self.room, Q)
        return Q

    def append(self, phi: Numbers, schur: float) -> None:
        """Add a row of W, given as ``phi = L^-1 k`` (l,) and its Schur complement."""
        q = self.solve_back(phi[None])[0]
        n = self._size
        self._make_room(n + 1)
        self.room[n, :n] = self.room[:n, n] = phi
        self.room[n, n] = math.sqrt(schur)
        self._inverse[:n] += q * q / schur
        self._inverse[n] = 1.0 / schur
        self._size = n + 1

    def _make_room(self, size: int) -> None:
        if size > len(self.room):
            n = self._size
            room, inverse = _square(min(2 * size, max(size, self._capacity))), self._inverse[:n]
            room[:n, :n] = self.room[:n, :n]
            self.room, self._inverse = room, np.zeros(len(room))
            self._inverse[:n] = inverse

    def remove(self, j: int) -> tuple[Numbers, Numbers]:
        """Remove row and column j of W; return cosines and sines of the rotations, (l - 1 - j,).

        These are of columns (j, j+1), (j+1, j+2), ... of L without row j, one after the other:
        ``a, b`` become ``c a + s b, c b - s a``. The last column is then 0.
        """
        n = self._size
        unit = np.zeros((1, n))
        unit[0, j] = 1.0
        column = self.solve_back(self.solve(unit))[0]
        cosines, sines = np.empty(n - 1 - j), np.empty(n - 1 - j)
        loops.cholesky.remove_row(self.room, n, j, cosines, sines)
        left = self._inverse[:n] - column * column / column[j]
        self._inverse[: n - 1] = np.delete(left, j)
        self._size = n - 1
        return cosines, sines

    def refactor(self, W: Numbers) -> float:
        """Compute the factor anew from W (l, l); return the largest error of ``L L'`` before.

        Where W is not positive definite in double precision, the factor stays as it is. The
        diagonal of the inverse is computed anew in any case.
        """
        n = self._size
        residual = loops.cholesky.residual(self.room, W)
        anew = _square(n)
        if loops.cholesky.factorise(W, anew, 0.0) == n:
            self.room[:n, :n] = anew[:n, :n]
        columns = self.solve(np.eye(n))
        self._inverse[:n] = np.einsum("ij,ij->i", columns, columns)
        return residual

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays to go on from, copies."""
        return {"factor": self.lower, "inverse_diagonal": self.inverse_diagonal.copy()}

    @classmethod
    def from_state(
        cls, factor: Numbers, inverse_diagonal: Numbers, capacity: int = 0
    ) -> GrowingCholesky:
        """Return the factor that `state` described, of a matrix with a diagonal of 1."""
        made = cls(capacity)
        n = len(factor)
        made.room = _square(n)  # no more: a state may ask for as much memory as it has
        own = made.room[:n, :n]
        own[...] = np.tril(factor)
        norms = np.einsum("ij,ij->i", own, own)
        if n and not (own.diagonal().min() > 0.0 and np.abs(norms - 1.0).max() < _ROUNDED):
            raise StateError(
                "array 'factor' of landmarks is not a Cholesky factor: its diagonal is not "
                "positive, or its rows do not have length 1"
            )
        own += np.tril(own, -1).T
        made._inverse = np.zeros(len(made.room))
        made._inverse[:n] = inverse_diagonal
        made._size = n
        return made


_ROUNDED = 1e-3
"""By how much the diagonal of the matrix may have moved by rounding."""
FACTOR = (
    Declared("factor", "float64", ("landmarks", "landmarks"), Domain(least=-1.001, most=1.001)),
    Declared("inverse_diagonal", "float64", ("landmarks",), POSITIVE),
)
"""The arrays of a state, of a matrix whose diagonal is 1."""


_REFACTOR = 64
"""Fewest removals between two refactorisations; of more landmarks, as many as there are."""
_AHEAD = 1024
"""Most events looked at together: what they take is bounded by their coordinates."""
_OPTIONS: dict[str, Option] = {
    "max_landmarks": Whole(most=1_000_000),
    "tol": Real(most=1.0, open_above=True),
    "half_life": Real(open_below=True, optional=True),
    "margin": Real(optional=True),
}
"""The factor of a million landmarks would take 8 TB; of more, what is near rounding is above any
tolerance. The Schur complement of an event far from all landmarks is 1."""


class IncrementalOasis:
    """Landmarks of a stream: the events that the span of the others' kernels does not hold.

    An event x is measured by its Schur complement ``D = k(x, x) - k_x' W^-1 k_x``, the squared
    distance of its kernel from the span of the landmarks' kernels (Patel et al., equation 4). While
    there is room, an event above the tolerance becomes a landmark. Later it takes the place of
    the landmark j whose removal, with x there, costs least: its Schur complement given all others,
    ``1 / ((W^-1)_jj + q_j^2 / D)`` with ``q = W^-1 k_x``. The determinant of W is then multiplied
    by ``(W^-1)_jj D + q_j^2``, which must be more than 1 + margin. It is never above 1, so
    replacements cannot go round in circles: there are at most ``-log(det W) / log(1 + margin)``.

    What is near rounding is not trusted, whatever the tolerance. An event of a Schur complement of
    ``4 eps (max_landmarks + 16)^2`` or less (1.2e-11 for 100 landmarks, 6.6e-11 for 256) is
    refused. If one would leave a landmark so little, given all the others, it takes its place, even
    where there is room and whatever the margin, or is refused if the determinant would not grow.

    Parameters
    ----------
    kernel : Kernel
        Any with ``k(x, x) = 1``.
    max_landmarks : int
    tol : float, default 1e-3
        Schur complement that an event must exceed to become a landmark, below 1.
    half_life : float, optional
        In events. The claim of a landmark, the cost of its removal, halves for every so many events
        in which it was not the most used one (by ``|q_j|``). By default nothing is forgotten: old
        landmarks and outliers stay. Many times max_landmarks suits.
    margin : float or None, default 0.5
        How much more than itself the determinant must become for a landmark to be replaced. With
        1 it must double. The smaller it is, the more outliers are sought out and the more
        often the coordinates change; the larger, the longer the first landmarks stay. With None all
        of them stay, and an event that would leave one of them too little is refused.

    Attributes
    ----------
    n_events, n_admitted, n_removed : int
    residual : float
        Largest error of an element of ``L L'`` when the factor was last computed anew, which is
        after as many removals as there are landmarks, and at least 64.

    Notes
    -----
    With l landmarks of d columns, an event takes ``l d`` for its kernels and ``2 l^2`` operations,
    a change of landmarks ``O(l d + l^2)``; `learn_many` does several events at once, with the same
    bits as `learn_one`. Rounding is not let grow: see `GrowingCholesky`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> landmarks = IncrementalOasis(Gaussian(bandwidth=1.0), max_landmarks=2)
    >>> landmarks.learn_many(np.array([[0.0], [0.0], [0.5]]))
    [Admission(), Admission()]
    >>> changes = landmarks.learn_one(np.array([3.0]))
    >>> [type(change).__name__ for change in changes]
    ['Admission', 'Removal']
    >>> landmarks.points
    array([[0.],
           [3.]])
    """

    TYPE = "incremental-oasis"

    def __init__(
        self,
        kernel: Kernel,
        *,
        max_landmarks: int,
        tol: float = 1e-3,
        half_life: float | None = None,
        margin: float | None = 0.5,
    ) -> None:
        if not isinstance(kernel, Kernel) or kernel.code == KernelCode.LINEAR:
            raise InvalidInput(
                f"kernel={kernel!r} must be a Kernel with k(x, x) = 1, so that one tolerance fits"
                " all events; take any but linear"
            )
        for name, value in zip(_OPTIONS, (max_landmarks, tol, half_life, margin), strict=True):
            _OPTIONS[name].check(name, value)
        self.kernel = kernel
        self.max_landmarks = int(max_landmarks)
        self.tol, self.margin = float(tol), None if margin is None else float(margin)
        self.half_life = None if half_life is None else float(half_life)
        self.n_events = self.n_admitted = self.n_removed = 0
        self.residual = 0.0
        self._points: Numbers | None = None
        self._leaned = np.zeros(0)
        self._factor = GrowingCholesky(self.max_landmarks + 1)
        self._since = 0
        self._numbers = kernel.numbers
        self._known: Span | None = None
        self._noise = 4.0 * float(np.finfo(np.float64).eps) * (self.max_landmarks + 16)
        self._rounding = self._noise * (self.max_landmarks + 16)

    @property
    def points(self) -> Numbers:
        """The landmarks, shape (l, d), in the order of admission."""
        return np.zeros((0, 0)) if self._points is None else self._points.copy()

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks."""
        return len(self._factor)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        points = 0 if self._points is None else self._points.nbytes
        return points + self._leaned.nbytes + self._factor.nbytes

    def learn_one(self, x: ArrayLike) -> list[Change]:
        """Look at an event x (d,) and return how the landmarks changed, in order.

        A replacement is an admission followed by a removal.
        """
        return self.learn_many(_row(x))

    def learn_many(self, X: ArrayLike) -> list[Change]:
        """Look at events X (n, d), one after the other, and return how the landmarks changed.

        However a stream is cut into calls, the result is the same, bit for bit. Raises
        `InvalidInput`, and learns none of the call, if a value is NaN or infinite, or the number of
        columns is not that of earlier events.
        """
        return [change for _, changes, *_ in self.follow(X) for change in changes]

    def follow(
        self, X: ArrayLike, asked: ArrayLike | None = None
    ) -> Iterator[tuple[slice, list[Change], Numbers, Numbers]]:
        """Look at events X (n, d), and stop wherever the landmarks change.

        It is for what is learned in the coordinates: an event that changes the landmarks is looked
        at only when all before it have been asked for. Events to predict before each event is
        looked at is `asked` (n, d), X by default.

        Yields
        ------
        some : slice
            The next events, for the present landmarks.
        changes : list of Admission or Removal
            How they became that, in order.
        Phi : array of shape (events, l)
            The coordinates of these events, as `transform` returns them.
        Q : array of shape (events, l before the changes)
            The coordinates of what was asked for, in the span that there was before.
        """
        rows = self._rows(X)
        questions = rows if asked is None or asked is X else self._rows(asked)
        mapped = self.kernel.mapped(rows)
        if self._points is None and len(rows):
            self._points = np.zeros((0, rows.shape[1]))
        at = 0
        while at < len(rows):
            ahead = mapped[at : at + _AHEAD]
            Phi = np.empty((len(ahead), self.n_landmarks))
            seen, verdict, schur = loops.landmarks.watch(
                self._numbers, self._span(), self._rule(), ahead, self.n_events, Phi
            )
            stop = at + seen
            last = stop - (verdict != KEEP)
            Q = Phi if questions is rows else self.transform(questions[at:stop])
            if last > at:
                yield slice(at, last), [], Phi[: last - at], Q[: last - at]
            self.n_events += seen
            if last < stop:
                changes = [self._admit(rows[last], Phi[last - at], schur)]
                if verdict != ADMIT:
                    changes.append(self._remove(verdict))
                transformed = self.transform(rows[last:stop])
                yield slice(last, stop), changes, transformed, Q[last - at : seen]
            at = stop

    def begin(self, X: ArrayLike) -> NDArray[np.int64]:
        """Look at the first events X (n, d), and return which of them are landmarks now.

        They are those that `learn_many` would find. Those up to the first that is none are taken
        together, many times as fast.
        """
        rows = self._rows(X)
        first = self._taken(rows) if len(rows) and self.n_events == 0 else 0
        found = [some.start for some, changes, *_ in self.follow(rows[first:]) if changes]
        return np.concatenate([np.arange(first), np.array(found, np.int64) + first])

    def _taken(self, rows: Numbers) -> int:
        """Take as many of the first events as are landmarks, and return how many."""
        W, tol = self.kernel.pairwise(rows[: self.max_landmarks]), max(self.tol, self._rounding)
        self._factor = GrowingCholesky.of(W, tol, self._rounding, self.max_landmarks + 1)
        count = len(self._factor)
        self._points = rows[:count].copy()
        self.n_events = self.n_admitted = count
        self._leaned = np.arange(1.0, count + 1.0)
        return count

    def _rows(self, X: ArrayLike) -> Numbers:
        rows = np.ascontiguousarray(numbers(X, "a batch of events"))
        if rows.ndim != 2:
            raise InvalidInput(f"events must have shape (n, columns), not {rows.shape}")
        if self._points is not None and rows.shape[1] != self._points.shape[1]:
            raise InvalidInput(
                f"events have {rows.shape[1]} columns, but earlier ones had "
                f"{self._points.shape[1]}; call add_columns for new ones"
            )
        finite = np.isfinite(rows)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InvalidInput(
                f"value {rows[row, column]} in row {row}, column {column}; fill in missing values"
            )
        return rows

    def _span(self) -> Span:
        if self._known is None:
            assert self._points is not None
            points = self.kernel.mapped(self._points)
            self._known = Span(points, loops.landmarks.laid(points), self._factor.room)
        return self._known

    def _rule(self) -> Rule:
        return Rule(
            self._factor.inverse_diagonal,
            self._leaned,
            max(self.tol, self._rounding),
            self._rounding,
            self._rounding if self.margin is None else self._noise,
            math.inf if self.margin is None else 1.0 + self.margin,
            0.0 if self.half_life is None else 1.0 / self.half_life,
            self.n_landmarks >= self.max_landmarks,
        )

    def _admit(self, x: Numbers, phi: Numbers, schur: float) -> Change:
        assert self._points is not None
        self._factor.append(phi, schur)
        self._points = np.vstack([self._points, x])
        self._leaned = np.append(self._leaned, self.n_events)
        self._known = None
        self.n_admitted += 1
        return Admission()

    def _remove(self, j: int) -> Change:
        assert self._points is not None
        cosines, sines = self._factor.remove(j)
        self._points = np.delete(self._points, j, axis=0)
        self._leaned = np.delete(self._leaned, j)
        self._known = None
        self.n_removed += 1
        self._since += 1
        if self._since >= max(_REFACTOR, self.n_landmarks):
            self.residual = self._factor.refactor(self.kernel.pairwise(self._points))
            self._since = 0
        return Removal(j, cosines, sines)

    def transform(self, X: ArrayLike) -> Numbers:
        """Return the coordinates of X (n, d) in the span of the landmarks, shape (n, l).

        They are ``L^-1 k(landmarks, x)``, in an orthonormal basis of the span: inner products of
        coordinates are the kernels' values as far as the landmarks tell them.
        """
        rows = self._rows(X)
        Phi = np.empty((len(rows), self.n_landmarks))
        if self._points is None:
            return Phi
        rows = self.kernel.mapped(rows)
        span, schur = self._span(), np.empty(len(rows))

        def fill(some: slice) -> None:
            loops.landmarks.coordinates(self._numbers, span, rows[some], Phi[some], schur[some])

        flops = Phi.size * (rows.shape[1] + self.n_landmarks // 2)
        divide(len(rows), flops, fill)
        return Phi

    def transform_one(self, x: ArrayLike) -> Numbers:
        """Return the coordinates of an event x (d,), shape (l,), the same bits as in a batch."""
        return np.asarray(self.transform(_row(x))[0])

    def coefficients(self, W: Numbers) -> Numbers:
        """Convert coefficients W (l, outputs) of coordinates to those of the landmarks' kernels.

        ``W' transform(x)`` is ``coefficients(W)' k(landmarks, x)``.
        """
        return self._factor.solve_back(np.ascontiguousarray(W.T)).T

    def add_columns(self, count: int) -> None:
        """Append columns that were zero in all events so far; nothing changes for these.

        Before the first event there is nothing to do: it tells how many columns there are. Raises
        `InvalidInput` if `count` is not a whole number of at least 0.
        """
        check_count("count", count, least=0)
        if self._points is not None:
            self._points = np.hstack([self._points, np.zeros((len(self._points), count))])
            self._known = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state(),)

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            "kernel": self.kernel.to_json(),
            "options": {name: getattr(self, name) for name in _OPTIONS},
            "counts": {name: getattr(self, name) for name in _COUNTS},
            "residual": self.residual,
            "since": self._since,
        }
        arrays = {"points": self.points, "leaned": self._leaned.copy(), **self._factor.state()}
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> IncrementalOasis:
        """Return the landmarks of a state. Raises StateError if it does not fit."""
        state.expect(cls.TYPE)
        header: dict[str, Any] = state.header
        with reading(_OWNER):
            made = cls(kernels.from_json(header["kernel"]), **header["options"])
            for name in _COUNTS:
                setattr(made, name, count(header["counts"], name, _OWNER))
        made.residual = number(header, "residual", _OWNER, NON_NEGATIVE)
        made._since = count(header, "since", _OWNER)
        arrays, sizes = taken(_DECLARED, state.arrays, {}, _OWNER)
        n = sizes["landmarks"]
        if n > min(made.n_events, made.max_landmarks):
            raise StateError(
                f"{_OWNER} has {n}, but 'n_events' is {made.n_events} and 'max_landmarks' "
                f"{made.max_landmarks}; it is damaged"
            )
        if made.n_events:
            made._points = np.array(arrays["points"], order="C")
        made._leaned = arrays["leaned"].copy()
        made._factor = GrowingCholesky.from_state(
            arrays["factor"], arrays["inverse_diagonal"], made.max_landmarks + 1
        )
        return made


def _row(x: ArrayLike) -> Numbers:
    row = numbers(x, "an event")
    if row.ndim != 1:
        raise InvalidInput(f"an event must have shape (columns,), not {row.shape}")
    return row[None]


_COUNTS = ("n_events", "n_admitted", "n_removed")
_OWNER = "a state of incremental landmarks"
_DECLARED = (
    Declared("points", "float64", ("landmarks", "columns")),
    Declared("leaned", "float64", ("landmarks",), NON_NEGATIVE),
    *FACTOR,
)
