"""oASIS beside the methods and the figures of its paper, and landmarks of streams.

table1       the paper's Table I: Two Moons, Abalone, BORG, two kernels, 450 landmarks, all methods
incremental  landmarks kept over elec2 and covtype against oASIS on the whole prefix

How each figure is taken stands above its part.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import Directory, fingerprint, load
from streamk import landmarks
from streamk.kernels import Gaussian, Kernel
from streamk.landmarks import Diffusion, IncrementalOasis, nystrom, oasis
from streamk.landmarks.matrices import Numbers, as_matrix
from streamk.landmarks.methods import full
from streamk.landmarks.nystrom import Landmarks, of_rows

# --- the matrices ---------------------------------------------------------------------------------
#
# The paper's kernel matrices (sections V-B to V-D): points, and sigma by the largest distance.
#
# The paper's kernel is exp(-d^2 / sigma^2), streamk's Gaussian exp(-d^2 / (2 bandwidth^2)), so the
# bandwidth is sigma / sqrt(2).

Matrix = NDArray[np.float64]

SEED = 1
QUICK = 240
"""Points of a quick run."""
NOISE = 0.05
"""Standard deviation around the moons, which are half circles of radius 1."""
VARIANCE = 0.1
"""Around BORG's vertices (section V-B)."""
SIDE = 12.0
"""Of BORG's cube. The paper does not give it, but says that points are clustered tightly: around a
unit cube they are not, and no method gets below 0.7; with this one errors are like the paper's."""
KERNELS = ("gaussian", "diffusion")


@dataclass(frozen=True)
class Problem:
    """A kernel matrix that is to be approximated."""

    name: str
    X: Matrix
    sigma: float
    kind: str = "gaussian"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def gaussian(self) -> Gaussian:
        return Gaussian(bandwidth=self.sigma / math.sqrt(2))

    @property
    def kernel(self) -> Any:
        """What the functions of `streamk.landmarks` take."""
        return self.gaussian if self.kind == "gaussian" else Diffusion(self.gaussian)

    def matrix(self) -> Matrix:
        """All of it, without `streamk.landmarks`."""
        N = self.gaussian.pairwise(self.X)
        if self.kind == "diffusion":
            root = 1 / np.sqrt(N.sum(axis=1))
            N *= root[:, None]
            N *= root
        return N

    def describe(self) -> dict[str, Any]:
        """For the record."""
        return {
            "n": len(self),
            "columns": self.X.shape[1],
            "sigma": self.sigma,
            "kernel": self.kind,
            "sha256": fingerprint(self.X),
        }


