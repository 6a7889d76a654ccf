"""The loops of a Cholesky factor in single precision, in twins like those of the package.

The factor L lies in panels of `PANEL` rows. A panel is an array (groups, columns, GROUP): the rows
of a group lie in the lanes of vectors, column after column, up to the panel's own ones. Where L has
its blocks (GROUP, GROUP) on the diagonal, the inverses of these lie instead, so that all that is
done with them is a product of matrices. Each twin's module `cholesky` defines the functions of
`BackendModule`.

All arrays are float32 and C-contiguous. What is computed for a row is the same, bit for bit,
whatever rows are computed with it.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from streamk import backends

Array = NDArray[Any]

PANEL = 256
"""Rows of a panel."""


class BackendModule(Protocol):
    """The functions of a backend's module `cholesky`."""

    def eliminate(self, own: Array, first: int, stop: int, panel: Array, at: int) -> None:
        """Turn the columns of another panel into those of the factor.

        They begin at number `at`, and are those of the groups from `first` to `stop` of the panel
        `own`, which has the factor's columns before them, and the matrix's from there on. `panel`
        has the factor's rows of these numbers, all of them.
        """
        ...

    def factor(self, own: Array, first: int, stop: int, at: int) -> bool:
        """Turn the columns of the panel itself, from `at` on, into those of the factor.

        The groups before `first` have theirs. Returns whether the matrix is positive definite, but
        for rounding; if not, the groups from `first` on are left as they are by then.
        """
        ...

    def forward(self, panel: Array, at: int, A: Array, first: int) -> None:
        """Solve ``L x = y`` for the rows of a panel, the first of which has number `at`.

        A is (parts, n, lanes), with the outputs in the lanes, which are GROUP, or fewer and then
        one part: x in the rows before the panel's group `first`, y in the others, of which those of
        the panel become x. There may be fewer of them than the panel has.
        """
        ...

    def backward(self, panel: Array, at: int, A: Array) -> None:
        """Solve ``L' x = y`` for the rows of a panel, from the last panel to the first.

        Those of A have what later panels leave of y, and become x; from those before them their
        part is taken away.
        """
        ...


def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("cholesky")
    return found
