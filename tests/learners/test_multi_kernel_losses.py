"""Numbers learned by squared errors, by Huber's loss and by the pinball loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import assert_sound, learned, make, pool_alone, stream
from numpy.typing import NDArray

from streamk.adapters.river import KernelRegressor
from streamk.backends.banks import BANKS, BINNING
from streamk.errors import InvalidInput, StateError
from streamk.learners import MultiKernel
from streamk.learners.multi_kernel.expert_pool import ExpertPool
from streamk.learners.multi_kernel.units import unit_change
from streamk.losses import Loss
from streamk.losses import loss as loss_of
from streamk.state import State

Floats = NDArray[np.float64]
LOSSES: list[str | Loss] = [
    *("squared", "huber", loss_of("huber", delta=4)),
    *("quantile", loss_of("quantile", q=0.9)),
]
"""All kinds, and a parameter that is a whole number."""


def predicted(X: Floats, y: Floats, delay: int = 1, **options: Any) -> Floats:
    """Progressive predictions, labels so many events late."""
    model = pool_alone(task="regression", seed=1, **options)
    said = np.empty(len(y))
    for first in range(0, len(y), delay):
        some = slice(first, first + delay)
        said[some] = model.predict_many(X[some])
        model.learn_many(X[some], y[some])
    assert_sound(model)
    return said


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("hinge", "choose squared, huber, quantile"),
        ("epsilon_insensitive", "choose squared, huber, quantile"),
        (0.9, "loss=0.9 is not a loss"),
        ("absolute", "choose squared, huber, quantile"),
        (loss_of("huber", delta=0.01), "delta.* 0.01 and must lie between 0.1 and 20"),
        (loss_of("huber", delta=50.0), "delta.* between 0.1 and 20"),
        (loss_of("quantile", q=0.001), "q is 0.001 and must lie between 0.005 and 0.995"),
    ],
)
def test_a_loss_that_cannot_be_is_named(loss: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        pool_alone(task="regression", loss=loss)


@pytest.mark.parametrize("loss", ["squared", "softmax", loss_of("quantile")])
def test_classes_take_no_loss(loss: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^loss=.* is for numbers"):
        pool_alone(loss=loss)


def test_river_passes_the_loss_on() -> None:
    for loss in (None, *LOSSES):
        model = KernelRegressor(loss=loss, seed=1)
        for x in range(20):
            model.learn_one({"a": x, "b": 1.0}, 3.0 * x)
        learner = model.clone()._model.learner
        assert isinstance(learner, MultiKernel)
        assert learner.loss == (loss_of(loss) if isinstance(loss, str) else loss)
        assert np.isfinite(model.predict_one({"a": 3.0, "b": 1.0}))


# --- what is learned ------------------------------------------------------------------------------


def uneven(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Numbers whose spread grows six times along a column."""
    X = rng.uniform(-1, 1, (n, 3))
    return X, 50 + 10 * X[:, 1] + 3 * (0.4 + X[:, 0] ** 2) ** 2 * rng.normal(size=n)