def two_moons(n: int, seed: int = SEED, noise: float = NOISE) -> Matrix:
    """Two interlocking half circles of radius 1, half of the points on each."""
    rng = np.random.default_rng(seed)
    angle = math.pi * rng.random(n)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[n // 2 :] = (1.0, 0.5) - X[n // 2 :]
    X += noise * rng.standard_normal(X.shape)
    return X


def borg(dimension: int = 8, each: int = 30, seed: int = SEED) -> Matrix:
    """Gaussian clouds around the vertices of a cube."""
    rng = np.random.default_rng(seed)
    vertices = np.array(list(itertools.product((0.0, SIDE), repeat=dimension)))
    X = np.repeat(vertices, each, axis=0)
    X += math.sqrt(VARIANCE) * rng.standard_normal(X.shape)
    return X


_AT_ONCE = 1024


def largest_distance(X: Matrix) -> float:
    """Between any two rows, out of matrix products of their differences from the mean."""
    points = X - X.mean(axis=0)
    if points.shape[1] > _AT_ONCE // 4:
        points = points.astype(np.float32)  # the farthest of images differ in far more than 1e-6
    squared = np.einsum("ij,ij->i", points, points)
    greatest = 0.0
    for first in range(0, len(points), _AT_ONCE):
        some = points[first : first + _AT_ONCE] @ points[first:].T
        some *= -2.0
        some += squared[first:]
        rows = some.max(axis=1) + squared[first : first + _AT_ONCE]
        greatest = max(greatest, float(rows.max()))
    return math.sqrt(greatest)


def numbers(name: str, directory: Directory, *, quick: bool) -> Matrix:
    """Columns of a data set, as they are; of a quick run a few."""
    return load(name, directory, quick=quick).X.astype(np.float64)[: QUICK if quick else None]


def abalone(directory: Directory, *, quick: bool) -> Matrix:
    """The seven measurements and the rings of each shell: the paper has eight columns of numbers.

    With the sex, coded as numbers, in place of the rings no method's error is below 1e-2.
    """
    found = load("abalone", directory, quick=quick)
    columns = np.column_stack([found.X[:, 1:], found.y]).astype(np.float64)
    return columns[: QUICK if quick else None]


def share(name: str, X: Matrix, part: float) -> Problem:
    """With a sigma of a part of the largest distance."""
    return Problem(name, X, part * largest_distance(X))


MATRICES: dict[str, Callable[[Directory, bool], Problem]] = {
    "Two Moons": lambda _, quick: share("Two Moons", two_moons(QUICK if quick else 2000), 0.05),
    "Abalone": lambda data, quick: share("Abalone", abalone(data, quick=quick), 0.05),
    "BORG": lambda _, quick: share("BORG", borg(5, 8) if quick else borg(), 0.125),
}
"""The matrices of Table I."""


# --- accuracy -------------------------------------------------------------------------------------
#
# Errors of approximations F F' of kernel matrices, in the Frobenius norm.


_ROWS = 512


def relative(G: Matrix, F: NDArray[Any]) -> float:
    """|G - F F'| / |G|."""
    total = 0.0
    for first in range(0, len(G), _ROWS):
        rows = slice(first, first + _ROWS)
        apart = F[rows] @ F.T
        apart -= G[rows]
        total += float(np.vdot(apart, apart))
    return float(np.sqrt(total) / np.linalg.norm(G))


def short(value: float) -> float:
    """Five digits, for the record."""
    return float(f"{value:.5g}")


def text(value: float | None) -> str:
    """An error in a table: 2.1e-6."""
    if value is None:
        return "-"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


# --- farahat --------------------------------------------------------------------------------------
#
# Landmarks that lower the error of the approximation most: Farahat, Ghodsi, Kamel (2011).
#
# "A novel greedy algorithm for Nyström approximation", in its recursive form. With E the residual
# ``G - F F^T``, column i lowers ``|E|^2`` (Frobenius) in proportion to ``f_i / g_i``, where
# ``f_i = |E_i|^2`` and ``g_i = E_ii``. When the column ``w = E_p / sqrt(E_pp)`` joins the factor,
#
#     f_i <- f_i - 2 w_i (E w)_i + |w|^2 w_i^2,    g_i <- g_i - w_i^2,    E w = G w - F (F^T w):
#
# a product of G with a vector for each column, instead of a new residual.

_FADED = 1e-6
"""Share of what they were at which the differences `f` are computed anew."""
_EQUAL = 1e-9
"""Difference of gains that may be rounding. In a residual of rank 1 all gains are equal, and a
column of a small pivot would spoil what is left."""
_TILE = 256
"""Rows of the residual that are formed at a time."""


def farahat(X: Any, kernel: Kernel, *, max_landmarks: int, **_: int) -> Landmarks:
    """Take one column after the other, each the one that lowers the Frobenius norm most.

    It draws nothing. It takes O(n^2) time for each and a matrix of at most 4 GiB, 23,170 rows. Of
    equal gains the largest Schur complement counts, of these the first row's.
    """
    matrix = as_matrix(X, kernel)
    most = min(max_landmarks, matrix.n)
    greedy = _Greedy(full(matrix, "farahat"), most)
    stopped = "count" if most == max_landmarks else "all"
    while len(greedy.indices) < most:
        if not greedy.step():
            stopped = "rounding"
            break
    return of_rows(matrix, np.array(greedy.indices, np.int64), np.dtype(np.float64), None, stopped)


class _Greedy:
    """The columns chosen so far, and what each other one would gain."""

    def __init__(self, G: Numbers, most: int) -> None:
        from scipy.linalg.blas import dsymv

        self._multiply: Any = dsymv
        self._G = G
        self._rows = np.empty((most, len(G)))  # of F^T
        self._g = G.diagonal().copy()
        self._unit = 4.0 * float(np.finfo(np.float64).eps) * float(self._g.max())
        self.indices: list[int] = []
        self._renew()

    def step(self) -> bool:
        """Take the best column; return whether there was one to take."""
        done = len(self.indices)
        free = self._g > self._unit * (done + 1)  # the others are nothing but rounding
        if not free.any():
            return False
        if self._f[free].max() < _FADED * self._fresh:
            self._renew()
        p = self._best(free)
        old = self._rows[:done]
        w = (self._G[p] - old[:, p] @ old) / np.sqrt(self._g[p])
        # By symmetry the transpose, which is as BLAS has matrices, is the same matrix.
        change = self._multiply(1.0, self._G.T, w) - (old @ w) @ old
        self._f += w * ((w @ w) * w - 2.0 * change)
        self._g -= w * w
        self._g[p] = 0.0
        self._rows[done] = w
        self.indices.append(p)
        return True

    def _best(self, free: NDArray[np.bool_]) -> int:
        """Return the free column that gains most, of equal gains the largest pivot's."""
        gain = np.divide(self._f, self._g, out=np.full_like(self._g, -np.inf), where=free)
        equal = gain >= (1.0 - _EQUAL) * gain.max()
        return int(np.argmax(np.where(equal, self._g, -np.inf)))

    def _renew(self) -> None:
        """Compute f from the residual itself: the differences have lost too many of its digits."""
        self._f = np.empty(len(self._G))
        old = self._rows[: len(self.indices)]
        for first in range(0, len(self._G), _TILE):
            tile = slice(first, first + _TILE)
            residual = self._G[tile] - old[:, tile].T @ old
            self._f[tile] = np.einsum("ij,ij->i", residual, residual)
        self._fresh = float(self._f.max())


# --- methods --------------------------------------------------------------------------------------
#
# The methods that are compared, by the names of the tables.

Method = Callable[..., Any]


METHODS: dict[str, Method] = {
    "oASIS": landmarks.oasis,
    "uniform": landmarks.uniform,
    "leverage scores": landmarks.leverage_scores,
    "k-means": landmarks.k_means,
    "Farahat": farahat,
    "RPCholesky": landmarks.rpcholesky,
    "RPCholesky, blocks": landmarks.block_rpcholesky,
}
"""Called with the points, the kernel, `max_landmarks` and `seed`."""
DETERMINISTIC = ("Farahat",)


# --- paper ----------------------------------------------------------------------------------------
#
# The paper's Tables I and II: error and seconds, by problem, kernel and method.
#
# MATLAB on an iMac with a 2.7 GHz processor.

Figure = tuple[float, float]

PAPER_NAMES = ("oASIS", "uniform", "leverage scores", "k-means", "Farahat")

_EXPLICIT: dict[tuple[str, str], tuple[Figure, ...]] = {
    ("Two Moons", "gaussian"): (
        (1.00e-6, 1.20),
        (2.14e-3, 0.01),
        (9.46e-4, 3.96),
        (1.05e-3, 0.38),
        (8.31e-7, 19.7),
    ),
    ("Two Moons", "diffusion"): (
        (1.10e-6, 1.16),
        (1.22e-2, 0.01),
        (7.45e-3, 4.00),
        (5.49e-3, 1.21),
        (1.11e-6, 19.6),
    ),
    ("Abalone", "gaussian"): (
        (1.23e-6, 2.60),
        (2.65e-3, 0.01),
        (5.23e-4, 35.8),
        (1.73e-3, 0.84),
        (2.85e-7, 64.8),
    ),
    ("Abalone", "diffusion"): (
        (1.62e-6, 2.51),
        (3.76e-1, 0.01),
        (1.47e-1, 35.9),
        (3.24e-1, 8.26),
        (5.61e-7, 64.7),
    ),
    ("BORG", "gaussian"): (
        (5.30e-2, 4.71),
        (3.90e-1, 0.01),
        (4.31e-1, 252.0),
        (8.89e-2, 2.53),
        (2.75e-2, 176.0),
    ),
    ("BORG", "diffusion"): (
        (6.29e-2, 4.73),
        (3.90e-1, 0.01),
        (4.23e-1, 244.0),
        (7.70e-2, 48.3),
        (2.78e-2, 174.0),
    ),
}
PAPER_TABLE1: dict[tuple[str, str, str], Figure] = {
    (*problem, method): figure
    for problem, figures in _EXPLICIT.items()
    for method, figure in zip(PAPER_NAMES, figures, strict=True)
}
"""Table I."""

# --- Table I --------------------------------------------------------------------------------------
#
# Table I: matrices that fit into memory, so that all methods can be run and errors are exact.
#
# Seconds are those of choosing the landmarks and of the factor that approximates the matrix, from
# the points; the paper's are of choosing alone, from the matrix. Methods that need the matrix form
# it in that time. Errors and seconds of what draws at random are means over the seeds, oASIS's
# among them, whose first landmark is drawn. A matrix whose Schur complements tie is
# chosen from by rounding.

LANDMARKS, FEW = 450, 24
REPEATS = 10


def measure_table1(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures of each method, by problem and kernel."""
    count, repeats = (FEW, 2) if quick else (LANDMARKS, REPEATS)
    found = []
    for name, make in MATRICES.items():
        gaussian = make(data, quick)
        for kind in KERNELS:
            problem = Problem(name, gaussian.X, gaussian.sigma, kind)
            common.note(f"  {name}, {kind}")
            found.append(_measured(problem, count, repeats))
    return {"landmarks": count, "repeats": repeats, "problems": found}


def _measured(problem: Problem, count: int, repeats: int) -> dict[str, Any]:
    G = problem.matrix()
    figures = {name: _method(name, problem, G, count, repeats) for name in METHODS}
    return {"problem": problem.name, **problem.describe(), "methods": figures}


def _method(name: str, problem: Problem, G: Matrix, count: int, repeats: int) -> dict[str, Any]:
    method = METHODS[name]
    # numba compiles on the way, and threads are started.
    method(problem.X[:100], problem.kernel, max_landmarks=5, seed=0)
    seconds, errors, taken = [], [], []
    for seed in range(1 if name in DETERMINISTIC else repeats):
        began = time.perf_counter()
        landmarks = method(problem.X, problem.kernel, max_landmarks=count, seed=seed)
        seconds.append(time.perf_counter() - began)
        errors.append(relative(G, landmarks.factor))
        taken.append(len(landmarks))
    common.note(f"    {name}: {statistics.mean(errors):.2e}, {statistics.mean(seconds):.3g} s")
    return {
        "error": short(statistics.mean(errors)),
        "errors": [short(error) for error in errors],
        "seconds": common.spread(seconds),
        "landmarks": min(taken),
    }


# --- tables ---------------------------------------------------------------------------------------


def render_table1(found: Mapping[str, Any]) -> str:
    """Errors and seconds, a table for each kernel, with the paper's beside."""
    tables = []
    for kind in KERNELS:
        problems = [one for one in found["problems"] if one["kernel"] == kind]
        tables += [_table(problems, kind, 0), _table(problems, kind, 1)]
    sizes = ", ".join(
        f"{one['problem']} {one['n']:,} points"
        for one in found["problems"]
        if one["kernel"] == KERNELS[0]
    )
    text = f"{sizes}; {found['landmarks']} landmarks, {found['repeats']} seeds."
    return "\n\n".join([*tables, text])


def _table(problems: list[Mapping[str, Any]], kind: str, which: int) -> str:
    what = ("error", "seconds")[which]
    header = [f"Table I, {kind}: {what}"]
    for one in problems:
        header += [one["problem"], "paper's"]
    rows = []
    for name in problems[0]["methods"]:
        row = [name]
        for one in problems:
            theirs = PAPER_TABLE1.get((one["problem"], kind, name))
            row.append(_cell(one["methods"][name], which))
            row.append(_text(theirs[which], which) if theirs else "")
        rows.append(row)
    return common.table(header, rows)


def _cell(figures: Mapping[str, Any], which: int) -> str:
    value = statistics.mean(figures["seconds"]["values"]) if which else figures["error"]
    return _text(value, which)


def _text(value: float, which: int) -> str:
    if not which:
        return text(value)
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


# --- incremental ----------------------------------------------------------------------------------
#
# Landmarks that keep up with a stream, against oASIS on all of it so far.
#
# elec2 and covtype_subset93k in their order, columns scaled to 0...1 (constant ones left out), a
# Gaussian kernel. Every twentieth event is held out. At several prefixes the landmarks kept so far
# are judged on the held-out events of that prefix (2,000 of them, evenly spread): the mean Schur
# complement, which is the trace of the error, and the relative Frobenius error of the held-out
# events' kernel matrix.
#
# batch oASIS         on the whole prefix, the bar to measure by
# IncrementalOasis    one pass, by default but for the tolerance, which is off as for batch oASIS
# uniform reservoir   Vitter's algorithm R

SETS = {"elec2": 0.5, "covtype_subset93k": 2.0}
"""Bandwidths, at which 256 landmarks hold most of the events but not all that there is to them."""
KEPT, KEPT_QUICK = 256, 12
PREFIXES = (0.1, 0.25, 0.5, 0.75, 1.0)
EVERY, SAMPLE = 20, 2_000
BATCH = 256
TOLERANCE = 0.0


class Keeper(Protocol):
    """Chooses landmarks from what passes by."""

    def learn_many(self, X: Matrix, /) -> Any: ...

    @property
    def points(self) -> Matrix: ...


class Reservoir:
    """A uniform sample of all events so far."""

    def __init__(self, kernel: Gaussian, count: int) -> None:
        self._rng, self._count, self._seen = np.random.default_rng(SEED), count, 0
        self._kept: list[Matrix] = []

    def learn_many(self, X: Matrix) -> None:
        for x in X:
            self._seen += 1
            place = self._seen - 1 if len(self._kept) < self._count else None
            if place is not None:
                self._kept.append(x)
            elif (place := int(self._rng.integers(self._seen))) < self._count:
                self._kept[place] = x

    @property
    def points(self) -> Matrix:
        return np.array(self._kept)


def _incremental(kernel: Gaussian, count: int) -> Keeper:
    return IncrementalOasis(kernel, max_landmarks=count, tol=TOLERANCE)


BAR, OURS = "batch oASIS", "IncrementalOasis"
KEEPERS: dict[str, Callable[[Gaussian, int], Keeper]] = {
    OURS: _incremental,
    "uniform reservoir": Reservoir,
}
MEASURES = {"trace": "mean Schur complement", "frobenius": "Frobenius error"}


def measure_incremental(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors at the prefixes, by data set, and speed."""
    found: dict[str, Any] = {"landmarks": KEPT_QUICK if quick else KEPT, "sets": {}}
    for name, bandwidth in SETS.items():
        X = scaled(load(name, data, quick=quick).X)
        common.note(f"  {name}")
        one = _followed(X, Gaussian(bandwidth=bandwidth), found["landmarks"])
        found["sets"][name] = {"bandwidth": bandwidth, "events": len(X), **one}
    return found


def scaled(X: Any) -> Matrix:
    """Columns from 0 to 1; those without a second value left out."""
    least, span = X.min(axis=0), np.ptp(X, axis=0)
    varied = span > 0
    return ((X[:, varied] - least[varied]) / span[varied]).astype(np.float64)


def _followed(X: Matrix, kernel: Gaussian, count: int) -> dict[str, Any]:
    for make in KEEPERS.values():
        make(kernel, 4).learn_many(X[:64])  # compiles
    keepers = {name: make(kernel, count) for name, make in KEEPERS.items()}
    seconds = dict.fromkeys(keepers, 0.0)
    rows: list[dict[str, Any]] = []
    first = 0
    for prefix in (round(part * len(X)) for part in PREFIXES):
        for name, keeper in keepers.items():
            began = time.perf_counter()
            for batch in _batches(X, first, prefix):
                keeper.learn_many(batch)
            seconds[name] += time.perf_counter() - began
        points = {name: keeper.points for name, keeper in keepers.items()}
        learned = X[:prefix][np.arange(prefix) % EVERY != EVERY - 1]
        batch_wise = oasis(learned, kernel, max_landmarks=count, seed=SEED)
        points = {BAR: learned[batch_wise.indices], **points}
        held_out = _held_out(X, prefix)
        G = kernel.pairwise(held_out)
        errors = {name: _judged(G, held_out, kernel, P) for name, P in points.items()}
        rows.append({"events": prefix, "held_out": len(held_out), "errors": errors})
        common.note(f"    {prefix:,}: {_ratios(rows[-1])}")
        first = prefix
    ours: Any = keepers[OURS]
    return {
        "prefixes": rows,
        "events_per_s": {name: round(len(X) / seconds[name], 1) for name in keepers},
        "admitted": ours.n_admitted,
        "removed": ours.n_removed,
        "residual": ours.residual,
    }


def _batches(X: Matrix, first: int, stop: int) -> Iterator[Matrix]:
    """The stream's events, without those that are held out."""
    for start in range(first, stop, BATCH):
        rows = np.arange(start, min(start + BATCH, stop))
        yield X[rows[rows % EVERY != EVERY - 1]]


def _held_out(X: Matrix, prefix: int) -> Matrix:
    rows = np.arange(EVERY - 1, prefix, EVERY)
    some = np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int)
    return X[rows[some]]


def _judged(G: Matrix, held_out: Matrix, kernel: Gaussian, points: Matrix) -> dict[str, Any]:
    F = nystrom(held_out, kernel, points=points).factor
    return {
        "landmarks": len(points),
        "trace": short(float(np.mean(1.0 - np.einsum("ij,ij->i", F, F)))),
        "frobenius": short(relative(G, F)),
    }


def _ratios(row: Mapping[str, Any]) -> dict[str, float]:
    ours, bar = row["errors"][OURS], row["errors"][BAR]
    return {kind: short(ours[kind] / max(bar[kind], 1e-300)) for kind in MEASURES}


def _short(name: str) -> str:
    return name.partition("_")[0]


# --- tables ---------------------------------------------------------------------------------------


def render_incremental(found: Mapping[str, Any]) -> str:
    """Both errors at each prefix, then speeds and goals."""
    tables = []
    for name, one in found["sets"].items():
        for kind, title in MEASURES.items():
            header = [
                f"{_short(name)}: {title}, after",
                *(f"{r['events']:,}" for r in one["prefixes"]),
            ]
            rows = [
                [keeper, *(text(r["errors"][keeper][kind]) for r in one["prefixes"])]
                for keeper in one["prefixes"][0]["errors"]
            ]
            ratios = (f"{_ratios(r)[kind]:.2f}" for r in one["prefixes"])
            rows.append([f"{OURS} / batch", *ratios])
            tables.append(common.table(header, rows))
    return "\n\n".join([*tables, _speeds(found)])


def _speeds(found: Mapping[str, Any]) -> str:
    rows = []
    for name, one in found["sets"].items():
        rows += [
            [f"{_short(name)}, {keeper}", f"{rate:,.0f}"]
            for keeper, rate in one["events_per_s"].items()
        ]
    changes = ", ".join(
        f"{_short(name)} {one['admitted']:,} and {one['removed']:,}"
        for name, one in found["sets"].items()
    )
    header = [f"all events, {found['landmarks']} landmarks", "events/s"]
    return f"{common.table(header, rows)}\n\nAdmitted and removed: {changes}."


# --- the parts ------------------------------------------------------------------------------------

NAME = "oasis"
PARTS = {
    "table1": Part(lambda o: measure_table1(o.data, quick=o.quick), render_table1),
    "incremental": Part(lambda o: measure_incremental(o.data, quick=o.quick), render_incremental),
}


def _settings(_: argparse.Namespace) -> dict[str, Any]:
    return {"seed": SEED, "noise": NOISE, "variance": VARIANCE}


render, run = common.topic(NAME, __doc__, PARTS, settings=_settings)


if __name__ == "__main__":
    sys.exit(common.main(run))
