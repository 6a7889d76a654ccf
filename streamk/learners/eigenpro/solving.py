"""The solver that learns coefficients, and the matrices that it holds in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from streamk.errors import InvalidInput
from streamk.learners.eigenpro.direct import functions_of
from streamk.learners.eigenpro.selection import SHARE, WITH_FACTOR
from streamk.learners.kernel_ridge.on_centers import RIDGES

BYTES = 2**31
"""Memory for matrices of centers by centers."""


@dataclass(frozen=True)
class Solving:
    """A way to learn coefficients.

    Attributes
    ----------
    direct : bool
        By normal equations; else by projected gradient steps.
    has_matrix : bool
        Whether a matrix of centers by centers is stored; without it projections are inexact.
    ridges : tuple of float
        Regularizations of normal equations.
    forgetting : float
    batch_size : int
    seed : int
    """

    direct: bool
    has_matrix: bool
    ridges: tuple[float, ...]
    forgetting: float
    batch_size: int
    seed: int

    @classmethod
    def of(
        cls,
        solver: str,
        n_centers: int,
        regularization: float | None,
        forgetting: float,
        *,
        batch_size: int,
        seed: int,
    ) -> Self:
        """Return what the options of a learner ask for.

        Raises
        ------
        InvalidInput
            If an option is of the direct solver, and it is not the one.
        """
        direct = solver == "direct" or (solver == "auto" and 32 * n_centers**2 <= BYTES)
        if not direct and (regularization is not None or forgetting != 1.0):
            name, value = "regularization", regularization
            if regularization is None:
                name, value = "forgetting", forgetting
            why = "" if solver != "auto" else f", which n_centers={n_centers} asks for"
            raise InvalidInput(
                f"{name}={value!r} is for solver='direct', not 'eigenpro'{why}; leave it out"
            )
        ridges = RIDGES if regularization is None else (regularization,)
        has_matrix = direct or 16 * n_centers**2 <= BYTES
        return cls(direct, has_matrix, ridges, forgetting, batch_size, seed)

    @property
    def functions(self) -> int:
        """Functions that are learned side by side."""
        return len(functions_of(self.ridges, 0)) if self.direct else 2


def check_selection(selection: str, n_centers: int) -> None:
    """Raise InvalidInput if centers are chosen by a factor that takes too much memory."""
    if selection in WITH_FACTOR and 4 * SHARE * n_centers**2 > BYTES:
        raise InvalidInput(
            f"selection={selection!r} takes {4 * SHARE} n_centers^2 bytes, too many for "
            f"n_centers={n_centers}; choose 'random' or 'k-means', or 11,585 centers"
        )
