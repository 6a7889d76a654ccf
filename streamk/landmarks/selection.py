"""The greedy choice of landmarks, made lazily (a partial Cholesky factorization with pivoting).

The next landmark is the row with the largest Schur complement. Schur complements only fall as
landmarks come, so most rows need not be looked at for each of them: some *candidates*, those whose
complements were the largest when they were chosen, are kept up to date, and as long as the largest
of theirs is above what any other row had then, it is the largest of all. Landmarks chosen meanwhile
reach the other rows together, as one block. So the choice is that of the plain algorithm, but the
factor is read once a block instead of once a landmark, and what was bound by memory is bound by
arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.landmarks.factor import Factor
from streamk.landmarks.matrices import Indices, Numbers, Rows

_FEWEST = 256
_PART = 32
"""Candidates: at least so many rows, or one of so many."""


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
    """

    def __init__(
        self, rows: Rows, max_landmarks: int, dtype: np.dtype[Any], threads: int | None = None
    ) -> None:
        self.factor = Factor(rows, max_landmarks, dtype, threads)
        self.L: NDArray[Any] = np.zeros((max_landmarks, max_landmarks), dtype)
        """Rows of the factor of the landmarks, lower triangular (max_landmarks, max_landmarks)."""
        self.schur: list[float] = []
        """Schur complement of each landmark when it was chosen."""
        self._landmarks: list[Numbers] = []
        self._done = 0
        self._largest = float(np.max(self.factor.schur, initial=0.0))
        self._candidates: Indices = np.empty(0, np.int64)
        self._few: Factor | None = None
        self._others: tuple[float, int] = (-np.inf, 0)

    def __len__(self) -> int:
        return len(self._landmarks)

    @property
    def landmarks(self) -> Numbers:
        """What stands for the landmarks, (landmarks, numbers); see `streamk.landmarks.matrices`."""
        return np.array(self._landmarks)

    @property
    def rounding(self) -> float:
        """Schur complement that may be nothing but rounding."""
        precision = float(np.finfo(self.L.dtype).eps)
        return 4.0 * precision * (len(self) + 1) * self._largest

    def best(self) -> tuple[float, int]:
        """Return the largest Schur complement and its row, of equal ones the first; -inf if none.

        Raises
        ------
        InvalidInput
            If the matrix is not positive semidefinite.
        """
        while True:
            if self._few is not None:
                place = int(np.argmax(self._few.schur))
                top, i = float(self._few.schur[place]), int(self._candidates[place])
                bound, first = self._others
                if top > bound or (top == bound and i < first):
                    return top, i
            self.flush()
            self._choose()

    def _choose(self) -> None:
        """Take the rows with the largest Schur complements as candidates, of equal ones the first.

        All others are at most as large as the largest of them now.
        """
        schur = self.factor.schur
        count = max(_FEWEST, len(schur) // _PART)
        if count >= len(schur):
            self.consider(np.arange(len(schur)))
            return
        least = np.partition(schur, len(schur) - count)[len(schur) - count]
        chosen = schur > least
        equal = np.flatnonzero(schur == least)
        chosen[equal[: count - int(chosen.sum())]] = True
        others = np.where(chosen, -np.inf, schur)
        first = int(np.argmax(others))
        self.consider(np.flatnonzero(chosen))
        self._others = float(others[first]), first

    def consider(self, indices: Indices) -> None:
        """Make these rows the candidates, and keep them alone up to date from now on."""
        self.flush()
        self._candidates = indices
        self._few = self.factor.take(indices, len(self))
        self._others = (-np.inf, 0)

    def release(self) -> None:
        """Have no candidates, so that `best` chooses its own."""
        self._few = None

    def delta(self, place: int) -> float:
        """Return the Schur complement of a candidate, by its place among them."""
        assert self._few is not None
        return float(self._few.schur[place])

    def add_candidate(self, landmark: Numbers, place: int) -> None:
        """Append a landmark that is a candidate, by its place among them."""
        assert self._few is not None
        self._append(landmark, self._few.row(place, len(self)), self.delta(place))
        self._few.schur[place] = -np.inf
        self.factor.schur[self._candidates[place]] = -np.inf

    def add(self, landmark: Numbers, i: int) -> None:
        """Append as a landmark the row that `best` gave."""
        self.add_candidate(landmark, int(np.searchsorted(self._candidates, i)))

    def add_foreign(self, landmark: Numbers, row: NDArray[Any], delta: float) -> None:
        """Append a landmark that is none of the rows.

        Parameters
        ----------
        landmark : array of shape (numbers,)
        row : array of shape (landmarks,)
            Its row of the factor.
        delta : float
            Its Schur complement.
        """
        self._append(landmark, row, delta)

    def _append(self, landmark: Numbers, row: NDArray[Any], delta: float) -> None:
        k = len(self)
        self.L[k, :k] = row
        self.L[k, k] = np.sqrt(delta)
        self.schur.append(delta)
        self._landmarks.append(landmark)
        if self._few is not None:
            self._few.extend(landmark[None], self.L, k)

    def flush(self) -> None:
        """Bring the factor of all rows up to date.

        Raises
        ------
        InvalidInput
            If a Schur complement fell below 0 by more than rounding: the matrix is not positive
            semidefinite.
        """
        if self._done < len(self):
            pending = np.array(self._landmarks[self._done :])
            self.factor.extend(pending, self.L, self._done)
            self._done = len(self)
        self._check()

    def _check(self) -> None:
        schur = self.factor.schur
        limit = -np.sqrt(np.finfo(self.L.dtype).eps) * self._largest
        wrong = (schur < limit) & (schur > -np.inf)
        if wrong.any() or np.isnan(schur).any():
            i = int(np.argmax(wrong | np.isnan(schur)))
            raise InvalidInput(
                f"the Schur complement of row {i} is {schur[i]:.3g} after {len(self)} landmarks: "
                "the matrix is not positive semidefinite; take a kernel that is, or add a "
                "multiple of the identity"
            )
