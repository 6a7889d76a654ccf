"""Events predicted, then learned: what is known at each of them, and beside the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from learners_kit import VARIANTS, made, scaled, stream
from multi_kernel_kit import pool_alone
from reference import naive
from state_kit import assert_same, reopened

from streamk.adapters.river import KernelClassifier, KernelRegressor
from streamk.errors import InvalidInput
from streamk.kernels import Linear
from streamk.learners import Constant, DoublyStochastic
from streamk.scaling.running import RunningScale


@pytest.mark.parametrize("labels", ["five", "numbers"])
def test_a_river_estimator_says_the_same(labels: str) -> None:
    events, model = stream(labels, missing=True), VARIANTS[f"many kernels, {labels}"]()
    found = model.predict_then_learn_many(events.X, events.shown)
    numbers = labels == "numbers"
    kind: Any = KernelRegressor if numbers else KernelClassifier
    estimator = kind(seed=1, external_experts=())
    for n, (x, label) in enumerate(zip(events.X, events.shown, strict=True)):
        event = dict(enumerate(x.tolist()))
        assert estimator.predict_one(event) == found.predictions[n]
        if not numbers:
            p = found.probabilities[n]
            assert [*estimator.predict_proba_one(event).values()] == p[~np.isnan(p)].tolist()
        if label is not None:
            estimator.learn_one(event, label)
    assert estimator._model.learner.n_events == model.n_events == 240 - events.shown.count(None)


def test_classes_not_known_yet_have_no_probability() -> None:
    model = pool_alone(seed=1)
    found = model.predict_then_learn_many([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "c", "a"])
    assert found.predictions[0] is None
    known = [[False] * 3, [True, False, False], [True, True, False], [True] * 3]
    assert found.probabilities is not None
    assert (~np.isnan(found.probabilities)).tolist() == known
    np.testing.assert_allclose(np.nansum(found.probabilities[1:], axis=1), 1.0)


# --- booleans -------------------------------------------------------------------------------------


BOOLEANS = [
    *("many kernels, two", "a step an event, logistic of five", "clusters, logistic of five"),
    *("doubly-stochastic, alone", "online-nystrom, alone", "kernel-ridge, alone"),
    *("eigenpro, alone", "feature-machine, alone"),
]


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("first", [True, False, np.bool_(True)])
def test_of_booleans_both_are_classes(name: str, first: Any) -> None:
    """As if they had been known beforehand."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    labels = [first, *(X[1:, 0] > 0).tolist()]
    models = [VARIANTS[name](classes=classes) for classes in ((), (False, True), ())]
    for learner in models[:2]:
        learner.learn_one(X[0], first)
    models[2].learn_many(X[:1], [first])
    for learner in models:
        assert learner.classes == (False, True)
        assert [type(label) for label in learner.classes] == [bool, bool]
        assert learner.predict_proba_many(X).shape == (20, 2)
        learner.learn_many(X[1:], labels[1:])
        np.testing.assert_array_equal(learner.decision_many(X), models[0].decision_many(X))
    assert reopened(models[0]).classes == (False, True)
    given = VARIANTS[name](classes=[True, False])
    given.learn_one(X[0], False)
    assert given.classes == reopened(given).classes == (True, False), "the order given stays"
    mixed = VARIANTS[name]()
    mixed.learn_many(X[:2], ["a", True])
    assert mixed.classes == ("a", True)


def test_of_booleans_only_two_have_a_weight() -> None:
    model: Any = pool_alone(class_weight={True: 5.0, "never": 2.0})
    calls: list[Callable[[], Any]] = [
        lambda: model.learn_one([1.0], True),
        lambda: model.learn_many([[1.0]], [np.bool_(False)]),
        lambda: model.predict_then_learn_many([[0.0], [1.0]], [None, True]),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="'never', which is not among classes"):
            call()
    assert model.classes == ()
    assert model.columns is None
    model.learn_one([1.0], "never")
    model.learn_one([1.0], True)
    assert model.classes == ("never", True)


