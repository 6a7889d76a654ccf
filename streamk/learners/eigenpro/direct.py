"""The direct solver: normal equations whose regularization is chosen on the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.declared import NON_NEGATIVE, Declared, taken
from streamk.errors import StateError

Numbers = NDArray[Any]


def product(A: Numbers, B: Numbers) -> Numbers:
    """Return A B, float64 (n, k), of A (n, m) and B (m, k).

    Examples
    --------
    >>> import numpy as np
    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    # BLAS has matrices by columns: A B is the transpose of B' A', and C order becomes its order.
    return np.asarray(scipy.linalg.blas.dgemm(1.0, B.T, A.T).T)


STEPS = 2
"""Steps of conjugate gradients after each block. Of 3 errors differ by less than .0001."""
GROWTH = 0.5
"""Part of all events that are new when the equations are solved anew."""
_ROUNDED = 1e-12
"""Added to the diagonal, relative to the trace, so that rounding leaves it positive."""
_MORE = 1e4
"""Times as much is added where it does not."""


class NormalEquations:
    """The function on p centers Z with the least sum of squares, ridge regression's.

    It minimises ``sum over events of w_i |c + f(x_i) - t_i|^2 + r |f|^2`` over functions
    ``f(x) = k(x, Z) A``. Its coefficients solve ``(G + r K(Z, Z)) A = B - s c'`` with the sums
    ``G = sum w K(Z, x) K(x, Z)``, ``B = sum w K(Z, x) t'`` and ``s = sum w K(Z, x)``, for any
    constant c and any regularization r. This is the subset of regressors, or Nyström kernel ridge
    regression (Rudi, Camoriano and Rosasco 2015).

    An event takes p^2 multiplications. Cholesky factors of the equations are made when half of the
    events are new, p^3 / 3 multiplications for each regularization; in between, conjugate gradients
    with the one that was kept as preconditioner follow the sums.

    K is K(Z, Z), float64 (p, p). The weight of an event falls by the factor `forgetting` with each
    one after it.

    Examples
    --------
    >>> equations = NormalEquations(np.eye(1), n_outputs=1)
    >>> equations.add(np.ones((3, 1)), np.array([[1.0], [2.0], [6.0]]))
    >>> equations.solve((1.0,), np.zeros(1), keep=0).round(6)
    array([[2.25]])
    """

    def __init__(self, K: Numbers, *, n_outputs: int, forgetting: float = 1.0) -> None:
        p = len(K)
        self._K, self._forgetting = K, forgetting
        self._system = np.zeros((p, p), order="F")
        """``G + r K(Z, Z)`` of the regularization kept, the lower triangle alone."""
        self.ridge = 0.0
        """That regularization, 0 before there is one."""
        self.moments, self.sums = np.zeros((p, n_outputs)), np.zeros(p)
        self.targets = np.zeros(n_outputs)
        """Weighted sum of targets."""
        self.weight = 0.0
        """Sum of the events' weights."""
        self._new = 0.0
        """Weight of events since the factor."""
        self._factor: Numbers | None = None

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        arrays = (self._K, self._system, self.moments, self.sums, self._factor)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def mean(self) -> Numbers:
        """Weighted mean of the targets, (n_outputs,)."""
        return self.targets / max(self.weight, 1e-300)

    @property
    def due(self) -> bool:
        """True if enough events are new for another factor."""
        return self._factor is None or self._new > GROWTH * self.weight

    def add(self, K: Numbers, T: Numbers) -> None:
        """Add events in their order, by K(X, Z), float64 (m, p), and targets T (m, n_outputs)."""
        m = len(K)
        w = self._forgetting ** np.arange(m - 1, -1, -1.0)
        decay = self._forgetting**m
        root = K if self._forgetting == 1.0 else K * np.sqrt(w)[:, None]
        self._system = scipy.linalg.blas.dsyrk(
            1.0, root.T, beta=decay, c=self._system, overwrite_c=1, lower=1
        )
        if decay < 1.0:  # of the events alone
            self._system += (1.0 - decay) * self.ridge * self._K.T
        T = w[:, None] * T
        self.moments = decay * self.moments + product(K.T, T)
        self.sums = decay * self.sums + product(w[None], K)[0]
        self.targets = decay * self.targets + T.sum(axis=0)
        self.weight = decay * self.weight + float(w.sum())
        self._new = decay * self._new + float(w.sum())

    def solve(self, ridges: tuple[float, ...], constant: Numbers, *, keep: int) -> Numbers:
        """Return the coefficients of each regularization, (p, len(ridges) n_outputs).

        The factor of that numbered `keep` is kept for `refine`.
        """
        right = self._right(constant)
        self._factor = None
        room = np.empty_like(self._system)
        found = [right] * len(ridges)
        for place in sorted(range(len(ridges)), key=lambda place: place == keep):
            self._factor = self._factored(ridges[place], room)
            found[place] = solved(self._factor, right)
        self._system += (ridges[keep] - self.ridge) * self._K.T
        self.ridge = ridges[keep]
        self._new = 0.0
        return np.concatenate(found, axis=1)

    def refine(self, A: Numbers, constant: Numbers) -> Numbers:
        """Return coefficients A (p, n_outputs) after some steps of conjugate gradients.

        Regularization and preconditioner are those that were kept.
        """
        assert self._factor is not None, "solve() comes first"
        lift = self._lift()

        def times(V: Numbers) -> Numbers:
            # From the right: from the left OpenBLAS takes 60 times as long by a few columns.
            found: Numbers = scipy.linalg.blas.dsymm(1.0, self._system, V.T, side=1, lower=1).T
            return found + lift * V

        A = A.copy()
        left = self._right(constant) - times(A)
        Z = solved(self._factor, left)
        direction, height = Z, np.einsum("ij,ij->j", left, Z)
        for turn in range(STEPS):
            product = times(direction)
            curve = np.einsum("ij,ij->j", direction, product)
            step = np.divide(height, curve, out=np.zeros_like(height), where=curve > 0.0)
            A += step * direction
            if turn == STEPS - 1:
                break
            left = left - step * product
            Z = solved(self._factor, left)
            before, height = height, np.einsum("ij,ij->j", left, Z)
            part = np.divide(height, before, out=np.zeros_like(height), where=before > 0.0)
            direction = Z + part * direction
        return A

    def _right(self, constant: Numbers) -> Numbers:
        return np.asarray(self.moments - np.outer(self.sums, constant))

    def _lift(self) -> float:
        return _ROUNDED * (float(np.trace(self._system)) + float(np.trace(self._K)))

    def _factored(self, ridge: float, room: Numbers) -> Numbers:
        """Return the lower Cholesky factor of G + r K(Z, Z), which takes the place of `room`."""
        lift = self._lift()
        while True:
            M = np.multiply(self._K.T, ridge - self.ridge, out=room)  # in columns, as it is
            M += self._system
            M[np.diag_indices(len(M))] += lift
            try:
                return np.asarray(
                    scipy.linalg.cholesky(M, lower=True, overwrite_a=True, check_finite=False)
                )
            except np.linalg.LinAlgError:  # rounding, or a state that another hand changed
                lift *= _MORE
                if not np.isfinite(lift):
                    raise StateError("the normal equations hold no sums of events") from None

    # Others

    def grow(self, K: Numbers, B: Numbers) -> None:
        """Have more centers, with the old ones first.

        The kernels of past events with the new centers are not known; they are taken to be those of
        the projections on the old centers' span. K is K(Z, Z) of all centers, and B (p, more) is
        ``K(Z, Z)^-1 K(Z, new)`` of the old ones.
        """
        self._take(self, np.concatenate([np.eye(len(B)), B], axis=1), 0.0, 1.0, K)

    def join(self, other: NormalEquations, C: Numbers, share: float) -> None:
        """Add what another one has of its events, on its own centers, by C = K(theirs, Z).

        `share` is the part of the other's events that are not known here.
        """
        some = scipy.linalg.solve(other._K, C, assume_a="pos", check_finite=False)
        self._take(other, some, 1.0, share, self._K)

    def _take(
        self, other: NormalEquations, C: Numbers, mine: float, share: float, K: Numbers
    ) -> None:
        """Become ``mine`` times this plus ``share`` times another, brought over by C."""
        lower = np.tril(other._system)
        gram = lower + np.tril(lower, -1).T - other.ridge * other._K
        moved = np.asfortranarray(np.tril(share * (C.T @ gram @ C)))
        moments, sums = share * (C.T @ other.moments), share * (other.sums @ C)
        if mine:
            moved += self._system
            moments, sums = moments + self.moments, sums + self.sums
            self.targets = self.targets + share * other.targets
            self.weight += share * other.weight
        else:
            self.ridge = 0.0
        self._system, self.moments, self.sums, self._K = moved, moments, sums, K
        self._new, self._factor = self.weight, None

    def set_outputs(self, moments: Numbers, targets: Numbers) -> None:
        """Have other outputs, of which these are the sums."""
        self.moments, self.targets = np.ascontiguousarray(moments), targets

    # State

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        found = {
            "moments": self.moments.copy(),
            "sums": self.sums.copy(),
            "targets": self.targets.copy(),
            "weights": np.array([self.weight, self._new, self.ridge]),
        }
        p = len(self._K)
        both = np.tril(self._system)  # above the diagonal is the factor
        if self._factor is not None:
            both += np.triu(self._factor.T, 1)
            found["factor_diagonal"] = np.diag(self._factor).copy()
        else:
            found["factor_diagonal"] = np.zeros(p)
        return {**found, "system": np.ascontiguousarray(both)}

    def load(self, arrays: Mapping[str, Numbers], owner: str) -> None:
        """Take what `arrays` gave, or raise StateError if it does not fit."""
        sizes = {"centers": len(self._K), "outputs": len(self.targets)}
        found, _ = taken(_DECLARED, arrays, sizes, owner)
        both = found["system"]
        if (np.diag(both) < 0.0).any():
            raise StateError(f"array 'system' of {owner} has a number below 0 on its diagonal")
        self._system = np.asfortranarray(np.tril(both))
        self.moments, self.sums = found["moments"].copy(), found["sums"].copy()
        self.targets = found["targets"].copy()
        self.weight, self._new, self.ridge = found["weights"].tolist()
        diagonal = found["factor_diagonal"]
        self._factor = None
        if diagonal.size and (diagonal > 0.0).all():
            self._factor = np.asfortranarray(np.triu(both, 1).T + np.diag(diagonal))


