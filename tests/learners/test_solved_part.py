"""Kernel ridge regression that is solved for exactly as events come, and its factor."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from feature_machine_kit import forks, in_fork, same
from numpy.typing import NDArray

from streamk.declared import FINITE
from streamk.errors import StateError
from streamk.kernels import Gaussian, Matern
from streamk.learners.common.supervised import Asked
from streamk.learners.renewal import Background
from streamk.learners.rfm import metric_ridge
from streamk.learners.rfm import ridge as solved_part
from streamk.learners.rfm.metric_ridge import MetricRidge, RidgeSettings
from streamk.learners.rfm.ridge import (
    RidgeFactor,
    SingleRidge,
    SolvedPart,
    kernel_rows,
    nbytes_of,
)
from streamk.state import State

KERNEL = Matern(nu=0.5, bandwidth=1.5)


def points(n: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)


def part(capacity: int = 512, outputs: int = 2, first: int = 0) -> SolvedPart:
    return SolvedPart(KERNEL, 0.1, capacity, n_columns=3, n_outputs=outputs, first=first)


def targets(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([labels, np.sin(labels)], axis=1)


def grown(Z: NDArray[Any], sizes: tuple[int, ...]) -> RidgeFactor:
    factor, at = RidgeFactor(sum(sizes)), 0
    for size in sizes:
        factor.append(kernel_rows(KERNEL, Z, at, at + size), 1.1)
        at += size
    return factor


@pytest.mark.parametrize("sizes", [(40,), (256, 256, 75), (64,) * 9, (256, 256, 88), (32, 224, 64)])
@pytest.mark.parametrize("outputs", [1, 3, 7, 40])
def test_a_factor_is_that_of_the_whole_matrix(sizes: tuple[int, ...], outputs: int) -> None:
    n = sum(sizes)
    Y = np.random.default_rng(1).normal(size=(n, outputs))
    factor = grown(points(n), sizes)
    assert n <= len(factor) < n + 32
    found = factor.solved(Y.astype(np.float32))
    assert found.dtype == np.float32
    K = KERNEL.pairwise(points(n)) + 0.1 * np.eye(n)
    assert found == pytest.approx(np.linalg.solve(K, Y), abs=1e-3)


def test_how_rows_come_changes_no_bit_of_a_factor() -> None:
    Y = np.random.default_rng(1).normal(size=(576, 2)).astype(np.float32)
    said = [
        grown(points(576), sizes).solved(Y)
        for sizes in ((256, 256, 64), (64,) * 9, (192, 64, 32, 224, 64))
    ]
    assert np.array_equal(said[1], said[0])
    assert np.array_equal(said[2], said[0])


@pytest.mark.parametrize("outputs", [2, 7])
def test_what_was_solved_before_changes_no_bit(outputs: int) -> None:
    """Of rows whose right-hand sides are those of the last call a half of the work is known."""
    Y = np.random.default_rng(1).normal(size=(576, outputs)).astype(np.float32)
    factor = RidgeFactor(576)
    for at in range(0, 576, 64):
        factor.append(kernel_rows(KERNEL, points(576), at, at + 64), 1.1)
        some = Y[: at + 64]
        expected = grown(points(576), (64,) * (at // 64 + 1)).solved(some)
        assert np.array_equal(factor.solved(some), expected)
    for other in (Y[:100], 2.0 * Y, Y[:, :1]):  # what is known is of others
        assert np.array_equal(factor.solved(other), grown(points(576), (64,) * 9).solved(other))
    factor.clear()
    factor.append(kernel_rows(KERNEL, points(576), 0, 64), 1.1)
    assert np.array_equal(factor.solved(Y[:64]), grown(points(576), (64,)).solved(Y[:64]))


def test_a_factor_takes_the_memory_that_is_told() -> None:
    assert grown(points(300), (256, 44))._room.nbytes == nbytes_of(300)


def test_a_factor_stays_as_it_was_where_a_matrix_is_not_definite() -> None:
    Z, Y = points(128), np.ones((96, 1), np.float32)
    factor = grown(Z, (64, 64))
    factor._count = 64  # room for more
    wrong = np.ones((1, 96, 32), np.float32)
    with pytest.raises(np.linalg.LinAlgError):
        factor.append(wrong, 0.5)
    assert len(factor) == 64
    factor.append(kernel_rows(KERNEL, Z, 64, 96), 1.1)
    assert np.array_equal(factor.solved(Y), grown(Z, (64, 32)).solved(Y))


def test_coefficients_in_single_precision_are_near_the_exact_ones() -> None:
    P, Y = points(300).astype(np.float64), np.random.default_rng(2).normal(size=(300, 2))
    single, K = SingleRidge(KERNEL, P, Y), KERNEL.pairwise(P)
    for ridge in (0.01, 1.0):  # each from the matrix, not from what the last one left of it
        exact = np.linalg.solve(K + ridge * np.eye(300), Y)
        assert single.solve(ridge) == pytest.approx(exact, rel=1e-3, abs=1e-3 / ridge**0.5)


@pytest.mark.parametrize(("n", "outputs"), [(300, 1), (300, 2), (800, 7), (300, 7)])
def test_near_regularizations_are_solved_for_by_one_factor(n: int, outputs: int) -> None:
    P, Y = points(n).astype(np.float64), np.random.default_rng(2).normal(size=(n, outputs))
    single, K = SingleRidge(KERNEL, P, Y), KERNEL.pairwise(P)
    for ridge in (0.01, 1.0, 0.4, 3.0):
        exact = np.linalg.solve(K + ridge * np.eye(n), Y)
        off = np.linalg.norm(single.solve(ridge) - exact)
        assert off <= (1e-3 if ridge == 0.01 else 3e-3) * np.linalg.norm(exact)


def test_a_part_is_full_or_closed() -> None:
    one = part(capacity=150)
    assert (one.grows, one.room) == (True, 150)
    one.add(points(128), np.zeros(128), targets)
    assert (one.grows, one.room) == (False, 22)
    other = part()
    other.add(points(64), np.ones(64), targets)
    said = other.outputs(points(5))
    other.close()
    assert (other.grows, other.room) == (False, 0)
    assert np.array_equal(other.outputs(points(5)), said)


def test_rounding_closes_a_part_with_the_events_that_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = part()
    one.add(points(64), np.ones(64), targets)
    said = one.outputs(points(5))

    def fails(*_: Any) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(RidgeFactor, "append", fails)
    one.add(points(64, seed=1), np.zeros(64), targets)
    assert (len(one), one.grows) == (64, False)
    assert np.array_equal(one.outputs(points(5)), said)
    with pytest.raises(np.linalg.LinAlgError):
        part().add(points(64), np.ones(64), targets)


def read(header: Any, arrays: Any, capacity: int = 512) -> SolvedPart:
    sizes = {"columns": 3, "outputs": 2}
    options: Any = {"capacity": capacity, "sizes": sizes, "labels": FINITE, "owner": "this"}
    return SolvedPart.of(header, arrays, **options)


def test_states_are_checked() -> None:
    one = part()
    one.add(points(64), np.ones(64), targets)
    with pytest.raises(StateError, match="ridge"):
        read({**one.header(), "ridge": -1.0}, one.arrays())
    with pytest.raises(StateError, match="64 points"):
        read(one.header(), one.arrays(), capacity=32)
    few = {name: array[:40] for name, array in one.arrays().items()}
    with pytest.raises(StateError, match="40 points"):
        read(one.header(), few)
    assert not read({**one.header(), "closed": True}, few).grows


# --- more events than a part has -----------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 256 events, of which the next one has the last 128."""
    monkeypatch.setattr(solved_part, "PART", 256)
    monkeypatch.setattr(solved_part, "SHARED", 128)


