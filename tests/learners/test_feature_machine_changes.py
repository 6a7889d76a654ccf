"""A feature machine begins anew where its errors rise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from feature_machine_kit import same
from numpy.typing import NDArray

from streamk.errors import InvalidInput, StateError
from streamk.learners import FeatureMachine, MultiKernel, from_state
from streamk.learners.common import error_watch
from streamk.learners.common.error_watch import WINDOW, ErrorWatch
from streamk.learners.rfm import schedule as beginnings
from streamk.learners.rfm.solving import TrainingEvents

SMALL: dict[str, Any] = {"buffer_size": 256, "reservoir_size": 256, "task": "regression"}


# --- the watch ------------------------------------------------------------------------------------


def rises(errors: list[float]) -> tuple[list[bool], int]:
    """Return the alarms of mean errors of windows, and windows since the sum was 0 at last."""
    alarms, total, since = [], 0.0, 0
    for n, error in enumerate(errors):
        if n >= 4:
            above = (error - np.mean(errors[:n])) / np.std(errors[:n], ddof=1)
            total = max(0.0, total + min(above, 2.0) - 0.5)
        since = since + 1 if total > 0.0 else 0
        alarms.append(total > 4.0)
    return alarms, since


@pytest.mark.parametrize("seed", range(5))
def test_a_rise_of_errors_is_an_alarm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = [*rng.normal(1.0, 0.1, 40), *rng.normal(1.2, 0.1, 12)]
    watch, alarms, total = ErrorWatch(), [], 0.0
    for n, error in enumerate(errors):
        total += WINDOW * error
        alarms.append(watch.add(total))
        assert watch.rising == WINDOW * rises(errors[: n + 1])[1]
    assert alarms == rises(errors)[0]
    assert any(alarms[40:])
    assert not any(alarms[:30])


def test_no_single_window_is_an_alarm() -> None:
    watch, total = ErrorWatch(), 0.0
    for error in [1.0, 1.1, 0.9, 1.0, 1.05, 1e9, 1.0, 1.0]:
        total += WINDOW * error
        assert not watch.add(total)


def test_errors_that_are_all_equal_have_no_alarm_until_they_rise() -> None:
    watch = ErrorWatch()
    assert not any(watch.add(0.0) for _ in range(20))
    assert [watch.add(WINDOW * n) for n in (1.0, 2.0, 3.0)].count(True) <= 1


def test_a_watch_is_restarted_and_restored() -> None:
    watch = ErrorWatch()
    for n in range(9):
        watch.add(WINDOW * (n + 0.1 * (n % 3)))
    again = ErrorWatch()
    again.restore(watch.arrays(), "this")
    for total in (3_000.0, 5_000.0, 8_000.0):
        assert again.add(total) == watch.add(total)
    assert np.array_equal(again.arrays()["watch"], watch.arrays()["watch"])
    for wrong in (np.full(6, -1.0), np.full(6, 0.5), np.full(6, np.nan), np.zeros(5)):
        with pytest.raises(StateError, match="watch"):
            again.restore({"watch": wrong}, "this")
    again.restart()
    again.go_on_from(0.0)
    assert not again.arrays()["watch"].any()


# --- the machine ----------------------------------------------------------------------------------


def changing(n: int, at: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return events whose labels depend on one column, and on another one from an event on."""
    X = np.random.default_rng(0).normal(size=(n, 4))
    later = np.arange(n) >= at
    return X, np.where(later, np.sin(2.0 * X[:, 3]) - 3.0, np.sin(2.0 * X[:, 0]))


def errors_of(model: Any, X: Any, y: Any) -> NDArray[np.float64]:
    said = model.predict_then_learn_many(X, y).predictions
    return np.abs(np.asarray(said, float) - y)


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (beginnings, error_watch):
        monkeypatch.setattr(module, "WINDOW", 32)
    monkeypatch.setattr(beginnings, "_ANEW", 128)


@pytest.mark.usefixtures("_short")
def test_a_change_is_followed() -> None:
    X, y = changing(3_000, 1_500)
    model, other = (FeatureMachine(task="regression", first=256) for _ in range(2))
    other.watches = False
    mine, theirs = (errors_of(one, X, y) for one in (model, other))
    assert np.array_equal(mine[:1_500], theirs[:1_500])
    assert mine[2_300:].mean() < 0.5 * theirs[2_300:].mean()
    assert model._schedule.origin >= 1_350
    assert model.column_shares.argmax() == 3
    kept, _ = model._kept()
    assert len(kept) == 3_000 - model._schedule.origin


