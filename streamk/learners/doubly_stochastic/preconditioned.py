"""The function of a doubly stochastic learner whose steps are preconditioned."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK
from streamk.declared import Domain, flag, number
from streamk.kernels import Kernel
from streamk.learners.common.optimizers import curvature
from streamk.learners.doubly_stochastic.function import Coefficients, KernelFunction
from streamk.losses import Loss

Numbers = NDArray[np.float64]

_LEAST = 1e-7
"""Added to the regularization in the unit s, so that the covariance can be inverted. That of single
precision has directions that are but rounding, which are smaller."""
_SIZES = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.0)
"""Multiples of a direction that are compared."""
_FEW = 32
"""Events below which leave-one-out changes do not tell the damping: with that of few events, errors
of steps of 8 events were a third less on a smooth function, those of steps of 32 a fifth more."""
_AT_ONCE = 1024
"""Events whose leverages are computed together: SciPy keeps other threads waiting meanwhile."""
_FACTOR = 4.0
"""Between two dampings that are compared."""
DAMPINGS = Domain(least=4.0**-10, most=4.0**10)


_AVERAGES = "averages"
_ETA = 3
"""Of polynomial-decay averaging (Shamir and Zhang 2013): about the last quarter of the steps."""


class Direction(NamedTuple):
    """A direction D (m, outputs), with the size of it that is best by leave-one-out changes."""

    D: Any
    size: float
    rise: float
    """More loss of an event after that, at the upper end of its interval; at most 0."""


def damping_of_few(n_events: int, n_features: int) -> float:
    """Return the damping of a step of given size: 0 unless events are fewer than the features.

    Then the covariance is singular, and ``features / events`` times the mean of its diagonal, which
    is about 1 in the unit of the features, is added to it.

    Examples
    --------
    >>> damping_of_few(512, 256), damping_of_few(64, 256)
    (0.0, 4.0)
    """
    return 0.0 if n_events >= n_features else n_features / n_events


class Block:
    """The features Phi (n, m) of a block on the events of a step.

    Derivatives of each event's loss are G (n, outputs), coefficients of the block W (m, outputs).
    The module of their arrays is NumPy or CuPy.
    """

    def __init__(
        self, xp: Any, Phi: Any, G: Any, W: Any, *, curvature: float, regularization: float
    ) -> None:
        self.shape = n, m = Phi.shape
        self._xp, self._curvature = xp, curvature
        self._Phi, self._G = Phi.astype(xp.float64), G.astype(xp.float64)
        self._covariance = (curvature / n) * (self._Phi.T @ self._Phi)
        self._unit = max(1.0, float(xp.trace(self._covariance)) / (2.0 * curvature * m))
        self._ridge = m * (regularization + _LEAST * self._unit)
        self._descent = -(self._Phi.T @ self._G) / n - (m * regularization) * W

    def direction(self, damping: float) -> Any:
        """Return the direction, float64 (m, outputs)."""
        return self._xp.linalg.solve(self._damped(damping), self._descent)

    def searched(self, damping: float, rises: Callable[[Numbers], Numbers]) -> Direction:
        """Return the direction and its best multiple.

        `rises` returns how much more loss each event has (n,) after changes of the outputs (n,
        outputs), both float64, on the host.
        """
        xp, Phi = self._xp, self._Phi
        try:
            L = xp.linalg.cholesky(self._damped(damping))
        except np.linalg.LinAlgError:  # features that are not finite; CuPy leaves NaN itself
            return Direction(xp.full_like(self._descent, xp.nan), 1.0, math.inf)
        solve = _triangular(xp)
        D = solve(L.T, solve(L, self._descent, lower=True), lower=False)
        leverages = self._leverages(L)[:, None]
        left = xp.maximum(1.0 - self._curvature * leverages, 1e-9)
        changes = (Phi @ D + leverages * self._G) / left
        host = changes if xp is np else changes.get()
        if len(Phi) == 1:  # its change is 0, and what rounding leaves of that chooses no size
            return Direction(D, 0.0, 0.0)
        least, size = min((_upper(rises(size * host)), size) for size in _SIZES)
        return Direction(D, size, least)

    def _leverages(self, L: Any) -> Any:
        """Return l_i / h of all events (n,) by a factor of the damped covariance."""
        solve, n = _triangular(self._xp), len(self._Phi)
        found = self._xp.empty(n)
        for at in range(0, n, _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            found[some] = self._xp.square(solve(L, self._Phi[some].T, lower=True)).sum(axis=0) / n
        return found

    def _damped(self, damping: float) -> Any:
        damped = self._covariance.copy()
        damped[self._xp.diag_indices(len(damped))] += self._ridge + damping * self._unit
        return damped


def _triangular(xp: Any) -> Callable[..., Any]:
    """Return the solver of triangular systems for arrays of NumPy or CuPy."""
    linalg = importlib.import_module("scipy.linalg" if xp is np else "cupyx.scipy.linalg")
    return partial(linalg.solve_triangular, check_finite=False)


def _upper(rises: Numbers) -> float:
    """Return the upper end of an interval of one standard error about the mean."""
    found = float(rises.mean() + rises.std() / math.sqrt(len(rises)))
    return found if math.isfinite(found) else math.inf


class Search:
    """The search for size and damping, from step to step.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.losses import loss
    >>> rng = np.random.default_rng(0)
    >>> Phi, y = rng.normal(size=(64, 8)), rng.normal(size=64)
    >>> F = np.zeros((64, 1))
    >>> squared = loss("squared")
    >>> block = Block(np, Phi, squared.gradient(F, y), np.zeros((8, 1)), curvature=1.0,
    ...               regularization=0.0)
    >>> search = Search(squared)
    >>> search.step(block, F, y).shape
    (8, 1)
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.damping = 1.0
        self.rising = False
        """True if the next damping to be compared with is larger."""

    def step(self, block: Block, F: Any, y: Any) -> Any:
        """Return the change of the coefficients, float64 (m, outputs).

        Outputs of the events are F (n, outputs), float64, on the host as labels y (n,).
        """
        before = self._loss.value(F, y)

        def rises(changes: Numbers) -> Numbers:
            return self._loss.value(F + changes, y) - before

        few = damping_of_few(*block.shape) if len(y) < _FEW else 0.0
        other = self._moved(max(self.damping, few), few)
        mine, theirs = block.searched(max(self.damping, few), rises), block.searched(other, rises)
        if theirs.rise < mine.rise:
            self.damping, mine = self._moved(self.damping), theirs  # and on in that direction
        else:
            self.rising = not self.rising
        return mine.size * mine.D

    def _moved(self, damping: float, least: float = 0.0) -> float:
        """Return the damping that one is compared with, at least as large as wanted."""
        moved = damping * (_FACTOR if self.rising else 1.0 / _FACTOR)
        return min(max(moved, DAMPINGS.least, least), DAMPINGS.most)


