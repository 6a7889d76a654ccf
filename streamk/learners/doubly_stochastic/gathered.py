"""Events that wait for the step of their mini-batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, taken
from streamk.errors import StateError

_ARRAYS = ("gathered", "gathered_labels")


class GatheredEvents:
    """Events and the numbers of their labels, in the order in which they came.

    Parameters
    ----------
    dtype : numpy dtype
    columns : int, default 0
    """

    def __init__(self, dtype: np.dtype[Any], columns: int = 0) -> None:
        self._X: NDArray[Any] = np.zeros((0, columns), dtype)
        self._y: NDArray[np.float64] = np.zeros(0)

    def __len__(self) -> int:
        return len(self._y)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._X.nbytes + self._y.nbytes

    def add(self, X: NDArray[Any], y: NDArray[np.float64]) -> None:
        """Take in events X (n, d) with numbers y (n,)."""
        if len(self):
            X, y = np.vstack([self._X, X]), np.append(self._y, y)
        self._X, self._y = X, y

    def take(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return all events and numbers; none wait from then on."""
        X, y = self._X, self._y
        self._X, self._y = X[:0], y[:0]
        return X, y

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self._X = np.pad(self._X, ((0, 0), (0, count)))

    # State

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a state."""
        return dict(zip(_ARRAYS, (self._X, self._y), strict=True))

    def load(
        self, arrays: Mapping[str, NDArray[Any]], numbers: Domain, batch_size: int, owner: str
    ) -> None:
        """Take events of as many columns out of a state.

        Raises
        ------
        StateError
            If they do not fit, or there are so many that a step would have been taken.
        """
        declared = (
            Declared(_ARRAYS[0], self._X.dtype.name, ("gathered", "columns")),
            Declared(_ARRAYS[1], "float64", ("gathered",), numbers),
        )
        found, sizes = taken(declared, arrays, {"columns": self._X.shape[1]}, owner)
        if not sizes["gathered"] < batch_size:
            raise StateError(
                f"{sizes['gathered']} gathered events do not fit batch_size={batch_size}"
            )
        self._X, self._y = (found[name].copy() for name in _ARRAYS)
