"""The data sets of the benchmark: rows to train on and to test on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import QUICK, VARIABLE, Dataset, Directory, load

Numbers = NDArray[Any]

LETTER = 12_000, 6_000
"""As in the paper."""
COVERTYPE_CLASS = 2
"""Of covtype, against the others: LIBSVM's binary form."""
REPEATED = "kdd99_10pct"
"""Seven of ten rows are copies of others: each is taken once, so that no row of the test is among
those that were trained on."""
MOST_TRAINED = {"kdd99_10pct": 40_000}
"""Rows to train on, of sets where all of them take hours."""
MOST_TESTED = 60_000
SKEWED = ("kdd99_10pct", "house_16H")
"""Columns of counts and bytes, whose logarithms are taken (of 1 + |x|, with the sign)."""


@dataclass(frozen=True)
class Problem:
    """Training and test rows; columns have mean 0 and deviation 1 on the training rows."""

    name: str
    X: Numbers
    y: Numbers
    test: Numbers
    expected: Numbers

    @property
    def outputs(self) -> int:
        """Scores of a linear model."""
        classes = len(np.unique(self.y)) if self.y.dtype.kind != "f" else 1
        return classes if classes > 2 else 1


def problem(name: str, data: Directory, seed: int, *, quick: bool) -> Problem:
    """The rows of a data set, divided at random, or as it is published where it is."""
    random = np.random.default_rng(seed)
    stream = _few(name, data, random) if quick else load(name, data)
    X, y = stream.X.astype(np.float64), stream.y
    if name.startswith("covtype"):
        y = y == COVERTYPE_CLASS
    if name == REPEATED:
        _, once = np.unique(X, axis=0, return_index=True)
        X, y = X[once], y[once]
    if stream.test is not None and not quick:
        rows = random.permutation(len(stream.test[0]))[:MOST_TESTED]
        test, expected = stream.test[0][rows].astype(np.float64), stream.test[1][rows]
    else:
        order = random.permutation(len(X))
        n = LETTER[0] if name == "letter" and not quick else len(X) * 9 // 10
        rows = order[n:][: LETTER[1] if name == "letter" else MOST_TESTED]
        chosen = order[: min(n, MOST_TRAINED.get(name, n))]
        (X, test), (y, expected) = (X[chosen], X[rows]), (y[chosen], y[rows])
    if name in SKEWED:
        X, test = (np.sign(some) * np.log1p(np.abs(some)) for some in (X, test))
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    return Problem(name, (X - mean) / deviation, y, (test - mean) / deviation, expected)


def _few(name: str, data: Directory, random: np.random.Generator) -> Dataset:
    """Events to try the code on. Of a set that is there they are drawn: its first may be alike."""
    if not (data or os.environ.get(VARIABLE)):
        return load(name, data, quick=True)
    stream = load(name, data)
    rows = random.permutation(len(stream))[:QUICK]
    return replace(stream, X=stream.X[rows], y=stream.y[rows])
