"""What the benchmarks of the hot loops share: numbers, our models, timing, counts, goals.

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
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks import common
from streamk import backends
from streamk.backends import CHUNK, Hadamard, LossCode
from streamk.errors import StreamkError
from streamk.features.blocks import FeatureBlocks
from streamk.features.columns import column_keys
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


def clock(options: argparse.Namespace) -> Clock:
    """The clock of a full run, or of a quick one."""
    return QUICK if options.quick else Clock(options.rounds, 0.06)


def settings(clock: Clock) -> dict[str, Any]:
    """What the record says of how it was measured."""
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


_NO_SQUARES = np.empty((0, 1, CHUNK), np.float32)
_SQUARED = (int(LossCode.SQUARED), 0.0, False)


def feature_blocks(sampler: str, case: Case, backend: Any, **options: Any) -> FeatureBlocks:
    """The features of `model` on a backend."""
    return FeatureBlocks(
        kernel(case),
        column_keys(range(case.columns)),
        seed=SEED,
        sampler=sampler,
        backend=backend,
        dtype=np.dtype(np.float32),
        cache_bytes=1 << 30,
        **options,
    )


class Compiled:
    """The compiled functions under a model, on arrays that are prepared: one core, no checks."""

    def __init__(self, sampler: str, case: Case, learner: DoublyStochastic) -> None:
        self._backend = backends.select()
        self.X, self._y = numbers(case)[:2]
        blocks = feature_blocks(sampler, case, self._backend, threads=1)
        chunks = -(-case.features // CHUNK)
        self.basis = blocks.kept(chunks)
        assert self.basis is not None
        self._amplitude = blocks.amplitude
        coefficients = np.zeros((chunks * CHUNK, 1), np.float32)
        coefficients[: case.features] = learner.coefficients
        self._A = coefficients.reshape(chunks, 1, CHUNK)
        self._F = np.empty((case.events, 1))
        self._alone = case.events == 1
        self.predict()()
        if not np.allclose(self._F, learner.decision_many(self.X), rtol=1e-4, atol=1e-4):
            raise AssertionError(f"{sampler}, {case}: the model predicts something else")

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the Hadamard transforms, none where frequencies are dense."""
        return self.basis.widths if isinstance(self.basis, Hadamard) else ()

    def predict(self) -> Work:
        """One call that predicts the events; a single one as the public calls do."""
        if self._alone:
            return partial(self._single(self._A).predict, self.X[0], self._amplitude, self._F[0])
        return partial(
            self._backend.predict,
            self.X,
            self.basis,
            self._A,
            True,
            False,
            self._amplitude,
            self._F,
        )

    def step(self) -> Work:
        """One call that predicts the events and moves all features, by a step that converges."""
        m, A = len(self._A) * CHUNK, self._A.copy()
        factors = (self._amplitude, self._amplitude / len(self.X), 0.5 / m)
        if self._alone:
            step, y = self._single(A).step, float(self._y[0])
            return partial(step, self.X[0], y, (0, m), *factors, self._F[0])
        return partial(
            self._backend.step,
            self.X,
            self._y,
            self.basis,
            A,
            _NO_SQUARES,
            (0, 0, m),
            True,
            False,
            _SQUARED,
            *factors,
            self._F,
        )

    def _single(self, A: Any) -> backends.Single:
        return self._backend.single(self.basis, A, _NO_SQUARES, True, False, _SQUARED)


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


# --- counts -------------------------------------------------------------------------------------

COSINE = (9, 14)
"""Operations and flops of a cosine in turns: round, subtract, square, bound, five fma."""


class Count(NamedTuple):
    """Work of a call. An operation is an addition, or a multiplication and an addition in one."""

    operations: int
    flops: int
    bytes: int
    """Read once by a call: what gives the features, coefficients, events."""


