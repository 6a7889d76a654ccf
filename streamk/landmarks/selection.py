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
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import select
from streamk.landmarks.factor import Factor, Row, lower
from streamk.landmarks.matrices import Indices, Numbers, Rows

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

    def append(self, landmarks: Iterable[Numbers], rows: Iterable[Row]) -> None:
        """Append landmarks."""
        self.landmarks.extend(landmarks)
        self.rows.extend(rows)

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
        """Take in the best row and those after it, while their Schur complements exceed `least`.

        Returns
        -------
        the rows, their own of the factor up to the diagonal, and their complements
        """
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
    """Landmarks chosen so far, and the factor of all rows, brought up to date when it is needed.

    Parameters
    ----------
    rows : Rows
    max_landmarks : int
    dtype : float32 or float64
        Of the factor.
    threads : int, optional
        All cores by default.

    Raises
    ------
    InvalidInput
        If a diagonal entry is not finite.
    """

    def __init__(
        self, rows: Rows, max_landmarks: int, dtype: np.dtype[Any], threads: int | None = None
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
        """Return the largest Schur complement, -inf if there is none, and its row.

        Raises
        ------
        InvalidInput
            If a Schur complement is NaN: the matrix is not positive semidefinite.
        """
        delta, i = self._all.best(self._chosen)
        if math.isnan(delta):
            self.flush()
        return delta, i

    def take(self, landmarks: Callable[[Indices], Numbers], most: int, least: float) -> list[int]:
        """Append the row that `best` gave, and those after it that are at hand.

        Parameters
        ----------
        landmarks : callable
            Gives what stands for rows as landmarks.
        most : int
            Rows to append at most.
        least : float
            All but the first have Schur complements above it, and above rounding.

        Returns
        -------
        list of int
            The rows.
        """
        least = max(least, self._all.bound(), self._rounding(len(self) + most))
        taken, rows, deltas = self._all.few().choose(least, most)
        self._append(landmarks(taken), rows, deltas, taken)
        chosen: list[int] = taken.tolist()
        return chosen

    def restrict(self, indices: Indices) -> None:
        """Restrict `best` to these rows until `release`."""
        self.flush()
        self._all.restrict(np.unique(indices), few=False)

    def consider(self, indices: Indices) -> None:
        """Keep these rows, some hundreds, up to date until `release`, and look at no others."""
        self.flush()
        self._all.restrict(np.unique(indices), few=True)

    def release(self) -> None:
        """Look at all rows again."""
        self._all.release()

    def delta(self, i: int) -> float:
        """Return the Schur complement of a row that is considered, -inf of a landmark."""
        few = self._all.few()
        return float(few.factor.schur[few.place(i)])

    def add(self, landmark: Numbers, i: int) -> None:
        """Append a row that is considered.

        Parameters
        ----------
        landmark : array of shape (numbers,)
            What stands for it.
        i : int
            Its row.
        """
        few = self._all.few()
        place = few.place(i)
        delta = float(few.factor.schur[place])
        own = np.empty(len(self) + 1, self._chosen.dtype)
        own[:-1], own[-1] = few.factor.F[place, : len(self)], math.sqrt(delta)
        self.add_foreign(landmark, own, delta, i)

    def add_foreign(self, landmark: Numbers, row: Row, delta: float, i: int | None = None) -> None:
        """Append a landmark of which all is known, whether or not it is one of the rows.

        Parameters
        ----------
        landmark : array of shape (numbers,)
        row : array of shape (landmarks + 1,)
            Its row of the factor, up to the diagonal; both arrays are kept as they are.
        delta : float
            Its Schur complement.
        i : int, optional
            Which of the rows it is.
        """
        taken = np.array([] if i is None else [i], np.int64)
        self._append(landmark[None], [row], [delta], taken)

    def _append(
        self, landmarks: Numbers, rows: list[Row], deltas: list[float], taken: Indices
    ) -> None:
        self._chosen.append(landmarks, rows)
        self.schur += deltas
        self._all.append(self._chosen, taken)

    def flush(self) -> None:
        """Bring the factor of all rows up to date.

        Raises
        ------
        InvalidInput
            If a Schur complement fell below 0 by more than rounding: the matrix is not positive
            semidefinite.
        """
        self._all.update(self._chosen)
        self.factor.check(self._chosen.rows)
