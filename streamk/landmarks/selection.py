"""The greedy choice of landmarks, made lazily (a partial Cholesky factorization with pivoting).

The next landmark is the row with the largest Schur complement. Schur complements only fall as
landmarks come, so most rows need not be looked at for each of them. Of all rows, a part is kept
whose complements were the largest when it was chosen; as long as the largest in the part is above
what any other row had then, it is the largest of all. The part has a part of its own, and so on,
down to a few rows that every landmark reaches at once; the others get them in blocks. So the choice
is that of the plain algorithm, but the factor is read once a block instead of once a landmark, and
what was bound by memory is bound by arithmetic. The few rows' entries with each other are all that
it takes to choose one after the other, as long as the largest complement is above those outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import LINE, select
from streamk.backends.threads import divide
from streamk.errors import InvalidInput
from streamk.landmarks.matrices import Indices, KernelRows, Numbers
from streamk.options import Whole


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raise InvalidInput unless an option is a whole number of at least so much."""
    Whole(least=least, most=None).check(name, value)


_ENTRIES = 1 << 15
"""Entries of the matrix that are evaluated before they are used: they stay in the second cache."""
_ROWS = 64
"""Rows that are copied at a time."""
_NEGATIVE = 1e-5
"""Schur complement below 0, relative to the largest diagonal entry, that is let pass: it may come
from rounding of a matrix given in single precision, say."""
_ERROR = 16.0
"""Error of an entry, in units of rounding of the largest, that is not beyond belief: of matrices
that are positive semidefinite none came up as more than 1, of others as less than 78."""
_BLOCK = 128
"""Landmarks that come to all rows together: their rows of the factor stay in the caches."""

Row = NDArray[Any]