def wandering(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Numbers that go up and down for hours, with skewed noise and a rise for good."""
    level = np.empty(n)
    level[0] = 80.0
    for t in range(1, n):
        level[t] = max(5.0, level[t - 1] + 0.03 * (80 - level[t - 1]) + 8 * rng.normal())
    hour = 2 * np.pi * np.arange(n) / 24
    level += np.where(np.arange(n) > n // 2, 60.0, 0.0)
    X = np.c_[np.cos(hour), np.sin(hour), level + 20 * rng.normal(size=n)]
    return X, level + 10 * X[:, 0] + 10 * rng.exponential(size=n)


@pytest.mark.parametrize(
    ("make_stream", "q", "delay"),
    [(uneven, 0.1, 1), (wandering, 0.9, 30)],
)
def test_a_part_q_of_the_numbers_is_below(make_stream: Any, q: float, delay: int) -> None:
    X, y = make_stream(np.random.default_rng(0), 3000)
    said = predicted(X, y, delay, loss=loss_of("quantile", q=q))
    below = (y <= said)[500:]
    assert below.mean() == pytest.approx(q, abs=0.03 if delay == 1 else 0.05)


@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_intervals_hold_whatever_the_loss(loss: str | Loss) -> None:
    X, y = uneven(np.random.default_rng(0), 4000)
    model = pool_alone(task="regression", seed=1, loss=loss)
    held = []
    for first in range(0, 4000, 8):
        some = slice(first, first + 8)
        low, high = model.predict_interval_many(X[some], 0.9).T
        held.append((low <= y[some]) & (y[some] <= high))
        model.learn_many(X[some], y[some])
    assert np.concatenate(held)[1000:].mean() == pytest.approx(0.9, abs=0.02)


# --- what goes on ---------------------------------------------------------------------------------


def test_a_state_that_does_not_fit_the_loss_is_refused() -> None:
    state = learned("numbers", 200, loss="quantile").state()
    less = State(state.header, {k: v for k, v in state.arrays.items() if k != "pool.tracked"})
    with pytest.raises(StateError, match="'tracked'"):
        MultiKernel.from_state(less)
    for wrong in ({"name": "hinge"}, {"name": "quantile", "q": "much"}):
        with pytest.raises(StateError, match="header"):
            MultiKernel.from_state(State({**state.header, "loss": wrong}, state.arrays))


def test_errors_follow_the_unit_of_the_labels() -> None:
    model = learned("numbers", 200)
    X, _ = stream("numbers", 5, seed=3)
    before, unit = np.diff(model.predict_interval_many(X)), model._targets.unit
    model._targets.label_scale.inverse *= 2.0
    model._mixture.shift_labels(*unit_change(unit, model._targets.unit))
    after = np.diff(model.predict_interval_many(X))
    np.testing.assert_allclose(after, before, rtol=0.2)


def test_learners_of_different_losses_are_not_merged() -> None:
    one = make("numbers", loss="quantile")
    for other in (None, "squared", loss_of("quantile", q=0.9)):
        with pytest.raises(InvalidInput, match="differ in loss"):
            one.merge(make("numbers", loss=other))


@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_the_labels_unit_may_change_late(loss: str | Loss) -> None:
    X, y = stream("numbers", 4000)
    model = make("numbers", loss=loss)
    for first in range(0, 4000, 50):
        some = slice(first, first + 50)
        model.predict_many(X[some])
        model.learn_many(X[some], (5.0 if first >= 1000 else 1.0) * y[some])
    fresh, expected = stream("numbers", 500, seed=5)
    error = np.abs(model.predict_many(fresh) / 5.0 - expected).mean()
    assert error < 0.6 * np.std(expected)
    assert_sound(model)


def test_offsets_follow_the_labels_unit() -> None:
    keys = np.arange(3, dtype=np.uint64)
    pool = ExpertPool(keys, task=2, classes=2, seed=1, loss=loss_of("quantile", q=0.9))
    pool.arrays["TRACKED"][0] = np.arange(pool.experts + 1)
    pool.shift_labels(0.5, 3.0)
    np.testing.assert_allclose(pool.arrays["TRACKED"][0], np.arange(pool.experts + 1) / 2)
    np.testing.assert_allclose(pool.arrays["TRACKED"][1], 0.5)
    plain = ExpertPool(keys, task=2, classes=2, seed=1)
    assert "TRACKED" not in plain.arrays
    assert "TRACKED" not in plain.learned_names


def test_offsets_rest_while_a_bank_sleeps() -> None:
    """Also where it was active when the events were predicted whose labels come now."""
    X, y = stream("numbers", 360)
    model = learned("numbers", 300, loss="quantile")
    model.decision_many(X[300:])
    arrays = model._mixture.pool.arrays
    arrays["ACTIVE"][BANKS.index(BINNING)] = False
    asleep = arrays["BANK_OF_EXPERT"] == BANKS.index(BINNING)
    before = arrays["TRACKED"][:, :-1][:, asleep].copy()
    model.learn_many(X[300:319], y[300:319])
    np.testing.assert_array_equal(arrays["TRACKED"][:, :-1][:, asleep], before)
