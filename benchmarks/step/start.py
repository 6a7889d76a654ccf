"""Fresh processes up to their first event, where numba has all it needs in its cache.

The start of Python is left out. "first event" is a `KernelClassifier` made, an event learned and
predicted; its module imports River. Without `warm_up` that event waits for numba.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks import common, hot

GOAL = 1.5
"""Seconds."""
_SCRIPT = """
import json, time
clock = [time.perf_counter()]
import streamk
clock.append(time.perf_counter())
if {warm}:
    streamk.warm_up()
clock.append(time.perf_counter())
from streamk.adapters.river import DoublyStochasticClassifier, KernelClassifier
clock.append(time.perf_counter())
model = {model}(seed=1, **{options!r})
model.learn_one(x := {{f"x{{j}}": 0.1 * j for j in range(54)}}, True)
model.predict_one(x)
clock.append(time.perf_counter())
print(json.dumps([b - a for a, b in zip(clock, clock[1:])]))
"""
STEPS = ("import streamk", "warm_up()", "import streamk.adapters.river", "first event")
TOTAL = "together"
WAYS = {
    "many kernels": {"warm": True, "model": "KernelClassifier", "options": {}},
    "dense": {"warm": True, "model": "DoublyStochasticClassifier", "options": {}},
    "Hadamard": {
        "warm": True,
        "model": "DoublyStochasticClassifier",
        "options": {"sampler": "hadamard"},
    },
    "dense, no warm_up": {"warm": False, "model": "DoublyStochasticClassifier", "options": {}},
}


def measure(rounds: int, *, quick: bool) -> dict[str, Any]:
    """Seconds of each step in each way, and the goals."""
    for way in () if quick else WAYS:
        _seconds(way)  # compiles, and keeps what is compiled
    figures: dict[str, dict[str, list[float]]] = {
        way: {step: [] for step in (*STEPS, TOTAL)} for way in WAYS
    }
    for number in range(rounds):
        for way, found in figures.items():
            seconds = _seconds(way)
            common.note(f"  round {number + 1}: {way}: {sum(seconds):.3f}")
            for step, value in zip(found, (*seconds, sum(seconds)), strict=True):
                found[step].append(value)
    goals = [
        hot.goal(f"fresh process up to its first event, {way}", found[TOTAL], " s", most=GOAL)
        for way, found in figures.items()
        if WAYS[way]["warm"]
    ]
    return {
        "seconds": {
            way: {step: common.spread(values) for step, values in found.items()}
            for way, found in figures.items()
        },
        "goals": goals,
    }


def _seconds(way: str) -> list[float]:
    code = _SCRIPT.format(**WAYS[way])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=common.ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(value) for value in json.loads(done.stdout)]


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    ways = found["seconds"]
    return common.table(
        ["fresh process, seconds", *ways],
        [[step, *(hot.cell(way[step]) for way in ways.values())] for step in (*STEPS, TOTAL)],
    )