# --- against the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predictions_are_the_oracle_s(task: str, batch_size: int) -> None:
    """Predict in the scale so far, take the event in, learn it as scaled by that."""
    classes = task == "classification"
    events = stream("five" if classes else "numbers", 120, missing=True)
    oracle = naive.Scaled(
        naive.DoublyStochastic(
            naive.Kernel("gaussian", 0.8), "logistic" if classes else "squared", 3,
            ("constant", 0.5), block_size=30, max_features=30, classification=classes,
            columns=range(3),
        ),
        batch_size,
    )  # fmt: skip
    model = scaled(
        DoublyStochastic, task, loss="logistic" if classes else "squared", step=Constant(0.5),
        batch_size=batch_size, block_size=30, max_features=30, dtype="float64",
    )  # fmt: skip
    numbers: dict[Any, int] = {}
    for x, label in zip(events.X, events.shown, strict=True):
        if oracle.scale is not None:
            expected = oracle.decision(x)
            np.testing.assert_allclose(model.decision_many(x[None])[0], expected, rtol=1e-6)
        if label is not None:
            oracle.learn(x, numbers.setdefault(label, len(numbers)) if classes else label)
        model.predict_then_learn_many(x[None], [label])
    whole = reopened(model)
    np.testing.assert_allclose(whole.learner.coefficients, oracle.learner.alpha, rtol=1e-5)


def test_scaling_row_by_row_is_that_of_single_events() -> None:
    X = 100.0 * stream("numbers", missing=True).X + 5.0
    known = np.arange(len(X)) % 5 > 0
    one, many = RunningScale(3), RunningScale(3)
    kind = np.dtype(np.float32)
    after, units = many.transform_each(X, known, kind)
    for r, x in enumerate(X[:, None]):
        np.testing.assert_allclose(one.invert(np.zeros((1, 3)))[0], units[r, 0])
        if known[r]:
            one.update(x)
        np.testing.assert_array_equal(after[r : r + 1], one.transform(x, kind))
    assert_same(one, many)


# --- mini-batches ---------------------------------------------------------------------------------


def test_a_mini_batch_is_gathered_until_it_is_whole() -> None:
    events = stream("numbers", 30)
    model = made(DoublyStochastic, "regression", batch_size=8)
    for i in range(7):
        model.learn_one(events.X[i], events.y[i])
        assert (model.n_steps, model.n_gathered, model.n_events) == (0, i + 1, i + 1)
    model.learn_many(events.X[7:18], events.y[7:18])
    assert (model.n_steps, model.n_gathered, model.n_events) == (2, 2, 18)
    other = reopened(model)
    other.learn_many(events.X[18:], events.y[18:])
    merged = made(DoublyStochastic, "regression", batch_size=8)
    merged.merge(other)
    assert (merged.n_steps, merged.n_gathered, other.n_gathered) == (4, 0, 6)
    model.finish()
    model.finish()
    assert (model.n_steps, model.n_gathered, model.n_events) == (3, 0, 18)


def test_an_event_that_cannot_be_learned_ends_the_call_there() -> None:
    """The scale has taken in that event and those before it, as after single events."""
    events = stream("numbers", 60)
    options: dict[str, Any] = {"batch_size": 1, "kernel": Linear(), "step": Constant(1e6)}
    single, whole = (scaled(DoublyStochastic, "regression", **options) for _ in range(2))

    def go() -> None:
        for x, label in zip(events.X, events.y, strict=True):
            single.predict_one(x)
            single.learn_one(x, label)

    with pytest.raises(InvalidInput, match="overflowed") as one:
        go()
    with pytest.raises(InvalidInput, match="overflowed") as other:
        whole.predict_then_learn_many(events.X, events.y)
    assert str(one.value) == str(other.value)
    assert 1 < single.n_events < 60
    assert_same(whole, single)
