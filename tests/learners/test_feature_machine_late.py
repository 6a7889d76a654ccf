"""A feature machine where labels come long after the predictions of their events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.backends import LATE
from streamk.learners import FeatureMachine, MultiKernel
from streamk.learners.rfm.solving import TrainingEvents


def season(n: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return events whose labels follow two columns, and a level that wanders."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    level = 0.98 ** np.arange(300)[::-1]
    wander = np.convolve(rng.normal(size=n + 299), level, "valid") * 0.3
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + wander


def machine(**options: Any) -> FeatureMachine:
    return FeatureMachine(task="regression", columns=range(4), seed=1, **options)


def learned(lag: int, n: int = 800) -> FeatureMachine:
    X, y = season(n)
    made = machine()
    made.lags = np.full(n, lag)
    made.learn_many(X, y)
    return made


@pytest.mark.parametrize("lag", [0, LATE - 1, LATE, 500])
def test_where_labels_come_late_the_solution_is_asked_alone(lag: int) -> None:
    made, (X, _) = learned(lag), season(32, seed=1)
    assert made.n_takeovers > 0
    assert made.lag == lag
    alone = made._function._leaves[0]
    assert made._function.follows == (lag < LATE)
    if lag >= LATE:
        assert alone.chosen_regularization == np.inf
        assert made._function.errors is None
    again = FeatureMachine.from_state(made.state())
    assert again.lag == lag
    np.testing.assert_array_equal(again.decision_many(X), made.decision_many(X))
    assert again._function.follows == made._function.follows


def test_late_errors_that_are_independent_are_followed() -> None:
    """Events in random order tell as much of a stream that changes as if labels came at once."""
    X, y = season(800)
    order = np.random.default_rng(5).permutation(800)
    made = machine()
    made.lags = np.full(800, 40)
    made.learn_many(X[order], y[order])
    assert made.n_takeovers > 0
    assert made._function.follows


def test_a_function_follows_again_where_labels_come_at_once_again() -> None:
    made, (X, y) = learned(100), season(2_400)
    assert not made._function.follows
    made.learn_many(X[800:], y[800:])
    assert made.lag < LATE
    assert made._function.follows


def test_any_cut_has_the_same_lags() -> None:
    X, y = season(900)
    lags = np.random.default_rng(3).integers(-1, 60, 900)
    whole, parts = machine(), machine()
    whole.lags = lags
    whole.learn_many(X, y)
    for first in range(0, 900, 77):
        some = slice(first, first + 77)
        parts.lags = lags[some]
        parts.learn_many(X[some], y[some])
    assert parts.lag == whole.lag > LATE
    np.testing.assert_array_equal(parts.decision_many(X[:50]), whole.decision_many(X[:50]))


def test_a_lag_that_has_faded_is_none_at_the_same_event_of_any_cut() -> None:
    X, y = season(380)
    lags = np.r_[np.full(50, 20), np.zeros(320, np.int64), np.full(10, 30)]
    whole, single = machine(first=1_000), machine(first=1_000)
    whole.lags = lags
    whole.learn_many(X, y)
    for n in range(380):
        single.lags = lags[n : n + 1]
        single.learn_many(X[n : n + 1], y[n : n + 1])
    assert single.lag == whole.lag


@pytest.mark.parametrize("lag", [None, 0, 40])
def test_events_of_another_one_do_not_tell_how_late_labels_come(lag: int | None) -> None:
    X, y = season(600)
    other = learned(40, 300)
    one = machine() if lag is None else learned(lag, 300)
    one.merge(FeatureMachine.from_state(other.state()))
    assert one.lags is None
    assert one.lag == (40 if lag is None else lag)
    one.learn_many(X, y)
    assert one.lag < LATE


def test_what_is_held_back_is_as_late_as_forecasts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels right before those held back would tell what no forecast knows."""
    seen: list[tuple[int, int]] = []
    searched = TrainingEvents._searched

    def noting(self: Any, recipe: Any, rest: Any, held: Any, d: int) -> Any:
        seen.append((int(held[0] - rest[0] - 1), recipe.lag))
        return searched(self, recipe, rest, held, d)

    monkeypatch.setattr(TrainingEvents, "_searched", noting)
    learned(40)
    assert [gap for gap, _ in seen] == [40] * len(seen)
    seen.clear()
    learned(LATE - 1)
    assert [gap for gap, _ in seen] == [0] * len(seen)


@pytest.mark.parametrize("lag", [0, 40])
def test_a_function_of_few_late_events_is_of_all_times(
    lag: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ones alone would say little of what is predicted until there is another one."""
    searched = TrainingEvents._searched

    def no_more(*given: Any) -> Any:
        return *searched(*given)[:2], False

    monkeypatch.setattr(TrainingEvents, "_searched", no_more)
    n = 6_000
    X, y = season(n)
    X[:, 3] = np.linspace(-1.0, 1.0, n)
    events = TrainingEvents(X, y, y[:, None], (), "regression", 1)
    made = events.fit(replace(machine()._recipe, lag=lag))
    assert made.n_solved == (4_096 if lag else 1_024)
    assert not made.grows
    solved = np.concatenate([leaf.solved[0] for leaf in made._leaves])
    part = np.ptp(solved, axis=0)[3] / np.ptp(made.map.points(X), axis=0)[3]
    assert (part > 0.9) == bool(lag)


def test_the_mixture_tells_how_late_its_labels_come() -> None:
    X, y = season(400)
    model = MultiKernel(task="regression", seed=1, columns=range(4))
    for n in range(400):
        model.predict_held_many(X[n : n + 1], [n])
        if n >= 30:
            model.learn_held_many(X[n - 30 : n - 29], [y[n - 30]], [n - 30])
    machine: Any = model._mixture.external._learners[0]
    assert machine.lag == pytest.approx(30.0, abs=0.5)
    memory = model._mixture.external.memory
    assert memory is not None
    inside: Any = memory.model._mixture.external._learners[0]
    assert inside.lag == pytest.approx(30.0, abs=0.5)
    model.learn_many(X[:300], y[:300])
    assert machine.lag < 1.0
