"""Figures 4 to 10 and 13: errors, time and memory of MEKA and of its rivals, one run each.

4   bases of clusters, by the rank           5   thresholds of links, of K at centres
6   rules for the ranks of clusters          7   all methods, by the rank; γ as in Table 7, and 10
8   random features among them               9   all methods, by γ
10  all methods, and MEKA's steps, by c      13  MEKA without its negative eigenvalues

ijcnn1 has γ=1 and c=10, cadata γ=4 and c=5 (Table 8), where nothing else is said. Errors are those
of 500 rows.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.meka import problems, runs, stages
from benchmarks.meka.problems import COVTYPE, SEED, Problem
from benchmarks.meka.structure import CADATA
from streamk.factorization.clusters import clustered

ROWS = 500
NYSTROM = ("Nys", "RNys", "KNys", "ENys")
RANDOM = ("RKS", "Fastfood")
RANKS, QUICK_RANKS = (16, 32, 64, 128), (4, 8)
BASES = ("uniform", "k_means", "randomized_svd", "rpcholesky", "oasis")
RULES = ("same", "size", "spectrum")
LEFT_OUT = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Parts of the links that thresholds leave out."""
GAMMAS, QUICK_GAMMAS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0), (1.0,)
CLUSTERS, QUICK_CLUSTERS, CLUSTERS_RANK = (5, 10, 15, 20, 25), (2, 3), 100
COMPARED = (
    ("pendigits", 5, (2.0, 10.0), (20, 50, 100, 200)),
    ("ijcnn1", 10, (1.0, 10.0), (50, 100, 200, 300)),
    (COVTYPE, 15, (1.0, 10.0), (64, 128, 256)),
)
"""Name, clusters, gammas and ranks of Figure 7."""

Lines = dict[str, dict[str, list[float]]]
"""Figures by the name of the line, a number a run."""


def _pair(data: Directory, *, quick: bool) -> list[Problem]:
    return [
        problems.problem("ijcnn1", data, 1.0, 128, 10, quick=quick),
        problems.problem(CADATA, data, 4.0, 128, 5, quick=quick),
    ]


def _add(lines: Lines, name: str, figures: Mapping[str, float]) -> None:
    for key, value in figures.items():
        lines.setdefault(name, {}).setdefault(key, []).append(value)


def _varied(problem: Problem, option: str, values: Iterable[Any], ranks: Sequence[int]) -> Lines:
    """MEKA by the values of an option, a line each, and by the rank."""
    lines: Lines = {}
    for value in values:
        for k in ranks:
            figures = runs.ours(problem, SEED, rows=ROWS, rank=k, **{option: value})
            _add(lines, str(value), figures)
        common.note(f"  {problem.name}, {option}={value}: {lines[str(value)]['error']}")
    return lines


def bases(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 4."""
    ranks = QUICK_RANKS if quick else RANKS
    return {one.name: _varied(one, "basis", BASES, ranks) for one in _pair(data, quick=quick)}


def rules(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 6."""
    ranks = QUICK_RANKS if quick else RANKS
    return {one.name: _varied(one, "rank_rule", RULES, ranks) for one in _pair(data, quick=quick)}


def thresholds(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 5."""
    found: dict[str, Any] = {}
    for one in _pair(data, quick=quick):
        K = one.kernel.pairwise(clustered(one.X, one.clusters, seed=SEED).centers)
        between = K[np.triu_indices(len(K), 1)]
        limits = np.quantile(between, LEFT_OUT[: 2 if quick else None], method="lower").tolist()
        limits[0] = 0.0
        lines: Lines = {}
        for threshold in limits:
            _add(lines, "MEKA", runs.ours(one, SEED, rows=ROWS, threshold=threshold))
        found[one.name] = {"thresholds": limits, **lines["MEKA"]}
        common.note(f"  {one.name}, thresholds: {lines['MEKA']['error']}")
    return found


def compared(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures 7 and 8: random features have the first γ alone."""
    found: dict[str, Any] = {}
    for name, clusters, gammas, ranks in COMPARED:
        whole = problems.problem(name, data, gammas[0], clusters=clusters, quick=quick)
        found[name] = {}
        for gamma in gammas:
            names = NYSTROM + (RANDOM if gamma == gammas[0] else ())
            lines: Lines = {}
            for k in QUICK_RANKS if quick else ranks:
                one = dataclasses.replace(whole, gamma=gamma, rank=k)
                _turn(lines, one, names)
            found[name][f"{gamma:g}"] = lines
    return found


def _turn(lines: Lines, problem: Problem, names: Collection[str]) -> None:
    figures = runs.compared(problem, SEED, names, (runs.OURS,), rows=ROWS)
    for name, one in figures.items():
        _add(lines, name, one)
    common.note(f"  {problem.name}, k={problem.rank}: {runs.brief(figures)}")


def by_gamma(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 9."""
    found: dict[str, Any] = {}
    gammas = QUICK_GAMMAS if quick else GAMMAS
    for problem in _pair(data, quick=quick):
        lines: Lines = {}
        for gamma in gammas:
            _turn(lines, dataclasses.replace(problem, gamma=gamma), NYSTROM)
        errors = {name: one["error"] for name, one in lines.items()}
        found[problem.name] = {"n": len(problem), "gammas": gammas, "errors": errors}
    return found


def by_clusters(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 10."""
    counts = QUICK_CLUSTERS if quick else CLUSTERS
    problem, _ = _pair(data, quick=quick)
    if not quick:
        problem = dataclasses.replace(problem, rank=CLUSTERS_RANK)
    lines: Lines = {}
    steps: dict[str, list[float]] = {name: [] for name in stages.STEPS}
    for c in counts:
        one = dataclasses.replace(problem, clusters=c)
        _turn(lines, one, NYSTROM)
        timed = stages.timed(one, SEED)
        for name, seconds in steps.items():
            seconds.append(timed[name])
    errors = {name: one["error"] for name, one in lines.items()}
    return {"clusters": counts, "errors": errors, "steps": steps}


def definite(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figure 13; the seconds of MEKA-PSD are with those of MEKA."""
    problem, _ = _pair(data, quick=quick)
    lines: Lines = {}
    for k in QUICK_RANKS if quick else RANKS:
        one = dataclasses.replace(problem, rank=k)
        _turn(lines, one, ("Nys",))
        began = time.perf_counter()
        found = runs.factorize(one, SEED).psd()
        seconds = time.perf_counter() - began
        _add(lines, "MEKA-PSD", runs.figures(found.error(ROWS, SEED), seconds, found.nbytes))
    return lines
