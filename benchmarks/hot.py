"""What the benchmarks of the hot loops share: numbers, our models, timing, tables of cases.

A figure is the time of one call, out of a loop of `Clock.least` seconds or more. Contestants take
turns and ratios are taken round by round. All libraries use the threads that they take by
themselves, unless a line says "one core".
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
import timeit
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks import common
from streamk import backends
from streamk.errors import StreamkError
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

SEED = 1
SAMPLERS = {"iid": "dense", "hadamard": "Hadamard"}
"""Ways to draw frequencies, and what the tables call them."""

Work = Callable[[], Any]
Times = dict[str, list[float]]
"""Seconds a call of each contestant, round by round."""


# --- timing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clock:
    """How often, and for how long, each contestant is timed."""

    rounds: int
    least: float
    """Seconds of a loop around a call."""
    rest: float = 0.15
    """Seconds that threads of BLAS look for more work before they sleep, on the next one's core."""

    def race(self, works: Mapping[str, Work], one_core: Collection[str] = ()) -> Times:
        """Time the calls in turn; BLAS has one core for those named."""
        timers = {
            name: self._timer(work, 1 if name in one_core else None) for name, work in works.items()
        }
        return common.in_turn(timers, self.rounds)

    def _timer(self, work: Work, cores: int | None) -> Callable[[], float]:
        work()  # compiles, fills caches
        loop = timeit.Timer(work).timeit
        count, seconds = 1, loop(1)
        while seconds < self.least / 4:
            count *= 4
            seconds = loop(count)
        count = max(1, math.ceil(count * self.least / seconds))

        def once() -> float:
            time.sleep(self.rest)
            with threadpool_limits(cores, "blas"):
                if count > 1:
                    loop(count)  # until its own threads have found their cores
                return loop(count) / count

        return once


QUICK = Clock(1, 1e-4, rest=0.0)


def clock_of(options: argparse.Namespace) -> Clock:
    """The clock of a full run, or of a quick one."""
    return QUICK if options.quick else Clock(options.rounds, 0.06)


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """What the record says of how it was measured."""
    clock = clock_of(options)
    return {"rounds": clock.rounds, "seconds_a_loop": clock.least, "seed": SEED}


def spreads(times: Times, unit: float = 1e6) -> dict[str, dict[str, Any]]:
    """The spread of each contestant's times, in microseconds by default."""
    return {name: common.spread(unit * s for s in seconds) for name, seconds in times.items()}


def ratio(times: Times, over: str, under: str) -> list[float]:
    """The first contestant's time over the second's, round by round."""
    return [a / b for a, b in zip(times[over], times[under], strict=True)]


def fastest(times: Times, names: Collection[str]) -> str:
    """The contestant with the smallest median."""
    return min(names, key=lambda name: common.spread(times[name])["median"])


# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """How many features, columns and events a call."""

    features: int
    columns: int
    events: int = 1

    def __str__(self) -> str:
        return f"m={self.features:,} d={self.columns}"

    def quick(self) -> Case:
        """A small one instead, wider where this is wider.

        One Hadamard transform is enough for all of them: for another width all is compiled anew.
        """
        return Case(512 if self.features > 4096 else 256, min(self.columns, 64), self.events)


class Numbers(NamedTuple):
    """Generated normals, and plain random features of them in radians."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    W: NDArray[np.float32]
    b: NDArray[np.float32]
    a: NDArray[np.float32]


def numbers(case: Case) -> Numbers:
    """The same numbers for all contestants and runs."""
    m, d, n = case.features, case.columns, case.events
    rng = np.random.default_rng(SEED)

    def normals(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32)

    X = normals(n, d)
    W = normals(d, m) / np.float32(math.sqrt(d))
    b = 2.0 * np.float32(math.pi) * rng.random(m, dtype=np.float32)
    return Numbers(X, np.sign(X[:, 0]).astype(np.float64), W, b, normals(m) / np.float32(m**0.5))


# --- our models ---------------------------------------------------------------------------------


def kernel(case: Case) -> Gaussian:
    """The kernel of the plain features in `numbers`."""
    return Gaussian(bandwidth=math.sqrt(case.columns))


def model(sampler: str, case: Case, **options: Any) -> DoublyStochastic:
    """A learner that has learned one batch of a case: all features are in use."""
    options = {
        "block_size": case.features,
        "batch_size": case.events,
        "cache_bytes": 1 << 30,
        **options,
    }
    learner = DoublyStochastic(
        kernel(case),
        loss="squared",
        seed=SEED,
        sampler=sampler,
        max_features=case.features,
        **options,
    )
    some = numbers(case)
    learner.learn_many(some.X, some.y)
    return learner


def gpu() -> dict[str, str]:
    """The device that the models can have, or under "none" why there is no one."""
    try:
        backends.select("cupy")
    except StreamkError as error:
        return {"none": str(error)}
    runtime = importlib.import_module("cupy").cuda.runtime
    return {
        "device": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": str(runtime.driverGetVersion()),
    }


# --- tables -------------------------------------------------------------------------------------


def short(value: float) -> str:
    """Three digits or so."""
    digits = 3 if value < 1 else max(0, 2 - int(math.log10(value)))
    return f"{value:,.{digits}f}"


def cell(figure: Mapping[str, Any]) -> str:
    """A spread in one cell: the median, and half the range in per cent of it."""
    half = 50 * (figure["high"] - figure["low"]) / figure["median"]
    return f"{short(figure['median'])} ±{half:.0f}%"


def case_tables(title: str, cases: Sequence[Mapping[str, Any]]) -> str:
    """Times and ratios of several cases with the same contestants, a column each.

    The ways to write a product (``X @ W``) are in the JSON alone.
    """
    header = [case["case"] for case in cases]
    names = [name for name in cases[0]["us"] if "@" not in name]
    times = common.table(
        [f"{title}, µs (medians)", *header],
        [[n, *(short(case["us"][n]["median"]) for case in cases)] for n in names],
    )
    ratios = common.table(
        [f"{title}, ratios", *header],
        [[n, *(cell(case["ratios"][n]) for case in cases)] for n in cases[0]["ratios"]],
    )
    return f"{times}\n\n{ratios}"
