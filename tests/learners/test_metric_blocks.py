"""Blocks that are solved for in the background: when they count, restarts, forks and failures."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from feature_machine_kit import forks, in_fork, same
from numpy.typing import NDArray

from streamk.errors import StateError
from streamk.kernels import Gaussian, Matern
from streamk.learners.common.supervised import Asked
from streamk.learners.renewal import Background
from streamk.learners.rfm import metric_ridge
from streamk.learners.rfm.metric_ridge import MetricRidge, Solution
from streamk.learners.rfm.ridge import SolvedPart
from streamk.state import State

Numbers = NDArray[Any]

_TAKEOVER = 16
"""Event of the next block, of 64, after which a block counts."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_ridge, "_QUICK", 64)


def events(n: int, seed: int = 0) -> tuple[Numbers, Numbers]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    return X, np.sin(2.0 * X[:, 0].astype(np.float64)) + 0.1 * rng.normal(size=n)


def leaf(task: str = "regression", capacity: int = 1_024) -> MetricRidge:
    """A function of 128 events."""
    X, y = events(128)
    classes = ("a", "b") if task == "classification" else ()
    made = MetricRidge(Matern(nu=0.5, bandwidth=0.1), task=task, columns=range(2), classes=classes)
    labels = y if not classes else (y > 0.0).astype(np.float64)
    made.begin(Solution(Gaussian(), 0.1, np.array([0.25])), capacity, X, labels)
    return made