def swept(Z: NDArray[Any], Y: NDArray[Any], first: int) -> NDArray[Any]:
    """Coefficients after a sweep of block Gauss-Seidel, of blocks that share 128 with the next."""
    K, A = KERNEL.pairwise(Z) + 0.1 * np.eye(len(Z)), np.zeros_like(Y)
    stops = [min(first, len(Z)), *range(first + 128, len(Z), 128)]
    for start, stop in zip([0, *(one - 128 for one in stops)], [*stops, len(Z)], strict=True):
        some = slice(start, stop)
        A[some] += np.linalg.solve(K[some, some], (Y - K @ A)[some])
    return A


@pytest.mark.parametrize("first", [0, 320])
@pytest.mark.parametrize("n", [64, 256, 320, 384, 640])
@pytest.mark.usefixtures("small")
def test_parts_are_solved_for_one_after_the_other(n: int, first: int) -> None:
    Z, labels, X = points(n), np.linspace(-1.0, 1.0, n), points(9, seed=3)
    one = part(capacity=1024, first=first)
    one.add(Z, labels, targets)
    assert len(one) == n
    Q = Z.astype(np.float64)
    A = swept(Q, targets(labels), max(256, first))
    expected = KERNEL.pairwise(X.astype(np.float64), Q) @ A
    assert one.outputs(X) == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("small")
