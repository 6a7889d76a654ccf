"""A new factorization, made in the background while learning goes on with the old one."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from os import register_at_fork
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import count, reading
from streamk.errors import InvalidInput, StateError, StreamkError
from streamk.factorization import meka
from streamk.kernels import Kernel
from streamk.learners.common.optimizers import Optimizer
from streamk.learners.common.resolving import RIDGE, projected
from streamk.learners.meka.clustered_function import ClusteredFunction
from streamk.learners.meka.growing_features import GrowingFeatures

Matrix = NDArray[np.float64]
_Events = deque[tuple[Matrix, Matrix, NDArray[np.bool_]]]


@cache
def _worker() -> ThreadPoolExecutor:
    """Return the thread of all learners' factorizations.

    It is one: what limits the threads of BLAS within one is never undone by another.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="streamk-refactorization")


# A forked process has no such thread, and would wait for it for ever.
register_at_fork(after_in_child=_worker.cache_clear)


@dataclass(frozen=True)
class Recipe:
    """How features are made of events."""

    kernel: Kernel
    rank: int
    n_clusters: int
    room: int
    tol: float

    def features(self, X: Matrix, seed: int) -> tuple[GrowingFeatures, NDArray[np.int64]]:
        """Return features of events, and how many of these each cluster has."""
        found = meka(
            X,
            self.kernel,
            rank=self.rank,
            n_clusters=self.n_clusters,
            seed=seed,
            dtype=np.float64,
            threads=1,
        )
        sizes = np.bincount(found.labels, minlength=found.n_clusters)
        return GrowingFeatures.of(found, room=self.room, tol=self.tol), sizes


@dataclass(frozen=True)
class Snapshot:
    """The data of a factorization, as they were when it was begun."""

    X: Matrix
    """The buffer's events (n, d)."""
    y: Matrix
    held_back: Matrix
    decide: Callable[[Matrix], Matrix]
    """The function so far."""
    optimizer: Optimizer
    """One that has learned nothing."""
    n_steps: int
    """Steps so far."""
    seed: int

    def refactorized(self, recipe: Recipe) -> ClusteredFunction:
        """Factorize, carry the function over, and solve for the buffer anew.

        Raises
        ------
        InvalidInput
            If the function is not finite at the buffer's events.
        """
        F = self.decide(self.X)
        if not np.isfinite(F).all():
            raise InvalidInput(
                "predictions of the events to factorize overflowed; scale the labels, or take a "
                "smaller step"
            )
        features, sizes = recipe.features(self.X, self.seed)
        Phi = features.transform(self.X, features.nearest(self.X))
        W = projected(Phi, F, RIDGE)
        self.optimizer.begin(W, Phi, self.y, self.n_steps)
        error = kernel_error(features, self.held_back)
        return ClusteredFunction(features, self.optimizer, sizes, error)


def kernel_error(features: GrowingFeatures, X: Matrix) -> float | None:
    """Return the relative Frobenius error of products of features as kernels of events."""
    if not len(X):
        return None
    G = features.kernel.pairwise(X)
    missed = features.pairwise(X) - G
    return math.sqrt(float((missed * missed).sum()) / float((G * G).sum()))


class Refactorization:
    """A function that is made in the background, and learns there what comes in the meantime.

    Parameters
    ----------
    at : int
        Event after which it takes over.
    make : callable
        Returns it.
    """

    def __init__(self, at: int, make: Callable[[], ClusteredFunction]) -> None:
        self.at = at
        self._future: Future[ClusteredFunction] = _worker().submit(make)
        self._before = self._future
        self._events: _Events | None = None

    @classmethod
    def of(cls, data: Any, clock: int, make: Callable[[], ClusteredFunction]) -> Refactorization:
        """Return what was there, or had failed, when the state of a learner was taken.

        Parameters
        ----------
        data : dict
            Of the header of the state: the event to take over at, and the failure, if any.
        clock : int
            Events by then.
        make : callable
            Returns the function out of the state; asked if it had not failed.

        Raises
        ------
        StateError
            If the data do not fit.
        """
        with reading(_OWNER):
            at, failure = count(data, "at", _OWNER), data["failure"]
        if at <= clock or not (failure is None or isinstance(failure, str)):
            raise StateError(
                f"{_OWNER} must have an 'at' above {clock}, and a text or nothing as 'failure', "
                f"not {data!r}"
            )
        function = make() if failure is None else None
        return cls(at, lambda: _come(function, failure))

    def then(self, follow: Callable[[ClusteredFunction], Any]) -> None:
        """Apply a change to the function, as soon as it is there."""
        self._events = None
        self._follow(follow)

    def learn(self, X: Matrix, y: Matrix, eligible: NDArray[np.bool_]) -> None:
        """Have the function learn events, as `ClusteredFunction.learn` takes them.

        Those that are waiting when it comes to them are learned together, which changes no bit and
        asks for the interpreter less often: the thread that goes on meanwhile has it most of the
        time.
        """
        if self._events is None:
            self._events = deque()
        events = self._events
        events.append((X, y, eligible))

        def learn(function: ClusteredFunction) -> None:
            waiting = [events.popleft() for _ in range(len(events))]
            if waiting:
                function.learn(*map(np.concatenate, zip(*waiting, strict=True)))

        self._follow(learn)

    def _follow(self, follow: Callable[[ClusteredFunction], Any]) -> None:
        self._before = before = self._future

        def work() -> ClusteredFunction:
            function = before.result()
            follow(function)
            return function

        self._future = _worker().submit(work)

    @property
    def late(self) -> bool:
        """Whether more is left to be done than to follow what happened last."""
        return not self._before.done()

    def wait(self) -> float:
        """Wait until it is there, or has failed, and return for how many seconds."""
        began = time.perf_counter()
        self._future.exception()
        return time.perf_counter() - began

    def result(self) -> ClusteredFunction:
        """Return the function.

        Raises
        ------
        StreamkError
            If it could not be made, or a prediction overflowed.
        """
        return self._future.result()

    @property
    def failure(self) -> StreamkError | None:
        """The error of the background thread; None without one."""
        found = self._future.exception()
        if found is not None and not isinstance(found, StreamkError):
            raise found
        return found


def _come(function: ClusteredFunction | None, failure: str | None) -> ClusteredFunction:
    """Return a function that was made before, or raise what it failed of."""
    if function is None:
        raise InvalidInput(failure or "")
    return function


_OWNER = "a state's next factorization"