_DECLARED = (
    Declared("system", "float64", ("centers", "centers")),
    Declared("factor_diagonal", "float64", ("centers",), NON_NEGATIVE),
    Declared("moments", "float64", ("centers", "outputs")),
    Declared("sums", "float64", ("centers",)),
    Declared("targets", "float64", ("outputs",)),
    Declared("weights", "float64", (3,), NON_NEGATIVE),
)


def factor_of(K: Numbers) -> Numbers:
    """Return the lower Cholesky factor of a matrix (p, p)."""
    return np.asarray(scipy.linalg.cholesky(K, lower=True, check_finite=False))


def solved(factor: Numbers, B: Numbers) -> Numbers:
    """Return the solution (p, k) of the system of a factor (p, p)."""
    return np.asarray(scipy.linalg.cho_solve((factor, True), B, check_finite=False))


class DirectSolver:
    """Least squares on fixed centers for several regularizations.

    The first function is asked. It follows every block. The others, one for each regularization,
    stay from one factorization of the equations to the next, so that their errors in between can be
    compared; then the first becomes the best of them. Of a single regularization there is the first
    function alone.

    Attributes
    ----------
    coefficients : float64 array of shape (p, functions n_outputs)
    chosen : int
        The regularization of the first function.
    """

    def __init__(
        self, K: Numbers, *, ridges: tuple[float, ...], n_outputs: int, forgetting: float
    ) -> None:
        self.equations = NormalEquations(K, n_outputs=n_outputs, forgetting=forgetting)
        self.ridges = ridges
        self.chosen = len(ridges) // 2
        self.coefficients = np.zeros((len(K), len(self.functions) * n_outputs))

    @property
    def functions(self) -> tuple[float, ...]:
        """The regularization of each function."""
        return functions_of(self.ridges, self.chosen)

    @property
    def turn(self) -> int:
        """The number that `load` needs beside the arrays: the regularization chosen."""
        return self.chosen

    @property
    def nbytes(self) -> int:
        """Memory beside the centers, in bytes."""
        return self.equations.nbytes + self.coefficients.nbytes

    def update(self, constant: Numbers, errors: Numbers) -> None:
        """Bring the functions to the equations as they are, by a constant (n_outputs,).

        `errors` (len(ridges),) are of each regularization, so far; empty where they are not known.
        """
        outputs = len(constant)
        if self.equations.due:
            if len(self.ridges) > 1 and errors.any():
                self.chosen = int(np.argmin(errors))
            A = self.equations.solve(self.ridges, constant, keep=self.chosen)
            answer = A[:, self.chosen * outputs : (self.chosen + 1) * outputs]
            self.coefficients = answer if len(self.ridges) == 1 else np.hstack([answer, A])
        else:
            answer = self.equations.refine(self.coefficients[:, :outputs], constant)
            self.coefficients[:, :outputs] = answer

    def grow(self, K: Numbers, B: Numbers) -> None:
        """Have more centers, as of `NormalEquations.grow`; no prediction changes."""
        self.equations.grow(K, B)
        self.coefficients = np.pad(self.coefficients, ((0, B.shape[1]), (0, 0)))

    def set_outputs(self, fitted: Callable[[Numbers], Numbers], outputs: int) -> None:
        """Have so many outputs: ``fitted`` of coefficients (n, outputs of all functions)."""
        self.coefficients = fitted(self.coefficients)
        old, many = self.equations, len(self.functions)

        def first(A: Numbers) -> Numbers:
            return fitted(np.tile(A, (1, many)))[:, :outputs]

        before = old.moments.shape[1]
        moments, targets = first(old.moments), first(old.targets[None])[0]
        more = slice(max(before, min(2, outputs)), None)  # no label was of these classes
        moments[:, more] = -old.sums[:, None]
        targets[more] = -old.weight
        old.set_outputs(moments, targets)

    def align(self, ordered: Callable[[Numbers], Numbers]) -> None:
        """Have the outputs in another order: ``ordered`` of numbers (n, outputs)."""
        sums = self.equations
        sums.set_outputs(ordered(sums.moments), ordered(sums.targets[None])[0])

    def join(self, other: DirectSolver, C: Numbers, share: float, constant: Numbers) -> None:
        """Add the equations of another one, as of `NormalEquations.join`."""
        self.equations.join(other.equations, C, share)
        self.update(constant, np.zeros(0))

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        return {"coefficients": self.coefficients.copy(), **self.equations.arrays()}

    def load(self, arrays: Mapping[str, Numbers], turn: int, owner: str) -> None:
        """Take what `arrays` gave, or raise StateError if it does not fit."""
        if turn >= len(self.ridges):
            raise StateError(f"'turn' of {owner} is {turn}, of {len(self.ridges)} regularizations")
        self.chosen = turn
        p, width = self.coefficients.shape
        declared = (Declared("coefficients", "float64", ("centers", "width")),)
        found, _ = taken(declared, arrays, {"centers": p, "width": width}, owner)
        self.coefficients = found["coefficients"].copy()
        self.equations.load(arrays, owner)
        if self.equations.ridge not in (0.0, *self.ridges):
            raise StateError(f"array 'weights' of {owner} has another regularization")


def functions_of(ridges: tuple[float, ...], chosen: int) -> tuple[float, ...]:
    """Return the regularization of each function, first that of the one that is asked."""
    return ridges if len(ridges) == 1 else (ridges[chosen], *ridges)
