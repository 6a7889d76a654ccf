"""The backend "cupy" on a GPU beside the CPU of the same machine, and plain libraries on that GPU.

prediction  batches of events by one output's coefficients of random features
learning    whole learners, in batches and one event at a time

"CPU" and "GPU" are public calls on NumPy's arrays: the events go to the GPU and the predictions
come back. "GPU, there" is the same on arrays that are on the GPU, as are those of CuPy
(``cos(X @ W + b) @ a``, in place) and PyTorch (``addmm(b, X, W).cos_() @ a``, no TF32), which take
a batch in slices of rows of 1 GiB.

The features of a model that learns are all in one block, so that each step moves all of them.

Data are generated. All contestants run in turn in one process.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common, hot
from benchmarks.common import Part
from benchmarks.data import DataError
from benchmarks.hot import QUICK, SAMPLERS, SEED, Case, Clock, Work
from streamk import backends
from streamk.backends import CHUNK
from streamk.features.columns import column_keys
from streamk.features.random_features import FeatureBlocks
from streamk.kernels import Gaussian, Matern
from streamk.learners import DoublyStochastic, EigenPro

NAME = "gpu"
PLACES = {"CPU": "auto", "GPU": "cupy"}
SLICE = 1 << 28
"""Numbers that a rival keeps at a time: it takes larger batches in slices of rows."""

# --- the GPU, and what plain libraries do on it ---------------------------------------------------


def cupy() -> Any:
    """CuPy, where there is a GPU for it.

    Raises
    ------
    DataError
        If there is none.
    """
    found = hot.gpu()
    if "none" in found:
        raise DataError(found["none"])
    return importlib.import_module("cupy")


def torch() -> Any:
    """PyTorch, where it has the GPU; else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    module = importlib.import_module("torch")
    return module if module.cuda.is_available() else None


def waited(work: Work) -> Work:
    """The call and the wait until the device is done."""
    wait = cupy().cuda.Device().synchronize

    def both() -> None:
        work()
        wait()

    return both


def rivals() -> dict[str, Any]:
    """The libraries there are, with functions of the same names on arrays of the GPU."""
    found: dict[str, Any] = {"CuPy": _CuPy()}
    module = torch()
    if module is not None:
        found["PyTorch"] = _Torch(module)
    return found


class _CuPy:
    """What one writes by hand, in place."""

    def __init__(self) -> None:
        self._cp = cupy()

    def put(self, array: Any) -> Any:
        return self._cp.asarray(array)

    def get(self, array: Any) -> Any:
        return self._cp.asnumpy(array)

    def joined(self, parts: list[Any]) -> Any:
        return self._cp.concatenate(parts)

    def cosines(self, X: Any, W: Any, b: Any, a: Any) -> Any:
        P = X @ W
        P += b
        self._cp.cos(P, out=P)
        return P @ a


class _Torch:
    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def put(self, array: Any) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).cuda()

    def get(self, array: Any) -> Any:
        return array.cpu().numpy()

    def joined(self, parts: list[Any]) -> Any:
        return self._torch.cat(parts)

    def cosines(self, X: Any, W: Any, b: Any, a: Any) -> Any:
        return self._torch.addmm(b, X, W).cos_() @ a


