"""Whole learners on the CPU and on the GPU: events learned in a second, and that both learn alike.

The features of a model are all in one block, so that each step moves all of them. "alike" is the
largest difference of predictions over the largest prediction after some thousand events, and
"again" whether a second run on the GPU comes to the same state, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common, hot
from benchmarks.gpu import there
from benchmarks.hot import SEED, Clock
from streamk.kernels import Gaussian, Matern
from streamk.learners import DoublyStochastic, EigenPro

PLACES = {"CPU": "auto", "GPU": "cupy"}


class Steps(NamedTuple):
    batch: int
    features: int
    columns: int
    steps: int
    sampler: str = "iid"


CASES = (
    Steps(1, 4096, 54, 400),
    Steps(32, 4096, 54, 40),
    Steps(256, 4096, 54, 40),
    Steps(4096, 4096, 54, 10),
    Steps(256, 65536, 54, 20),
    Steps(4096, 65536, 54, 4),
    Steps(256, 16384, 784, 20),
    Steps(4096, 16384, 784, 4),
    Steps(4096, 65536, 54, 4, "hadamard"),
)
LARGE = ((5_000, 10_000), (20_000, 20_000))
"""Centers and events of EigenPro."""


def events(n: int, d: int) -> tuple[Any, Any]:
    """Generated events and a smooth function of them with noise."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d), dtype=np.float32)
    return X, np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(n)


