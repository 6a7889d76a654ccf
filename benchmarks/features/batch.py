"""256 events: features, their cosines and the sum with one output's coefficients.

"public" is `DoublyStochastic.decision_many` on all cores; "one core" is the compiled function under
it, without threads. sgemm is the projection alone into an array that is there, in the fastest of
four ways to write it (each matrix as it is or transposed), on as many cores. More than 100% of it
is possible where so flat a product keeps BLAS from its best, which the large square one shows.
"GPU", where there is one: the public call, the events sent there and the predictions fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import common, hot
from benchmarks.features import rivals
from benchmarks.hot import SAMPLERS, Case, Clock, Compiled, Machine

EVENTS = 256
CASES: tuple[tuple[Case, float | None, float | None], ...] = (
    (Case(4096, 8, EVENTS), None, None),
    (Case(4096, 54, EVENTS), 82, None),
    (Case(4096, 784, EVENTS), 95, 22),
    (Case(65536, 784, EVENTS), None, None),
)
"""What is measured, the goal of dense features in per cent of sgemm, and that of Hadamard features
in times of our dense ones."""
ALONE = {"public": "sgemm alone", "one core": "sgemm alone, one core"}


def measure(
    clock: Clock, machine: Machine, *, quick: bool, share: float | None = None
) -> dict[str, Any]:
    """Times, ratios, goals and bounds; with a `share` of the goals, the cases that have one."""
    found: dict[str, Any] = {
        "cases": [],
        "goals": [],
        "bounds": [],
        "square": {
            "size": machine.size,
            "gflop_per_s": {
                "all cores": machine.sgemm(None),
                "one core": machine.sgemm(1),
            },
        },
    }
    for case, dense_goal, hadamard_goal in CASES:
        if share is not None and dense_goal is None:
            continue
        measured = case.quick() if quick else case
        common.note(f"batch of {EVENTS}, {measured}")
        times = _measure(clock, machine, measured, found, counted=dense_goal is not None)
        if dense_goal is not None:
            part = [100 * r for r in hot.ratio(times, ALONE["public"], "dense, public")]
            title = f"batch of {EVENTS} {measured}: dense, % of sgemm"
            found["goals"].append(hot.goal(title, part, "%", least=dense_goal * (share or 1)))
        if hadamard_goal is not None:
            gain = hot.ratio(times, "dense, public", "Hadamard, public")
            title = f"batch of {EVENTS} {measured}: dense / Hadamard"
            found["goals"].append(hot.goal(title, gain, "x", least=hadamard_goal * (share or 1)))
    return found


def _measure(
    clock: Clock, machine: Machine, case: Case, found: dict[str, Any], *, counted: bool
) -> hot.Times:
    some = hot.numbers(case)
    others = rivals.present()
    works = rivals.predictions(case, some, others)
    products = rivals.products(some)
    single = {f"{name}, one core": work for name, work in products.items()}
    compiled, gpu = {}, hot.gpu()
    for sampler, name in SAMPLERS.items():
        model = hot.model(sampler, case)
        compiled[name] = Compiled(sampler, case, model)
        works[f"{name}, public"] = lambda model=model: model.decision_many(some.X)
        works[f"{name}, one core"] = compiled[name].predict()
        if "device" in gpu:
            device = hot.model(sampler, case, backend="cupy")
            works[f"{name}, GPU"] = lambda device=device: device.decision_many(some.X)
    times = clock.race({**products, **single, **works}, one_core=single)
    best = {"public": hot.fastest(times, products), "one core": hot.fastest(times, single)}
    for layer, name in best.items():
        times[ALONE[layer]] = times[name]
    ratios = {
        f"{rival} / {name}, public": hot.ratio(times, rival, f"{name}, public")
        for rival in others
        for name in SAMPLERS.values()
    }
    for layer, alone in ALONE.items():
        dense, hadamard = f"dense, {layer}", f"Hadamard, {layer}"
        ratios[f"sgemm / {dense}"] = hot.ratio(times, alone, dense)
        ratios[f"sgemm / {hadamard}"] = hot.ratio(times, alone, hadamard)
        ratios[f"dense / {hadamard}"] = hot.ratio(times, dense, hadamard)
    found["cases"].append(
        {
            "case": str(case),
            "us": hot.spreads(times),
            "sgemm": best,
            "ratios": {name: common.spread(values) for name, values in ratios.items()},
        }
    )
    for name in SAMPLERS.values() if counted else ():
        bound = machine.bound(hot.count(case, compiled[name].widths), None)
        measured = common.spread(times[f"{name}, public"])["median"] * 1e6
        title = f"batch of {EVENTS} {case}, {name}"
        found["bounds"].append({"case": title, **bound, "measured_us": float(f"{measured:.4g}")})
    return times


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    tables = hot.case_tables(f"batch of {EVENTS}", found["cases"])
    square = found["square"]
    rates = ", ".join(
        f"{cores} {hot.cell(figure)}" for cores, figure in square["gflop_per_s"].items()
    )
    return f"{tables}\n\nsgemm of {square['size']} x {square['size']}, GFlop/s: {rates}."
