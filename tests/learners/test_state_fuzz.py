"""A state that is damaged, or made to do harm, is refused or does none; see `state_fuzz`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from state_fuzz import LEARNERS, OF_ONE_KERNEL, POOLED, Arrays, events, fate, labels, trained

from streamk.errors import InvalidInput, StateError
from streamk.learners.registry import create, from_state
from streamk.state import State

_KIT = Path(__file__).parents[1] / "state_fuzz.py"
_OTHERS = os.environ.get("STREAMK_FUZZ_LEARNERS")
"""Learners to judge instead of all, by their names in `state_fuzz.LEARNERS`, with commas."""
_EACH = 500
"""Mutations of a process."""


def judge(first: int, count: int, names: Sequence[str], *, guard: bool = False) -> Counter[str]:
    """Return how often mutations came to what; fail at those that came to no good."""
    command = [sys.executable, str(_KIT), "--first", str(first), "--count", str(count)]
    command += ["--learners", ",".join(names), *(["--guard"] if guard else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [line for line in lines if "found" in line]
    begun = next((line for line in reversed(lines) if "begun" in line), "no mutation")
    assert done.returncode == 0, f"ended by {done.returncode} at {begun}\n{done.stderr[-5000:]}"
    faults = [line for line in found if line["found"].startswith("FAULT")]
    assert not faults, "\n".join(map(str, faults[:20]))
    assert len(found) == count
    return Counter(line["found"] for line in found)


def chosen(names: Sequence[str]) -> list[str]:
    """Return those of some learners that are to be judged."""
    return list(names) if _OTHERS is None else [n for n in _OTHERS.split(",") if n in names]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", [OF_ONE_KERNEL, POOLED], ids=["of one kernel", "pooled"])
def test_damaged_states_do_no_harm(names: Sequence[str]) -> None:
    some = chosen(names)
    if not some:
        pytest.skip("others were chosen")
    found = judge(0, 50, some)
    assert found["refused"] > 10 < found["harmless"]


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("guard", [False, True], ids=["as it is", "guarded"])
def test_many_damaged_states_do_no_harm(guard: bool) -> None:
    """Judge 10,000, or 2,000 of pools whose arrays end where memory ends."""
    names = chosen(POOLED if guard else list(LEARNERS))
    if not names:
        pytest.skip("others were chosen")
    firsts = range(10_000, 12_000 if guard else 20_000, _EACH)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda first: judge(first, _EACH, names, guard=guard), firsts))
    print(sum(found, Counter()))


def test_reading_beyond_a_guarded_array_is_seen() -> None:
    """Read the number behind an array, as compiled code that knows no length does."""
    code = (
        "import ctypes, numpy as np, state_fuzz\n"
        "array = state_fuzz.guarded({'a': np.arange(16.0)})['a']\n"
        "at = ctypes.POINTER(ctypes.c_double)\n"
        "place = ctypes.cast(array.ctypes.data, at)\n"
        "print(place[15], flush=True)\n"
        "place[16]\n"
    )
    path = os.pathsep.join([str(_KIT.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.stdout, done.returncode) == ("15.0\n", -signal.SIGSEGV)


# --- what was found by hand -----------------------------------------------------------------------


def damaged(name: str, change: dict[str, Any] | None = None, **arrays: Any) -> State:
    """Return a trained state with other entries in the learner's header, and other arrays."""
    state = trained(name)
    parts: Any = state.header["parts"]
    learner = {**parts["learner"], **(change or {})}
    header: Any = {**state.header, "parts": {**parts, "learner": learner}}
    found: Arrays = {**state.arrays}
    for key, array in arrays.items():
        found[key.replace("__", ".")] = array
    return State(header, found)