class Gate:
    """Has work in the background wait until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.began = threading.Event(), threading.Event()
        extending = SolvedPart.extending

        def held(part: SolvedPart, *arguments: Any) -> Any:
            work = extending(part, *arguments)

            def waits() -> SolvedPart:
                self.began.set()
                assert self.open.wait(60.0)
                return work()

            return waits

        monkeypatch.setattr(SolvedPart, "extending", held)


def test_nothing_waits_until_the_block_is_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    free, made = leaf(), leaf()
    X, y = events(64 + _TAKEOVER, seed=1)
    free.learn_points(X[:-1], y[:-1])
    gate = Gate(monkeypatch)
    made.learn_points(X[:-1], y[:-1])  # it would not come back if it waited
    assert gate.began.wait(60.0)
    asked = events(20, seed=2)[0]
    assert np.array_equal(made.decide_checked(asked), free.decide_checked(asked))
    assert same(made.state(), free.state())
    assert made.n_solved == 192
    threading.Timer(0.05, gate.open.set).start()
    made.learn_points(X[-1:], y[-1:])
    assert gate.open.is_set()
    free.learn_points(X[-1:], y[-1:])
    assert np.array_equal(made.decide_checked(asked), free.decide_checked(asked))


def test_a_block_counts_from_an_event_of_the_next_one_on() -> None:
    made = leaf()
    X, y = events(64 + _TAKEOVER, seed=1)
    all_at_once = SolvedPart(Gaussian(), 0.1, 1_024, n_columns=2, n_outputs=1)
    first, labels = events(128)
    all_at_once.add(
        np.concatenate([first, X[:64]]), np.append(labels, y[:64]), lambda y: y[:, None] - 0.25
    )
    made.learn_points(X[:-1], y[:-1])
    assert made._base is not None
    assert len(made._base) == 128
    made.learn_points(X[-1:], y[-1:])
    assert len(made._base) == 192
    asked = events(20, seed=2)[0]
    assert made._base.outputs(asked) == pytest.approx(all_at_once.outputs(asked), abs=1e-3)
    assert len(made._centers) == 0


def test_until_then_its_events_are_learned_one_by_one() -> None:
    made = leaf()
    X, y = events(64, seed=1)
    far = X + np.float32(40.0)  # of which the function knows nothing
    made._errors[-1] = 1e9  # the last regularization would learn nothing
    made.learn_points(far, y)
    assert made.n_solved > len(made._base or ())
    assert np.abs(made.decide_checked(far)[:, 0] - y).mean() < np.abs(0.25 - y).mean()


@pytest.mark.parametrize("learned", [64, 70, 64 + _TAKEOVER - 1, 64 + _TAKEOVER, 129])
def test_a_state_amid_a_block_goes_on_bit_for_bit(learned: int) -> None:
    X, y = events(300, seed=1)
    whole, said = leaf(), []
    whole.learn_points(X[:learned], y[:learned])
    again = MetricRidge.from_state(whole.state())
    assert again.state().header["solving"] is (learned % 64 < _TAKEOVER)
    assert same(again.state(), whole.state())
    for one in (whole, again):
        found: list[Numbers] = []
        one.learn_points(X[learned:], y[learned:], Asked(X[learned:] + 0.1, found.append))
        said.append(np.concatenate(found))
    assert np.array_equal(*said)
    assert same(again.state(), whole.state())


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("told", [70, 85, 150])
def test_when_columns_are_told_changes_no_bit(
    told: int, waits: bool, restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = events(200, seed=1)
    wide = np.pad(X, ((0, 0), (0, 2)))
    wide[150:, 2:] = X[:50]
    early, made = leaf(), leaf()
    early.extend(2)
    early.learn_points(wide[:150], y[:150])
    gate = Gate(monkeypatch)
    if not waits or told > 64 + _TAKEOVER:
        gate.open.set()
    made.learn_points(X[:told], y[:told])
    made.extend(1)  # while the work has not begun, or has
    made.extend(1)
    gate.open.set()
    if restart:
        made = MetricRidge.from_state(made.state())
    made.learn_points(wide[told:150], y[told:150])
    expected = early.learn_points(wide[150:], y[150:])
    assert np.array_equal(made.learn_points(wide[150:], y[150:]), expected)


def test_classes_and_an_end_wait_for_the_block() -> None:
    X, y = events(70, seed=1)
    made = leaf("classification")
    made.extend(1)
    made.learn_points(np.pad(X, ((0, 0), (0, 1))), (y > 0.0).astype(np.float64))
    made.learn_points(np.pad(X, ((0, 0), (0, 1))), (y > 0.0).astype(np.float64))
    assert made.state().header["solving"] is True
    made.add_classes(["c"])
    assert made.state().header["solving"] is False
    assert made.n_solved == 256
    made.learn_points(np.pad(X, ((0, 0), (0, 1))), np.full(70, 2.0))
    assert same(MetricRidge.from_state(made.state()).state(), made.state())
    made.close()
    assert (made.grows, made.n_solved) == (False, 320)


def test_states_in_which_no_block_can_be_solved_for_are_refused() -> None:
    X, y = events(70, seed=1)
    made = leaf()
    made.learn_points(X, y)
    state = made.state()
    header: Any = state.header
    with pytest.raises(StateError, match="'solving' of this 'metric-ridge' state is False"):
        MetricRidge.from_state(State({**header, "solving": False}, state.arrays))
    with pytest.raises(StateError, match="'solving'"):
        MetricRidge.from_state(State({**header, "solving": "yes"}, state.arrays))
    late = {**state.arrays, "pending": X[:20], "pending_labels": y[:20]}
    late["pending_coefficients"] = np.zeros((20, late["pending_coefficients"].shape[1]))
    with pytest.raises(StateError, match="'solving'"):
        MetricRidge.from_state(State(header, late))
    made.learn_points(X[:20], y[:20])
    settled = made.state()
    with pytest.raises(StateError, match="'solving' of this 'metric-ridge' state is True"):
        MetricRidge.from_state(State({**settled.header, "solving": True}, settled.arrays))


def test_what_fails_in_the_background_is_raised_where_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> None:
        raise MemoryError("no room for the factor")

    X, y = events(90, seed=1)
    made = leaf()
    with monkeypatch.context() as patch:
        patch.setattr(SolvedPart, "add", fails)
        made.learn_points(X[:70], y[:70])
        with pytest.raises(MemoryError, match="factor"):
            made.learn_points(X[70:], y[70:])


def test_an_interrupt_of_the_wait_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = events(200, seed=1)
    free, made, saved = leaf(), leaf(), leaf()
    free.learn_points(X, y)

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    for one in (made, saved):
        one.learn_points(X[:70], y[:70])
        with monkeypatch.context() as patch:
            patch.setattr(Background, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                one.learn_points(X[70:120], y[70:120])
    assert len(made._pending) == _TAKEOVER
    saved = MetricRidge.from_state(saved.state())
    for one in (made, saved):
        one.learn_points(X[64 + _TAKEOVER :], y[64 + _TAKEOVER :])
        assert np.array_equal(one.decide_checked(X), free.decide_checked(X))


@forks
@pytest.mark.parametrize("began", [False, True])
def test_a_forked_process_does_the_work_itself(
    began: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = events(200, seed=1)
    made, free = leaf(), leaf()
    free.learn_points(X, y)
    gate = Gate(monkeypatch)
    made.learn_points(X[:70], y[:70])
    if began:
        assert gate.began.wait(60.0)

    def work() -> Numbers:
        made.learn_points(X[70:], y[70:])
        return made.decide_checked(X[70:])

    gate.open.set()
    expected = free.decide_checked(X[70:])
    assert np.array_equal(in_fork(work), expected)
    assert np.array_equal(work(), expected)


_LATE = """
import threading, time
import numpy as np
from streamk.learners import FeatureMachine

X = np.random.default_rng(0).normal(size=(1_600, 3))
y = X[:, 0] * X[:, 1]


def work():
    model.learn_many(X[:700], y[:700])
    main.join()
    time.sleep(0.1)  # until the interpreter has begun to end
    model.learn_many(X[700:], y[700:])
    whole = FeatureMachine(task="regression")
    whole.learn_many(X, y)
    print(np.array_equal(whole.predict_many(X), model.predict_many(X)), model.n_takeovers)


main = threading.current_thread()
model = FeatureMachine(task="regression")
threading.Thread(target=work).start()
"""


def test_a_thread_that_outlives_the_main_one_learns_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    same, takeovers = done.stdout.split()
    assert same == "True"
    assert int(takeovers) > 3
