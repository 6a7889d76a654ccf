"""What the constant kernel knows of classes: which one comes where another was known last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import pool_alone
from numpy.typing import NDArray

from streamk.backends.banks import CHAIN_LABELS
from streamk.learners import MultiKernel

FORGET = 0.998


def noise(n: int, d: int = 2) -> NDArray[np.float64]:
    return np.random.default_rng(n).normal(size=(n, d))


def late(model: MultiKernel, X: NDArray[Any], y: Any, lags: NDArray[Any]) -> list[dict[Any, float]]:
    """Predict each event and learn it so many events later; return what was predicted."""
    found = []
    due = np.arange(len(X)) + lags
    for n in range(len(X) + int(lags.max()) + 1):
        for one in np.flatnonzero(due == n - 1).tolist():
            model.learn_one(X[one], y[one])
        if n < len(X):
            found.append(model.predict_proba_one(X[n]))
    return found


def counted(model: MultiKernel) -> dict[Any, dict[Any, float]]:
    """How often each class came where another was known last, by their labels."""
    chain = model._mixture.pool.arrays["CONSTANT_CHAIN"]
    return {
        known: {label: float(chain[n, k]) for k, label in enumerate(model.classes)}
        for n, known in enumerate(model.classes[: len(chain)])
    }


@pytest.mark.parametrize(("classes", "lag"), [(2, 0), (2, 6), (5, 0), (5, 17)])
def test_classes_that_come_in_turn_are_known(classes: int, lag: int) -> None:
    X, y = noise(600), [f"c{n % classes}" for n in range(600)]
    names = tuple(f"c{n}" for n in range(classes))
    said = late(pool_alone(seed=1, classes=names), X, y, np.full(600, lag))
    right = [max(p, key=p.__getitem__) == label for p, label in zip(said, y, strict=True) if p]
    assert np.mean(right[-200:]) == 1.0
    assert np.mean([p[label] for p, label in zip(said[-200:], y[-200:], strict=True)]) > 0.97


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("most", [0, 4])
def test_each_class_counts_for_the_one_known_when_it_was_predicted(classes: int, most: int) -> None:
    rng = np.random.default_rng(classes)
    n = 150
    X, y = noise(n), rng.integers(0, classes, n).tolist()
    y[:classes] = range(classes)
    lags = rng.integers(0, most + 1, n)
    lags[0] = 0  # what is predicted before there is a pool has no prediction that is kept
    model = pool_alone(seed=1, classes=tuple(range(classes)))
    late(model, X, y, lags)
    expected = {of: dict.fromkeys(range(classes), 0.0) for of in range(classes)}
    due, known, then = np.arange(n) + lags, None, {}
    for step in range(n + most + 1):
        for one in np.flatnonzero(due == step - 1).tolist():
            row = expected.get(then[one])
            if row is not None:
                expected[then[one]] = {k: FORGET * of + (k == y[one]) for k, of in row.items()}
            known = y[one]
        then[step] = known
    found = counted(model)
    for of, row in expected.items():
        assert found[of] == pytest.approx(row, rel=1e-5)


def test_equal_events_that_come_late_count_for_what_was_known_of_each() -> None:
    X, y = noise(400), [n % 4 for n in range(400)]
    X[1::2] = 0.0
    model = pool_alone(seed=1, classes=(0, 1, 2, 3))
    late(model, X, y, np.full(400, 9))
    found = counted(model)
    for label in range(4):
        assert sum(row[label] for row in found.values()) == pytest.approx(91, abs=2)
        assert found[(label - 10) % 4][label] > 75


def test_batches_and_single_events_count_alike() -> None:
    X, y = noise(300), [n * n % 7 for n in range(300)]
    one, many = pool_alone(seed=1), pool_alone(seed=1)
    for x, label in zip(X, y, strict=True):
        one.learn_one(x, label)
    many.learn_many(X, y)
    assert counted(one) == counted(many)


def test_classes_beyond_those_that_have_a_chain_are_learned() -> None:
    classes = CHAIN_LABELS + 20
    y = [*range(classes), *range(classes)]
    model = pool_alone(seed=1)
    model.predict_then_learn_many(noise(len(y)), y)
    chain = model._mixture.pool.arrays["CONSTANT_CHAIN"]
    assert chain.shape == (CHAIN_LABELS, classes)
    # Of each class there was the first time before the other became known, and the second one.
    assert chain[7, 8] == pytest.approx(1.0 + FORGET)
    assert chain[CHAIN_LABELS - 1, CHAIN_LABELS] == pytest.approx(1.0 + FORGET)


def test_a_chain_goes_through_states_and_merges() -> None:
    X, y = noise(400), [n % 3 for n in range(400)]
    model = pool_alone(seed=1)
    model.learn_many(X[:200], y[:200])
    again = MultiKernel.from_state(model.state())
    other = MultiKernel.from_state(model.state())
    assert counted(again) == counted(model)
    again.learn_many(X[200:], y[200:])
    other.learn_many(X[200:], y[200:])
    again.merge(other, common_events=200)
    assert counted(again)[0][1] > 50
    assert counted(again)[0][2] == 0.0
    said: Any = again.predict_proba_one(X[0])
    assert max(said, key=said.__getitem__) == (y[-1] + 1) % 3


def test_numbers_have_no_chain() -> None:
    model = pool_alone(task="regression")
    model.learn_many(noise(20), np.arange(20.0))
    assert "CONSTANT_CHAIN" not in model._mixture.pool.arrays
