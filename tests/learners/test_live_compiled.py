"""A learner that is served by a compiled copy: what it predicts, its copies, and its states."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamk.errors import InvalidInput, NotLearned, StateError
from streamk.learners import LiveCompiled, MultiKernel, Scaled, create
from streamk.learners.live import LEAST_BUDGET
from streamk.learners.live_compiled import background, comparison, copies
from streamk.learners.live_compiled.background import Background, Order
from streamk.learners.live_compiled.comparison import Comparison
from streamk.learners.live_compiled.recent import RecentEvents
from streamk.learners.registry import from_state
from streamk.state import State

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")

Numbers = np.ndarray[Any, Any]

FIRST = 80
"""Events before the first copy is begun; it comes after 100, the next one is begun after 320."""
STEP = 20
N = 480
SMALL: dict[str, dict[str, Any]] = {
    "multi-kernel": {},
    "doubly-stochastic": {"max_features": 64, "block_size": 64, "batch_size": 8},
    "online-nystrom": {"max_landmarks": 8},
    "streaming-meka": {"rank": 4, "n_clusters": 2, "first": 40, "swap_delay": 25},
    "kernel-ridge": {"max_centers": 64},
    "eigenpro": {"n_centers": 20, "batch_size": 16},
    "feature-machine": {"buffer_size": 64, "first": 64, "swap_delay": 25},
}


class Here:
    """What compiles in this process, when it is asked for the result."""

    begun = 0

    def __init__(self, order: Order) -> None:
        type(self).begun += 1
        # As another process reads it.
        self._order = Order.from_state(through_json(order.state()))

    ended = True

    def result(self) -> Any:
        return self._order.compiled()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "FIRST", FIRST)
    monkeypatch.setattr(copies, "GROWTH", 4)
    monkeypatch.setattr(copies, "STEP", STEP)
    monkeypatch.setattr(copies, "ENOUGH", STEP)
    monkeypatch.setattr(copies, "_BEHIND", -1e9)  # every copy is followed by the next
    monkeypatch.setattr(copies, "_ITERATIONS", 5)
    monkeypatch.setattr(copies, "Background", Here)
    monkeypatch.setattr(Here, "begun", 0)


@pytest.fixture
def _processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a process compile, as it is."""
    monkeypatch.setattr(copies, "Background", Background)


def through_json(state: State) -> State:
    return State(json.loads(json.dumps(state.header)), state.arrays)


ANYTHING = 1e300
"""A tolerance within which a copy always is."""


def restored(state: State) -> LiveCompiled:
    """Return the learner of a state, with the tolerance of `live`."""
    return LiveCompiled.from_state(through_json(state), tolerance=ANYTHING)


def live(
    name: str = "doubly-stochastic",
    task: str = "classification",
    *,
    tolerance: float = ANYTHING,
    wait: bool = True,
    **options: Any,
) -> LiveCompiled:
    made = create(name, task=task, **{**SMALL[name], **options})
    return LiveCompiled(made, budget=5, tolerance=tolerance, wait=wait, seed=1)


