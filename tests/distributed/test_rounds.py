"""Rounds: the same bits for any number of workers, whatever the shards contribute."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streamk.distributed import Processes, Rounds, ShardBatch
from streamk.distributed.rounds import answered, outcome
from streamk.errors import InvalidInput, WorkerLost
from streamk.learners import create
from streamk.packing import fingerprint
from tests.rounds_kit import MODELS, TASKS, dealt, digest, events, model, uneven

SHARDS = 5


class Here:
    """Workers in this process, by way of messages."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def answer(self, place: int, message: bytes) -> bytes:
        assert 0 <= place < self.count
        return answered(message)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as workers:
        yield workers


def followed(name: str, task: str, workers: Any, shards: int = SHARDS) -> list[Any]:
    rounds, found = Rounds(model(name, task), shards=shards, workers=workers), []
    X, y = events(120, task)
    y[7] = y[50] = None
    for number, first in enumerate(range(0, 120, 30)):
        some = slice(first, first + 30)
        deal = uneven if number % 2 else dealt
        found.append(digest(rounds, rounds.round(deal(X[some], y[some], shards))))
    assert rounds.model.n_events == 118
    assert rounds.n_rounds == 4
    return found


@pytest.mark.one_in(7)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_for_any_number_of_workers(name: str, task: str, two: Processes) -> None:
    expected = followed(name, task, 1)
    for workers in (Here(3), Here(5), two):
        assert followed(name, task, workers) == expected


@pytest.mark.one_in(7)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_one_shard_is_the_learner_itself(name: str, task: str) -> None:
    X, y = events(120, task)
    rounds, alone = Rounds(model(name, task), shards=1), model(name, task)
    found = [rounds.round([(X[some], y[some])])[0] for some in (slice(0, 50), slice(50, 120))]
    expected = [
        alone.predict_then_learn_many(X[some], y[some]) for some in (slice(0, 50), slice(50, 120))
    ]
    for one, other in zip(found, expected, strict=True):
        assert one.predictions.tolist() == other.predictions.tolist()
    assert fingerprint(rounds.state()) == fingerprint(alone.state())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_a_round_without_labels_changes_nothing(name: str, task: str) -> None:
    X, y = events(80, task)
    rounds = Rounds(model(name, task), shards=4)
    rounds.round(dealt(X[:60], y[:60], 4))
    before = fingerprint(rounds.state())
    answers = rounds.round([None, (X[60:], [None] * 20), None, (X[:0], [])])
    assert fingerprint(rounds.state()) == before
    assert [len(answer.predictions) for answer in answers] == [0, 20, 0, 0]
    if task == "classification":
        assert answers[0].probabilities is not None
        assert answers[0].probabilities.shape == (0, len(rounds.model.classes))
    expected = rounds.model.predict_many(X[60:])
    assert answers[1].predictions.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["doubly-stochastic", "online-nystrom"])
def test_new_columns_and_classes_come_in_the_order_of_the_shards(name: str) -> None:
    X, _ = events(40, "classification")
    first = ["a", "b"] * 20
    for workers in (1, Here(3)):
        rounds = Rounds(model(name, "classification"), shards=4, workers=workers)
        names = [("p", "q"), ("p", "q", "r"), ("q", "s"), ("s", "p", "t")]
        labels = [first[:10], [*first[:9], "d"], [*first[:9], "c"], ["b", "e", *first[:8]]]
        answers = rounds.round(
            [
                ShardBatch(X[10 * s : 10 * s + 10, : len(own)], labels[s], own)
                for s, own in enumerate(names)
            ]
        )
        assert rounds.model.columns == ("p", "q", "r", "s", "t")
        assert rounds.model.classes == ("a", "b", "d", "c", "e")
        P = answers[3].probabilities
        assert P is not None
        assert P.shape == (10, 5)
        assert np.isnan(P[-1, [2, 3]]).all()  # which that shard never met
        np.testing.assert_allclose(np.nansum(P[2:], axis=1), 1.0)


def test_columns_by_name_are_put_in_the_model_s_order() -> None:
    X, y = events(40, "regression")
    one, other = (Rounds(model("doubly-stochastic", "regression"), shards=2) for _ in range(2))
    order = ("w", "x", "y", "z")
    turned = [2, 0, 3, 1]
    for some in (slice(0, 20), slice(20, 40)):
        batches = dealt(X[some], y[some], 2)
        one.round([ShardBatch(batch.X, batch.y, order) for batch in batches])
        names = [order[place] for place in turned]
        later = ShardBatch(np.asarray(batches[1].X)[:, turned], batches[1].y, names)
        other.round([ShardBatch(batches[0].X, batches[0].y, order), later])
    assert one.model.columns == other.model.columns == order
    at = X[:5]
    np.testing.assert_allclose(one.model.predict_many(at), other.model.predict_many(at), rtol=1e-5)


