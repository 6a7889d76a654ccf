"""One event in, its prediction out: as an array and as a dict.

"compiled" is what the backend's `single` prepared, on prepared arrays, the call from Python
included; "public" is `DoublyStochastic.decision_one`, which checks its array and makes a new one.
Rivals are
`a @ cos(x @ W + b)` on prepared float32 arrays, and `RBFSampler.transform(X) @ a`. sgemv is the
projection alone, in the faster of two ways to write it: dense features cannot be had faster through
BLAS.

Of a dict, "packed, then compiled" is its values packed into an array and the compiled function,
"packed, then public" `decision_one` of that array; the adapter's methods also check and scale the
columns, and make a label or probabilities.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.features import rivals
from benchmarks.hot import SAMPLERS, Case, Clock, Compiled, Machine
from streamk.adapters.river import DoublyStochasticClassifier, DoublyStochasticRegressor

CASES: tuple[tuple[Case, float | None], ...] = (
    (Case(4096, 8), None),
    (Case(4096, 54), 7),
    (Case(4096, 784), 30),
    (Case(65536, 784), 150),
)
"""What is measured, and the goal: NumPy's time over that of the fastest of ours."""
DICT, DICT_GOAL = Case(4096, 54), 4
"""The dict event, and the microseconds that it may take."""
LAYERS = ("compiled", "public")
SGEMV = "sgemv alone"


def measure(
    clock: Clock, machine: Machine, *, quick: bool, share: float | None = None
) -> dict[str, Any]:
    """Times, ratios, goals and bounds; with a `share` of the goals, the cases that have one."""
    found: dict[str, Any] = {"cases": [], "goals": [], "bounds": []}
    for case, goal in CASES:
        if share is not None and goal is None:
            continue
        measured = case.quick() if quick else case
        common.note(f"one event, {measured}")
        _measure(clock, machine, measured, goal and goal * (share or 1), found)
    if share is None:
        found["dict"] = _dicts(clock, DICT.quick() if quick else DICT, found["goals"])
    return found


def _measure(
    clock: Clock, machine: Machine, case: Case, goal: float | None, found: dict[str, Any]
) -> None:
    some = hot.numbers(case)
    others = rivals.present()
    works = rivals.predictions(case, some, others)
    products = rivals.products(some)
    compiled = {}
    for sampler, name in SAMPLERS.items():
        model = hot.model(sampler, case)
        compiled[name] = Compiled(sampler, case, model)
        works[f"{name}, compiled"] = compiled[name].predict()
        works[f"{name}, public"] = partial(model.decision_one, some.X[0])
    times = clock.race({**products, **works})
    best = hot.fastest(times, products)
    times[SGEMV] = times[best]
    ours = [f"{name}, {layer}" for name in SAMPLERS.values() for layer in LAYERS]
    found["cases"].append(
        {
            "case": str(case),
            "us": hot.spreads(times),
            "sgemv": best,
            "ratios": {
                f"{rival} / {mine}": common.spread(hot.ratio(times, rival, mine))
                for rival in (*others, SGEMV)
                for mine in ours
            },
        }
    )
    if goal is None:
        return
    for layer in LAYERS:
        mine = hot.fastest(times, [f"{name}, {layer}" for name in SAMPLERS.values()])
        title = f"one event {case}: NumPy / {mine}"
        ratios = hot.ratio(times, rivals.NUMPY, mine)
        found["goals"].append(hot.goal(title, ratios, "x", least=goal))
    for name in SAMPLERS.values():
        work = hot.count(case, compiled[name].widths)
        bound = machine.bound(work, 1)
        measured = common.spread(times[f"{name}, compiled"])["median"] * 1e6
        title = f"one event {case}, {name}"
        found["bounds"].append({"case": title, **bound, "measured_us": float(f"{measured:.4g}")})


# --- dicts --------------------------------------------------------------------------------------

_PREDICTORS = {
    "DoublyStochasticRegressor.predict_one": (DoublyStochasticRegressor, "predict_one"),
    "DoublyStochasticClassifier.predict_one": (DoublyStochasticClassifier, "predict_one"),
    "DoublyStochasticClassifier.predict_proba_one": (
        DoublyStochasticClassifier,
        "predict_proba_one",
    ),
}


def _dicts(clock: Clock, case: Case, goals: list[dict[str, Any]]) -> dict[str, Any]:
    """The River adapter, dict in and number, label or probabilities out."""
    common.note(f"a dict event, {case}")
    rng = np.random.default_rng(hot.SEED)
    events = [
        {f"x{j}": float(v) for j, v in enumerate(row)}
        for row in rng.normal(size=(20, case.columns))
    ]
    _, _, W, b, a = hot.numbers(case)
    works: dict[str, hot.Work] = {
        "NumPy, from the dict": lambda: (
            a @ np.cos(np.array([*events[0].values()], np.float32) @ W + b)
        )
    }
    for sampler, name in SAMPLERS.items():
        works[f"packed, then compiled, {name}"] = _packed(sampler, case, events[0])
        works[f"packed, then public, {name}"] = _packed(sampler, case, events[0], public=True)
    for title, (estimator, method) in _PREDICTORS.items():
        for sampler, name in SAMPLERS.items():
            model = estimator(
                sampler=sampler,
                block_size=case.features,
                max_features=case.features,
                seed=hot.SEED,
            )
            for number, event in enumerate(events):
                model.learn_one(event, number % 2 == 0)
            predict = getattr(model, method)
            works[f"{title}, {name}"] = partial(predict, events[0])
    times = clock.race(works)
    for title, start in (
        ("packed + compiled", "packed, then compiled"),
        ("packed + public", "packed, then public"),
        ("the adapter's fastest", tuple(_PREDICTORS)),
    ):
        best = hot.fastest(times, [name for name in times if name.startswith(start)])
        microseconds = [1e6 * seconds for seconds in times[best]]
        title = f"dict event {case}, {title}"
        goals.append(hot.goal(title, microseconds, " µs", most=DICT_GOAL))
    return {"case": str(case), "us": hot.spreads(times)}


def _packed(sampler: str, case: Case, event: dict[str, float], *, public: bool = False) -> hot.Work:
    """The dict's values packed into an array that is there, as the adapter does, and predicted."""
    model = hot.model(sampler, case)
    compiled = Compiled(sampler, case, model)
    values, pack = itemgetter(*event), struct.Struct(f"{case.columns}f").pack
    x = compiled.X[0]
    row = compiled.X.data.cast("B")
    predict = partial(model.decision_one, x) if public else compiled.predict()

    def work() -> None:
        row[:] = pack(*values(event))
        predict()

    return work


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    tables = hot.case_tables("one event", found["cases"])
    dicts = common.table(
        [f"dict event {found['dict']['case']}, µs", "median", "range"],
        [[name, *common.ranged(figure, 2)] for name, figure in found["dict"]["us"].items()],
    )
    return f"{tables}\n\n{dicts}"
