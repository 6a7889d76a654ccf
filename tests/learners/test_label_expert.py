"""The expert that knows the labels so far, among the experts of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.learners import MultiKernel
from streamk.memory.labels import COLUMNS
from tests.state_kit import assert_same, reopened

SEASON = 24


def walk(n: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Events whose columns say nothing, and labels that depend on those before them."""
    rng = np.random.default_rng(seed)
    rest = np.zeros(n)
    for now in range(2, n):
        rest[now] = 1.6 * rest[now - 1] - 0.8 * rest[now - 2] + rng.normal()
    return rng.normal(size=(n, 2)), 50.0 + rest


def model(**options: Any) -> MultiKernel:
    given: dict[str, Any] = {"task": "regression", "external_experts": (), "seed": 1, "threads": 1}
    return MultiKernel(**given | options)


def missed(found: NDArray[Any], y: NDArray[Any]) -> float:
    return float(np.abs(found - y)[500:].mean())


def test_it_is_of_use_where_labels_depend_on_those_before_and_rests_elsewhere() -> None:
    X, y = walk(6_000)
    one, without = model(), model(memory=False)
    predicted = [each.predict_then_learn_many(X, y).predictions for each in (one, without)]
    assert missed(predicted[0], y) < 0.97 * missed(predicted[1], y)
    assert one._mixture.external.active == [True]
    rng = np.random.default_rng(3)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=len(y))
    one, without = model(), model(memory=False)
    predicted = [each.predict_then_learn_many(X, y).predictions for each in (one, without)]
    assert missed(predicted[0], y) < 1.003 * missed(predicted[1], y)
    assert one._mixture.external.active == [False]


