"""A learner in shards: what plain replicas give, whatever the batches and the workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late_kit import Counting

from streamk.backends import loops, threads
from streamk.distributed import Processes, Sharded, TaskDivision
from streamk.distributed.replicas import Outcome, ShardBatch, Task
from streamk.errors import InvalidInput, StateError, WorkerLost
from streamk.learners import create
from streamk.learners.registry import from_state
from streamk.packing import fingerprint
from streamk.state import State
from tests.rounds_kit import MODELS, TASKS, events, model

SHARDS, LENGTH, N = 3, 4, 150
FIRST = 8 * SHARDS * LENGTH
"""Events that are learned before the first round."""


@pytest.fixture(scope="module")
def two() -> Iterator[TaskDivision]:
    with TaskDivision(Processes(2)) as workers:
        yield workers


def stream(task: str) -> tuple[Any, list[Any]]:
    X, y = events(N, task)
    for row in (7, 33, 34, 98, 115, *range(120, 124)):
        y[row] = None
    return X, y


def made(name: str, task: str, **options: Any) -> Sharded:
    return Sharded(model(name, task), shards=SHARDS, round_events=LENGTH, **options)


def followed(sharded: Sharded, task: str, cut: int) -> tuple[str, list[Any]]:
    X, y = stream(task)
    sharded.add_columns(range(4))
    said: list[Any] = []
    for first in range(0, N, cut):
        part = slice(first, first + cut)
        said += sharded.predict_then_learn_many(X[part], y[part]).predictions.tolist()
    return fingerprint(sharded.state()), said


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("name", "staleness"),
    [*((name, 0) for name in MODELS), ("multi-kernel", 1), ("doubly-stochastic", 2)],
)
@pytest.mark.parametrize("task", TASKS)
def test_batches_and_workers_change_nothing(
    name: str, task: str, staleness: int, two: TaskDivision
) -> None:
    expected = followed(made(name, task, staleness=staleness), task, N)
    assert followed(made(name, task, staleness=staleness), task, 1) == expected
    assert followed(made(name, task, staleness=staleness, workers=two), task, N) == expected
    assert followed(made(name, task, staleness=staleness, workers=two), task, 37) == expected


@pytest.mark.one_in(5)
@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_columns_classes_and_rounds_without_labels_are_the_same_in_any_batches(
    name: str, staleness: int
) -> None:
    """What a round begins with lacks the columns and classes of those before it, if it is stale."""
    grown = FIRST + SHARDS * LENGTH
    X, y = events(N + 48, "classification")
    for row in (*range(FIRST + 24, FIRST + 36), *range(FIRST + 60, FIRST + 84)):
        y[row] = None
    y[FIRST + 37], y[FIRST + 46], y[FIRST + 50] = "first", "second", "first"

    def learned(cut: int, workers: Any) -> tuple[str, list[Any]]:
        sharded = made(name, "classification", staleness=staleness, workers=workers)
        sharded.add_columns(["a", "b"])
        said: list[Any] = []
        for start, stop, columns in ((0, grown, 2), (grown, len(X), 4)):
            sharded.add_columns(["c", "d"][: columns - 2])
            for at in range(start, stop, cut):
                part = slice(at, min(stop, at + cut))
                found = sharded.predict_then_learn_many(X[part, :columns], y[part])
                said += found.predictions.tolist()
        assert {"first", "second"} <= set(sharded.classes)
        assert sharded.n_events == len(y) - y.count(None)
        return fingerprint(sharded.state()), said

    expected = learned(len(X), None)
    assert learned(5, None) == expected
    assert learned(len(X), Counting()) == expected
    assert learned(37, Counting()) == expected


def naive(learner: Any, X: Any, y: list[Any], staleness: int = 0) -> tuple[Any, list[Any]]:
    """Return what the next round begins with after those within the events, and predictions."""
    said: list[Any] = []

    def merge(one: Any, two: Any, began: State) -> None:
        common = from_state(began)
        one.merge_replica(two, common.n_events, lambda: common)

    def follow(one: Any, first: int, last: int) -> int:
        for row in range(first, last):
            found = one.predict_then_learn_many(X[row : row + 1], [y[row]])
            said.extend(found.predictions.tolist())
        return last

    at = 0
    while learner.n_events < FIRST:  # events without a label do not count
        at = follow(learner, at, at + FIRST - learner.n_events)
    results = [learner.state()] * (staleness + 1)
    while at + SHARDS * LENGTH <= len(X):
        base, replicas = results[0], []
        for _ in range(SHARDS):
            replica = from_state(base)
            at = follow(replica, at, at + LENGTH)
            replicas.append(replica)
        one, two, three = replicas
        merge(one, two, base)
        merge(one, three, base)
        if results[-1] is not base:
            newest = from_state(results[-1])
            merge(newest, one, base)
            one = newest
        results = [*results[1:], one.state()]
    return from_state(results[0]), said


@pytest.mark.parametrize(
    ("name", "task", "staleness"),
    [
        ("doubly-stochastic", "classification", 0),
        ("multi-kernel", "classification", 1),
        ("doubly-stochastic", "regression", 3),
    ],
)
def test_plain_replicas_give_the_same(name: str, task: str, staleness: int) -> None:
    X, y = events(N, task)
    y[7] = y[98] = None
    plain = model(name, task)
    plain.add_columns(range(4))
    common, said = naive(plain, X, y, staleness)
    sharded = made(name, task, staleness=staleness)
    sharded.add_columns(range(4))
    found = sharded.predict_then_learn_many(X[: len(said)], y[: len(said)])
    assert found.predictions.tolist() == said
    assert fingerprint(sharded.state().child("learner")) == fingerprint(common.state())
    assert sharded.n_events == len(said) - 2
    assert sharded.rounds == (len(said) - FIRST - 1) // (SHARDS * LENGTH)


def test_rounds_grow_with_the_events_before() -> None:
    X, y = events(2000, "regression")
    sharded = Sharded(model("doubly-stochastic", "regression"), shards=2, round_events=50)
    sharded.add_columns(range(4))
    left, sizes = sharded.events_left, []
    assert left == 8 * 2 * 50  # of a stream that is only beginning
    for row in range(2000):
        sharded.learn_many(X[row : row + 1], y[row : row + 1])
        if sharded.events_left > left:
            sizes.append(sharded.events_left)
        left = sharded.events_left
    assert set(sizes) == {100}
    assert sharded.events_at_once == 100


@pytest.mark.parametrize("staleness", [0, 2])
def test_resumes_in_the_midst_of_a_round_with_other_workers(
    staleness: int, two: TaskDivision
) -> None:
    task = "classification"
    X, y = stream(task)
    whole = made("doubly-stochastic", task, staleness=staleness)
    part = made("doubly-stochastic", task, staleness=staleness)
    whole.predict_then_learn_many(X, y)
    part.predict_then_learn_many(X[:110], y[:110])
    resumed = Sharded.from_state(part.state(), workers=two)
    resumed.predict_then_learn_many(X[110:], y[110:])
    assert fingerprint(resumed.state()) == fingerprint(whole.state())
    assert resumed.n_events == whole.n_events == N - 9
    P = resumed.predict_proba_many(X[:5])
    assert P.shape == (5, len(resumed.classes))
    assert np.allclose(P.sum(axis=1), 1.0)
    labels = [resumed.classes[n] for n in resumed.choices(P)]
    assert labels == resumed.predict_many(X[:5]).tolist()


def test_a_learner_that_goes_on_leaves_the_state_that_it_was_made_of() -> None:
    X, y = stream("classification")
    first = made("doubly-stochastic", "classification")
    first.predict_then_learn_many(X[:110], y[:110])
    state = first.state()
    before = fingerprint(state)
    resumed = Sharded.from_state(state)
    resumed.predict_then_learn_many(X[110:], ["new", *y[111:]])
    resumed.merged()
    assert fingerprint(state) == before


def test_a_class_of_one_shard_has_probabilities_in_all() -> None:
    X, y = events(N, "classification")
    y[FIRST + 1] = "new"
    sharded = made("doubly-stochastic", "classification")
    sharded.predict_then_learn_many(X[: FIRST + 6], y[: FIRST + 6])
    assert "new" in sharded.classes
    assert "new" not in sharded.learner.classes  # the second shard has not met it
    P = sharded.predict_proba_many(X[:3])
    assert P.shape == (3, len(sharded.classes))
    assert np.allclose(P.sum(axis=1), 1.0)
    assert sharded.predict_proba_one(X[0])["new"] == 0.0
    sharded.learn_many(X[FIRST + 6 : FIRST + 12], y[FIRST + 6 : FIRST + 12])
    assert set(sharded.learner.classes) == set(sharded.classes)


@pytest.mark.parametrize("staleness", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_killed_process_does_its_shard_again(staleness: int) -> None:
    task = "regression"
    expected = followed(made("doubly-stochastic", task, staleness=staleness), task, N)
    with Processes(2) as processes:
        os.kill(processes.pids[0], signal.SIGKILL)
        learner = made("doubly-stochastic", task, staleness=staleness)
        learner.workers = TaskDivision(processes)
        assert followed(learner, task, N) == expected
        assert processes.restarts == 1


NAMES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("own", [{}, {"OMP_NUM_THREADS": "3"}, {"NUMBA_NUM_THREADS": "2"}])
def test_a_process_takes_one_thread_unless_told_otherwise(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with Processes(1) as processes:
        assert dict(os.environ) == before
        processes.answer(0, b"")  # a fault; what answers has its own environment by then
        found = Path(f"/proc/{processes.pids[0]}/environ").read_bytes().decode().split("\0")
    chosen = dict(one.split("=", 1) for one in found if one.startswith(NAMES))
    others = dict.fromkeys(NAMES[-1:] if "OMP_NUM_THREADS" in own else NAMES, "1")
    assert chosen == {**others, **own}


def test_the_default_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("3", 3), ("2,4", 2), ("many", os.cpu_count()), ("", os.cpu_count())):
        threads.cores.cache_clear()
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads.cores() == expected
    threads.cores.cache_clear()


def test_stale_rounds_are_begun_before_those_before_them_are_merged(two: TaskDivision) -> None:
    X, y = events(N, "regression")
    told: list[str] = []

    class Told:
        """Workers whose answers are waited for by name."""

        def begin(self, task: Task) -> Callable[[], Outcome]:
            number = sum(word.startswith("begin") for word in told)
            told.append(f"begin {number}")
            outcome = two.begin(task)

            def waited() -> Outcome:
                told.append(f"wait {number}")
                return outcome()

            return waited

    sharded = made("doubly-stochastic", "regression", staleness=1, workers=Told())
    sharded.learn_many(X[: FIRST + 4 * SHARDS * LENGTH], y[: FIRST + 4 * SHARDS * LENGTH])
    assert ",".join(told) == "begin 0,begin 1,wait 0,begin 2,wait 1,begin 3,wait 2,wait 3"
    assert sharded.rounds == 4
    assert sharded.events_at_once == 4 * SHARDS * LENGTH


@pytest.mark.parametrize("staleness", [pytest.param(0, marks=pytest.mark.nightly), 1])
def test_a_worker_that_dies_too_often_leaves_the_rounds_before(staleness: int) -> None:
    task = "regression"
    X, y = events(N, task)
    whole = followed(made("doubly-stochastic", task), task, N)
    sharded = made("doubly-stochastic", task, staleness=staleness)
    sharded.add_columns(range(4))
    sharded.predict_then_learn_many(X[:FIRST], y[:FIRST])
    before = fingerprint(sharded.state())
    with Processes(2, max_restarts=0) as processes:
        sharded.workers = TaskDivision(processes)
        os.kill(processes.pids[1], signal.SIGKILL)
        with pytest.raises(WorkerLost, match="died"):
            sharded.predict_then_learn_many(X[FIRST:], y[FIRST:])
    assert fingerprint(sharded.state()) == before
    sharded.workers = None
    sharded.predict_then_learn_many(X[FIRST:], y[FIRST:])
    assert fingerprint(sharded.state()) != whole[0]  # which has events without a label


def test_learners_in_shards_merge_at_the_end_of_their_rounds() -> None:
    """With the classes of both."""
    X, y = events(N, "classification")
    one = made("doubly-stochastic", "classification")
    one.learn_many(X[:110], y[:110])
    two = Sharded.from_state(one.state())
    two.learn_many(X[110:140], ["new"] * 30)
    one.merge(two, common_events=110)
    assert one.n_events == 140
    assert one.events_left == SHARDS * LENGTH
    assert one.classes == one.learner.classes
    assert "new" in one.classes
    assert one.predict_proba_many(X[:2]).shape == (2, len(one.classes))
    assert Sharded.from_state(one.state()).classes == one.classes


@pytest.mark.parametrize("staleness", [0, 1])
def test_one_shard_is_the_learner_alone_in_calls_of_many_events(staleness: int) -> None:
    task = "classification"
    X, y = events(N, task)
    plain = model("doubly-stochastic", task)
    one = Sharded(model("doubly-stochastic", task), shards=1, round_events=20, staleness=staleness)
    expected = plain.predict_then_learn_many(X[:130], y[:130]).predictions.tolist()
    said = one.predict_then_learn_many(X[:70], y[:70]).predictions.tolist()
    said += one.predict_then_learn_many(X[70:130], y[70:130]).predictions.tolist()
    assert said == expected
    assert fingerprint(one.state().child("learner")) == fingerprint(plain.state())
    one.learn_many(X[130:], y[130:])
    assert (one.n_events, one.rounds, one.round_events) == (N, 0, 20)
    assert 0 < one.events_left < 160
    assert Sharded.from_state(one.state()).events_left == one.events_left
    beyond = Sharded(plain, shards=1, round_events=16)
    assert beyond.events_left == 16  # not one by one


def test_workers_that_are_closed_leave_nobody_waiting() -> None:
    """One task is under way, and another one waits for it."""
    under_way, closed = threading.Event(), threading.Event()

    class Stuck:
        def __len__(self) -> int:
            return 1

        def answer(self, place: int, message: bytes) -> bytes:
            under_way.set()
            assert closed.wait(60)
            raise InvalidInput("the processes are closed; start new ones")

        def close(self) -> None:
            closed.set()

    division = TaskDivision(Stuck())
    X, y = events(8, "regression")
    state = model("kernel-ridge", "regression").state()
    batches = {0: ShardBatch(X, y, range(4))}
    first, second = (division.begin(Task(state, {}, 1, (0, 1), batches)) for _ in range(2))
    found = list[Exception]()

    def waited() -> None:
        for outcome in (first, second):
            try:
                outcome()
            except InvalidInput as error:
                found.append(error)

    waiting = threading.Thread(target=waited, daemon=True)
    waiting.start()
    assert under_way.wait(60)
    division.close()
    waiting.join(60)
    assert len(found) == 2
    with pytest.raises(InvalidInput, match="closed"):
        division.begin(Task(state, {}, 1, (0, 1), batches))


def test_a_process_that_dies_in_stale_rounds_does_its_shards_of_each_again() -> None:
    """It dies while one round is under way and the next one waits."""
    task = "regression"
    expected = followed(made("doubly-stochastic", task, staleness=1), task, N)
    with Processes(2) as processes, TaskDivision(processes) as division:

        class Killing:
            begun = 0

            def begin(self, task: Task) -> Callable[[], Outcome]:
                self.begun += 1
                if self.begun == 2:
                    os.kill(processes.pids[1], signal.SIGSTOP)
                outcome = division.begin(task)
                if self.begun == 2:
                    os.kill(processes.pids[1], signal.SIGKILL)
                return outcome

        learner = made("doubly-stochastic", task, staleness=1, workers=Killing())
        assert followed(learner, task, N) == expected
        assert processes.restarts == 1


def test_cells_have_the_means_of_those_that_met_them() -> None:
    rules, outputs = 4, 2
    rng = np.random.default_rng(0)
    began = np.zeros((3, rules * (outputs + 1)), np.float32)
    one, two = began.copy(), began.copy()
    first = rules * outputs
    began[:, :first] = rng.normal(size=(3, first))
    one[:], two[:] = began, began
    one[0] += 2.0  # met by the first alone
    two[1] += 2.0  # by the second alone
    one[2, :first] += 1.0  # and by both, the second three times as much
    two[2, :first] += 3.0
    one[2, first:], two[2, first:] = 1.0, 3.0
    expected = [one[0].copy(), two[1].copy(), began[2] + 2.5]
    expected[2][first:] = 4.0
    loops.binning.join(one, two, began, outputs, np.float32(0.5))
    assert np.allclose(one, expected, atol=1e-6)


def damaged(state: State, **changes: Any) -> State:
    return State({**state.header, **changes}, state.arrays)


def test_refused() -> None:
    task = "regression"
    learner = create("doubly-stochastic", task=task)
    with pytest.raises(InvalidInput, match="shards"):
        Sharded(learner, shards=0)
    with pytest.raises(InvalidInput, match="round_events"):
        Sharded(learner, round_events=0)
    with pytest.raises(InvalidInput, match="staleness"):
        Sharded(learner, staleness=17)
    with pytest.raises(InvalidInput, match="cannot learn in shards"):
        Sharded(Sharded(learner))
    one, two = made("doubly-stochastic", task), Sharded(learner, shards=2)
    with pytest.raises(InvalidInput, match="differ in shards"):
        one.merge(two)
    X, y = events(110, task)
    one.learn_many(X, y)
    state = one.state()
    for name, value in (
        ("position", LENGTH),
        ("learned", [4, 4, 4]),
        ("learned", [3, 4, 4]),
        ("before", 3),
        ("shards", 0),
        ("results", [96, 96]),
        ("staleness", -1),
        ("classes", None),
        ("classes", [[1]]),
        ("results", ["96"]),
        ("results", [None]),
        ("learned", ["4", "4"]),
        ("learned", [True]),
    ):
        with pytest.raises(StateError):
            Sharded.from_state(damaged(state, **{name: value}))
