"""Features, cosines and the prediction: one event and 256, beside BLAS and the usual libraries.

one     one event in, its prediction out
batch   256 events

Ours are `DoublyStochastic.decision_one`, which checks its array and makes a new one, and
`decision_many` on all cores. Rivals are `a @ cos(x @ W + b)` in NumPy and PyTorch, on float32
arrays that are prepared, and scikit-learn's `RBFSampler.transform(X) @ a`. "sgemv alone" and "sgemm
alone" are the projection alone, in the fastest of the ways to write it (each matrix as it is or
transposed): dense features cannot be had faster through BLAS. "GPU", where there is one: the public
call, the events sent there and the predictions fetched.

Data are generated normals. All contestants run in turn and repeatedly; ratios are taken round by
round, and tables give their median and range.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from benchmarks import common, hot
from benchmarks.common import Part
from benchmarks.hot import SAMPLERS, Case, Clock, Numbers, Work

NAME = "features"
NUMPY, TORCH, SKLEARN = "NumPy", "PyTorch", "scikit-learn"
EVENTS = 256
SHAPES = ((4096, 8), (4096, 54), (4096, 784), (65536, 784))
"""Features and columns of the cases."""
ALONE = {1: "sgemv alone", EVENTS: "sgemm alone"}

# --- rivals -------------------------------------------------------------------------------------


def present() -> list[str]:
    """Rivals that are installed."""
    return [NUMPY, *([TORCH] if importlib.util.find_spec("torch") else []), SKLEARN]


def predictions(case: Case, some: Numbers, names: Sequence[str]) -> dict[str, Work]:
    """Calls that predict the events of a case."""
    makers: dict[str, Callable[[Case, Numbers], Work]] = {
        NUMPY: _numpy,
        TORCH: _torch,
        SKLEARN: _sklearn,
    }
    return {name: makers[name](case, some) for name in names}


def _numpy(case: Case, some: Numbers) -> Work:
    X, _, W, b, a = some
    if case.events == 1:
        x = X[0]
        return lambda: a @ np.cos(x @ W + b)
    return lambda: np.cos(X @ W + b) @ a


def _torch(case: Case, some: Numbers) -> Work:
    import torch

    X, W, b, a = (torch.from_numpy(array) for array in (some.X, some.W, some.b, some.a))
    rows = X[0] if case.events == 1 else X

    def work() -> None:
        with torch.inference_mode():
            torch.cos(rows @ W + b) @ a

    return work


def _sklearn(case: Case, some: Numbers) -> Work:
    sampler = RBFSampler(gamma=0.5 / case.columns, n_components=case.features, random_state=1)
    sampler.fit(some.X)
    return lambda: sampler.transform(some.X) @ some.a


def products(some: Numbers) -> dict[str, Work]:
    """The projection alone in the ways to write it: sgemv for one event, sgemm for more."""
    X, W = some.X, some.W
    Xt, Wt = np.ascontiguousarray(X.T), np.ascontiguousarray(W.T)
    if len(X) == 1:
        x, out = X[0], np.empty(W.shape[1], np.float32)
        return {
            "x @ W": partial(np.matmul, x, W, out=out),
            "W.T @ x": partial(np.matmul, Wt, x, out=out),
        }
    out = np.empty((len(X), W.shape[1]), np.float32)
    turned = np.empty((W.shape[1], len(X)), np.float32)
    return {
        "X @ W": partial(np.matmul, X, W, out=out),
        "X @ V.T": partial(np.matmul, X, Wt.T, out=out),
        "V @ X.T": partial(np.matmul, Wt, X.T, out=turned),
        "V @ Y": partial(np.matmul, Wt, Xt, out=turned),
    }


# --- measuring ----------------------------------------------------------------------------------


def measure(clock: Clock, events: int, *, quick: bool) -> dict[str, Any]:
    """Times and ratios of the cases with so many events a call."""
    found: dict[str, Any] = {"cases": []}
    for features, columns in SHAPES:
        case = Case(features, columns, events)
        found["cases"].append(_case(clock, case.quick() if quick else case))
    return found


def _case(clock: Clock, case: Case) -> dict[str, Any]:
    common.note(f"{case.events} events, {case}")
    some, others, gpu = hot.numbers(case), present(), hot.gpu()
    works, plain = predictions(case, some, others), products(some)
    for sampler, name in SAMPLERS.items():
        works[f"{name}, public"] = _decide(hot.model(sampler, case), some)
        if "device" in gpu and case.events > 1:
            works[f"{name}, GPU"] = _decide(hot.model(sampler, case, backend="cupy"), some)
    times = clock.race({**plain, **works})
    best, alone = hot.fastest(times, plain), ALONE[case.events]
    times[alone] = times[best]
    pairs = [(rival, f"{name}, public") for rival in others for name in SAMPLERS.values()]
    pairs += [(alone, f"{name}, public") for name in SAMPLERS.values()]
    return {
        "case": str(case),
        "us": hot.spreads(times),
        "product": best,
        "ratios": {f"{a} / {b}": common.spread(hot.ratio(times, a, b)) for a, b in pairs},
    }


def _decide(model: Any, some: Numbers) -> Work:
    if len(some.X) == 1:
        return partial(model.decision_one, some.X[0])
    return partial(model.decision_many, some.X)


# --- tables -------------------------------------------------------------------------------------


def _render_one(found: Mapping[str, Any]) -> str:
    return hot.case_tables("one event", found["cases"])


def _render_batch(found: Mapping[str, Any]) -> str:
    return hot.case_tables(f"batch of {EVENTS}", found["cases"])


PARTS = {
    "one": Part(lambda o: measure(hot.clock_of(o), 1, quick=o.quick), _render_one),
    "batch": Part(lambda o: measure(hot.clock_of(o), EVENTS, quick=o.quick), _render_batch),
}

render, run = common.topic(NAME, __doc__, PARTS, settings=hot.settings, rounds=5)


if __name__ == "__main__":
    sys.exit(common.main(run))