@pytest.mark.usefixtures("_short")
def test_cuts_and_states_change_no_bit_while_a_change_is_followed() -> None:
    X, y = changing(1_150, 700)
    whole = FeatureMachine(**SMALL)
    whole.learn_many(X, y)
    assert whole._schedule.origin > 600
    seen, one = set(), FeatureMachine(**SMALL)
    for n in range(1_150):
        one.learn_one(X[n], y[n])
        when = one._schedule
        kind = (when.watch.rising > 0, when.changed > 0, when.is_anew, one.is_solving, when.origin)
        if kind not in seen:
            seen.add(kind)
            again = FeatureMachine.from_state(one.state())
            assert same(again.state(), one.state())
            again.learn_many(X[n + 1 :], y[n + 1 :])
            assert same(again.state(), whole.state())
    assert same(one.state(), whole.state())
    assert any(changed and anew and solving for _, changed, anew, solving, _ in seen)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.usefixtures("_short")
def test_what_is_kept_stays_where_a_new_beginning_is_no_better(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = changing(900, 900)
    model, other = FeatureMachine(**SMALL), FeatureMachine(**SMALL)
    other.watches = False
    model.learn_many(X[:700], y[:700])
    model._schedule.changed = 600  # a false alarm

    def failing(*_: Any) -> Any:
        raise InvalidInput("no")

    with monkeypatch.context() as patch:
        if fails:
            patch.setattr(TrainingEvents, "fit", failing)
        model.learn_many(X[700:], y[700:])
    other.learn_many(X, y)
    assert (model._schedule.changed, model._schedule.origin) == (0, 0)
    assert np.array_equal(model._kept()[0], other._kept()[0])


def test_an_external_expert_does_not_begin_anew_by_itself() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = MultiKernel(task="regression")
    model.learn_many(X, X[:, 0])
    again = MultiKernel.from_state(model.state())
    for one in (model, again):
        assert [each.watches for each in one._mixture.external._learners] == [False]
    assert FeatureMachine().watches


# --- a feature machine with a bound of columns and classes: beyond it, it rests for g -------------


def made(max_width: int | None, task: str = "classification") -> FeatureMachine:
    return FeatureMachine(task=task, max_width=max_width, first=64, swap_delay=16)


def learned(max_width: int | None, columns: int = 6) -> FeatureMachine:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, columns))
    model = made(max_width)
    model.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    return model


def test_beyond_it_everything_is_given_up() -> None:
    model = learned(8)
    before = model.nbytes
    model.add_columns(["late"])
    again = from_state(model.state())
    assert isinstance(again, FeatureMachine)
    X = np.random.default_rng(1).normal(size=(100, 7))
    for each in (model, again):
        assert each.is_too_wide
        assert each.rests
        np.testing.assert_array_equal(each.predict_proba_many(X), np.full((100, 2), 0.5))
        each.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
        each.wake()
        assert each.rests
        assert each.n_events == 300
        assert each.nbytes < before / 10
        assert not each.is_solving
    assert model.state().header == again.state().header
    state = model.state()
    state.header["rests"] = False
    with pytest.raises(StateError, match="does not rest"):
        from_state(state)


def test_one_that_is_being_made_is_given_up() -> None:
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(70, 6)), made(8)
    model.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    assert model.is_solving
    model.add_columns(["late"])
    assert not model.is_solving
    X = rng.normal(size=(70, 7))
    model.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    assert model.n_takeovers == 0


def test_classes_count_as_columns_do() -> None:
    model = learned(8)
    X = np.random.default_rng(1).normal(size=(3, 6))
    model.learn_many(X, ["a", "late", "b"])
    assert model.is_too_wide
    assert model.classes == ("b", "a", "late") or model.classes == ("a", "b", "late")
    assert model.predict_proba_many(X).shape == (3, 3)


def test_numbers_are_predicted_as_nothing() -> None:
    X = np.random.default_rng(1).normal(size=(100, 5))
    model = made(4, "regression")
    model.learn_many(X, X[:, 0])
    assert model.is_too_wide
    np.testing.assert_array_equal(model.predict_many(X), np.zeros(100))


def test_merging_takes_in_the_other_columns() -> None:
    one, two = learned(8), learned(8)
    X = np.random.default_rng(1).normal(size=(30, 6))
    y = np.where(X[:, 0] > 0.0, "a", "b")
    one.learn_many(X, y)
    two.add_columns(["late"])
    two.learn_many(np.hstack([X, X[:, :1]]), y)
    one.merge(two, common_events=200)
    assert one.is_too_wide
    assert one.n_events == 260