def stream(task: str = "classification", n: int = N, labelled: float = 1.0) -> tuple[Numbers, Any]:
    """Return events (n, 2), and labels, None for none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) * [1.0, 100.0]
    product = X[:, 0] * X[:, 1]
    y: list[Any] = (
        product.tolist()
        if task == "regression"
        else np.where(product > 0, "same", "other").tolist()
    )
    known = rng.random(n) < labelled
    return X, [label if there else None for label, there in zip(y, known, strict=True)]


def served(labelled: float = 1.0, n: int = 200, **options: Any) -> LiveCompiled:
    """Return a learner whose first copy is in service."""
    model = live(**options)
    X, y = stream(options.get("task", "classification"), n, labelled)
    model.predict_then_learn_many(X, y)
    assert model.copy is not None
    return model


def same(one: LiveCompiled, other: LiveCompiled) -> None:
    first, second = one.state(), other.state()
    assert first.header == second.header
    assert first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, second.arrays[name], name)


# --- any cut --------------------------------------------------------------------------------------


def hard(name: str, task: str) -> tuple[Numbers, list[Any]]:
    """Return a stream with events that have no label, missing values, and late classes."""
    X, y = stream(task, labelled=0.8)
    if name == "multi-kernel":
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    y[:3] = [None] * 3
    if task == "classification":
        for row in (60, 220, 221, 300, 301, 400):  # before a copy, beside one that is made, after
            y[row] = "seldom" if row < 300 else "late"
    return X, y


CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "classification", {}) for name in SMALL),
    *((name, "regression", {}) for name in SMALL),
    ("multi-kernel", "classification", {"class_weight": "balanced"}),
    ("multi-kernel", "classification", {"class_weight": {"same": 3.0}}),
    *(("multi-kernel", task, {"tolerance": 0.02}) for task in ("classification", "regression")),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "task", "options"), CASES, ids=str)
def test_any_cut_gives_the_same_bits(name: str, task: str, options: dict[str, Any]) -> None:
    X, y = hard(name, task)
    model = live(name, task, **options)
    whole = model.predict_then_learn_many(X, y)
    other: Any = live(name, task, **options)
    # In the middle of each compilation, where each begins and is served, and beside those.
    cuts = [0, 2, 3, 7, 61, *range(95, 135, 4), 222, 301, 390, *range(395, 410, 3), N]
    found: list[Any] = []
    P: list[Numbers] = []
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        if number % 3 == 1:
            other = LiveCompiled.from_state(through_json(other.state()), **other.placing)
        part = other.predict_then_learn_many(X[start:stop], y[start:stop])
        found += part.predictions.tolist()
        if part.probabilities is not None:
            P.append(part.probabilities)
    assert found == whole.predictions.tolist()
    if whole.probabilities is not None:
        first = 0
        for some in P:
            rows = whole.probabilities[first : first + len(some)]
            np.testing.assert_array_equal(rows[:, : some.shape[1]], some)
            assert np.isnan(rows[:, some.shape[1] :]).all()
            first += len(some)
    same(model, other)
    assert model.copy is not None
    assert model.n_events > 320


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_single_events_give_the_same_bits(task: str) -> None:
    X, y = stream(task, 220)
    many, one = live(task=task), live(task=task)
    many.learn_many(X, y)
    for row, label in zip(X, y, strict=True):
        one.learn_one(row, label)
    same(many, one)
    assert many.predict_one(X[3]) == many.predict_many(X)[3]
    assert one.decision_one(X[3]).tolist() == many.decision_many(X)[3].tolist()


# --- what is predicted ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_before_the_first_copy_the_learner_is_served(task: str) -> None:
    X, y = stream(task, FIRST + 10)
    model, alone = live("multi-kernel", task), create("multi-kernel", task=task)
    found, expected = model.predict_then_learn_many(X, y), alone.predict_then_learn_many(X, y)
    assert found.predictions.tolist() == expected.predictions.tolist()
    assert model.predict_many(X).tolist() == alone.predict_many(X).tolist()
    assert (model.copy, model.comparison) == (None, {})


def test_the_learner_learns_as_it_would_alone() -> None:
    X, y = stream()
    model, alone = live("multi-kernel"), create("multi-kernel", task="classification")
    model.predict_then_learn_many(X, y)
    alone.predict_then_learn_many(X, y)
    mine, other = model.learner.state(), alone.state()
    assert mine.header == other.header
    for name, array in other.arrays.items():
        np.testing.assert_array_equal(mine.arrays[name], array, name)


def test_nothing_is_known_at_first() -> None:
    model = live()
    X, _ = stream(n=5)
    found = model.predict_then_learn_many(X, [None] * 5)
    assert found.predictions.tolist() == [None] * 5
    for predict in (model.predict_many, model.predict_proba_many):
        with pytest.raises(NotLearned, match="no class is known yet"):
            predict(X)
    numbers = live(task="regression").predict_then_learn_many(X, [None] * 5)
    assert numbers.predictions.tolist() == [0.0] * 5


def test_a_class_that_comes_after_a_copy_is_predicted() -> None:
    model = served()
    rng = np.random.default_rng(5)
    X = np.array([30.0, 3000.0]) + rng.normal(size=(40, 2))  # where nothing else is
    found = model.predict_then_learn_many(X, ["new"] * 40)
    assert "new" not in found.predictions[:1]
    assert found.predictions[-1] == "new"
    assert model.classes[-1] == "new"
    np.testing.assert_allclose(model.predict_proba_many(X).sum(axis=1), 1.0)
    assert "new" not in (model.copy.classes if model.copy else ())
    rest, labels = stream(n=200)
    model.learn_many(rest, labels)  # the next copy knows it
    assert model.copy is not None
    assert "new" in model.copy.classes


def test_a_column_that_comes_after_a_copy_counts() -> None:
    model = served(task="regression")
    X, _ = stream("regression")
    before = model.predict_many(X)
    model.add_columns(["late"])
    wide = np.column_stack([X, np.zeros(N)])
    np.testing.assert_array_equal(model.predict_many(wide), before)
    wide[:, 2] = np.random.default_rng(4).normal(size=N)
    y = 500.0 * wide[:, 2]
    model.learn_many(wide[:300], y[:300])
    assert model.copy is not None
    assert model.copy.width == 3
    assert np.corrcoef(model.predict_many(wide[300:]), y[300:])[0, 1] > 0.8


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_events_without_a_label_are_for_copies_alone(task: str) -> None:
    model = served(task=task)
    X, _ = stream(task, 100)
    learner, mixture = model.learner.state(), model._mixture.state()
    found = model.predict_then_learn_many(X, [None] * 100)
    for before, after in (
        (learner, model.learner.state()),
        (mixture, model._mixture.state()),
    ):
        assert before.header == after.header
        for name, array in before.arrays.items():
            np.testing.assert_array_equal(after.arrays[name], array, name)
    assert found.predictions.tolist() == model.predict_many(X).tolist()
    if found.probabilities is not None:
        np.testing.assert_array_equal(found.probabilities, model.predict_proba_many(X))
    np.testing.assert_array_equal(model._copies.recent.events[-100:], X)
    model.predict_then_learn_many(X, [None] * 100)
    assert Here.begun == 2  # after 320 events


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_aside_leaves_no_trace(task: str) -> None:
    model = served(task=task)
    X, _ = stream(task)
    before = copy.deepcopy(model)
    with model.aside():
        model.predict_then_learn_many(X, [None] * N)
        model.predict_many(X)
    same(model, before)


def test_the_order_of_labels_that_come_late_counts() -> None:
    """Events are predicted first and learned later, as where labels come late."""
    X, y = stream()
    model = live("multi-kernel")
    for start in range(0, N, 40):
        part = slice(start, start + 40)
        if model.classes:
            model.predict_many(X[part])
        model.learn_many(X[part], y[part])
    assert model.copy is not None
    assert np.mean(model.predict_many(X) == np.array(y)) > 0.8


def test_missing_values() -> None:
    X, y = stream()
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    X[:, 1][:150] = np.nan
    model = live("multi-kernel")
    assert model.takes_missing
    P = model.predict_then_learn_many(X, y).probabilities
    assert P is not None
    assert np.isfinite(P[2:]).all()
    assert np.isfinite(model.predict_proba_many(np.full((1, 2), np.nan))).all()


def test_booleans_are_two_classes_from_the_first_label_on() -> None:
    X, y = stream()
    labels = [label == "same" for label in y]
    labels[:150] = [True] * 150
    model = live("multi-kernel")
    found = model.predict_then_learn_many(X, labels)
    assert model.classes == (False, True)
    assert {type(one) for one in found.predictions[1:]} == {bool}
    assert model.copy is not None
    assert np.mean(model.predict_many(X[150:]) == np.array(labels[150:])) > 0.7


def test_one_class_is_not_compiled() -> None:
    X, _ = stream(n=200)
    model = live()
    found = model.predict_then_learn_many(X, ["only"] * 200)
    assert set(found.predictions[1:]) == {"only"}
    assert model.copy is None
    assert Here.begun == 0


def test_events_without_columns_are_not_compiled() -> None:
    model = live("multi-kernel")
    model.add_columns(())
    y = ["a", "b"] * 100
    found = model.predict_then_learn_many(np.zeros((200, 0)), y)
    assert set(found.predictions[1:]) <= {"a", "b"}
    assert model.copy is None


def test_regression() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 2))
    y = 1e5 + 1e3 * X[:, 0] * X[:, 1]
    model = live("multi-kernel", "regression")
    found = model.predict_then_learn_many(X, y)
    figures = model.comparison
    assert figures["copy_mae"] < 0.5 * np.abs(y - y.mean()).mean()
    assert np.abs(found.predictions[500:] - y[500:]).mean() < 100.0
    with pytest.raises(InvalidInput, match="no class probabilities"):
        model.predict_proba_many(X)


def test_class_weights_choose() -> None:
    X, y = stream()
    plain = live("multi-kernel")
    heavy = live("multi-kernel", class_weight={"same": 1e4})
    plain.learn_many(X, y)
    found = heavy.predict_then_learn_many(X, y)
    assert heavy.copy is not None
    assert set(heavy.predict_many(X)) == {"same"}
    assert set(found.predictions[-50:]) == {"same"}
    np.testing.assert_array_equal(heavy.predict_proba_many(X), plain.predict_proba_many(X))


def test_balanced_weights_are_those_at_the_time() -> None:
    X, y = stream()
    y = ["seldom" if n % 20 == 0 else label for n, label in enumerate(y)]
    model = live("multi-kernel", class_weight="balanced")
    model.learn_many(X[:200], y[:200])
    one = copy.deepcopy(model)
    found = model.predict_then_learn_many(X[200:], y[200:]).predictions
    for row, label, expected in zip(X[200:], y[200:], found, strict=True):
        assert one.predict_one(row) == expected
        one.learn_one(row, label)


# --- options --------------------------------------------------------------------------------------


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(InvalidInput, match="of a quantile cannot be served"):
        LiveCompiled(MultiKernel(task="regression", loss="quantile"))
    for name in ("doubly-stochastic", "online-nystrom"):
        with pytest.raises(InvalidInput, match="of a quantile cannot be served"):
            live(name, "regression", loss="quantile")
    no_learner: Any
    for no_learner in (live(), object()):
        with pytest.raises(InvalidInput, match="give a learner of streamk"):
            LiveCompiled(no_learner)
    learned = create("doubly-stochastic", task="classification")
    learned.learn_many(*stream(n=5))
    with pytest.raises(InvalidInput, match="has learned 5 events already"):
        LiveCompiled(learned)
    with pytest.raises(InvalidInput, match=r"budget=4\.9"):
        LiveCompiled(create("doubly-stochastic", task="regression"), budget=4.9)
    with pytest.raises(InvalidInput, match="seed"):
        LiveCompiled(create("doubly-stochastic", task="regression"), seed=-1)


@pytest.mark.parametrize(("d", "K"), [(1, 1), (16, 1), (17, 1), (100, 1), (16, 2), (16, 3), (1, 9)])
def test_the_least_budget_allows_for_a_copy(d: int, K: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, d)), rng.integers(0, K, 120)
    task = "regression" if K == 1 else "classification"
    options: dict[str, Any] = SMALL["doubly-stochastic"]
    made = create("doubly-stochastic", task=task, **options)
    model = LiveCompiled(made, budget=LEAST_BUDGET)
    model.learn_many(X, X[:, 0] if K == 1 else y)
    assert model.copy is not None


def test_mistakes_leave_it_as_it_was() -> None:
    model = served()
    X, y = stream(n=5)
    before = copy.deepcopy(model)
    for events, labels, says in (
        (X, [1.5] * 5, "row 0"),
        (X, y[:4], "labels"),
        (X[:, :1], y, "columns"),
        (X * np.inf, y, "inf"),
    ):
        with pytest.raises(InvalidInput, match=says):
            model.predict_then_learn_many(events, labels)
    same(model, before)


# --- copies ---------------------------------------------------------------------------------------


def test_the_schedule() -> None:
    model = live()
    X, y = stream(n=700)
    begun, at = [], []
    for n, (x, label) in enumerate(zip(X, y, strict=True), 1):
        compiled, count = model.copy, Here.begun
        model.learn_one(x, label)
        if Here.begun > count:
            begun.append(n)
        if model.copy is not compiled:
            at.append(n)
    assert begun == [FIRST, 4 * FIRST]
    assert at == [FIRST + FIRST // 4, 5 * FIRST]


def test_a_copy_that_is_as_good_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_BEHIND", 1e6)
    model = live()
    model.learn_many(*stream(n=700))
    assert Here.begun == 1
    assert model.comparison["events"] == 600


def test_the_learner_predicts_until_a_copy_has_proved_as_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "_BEHIND", 1e6)
    X, y = stream(labelled=0.5)
    model, alone = live("multi-kernel"), create("multi-kernel", task="classification")
    found = model.predict_then_learn_many(X, y)
    mine = alone.predict_then_learn_many(X, y)
    assert model.comparison["copy_predicts"]
    assert found.probabilities is not None
    assert mine.probabilities is not None
    apart = np.nan_to_num(found.probabilities) != np.nan_to_num(mine.probabilities)
    (different,) = np.nonzero(apart.any(axis=1))
    # The copy comes after 100 events; of the next 40 at least 20 have a label.
    labels = np.cumsum([label is not None for label in y[100:]])
    proved = 100 + STEP * (1 + int((labels < STEP).sum()) // STEP)
    assert different[0] == proved
    share = (N - proved) / (N - 100)
    assert model.comparison["predicted_by_copy"] == pytest.approx(share)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_copy_that_falls_behind_does_not_predict(task: str) -> None:
    """The copy knows the first concept; the learner alone learns the second one."""
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(copies, "_BEHIND", 1e6)
        patch.setattr(comparison, "_MEMORY", 100)
        X, y = stream(task)
        first = live("multi-kernel", task, tolerance=0.3)
        first.learn_many(X[:200], y[:200])
        first.renew_copy()
        rng = np.random.default_rng(9)
        Z = rng.normal(size=(3000, 2)) * [1.0, 100.0]
        turned: Any = Z[:, 0] ** 2 if task == "regression" else Z[:, 0] ** 2 > 1.0
        if task == "classification":
            turned = np.where(turned, "same", "other")
        alone = copy.deepcopy(first.learner)
        said = first.predict_then_learn_many(Z, turned)
        mine = alone.predict_then_learn_many(Z, turned)
    assert not first.comparison["copy_predicts"]
    assert 0.0 < first.comparison["predicted_by_copy"] < 0.5
    np.testing.assert_array_equal(said.predictions[-500:], mine.predictions[-500:])


def test_few_labels_are_no_proof() -> None:
    X, y = stream()
    model = live()
    model.predict_then_learn_many(X[:110], y[:110])
    model.predict_then_learn_many(X[110:], [None] * (N - 110))
    assert model.copy is not None
    assert model.comparison["events"] == 10
    assert not model.comparison["copy_predicts"]
    assert Here.begun == 1  # nothing says that another would be better


def test_copies_of_a_learner_of_few_labels_learn_all_events() -> None:
    X, y = stream(labelled=0.3)
    model = live()
    model.predict_then_learn_many(X, y)
    assert model.copy is not None
    assert model.n_events < 200
    assert len(model._copies.recent.events) == N


# --- copies that come with a checkpoint -----------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_copy_comes_with_a_checkpoint(task: str) -> None:
    X, y = stream(task)
    model = live(task=task, wait=False)
    model.predict_then_learn_many(X[:200], y[:200])
    assert model.copy is None
    state = model.state()
    model.predict_then_learn_many(X[200:220], y[200:220])
    assert model.copy is None  # the checkpoint could not be written
    other = restored(state)
    assert other.copy is not None
    state = model.state()
    model.checkpointed()
    other = restored(state)
    assert model.copy is not None
    same(model, other)
    found = model.predict_then_learn_many(X[220:], y[220:])
    again = other.predict_then_learn_many(X[220:], y[220:])
    assert found.predictions.tolist() == again.predictions.tolist()
    same(model, other)
    assert model.comparison["copy_predicts"]


def test_without_a_state_a_copy_comes_when_it_is_ready() -> None:
    X, y = stream()
    model = live(wait=False)
    model.learn_many(X[:90], y[:90])
    model.checkpointed()  # no state has a copy
    assert model.copy is None
    model.checkpointed(saved=False)
    assert model.copy is not None


@pytest.mark.nightly
@pytest.mark.usefixtures("_processes")
def test_nothing_waits_for_a_copy_that_comes_with_a_checkpoint() -> None:
    X, y = stream()
    model = live(wait=False)
    model.learn_many(X[:90], y[:90])
    process = process_of(model)
    os.kill(process.pid, signal.SIGSTOP)
    model.learn_many(X[90:], y[90:])
    model.state()
    model.checkpointed()
    assert model.copy is None
    os.kill(process.pid, signal.SIGCONT)
    process.wait()
    model.state()
    model.checkpointed()
    assert model.copy is not None


@pytest.mark.nightly
@pytest.mark.usefixtures("_processes")
def test_a_process_that_ends_without_a_copy_is_told_and_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    X, y = stream()
    model = live(wait=False)
    model.learn_many(X[:90], y[:90])
    process = process_of(model)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with caplog.at_level(logging.WARNING, "streamk.compiling"):
        model.state()
    assert "ended with -9" in caplog.text
    assert "the next one is begun after 320 events" in caplog.text
    model.checkpointed()
    assert model.copy is None
    model.learn_many(X[90:330], y[90:330])
    process_of(model).wait()
    model.state()
    model.checkpointed()
    assert model.copy is not None


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_comparison_by_hand(task: str) -> None:
    model = served(task=task)
    assert model.comparison["events"] == 100
    model = restored(model.state())
    X, y = stream(task, 260)
    alone = model.learner
    mine, ours = [], []
    model._copies._comparison = type(model._copies._comparison)()
    again = copy.deepcopy(model)
    for x, label in zip(X[200:], y[200:], strict=True):
        mine.append(
            alone.predict_proba_one(x) if task == "classification" else alone.predict_one(x)
        )
        ours.append(
            model.predict_proba_one(x) if task == "classification" else model.predict_one(x)
        )
        model.learn_one(x, label)
    again.predict_then_learn_many(X[200:], y[200:])
    figures = model.comparison
    assert figures == again.comparison
    assert (figures.pop("predicted_by_copy"), figures.pop("copy_predicts")) == (140 / 160, True)
    labels: list[Any] = y[200:]

    def loss(said: Sequence[Any]) -> float:
        gains = [max(p[k], 1e-4) for p, k in zip(said, labels, strict=True)]
        return float(np.mean(-np.log(gains)))

    if task == "classification":
        one, other = ([max(p, key=p.__getitem__) for p in said] for said in (mine, ours))
        expected = {
            "events": 60,
            "agreement": np.mean([a == b for a, b in zip(one, other, strict=True)]),
            "learner_accuracy": np.mean([a == b for a, b in zip(one, labels, strict=True)]),
            "copy_accuracy": np.mean([a == b for a, b in zip(other, labels, strict=True)]),
            "learner_log_loss": loss(mine),
            "copy_log_loss": loss(ours),
        }
    else:
        a, b, truth = np.array(mine), np.array(ours), np.array(labels)
        expected = {
            "events": 60,
            "mean_difference": np.abs(a - b).mean(),
            "learner_mae": np.abs(a - truth).mean(),
            "copy_mae": np.abs(b - truth).mean(),
            "learner_rmse": np.square(a - truth).mean() ** 0.5,
            "copy_rmse": np.square(b - truth).mean() ** 0.5,
        }
    assert figures == pytest.approx(expected)


def compared(y: Numbers, *, pieces: int = 1) -> Comparison:
    """Return the comparison of a copy that knows the mean alone with a learner that knows half."""
    found = Comparison()
    noise = np.random.default_rng(1).normal(size=len(y)) / 2
    mine = np.where(np.abs(y) < 100.0, y - noise, 0.0)
    for step in np.array_split(np.arange(len(y)), len(y) // 1000):
        for part in np.array_split(step, pieces):
            rest = {"is_classifier": False}
            found.add(mine[part, None], np.zeros((len(part), 1)), y[part], **rest)
        found.close()
    return found


@pytest.mark.parametrize("label", [-9999.0, 1e6, 1e19])
def test_a_label_far_out_hides_no_loss(label: float) -> None:
    y = np.random.default_rng(0).normal(size=10_000)
    expected = compared(y[:6000]).excess(is_classifier=False)
    assert expected == pytest.approx(0.75, abs=0.05)
    y[5500] = label
    assert compared(y[:6000]).excess(is_classifier=False) > 0.5 * expected
    found = compared(y)
    assert found.excess(is_classifier=False) > 0.5 * expected
    assert found.figures(is_classifier=False)["copy_rmse"] > 0.009 * abs(
        label
    )  # these hide nothing
    again = compared(y, pieces=7)
    assert again.state().arrays["last"].tolist() == found.state().arrays["last"].tolist()


def test_labels_that_move_away_are_followed() -> None:
    """A bound by the labels of before does not stay where all labels are past it."""
    y = np.random.default_rng(0).normal(size=20_000)
    y[5000:] += 1e6
    found = Comparison()
    for step in np.array_split(np.arange(len(y)), 20):
        behind = np.zeros((len(step), 1))
        found.add(y[step, None] - 0.1, behind, y[step], is_classifier=False)
        found.close()
        assert found.excess(is_classifier=False) > 0.5
    last = found.state().arrays["last"]
    assert last[3] / last[0] == pytest.approx(1e6, rel=0.1)


def test_predictions_past_all_numbers_leave_a_state_that_opens() -> None:
    found = Comparison()
    y = np.random.default_rng(0).normal(size=2000)
    mine = y[:, None].copy()
    mine[3], mine[1500] = -1e300, 1e300
    for step in (slice(1000), slice(1000, 2000)):
        found.add(mine[step], y[step, None], y[step], is_classifier=False)
        found.close()
    other = Comparison.from_state(through_json(found.state()))
    assert other.excess(is_classifier=False) <= 0.0
    assert np.isfinite(list(other.figures(is_classifier=False).values())).all()


def test_recent_events_that_become_wider_are_fewer() -> None:
    recent = RecentEvents(1000, most_bytes=8 * 1000)
    recent.add_columns(1)
    recent.add(np.arange(1000.0)[:, None])
    recent.add_columns(9)
    assert recent.events.shape == (100, 10)
    recent.add(np.ones((1, 10)))
    assert recent.events.shape == (100, 10)
    assert recent.events[:, 0].tolist() == [*range(901, 1000), 1.0]


def test_predictions_wait_for_a_copy_that_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = served()
    X, _ = stream(n=5)
    renewing, said = threading.Event(), threading.Event()

    def predict() -> None:
        assert renewing.wait(60)
        model.predict_many(X)
        said.set()

    class Watched(Here):
        def result(self) -> Any:
            renewing.set()
            assert not said.wait(0.2)
            return super().result()

    monkeypatch.setattr(copies, "Background", Watched)
    thread = threading.Thread(target=predict)
    thread.start()
    model.renew_copy()
    thread.join()
    assert said.is_set()


# --- the process that compiles --------------------------------------------------------------------


def process_of(model: LiveCompiled) -> subprocess.Popen[bytes]:
    found = model._copies._background
    assert isinstance(found, Background)
    assert found._process is not None
    return found._process


@pytest.mark.nightly
@pytest.mark.usefixtures("_processes")
def test_a_process_compiles_what_would_be_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = stream(n=150)
    model = live()
    model.learn_many(X[:90], y[:90])
    process, room = process_of(model), model._copies._background._here  # type: ignore[union-attr]
    model.learn_many(X[90:], y[90:])
    assert process.returncode == 0
    assert not room.exists()
    monkeypatch.setattr(copies, "Background", Here)
    here = live()
    here.learn_many(X, y)
    same(model, here)


@pytest.mark.usefixtures("_processes")
def test_a_process_that_is_killed_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    X, y = stream(n=150)
    model = live()
    model.learn_many(X[:90], y[:90])
    os.kill(process_of(model).pid, signal.SIGKILL)
    with caplog.at_level(logging.WARNING, "streamk.compiling"):
        model.learn_many(X[90:], y[90:])
    assert "ended with -9" in caplog.text
    assert "compiling in this process" in caplog.text
    monkeypatch.setattr(copies, "Background", Here)
    here = live()
    here.learn_many(X, y)
    same(model, here)


@pytest.mark.usefixtures("_processes")
def test_where_its_directory_is_cleaned_away_it_is_compiled_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    X, y = stream(n=150)
    model = live()
    model.learn_many(X[:90], y[:90])
    shutil.rmtree(model._copies._background._here)  # type: ignore[union-attr]
    with caplog.at_level(logging.WARNING, "streamk.compiling"):
        model.learn_many(X[90:], y[90:])
    assert "compiling in this process" in caplog.text
    assert model.comparison["events"] == 50


@pytest.mark.nightly
@pytest.mark.usefixtures("_processes")
def test_waiting_for_a_copy_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_SILENT", 0.0)
    with caplog.at_level(logging.WARNING, "streamk.compiling"):
        served(n=150)
    assert "waiting for the compiled copy" in caplog.text
    assert "is over, after" in caplog.text


@pytest.mark.usefixtures("_processes")
def test_where_no_process_can_be_started_it_is_compiled_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(background.tempfile, "tempdir", str(tmp_path / "none"))
    with caplog.at_level(logging.WARNING, "streamk.compiling"):
        model = served(n=150)
    assert "no process that compiles can be started" in caplog.text
    assert model.comparison["events"] == 50


@pytest.mark.usefixtures("_processes")
def test_a_process_ends_with_its_learner() -> None:
    model = live()
    model.learn_many(*stream(n=90))
    process, room = process_of(model), model._copies._background._here  # type: ignore[union-attr]
    assert room.exists()
    del model
    assert process.returncode == -signal.SIGKILL
    assert not room.exists()


@pytest.mark.nightly
@pytest.mark.usefixtures("_processes")
def test_a_process_outlives_what_ends_the_job_in_order() -> None:
    """A supervisor sends SIGTERM to all processes of a job, whose last state is to have the copy
    that is being compiled."""
    model = live(wait=False)
    model.learn_many(*stream(n=90))
    process, room = process_of(model), model._copies._background._here  # type: ignore[union-attr]
    deadline = time.monotonic() + 60
    while (room / "order.safetensors").exists():  # until it is at work
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    assert process.wait() == 0


@pytest.mark.nightly
@pytest.mark.usefixtures("_processes")
def test_a_process_leaves_no_events_behind() -> None:
    """A job that is killed later, before it has taken the copy, removes nothing."""
    model = live(wait=False)
    model.learn_many(*stream(n=90))
    process, room = process_of(model), model._copies._background._here  # type: ignore[union-attr]
    assert process.wait() == 0
    assert sorted(path.name for path in room.iterdir()) == ["model.safetensors", "said"]


OWNER = """
import sys
import numpy as np
from streamk.learners import LiveCompiled, create
from streamk.learners.live_compiled import background, comparison, copies
copies.FIRST = copies.STEP = copies.ENOUGH = 20
background._WORK = background._WORK.replace("background.work(", "background.Order.compiled ="
    " lambda order: __import__('time').sleep(600); background.work(")
