"""Columns scaled by quantiles, and labels whose scale is followed, before one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import naive
from state_kit import assert_same

from streamk.errors import StateError
from streamk.learners import create
from streamk.scaling.labels import LabelScale
from streamk.scaling.running import RobustScale, RunningScale
from streamk.state import State

FLOAT64 = np.dtype(np.float64)
MODELS = ("doubly-stochastic", "online-nystrom")


def events(n: int, d: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(n).standard_t(2, (n, d))


def test_columns_are_scaled_as_the_oracle_says() -> None:
    X = events(150)
    X[::7, 1] = np.nan
    scale, oracle = RobustScale(3, seed=2), naive.RobustScaling(3, 2)
    for x in X:
        scale.update(x[None])
        oracle.take(x)
        found = scale.transform(X[:20], FLOAT64)
        np.testing.assert_allclose(found, [oracle.scaled(v) for v in X[:20]], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 50, 400])
def test_the_cut_changes_nothing(size: int) -> None:
    X, known = events(400), np.arange(400) % 5 > 0
    one, many = RobustScale(3, seed=2), RobustScale(3, seed=2)
    for first in range(0, 400, size):
        some = slice(first, first + size)
        after, ahead = many.transform_each(X[some], known[some], FLOAT64, before=True)
        assert ahead is not None
        for x, there, now, then in zip(X[some], known[some], after, ahead, strict=True):
            np.testing.assert_array_equal(one.transform(x[None], FLOAT64)[0], then)
            if there:
                one.update(x[None])
            np.testing.assert_array_equal(one.transform_one(x, FLOAT64), now)
    assert_same(one, many)
    assert_same(RobustScale.from_state(one.state()), one)


def test_far_values_stay_in_their_order_and_near() -> None:
    scale = RobustScale(1)
    scale.update(np.random.default_rng(0).normal(size=(512, 1)))
    far = scale.transform(np.array([[2.9], [3.1], [1e4], [1e8], [-1e8]]), FLOAT64).ravel()
    assert (np.diff(far[:4]) > 0).all()
    assert far[3] < 60
    assert far[4] == pytest.approx(-far[3], rel=0.01)


@pytest.mark.parametrize(("name", "at"), [*((MODELS[0], at) for at in (5, 300)), (MODELS[1], 1500)])
def test_one_huge_cell_does_no_lasting_harm(name: str, at: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    X[at, 0] = 1e4
    model = create(name, task="classification", seed=1)
    said = model.predict_then_learn_many(X, y).predictions
    assert (said[-1000:] == y[-1000:]).mean() > 0.93


CHANGES = (lambda f: 1e6 + 1e3 * f, lambda f: 1e-4 * f, lambda f: f - 500)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((MODELS[0], change) for change in CHANGES),
        (MODELS[1], CHANGES[0]),
        ("streaming-meka", CHANGES[0]),
    ],
)
def test_labels_whose_scale_jumps_are_followed(name: str, change: Any) -> None:
    X = np.random.default_rng(0).normal(size=(5000, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    y = np.append(f[:2500], change(f[2500:]))
    model = create(name, task="regression", seed=1)
    said = model.predict_then_learn_many(X, y).predictions
    unit = abs(change(1.0) - change(0.0))
    assert np.abs(said - y)[-1000:].mean() / unit < 0.15


@pytest.mark.parametrize("name", MODELS)
def test_one_huge_label_does_no_lasting_harm(name: str) -> None:
    X = np.random.default_rng(0).normal(size=(3000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    y[700] = 1e9
    model = create(name, task="regression", seed=1)
    said = model.predict_then_learn_many(X, y).predictions
    assert np.abs(said - y)[-1000:].mean() < 0.15


def test_labels_of_one_scale_are_scaled_by_all_of_them() -> None:
    y = events(500, 1).clip(-5, 5)
    scale, plain = LabelScale(), RunningScale(1)
    for label in y[:, None]:
        scale.update(label)
        plain.update(label)
        np.testing.assert_array_equal(
            scale.transform(label, FLOAT64), plain.transform(label, FLOAT64)
        )


@pytest.mark.parametrize("size", [1, 3, 64, 600])
def test_labels_may_come_in_any_pieces(size: int) -> None:
    y = events(600, 1)
    y[200:] = 1e6 + 1e3 * y[200:]
    known = np.arange(600) % 7 > 0
    one, many = LabelScale(), LabelScale()
    for first in range(0, 600, size):
        some = slice(first, first + size)
        after, units = many.transform_each(y[some], known[some], FLOAT64)
        for label, there, now, unit in zip(y[some], known[some], after, units, strict=True):
            np.testing.assert_allclose(one.invert(np.zeros((1, 1)))[0], unit[0], rtol=1e-12)
            if there:
                one.update(label[None])
                np.testing.assert_array_equal(one.transform(label[None], FLOAT64)[0], now)
    assert_same(one, many)
    assert_same(LabelScale.from_state(one.state()), one)
    assert_same(one.copy(), one)


def test_equal_labels_and_a_jump_among_them() -> None:
    scale = LabelScale()
    scale.update(np.full((100, 1), 3.0))
    assert scale.transform(np.array([[3.0]]), FLOAT64) == 0.0
    scale.update(np.arange(640.0)[:, None] % 7)
    scale.update(np.full((640, 1), 1e9))
    assert scale.invert(np.zeros((1, 1)))[0, 0] == pytest.approx(1e9)


def test_damaged_states_are_refused() -> None:
    state = RobustScale(2).state()
    with pytest.raises(StateError, match="unit"):
        RobustScale.from_state(State({**state.header, "unit": 0.0}, state.arrays))
    labels = LabelScale().state()
    with pytest.raises(StateError, match="shrunk"):
        LabelScale.from_state(State({**labels.header, "shrunk": -1}, labels.arrays))