def count(case: Case, widths: Sequence[int] = ()) -> Count:
    """Count predicting one output; `widths` are those of Hadamard transforms.

    Dense: d fma a feature and event. Hadamard: three rounds of log2(width) additions and one fma
    with a length, for each group of columns; shuffles and signs are not counted. Then the cosine
    and an fma with the coefficient.
    """
    if widths:
        butterflies = 3 * sum(int(math.log2(width)) for width in widths)
        operations, flops = butterflies + len(widths), butterflies + 2 * len(widths)
        basis = len(widths) * (3 / 8 + 4)
    else:
        operations, flops, basis = case.columns, 2 * case.columns, 4 * case.columns
    each = case.features * case.events
    return Count(
        each * (operations + COSINE[0] + 1),
        each * (flops + COSINE[1] + 2),
        round(case.features * (basis + 8)) + case.events * 4 * (case.columns + 2),
    )


class Machine:
    """What sgemm computes and sdot reads in a second, on one core or on all."""

    def __init__(self, clock: Clock, size: int) -> None:
        self._clock = clock
        square = np.ones((size, size), np.float32)
        out = np.empty_like(square)
        work = partial(np.matmul, square, square, out=out)
        times = clock.race({"sgemm, one core": work, "sgemm": work}, ["sgemm, one core"])
        self._flops = {
            cores: common.spread(2e-9 * size**3 / s for s in times[name])
            for cores, name in ((1, "sgemm, one core"), (None, "sgemm"))
        }
        self.size = size

    def sgemm(self, cores: int | None) -> dict[str, Any]:
        """GFlop/s of a large square product."""
        return self._flops[cores]

    def bound(self, work: Count, cores: int | None) -> dict[str, Any]:
        """Microseconds that the work takes at least, at those rates, and what says so."""
        vector = np.ones(work.bytes // 4, np.float32)
        times = self._clock.race({"sdot": partial(np.dot, vector, vector)}, ["sdot"] * (cores or 0))
        reading = 1e6 * min(times["sdot"])
        computing = work.operations / (self._flops[cores]["median"] * 1e9 / 2) * 1e6
        return {
            **work._asdict(),
            "cores": cores or "all",
            "computing_us": float(f"{computing:.4g}"),
            "reading_us": float(f"{reading:.4g}"),
            "bound_us": float(f"{max(computing, reading):.4g}"),
            "bound_by": "computing" if computing >= reading else "reading",
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


def goal(
    case: str,
    values: Sequence[float],
    unit: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
) -> dict[str, Any]:
    """What was measured of what has a target, and whether its median reaches it."""
    figure = common.spread(values)
    if least is not None and most is not None:
        text = f"{least:g} to {most:g}{unit}"
    else:
        text = f"≤ {most:,g}{unit}" if least is None else f"≥ {least:,g}{unit}"
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    reached = low <= figure["median"] <= high
    return {"case": case, "goal": text, "figure": figure, "reached": reached}


def goals_table(goals: Sequence[Mapping[str, Any]], title: str = "goals") -> str:
    """The table of goals."""
    rows = []
    for one in goals:
        figure = one["figure"]
        low_high = f"{short(figure['low'])} to {short(figure['high'])}"
        reached = "yes" if one["reached"] else "no"
        rows.append([one["case"], short(figure["median"]), low_high, one["goal"], reached])
    return common.table([title, "median", "range", "goal", "reached"], rows)


def bounds_table(bounds: Sequence[Mapping[str, Any]]) -> str:
    """The table of counts, of the bound they imply, and of how much of it was reached."""
    rows = []
    for one in bounds:
        measured = one["measured_us"]
        rows.append(
            [
                one["case"],
                f"{one['flops'] / 1e6:,.2f}",
                f"{one['bytes'] / 1e6:,.2f}",
                short(one["computing_us"]),
                short(one["reading_us"]),
                short(measured),
                f"{100 * one['bound_us'] / measured:.0f}%",
            ]
        )
    header = ["counted, µs", "Mflop", "MB", "computing", "reading", "measured", "of bound"]
    return common.table(header, rows)


def document(
    document: Mapping[str, Any], parts: Mapping[str, Callable[[Mapping[str, Any]], str]]
) -> str:
    """The tables of the parts that were measured, their goals, where the figures come from."""
    results = document["results"]
    tables = [render(results[name]) for name, render in parts.items() if name in results]
    goals = [goal for found in results.values() for goal in found["goals"]]
    if goals:
        tables.append(goals_table(goals))
    return "\n\n".join([*tables, common.origin(document)])