def sliced(rival: Any, X: Any, width: int, work: Callable[[Any], Any]) -> Any:
    """The work on slices of rows whose products with so many columns fit, put together."""
    rows = max(1, SLICE // width)
    return rival.joined([work(X[i : i + rows]) for i in range(0, len(X), rows)])


def described() -> dict[str, Any]:
    """The device and what drives it."""
    cp = cupy()
    runtime = cp.cuda.runtime
    properties = runtime.getDeviceProperties(0)

    def named(version: int) -> str:
        return f"{version // 1000}.{version % 1000 // 10}"

    return {
        "device": properties["name"].decode(),
        "memory_gib": round(properties["totalGlobalMem"] / 2**30, 1),
        "driver_for_cuda": named(runtime.driverGetVersion()),
        "cuda": named(runtime.runtimeGetVersion()),
        "cupy": cp.__version__,
    }


# --- prediction ---------------------------------------------------------------------------------

CASES = (
    Case(4096, 54, 256),
    Case(4096, 54, 4096),
    Case(4096, 54, 65536),
    Case(16384, 784, 256),
    Case(16384, 784, 4096),
    Case(65536, 54, 256),
    Case(65536, 54, 4096),
    Case(65536, 54, 65536),
    Case(1 << 20, 54, 256),
    Case(1 << 20, 54, 4096),
)
WAYS = (", CPU", ", GPU", ", GPU, there")
_LEARNED = 256
"""Events of the batch that a model has learned."""


def measure_prediction(options: argparse.Namespace) -> dict[str, Any]:
    """Times of the cases."""
    clock = _clock(options)
    cases = [case.quick() for case in CASES[:2]] if options.quick else CASES
    return {"device": described(), "cases": [_predict(clock, case) for case in cases]}


def _clock(options: argparse.Namespace) -> Clock:
    cupy()
    return QUICK if options.quick else Clock(options.rounds, 0.03, rest=0.02)


def _predict(clock: Clock, case: Case) -> dict[str, Any]:
    common.note(f"prediction, {case}, {case.events:,} events")
    some, works = hot.numbers(case), {}
    for sampler, name in SAMPLERS.items():
        host = hot.model(sampler, Case(case.features, case.columns, min(_LEARNED, case.events)))
        device = DoublyStochastic.from_state(host.state(), backend="cupy")
        works[f"{name}, CPU"] = partial(host.decision_many, some.X)
        works[f"{name}, GPU"] = partial(device.decision_many, some.X)
        works[f"{name}, GPU, there"] = waited(_there(sampler, case, host.coefficients, some.X))
    for name, rival in rivals().items():
        arrays = [rival.put(array) for array in (some.X, some.W, some.b, some.a)]
        works[name] = waited(partial(_by_rival, rival, case.features, *arrays))
    return {
        "events": case.events,
        "features": case.features,
        "columns": case.columns,
        "us": hot.spreads(clock.race(works)),
    }


def _by_rival(rival: Any, features: int, X: Any, W: Any, b: Any, a: Any) -> Any:
    return sliced(rival, X, features, lambda x: rival.cosines(x, W, b, a))


def _there(sampler: str, case: Case, coefficients: Any, X: Any) -> Work:
    """The call under a model's prediction, with everything on the GPU."""
    backend = backends.select("cupy")
    blocks = FeatureBlocks(
        hot.kernel(case),
        column_keys(range(case.columns)),
        seed=SEED,
        sampler=sampler,
        backend=backend,
        dtype=np.dtype(np.float32),
        cache_bytes=1 << 30,
    )
    chunks = blocks.whole(-(-case.features // CHUNK))
    A = np.zeros((chunks * CHUNK, 1), np.float32)
    A[: case.features] = coefficients
    there = backend.put(A.reshape(chunks, 1, CHUNK))
    work = partial(blocks.decide, backend.put(X), there, 1.0)
    work()
    return work


def render_prediction(found: Mapping[str, Any]) -> str:
    """The tables of batches that are predicted, and the device."""
    others = [name for name in found["cases"][0]["us"] if name in ("CuPy", "PyTorch")]
    dense, hadamard = [], []
    for one in found["cases"]:
        us = {name: figure["median"] for name, figure in one["us"].items()}
        title = f"{one['events']:,} x {one['features']:,}, d={one['columns']}"
        ours = {name: [us[f"{name}{way}"] for way in WAYS] for name in SAMPLERS.values()}
        gains = {name: f"{times[0] / times[1]:.1f}" for name, times in ours.items()}
        cells = map(hot.short, [*ours["dense"], *(us[name] for name in others)])
        dense.append([title, *cells, gains["dense"]])
        faster = f"{ours['dense'][2] / ours['Hadamard'][2]:.2f}"
        hadamard.append([title, *map(hot.short, ours["Hadamard"]), gains["Hadamard"], faster])
    names, device = ["CPU", "GPU", "there"], found["device"]
    about = (
        f"GPU: {device['device']}, {device['memory_gib']} GiB; CUDA {device['cuda']}, driver "
        f"for {device['driver_for_cuda']}, CuPy {device['cupy']}."
    )
    header = ["predicted, Hadamard, µs", *names, "CPU / GPU", "dense / Hadamard"]
    return "\n\n".join(
        (
            common.table(["predicted, dense, µs", *names, *others, "CPU / GPU"], dense),
            common.table(header, hadamard),
            about,
        )
    )


# --- learning -----------------------------------------------------------------------------------


class Steps(NamedTuple):
    batch: int
    features: int
    columns: int
    steps: int
    sampler: str = "iid"


STEPS = (
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


def measure_learning(options: argparse.Namespace) -> dict[str, Any]:
    """Rates of steps and of single events, and EigenPro's seconds."""
    clock, quick = _clock(options), options.quick
    cases = [Steps(8, 128, 4, 2)] if quick else STEPS
    return {
        "steps": [_steps(clock, case) for case in cases],
        "one": _one(clock, 128 if quick else 4096),
        "eigenpro": [_eigenpro(*sizes) for sizes in ([(200, 300)] if quick else LARGE)],
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
    done = waited(work)
    return lambda: count / common.timed(done)


def _one(clock: Clock, features: int) -> dict[str, Any]:
    """One event at a time, as a stream brings them."""
    X, y = events(64, 54)
    works: dict[str, Callable[[], Any]] = {}
    for place in PLACES:
        model = _model(Steps(1, features, 54, 1), place)
        model.learn_many(X, y)
        works[f"{place}: predict"] = lambda model=model: model.decision_one(X[0])
        works[f"{place}: learn"] = waited(lambda model=model: model.learn_one(X[0], y[0]))
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


def render_learning(found: Mapping[str, Any]) -> str:
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
    title = f"one event, m={found['one']['features']:,} d=54, µs"
    columns = ["learned, s: CPU", "GPU", "4,096, ms: CPU", "GPU", "RMSE: CPU", "GPU"]
    return "\n\n".join(
        (
            common.table(["events/s learned, batches of", *PLACES, "GPU / CPU"], steps),
            common.table([title, *PLACES], one),
            common.table(["eigenpro, d=54", *columns, "difference"], large),
        )
    )


PARTS = {
    "prediction": Part(measure_prediction, render_prediction),
    "learning": Part(measure_learning, render_learning),
}

render, run = common.topic(NAME, __doc__, PARTS, settings=hot.settings, rounds=3)


if __name__ == "__main__":
    sys.exit(common.main(run))
