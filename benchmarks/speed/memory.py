"""The engine from memory on elec2: 1,024 features, predicting and learning.

The learner takes a step for each mini-batch of its events. Every event is predicted before it is
learned; with mini-batches of 1 by a model that has moved for all events before it.

Least work of an event in the plain kernels, in flops (an fma is two), with m features, d columns
and K outputs: it is projected (2 m d), the cosine taken (`COSINE[1]` m), summed up (2 m K), and its
gradient added (2 m K). The bound is what sgemm reaches on all cores in the same run. The
frequencies and coefficients, 4 m (d + 1 + K) bytes, fit into a core's second-level cache and are
read once for each event; from main memory come the event's 4 d bytes alone, so it is the arithmetic
that bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset
from benchmarks.hot import COSINE
from benchmarks.speed.model import BATCH, FEATURES, SEED, by_hand, through_engine

GOAL = 60_000
"""Events/s."""


def measure(data: Dataset, rounds: int) -> dict[str, Any]:
    """Events/s of each way to predict and learn the set, and the bound."""
    contestants: dict[str, Callable[[], Any]] = {
        "engine, mini-batches of 256": lambda: through_engine(data),
        "engine, mini-batches of 32": lambda: through_engine(data, 32),
        "engine, mini-batches of 1": lambda: through_engine(data, 1),
        "learner alone, mini-batches of 256": lambda: by_hand(data),
        "scikit-learn RBFSampler + SGDClassifier": lambda: _scikit_learn(data),
    }
    for work in contestants.values():
        work()  # compiles

    def rate(work: Callable[[], Any]) -> Callable[[], float]:
        return lambda: len(data) / common.timed(work)

    found = common.in_turn({name: rate(work) for name, work in contestants.items()}, rounds)
    outputs, d = len(np.unique(data.y)), len(data.columns)
    flops = FEATURES * (2 * d + COSINE[1] + 4 * outputs)
    peak = max(_sgemm() for _ in range(3))
    return {
        "events_per_s": {name: common.spread(values) for name, values in found.items()},
        "goal": GOAL,
        "bound": {
            "flops_an_event": flops,
            "cached_bytes_read_an_event": 4 * FEATURES * (d + 1 + outputs),
            "memory_bytes_an_event": 4 * d,
            "sgemm_gflop_per_s": round(peak / 1e9, 1),
            "events_per_s": round(peak / flops),
        },
    }


def _scikit_learn(data: Dataset) -> None:
    """The same number of features and events a batch, as scikit-learn's users would do it."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    sampler = RBFSampler(n_components=FEATURES, random_state=SEED).fit(data.X[:1])
    model = SGDClassifier(loss="log_loss", random_state=SEED)
    classes = np.unique(data.y)
    for first in range(0, len(data), BATCH):
        X, y = data.X[first : first + BATCH], data.y[first : first + BATCH]
        if first:
            model.predict_proba(sampler.transform(scaler.transform(X)))
        model.partial_fit(sampler.transform(scaler.partial_fit(X).transform(X)), y, classes)


def _sgemm(n: int = 1500) -> float:
    """Flops a second of a matrix product in single precision."""
    A = np.ones((n, n), dtype=np.float32)
    A @ A
    began = time.perf_counter()
    for _ in range(3):
        A @ A
    return 3 * 2 * n**3 / (time.perf_counter() - began)


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [[name, *common.ranged(figure)] for name, figure in found["events_per_s"].items()]
    bound = found["bound"]
    best = found["events_per_s"]["engine, mini-batches of 256"]["median"]
    return "\n".join(
        [
            common.table(["from memory (elec2), events/s", "median", "range"], rows),
            (
                f"Goal {found['goal']:,}. {bound['flops_an_event']:,} flops an event; at sgemm's "
                f"{bound['sgemm_gflop_per_s']:,} GFlop/s"
            ),
            (
                f"on all cores that is {bound['events_per_s']:,} events/s: the engine is at "
                f"{100 * best / bound['events_per_s']:.0f}% of the bound."
            ),
        ]
    )
