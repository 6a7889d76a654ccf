"""The table of section 6: storage and time by the events learned, ours and NORMA.

Events are those of covtype (54 columns) and of MNIST (784), class 2 and 8 against the rest. Ours
draws one random feature for each event, in blocks of 64 for batches of 64, NORMA keeps the events
that it made an error on, or nearly. "regenerated" keeps nothing of its features (``cache_bytes=0``)
and "Hadamard" some eight bytes of each. Stored is what a saved model has: coefficients, and
NORMA's centers. Memory has what is kept of features, too. Microseconds are of an event among 1,024
that are learned, and among as many that are predicted, at that size, in processor time of one
thread; means of five seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.doubly_stochastic.problems import median_distance
from benchmarks.doubly_stochastic.rivals.norma import Norma
from benchmarks.doubly_stochastic.steps import inverse_time
from benchmarks.intervals import cell, mean
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

Numbers = NDArray[Any]

SETS = {"covtype_subset93k": 2, "mnist": 8}
"""With the class that is +1."""
EVENTS = (1 << 10, 1 << 12, 1 << 14)
TIMED = 1024
AT_ONCE = 64
SEEDS = 5
NU = 1e-5


class _Ours:
    """The learner with a feature for each event."""

    def __init__(self, bandwidth: float, seed: int, options: Mapping[str, Any]) -> None:
        self._model = DoublyStochastic(
            Gaussian(bandwidth=bandwidth),
            loss="hinge",
            classes=(-1, 1),
            seed=seed,
            step=inverse_time(1000.0, 500.0),
            regularization=NU,
            batch_size=AT_ONCE,
            block_size=AT_ONCE,
            max_features=1 << 17,
            threads=1,
            **options,
        )

    def learn(self, X: Numbers, y: Numbers) -> None:
        self._model.learn_many(X, y)

    def scores(self, X: Numbers) -> Numbers:
        return self._model.decision_many(X)

    def sizes(self) -> tuple[int, int, int]:
        """Return features, bytes of a saved model and bytes in memory."""
        stored = sum(array.nbytes for array in self._model.state().arrays.values())
        return self._model.n_features, stored, self._model.nbytes


class _Norma:
    """NORMA, whose centers are events."""

    def __init__(self, bandwidth: float, seed: int, options: Mapping[str, Any]) -> None:
        self._model = Norma(1.0 / (2.0 * bandwidth**2), NU, inverse_time(1000.0, 500.0))

    def learn(self, X: Numbers, y: Numbers) -> None:
        self._model.learn(0, X, y)

    def scores(self, X: Numbers) -> Numbers:
        return self._model.scores(X)

    def sizes(self) -> tuple[int, int, int]:
        """Return centers, bytes of a saved model and bytes in memory."""
        expansion = self._model.expansion
        return expansion.size, expansion.nbytes, expansion.nbytes


METHODS: dict[str, Callable[[float, int], Any]] = {
    "ours, Hadamard": lambda b, seed: _Ours(b, seed, {"sampler": "hadamard"}),
    "ours, regenerated": lambda b, seed: _Ours(b, seed, {"cache_bytes": 0}),
    "NORMA": lambda b, seed: _Norma(b, seed, {}),
}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Sizes and times of each method by the events learned."""
    rows = []
    for name, positive in SETS.items():
        stream = load(name, data, quick=quick)
        X = stream.X / np.maximum(np.abs(stream.X).max(axis=0), 1.0).astype(np.float32)
        y = np.where(stream.y == positive, 1, -1)
        events, timed = ((64, 128), 64) if quick else (EVENTS, TIMED)
        for method, make in METHODS.items():
            found: list[list[dict[str, float]]] = [[] for _ in events]
            for seed in range(2 if quick else SEEDS):
                order = np.random.default_rng(seed).permutation(len(X))
                bandwidth = median_distance(X[order[:1000]]) / 2**0.5
                _one(make(bandwidth, seed), X[order], y[order], events, timed, found)
            for at, figures in zip(events, found, strict=True):
                row = {key: mean([one[key] for one in figures]) for key in figures[0]}
                rows.append({"set": name, "columns": X.shape[1], "method": method, "t": at, **row})
                common.note(f"  {name} {method} {at}: {_text(rows[-1])}")
    return {"rows": rows}


def _one(
    model: Any,
    X: Numbers,
    y: Numbers,
    events: tuple[int, ...],
    timed: int,
    found: list[list[dict[str, float]]],
) -> None:
    """Learn events of a seed, and note sizes and times at each number of them."""
    model.learn(X[:AT_ONCE], y[:AT_ONCE])
    model.scores(X[:AT_ONCE])
    done = AT_ONCE
    for at, figures in zip(events, found, strict=True):
        start = max(done, at - timed)
        model.learn(X[done:start], y[done:start])
        count = at - start
        learning = 0.0
        if count:
            began = time.process_time()
            model.learn(X[start:at], y[start:at])
            learning = (time.process_time() - began) / count
        began = time.process_time()
        model.scores(X[-timed:])
        predicting = (time.process_time() - began) / timed
        terms, stored, memory = model.sizes()
        done = at
        figures.append(
            {
                "terms": terms,
                "stored": stored,
                "memory": memory,
                "learning": 1e6 * learning,
                "predicting": 1e6 * predicting,
            }
        )


def _text(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['terms']['mean']:,.0f}",
        f"{row['stored']['mean'] / 1e3:,.0f}",
        f"{row['memory']['mean'] / 1e3:,.0f}",
        cell(row["learning"], 1),
        cell(row["predicting"], 1),
    ]


def render(found: Mapping[str, Any]) -> str:
    """A line for each method and number of events."""
    rows = [
        [f"{row['columns']} columns, {row['method']}, t = {row['t']:,}", *_text(row)]
        for row in found["rows"]
    ]
    header = ["section 6", "terms", "stored, kB", "memory, kB", "us to learn", "to predict"]
    return common.table(header, rows)
