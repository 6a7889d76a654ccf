"""Landmarks that keep up with a stream, against oASIS on all of it so far.

elec2 and covtype_subset93k in their order, columns scaled to 0...1 (constant ones left out), a
Gaussian kernel. Every twentieth event is held out. At several prefixes the landmarks kept so far
are judged on the held-out events of that prefix (2,000 of them, evenly spread): the mean Schur
complement, which is the trace of the error, and the relative Frobenius error of the held-out
events' kernel matrix.

batch oASIS         on the whole prefix, the bar to measure by
IncrementalOasis    one pass, by default but for the tolerance, which is off as for batch oASIS
admission only      KRLS (Engel, Mannor, Meir 2004): an event is admitted if its Schur complement is
                    above a threshold, until there is no room; nothing is ever removed
uniform reservoir   Vitter's algorithm R

Goals: the worst ratio of IncrementalOasis to batch oASIS over prefixes, and events a second when it
is full and refuses, measured on batches of 256 of the stream's events in which nothing changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from benchmarks import common, hot
from benchmarks.data import Directory, load
from benchmarks.oasis import accuracy
from benchmarks.oasis.problems import SEED, Matrix
from streamk.kernels import Gaussian
from streamk.landmarks import IncrementalOasis, nystrom, oasis

SETS = {"elec2": 0.5, "covtype_subset93k": 2.0}
"""Bandwidths, at which 256 landmarks hold most of the events but not all that there is to them."""
LANDMARKS, QUICK = 256, 12
PREFIXES = (0.1, 0.25, 0.5, 0.75, 1.0)
EVERY, SAMPLE = 20, 2_000
BATCH = 256
TOLERANCE = 0.0
THRESHOLDS = (0.1, 0.01)
REFUSALS = 200
"""Batches that are timed, of which a few may change the landmarks and do not count."""
WITHIN, EVENTS_PER_S = 1.3, 20_000


class CheckpointCoordinator(Protocol):
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


class AdmissionOnly:
    """Events that are not nearly spanned by those admitted, the first of them."""

    def __init__(self, kernel: Gaussian, count: int, threshold: float) -> None:
        self._kernel, self._count, self._threshold = kernel, count, threshold
        self._L, self._kept = np.zeros((count, count)), list[Matrix]()

    def learn_many(self, X: Matrix) -> None:
        first = 0
        while first < len(X) and len(self._kept) < self._count:
            k, rest = len(self._kept), X[first:]
            phi = np.zeros((0, len(rest)))
            if k:
                cross = self._kernel.pairwise(self.points, rest)
                phi = solve_triangular(self._L[:k, :k], cross, lower=True)
            schur = 1.0 - np.einsum("ij,ij->j", phi, phi)
            novel = np.flatnonzero(schur > self._threshold)
            if not len(novel):
                return
            i = int(novel[0])
            self._L[k, :k], self._L[k, k] = phi[:, i], np.sqrt(schur[i])
            self._kept.append(rest[i])
            first += i + 1

    @property
    def points(self) -> Matrix:
        return np.array(self._kept)


def _incremental(kernel: Gaussian, count: int) -> CheckpointCoordinator:
    return IncrementalOasis(kernel, max_landmarks=count, tol=TOLERANCE)


BAR, OURS = "batch oASIS", "IncrementalOasis"
KEEPERS: dict[str, Callable[[Gaussian, int], CheckpointCoordinator]] = {
    OURS: _incremental,
    **{f"admission only, {t:g}": partial(AdmissionOnly, threshold=t) for t in THRESHOLDS},
    "uniform reservoir": Reservoir,
}
MEASURES = {"trace": "mean Schur complement", "frobenius": "Frobenius error"}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors at the prefixes, by data set, and speed."""
    found: dict[str, Any] = {"landmarks": QUICK if quick else LANDMARKS, "sets": {}, "goals": []}
    for name, bandwidth in SETS.items():
        X = scaled(load(name, data, quick=quick).X)
        common.note(f"  {name}")
        one = _measured(X, Gaussian(bandwidth=bandwidth), found["landmarks"])
        found["sets"][name] = {"bandwidth": bandwidth, "events": len(X), **one}
        found["goals"] += _goals(name, one, found["landmarks"])
    return found


