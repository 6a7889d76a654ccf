"""Centers that are added while a stream goes on, beside a run without them.

Both learners begin with 250 random events, no two alike, as centers. One is given 250 more, random
ones of the events since, after 4,000, 8,000 and 12,000 events. Errors of windows of 500 events from
the first addition on are subtracted in pairs; the interval is that of their mean over 2,000
bootstrap samples of windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.eigenpro.streams import SETS
from benchmarks.intervals import cell, mean
from streamk.kernels import Laplacian
from streamk.learners import EigenPro
from streamk.scaling.running import RobustScale

WINDOW, FIRST, EVERY, TIMES = 500, 250, 4000, 3
SOLVERS = ("direct", "eigenpro")
SEEDS = 5


def measure(data: Directory, *, quick: bool, seeds: int = SEEDS) -> dict[str, Any]:
    """Differences of errors, with and without centers that are added."""
    rows = []
    for name in SETS:
        stream = load(name, data, quick=quick).first(0 if quick else 20_000)
        for solver in SOLVERS:
            pairs = [_pair(stream, solver, seed, quick=quick) for seed in range(seeds)]
            differences = np.concatenate([with_ - without for with_, without in pairs])
            random = np.random.default_rng(0)
            picks = random.integers(0, len(differences), (2000, len(differences)))
            low, high = np.quantile(differences[picks].mean(axis=1), [0.025, 0.975])
            row = {
                "set": name,
                "solver": solver,
                "without": mean([float(without.mean()) for _, without in pairs]),
                "with": mean([float(with_.mean()) for with_, _ in pairs]),
                "difference": float(differences.mean()),
                "interval": [float(low), float(high)],
                "worse": int((differences > 0).sum()),
                "windows": len(differences),
            }
            rows.append(row)
            common.note(f"  {row}")
    return {"rows": rows}


def _pair(stream: Dataset, solver: str, seed: int, *, quick: bool) -> tuple[Any, Any]:
    """Errors of each window, with and without more centers."""
    random = np.random.default_rng(seed)
    numbers = stream.y.dtype.kind == "f"
    order = random.permutation(len(stream))
    scale, X = RobustScale(stream.X.shape[1]), stream.X[order].astype(np.float64)
    scale.update(X)
    X = scale.transform(X, np.dtype(np.float32))
    y = stream.y[order]
    if numbers:
        y = (y - y.mean()) / y.std()
    first, every = (20, 60) if quick else (FIRST, EVERY)
    window = 20 if quick else WINDOW
    distinct = X[np.sort(np.unique(X[: 2 * first], axis=0, return_index=True)[1])[:first]]
    picks = [random.choice(every * (time + 1), first, False) for time in range(TIMES)]
    errors = []
    for added in (True, False):
        model = EigenPro(
            Laplacian(bandwidth=2.0),
            task="regression" if numbers else "classification",
            centers=distinct,
            solver=solver,
            classes=[] if numbers else sorted(set(y.tolist())),
        )
        found = []
        for at in range(0, len(X) - window + 1, window):
            some = slice(at, at + window)
            said = model.predict_then_learn_many(X[some], y[some].tolist()).predictions
            wrong = (said - y[some]) ** 2 if numbers else np.asarray(said) != y[some]
            if at >= every:
                found.append(float(np.mean(wrong)))
            time, rest = divmod(at + window, every)
            if added and rest == 0 and 1 <= time <= TIMES:
                model.add_centers(X[picks[time - 1]])
        errors.append(np.array(found))
    return errors[0], errors[1]


def render(found: Mapping[str, Any]) -> str:
    """A line for each stream and solver."""
    rows = []
    for row in found["rows"]:
        low, high = row["interval"]
        rows.append(
            [
                f"{row['set']}, {row['solver']}",
                cell(row["without"]),
                cell(row["with"]),
                f"{row['difference']:+.4f} ({low:+.4f} to {high:+.4f})",
                f"{row['worse']} of {row['windows']}",
            ]
        )
    header = ["errors", "without", "with more centers", "difference, 95%", "worse windows"]
    return common.table(header, rows)
