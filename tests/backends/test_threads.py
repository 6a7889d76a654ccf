"""Learners that several threads use at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from streamk.learners import MODELS, Learner, create

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