def room(rows: int, columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of at least so many columns; its rows begin at cache lines.

    Vectors that lie across two lines take twice as long to load.
    """
    item = np.dtype(dtype).itemsize
    wide = -(-columns * item // LINE) * (LINE // item)
    memory = np.empty(rows * wide + LINE // item, dtype)
    start = -memory.ctypes.data % LINE // item
    return memory[start : start + rows * wide].reshape(rows, wide)


def lower(rows: Sequence[Row], columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return rows of a lower triangular matrix as a matrix of at least so many columns."""
    L = room(len(rows), columns, dtype)
    L[:] = 0.0
    for place, row in enumerate(rows):
        L[place, : len(row)] = row
    return L


def check_range(largest: float, dtype: np.dtype[Any]) -> None:
    """Raise InvalidInput unless a factor of that type can hold a matrix of that largest diagonal.

    It is asked of the whole matrix: single rows of it may well be next to nothing.
    """
    limits = np.finfo(dtype)
    least, most = float(limits.tiny) / float(limits.eps), float(limits.max)
    if largest and not least < largest < most:
        raise InvalidInput(
            f"the largest diagonal entry of the matrix is {largest:.3g}, too far from 1 "
            f"for {np.dtype(dtype)}; scale the matrix"
        )


class Factor:
    """Rows of the factor, and how far each row's diagonal entry is from being reproduced.

    Row x of the factor is ``L^-1 k(landmarks, x)`` with L the lower triangular factor of the matrix
    between the landmarks; what is left of ``k(x, x)`` is the Schur complement of x. Both have the
    same bits however the rows are divided among factors, calls and threads. The dtype is that of
    the factor, float32 or float64, and Schur complements are float64.
    """

    def __init__(
        self, rows: KernelRows, capacity: int, dtype: np.dtype[Any], threads: int | None = None
    ) -> None:
        if threads is not None:
            check_count("threads", threads)
        self.rows, self.threads = rows, threads
        self.F = room(len(rows), capacity, dtype)
        """(n, at least capacity); columns that have not come yet are of no meaning."""
        self.schur: Numbers = np.array(rows.diagonal(), np.float64)
        """Schur complements of the rows, (n,); -inf where a row is not to be chosen."""
        if not np.isfinite(self.schur).all():
            i = int(np.argmax(~np.isfinite(self.schur)))
            raise InvalidInput(
                f"the kernel of row {i} with itself is {self.schur[i]}; scale the points"
            )
        self.largest = float(np.max(self.schur, initial=0.0))
        """The largest diagonal entry of the matrix in these rows."""

    def __len__(self) -> int:
        return len(self.F)

    def extend(self, landmarks: Numbers, L: NDArray[Any], start: int) -> None:
        """Append a column for each landmark (b, numbers), from column `start` on.

        L (b, start + b), of the factor's dtype, has the rows of the factor of the landmarks
        themselves; what is right of the diagonal is not read.
        """
        for first in range(0, len(landmarks), _BLOCK):
            some = slice(first, first + _BLOCK)
            self._extend(landmarks[some], L[some], start + first)

    def _extend(self, landmarks: Numbers, L: NDArray[Any], start: int) -> None:
        n, new = len(self.F), len(landmarks)
        step = max(1, _ENTRIES // new)

        def work(some: slice) -> None:
            for first in range(some.start * step, min(some.stop * step, n), step):
                part = slice(first, min(first + step, n))
                K = np.empty((new, part.stop - first), self.F.dtype)
                self.rows.cross(landmarks, part, K)
                select().extend(K, L, self.F[part], start, self.schur[part])

        if n <= step:
            work(slice(0, 1))
        else:
            divide(-(-n // step), n * new * (start + new + 64), work, self.threads)

    def check(self, rows: Sequence[Row]) -> None:
        """Check that the rest of the diagonal is not negative."""
        columns, precision = len(rows), float(np.finfo(self.F.dtype).eps)
        wrong = np.isnan(self.schur)
        limit = -max(_NEGATIVE, precision**0.5) * self.largest
        low = np.flatnonzero((self.schur < limit) & (self.schur > -np.inf))
        if len(low):
            error = _ERROR * precision * self.largest
            wrong[low] = self.schur[low] < -error * self._squares(low, rows)
        if np.count_nonzero(self.schur == -np.inf) > columns:  # squares overflowed
            wrong |= self.schur == -np.inf
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidInput(
                f"the Schur complement of row {i} is {self.schur[i]:.3g} after {columns} "
                "landmarks, so the matrix is not positive semidefinite; use a kernel that is, or "
                "add a multiple of the identity"
            )

    def _squares(self, indices: Indices, rows: Sequence[Row]) -> Numbers:
        """Return by which factor errors of entries may come up in Schur complements of some rows.

        The factor is the exact one of a matrix whose entries are off by rounding, and a Schur
        complement there is ``v^T K v``: in v are 1 for the row and, with signs turned, the
        coefficients of its projection on the landmarks. So errors count by ``|v|^2``. That is huge
        where a landmark was all but spanned by those before, as one drawn at random may be, and the
        row is not.
        """
        r, found = len(rows), np.empty(len(indices))
        L = lower(rows, r, np.dtype(np.float64))[:, :r]
        for first in range(0, len(indices), _ROWS):
            some = slice(first, first + _ROWS)
            F = self.F[indices[some], :r].astype(np.float64)
            q = scipy.linalg.solve_triangular(L, F.T, lower=True, trans="T", check_finite=False)
            found[some] = 1.0 + np.einsum("ij,ij->j", q, q)
        return found

    def take(self, indices: Indices, columns: int) -> Factor:
        """Return a factor of some rows with known first columns."""
        taken = Factor(self.rows.take(indices), self.F.shape[1], self.F.dtype, self.threads)
        for first in range(0, len(indices), _ROWS):
            some = slice(first, first + _ROWS)
            taken.F[some, :columns] = self.F[indices[some], :columns]
        taken.schur[:] = self.schur[indices]
        return taken

    def trim(self, columns: int) -> None:
        """Give back the room for columns that will not come, where it is more than half."""
        if 2 * columns < self.F.shape[1]:
            trimmed = room(len(self), columns, self.F.dtype)
            trimmed[:, :columns] = self.F[:, :columns]
            self.F = trimmed

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.F.nbytes + self.schur.nbytes


_FEW = 192
"""Rows that every landmark reaches at once: so many of their entries stay in the second cache."""
_PART = 16
"""Of so many rows one is in the part whose Schur complements were the largest."""


class _Chosen:
    """The landmarks so far."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.landmarks: list[Numbers] = []
        self.rows: list[Row] = []
        """Each landmark's row of the factor, up to the diagonal."""

    def __len__(self) -> int:
        return len(self.landmarks)

    def since(self, start: int) -> tuple[Numbers, NDArray[Any]]:
        """Return the landmarks from `start` on, and their rows of the factor as a matrix."""
        L = lower(self.rows[start:], len(self), self.dtype)
        return np.array(self.landmarks[start:]), L


class _Few:
    """Rows that every landmark reaches at once."""

    def __init__(self, factor: Factor, indices: Indices, columns: int) -> None:
        self.factor, self.indices, self._done = factor, indices, columns
        self._place = 0
        self._entries: NDArray[Any] | None = None

    def best(self, chosen: _Chosen) -> tuple[float, int]:
        """Return the largest Schur complement and its row, of equal ones the first."""
        self._place = place = int(self.factor.schur.argmax())
        return float(self.factor.schur[place]), int(self.indices[place])

    def place(self, i: int) -> int:
        """Return where row i is among these, which it is."""
        if self.indices[self._place] != i:
            self._place = int(self.indices.searchsorted(i))
        return self._place

    def choose(self, least: float, most: int) -> tuple[Indices, list[Row], list[float]]:
        """Take in the best row and those after it, while their Schur complements exceed `least`."""
        factor, start = self.factor, self._done
        if self._entries is None:
            self._entries = np.empty((len(factor), len(factor)), factor.F.dtype)
            factor.rows.cross(factor.rows.landmarks(), slice(len(factor)), self._entries)
        places, schur = np.empty(most, np.int64), np.empty(most)
        count = select().choose(self._entries, factor.F, start, factor.schur, least, places, schur)
        self._done += count
        places, deltas = places[:count], schur[:count].tolist()
        rows = [factor.F[place, : m + 1].copy() for m, place in enumerate(places, start)]
        for row, delta in zip(rows, deltas, strict=True):
            row[-1] = math.sqrt(delta)
        return self.indices[places], rows, deltas

    def append(self, chosen: _Chosen, taken: Indices) -> None:
        """Take in the last landmarks, and which rows they are, unless they were chosen here."""
        if self._done < len(chosen):
            self.factor.extend(*chosen.since(self._done), self._done)
            self._done = len(chosen)
            _take_out(self.factor.schur, self.indices, taken)


class _Many:
    """Rows that landmarks reach in blocks, and the part of them that may hold the next one."""

    def __init__(self, factor: Factor, indices: Indices, columns: int) -> None:
        self.factor, self.indices, self._done = factor, indices, columns
        self._part: _Many | _Few | None = None
        self._others = (-np.inf, 0)
        """The largest Schur complement outside of the part when that was chosen, and its row."""

    def best(self, chosen: _Chosen) -> tuple[float, int]:
        """Return the largest Schur complement and its row, of equal ones the first."""
        while True:
            if self._part is not None:
                top, i = self._part.best(chosen)
                bound, first = self._others
                if top > bound or bound == -np.inf or (top == bound and i < first):
                    return top, i
            self._part = None  # whose memory the next one may have
            self.update(chosen)
            place = int(self.factor.schur.argmax())  # that of a NaN if there is one
            if math.isnan(self.factor.schur[place]):
                return math.nan, int(self.indices[place])
            self._choose(len(self.indices) // _PART)

    def few(self) -> _Few:
        """Return the rows that are up to date."""
        assert self._part is not None
        return self._part if isinstance(self._part, _Few) else self._part.few()

    def bound(self) -> float:
        """Return the largest Schur complement that there may be outside of the rows up to date."""
        inner = self._part.bound() if isinstance(self._part, _Many) else -np.inf
        return max(self._others[0], inner)

    def append(self, chosen: _Chosen, taken: Indices) -> None:
        """Take in the last landmarks, and which rows they are."""
        if self._part is not None:
            self._part.append(chosen, taken)
        _take_out(self.factor.schur, self.indices, taken)

    def update(self, chosen: _Chosen) -> None:
        """Bring all rows up to date."""
        if self._done < len(chosen):
            landmarks, L = chosen.since(self._done)
            self.factor.extend(landmarks, L, self._done)
            self._done = len(chosen)

    def _choose(self, count: int) -> None:
        """Make those with the largest Schur complements the part, of equal ones the first."""
        schur, few = self.factor.schur, count <= 2 * _FEW
        count = _FEW if few else count
        if count >= len(schur):
            self.restrict(np.arange(len(schur)), few=True)
            return
        least = np.partition(schur, len(schur) - count)[len(schur) - count]
        inside = schur > least
        equal = np.flatnonzero(schur == least)
        inside[equal[: count - int(inside.sum())]] = True
        others = np.where(inside, -np.inf, schur)
        first = int(np.argmax(others))
        self.restrict(np.flatnonzero(inside), few=few)
        self._others = float(others[first]), int(self.indices[first])

    def restrict(self, places: Indices, *, few: bool) -> None:
        """Make these rows the part, by their ascending places, and look at no others."""
        kind = _Few if few else _Many
        self._part = kind(self.factor.take(places, self._done), self.indices[places], self._done)
        self._others = (-np.inf, len(self.indices))

    def release(self) -> None:
        """Look at all rows again."""
        self._part = None


def _take_out(schur: Numbers, indices: Indices, taken: Indices) -> None:
    """Exclude rows that have become landmarks from the choice."""
    places = np.minimum(indices.searchsorted(taken), len(indices) - 1)
    schur[places[indices[places] == taken]] = -np.inf


class Selection:
    """Landmarks chosen so far, and the factor of all rows, brought up to date when it is needed."""

    def __init__(
        self, rows: KernelRows, max_landmarks: int, dtype: np.dtype[Any], threads: int | None = None
    ) -> None:
        self.factor = Factor(rows, max_landmarks, dtype, threads)
        self.schur: list[float] = []
        """Schur complement of each landmark when it was chosen."""
        self._chosen = _Chosen(dtype)
        self._all = _Many(self.factor, np.arange(len(rows)), 0)
        limits = np.finfo(dtype)
        self._precision, self._least = float(limits.eps), float(limits.tiny)

    def __len__(self) -> int:
        return len(self._chosen)

    @property
    def landmarks(self) -> Numbers:
        """The vectors of the landmarks, at least one, (landmarks, numbers)."""
        return np.array(self._chosen.landmarks)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Each landmark's row of the factor, up to the diagonal."""
        return tuple(self._chosen.rows)

    @property
    def rounding(self) -> float:
        """Schur complement up to which it may be nothing but rounding."""
        return self._rounding(len(self))

    def _rounding(self, count: int) -> float:
        return max(4.0 * self._precision * (count + 1) * self.factor.largest, self._least)

    def best(self) -> tuple[float, int]:
        """Return the largest Schur complement (-inf without candidates) and its row."""
        delta, i = self._all.best(self._chosen)
        if math.isnan(delta):
            self.flush()
        return delta, i

    def take(self, landmarks: Callable[[Indices], Numbers], most: int, least: float) -> list[int]:
        """Append the row that `best` gave, and those after it that are at hand; return them.

        There are at most so many, and all but the first have Schur complements above `least`, and
        above rounding. `landmarks` gives what stands for rows as landmarks.
        """
        least = max(least, self._all.bound(), self._rounding(len(self) + most))
        taken, rows, deltas = self._all.few().choose(least, most)
        self._append(landmarks(taken), rows, deltas, taken)
        chosen: list[int] = taken.tolist()
        return chosen

    def restrict(self, indices: Indices, *, few: bool = False) -> None:
        """Look at these rows only until `release`; a few hundred are kept up to date."""
        self.flush()
        self._all.restrict(np.unique(indices), few=few)

    def release(self) -> None:
        """Look at all rows again."""
        self._all.release()

    def delta(self, i: int) -> float:
        """Return the Schur complement of a row that is considered, -inf of a landmark."""
        few = self._all.few()
        return float(few.factor.schur[few.place(i)])

    def add(self, landmark: Numbers, i: int) -> None:
        """Append a row that is considered."""
        few = self._all.few()
        place = few.place(i)
        delta = float(few.factor.schur[place])
        own = np.empty(len(self) + 1, self._chosen.dtype)
        own[:-1], own[-1] = few.factor.F[place, : len(self)], math.sqrt(delta)
        self.add_foreign(landmark, own, delta, i)

    def add_foreign(self, landmark: Numbers, row: Row, delta: float, i: int | None = None) -> None:
        """Append a landmark with known values; it need not be one of the rows.

        Its row of the factor (landmarks + 1,) goes up to the diagonal; it and the landmark
        (numbers,) are kept as they are. `delta` is its Schur complement, and i which row it is.
        """
        taken = np.array([] if i is None else [i], np.int64)
        self._append(landmark[None], [row], [delta], taken)

    def _append(
        self, landmarks: Numbers, rows: list[Row], deltas: list[float], taken: Indices
    ) -> None:
        self._chosen.landmarks.extend(landmarks)
        self._chosen.rows.extend(rows)
        self.schur += deltas
        self._all.append(self._chosen, taken)

    def flush(self) -> None:
        """Bring the factor of all rows up to date.

        Raises `InvalidInput` if a Schur complement fell below 0 by more than rounding: the matrix
        is not positive semidefinite.
        """
        self._all.update(self._chosen)
        self.factor.check(self._chosen.rows)