X = np.random.default_rng(0).normal(size=(21, 2))
model = LiveCompiled(create("kernel-ridge", task="regression", max_centers=64), budget=5)
model.learn_many(X, X[:, 0])
print(model._copies._background._process.pid, model._copies._background._here, flush=True)
sys.stdin.read()
"""


def test_a_process_ends_with_the_one_that_started_it() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    try:
        pid, room = owner.stdout.readline().split()
        assert Path(room).exists()
    finally:
        owner.kill()
        owner.communicate()
    deadline = time.monotonic() + 60
    while Path(room).exists() or running(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


def test_predicting_from_a_loaded_state_starts_no_process() -> None:
    model = live()
    X, y = stream()
    model.learn_many(X[:90], y[:90])
    begun = Here.begun
    loaded: Any = from_state(model.state())
    loaded.predict_many(X)
    loaded.predict_proba_many(X)
    loaded.predict_one(X[0])
    with loaded.aside():
        loaded.predict_then_learn_many(X, [None] * N)
    loaded.state()
    pickle.loads(pickle.dumps(loaded))
    assert Here.begun == begun
    loaded.learn_many(X[90:91], y[90:91])
    assert Here.begun == begun + 1


# --- states ---------------------------------------------------------------------------------------


def test_pickle_and_deepcopy() -> None:
    X, y = stream()
    for n in (10, 90, 200, 330):
        model = live()
        model.learn_many(X[:n], y[:n])
        others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        model.learn_many(X[n:], y[n:])
        for other in others:
            other.learn_many(X[n:], y[n:])
            same(model, other)


def test_what_it_says_of_itself() -> None:
    model = served()
    assert repr(model).startswith("LiveCompiled(")
    assert model.n_features == model.learner.n_features == 64
    assert model.copy is not None
    assert model.nbytes > model.learner.nbytes + model.copy.nbytes
    assert model.max_classes == model.learner.max_classes
    assert isinstance(model.learner, Scaled)
    assert model.drifts == ()
    begun = live()
    begun.learn_many(*stream(n=90))  # a copy of 80 events is being compiled
    parts = begun.learner.nbytes + begun._mixture.nbytes + begun._copies.recent.nbytes
    assert begun.nbytes == parts + 80 * (2 + 1) * 8


def damaged(model: LiveCompiled, header: dict[str, Any] | None = None, **arrays: Any) -> State:
    state = model.state()
    changed = {name.replace("__", "."): array for name, array in arrays.items()}
    assert changed.keys() <= state.arrays.keys()
    return State({**state.header, **(header or {})}, {**state.arrays, **changed})


@pytest.mark.parametrize(
    ("array", "value", "match"),
    [
        ("events", np.zeros((9, 3)), "'events'"),
        ("events", np.full((9, 2), np.inf), "'events'"),
        ("mixture__linear", np.zeros((2, 2, 9)), "'linear'"),
        ("mixture__linear", np.full((2, 2, 3), np.nan), "'linear'"),
        ("mixture__means", np.zeros((3, 7)), "'means'"),
        ("mixture__shares", np.full(6, 0.5), "'shares'"),
        ("mixture__mixers", np.array([1.0]), "'mixers'"),
        ("mixture__products", np.full((2, 6), np.inf), "'products'"),
        ("mixture__seen", np.array([-1.0, 0.0]), "'seen'"),
        ("comparison__sums", np.full(6, -1.0), "'sums'"),
        ("comparison__sums", np.zeros(5), "'sums'"),
        ("copy__roots", np.array([2**40]), "roots"),
        ("order__events", np.zeros((4, 2)), "'targets'"),
        ("order__targets", np.full((320, 1), 2.0), "'targets'"),
        ("order__targets", np.full((320, 1), np.nan), "'targets'"),
        ("order__targets", np.zeros((320, 2)), "'targets'"),
    ],
)
def test_an_array_of_no_use_is_named(array: str, value: Numbers, match: str) -> None:
    with pytest.raises(StateError, match=match):
        from_state(damaged(served(n=330), **{array: value}))


@pytest.mark.parametrize("part", ["learner", "mixture", "comparison", "copy", "order"])
def test_arrays_that_are_missing(part: str) -> None:
    state = served(n=330).state()
    for name in state.arrays:
        if name.startswith(f"{part}.") or name == "events":
            rest = {key: array for key, array in state.arrays.items() if key != name}
            with pytest.raises(StateError):
                from_state(State(state.header, rest))


@pytest.mark.parametrize(
    "header",
    [
        {"budget": -1.0},
        {"budget": "much"},
        {"budget": 1.0},
        {"seed": -1},
        {"at": -1},
        {"come_at": None},
        {"seen": 0.5},
        {"format": 99},
        {"type": "live"},
    ],
)
def test_a_header_of_no_use(header: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        from_state(damaged(served(n=330), header))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("copy", {"classes": ["same", "strange"]}),
        ("copy", {"classes": ["same", "same"]}),
        ("copy", {"classes": []}),
        ("order", {"classes": ["same", "strange"]}),
        ("order", {"classes": []}),
        ("order", {"classes": [["same"], {}]}),
        ("order", {"deviation": 0.0}),
        ("order", {"options": {"budget": "much"}}),
        ("order", {"options": {"trees": 0}}),
        ("order", {"options": None}),
    ],
)
def test_a_part_of_another_learner(part: str, change: dict[str, Any]) -> None:
    model = served(n=330)
    parts: Any = model.state().header["parts"]
    header = {"parts": {**parts, part: {**parts[part], **change}}}
    with pytest.raises(StateError):
        from_state(damaged(model, header))


def test_options_of_a_state_ask_for_no_more_than_there_is() -> None:
    model = served(n=330)
    parts: Any = model.state().header["parts"]
    huge = {**parts["order"]["options"], "trees": 10**9, "leaves": 10**9, "landmarks": 10**9}
    header = {"parts": {**parts, "order": {**parts["order"], "options": huge}}}
    other = restored(damaged(model, header))
    X, y = stream()
    model.learn_many(X[330:], y[330:])
    other.learn_many(X[330:], y[330:])
    same(model, other)


def test_merge() -> None:
    X, y = stream()
    model = served()
    other = copy.deepcopy(model)
    model.learn_many(X[200:240], y[200:240])
    other.learn_many(X[240:280], [*y[240:279], "new"])
    compiled = model.copy
    model.merge(other, common_events=200)
    assert model.n_events == 280
    assert model.classes == other.classes
    assert model.copy is compiled
    np.testing.assert_allclose(model.predict_proba_many(X).sum(axis=1), 1.0)
    twin = copy.deepcopy(model)
    model.predict_then_learn_many(X[280:], y[280:])
    for row in range(280, N):
        twin.predict_then_learn_many(X[row : row + 1], y[row : row + 1])
    same(model, twin)
    with pytest.raises(InvalidInput, match="differ in budget"):
        model.merge(LiveCompiled(create("doubly-stochastic", task="classification"), budget=6))