def test_a_worker_that_is_killed_while_it_is_sent_a_task_is_replaced() -> None:
    tasks = [bytes(size) for size in (0, 8, 9 << 20)]  # which are none, so that faults come back
    with Processes(1) as workers:
        for task in tasks:
            answer = workers.answer(0, task)
            with pytest.raises(RuntimeError, match="a bug in the program"):
                outcome(answer)
        os.kill(workers.pids[0], signal.SIGSTOP)  # so that more is sent than there is room for
        killer = threading.Timer(0.05, os.kill, (workers.pids[0], signal.SIGKILL))
        killer.start()
        last = workers.answer(0, tasks[-1])
        killer.join()
        assert workers.restarts == 1
        assert bytes(last) == bytes(answer)


def test_a_worker_that_answers_may_die_again() -> None:
    with Processes(1, max_restarts=1) as workers:
        for times in range(1, 4):
            os.kill(workers.pids[0], signal.SIGKILL)
            assert bytes(workers.answer(0, b""))
            assert workers.restarts == times


def test_a_worker_that_dies_too_often_is_an_error_and_nothing_is_learned() -> None:
    X, y = events(60, "regression")
    with Processes(2, max_restarts=0) as workers:
        rounds = Rounds(model("doubly-stochastic", "regression"), shards=2, workers=workers)
        rounds.round(dealt(X[:30], y[:30], 2))
        before = fingerprint(rounds.state())
        os.kill(workers.pids[1], signal.SIGKILL)
        with pytest.raises(WorkerLost, match="process 1 of 2 died and was replaced 0 times"):
            rounds.round(dealt(X[30:], y[30:], 2))
        assert fingerprint(rounds.state()) == before
        assert rounds.model.n_events == 30


def test_processes_end_with_the_rounds() -> None:
    with Rounds(model("doubly-stochastic", "classification"), shards=2, workers=2) as rounds:
        workers = rounds._workers
        assert workers is not None
        processes = workers._workers
        assert isinstance(processes, Processes)
        pids = processes.pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(InvalidInput, match="the workers are closed"):
        rounds.round([([[1.0]], ["a"]), None])


@pytest.mark.parametrize("workers", [1, Here(2)])
def test_events_that_cannot_be_used_are_refused_and_nothing_is_learned(workers: Any) -> None:
    X, y = events(60, "regression")
    rounds = Rounds(model("doubly-stochastic", "regression"), shards=3, workers=workers)
    rounds.round(dealt(X, y, 3))
    before = fingerprint(rounds.state())
    good = X[:2], y[:2]
    for batches, said in (
        ([good, good], "2 batches came for 3 shards"),
        ([good, good, (X[:2, :3], y[:2])], "shard 2: events have 3 columns"),
        ([good, good, (X[0], y[:2])], r"shard 2: events must be numbers of shape \(n, columns\)"),
        ([good, (X[:2], [1.0]), good], "shard 1: 2 events came with 1 labels"),
        ([good, (X[:2], [1.0, np.nan]), good], "shard 1: the label of row 1 is nan"),
        ([good, (X[:2], [1.0, [2]]), good], "shard 1: row 1: label .2. is a list"),
        ([good, (np.full((2, 4), np.inf), y[:2]), good], "shard 1: "),
        ([good, ShardBatch(X[:2], y[:2], ("a", "b")), good], "shard 1: events of shape"),
    ):
        with pytest.raises(InvalidInput, match=said):
            rounds.round(batches)
        assert fingerprint(rounds.state()) == before


def test_a_state_can_be_gone_on_from() -> None:
    X, y = events(120, "classification")
    one = Rounds(model("doubly-stochastic", "classification"), shards=3)
    one.round(dealt(X[:60], y[:60], 3))
    other = Rounds(one.state(), shards=3)
    batches = dealt(X[60:], y[60:], 3)
    assert digest(one, one.round(batches)) == digest(other, other.round(batches))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shards": 0}, "shards=0"),
        ({"shards": True}, "shards=True"),
        (
            {"shards": 4, "workers": 5},
            "workers=5 must be a whole number.*at most 4",
        ),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_options_out_of_their_domain(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Rounds(create("kernel-ridge", task="regression"), **options)
