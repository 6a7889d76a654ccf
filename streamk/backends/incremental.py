"""The loops of landmarks on a stream, in twins like those of the package.

The factor L of the landmarks' kernel matrix W lies in the lower triangle of a square room S and its
transpose in the upper one: S is symmetric, and both a row and a column of L are consecutive. The
room's side is a multiple of `streamk.backends.LANES`; what lies beside the factor are finite
numbers. An event x has the coordinates ``phi = L^-1 k(points, x)``; of k(x, x) = 1 the Schur
complement ``1 - |phi|^2`` is left, and ``q = L^-T phi`` are the coefficients of its kernel's
projection. Each twin's module `incremental` defines the functions of `BackendModule`.

All arrays are float64 and C-contiguous. What is computed for a row is the same, bit for bit,
whatever rows are computed with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from streamk import backends

Array = NDArray[Any]

KEEP, ADMIT = -2, -1
"""Verdicts on an event besides the number of the landmark that it should replace."""
LONGEST = 512.0
"""Half-lives after which a landmark's claim no longer shrinks."""


class KernelNumbers(NamedTuple):
    """A kernel as the loops know it; see `streamk.kernels.Kernel`."""

    code: int
    parameter: float
    scale: float


class Span(NamedTuple):
    """The landmarks."""

    points: Array
    """(l, d)"""
    laid: Array
    """The same as `BackendModule.laid` returns them."""
    S: Array


class Rule(NamedTuple):
    """The numbers that decide on an event."""

    inverse: Array
    """Diagonal of the inverse of W, (l,)."""
    leaned: Array
    """Number of the last event that leaned on each landmark most, (l,)."""
    floor: float
    """Schur complement that is too little, at least `rounding`."""
    rounding: float
    """Schur complement, given all the others, down to which a landmark is worth its place."""
    noise: float
    """Schur complement that cannot be told from 0."""
    threshold: float
    """Factor by which the determinant of W must grow, claims counted in."""
    rate: float
    """Halvings of an idle landmark's claim in an event; 0 for none."""
    full: bool


class BackendModule(Protocol):
    """The functions of a backend's module `incremental`."""

    def laid(self, points: Array) -> Array:
        """Return the points (l, d) in the layout that `Span` wants them in besides."""
        ...

    def coordinates(
        self, kernel: KernelNumbers, span: Span, X: Array, Phi: Array, schur: Array
    ) -> None:
        """Write the coordinates (n, l) and Schur complements (n,) of the rows of `X` (n, d)."""
        ...

    def watch(
        self, kernel: KernelNumbers, span: Span, rule: Rule, X: Array, number: int, Phi: Array
    ) -> tuple[int, int, float]:
        """Look at the rows of `X` up to the first that should change the landmarks.

        `number` is that of the event before the first row; `rule.leaned` is brought up to date.

        Returns
        -------
        tuple of int, int, float
            How many events were looked at; the verdict on the last of them: KEEP, ADMIT, or the
            number of the landmark to replace; its Schur complement. `Phi` (n, l) has the
            coordinates of all that were looked at.
        """
        ...

    def solve(self, S: Array, K: Array) -> None:
        """Turn the rows k of `K` (n, l) into ``L^-1 k``."""
        ...

    def solve_back(self, S: Array, K: Array) -> None:
        """Turn the rows k of `K` (n, l) into ``L^-T k``."""
        ...

    def remove_row(self, S: Array, size: int, j: int, cosines: Array, sines: Array) -> None:
        """Make of the factor of W, of that size, the factor of W without row and column j.

        L without row j has a number beyond the diagonal in each later row. Rotations of
        neighbouring columns, from j on, put them away; `cosines` and `sines` (size - 1 - j,) tell
        them.
        """
        ...

    def factorise(self, W: Array, S: Array, least: float) -> int:
        """Write the factor of the first rows and columns of `W` (l, l) into `S`, return how many.

        They end where a Schur complement is not above `least`, or with W.
        """
        ...

    def residual(self, S: Array, W: Array) -> float:
        """Return the largest error of an element of ``L L'``."""
        ...


def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("incremental")
    return found