def measure(clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Rates of steps and of single events, EigenPro's seconds, and whether places agree."""
    cases = [Steps(8, 128, 4, 2)] if quick else CASES
    return {
        "steps": [_steps(clock, case) for case in cases],
        "one": _one(clock, 128 if quick else 4096),
        "eigenpro": [_eigenpro(*sizes) for sizes in ([(200, 300)] if quick else LARGE)],
        "alike": _alike(200 if quick else 5000),
    }


def _model(case: Steps, place: str) -> DoublyStochastic:
    return DoublyStochastic(
        Gaussian(bandwidth=float(np.sqrt(case.columns))),
        loss="squared",
        seed=SEED,
        sampler=case.sampler,
        max_features=case.features,
        block_size=case.features,
        batch_size=case.batch,
        cache_bytes=1 << 30,
        backend=PLACES[place],
    )


def _steps(clock: Clock, case: Steps) -> dict[str, Any]:
    common.note(f"learning, {case}")
    X, y = events(case.batch * case.steps, case.columns)
    works: dict[str, Callable[[], float]] = {}
    for place in PLACES:
        model = _model(case, place)
        model.learn_many(X[: 2 * case.batch], y[: 2 * case.batch])
        works[place] = _seconds(lambda model=model: model.learn_many(X, y), len(X))
    rates = common.in_turn(works, clock.rounds)
    found = {place: common.spread(values) for place, values in rates.items()}
    return {**case._asdict(), "events_per_s": found}


def _seconds(work: Callable[[], Any], count: int) -> Callable[[], float]:
    done = there.waited(work)
    return lambda: count / common.timed(done)


def _one(clock: Clock, features: int) -> dict[str, Any]:
    """One event at a time, as a stream brings them."""
    X, y = events(64, 54)
    works: dict[str, Callable[[], Any]] = {}
    for place in PLACES:
        model = _model(Steps(1, features, 54, 1), place)
        model.learn_many(X, y)
        works[f"{place}: predict"] = lambda model=model: model.decision_one(X[0])
        works[f"{place}: learn"] = there.waited(lambda model=model: model.learn_one(X[0], y[0]))
    return {"features": features, "us": hot.spreads(clock.race(works))}


def _eigenpro(n_centers: int, n_events: int) -> dict[str, Any]:
    """Seconds of learning with given centers, and of predicting 4,096 events."""
    common.note(f"EigenPro, {n_centers:,} centers")
    X, y = events(n_centers + n_events + 4096, 54)
    Z, new = X[:n_centers], X[-4096:]
    found: dict[str, Any] = {"centers": n_centers, "events": n_events, "columns": 54}
    outputs = {}
    for place in reversed(PLACES):  # the GPU first
        model = EigenPro(
            Matern(nu=0.5, bandwidth=7.0),
            task="regression",
            centers=Z,
            solver="eigenpro",
            seed=SEED,
            backend=PLACES[place],
        )
        learn = slice(n_centers, n_centers + n_events)
        seconds = common.timed(lambda model=model, some=learn: model.learn_many(X[some], y[some]))
        model.predict_many(new)
        again = min(common.timed(lambda model=model: model.predict_many(new)) for _ in range(3))
        outputs[place] = model.predict_many(new)
        error = float(np.sqrt(np.mean((outputs[place] - y[-4096:]) ** 2)))
        found[place] = {
            "learn_s": float(f"{seconds:.4g}"),
            "predict_ms": float(f"{1e3 * again:.4g}"),
            "rmse": float(f"{error:.5g}"),
        }
        common.note(f"  {place}: {found[place]}")
    found["difference"] = _difference(outputs["GPU"], outputs["CPU"])
    return found


def _difference(one: Any, other: Any) -> float:
    return float(f"{np.abs(one - other).max() / np.abs(other).max():.2g}")


def _alike(n: int) -> dict[str, Any]:
    """The same events to the same models in both places, and once more on the GPU."""
    X, numbers = events(n + 500, 20)
    labels = np.where(numbers > 0, "more", "less")
    made: Mapping[str, Any] = {
        "doubly-stochastic, dense": lambda at: DoublyStochastic(
            Gaussian(bandwidth=4.0), seed=SEED, max_features=2048, batch_size=64, backend=at
        ),
        "doubly-stochastic, Hadamard": lambda at: DoublyStochastic(
            Gaussian(bandwidth=4.0), seed=SEED, max_features=2048, batch_size=64,
            sampler="hadamard", backend=at,
        ),
        "doubly-stochastic, event by event": lambda at: DoublyStochastic(
            Gaussian(bandwidth=4.0), seed=SEED, max_features=2048, batch_size=1, backend=at
        ),
        "eigenpro": lambda at: EigenPro(
            Matern(nu=0.5, bandwidth=4.0), n_centers=500, solver="eigenpro", backend=at
        ),
    }  # fmt: skip
    found = {}
    for name, make in made.items():
        common.note(f"alike: {name}")
        began, outputs, states = time.perf_counter(), [], []
        for at in ("auto", "cupy", "cupy"):
            model = make(at)
            model.learn_many(X[:n], labels[:n])
            outputs.append(model.decision_many(X[n:]))
            states.append(model.state().arrays)
        again = all(np.array_equal(states[1][key], states[2][key]) for key in states[1])
        found[name] = {
            "events": n,
            "difference": _difference(outputs[1], outputs[0]),
            "again": bool(again and np.array_equal(outputs[1], outputs[2])),
        }
        common.note(f"  {found[name]}, {time.perf_counter() - began:.1f} s")
    return found


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    steps = []
    for one in found["steps"]:
        cpu, gpu = (one["events_per_s"][place] for place in PLACES)
        way = ", Hadamard" if one["sampler"] == "hadamard" else ""
        title = f"{one['batch']:,}, m={one['features']:,} d={one['columns']}{way}"
        ratio = f"{gpu['median'] / cpu['median']:.2f}"
        steps.append([title, hot.cell(cpu), hot.cell(gpu), ratio])
    us = found["one"]["us"]
    one = [
        [what, *(hot.short(us[f"{place}: {what}"]["median"]) for place in PLACES)]
        for what in ("predict", "learn")
    ]
    large = [
        [
            f"{one['centers']:,} centers, {one['events']:,} events",
            *(f"{one[place]['learn_s']:,.2f}" for place in PLACES),
            *(f"{one[place]['predict_ms']:,.1f}" for place in PLACES),
            *(f"{one[place]['rmse']:.4f}" for place in PLACES),
            f"{one['difference']:.1e}",
        ]
        for one in found["eigenpro"]
    ]
    alike = [
        [name, f"{one['events']:,}", f"{one['difference']:.1e}", "yes" if one["again"] else "no"]
        for name, one in found["alike"].items()
    ]
    title = f"one event, m={found['one']['features']:,} d=54, µs"
    columns = ["learned, s: CPU", "GPU", "4,096, ms: CPU", "GPU", "RMSE: CPU", "GPU"]
    return "\n\n".join(
        (
            common.table(["events/s learned, batches of", *PLACES, "GPU / CPU"], steps),
            common.table([title, *PLACES], one),
            common.table(["eigenpro, d=54", *columns, "difference"], large),
            common.table(["alike", "events", "difference", "again the same bits"], alike),
        )
    )
