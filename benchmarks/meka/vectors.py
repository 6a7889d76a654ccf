"""Products of MEKA with a vector, against NumPy's block by block and the speed of memory.

NumPy has the same blocks in single precision; once the vector, too, is in single precision, so
that each block is a call of sgemv ("single"), and once each block is turned into double precision
when it is its turn, which is what our sums have ("double"). L is dense there. Ours takes sums in
double precision; all have the points in the order of the clusters before, but ours, which takes
the vector as it comes and returns it so.

Counted is what has to be read: W twice, each pair of blocks of L once, and the vectors. The bound
is how long reading so many bytes takes: sdot of an array of so many with itself, in the same turns
and by as many threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common, hot
from benchmarks.data import Directory
from benchmarks.meka import headline, problems, runs
from benchmarks.meka.problems import Problem
from streamk.factorization import Meka

FASTER, OF_BOUND = 5.0, 80.0


def measure(data: Directory, clock: hot.Clock, *, quick: bool) -> dict[str, Any]:
    """Times of each case."""
    cases = [_measured(problem, clock) for problem in _problems(data, quick=quick)]
    return {"cases": cases, "goals": [goal for one in cases for goal in one["goals"]]}


def _problems(data: Directory, *, quick: bool) -> list[Problem]:
    _, ijcnn1, covtype = problems.TABLE
    found = [problems.problem(row[0], data, *row[1:], quick=quick) for row in (ijcnn1, covtype)]
    large = found[-1]
    X = headline.jittered(large.X, headline.QUICK_LARGE if quick else headline.LARGE)
    k, c = (8, 3) if quick else headline.FULL
    return [*found, dataclasses.replace(large, X=X, gamma=headline.GAMMA, rank=k, clusters=c)]


def numpy_product(found: Meka, dtype: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The product in NumPy, of vectors in the order of the clusters."""
    blocks = [found.basis(s) for s in range(found.n_clusters)]
    every = range(found.n_clusters)
    L = np.block([[found.link(s, t) for t in every] for s in every]).astype(dtype)
    rows = np.cumsum([0, *(len(block) for block in blocks)])
    columns = np.cumsum([0, *found.ranks])

    def product(v: NDArray[Any]) -> NDArray[Any]:
        u, out = np.empty(len(L), dtype), np.empty(len(v), dtype)
        for s, block in enumerate(blocks):
            wide = block.astype(dtype, copy=False)
            np.dot(wide.T, v[rows[s] : rows[s + 1]], out=u[columns[s] : columns[s + 1]])
        u = L @ u
        for s, block in enumerate(blocks):
            wide = block.astype(dtype, copy=False)
            np.dot(wide, u[columns[s] : columns[s + 1]], out=out[rows[s] : rows[s + 1]])
        return out

    return product


def _measured(problem: Problem, clock: hot.Clock) -> dict[str, Any]:
    found = runs.factorize(problem, problems.SEED)
    v = np.random.default_rng(1).standard_normal(found.n)
    order = np.concatenate([found.rows(s) for s in range(found.n_clusters)])
    sorted_v = v[order]
    single_v = sorted_v.astype(np.float32)
    single, double = numpy_product(found, np.float32), numpy_product(found, np.float64)
    _check(found.matvec(v)[order], double(sorted_v), single(single_v))
    nbytes = counted(found)
    array = np.ones(nbytes // 4, np.float32)
    times = clock.race(
        {
            "ours": lambda: found.matvec(v),
            "NumPy, single": lambda: single(single_v),
            "NumPy, double": lambda: double(sorted_v),
            "reading": lambda: np.dot(array, array),
        }
    )
    name = (
        f"{problem.name.partition('_')[0]}, n={found.n:,}, k={problem.rank}, c={problem.clusters}"
    )
    bound = [100 * share for share in hot.ratio(times, "reading", "ours")]
    return {
        "case": name,
        **problem.describe(),
        "nbytes": found.nbytes,
        "counted_bytes": nbytes,
        "us": hot.spreads(times),
        "ratios": {
            f"{other} / ours": common.spread(hot.ratio(times, other, "ours"))
            for other in ("NumPy, single", "NumPy, double")
        },
        "goals": [
            hot.goal(
                f"{name}: NumPy, double / ours",
                hot.ratio(times, "NumPy, double", "ours"),
                "x",
                least=FASTER,
            ),
            hot.goal(f"{name}: of the bound", bound, " %", least=OF_BOUND),
        ],
    }


def counted(found: Meka) -> int:
    """Bytes that a product reads and writes at least."""
    W = sum(found.basis(s).nbytes for s in range(found.n_clusters))
    return found.nbytes + W + 2 * 8 * found.n


def _check(ours: NDArray[Any], *others: NDArray[Any]) -> None:
    for other in others:
        if not np.allclose(ours, other, rtol=1e-3, atol=1e-4 * abs(ours).max()):
            raise AssertionError("the products differ")


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Times, bytes and the bound by case, then the goals."""
    rows = []
    for one in found["cases"]:
        us = one["us"]
        rows.append(
            [
                one["case"],
                f"{one['counted_bytes'] / 1e6:,.1f}",
                *(
                    f"{us[name]['median'] / 1e3:,.2f}"
                    for name in ("ours", "NumPy, single", "NumPy, double", "reading")
                ),
            ]
        )
    header = ["matvec, ms", "MB read", "ours", "single", "double", "reading"]
    return f"{common.table(header, rows)}\n\n{hot.goals_table(found['goals'])}"
