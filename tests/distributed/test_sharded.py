"""A sharded learner: what plain replicas give, whatever the batches and the workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streamk.distributed import ShardWorkers
from streamk.errors import InvalidInput
from streamk.learners import Sharded, create
from streamk.learners.registry import from_state
from streamk.packing import fingerprint
from tests.rounds_kit import MODELS, TASKS, events, model

SHARDS, LENGTH, N = 3, 10, 100


@pytest.fixture(scope="module")
def two() -> Iterator[ShardWorkers]:
    with ShardWorkers(2) as workers:
        yield workers


def stream(task: str) -> tuple[Any, list[Any]]:
    X, y = events(N, task)
    for row in (7, 33, 34, 60):
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


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_batches_and_workers_change_nothing(name: str, task: str, two: ShardWorkers) -> None:
    expected = followed(made(name, task), task, N)
    assert followed(made(name, task), task, 1) == expected
    assert followed(made(name, task, workers=two), task, N) == expected
    assert followed(made(name, task, workers=two), task, 37) == expected


def test_plain_replicas_give_the_same() -> None:
    name, task = "doubly-stochastic", "regression"
    X, y = events(60, task)
    common, said = model(name, task), []
    for first in range(0, 60, 30):
        state, before, replicas = common.state(), common.n_events, []
        for start in range(first, first + 30, 10):
            replica = from_state(state)
            for row in range(start, start + 10):
                found = replica.predict_then_learn_many(X[row : row + 1], [y[row]])
                said += found.predictions.tolist()
            replicas.append(replica)
        one, two, three = replicas
        one.merge(two, common_events=before)
        one.merge(three, common_events=before)
        common = one
    sharded = made(name, task)
    assert sharded.predict_then_learn_many(X, y).predictions.tolist() == said
    assert fingerprint(sharded.state().child("learner")) == fingerprint(common.state())


def test_resumes_in_the_midst_of_a_round_with_other_workers(two: ShardWorkers) -> None:
    task = "classification"
    X, y = stream(task)
    whole, part = made("multi-kernel", task), made("multi-kernel", task)
    whole.predict_then_learn_many(X, y)
    part.predict_then_learn_many(X[:47], y[:47])
    resumed = Sharded.from_state(part.state(), workers=two)
    resumed.predict_then_learn_many(X[47:], y[47:])
    assert fingerprint(resumed.state()) == fingerprint(whole.state())
    assert resumed.n_events == whole.n_events == N - 4
    P = resumed.predict_proba_many(X[:5])
    assert P.shape == (5, len(resumed.classes))
    assert np.allclose(P.sum(axis=1), 1.0)


def test_a_killed_process_does_its_shard_again() -> None:
    task = "regression"
    expected = followed(made("doubly-stochastic", task), task, N)
    with ShardWorkers(2) as workers:
        os.kill(workers.pids[0], signal.SIGKILL)
        assert followed(made("doubly-stochastic", task, workers=workers), task, N) == expected


def test_what_is_refused() -> None:
    learner = create("doubly-stochastic", task="regression")
    with pytest.raises(InvalidInput, match="shards"):
        Sharded(learner, shards=0)
    one, two = made("doubly-stochastic", "regression"), Sharded(learner, shards=2)
    with pytest.raises(InvalidInput, match="the same shards"):
        one.merge(two)