def test_the_factor_is_that_of_the_last_part() -> None:
    one, sizes = part(capacity=640), []
    for n in range(10):
        one.add(points(64, seed=n), np.zeros(64), targets)
        sizes.append(one.n_last)
    assert sizes == [64, 128, 192, 128, 192, 128, 192, 128, 192, 0]
    assert (len(one), one.grows) == (640, False)


@pytest.mark.parametrize("first", [0, 320])
@pytest.mark.parametrize("n", [192, 256, 320, 448])
@pytest.mark.usefixtures("small")
def test_a_state_of_parts_goes_on_bit_for_bit(n: int, first: int) -> None:
    Z, labels = points(512), np.linspace(-1.0, 1.0, 512)
    one, other = part(first=first), part(first=first)
    one.add(Z[:n], labels[:n], targets)
    again = read(one.header(), one.arrays())
    assert len(again) == n
    assert again.nbytes == one.nbytes or n > 320  # a factor is as large as its part
    assert np.array_equal(again.outputs(Z), one.outputs(Z))
    for each in (one, again):
        each.add(Z[n:], labels[n:], targets)
    for start in range(0, 512, 64):
        some = slice(start, start + 64)
        other.add(Z[some], labels[some], targets)
    for each in (again, other):
        for name, array in each.arrays().items():
            assert np.array_equal(array, one.arrays()[name]), name


@pytest.mark.usefixtures("small")
def test_classes_that_come_later_reach_all_parts() -> None:
    one = part(outputs=1)
    one.add(points(320), np.ones(320), lambda labels: labels[:, None])
    said = one.outputs(points(5))
    one.fit_outputs(lambda A: np.hstack([A, 0.0 * A]))
    assert np.array_equal(one.outputs(points(5)), np.hstack([said, 0.0 * said]))
    one.add(points(64, seed=1), np.zeros(64), targets)
    assert len(one) == 384


@pytest.mark.parametrize(
    "change",
    [{"shared": 64}, {"shared": 0}, {"shared": -1}, {"shared": "x"}],
)
@pytest.mark.usefixtures("small")
def test_shared_events_are_checked(change: Any) -> None:
    one = part()
    one.add(points(320), np.ones(320), targets)
    with pytest.raises(StateError, match="shared"):
        read({**one.header(), **change}, one.arrays())
    arrays = one.arrays()
    arrays["added"] = arrays["added"][:5]
    with pytest.raises(StateError, match="added"):
        read(one.header(), arrays)


# --- blocks that are solved for in the background: when they count, restarts, forks a -------------


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
    made.begin(RidgeSettings(Gaussian(), 0.1, np.array([0.25])), capacity, X, labels)
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
    assert int(takeovers) > 2
