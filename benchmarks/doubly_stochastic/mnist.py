"""Figure 1 (4): MNIST with virtual examples, ten classes, softmax.

Every event is a virtual example of a training image, another one each time (`virtual`); a pass is
60,000 of them. Images have length 1 and are projected onto 100 directions, the kernel is that of
the authors' code (`problems`). "growing" draws a block of 256 features for each batch of 64 and
visits none twice; "2^15 features" is the default batch of 8 until there are so many, whose blocks
then have their turns; "preconditioned" has the batches of 2^13 and the blocks of 2^11 features of
the authors' code divided by four and two, and its steps 1 / (1 + t / 10,000), no regularization.
"preconditioned, steps found" has the same batches and blocks, of which there are 16, and the
learner's own sizes of steps. The sizes of the other steps are chosen by the error on 5,000 training
images that are held out, after 20,000 virtual examples of the others. Seconds are processor time of
learning on one thread, which other work on the machine does not change; to make the examples and to
test is not counted.
The paper has 8.1 million examples and 2^20 features.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.doubly_stochastic import virtual
from benchmarks.doubly_stochastic.problems import median_distance, projection
from benchmarks.doubly_stochastic.steps import inverse_time
from benchmarks.intervals import cell, mean
from streamk.kernels import Gaussian
from streamk.learners import Constant, DoublyStochastic

Numbers = NDArray[Any]
Make = Callable[[float, float, int], DoublyStochastic]
"""Bandwidth, size of the step and seed to a learner."""

SEEDS, PASSES = 5, 2
HELD_OUT, TUNED = 5000, 20_000
SIZES = (1.0, 4.0, 16.0)
PAPER = 0.5
"""Per cent."""
FIXED: dict[str, Any] = {"loss": "softmax", "classes": tuple(range(10)), "threads": 1}


def _growing(bandwidth: float, size: float, seed: int) -> DoublyStochastic:
    options = {"batch_size": 64, "block_size": 256, "max_features": 1 << 20, "step": Constant(size)}
    return DoublyStochastic(Gaussian(bandwidth=bandwidth), seed=seed, **_hadamard(options))


def _turns(bandwidth: float, size: float, seed: int) -> DoublyStochastic:
    options = {"max_features": 1 << 15, "step": Constant(size)}
    return DoublyStochastic(Gaussian(bandwidth=bandwidth), seed=seed, **_hadamard(options))


def _preconditioned(bandwidth: float, size: float, seed: int) -> DoublyStochastic:
    options = {"batch_size": 1 << 13, "block_size": 1 << 11, "max_features": 1 << 20}
    step = inverse_time(size * 1e4, 1e4)
    kernel = Gaussian(bandwidth=bandwidth)
    return DoublyStochastic(
        kernel, preconditioner="block", seed=seed, step=step, **_hadamard(options)
    )


def _found(bandwidth: float, _: float, seed: int) -> DoublyStochastic:
    options = {"batch_size": 1 << 13, "block_size": 1 << 11, "max_features": 1 << 15}
    kernel = Gaussian(bandwidth=bandwidth)
    return DoublyStochastic(kernel, preconditioner="block", seed=seed, **_hadamard(options))


def _hadamard(options: Mapping[str, Any]) -> dict[str, Any]:
    return {**FIXED, "sampler": "hadamard", **options}


def methods() -> dict[str, tuple[Make, tuple[float, ...]]]:
    """Return what is measured, with the sizes of steps that are tried."""
    return {
        "growing": (_growing, SIZES),
        "2^15 features": (_turns, SIZES),
        "preconditioned": (_preconditioned, (1.0,)),
        "preconditioned, steps found": (_found, (1.0,)),
    }


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors and seconds by the number of events, for each method and seed."""
    stream = load("mnist", data, quick=quick)
    assert stream.test is not None
    n = len(stream)
    stops = [n * part // 4 for part in (1, 2, 4, 4 * PASSES)]
    project = projection(stream.X)
    bandwidth = median_distance(project(stream.X)) / 2**0.5
    test = project(stream.test[0])
    cut = n - (HELD_OUT if not quick else n // 5)
    held = project(stream.X[cut:]), stream.y[cut:]
    found: dict[str, Any] = {"events": n, "bandwidth": bandwidth, "methods": {}}
    tuned = 100 if quick else TUNED
    events = _projected(virtual.images(stream.X[:cut], stream.y[:cut], tuned, 99), project)
    for name, (make, sizes) in methods().items():
        tried = []
        for size in sizes if len(sizes) > 1 else ():
            curve = _curve(make(bandwidth, size, 0), events, held, [tuned])
            tried.append([size, curve[-1][2]])
        size = min(tried, key=lambda one: one[1])[0] if tried else sizes[0]
        found["methods"][name] = {"size": size, "tried": tried, "runs": []}
        common.note(f"  {name}: {tried}")
    for seed in range(2 if quick else SEEDS):
        images = virtual.images(stream.X, stream.y, stops[-1], seed)
        events = _projected(images, project)
        for name, (make, _) in methods().items():
            one = found["methods"][name]
            model = make(bandwidth, one["size"], seed)
            one["runs"].append(_curve(model, events, (test, stream.test[1]), stops))
            common.note(f"  {name}, seed {seed}: {one['runs'][-1]}")
    return found


def _projected(images: Any, project: Callable[[Numbers], Numbers]) -> list[tuple[Numbers, Numbers]]:
    """Virtual examples as they are learned, the same for every method."""
    return [(project(X), y) for X, y in images]


def _curve(
    model: DoublyStochastic,
    events: list[tuple[Numbers, Numbers]],
    test: tuple[Numbers, Numbers],
    stops: list[int],
) -> list[list[float]]:
    """Return events, seconds of learning and error in per cent at the stops."""
    found: list[list[float]] = []
    done, seconds = 0, 0.0
    for X, labels in events:
        at = 0
        while at < len(X):
            due = next((stop for stop in stops if stop > done), done + len(X))
            count = min(len(X) - at, due - done)
            began = time.process_time()
            model.learn_many(X[at : at + count], labels[at : at + count])
            seconds += time.process_time() - began
            at, done = at + count, done + count
            if done in stops:
                wrong = float(np.mean(np.asarray(model.predict_many(test[0])) != test[1]))
                found.append([done, round(seconds, 3), round(100.0 * wrong, 4)])
    return found


def render(found: Mapping[str, Any]) -> str:
    """A line for each method and number of passes."""
    rows = []
    for name, one in found["methods"].items():
        for at in zip(*one["runs"], strict=True):
            passes = at[0][0] / found["events"]
            rows.append(
                [
                    f"{name}, step {one['size']:g}",
                    f"{passes:g}",
                    cell(mean([error for _, _, error in at]), 2),
                    cell(mean([seconds for _, seconds, _ in at]), 1),
                ]
            )
    rows.append(["the paper, 8.1 million events", "", f"{PAPER:g}", ""])
    return common.table(["MNIST, virtual examples", "passes", "error, %", "s"], rows)
