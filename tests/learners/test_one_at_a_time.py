"""Learners whose methods wait for each other, whatever thread calls them."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import streamk.contest
import streamk.distributed
import streamk.learners  # noqa: F401 (makes all learners known)
from streamk.learners import MODELS, Learner, create
from streamk.learners.common.predictor import OneAtATime, Turns

TAKE_THE_LOCK = {
    *("aside", "promote", "roll_back"),
}
OF_OUTPUTS_OR_LABELS_ALONE = {
    *("choices", "prediction", "predictions", "probabilities", "weighted", "number"),
    *("check_labels", "check_some_labels"),
}
OF_THE_LEARNER_AROUND = {  # which holds its own lock meanwhile
    *("learn_checked", "learn_encoded", "decide_checked", "last_events", "learn_again"),
    *("rest", "wake", "keeping", "join_held", "tell_and_learn_many", "as_new", "expect_no_labels"),
    *(
        "begin",
        "close",
        "extend",
        "forget_factor",
        "keep_factor",
        "learn_point",
        "learn_points",
    ),
}
BEFORE_THE_FIRST_EVENT = {
    *("begin", "drop", "go_on_with", "compile_rare_steps", "for_shards", "reopened"),
}
OF_OTHER_PROCESSES = {"merged"}


def kinds(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def test_each_public_method_waits_or_need_not() -> None:
    exempt = (
        TAKE_THE_LOCK
        | OF_OUTPUTS_OR_LABELS_ALONE
        | OF_THE_LEARNER_AROUND
        | BEFORE_THE_FIRST_EVENT
        | OF_OTHER_PROCESSES
    )
    found = set[str]()
    for kind in kinds(OneAtATime):
        if not kind.__module__.startswith("streamk."):
            continue  # of another test
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and not hasattr(method, "_waits"):
                found.add(name)
    assert found == exempt


def test_a_copy_of_a_lock_is_another_one() -> None:
    one: Any = Turns()
    with one.lock:
        again = pickle.loads(pickle.dumps(one))
        assert again.lock is not one.lock


# --- learners that several threads use at once ----------------------------------------------------


TASKS = ("classification", "regression")
N = 300


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Let threads take turns much more often than they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def made(name: str, task: str) -> Learner:
    options: dict[str, Any] = {
        "online-nystrom": {"max_landmarks": 30},
        "streaming-meka": {"rank": 4, "n_clusters": 2, "first": 64},
        "doubly-stochastic": {"max_features": 512},
    }.get(name, {})
    return create(name, task=task, **options)


def stream(task: str, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    values = X[:, 0] * X[:, 1]
    if task == "regression":
        return X, values
    return X, np.array(["a", "b", "c"])[np.digitize(values, [-0.3, 0.3])]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_threads_learn_and_predict_at_once(name: str, task: str) -> None:
    model = made(name, task)
    X, y = stream(task, 0)
    model.learn_many(X[:30], y[:30])

    def one_by_one(seed: int) -> None:
        for x, label in zip(*stream(task, seed), strict=True):
            model.learn_one(x, label)

    def in_pieces(seed: int) -> None:
        X, y = stream(task, seed)
        for first in range(0, N, 50):
            model.predict_then_learn_many(X[first : first + 50], y[first : first + 50])

    def predict(_: int) -> None:
        for x in X:
            model.predict_one(x)
            if task == "classification":
                assert abs(sum(model.predict_proba_one(x).values()) - 1.0) < 1e-6
        assert np.isfinite(model.decision_many(X)).all()
        model.state()

    jobs: list[Callable[[int], None]] = [one_by_one, in_pieces, predict, predict]
    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(job, seed) for seed, job in enumerate(jobs)]:
            done.result()
    assert model.n_events == 30 + 2 * N
    fresh, labels = stream(task, 9)
    if task == "classification":
        assert (model.predict_many(fresh) == labels).mean() > 0.4
    assert np.isfinite(model.decision_many(fresh)).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_new_class_while_others_predict(name: str) -> None:
    model = made(name, "classification")
    X, _ = stream("classification", 0)
    model.learn_many(X[:30], ["first", "second", "third"] * 10)

    def learn() -> None:
        for n in range(20):
            model.learn_many(X[:10], [f"class {n}"] * 10)

    def predict() -> None:
        for x in X[:300]:
            model.predict_proba_one(x)
            model.predict_many(X[:5])

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(learn), pool.submit(predict), pool.submit(predict)]:
            done.result()
    assert len(model.classes) == 23