def scaled(X: Any) -> Matrix:
    """Columns from 0 to 1; those without a second value left out."""
    least, span = X.min(axis=0), np.ptp(X, axis=0)
    varied = span > 0
    return ((X[:, varied] - least[varied]) / span[varied]).astype(np.float64)


def _measured(X: Matrix, kernel: Gaussian, count: int) -> dict[str, Any]:
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
        "refusals": _refusals(ours, X),
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
        "trace": accuracy.short(float(np.mean(1.0 - np.einsum("ij,ij->i", F, F)))),
        "frobenius": accuracy.short(accuracy.relative(G, F)),
    }


def _ratios(row: Mapping[str, Any]) -> dict[str, float]:
    ours, bar = row["errors"][OURS], row["errors"][BAR]
    return {kind: accuracy.short(ours[kind] / max(bar[kind], 1e-300)) for kind in MEASURES}


def _refusals(model: Any, X: Matrix) -> dict[str, Any]:
    """Events a second of batches that change nothing, and of single events."""
    rates: dict[str, list[float]] = {"batches of 256": [], "one event at a time": []}
    rng = np.random.default_rng(SEED)
    for _ in range(REFUSALS):
        batch = X[rng.integers(0, len(X), BATCH)]
        began = time.perf_counter()
        changed = model.learn_many(batch)
        seconds = time.perf_counter() - began
        if not changed:
            rates["batches of 256"].append(BATCH / seconds)
        began = time.perf_counter()
        changed = [change for x in batch[:16] for change in model.learn_one(x)]
        seconds = time.perf_counter() - began
        if not changed:
            rates["one event at a time"].append(16 / seconds)
    return {
        name: {k: v for k, v in common.spread(values).items() if k != "values"}
        | {"batches": len(values)}
        for name, values in rates.items()
        if values
    }


def _goals(name: str, found: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    ratios = [_ratios(row) for row in found["prefixes"]]
    goals = [
        hot.goal(
            f"{_short(name)}: {title}, worst ratio",
            [max(r[kind] for r in ratios)],
            "x",
            most=WITHIN,
        )
        for kind, title in MEASURES.items()
    ]
    refused = found["refusals"].get("batches of 256")
    if refused:
        values = [refused["low"], refused["median"], refused["high"]]
        case = f"{_short(name)}: refusals a second, {count} landmarks"
        goals.append(hot.goal(case, values, least=EVENTS_PER_S))
    return goals


def _short(name: str) -> str:
    return name.partition("_")[0]


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Both errors at each prefix, then speeds and goals."""
    tables = []
    for name, one in found["sets"].items():
        for kind, title in MEASURES.items():
            header = [
                f"{_short(name)}: {title}, after",
                *(f"{r['events']:,}" for r in one["prefixes"]),
            ]
            rows = [
                [keeper, *(accuracy.text(r["errors"][keeper][kind]) for r in one["prefixes"])]
                for keeper in one["prefixes"][0]["errors"]
            ]
            ratios = (f"{_ratios(r)[kind]:.2f}" for r in one["prefixes"])
            rows.append([f"{OURS} / batch", *ratios])
            tables.append(common.table(header, rows))
    tables += [_speeds(found), hot.goals_table(found["goals"])]
    return "\n\n".join(tables)


def _speeds(found: Mapping[str, Any]) -> str:
    rows = []
    for name, one in found["sets"].items():
        rows += [
            [f"{_short(name)}: all events, {keeper}", f"{rate:,.0f}", ""]
            for keeper, rate in one["events_per_s"].items()
        ]
        rows += [
            [f"{_short(name)}: refusals, {way}", *common.ranged(figure)]
            for way, figure in one["refusals"].items()
        ]
    changes = ", ".join(
        f"{_short(name)} {one['admitted']:,} and {one['removed']:,}"
        for name, one in found["sets"].items()
    )
    header = [f"events/s, {found['landmarks']} landmarks", "median", "range"]
    return f"{common.table(header, rows)}\n\nAdmitted and removed: {changes}."
