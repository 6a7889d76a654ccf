"""Batches of events predicted by one output's coefficients of random features.

"CPU" and "GPU" are `DoublyStochastic.decision_many` on NumPy's arrays: the events go to the GPU and
the predictions come back. "GPU, there" is the same on arrays that are on the GPU, as are those of
CuPy (``cos(X @ W + b) @ a``, in place) and PyTorch (``addmm(b, X, W).cos_() @ a``, no TF32), which
take a batch in slices of rows of 1 GiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.gpu import there
from benchmarks.hot import SAMPLERS, Case, Clock, Work
from streamk.backends import CHUNK, Basis, Dense, Hadamard, numba_backend
from streamk.learners import DoublyStochastic

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
PLACES = (", CPU", ", GPU", ", GPU, there")
CHECKED = 32
"""Rows that are also predicted in float64."""
_LEARNED = 256
"""Events of the batch that a model has learned."""


def measure(clock: Clock, limits: Mapping[str, Any], *, quick: bool) -> list[dict[str, Any]]:
    """Times, errors and bounds of the cases."""
    cases = [case.quick() for case in CASES[:2]] if quick else CASES
    return [_measure(clock, limits, case) for case in cases]


def _measure(clock: Clock, limits: Mapping[str, Any], case: Case) -> dict[str, Any]:
    common.note(f"prediction, {case}, {case.events:,} events")
    some, works = hot.numbers(case), {}
    errors: dict[str, float] = {}
    bounds: dict[str, float] = {}
    for sampler, name in SAMPLERS.items():
        host = hot.model(sampler, Case(case.features, case.columns, min(_LEARNED, case.events)))
        device = DoublyStochastic.from_state(host.state(), backend="cupy")
        works[f"{name}, CPU"] = lambda host=host: host.decision_many(some.X)
        works[f"{name}, GPU"] = lambda device=device: device.decision_many(some.X)
        ours = _There(sampler, case, host.coefficients, some.X)
        works[f"{name}, GPU, there"] = there.waited(ours.predict)
        exact = ours.exact(some.X[:CHECKED])
        for place, model in (("CPU", host), ("GPU", device)):
            found = model.decision_many(some.X[:CHECKED])
            errors[f"{name}, {place}"] = there.relative(found, exact)
        bounds[name] = there.bound(hot.count(case, ours.widths), limits)
    for name, rival in there.rivals().items():
        works[name], errors[name] = _rival(rival, case, some)
    times = clock.race(works)
    return {
        "events": case.events,
        "features": case.features,
        "columns": case.columns,
        "us": hot.spreads(times),
        "bound_us": bounds,
        "flops": {"dense": hot.count(case).flops},
        "errors": errors,
    }


def _rival(rival: Any, case: Case, some: hot.Numbers) -> tuple[Work, float]:
    X, W, b, a = (rival.put(array) for array in (some.X, some.W, some.b, some.a))

    def predict() -> Any:
        return there.sliced(rival, X, case.features, lambda x: rival.cosines(x, W, b, a))

    x, w = some.X[:CHECKED].astype(np.float64), some.W.astype(np.float64)
    exact = np.cos(x @ w + some.b) @ some.a
    return there.waited(predict), there.relative(rival.get(predict())[:CHECKED], exact)


class _There:
    """The features under a model, with everything on the GPU."""

    def __init__(self, sampler: str, case: Case, coefficients: Any, X: Any) -> None:
        self._backend = there.backend()
        self._blocks = hot.feature_blocks(sampler, case, self._backend)
        chunks = self._blocks.whole(-(-case.features // CHUNK))
        self._A = np.zeros((chunks * CHUNK, 1), np.float32)
        self._A[: case.features] = coefficients
        self._A = self._A.reshape(chunks, 1, CHUNK)
        self._there, self._X = self._backend.put(self._A), self._backend.put(X)
        self.predict()

    @property
    def widths(self) -> tuple[int, ...]:
        return self._blocks.widths

    def predict(self) -> Any:
        return self._blocks.decide(self._X, self._there, 1.0)

    def exact(self, X: Any) -> Any:
        """Predictions of a few rows by the same frequencies, in double precision."""
        F, basis = np.empty((len(X), 1)), self._in_double()
        numba_backend.predict(
            X.astype(np.float64), basis, self._A.astype(np.float64), True, True, 1.0, F
        )
        return F * self._blocks.amplitude

    def _in_double(self) -> Basis:
        basis, get = self._blocks.kept(len(self._A)), self._backend.get
        assert basis is not None
        if isinstance(basis, Dense):
            return Dense(*(get(array).astype(np.float64) for array in basis))
        assert isinstance(basis, Hadamard)
        radii, b = (get(array).astype(np.float64) for array in (basis.radii, basis.b))
        return Hadamard(basis.widths, get(basis.signs), radii, b)


def render(found: list[dict[str, Any]]) -> str:
    """The tables of this part."""
    others = [name for name in found[0]["us"] if name in ("CuPy", "PyTorch")]
    dense, hadamard, errors = [], [], []
    for one in found:
        us = {name: figure["median"] for name, figure in one["us"].items()}
        title = f"{one['events']:,} x {one['features']:,}, d={one['columns']}"
        ours = {name: [us[f"{name}{place}"] for place in PLACES] for name in SAMPLERS.values()}
        gains = {name: f"{times[0] / times[1]:.1f}" for name, times in ours.items()}
        shares = {
            name: f"{100 * one['bound_us'][name] / times[2]:.0f}%" for name, times in ours.items()
        }
        rate = f"{1e-6 * one['flops']['dense'] / us['dense, GPU, there']:.1f}"
        times = map(hot.short, [*ours["dense"], *(us[name] for name in others)])
        dense.append([title, *times, gains["dense"], rate, shares["dense"]])
        faster = f"{us['dense, GPU, there'] / us['Hadamard, GPU, there']:.2f}"
        times = map(hot.short, ours["Hadamard"])
        hadamard.append([title, *times, gains["Hadamard"], shares["Hadamard"], faster])
        errors.append([title, *(f"{e:.1e}" for e in one["errors"].values())])
    names = ["CPU", "GPU", "there"]
    last = ["CPU / GPU", "Tflop/s", "of bound"]
    return "\n\n".join(
        (
            common.table(["predicted, dense, µs", *names, *others, *last], dense),
            common.table(
                ["predicted, Hadamard, µs", *names, "CPU / GPU", "of bound", "dense / Hadamard"],
                hadamard,
            ),
            common.table(["relative error", *found[0]["errors"]], errors),
        )
    )
