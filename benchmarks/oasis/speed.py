"""Abalone, n=4,177 and 450 landmarks: streamk against the paper's update and a plain factorization.

All choose the same landmarks from the same first one, which is checked. The rivals are those of
`rivals.py`; their kernel columns are two lines of NumPy, faster here than one column of streamk's
`pairwise`. Contestants take turns; a ratio is taken round by round. "One core" limits BLAS and
streamk alike. Below are the flops and the bytes that each moves if nothing stays in a cache, the
whole factor being brought up to date at each step; streamk brings most rows up to date in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.data import Directory
from benchmarks.hot import Clock
from benchmarks.oasis import rivals, work
from benchmarks.oasis.problems import EXPLICIT, Matrix, Problem
from streamk.landmarks import oasis

LANDMARKS, QUICK = 450, 24
OURS, SINGLE, COMPLETE = "streamk", "streamk, single precision", "streamk, with C and W^-1"
PAPER, RUNNING = "the paper's update, in place", "the same, running complements"
CHOLESKY = "pivoted Cholesky in NumPy"
ONE = ", one core"
LEAST = {PAPER: 15.0, CHOLESKY: 1.5}
"""Goals: how many times faster streamk is."""


def measure(data: Directory, clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Times, ratios, work and goals."""
    problem, count = EXPLICIT["Abalone"](data, quick), QUICK if quick else LANDMARKS
    start = int(_ours(problem, count).indices[0])
    works = contestants(problem, count, start)
    alike = _alike(problem, count, start)
    both = works | {
        f"{name}{ONE}": work for name, work in contestants(problem, count, start, 1).items()
    }
    times = clock.race(both, [name for name in both if name.endswith(ONE)])
    ratios = {
        f"{rival}{cores} / streamk": hot.ratio(times, f"{rival}{cores}", f"{OURS}{cores}")
        for cores in ("", ONE)
        for rival in (PAPER, RUNNING, CHOLESKY)
    }
    n = len(problem)
    return {
        **problem.describe(),
        "landmarks": count,
        "alike": alike,
        "seconds": hot.spreads(times, 1.0),
        "ratios": {name: common.spread(values) for name, values in ratios.items()},
        "work": {
            PAPER: work.paper(n, count)._asdict(),
            RUNNING: work.running(n, count)._asdict(),
            CHOLESKY: work.cholesky(n, count)._asdict(),
            "kernel columns": {"flops": work.columns(n, count, problem.X.shape[1]), "bytes": 0},
        },
        "goals": [
            hot.goal(f"n={n:,}, {count} landmarks: {rival} / streamk", values, "x", least=least)
            for rival, least in LEAST.items()
            for values in (ratios[f"{rival} / streamk"],)
        ],
    }


def _ours(problem: Problem, count: int, **options: Any) -> Any:
    return oasis(problem.X, problem.kernel, max_landmarks=count, seed=0, **options)


def _complete(problem: Problem, count: int, **options: Any) -> None:
    found = _ours(problem, count, **options)
    assert found.C.size
    assert found.W_inverse.size


def column(X: Matrix, sigma: float, i: int) -> Matrix:
    """One column of the Gaussian kernel matrix."""
    apart = X - X[i]
    return np.exp(np.einsum("ij,ij->i", apart, apart) / -(sigma**2))


def contestants(
    problem: Problem, count: int, start: int, threads: int | None = None
) -> dict[str, Callable[[], Any]]:
    """Functions that choose the landmarks."""
    one, diagonal = partial(column, problem.X, problem.sigma), np.ones(len(problem))
    return {
        OURS: partial(_ours, problem, count, threads=threads),
        SINGLE: partial(_ours, problem, count, threads=threads, dtype="float32"),
        COMPLETE: partial(_complete, problem, count, threads=threads),
        PAPER: partial(rivals.in_place, one, diagonal, count, start),
        RUNNING: partial(rivals.in_place, one, diagonal, count, start, running=True),
        CHOLESKY: partial(rivals.cholesky, one, diagonal, count, start),
    }


def _alike(problem: Problem, count: int, start: int) -> dict[str, int]:
    """How many leading landmarks are streamk's."""
    works = contestants(problem, count, start)
    ours = _ours(problem, count).indices.tolist()
    chosen = {
        PAPER: works[PAPER]().indices,
        RUNNING: works[RUNNING]().indices,
        CHOLESKY: works[CHOLESKY]()[0],
    }
    return {name: leading(ours, indices) for name, indices in chosen.items()}


def leading(a: list[int], b: list[int]) -> int:
    """How many elements agree before the first that does not."""
    same = [x == y for x, y in zip(a, b, strict=False)]
    return same.index(False) if False in same else len(same)


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Times, ratios and work."""
    size = f"n={found['n']:,}, {found['landmarks']} landmarks"
    times = common.table(
        [f"{size}, ms", "median", "range", "one core", "range"],
        [
            [name, *_ms(found["seconds"][name]), *_ms(found["seconds"][f"{name}{ONE}"])]
            for name in found["seconds"]
            if not name.endswith(ONE)
        ],
    )
    ratios = common.table(
        ["ratio, round by round", "median", "range"],
        [[name, *common.ranged(figure, 2)] for name, figure in found["ratios"].items()],
    )
    counted = common.table(
        ["counted", "Gflop", "GB"],
        [
            [
                name,
                f"{one['flops'] / 1e9:.2f}",
                f"{one['bytes'] / 1e9:.2f}" if one["bytes"] else "-",
            ]
            for name, one in found["work"].items()
        ],
    )
    alike = ", ".join(f"{name} {number}" for name, number in found["alike"].items())
    text = f"Landmarks as streamk's, before the first that is not:\n{alike}."
    goals = hot.goals_table(found["goals"])
    return "\n\n".join([times, ratios, text, counted, goals])


def _ms(figure: Mapping[str, Any]) -> tuple[str, str]:
    return common.ranged({k: 1e3 * figure[k] for k in ("median", "low", "high")}, 1)
