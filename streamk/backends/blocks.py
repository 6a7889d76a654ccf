"""The loops of a block diagonal matrix and of links between its blocks, in twins.

The blocks of W lie one after the other in one array, each row by row; a chunk is some rows of one
of them. Blocks of the symmetric L lie likewise in another, each pair of clusters once. They are
stored in single or double precision, and all sums are in double.

Each twin's module `blocks` defines the functions of `BackendModule`.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from streamk import backends

Array = NDArray[Any]


class BackendModule(Protocol):
    """The functions of both twins."""

    def scatter(self, v: Array, places: Array, out: Array) -> None:
        """Write each number to its place (uint32) in `out`: that of its point's row in W."""
        ...

    def gather(self, v: Array, places: Array, out: Array) -> None:
        """Write the numbers at the places (uint32) into `out`."""
        ...

    def down(self, values: Array, chunks: Array, v: Array, parts: Array) -> None:
        """Write each chunk's ``W^T v`` into its row of `parts` (chunks, largest rank).

        A chunk is (place in `values`, first row, rows, columns), int64. Numbers of `v` (n,) are in
        the order of the rows.
        """
        ...

    def up(self, values: Array, chunks: Array, u: Array, starts: Array, out: Array) -> None:
        """Write each chunk's ``W u`` into its numbers of `out` (n,), in the order of the rows.

        A chunk's numbers of `u` (rank,) begin at its place of `starts`.
        """
        ...

    def couple(self, values: Array, links: Array, u: Array, out: Array) -> None:
        """Write ``L u`` into `out` (rank,).

        A link is (place in `values`, first row, rows, first column, columns), int64, above the
        diagonal or on it.
        """
        ...


def select() -> BackendModule:
    """Return the compiled twin where numba is installed, else the one in NumPy."""
    found: BackendModule = backends.twin("blocks")
    return found