class PreconditionedFunction(KernelFunction):
    """Coefficients of which each step moves one block, preconditioned by its covariance.

    With `averaging` the averages of the coefficients predict. Options are those of
    `KernelFunction`; without a `step` its size is searched for.
    """

    def __init__(
        self, kernel: Kernel, loss: Loss, *, averaging: bool, batch_size: int, **options: Any
    ) -> None:
        super().__init__(kernel, loss, **options)
        self._batch_size = batch_size
        self.averages = self.coefficients.copy() if averaging else None
        self.search = Search(loss) if self._step is None else None
        self._bound = partial(curvature, loss)

    @property
    def nbytes(self) -> int:
        """Memory of coefficients, averages and of what is kept of the features, in bytes."""
        return super().nbytes + (self.averages.nbytes if self.averages else 0)

    @property
    def every(self) -> tuple[Coefficients, ...]:
        """The coefficients, and their averages if there are any."""
        return (self.coefficients,) if self.averages is None else (self.coefficients, self.averages)

    @property
    def _predicting(self) -> Coefficients:
        """The averages, if there are any."""
        return self.coefficients if self.averages is None else self.averages

    def learn(self, X: Any, y: NDArray[np.float64]) -> None:
        """Learn a mini-batch of events, see `KernelFunction.learn`; one block of features moves.

        After the first step an event of a mini-batch that is not whole counts as in a whole one.
        """
        t, coefficients = self.n_steps + 1, self.coefficients
        start, stop = self._block(t)
        first, last = start // CHUNK, -(-stop // CHUNK)
        some = slice(start - first * CHUNK, stop - first * CHUNK)
        F = self._decide_by(coefficients, X) if self.n_steps else self._decide(X)
        self._check_finite(bool(self._xp.isfinite(F).all()))
        G = self._xp.empty(F.shape, self._dtype)
        self._backend.loss_gradient(*self._loss, F, self._backend.put(y), 1.0, G)
        coefficients.grow(last)
        W = coefficients.chunks(first, last)
        Phi = self._features.features(X, first, last)[:, some]
        with np.errstate(over="ignore", invalid="ignore"):  # the next step says that it overflowed
            block = Block(
                self._xp,
                Phi,
                G,
                W[some],
                curvature=self._bound(coefficients.n_outputs) or 1.0,
                regularization=self._regularization,
            )
            part = len(y) / self._batch_size if self.n_steps else 1.0
            W[some] += part * self._change(block, t, F, y)
        coefficients.set_chunks(first, W)
        self.n_steps = t
        if self.averages is not None:
            self.averages.grow(last)
            self.averages.approach(coefficients, (1 + _ETA) / (t + _ETA))

    def _change(self, block: Block, t: int, F: Any, y: NDArray[np.float64]) -> Any:
        if self.search is None:
            assert self._step is not None
            return self._step.size(t) * block.direction(damping_of_few(*block.shape))
        return self.search.step(block, self._get(F), self._as_labels(y))

    # State

    def saved(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and arrays of what is beside the coefficients."""
        search, averages = self.search, self.averages
        header = {} if search is None else {"damping": search.damping, "rising": search.rising}
        if averages is None:
            return header, {}
        arrays = averages.arrays(self.n_chunks)
        return {**header, "averages_scale": averages.scale}, {_AVERAGES: arrays["coefficients"]}

    def load(self, header: Mapping[str, Any], arrays: Mapping[str, Any], owner: str) -> None:
        """Take what `saved` gave, or raise StateError if something is missing or does not fit."""
        if self.search is not None:
            self.search.damping = number(header, "damping", owner, DAMPINGS)
            self.search.rising = flag(header, "rising", owner)
        if self.averages is not None:
            found = {"coefficients": arrays[_AVERAGES]} if _AVERAGES in arrays else {}
            scale = number(header, "averages_scale", owner)
            self.averages.load(found, self.n_chunks, scale)
