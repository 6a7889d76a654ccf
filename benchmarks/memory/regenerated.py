"""Nothing kept (`cache_bytes=0`) against everything kept: time of a batch of 256, and memory.

Times are of `decision_many` and `learn_many` of `DoublyStochastic`, all features a step. Peak
memory is that of a fresh process which makes the model, learns the batch and predicts it, beyond
what it held after the same with a small model: resident memory as the system counts it, and in
another process what tracemalloc counts (arrays of NumPy, not what compiled code allocates for
itself). Storing the frequencies would take 4 bytes a feature and column, and that is what the goal
is measured by, whichever the sampler.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks import common, hot, process
from benchmarks.hot import SAMPLERS, Case, Clock
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

CASE = Case(65536, 784, 256)
GOAL = 1.25
"""Time of a prediction over that with all kept."""
SHARE = 50
"""Times that the peak memory goes into the frequencies' bytes."""
WAYS = {"kept": 1 << 30, "regenerated": 0}
"""`cache_bytes`."""


def measure(clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Times, ratios, memory and goals."""
    case = CASE.quick() if quick else CASE
    common.note(f"kept or regenerated, {case}")
    X, y = hot.numbers(case)[:2]
    works: dict[str, hot.Work] = {}
    for sampler, name in SAMPLERS.items():
        for way, cache_bytes in WAYS.items():
            model = hot.model(sampler, case, cache_bytes=cache_bytes)
            works |= {
                f"{name}, {way}: predict": lambda model=model: model.decision_many(X),
                f"{name}, {way}: learn": lambda model=model: model.learn_many(X, y),
            }
    times = clock.race(works)
    del works
    ratios = {
        f"{name}, {what}": hot.ratio(times, f"{name}, regenerated: {what}", f"{name}, kept: {what}")
        for name in SAMPLERS.values()
        for what in ("predict", "learn")
    }
    stored = 4 * case.features * case.columns
    memory = {
        f"{name}, {way}": {
            counter: common.spread(
                _peak(case, sampler, WAYS[way], counter, fresh=fresh) for _ in range(rounds)
            )
            for counter in process.COUNTERS
        }
        for sampler, name in SAMPLERS.items()
        for way in WAYS
        for rounds in (min(clock.rounds, 3),)
        # A quick run starts a process for the first of them alone.
        for fresh in (not quick or (sampler == "iid" and way == "kept"),)
    }
    goals = [
        hot.goal(
            f"batch of 256 {case}: regenerated / kept", ratios["dense, predict"], "x", most=GOAL
        )
    ]
    goals += [
        hot.goal(
            f"{case}: frequencies / peak, dense, {counter}",
            [stored / max(value, 1) for value in memory["dense, regenerated"][counter]["values"]],
            "x",
            least=SHARE,
        )
        for counter in process.COUNTERS
    ]
    return {
        "case": str(case),
        "us": hot.spreads(times),
        "ratios": {name: common.spread(values) for name, values in ratios.items()},
        "frequencies_bytes": stored,
        "peak_bytes": memory,
        "goals": goals,
    }


def _peak(case: Case, sampler: str, cache_bytes: int, counter: str, *, fresh: bool) -> float:
    """Bytes of a process's peak, a fresh one's or this one's, beyond what it held before."""
    order = {
        "sampler": sampler,
        "cache_bytes": cache_bytes,
        "counter": counter,
        "case": [case.features, case.columns, case.events],
    }
    return float(process.fresh(__name__, order) if fresh else _child(order))


def _child(order: Mapping[str, Any]) -> int:
    sampler, cache_bytes = order["sampler"], order["cache_bytes"]
    case = Case(*order["case"])
    X = np.random.default_rng(hot.SEED).standard_normal((case.events, case.columns), np.float32)
    y = np.sign(X[:, 0])
    _learn_and_predict(X, y, 2048, sampler, cache_bytes)  # compiles, starts threads
    work = partial(_learn_and_predict, X, y, case.features, sampler, cache_bytes)
    return int(process.peak(work, order["counter"])["bytes"])


def _learn_and_predict(X: Any, y: Any, features: int, sampler: str, cache_bytes: int) -> None:
    model = DoublyStochastic(
        Gaussian(bandwidth=math.sqrt(X.shape[1])),
        loss="squared",
        seed=hot.SEED,
        sampler=sampler,
        batch_size=len(X),
        block_size=features,
        max_features=features,
        cache_bytes=cache_bytes,
    )
    model.learn_many(X, y)
    model.decision_many(X)


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    rows = [
        [name, *common.ranged({k: v / 1000 for k, v in figure.items() if k != "values"}, 1)]
        for name, figure in found["us"].items()
    ]
    rows += [
        [f"regenerated / kept: {name}", *common.ranged(figure, 2)]
        for name, figure in found["ratios"].items()
    ]
    times = common.table([f"batch of 256 {found['case']}, ms", "median", "range"], rows)
    memory = common.table(
        ["peak memory beyond the process's, MB", *process.COUNTERS],
        [
            [name, *(f"{counters[c]['median'] / 1e6:,.2f}" for c in process.COUNTERS)]
            for name, counters in found["peak_bytes"].items()
        ],
    )
    stored = found["frequencies_bytes"] / 1e6
    return f"{times}\n\n{memory}\nStoring the frequencies: {stored:,.2f} MB."


if __name__ == "__main__":
    print(_child(json.loads(sys.argv[1])))
