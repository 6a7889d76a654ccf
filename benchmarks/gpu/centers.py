"""Kernels between events and centers, times coefficients: what an EigenPro model predicts by.

"CPU" is `Kernel.product` on NumPy's arrays, in float32 on all cores; "GPU" is the same with the
arrays sent there and the product fetched, "GPU, there" on arrays that are there. CuPy evaluates the
distances by a matrix product, as PyTorch's `cdist` does, and both keep the kernels of a slice of
rows, of 1 GiB. Half of the events lie beside a center: there a matrix product cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks import common, hot
from benchmarks.gpu import there
from benchmarks.hot import SEED, Clock, Count
from streamk.kernels import Gaussian, Kernel, Matern

CHECKED = 16


class Centers(NamedTuple):
    kernel: str
    events: int
    centers: int
    columns: int
    outputs: int


CASES = (
    Centers("matern", 256, 10_000, 54, 2),
    Centers("matern", 4096, 10_000, 54, 2),
    Centers("matern", 4096, 100_000, 54, 2),
    Centers("gaussian", 4096, 100_000, 54, 2),
    Centers("matern", 4096, 100_000, 784, 10),
)


def measure(clock: Clock, limits: Mapping[str, Any], *, quick: bool) -> list[dict[str, Any]]:
    """Times, errors and bounds of the cases."""
    cases = [Centers("matern", 20, 100, 5, 2)] if quick else CASES
    return [_measure(clock, limits, case) for case in cases]


def _measure(clock: Clock, limits: Mapping[str, Any], case: Centers) -> dict[str, Any]:
    common.note(f"centers, {case}")
    width = math.sqrt(case.columns)
    kernel: Kernel = (
        Gaussian(bandwidth=width) if case.kernel == "gaussian" else Matern(nu=0.5, bandwidth=width)
    )
    rng = np.random.default_rng(SEED)

    def normals(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    Y, V = normals(case.centers, case.columns), normals(case.centers, case.outputs)
    X = normals(case.events, case.columns)
    X[::2] = Y[: len(X[::2])] + np.float32(1e-3) * X[::2]
    exact = kernel.product(X[:CHECKED], Y, V, dtype="float64")
    backend = there.backend()
    x, y, v = map(backend.put, (kernel.mapped(X), kernel.mapped(Y), V))
    works = {
        "CPU": lambda: kernel.product(X, Y, V, dtype="float32"),
        "GPU": lambda: kernel.product(X, Y, V, dtype="float32", backend="cupy"),
        "GPU, there": there.waited(lambda: kernel.product_on(backend, x, y, v)),
    }
    found = {name: works[name]()[:CHECKED] for name in ("CPU", "GPU")}
    for name, rival in there.rivals().items():
        a, b, w = (rival.put(array) for array in (X, Y, V))

        def product(rival: Any = rival, a: Any = a, b: Any = b, w: Any = w) -> Any:
            return there.sliced(
                rival, a, case.centers, lambda some: rival.kernel(case.kernel, width, some, b, w)
            )

        works[name] = there.waited(product)
        found[name] = rival.get(product())[:CHECKED]
    times = clock.race(works)
    return {
        **case._asdict(),
        "us": hot.spreads(times),
        "bound_us": there.bound(_count(case), limits),
        "errors": {name: there.relative(F, exact) for name, F in found.items()},
    }


def _count(case: Centers) -> Count:
    """A difference and its square a column, ten operations for the kernel, one an output."""
    pairs = case.events * case.centers
    operations = pairs * (2 * case.columns + 10 + case.outputs)
    numbers = (case.events + case.centers) * (case.columns + case.outputs)
    return Count(operations, pairs * (3 * case.columns + 10 + 2 * case.outputs), 4 * numbers)


def render(found: list[dict[str, Any]]) -> str:
    """The tables of this part."""
    names = list(found[0]["us"])
    rows, errors = [], []
    for one in found:
        us = {name: one["us"][name]["median"] for name in names}
        title = (
            f"{one['kernel']}, {one['events']:,} x {one['centers']:,}, d={one['columns']}, "
            f"{one['outputs']}"
        )
        share = f"{100 * one['bound_us'] / us['GPU, there']:.0f}%"
        ratio = f"{us['CPU'] / us['GPU']:.1f}"
        rows.append([title, *(hot.short(us[name]) for name in names), ratio, share])
        errors.append([title, *(f"{e:.1e}" for e in one["errors"].values())])
    names[2] = "there"
    header = ["kernels, outputs, µs", *names, "CPU / GPU", "of bound"]
    return "\n\n".join(
        (
            common.table(header, rows),
            common.table(["relative error", *found[0]["errors"]], errors),
        )
    )