def test_what_it_sees_is_what_was_known_when_an_event_was_predicted() -> None:
    """An event is learned by the columns of when it was predicted, where labels come late."""
    X, y = walk(400)
    one, late = model(), 30
    memory = one._mixture.external.memory
    assert memory is not None
    seen: dict[int, list[NDArray[Any]]] = {}
    real = memory.columns_of

    def columns_of(events: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
        found = real(events, known)
        for row in found:
            seen.setdefault(int(np.abs(X - row[-2:]).sum(axis=1).argmin()), []).append(row)
        return found

    memory.columns_of = columns_of  # type: ignore[method-assign]
    for n in range(len(y)):
        one.predict_held_many(X[n : n + 1], [n])
        if n >= late:
            one.learn_held_many(X[n - late : n - late + 1], y[n - late : n - late + 1], [n - late])
            if n == 200:
                restored = reopened(one)
                restored.restore_held_predictions(one.held_predictions())
                assert_same(restored, one)
                for name, array in restored.held_predictions().items():
                    np.testing.assert_array_equal(array, one.held_predictions()[name])
    level = COLUMNS.index("level")
    for n, rows in seen.items():
        for row in rows[1:]:
            np.testing.assert_array_equal(row, rows[0], err_msg=f"event {n}")
        if n > 100:
            known = y[: n - late]  # label n - late comes after event n was predicted
            last = rows[0][COLUMNS.index("last")] + rows[0][level]
            np.testing.assert_allclose(last, known[-1], rtol=1e-12)


def test_held_events_go_on_from_a_checkpoint_as_if_nothing_had_been() -> None:
    X, y = walk(300, seed=4)
    one, late = model(), 20
    two: MultiKernel | None = None
    for n in range(len(y)):
        both = [each for each in (one, two) if each is not None]
        found = [each.predict_held_many(X[n : n + 1], [n]).predictions[0] for each in both]
        assert len(set(found)) == 1
        if n >= late:
            for each in both:
                each.learn_held_many(X[n - late : n - late + 1], y[[n - late]], [n - late])
        if n == 150:
            two = reopened(one)
            two.restore_held_predictions(one.held_predictions())
    assert two is not None
    assert_same(one, two)


@pytest.mark.parametrize("late", [0, 40])
def test_a_season_is_found_and_used_where_labels_come_late_too(late: int) -> None:
    rng = np.random.default_rng(5)
    n = 6_000
    X, shape = rng.normal(size=(n, 2)), rng.normal(size=SEASON)
    y = 10.0 * shape[np.arange(n) % SEASON] + 0.3 * rng.normal(size=n)
    one, predicted = model(), np.zeros(n)
    for first in range(0, n, 8):
        some = slice(first, first + 8)
        numbers = list(range(n))[some]
        predicted[some] = one.predict_held_many(X[some], numbers).predictions
        before = slice(first - late, first - late + 8)
        if before.start >= 0:
            one.learn_held_many(X[before], y[before], list(range(n))[before])
    memory = one._mixture.external.memory
    assert memory is not None
    assert memory.labels.seasons[0] == SEASON
    assert np.abs(predicted - y)[4_000:].mean() < 0.2 * np.abs(y - y.mean()).mean()


def test_a_model_that_is_only_opened_to_predict_does_without_it() -> None:
    X, y = walk(1_500)
    one = model()
    one.predict_then_learn_many(X, y)
    before = one.decision_many(X[:5])
    one.expect_no_labels()
    assert np.abs(one.decision_many(X[:5]) - before).max() > 0.0


@pytest.mark.parametrize("late", [0, 30])
def test_the_last_events_and_labels_are_kept_also_where_columns_come(late: int) -> None:
    """Of those an opened model learns how far it is off; a cut changes nothing."""
    X, y = walk(1_500)
    one = model()
    for n in range(0, len(y), 50):
        some = X[n : n + 50] if n >= 600 else X[n : n + 50, :1]
        numbers = list(range(n, n + 50))
        if n == 600:
            one.add_columns(["late"])
        if late:
            one.predict_held_many(some, numbers)
            one.learn_held_many(some, y[numbers], numbers)
        else:
            one.learn_many(some, y[numbers])
        if n == 1_000:
            one = reopened(one)
    memory = one._mixture.external.memory
    assert memory is not None
    events, labels = memory.last_events()
    np.testing.assert_array_equal(labels, y[-1_000:])
    np.testing.assert_array_equal(events[:, 0], X[-1_000:, 0])
    np.testing.assert_array_equal(
        events[:, 1], np.where(np.arange(500, 1_500) < 600, 0.0, X[-1_000:, 1])
    )
    assert one.errors_without_labels is None
    one.expect_no_labels()
    errors = one.errors_without_labels
    assert errors is not None
    np.testing.assert_array_equal(errors, labels - one.decision_many(events)[:, 0])
    low, high = one.predict_interval_many(events, 0.9).T
    assert ((low <= labels) & (labels <= high)).mean() >= 0.899


def test_events_are_kept_in_a_bounded_memory() -> None:
    one = model()
    one.learn_many(np.ones((40, 20_000)), np.arange(40.0))
    memory = one._mixture.external.memory
    assert memory is not None
    assert len(memory.last_events()[1]) == 26


def test_of_classes_there_is_none() -> None:
    assert MultiKernel()._mixture.external.memory is None
    with pytest.raises(InvalidInput, match="memory=True"):
        MultiKernel(memory=True)


def test_merged_ones_have_the_labels_of_the_one_ahead() -> None:
    X, y = walk(900)
    one = model()
    one.learn_many(X[:300], y[:300])
    two = reopened(one)
    one.learn_many(X[300:400], y[300:400])
    two.learn_many(X[400:], y[400:])
    one.merge(two, common_events=300)
    memory, ahead = one._mixture.external.memory, two._mixture.external.memory
    assert memory is not None
    assert ahead is not None
    assert memory.labels.now()[0] == ahead.labels.now()[0] == y[-1]
    for mine, its in zip(memory.last_events(), ahead.last_events(), strict=True):
        np.testing.assert_array_equal(mine, its)
    one.predict_then_learn_many(X[:50], y[:50])


def test_equal_events_that_are_predicted_together_have_what_is_known_of_each() -> None:
    rng, n, late = np.random.default_rng(6), 1_500, 30
    y = 10.0 * rng.normal(size=SEASON)[np.arange(n) % SEASON] + rng.normal(size=n)
    X, numbers, found = np.ones((n, 1)), list(range(n)), []
    models = [model() for _ in range(2)]
    for one, step in zip(models, (1, 10), strict=True):
        predicted = np.zeros(n)
        for first in range(0, n, step):
            some = slice(first, first + step)
            predicted[some] = one.predict_held_many(X[some], numbers[some]).predictions
            if first + step > late and (first + step) % 10 == 0:
                before = slice(first + step - 10 - late, first + step - late)
                if before.start >= 0:
                    one.learn_held_many(X[before], y[before], numbers[before])
        found.append(predicted)
    np.testing.assert_array_equal(*found)
    assert_same(*models)


def test_a_label_whose_event_was_forgotten_came_as_late_as_the_others() -> None:
    X, y = walk(300)
    one, late = model(pending_bytes=4_000), 50
    for n in range(len(y)):
        one.predict_held_many(X[n : n + 1], [n])
        if n >= late:
            one.learn_held_many(X[n - late : n - late + 1], y[[n - late]], [n - late])
    memory = one._mixture.external.memory
    assert memory is not None
    assert len(one.held_predictions()["numbers"]) < late, "most were forgotten"
    assert memory.labels.offset == 0
    assert memory.labels.n_labels == len(y) - late
    assert memory.model.n_events == 0


def test_a_label_that_is_learned_again_is_none_of_the_streams() -> None:
    X, y = walk(200)
    one, late = model(), 5
    for n in range(len(y)):
        one.predict_held_many(X[n : n + 1], [n])
        if n >= late:
            one.learn_held_many(X[[n - late]], y[[n - late]], [n - late])
    memory = one._mixture.external.memory
    assert memory is not None
    before = memory.labels.state()
    one.learn_held_many(X[:3], y[:3] + 1.0, [-1, -1, -1])
    after = memory.labels.state()
    assert after.header == before.header
    np.testing.assert_array_equal(after.arrays["labels"], before.arrays["labels"])
    assert one.n_events == len(y) - late + 3


def test_labels_as_far_apart_as_may_be_are_learned() -> None:
    X, y = walk(200)
    one = model()
    one.predict_then_learn_many(X, np.where(y > y.mean(), 1.5e19, -1.5e19))
    assert one.n_events == 200


def gaps(n: int, seed: int = 6) -> tuple[NDArray[Any], NDArray[Any]]:
    """Hourly events, many of which are lost, with labels of the shape of a day; times come last."""
    rng = np.random.default_rng(seed)
    hours = np.sort(rng.choice(2 * n, n, replace=False))
    y = 10.0 * rng.normal(size=SEASON)[hours % SEASON] + 0.3 * rng.normal(size=n)
    return np.column_stack([rng.normal(size=n), 3_600.0 * hours]), y


def test_labels_of_a_day_ago_are_known_where_events_are_missing() -> None:
    X, y = gaps(5_000)
    said = [model(clock=clock).predict_then_learn_many(X, y).predictions for clock in (None, 1)]
    assert missed(said[1][2_000:], y[2_000:]) < 0.7 * missed(said[0][2_000:], y[2_000:])
    absent = model(clock="ts@elapsed", columns=["a", "b"])
    absent.learn_many(X[:300], y[:300])
    assert np.isfinite(absent.decision_many(X)).all(), "no event has had a time"
    with pytest.raises(InvalidInput, match="clock"):
        MultiKernel(clock=1)


def test_with_times_any_cut_is_one_model() -> None:
    X, y = gaps(1_300)
    X[::50, 1], X[7::90, 1] = np.nan, 1e12
    whole, cut, single = (model(clock=1) for _ in range(3))
    expected = whole.predict_then_learn_many(X, y).predictions
    found = []
    for first in range(0, len(y), 130):
        some = slice(first, first + 130)
        found.append(cut.predict_then_learn_many(X[some], y[some]).predictions)
        cut = reopened(cut)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    for x, label, told in zip(X, y.tolist(), expected, strict=True):
        assert single.predict_one(x) == told
        single.learn_one(x, label)
    for each in (cut, single):
        assert_same(each, whole)


def test_held_events_with_times_go_on_from_a_checkpoint() -> None:
    X, y = gaps(1_200)
    one, two, late, step = model(clock=1), model(clock=1), 20, 10
    for first in range(0, len(y), step):
        some, numbers = slice(first, first + step), list(range(first, first + step))
        told = one.predict_held_many(X[some], numbers).predictions
        parts = [two.predict_held_many(X[[n]], [n]).predictions[0] for n in numbers]
        np.testing.assert_array_equal(told, parts)
        if first >= late:
            before = slice(first - late, first - late + step)
            for each in (one, two):
                each.learn_held_many(X[before], y[before], list(range(before.start, before.stop)))
        if first % 100 == 0:
            held, two = two.held_predictions(), reopened(two)
            two.restore_held_predictions(held)
    assert_same(one, two)


def test_merged_it_knows_the_times_of_the_one_ahead() -> None:
    X, y = gaps(1_200)
    one, other = (model(clock=1) for _ in range(2))
    one.learn_many(X[:100], y[:100])
    other.learn_many(X, y)
    one.merge(other)
    memories = [each._mixture.external.memory for each in (one, other)]
    times = [memory.labels.state().arrays["times"] for memory in memories if memory is not None]
    np.testing.assert_array_equal(*times)
    with pytest.raises(InvalidInput, match="clock"):
        one.merge(model())
