"""The centers of a function, on the host or elsewhere: one protocol, and those on the host."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamk.kernels import Kernel
from streamk.learners.centers import Centers

Numbers = NDArray[Any]


class Expansion(Protocol):
    """A function ``f(x) = sum of a_j k(x, z_j)`` whose coefficients change."""

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some centers, by their slots (n,), by A (n, outputs)."""
        ...

    def outputs(self, X: Numbers) -> Numbers:
        """Return f of the rows of X (n, d), float32: float64 (n, outputs).

        Each row's are the same, bit for bit, in whatever batch the row comes.
        """
        ...


class PlacedCenters(Expansion, Protocol):
    """Centers with coefficients, wherever they are kept and kernels with them are evaluated.

    A center's slot is its place in the order in which they were appended.
    """

    def __len__(self) -> int: ...

    @property
    def n_outputs(self) -> int:
        """Outputs of the function."""
        ...

    @property
    def capacity(self) -> int:
        """The most centers."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory, here and elsewhere, in bytes."""
        ...

    @property
    def points(self) -> Numbers:
        """The centers by their slots, float32 (p, d), on the host."""
        ...

    def coefficients(self, slots: Numbers) -> Numbers:
        """Return a copy of the coefficients of some slots, float32 (n, outputs)."""
        ...

    def append(self, X: Numbers, A: Numbers) -> None:
        """Add centers X (n, d) with coefficients A (n, outputs), up to the capacity."""
        ...

    def with_coefficients(self, A: Numbers) -> Expansion:
        """Return another function on the same centers, with coefficients A (p, any outputs)."""
        ...

    def values(self, Y: Numbers, W: Numbers, *, dtype: DTypeLike = np.float32) -> Numbers:
        """Return the values at the centers of another function, ``K(Z, Y) W``.

        Parameters
        ----------
        Y : float32 array of shape (n, d)
            The other's centers.
        W : array of shape (n, outputs)
            Their coefficients.
        dtype : {float32, float64}, default float32
            As of `streamk.kernels.Kernel.product`.

        Returns
        -------
        float64 array of shape (p, outputs)
        """
        ...

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        ...

    def set_outputs(self, A: Numbers) -> None:
        """Have other outputs, with the coefficients A (p, outputs) of all centers."""
        ...


class Placement(Protocol):
    """A maker of centers, which decides on their place."""

    def __call__(
        self, kernel: Kernel, capacity: int, *, n_columns: int, n_outputs: int
    ) -> PlacedCenters:
        """Return no centers yet, with room for so many."""
        ...


class HostCenters:
    """Centers on the host.

    Parameters
    ----------
    kernel : Kernel
    capacity : int
    n_columns, n_outputs : int

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> centers = HostCenters(Gaussian(), 2, n_columns=1, n_outputs=1)
    >>> centers.append(np.array([[0.0], [9.0]], np.float32), np.array([[1.0], [2.0]]))
    >>> centers.outputs(np.array([[9.0]], np.float32)).round(4)
    array([[2.]])
    >>> centers.values(np.array([[0.0]], np.float32), np.array([[5.0]])).round(4)
    array([[5.],
           [0.]])
    """

    def __init__(self, kernel: Kernel, capacity: int, *, n_columns: int, n_outputs: int) -> None:
        self._kernel = kernel
        self._centers = Centers(kernel, capacity, n_columns=n_columns, n_outputs=n_outputs)

    def __len__(self) -> int:
        return len(self._centers)

    @property
    def n_outputs(self) -> int:
        """Outputs of the function."""
        return self._centers.n_outputs

    @property
    def capacity(self) -> int:
        """The most centers."""
        return self._centers.capacity

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._centers.nbytes

    @property
    def points(self) -> Numbers:
        """The centers by their slots, float32 (p, d)."""
        return self._centers.points

    def coefficients(self, slots: Numbers) -> Numbers:
        """Return a copy of the coefficients of some slots, float32 (n, outputs)."""
        return self._centers.coefficients(slots)

    def append(self, X: Numbers, A: Numbers) -> None:
        """Add centers X (n, d) with coefficients A (n, outputs), up to the capacity."""
        self._centers.append(X, np.zeros(len(X)), A)

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some slots (n,) by A (n, outputs)."""
        self._centers.set_coefficients(slots, A)

    def with_coefficients(self, A: Numbers) -> Expansion:
        """Return another function on the same centers, with coefficients A (p, any outputs)."""
        return HostExpansion(self._kernel, self.points, A)

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of the rows of X (n, d), as of `PlacedCenters`."""
        return self._centers.outputs(X)

    def values(self, Y: Numbers, W: Numbers, *, dtype: DTypeLike = np.float32) -> Numbers:
        """Return the values at the centers of another function, as of `PlacedCenters`."""
        return self._kernel.product(self.points, Y, W, dtype=dtype)

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self._centers.add_columns(count)

    def set_outputs(self, A: Numbers) -> None:
        """Have other outputs, with the coefficients A (p, outputs) of all centers."""
        self._centers.set_outputs(A)


class HostExpansion:
    """A function on points of the host, which are left where they are.

    Parameters
    ----------
    kernel : Kernel
    X : float32 array of shape (n, d)
    A : array of shape (n, outputs)
    """

    def __init__(self, kernel: Kernel, X: Numbers, A: Numbers) -> None:
        self._kernel, self._X = kernel, X
        self._A = np.array(A, np.float32, order="C")

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some slots (n,) by A (n, outputs)."""
        self._A[slots] = A

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of the rows of X (n, d), as of `Expansion`."""
        return self._kernel.product(X, self._X, self._A, dtype=np.float32)
