"""New functions of the background: in forked processes, and after an interrupt of the wait."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import numpy as np
import pytest
from feature_machine_kit import forks, in_fork
from numpy.typing import NDArray

from streamk.backends import threads
from streamk.learners import FeatureMachine
from streamk.learners.renewal import REPLACEMENTS, Background, Replacement, begun
from streamk.state import State

Numbers = NDArray[Any]

_X = np.random.default_rng(0).normal(size=(900, 3))
_Y = _X[:, 0] * _X[:, 1]


def machine(n: int) -> FeatureMachine:
    model = FeatureMachine(task="regression", swap_delay=100)
    model.learn_many(_X[:n], _Y[:n])
    return model


class Sums:
    """A function that adds up what it learns."""

    def __init__(self, total: float = 0.0) -> None:
        self.total = total

    def learn(self, numbers: Numbers) -> None:
        """Take in the numbers one by one, doubling what was there."""
        for number in numbers:
            self.total = 2.0 * self.total + number

    def state(self) -> State:
        """What there is of it."""
        return State({"type": "sums", "total": self.total}, {})


@forks
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_forked_process_makes_the_function_itself(steps: int) -> None:
    opened, began = threading.Event(), threading.Event()

    def make() -> Sums:
        began.set()
        assert opened.wait(60.0)
        return Sums(1.0)

    new = Replacement(10, make)
    for step in range(steps):
        new.learn(np.arange(step, step + 3.0))
        new.then(lambda function: setattr(function, "total", -function.total))
    assert began.wait(60.0)

    def work() -> float:
        new.learn(np.ones(2))
        assert new.wait() < 60.0
        assert not new.late
        return new.result().total

    opened.set()
    theirs = in_fork(work)
    assert work() == theirs


@forks
def test_one_that_came_out_of_a_state_is_made_of_it_again() -> None:
    new = Replacement.of({"at": 9, "failure": None}, 5, lambda: Sums(3.0), "this state")
    new.learn(np.ones(2))
    assert new.result().total == 15.0

    def work() -> float:
        new.learn(np.ones(1))
        return new.result().total

    assert (in_fork(work), work()) == (31.0, 31.0)


def test_an_interrupt_of_the_wait_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = machine(900)
    model, at = machine(560), 0

    def interrupted(_: Any) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Replacement, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.learn_many(_X[560:], _Y[560:])
    at = model.n_events
    assert 560 < at < 900
    again = FeatureMachine.from_state(model.state())
    for one in (model, again):
        one.learn_many(_X[at:], _Y[at:])
        assert np.array_equal(one.predict_many(_X), expected.predict_many(_X))


# --- the thread that makes functions anew yields to those that others wait for --------------------


priorities = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@priorities
def test_blocks_and_events_do_not_yield_as_replacements_do() -> None:
    own = niceness()
    of_replacements = begun(REPLACEMENTS, niceness).result()
    of_blocks = begun(REPLACEMENTS, lambda: Background(niceness)).result().result()
    assert (niceness(), of_blocks) == (own, own)
    assert of_replacements == min(19, own + threads._NICENESS)


@priorities
def test_threads_that_share_work_yield_as_the_one_does_that_has_it() -> None:
    def shared() -> set[int]:
        found: list[int] = []
        threads.divide(8, 10**9, lambda _: found.append(niceness()), 4)
        return set(found)

    own = niceness()
    assert begun(REPLACEMENTS, shared).result() == {min(19, own + threads._NICENESS)}
    assert shared() == {own}


@priorities
def test_a_system_that_does_not_allow_it_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    threads.yield_to_others()
    assert not getattr(threads._own, "yields", False)
