"""MEKA and the rivals on a problem: error, seconds and bytes.

Seconds are from the points to what approximates the matrix. A rival has the rank that makes its
factor as large as W and L of MEKA, in the same precision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.meka import accuracy, rivals
from benchmarks.meka.problems import ROWS, Problem
from streamk.factorization import Meka, meka

OURS, PLAIN = "MEKA", "MEKA, Algorithm 1"
VARIANTS: dict[str, dict[str, Any]] = {
    OURS: {},
    PLAIN: {"basis": "uniform", "sampling": "uniform", "link_samples": 2.0},
}
"""Ours as it is by default, and with the paper's plain choices at each step."""

Figures = dict[str, float]


def factorize(problem: Problem, seed: int, **options: Any) -> Meka:
    """MEKA of a problem; the options take the place of its own."""
    return meka(problem.X, problem.kernel, seed=seed, **problem.options | options)


def ours(problem: Problem, seed: int, *, rows: int = ROWS, **options: Any) -> Figures:
    """Figures of MEKA."""
    began = time.perf_counter()
    found = factorize(problem, seed, **options)
    seconds = time.perf_counter() - began
    return figures(found.error(rows, seed), seconds, found.nbytes) | {"rank": found.rank}


def rival(name: str, problem: Problem, rank: int, seed: int, *, rows: int = ROWS) -> Figures:
    """Figures of a rival of a rank."""
    began = time.perf_counter()
    found = rivals.RIVALS[name](problem.X, problem.kernel, rank, seed)
    seconds = time.perf_counter() - began
    error = accuracy.relative(problem.X, problem.kernel, found.factor, rows, seed)
    return figures(error, seconds, found.nbytes) | {"rank": found.factor.shape[1]}


def figures(error: float, seconds: float, nbytes: float) -> Figures:
    """For the record."""
    return {
        "error": accuracy.short(error),
        "seconds": accuracy.short(seconds),
        "nbytes": int(nbytes),
    }


def compared(
    problem: Problem,
    seed: int,
    names: Collection[str] = tuple(rivals.RIVALS),
    variants: Collection[str] = (OURS, PLAIN),
    **options: Any,
) -> dict[str, Figures]:
    """Figures of MEKA and of rivals at its memory, one after the other."""
    found = {one: ours(problem, seed, **VARIANTS[one] | options) for one in variants}
    first = next(iter(found.values()))
    rank = rivals.rank(int(first["nbytes"]), len(problem))
    return found | {name: rival(name, problem, rank, seed) for name in names}


def warm(names: Iterable[str] = tuple(rivals.RIVALS)) -> None:
    """Let all be compiled and threads be started."""
    X = np.random.default_rng(1).random((300, 3))
    problem = Problem("", X, 1.0, 6, 2)
    for one in VARIANTS.values():
        ours(problem, 1, **one)
    for name in names:
        rival(name, problem, 9, 1)


def spreads(every: Iterable[Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """Median, least and greatest of what several runs found."""
    listed = list(every)
    return {key: common.spread(one[key] for one in listed) for key in listed[0]}


def by_seed(
    seeds: Iterable[int], measure: Callable[[int], Mapping[str, Figures]]
) -> dict[str, dict[str, Any]]:
    """The spreads of each method's figures over seeds, all methods in turn at each seed."""
    runs = []
    for seed in seeds:
        runs.append(measure(seed))
        common.note(f"  seed {seed}: " + brief(runs[-1]))
    return {name: spreads(run[name] for run in runs) for name in runs[0]}


def brief(found: Mapping[str, Figures]) -> str:
    """Errors and seconds in a line."""
    return ", ".join(f"{k} {v['error']:.4f} {v['seconds']:.2f} s" for k, v in found.items())
