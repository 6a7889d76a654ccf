"""MEKA beside the six rivals and the figures of its paper, and on streams.

table7     errors of MEKA and of the paper's six rivals at equal memory
streaming  progressive errors of a factorization that is renewed on the stream

How each figure is taken stands above its part.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from benchmarks import common
from benchmarks.common import Part, cell, mean
from benchmarks.data import Dataset, Directory, fingerprint, load
from streamk import landmarks
from streamk.factorization import Meka, meka
from streamk.features import RandomFeatures
from streamk.kernels import Gaussian, Kernel
from streamk.learners import Learner, Scaled, StreamingMeka, create

# --- problems -------------------------------------------------------------------------------------
#
# The paper's kernel matrices: points, scaled, and a Gaussian kernel.

Matrix = NDArray[np.float64]

SEEDS = (1, 2, 3, 4, 5)
ROWS = 1000
"""Of the matrix, which errors are sampled on."""
QUICK = 240
"""Points of a quick run."""
COVTYPE = "covtype_subset93k"
SCALED = ("pendigits", COVTYPE)
"""Whose columns go to [0, 1]; ijcnn1's are as they are."""
WITH_TEST = ("pendigits",)
"""Whose test rows belong to the matrix, as n of the paper's Table 6 says."""


@dataclass(frozen=True)
class Problem:
    """A kernel matrix that is to be approximated by MEKA of a rank and a number of clusters."""

    name: str
    X: Matrix
    gamma: float
    rank: int
    clusters: int

    def __len__(self) -> int:
        return len(self.X)

    @property
    def kernel(self) -> Gaussian:
        return Gaussian(gamma=self.gamma)

    @property
    def options(self) -> dict[str, Any]:
        """What `meka` needs of it."""
        return {"rank": self.rank, "n_clusters": self.clusters}

    def describe(self) -> dict[str, Any]:
        """For the record."""
        return {
            "n": len(self),
            "columns": self.X.shape[1],
            "gamma": self.gamma,
            "rank": self.rank,
            "clusters": self.clusters,
            "sha256": fingerprint(self.X),
        }


def unit(X: Matrix) -> Matrix:
    """Each column scaled to [0, 1]."""
    low, high = X.min(axis=0), X.max(axis=0)
    scaled: Matrix = (X - low) / np.where(high > low, high - low, 1.0)
    return scaled


def points(name: str, directory: Directory, *, quick: bool) -> Matrix:
    """Points of a data set as the paper's matrices have them; of a quick run a few."""
    found = load(name, directory, quick=quick)
    X = found.X
    if name in WITH_TEST and found.test is not None:
        X = np.concatenate([X, found.test[0]])
    wide = X.astype(np.float64)[: QUICK if quick else None]
    return unit(wide) if name in SCALED else wide


def matrix(
    name: str,
    directory: Directory,
    gamma: float,
    rank: int = 128,
    clusters: int = 10,
    *,
    quick: bool,
) -> Problem:
    """A matrix of a data set, small if `quick`."""
    found = Problem(name, points(name, directory, quick=quick), gamma, rank, clusters)
    return replace(found, rank=8, clusters=3) if quick else found


TABLE = (
    ("pendigits", 2.0, 128, 5),
    ("ijcnn1", 1.0, 128, 10),
    (COVTYPE, 10.0, 256, 15),
)
"""Name, gamma, rank and clusters of Table 7."""


# --- accuracy -------------------------------------------------------------------------------------
#
# Errors |G - G~| / |G| of approximations, in the Frobenius norm, on rows drawn at random.
#
# They have all columns (§6.1), and are the same rows for each method.

_ENTRIES = 1 << 23
"""Of the matrix, that are there at a time."""


def rows(n: int, count: int = ROWS, seed: int = 0) -> NDArray[np.int64]:
    """The rows that `Meka.error` draws."""
    random = np.random.Generator(np.random.Philox(seed))
    return random.choice(n, min(count, n), replace=False)