@pytest.mark.parametrize(
    ("name", "array", "value", "match"),
    [
        ("streaming-meka", "learner.function.features.centers", np.zeros((2, 7)), "landmarks"),
        ("streaming-meka", "learner.function.features.cluster0.columns", np.array([9**9]), "colum"),
        ("streaming-meka", "learner.function.features.cluster0.kept", np.array([-1]), "'kept'"),
        ("streaming-meka newton", "learner.buffer.y", np.full(50, 3.0), "'y' of an event buffer"),
        ("streaming-meka newton", "learner.buffer.numbers", np.full(50, -1), "'numbers'"),
        ("online-nystrom", "learner.landmarks.points", np.zeros((12, 4)), "'landmarks.points'"),
        ("online-nystrom", "learner.landmarks.factor", np.eye(12) * 1e-9, "'factor'"),
        ("doubly-stochastic adagrad", "learner.gathered_labels", np.array([5.0]), "gathered"),
        ("doubly-stochastic", "scale.quantiles.inverse", np.full(3, np.nan), "'inverse'"),
        ("doubly-stochastic numbers", "labels.bounds", np.array([np.nan, 1.0]), "'bounds'"),
    ],
)
def test_an_array_of_no_use_is_named(name: str, array: str, value: Any, match: str) -> None:
    with pytest.raises(StateError, match=match):
        from_state(damaged(name, **{array: value}))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("doubly-stochastic new", {"max_features": 2**34, "block_size": 2**34}),
        ("doubly-stochastic", {"n_steps": 2**40, "max_features": 2**34}),
        ("doubly-stochastic", {"columns": "abc"}),
        ("doubly-stochastic numbers", {"widths": [64] * 1000}),
        ("online-nystrom", {"n_steps": -1}),
        ("online-nystrom", {"max_landmarks": 11}),
        ("streaming-meka", {"rank": 2**40}),
        ("streaming-meka", {"buffer_size": 2**40}),
        ("streaming-meka", {"next": {"at": 3, "failure": None}}),
        ("streaming-meka", {"began": 10**6}),
    ],
)
def test_a_header_that_asks_for_more_than_there_is(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        from_state(damaged(name, change))


def test_arrays_of_no_numbers_prove_no_size() -> None:
    """A learner without classes has coefficients of no outputs, for any number of features."""
    none: Any = {"classes": [], "n_steps": 2**40, "max_features": 2**34}
    empty = np.zeros((2**28, 0, 64), np.float32)
    with pytest.raises(StateError, match="without columns or classes"):
        from_state(damaged("doubly-stochastic", none, learner__coefficients=empty))
    state = trained("streaming-meka plain")
    arrays = {**state.arrays, "function.coefficients": np.zeros((2**40, 0))}
    arrays["function.features.cluster0.map"] = np.zeros((0, 2**40))
    arrays["function.features.cluster0.landmarks"] = np.zeros((0, 3))
    none = {"classes": [], "loss": {"name": "softmax"}, "next": None}
    with pytest.raises(StateError, match="more columns than there are landmarks"):
        from_state(State({**state.header, **none}, arrays))


def test_outputs_that_overflow_are_bounded() -> None:
    state = trained("online-nystrom newton")
    huge = np.full_like(state.arrays["learner.coefficients"], 1e308)
    model = from_state(State(state.header, {**state.arrays, "learner.coefficients": huge}))
    X, y = events(5)
    assert np.isfinite(model.predict_many(X)).all()
    assert np.isfinite(model.predict_one(X[0]))
    with contextlib.suppress(InvalidInput):  # it may say that predictions overflowed
        model.learn_many(1e6 * X, y)
    assert np.isfinite(model.predict_many(X)).all()


# --- what real streams leave ----------------------------------------------------------------------


def test_all_trained_states_are_sound() -> None:
    for name, (task, _) in LEARNERS.items():
        if name in chosen(list(LEARNERS)):
            assert fate(trained(name), task) == "harmless", name
            assert labels(task, events(3)[1]).shape == (3,)


@pytest.mark.parametrize(("factor", "unit"), [(1e-160, 1.0), (1e149, 1.8e19)])
def test_what_numbers_near_the_last_ones_leave_is_loaded(factor: float, unit: float) -> None:
    rng = np.random.default_rng(0)
    learner = create("online-nystrom", task="regression", max_landmarks=8)
    with np.errstate(all="ignore"):
        for part in range(4):
            X = factor * rng.normal(size=(90, 3))
            y = unit * rng.uniform(-1.0, 1.0, 90) * (1.0 if part % 2 else 1e-20)
            learner.learn_many(X, y)
            assert np.isfinite(from_state(learner.state()).predict_many(X[:4])).all()


@pytest.mark.parametrize("model", ["online-nystrom", "streaming-meka", "doubly-stochastic"])
@pytest.mark.parametrize("step", [50.0, 1e4, 1e200])
def test_what_steps_that_are_too_large_leave_is_loaded(model: str, step: float) -> None:
    learner = create(model, task="regression", step=step)
    X, y = events(200)
    for part in range(20):
        some = slice(10 * part, 10 * part + 10)
        with contextlib.suppress(InvalidInput):
            learner.learn_many(X[some], y[some])
        again = from_state(learner.state())
        assert np.isfinite(again.predict_many(X[:5])).all()
