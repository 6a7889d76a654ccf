"""The methods of Figure 1 (1) to (3): ours, and those of the paper's section 6.

All have the same kernel, loss (hinge) and orders of events. Each has its regularization
``nu = c / n``, n the events of a pass; ours and NORMA have a first step size, too, from which steps
fall to an eleventh in a pass, and go on falling. Both are taken from the same lists for all, by the
error on held-out training events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.doubly_stochastic.problems import Problem
from benchmarks.doubly_stochastic.rivals import pegasos
from benchmarks.doubly_stochastic.rivals.norma import Norma
from benchmarks.doubly_stochastic.rivals.sdca import KernelSDCA, LinearSDCA
from benchmarks.doubly_stochastic.steps import decreasing
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

Numbers = NDArray[Any]
Options = Mapping[str, float]

REGULARIZATIONS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""c of nu = c / n."""
FIRST_STEPS = (0.125, 0.5, 2.0, 8.0, 32.0)
BATCH, BLOCK = 32, 256
MOST_FEATURES = 1 << 20
KEPT_FEATURES = 1 << 13


class Machine(Protocol):
    """A method that learns events of a problem."""

    def learn(self, first: int, X: Numbers, y: Numbers) -> None:
        """Learn the events (m, d) from number `first` of the pass on, labels -1 and +1."""

    def scores(self, X: Numbers) -> Numbers:
        """Numbers (n,) whose signs are the classes of events (n, d)."""


@dataclass(frozen=True)
class Method:
    """How a method is made, and the options among which the held-out events choose."""

    make: Callable[[Problem, int, Options], Machine]
    steps: bool
    """Whether it has a step size of its own."""

    def candidates(self, n: int) -> list[dict[str, float]]:
        """All combinations of the lists but those in which a step on n events turns f's sign."""
        if not self.steps:
            return [{"c": c} for c in REGULARIZATIONS]
        return [
            {"c": c, "first": first}
            for c, first in itertools.product(REGULARIZATIONS, FIRST_STEPS)
            if first * c / n < 1.0
        ]


class Ours:
    """The learner.

    Parameters
    ----------
    problem : Problem
    seed : int
    options : mapping
    most : int
        Features at which growing ends; their blocks then have their turns again.
    batch, block : int
        Events and features a step.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        options: Options,
        *,
        most: int,
        batch: int,
        block: int,
    ) -> None:
        nu = options["c"] / len(problem.X)
        self.model = DoublyStochastic(
            Gaussian(bandwidth=problem.bandwidth),
            loss="hinge",
            classes=(-1, 1),
            seed=seed,
            step=decreasing(options["first"], len(problem.X) / batch),
            regularization=nu,
            batch_size=batch,
            block_size=block,
            max_features=most,
            sampler="hadamard",
            threads=1,
        )

    def learn(self, first: int, X: Numbers, y: Numbers) -> None:
        """Learn events."""
        self.model.learn_many(X, y.astype(np.int64))

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d)."""
        return self.model.decision_many(X)[:, 0]


def _on_features(
    fit: Callable[[float, Numbers, int], Any],
    machine: Callable[[float, int, int], pegasos.Linear],
) -> Method:
    def make(problem: Problem, seed: int, options: Options) -> Machine:
        features = fit(problem.gamma, problem.X, seed)
        n = len(problem.X)
        return pegasos.OnFeatures(features, machine(options["c"] / n, n, seed))

    return Method(make, steps=False)


def _pegasos(nu: float, _: int, seed: int) -> pegasos.Linear:
    return pegasos.Pegasos(nu, seed)


def _sdca(nu: float, n: int, _: int) -> pegasos.Linear:
    return LinearSDCA(nu, n)


def _norma(problem: Problem, _: int, options: Options) -> Machine:
    nu = options["c"] / len(problem.X)
    return Norma(problem.gamma, nu, decreasing(options["first"], len(problem.X)))


def _kernel_sdca(problem: Problem, _: int, options: Options) -> Machine:
    n = len(problem.X)
    return KernelSDCA(problem.gamma, options["c"] / n, n)


def _growing(problem: Problem, seed: int, options: Options) -> Machine:
    return Ours(problem, seed, options, most=MOST_FEATURES, batch=BATCH, block=BLOCK)


def _whole(problem: Problem, seed: int, options: Options) -> Machine:
    return Ours(problem, seed, options, most=KEPT_FEATURES, batch=1, block=KEPT_FEATURES)


METHODS: dict[str, Method] = {
    "doubly stochastic": Method(_growing, steps=True),
    "2^13 features, all in each step": Method(_whole, steps=True),
    "NORMA": Method(_norma, steps=True),
    "k-SDCA": Method(_kernel_sdca, steps=False),
    "r-Pegasos": _on_features(pegasos.random_features, _pegasos),
    "r-SDCA": _on_features(pegasos.random_features, _sdca),
    "n-Pegasos": _on_features(pegasos.nystroem, _pegasos),
    "n-SDCA": _on_features(pegasos.nystroem, _sdca),
}