def relative(X: Matrix, kernel: Kernel, F: NDArray[Any], count: int = ROWS, seed: int = 0) -> float:
    """Error of F F'."""
    missed = total = 0.0
    drawn = rows(len(X), count, seed)
    step = max(1, _ENTRIES // len(X))
    for first in range(0, len(drawn), step):
        some = drawn[first : first + step]
        G = kernel.pairwise(X[some], X)
        total += float(np.vdot(G, G))
        G -= F[some] @ F.T
        missed += float(np.vdot(G, G))
    return float(np.sqrt(missed / total))


def short(value: float) -> float:
    """Five digits, for the record."""
    return float(f"{value:.5g}")


def text(value: float | None) -> str:
    """An error in a table."""
    return "-" if value is None else f"{value:.4f}"


# --- paper ----------------------------------------------------------------------------------------
#
# What the paper has in its tables (Si, Hsieh and Dhillon, JMLR 18, 2017).

METHODS = ("Nys", "RNys", "KNys", "ENys", "RKS", "Fastfood", "MEKA")
"""In the order of its columns."""

_ERRORS = {
    "pendigits": (0.1325, 0.1361, 0.0828, 0.2881, 0.4404, 0.4726, 0.0811),
    "ijcnn1": (0.0423, 0.0385, 0.0234, 0.1113, 0.2972, 0.2975, 0.0082),
    "covtype_subset93k": (0.3700, 0.3738, 0.2752, 0.5646, 0.8825, 0.8920, 0.1192),
}
ERRORS = {name: dict(zip(METHODS, row, strict=True)) for name, row in _ERRORS.items()}
"""Table 7; its covtype has 581,012 rows."""


# --- rivals ---------------------------------------------------------------------------------------
#
# The six rivals of the paper (§6): factors of rank r, G ~ F F', in single precision as MEKA's W.
#
# Nys       2r columns drawn uniformly, and of the matrix M between them the best of rank r:
#           F = C U_r S_r^-1/2 (Williams and Seeger)
# RNys      the same by a randomized SVD of M, q = 1, p = 10 (Li, Kwok and Lu)
# KNys      r centres of clusters in place of columns (Zhang and Kwok)
# ENys      three experts, each with columns of its own, and the mean of their matrices; each has a
#           third of the rank, for F is that of all three (Kumar, Mohri and Talwalkar)
# RKS       r random features (Rahimi and Recht)
# Fastfood  r Hadamard features (Le, Sarlos and Smola)
#
# And what Nys could be at the same memory, though the paper does not have it:
#
# Nys, cut later   the best of rank r of C M^+ C' itself, where Nys cuts M before it sees C
#
# Features of new points come as F does, by a map from their kernel with the landmarks.

Features = Callable[[Matrix], NDArray[Any]]

DTYPE = np.dtype(np.float32)
OVERSAMPLING = 2
"""Columns for each of the rank."""
EXPERTS = 3
_CUT = 1e-12
"""Eigenvalues of M below this part of the largest are rounding."""


@dataclass(frozen=True)
class Rival:
    """F, and the features of points that were not there."""

    factor: NDArray[Any]
    features: Features

    @property
    def nbytes(self) -> int:
        """Memory of F, in bytes."""
        return self.factor.nbytes


def rank_of(nbytes: int, n: int) -> int:
    """The rank of a factor of so many bytes."""
    return max(1, nbytes // (n * DTYPE.itemsize))


def _mapped(X: Matrix, kernel: Kernel, Z: Matrix, T: Matrix) -> Rival:
    def features(Y: Matrix) -> Matrix:
        return kernel.product(Y, Z, T)

    return Rival(features(X).astype(DTYPE), features)


def _drawn(X: Matrix, count: int, seed: int | list[int]) -> Matrix:
    random = np.random.default_rng(seed)
    return X[random.choice(len(X), min(count, len(X)), replace=False)]


def _root(values: Matrix, U: Matrix) -> Matrix:
    """U S^-1/2 of what is no rounding."""
    kept = values > _CUT * values.max()
    return np.ascontiguousarray(U[:, kept] / np.sqrt(values[kept]))


def _cut(kernel: Kernel, Z: Matrix, rank: int) -> Matrix:
    """From the kernel with landmarks to features, by the best of a rank of their matrix."""
    values, U = np.linalg.eigh(kernel.pairwise(Z))
    return _root(values[-rank:], U[:, -rank:])


def nys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    Z = _drawn(X, OVERSAMPLING * rank, seed)
    return _mapped(X, kernel, Z, _cut(kernel, Z, rank))


def nys_cut_later(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    Z = _drawn(X, OVERSAMPLING * rank, seed)
    T = _cut(kernel, Z, len(Z))
    F = kernel.product(X, Z, T)
    V = np.linalg.eigh(F.T @ F)[1][:, -rank:]
    turned = np.ascontiguousarray(T @ V)
    return Rival((F @ V).astype(DTYPE), lambda Y: kernel.product(Y, Z, turned))


def rnys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    Z = _drawn(X, OVERSAMPLING * rank, seed)
    rank = min(rank, len(Z))
    M = kernel.pairwise(Z)
    U, values, _ = randomized_svd(M, rank, n_oversamples=10, n_iter=1, random_state=seed)
    return _mapped(X, kernel, Z, _root(values, U))


def knys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    found = landmarks.k_means(X, kernel, max_landmarks=rank, seed=seed, dtype=DTYPE)
    return Rival(found.factor, found.compact().transform)


def enys(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    each = max(1, rank // EXPERTS)
    experts = []
    for expert in range(EXPERTS):
        Z = _drawn(X, OVERSAMPLING * each, [seed, expert])
        experts.append(_mapped(X, kernel, Z, _cut(kernel, Z, each)))
    share = np.sqrt(EXPERTS)

    def features(Y: Matrix) -> Matrix:
        return np.hstack([one.features(Y) for one in experts]) / share

    F = np.hstack([one.factor for one in experts])
    F /= DTYPE.type(share)
    return Rival(F, features)


def _random(X: Matrix, kernel: Kernel, rank: int, seed: int, sampler: str) -> Rival:
    sequence = RandomFeatures(kernel, seed=seed, sampler=sampler, dtype=DTYPE)

    def features(Y: Matrix) -> NDArray[Any]:
        return sequence.transform(Y, 0, rank) / DTYPE.type(np.sqrt(rank))

    return Rival(features(X), features)


def rks(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    return _random(X, kernel, rank, seed, "iid")


def fastfood(X: Matrix, kernel: Kernel, rank: int, seed: int) -> Rival:
    return _random(X, kernel, rank, seed, "hadamard")


CUT_LATER = "Nys, cut later"
RIVALS: dict[str, Callable[[Matrix, Kernel, int, int], Rival]] = {
    "Nys": nys,
    "RNys": rnys,
    "KNys": knys,
    "ENys": enys,
    "RKS": rks,
    "Fastfood": fastfood,
    CUT_LATER: nys_cut_later,
}
"""Called with the points, the kernel, the rank and a seed."""


# --- runs -----------------------------------------------------------------------------------------
#
# MEKA and the rivals on a problem: error, seconds and bytes.
#
# Seconds are from the points to what approximates the matrix. A rival has the rank that makes its
# factor as large as W and L of MEKA, in the same precision.

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
    found = RIVALS[name](problem.X, problem.kernel, rank, seed)
    seconds = time.perf_counter() - began
    error = relative(problem.X, problem.kernel, found.factor, rows, seed)
    return figures(error, seconds, found.nbytes) | {"rank": found.factor.shape[1]}


def figures(error: float, seconds: float, nbytes: float) -> Figures:
    """For the record."""
    return {
        "error": short(error),
        "seconds": short(seconds),
        "nbytes": int(nbytes),
    }


def compared(
    problem: Problem,
    seed: int,
    names: Collection[str] = tuple(RIVALS),
    variants: Collection[str] = (OURS, PLAIN),
    **options: Any,
) -> dict[str, Figures]:
    """Figures of MEKA and of rivals at its memory, one after the other."""
    found = {one: ours(problem, seed, **VARIANTS[one] | options) for one in variants}
    first = next(iter(found.values()))
    rank = rank_of(int(first["nbytes"]), len(problem))
    return found | {name: rival(name, problem, rank, seed) for name in names}


def warm(names: Iterable[str] = tuple(RIVALS)) -> None:
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


# --- errors ---------------------------------------------------------------------------------------
#
# Table 7: errors of all methods at the memory of MEKA, medians over five seeds.
#
# pendigits is train and test rows, its columns and covtype's scaled to [0, 1]; ijcnn1 is the
# training rows as they are. covtype is the subset of 92,962 rows, the paper's has 581,012. Errors
# are those of 1,000 rows drawn anew for each seed, the same for all methods; the paper's of 20,000.

NAMES = (OURS, PLAIN, *RIVALS)


def measure_table7(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures of each method, by problem."""
    warm()
    found, seeds = [], SEEDS[: 1 if quick else None]
    for row in TABLE:
        problem = matrix(row[0], data, *row[1:], quick=quick)
        common.note(f"  {problem.name}, n={len(problem):,}")
        methods = by_seed(seeds, lambda seed, one=problem: compared(one, seed))
        found.append({"problem": problem.name, **problem.describe(), "methods": methods})
    return {
        "seeds": seeds,
        "rows": ROWS,
        "problems": found,
    }


# --- tables -------------------------------------------------------------------------------------


def render_table7(found: Mapping[str, Any]) -> str:
    """Errors beside the paper's, then seconds and memory."""
    every = found["problems"]
    rows = []
    for name in NAMES:
        cells = [name]
        for one in every:
            theirs = ERRORS[one["problem"]].get(name)
            cells += [
                text(one["methods"][name]["error"]["median"]),
                "" if theirs is None else text(theirs),
            ]
        rows.append(cells)
    header = ["Table 7, error"]
    for one in every:
        header += [_title(one), "paper's"]
    seconds = [
        [name, *(f"{one['methods'][name]['seconds']['median']:,.2f}" for one in every)]
        for name in NAMES
    ]
    sizes = []
    for one in every:
        method = one["methods"]
        sizes.append(
            f"{_title(one)}: n={one['n']:,}, k={one['rank']}, γ={one['gamma']:g}, "
            f"c={one['clusters']}, {method[OURS]['nbytes']['median'] / 1e6:.1f} MB, "
            f"rivals' rank {method['Nys']['rank']['median']:.0f}"
        )
    tables = [
        common.table(header, rows),
        common.table(["Table 7, seconds", *map(_title, every)], seconds),
        "\n".join(sizes),
    ]
    return "\n\n".join(tables)


def _title(one: Mapping[str, Any]) -> str:
    title: str = one["problem"].partition("_")[0]
    return title


# --- streaming ------------------------------------------------------------------------------------
#
# A factorization that is renewed on the stream, against one that stays.
#
# cadata in random order, beijing_pm25, elec2 and rialto in theirs; each batch of 128 events is
# predicted and then learned. All learners have the Gaussian kernel of bandwidth 0.5 on scaled
# columns, and else their defaults, with each of three sizes of gradient steps. A learner's score is
# that of the best of these in hindsight: labels that are noisy ask for small steps, whoever learns.
# Scores are means over five seeds, of the learners and of cadata's order, with 95% intervals.
#
# StreamingMeka      `streaming-meka`
# not renewed        the same learner with its first factorization alone, which its clusters' growth
#                    adapts
# of 4,096 events    that, but the factorization is of the first 4,096 events
# doubly stochastic  `doubly-stochastic`, 2,048 random features

SETS = ("cadata_california_housing", "beijing_pm25", "elec2", "rialto")
SHUFFLED = ("cadata_california_housing",)
RUNS = 5
BATCH = 128
STEPS = (0.1, 0.3, 1.0)
RENEWED, STAYS, LATER = "StreamingMeka", "not renewed", "of 4,096 events"
RANDOM = "doubly stochastic"
STAYING: dict[str, Any] = {"every": None, "max_error": None, "max_shift": None}
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    RENEWED: (StreamingMeka.TYPE, {}),
    STAYS: (StreamingMeka.TYPE, STAYING),
    LATER: (StreamingMeka.TYPE, {**STAYING, "first": 4096}),
    RANDOM: ("doubly-stochastic", {}),
}


def measure_streaming(data: Directory, *, quick: bool, events: int = 0) -> dict[str, Any]:
    """Scores by stream and learner.

    Parameters
    ----------
    data : path, optional
    quick : bool
    events : int, default 0
        How many of each stream; 0 is all.
    """
    found: dict[str, Any] = {"streams": {}}
    for name in SETS:
        stream = load(name, data, quick=quick)
        runs = [_ordered(stream, seed).first(events) for seed in range(1 if quick else RUNS)]
        scores = {}
        for learner in LEARNERS:
            scores[learner] = _best(runs, learner)
            common.note(f"  {name}: {learner} {cell(scores[learner]['score'], 5)}")
        found["streams"][name] = {"events": len(runs[0]), "learners": scores}
    return found


def _ordered(stream: Dataset, seed: int) -> Dataset:
    """The events that have a label, in the order in which they are learned."""
    rows = np.flatnonzero(stream.y == stream.y)
    if stream.name in SHUFFLED:
        rows = np.random.default_rng(seed).permutation(rows)
    return Dataset(stream.name, stream.X[rows], stream.y[rows], stream.columns)


def made(learner: str, task: str, step: float, seed: int = 1, **more: Any) -> Learner:
    """A learner of `LEARNERS` that has learned nothing."""
    name, options = LEARNERS[learner]
    return create(name, task=task, seed=seed, step=step, **options, **more)


def factorizing(model: Learner) -> StreamingMeka | None:
    """The learner that factorizes, without what scales its columns."""
    inner = model.learner if isinstance(model, Scaled) else model
    return inner if isinstance(inner, StreamingMeka) else None


def counts(model: Learner) -> dict[str, Any]:
    """Return the counts and measures of its factorizations."""
    inner = factorizing(model)
    if inner is None:
        return {}
    return {
        "factorizations": inner.n_factorizations,
        "waits": inner.n_waits,
        "seconds_waited": round(inner.seconds_waited, 2),
        "error": inner.error,
    }


def _best(runs: Sequence[Dataset], learner: str) -> dict[str, Any]:
    """The scores with the size of steps that is best in the mean, and the means of all sizes."""
    found = {
        step: [_progressive(stream, learner, step, seed) for seed, stream in enumerate(runs)]
        for step in STEPS
    }
    scores = {step: mean([one["score"] for one in found[step]]) for step in STEPS}
    sign = 1.0 if runs[0].task == "classification" else -1.0
    best = max(STEPS, key=lambda step: sign * scores[step]["mean"])
    first = found[best][0]
    return {
        **first,
        "score": scores[best],
        "events_per_s": statistics.median(one["events_per_s"] for one in found[best]),
        "step": best,
        "scores": [scores[step]["mean"] for step in STEPS],
    }


def _progressive(stream: Dataset, learner: str, step: float, seed: int) -> dict[str, Any]:
    """Accuracy, or root mean squared error, of predictions before learning."""
    task = stream.task
    model, sums, counted = made(learner, task, step, seed), 0.0, 0
    began = time.perf_counter()
    for start in range(0, len(stream), BATCH):
        X, y = stream.X[start : start + BATCH], stream.y[start : start + BATCH]
        if start:
            predicted = model.predict_many(X)
            right = predicted == y if task == "classification" else (predicted - y) ** 2
            sums, counted = sums + float(right.sum()), counted + len(y)
        model.learn_many(X, y.tolist())
    seconds = time.perf_counter() - began
    mean = sums / max(1, counted)
    score = mean if task == "classification" else mean**0.5
    speed = {"events_per_s": round(len(stream) / seconds, 1), "features": model.n_features}
    return {"score": score, **speed, **counts(model)}


# --- tables -------------------------------------------------------------------------------------


def render_streaming(found: Mapping[str, Any]) -> str:
    """A line for each stream and learner."""
    rows = []
    for name, one in found["streams"].items():
        for learner, score in one["learners"].items():
            more = [
                f"{score[key]:,}" if key in score else "" for key in ("factorizations", "waits")
            ]
            speed = f"{score['events_per_s']:,.0f}"
            short = f"{name.partition('_')[0]}, {one['events']:,}: {learner}"
            figure = score["score"]
            digits = 4 if figure["mean"] < 1.0 else 2 if figure["mean"] < 1000.0 else 0
            rows.append([short, cell(figure, digits), f"{score['step']:g}", speed, *more])
    header = ["accuracy or RMSE", "score", "step", "events/s", "factorizations", "waits"]
    return common.table(header, rows)


# --- the parts ------------------------------------------------------------------------------------

NAME = "meka"
PARTS = {
    "table7": Part(lambda o: measure_table7(o.data, quick=o.quick), render_table7),
    "streaming": Part(lambda o: measure_streaming(o.data, quick=o.quick), render_streaming),
}


def _settings(_: argparse.Namespace) -> dict[str, Any]:
    return {"seeds": SEEDS, "rows": ROWS}


render, run = common.topic(NAME, __doc__, PARTS, settings=_settings)


if __name__ == "__main__":
    sys.exit(common.main(run))
