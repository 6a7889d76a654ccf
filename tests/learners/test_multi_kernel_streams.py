"""What the multi-kernel learner makes of streams: what it must learn, and what must not harm it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import assert_sound, make, pool_alone, stream
from numpy.typing import NDArray

from streamk.learners import MultiKernel

Batch = tuple[NDArray[np.float64], NDArray[Any]]


def progressive(model: MultiKernel, X: NDArray[Any], y: NDArray[Any], last: int) -> NDArray[Any]:
    """Predictions of the last events, each made before its label was learned."""
    model.learn_many(X[:-last], y[:-last])
    said = []
    for x, label in zip(X[-last:], y[-last:], strict=True):
        said.append(model.predict_one(x))
        model.learn_one(x, label)
    return np.array(said)


# --- what it learns ---------------------------------------------------------------------------


def thresholds(rng: np.random.Generator) -> Batch:
    """Two columns with an interaction among eight without meaning."""
    X = rng.normal(size=(3500, 10))
    return X, (X[:, 2] > 0.3) ^ (X[:, 7] > -0.2)


def moving_centroids(rng: np.random.Generator) -> Batch:
    n = rng.integers(0, 4, 3000)
    angle = np.arange(3000) / 3000 * 2 * np.pi + n * np.pi / 2
    X = 2.0 * np.c_[np.cos(angle), np.sin(angle)] + 0.5 * rng.normal(size=(3000, 2))
    return X, n % 2


@pytest.mark.parametrize(("make_stream", "level"), [(thresholds, 0.85), (moving_centroids, 0.93)])
def test_it_learns(make_stream: Any, level: float) -> None:
    X, y = make_stream(np.random.default_rng(0))
    said = progressive(pool_alone(seed=0), X, y, 600)
    assert (said == y[-600:]).mean() > level


def test_numbers_that_wander_and_come_late_are_near_what_an_expert_says() -> None:
    rng, n, late, step = np.random.default_rng(4), 6_000, 500, 16
    X, y, found = rng.normal(size=(n, 2)), np.cumsum(rng.normal(size=n)), np.zeros(n)
    model, numbers = pool_alone(task="regression", seed=1, threads=1), list(range(n))
    for first in range(0, n, step):
        some, before = (slice(at, at + step) for at in (first, first - late))
        found[some] = model.predict_held_many(X[some], numbers[some]).predictions
        for _, forecast in model._mixture.held.kept.items()[-step:]:
            experts = forecast.scores[: model._mixture.pool.experts]
            least, greatest = np.nanmin(experts), np.nanmax(experts)
            far = 0.2501 * (greatest - least) + 1e-6
            assert least - far <= forecast.scores[-1, 0] <= greatest + far
        if before.start >= 0:
            model.learn_held_many(X[before], y[before], numbers[before])
    known = np.concatenate([np.zeros(late + 1), y])[:n]
    assert np.abs(found - y).mean() < 1.5 * np.abs(known - y).mean()


def test_it_learns_numbers_with_outliers() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (2500, 2))
    true = 1e4 + 100.0 * np.sin(2.0 * X[:, 0])
    y = true + rng.normal(size=2500)
    y[rng.random(2500) < 0.03] += 1e5
    said = progressive(pool_alone(task="regression", seed=0), X, y, 600)
    errors = np.abs(said - true[-600:])
    assert np.median(errors) < 15.0  # the best line is off by 60
    assert errors.mean() < 25.0


# --- what it is given -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two", "four", "numbers"])
def test_missing_values(kind: str) -> None:
    X, y = stream(kind, 1500, d=5)
    rng = np.random.default_rng(9)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = np.nan
    X[3] = np.nan
    model = make(kind)
    model.learn_many(X, y)
    decided = model.decision_many(np.vstack([X, np.full((1, 5), np.nan)]))
    assert np.isfinite(decided).all()
    assert_sound(model)
    if kind == "two":
        whole = ~np.isnan(X[:, :2]).any(axis=1)
        assert (model.predict_many(X[whole]) == y[whole]).mean() > 0.85


def test_that_a_value_is_missing_tells() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    X[rng.random(1500) < 0.3, 0] = np.nan
    y = np.isnan(X[:, 0])
    assert (progressive(pool_alone(seed=1), X, y, 500) == y[-500:]).mean() > 0.97


@pytest.mark.parametrize("value", [-1e30, 1e150])
@pytest.mark.parametrize("kind", ["four", "numbers"])
def test_a_stretch_of_huge_values_passes(kind: str, value: float) -> None:
    X, y = stream(kind, 3000)
    X[1000:1100, 0] = value
    X[1050:1060] = value
    model = make(kind)
    model.learn_many(X[:1000], y[:1000])
    for first in range(1000, 1100, 10):
        decided = model.decision_many(X[first : first + 10])
        assert np.isfinite(decided).all()
        if kind != "numbers":
            assert 0.0 <= decided.min() <= decided.max() <= 1.0
        model.learn_many(X[first : first + 10], y[first : first + 10])
    assert_sound(model)
    model.learn_many(X[1100:], y[1100:])
    assert_sound(model)
    fresh, expected = stream(kind, 500, seed=5)
    said = model.predict_many(fresh)
    if kind == "numbers":
        assert np.abs(said - expected).mean() < 0.5 * np.std(expected)
    else:
        assert (said == expected).mean() > 0.8


@pytest.mark.parametrize(
    ("value", "places"),
    [(1e6, slice(1)), (-1.8e19, slice(500, 520)), (-1.8e19, slice(300, 1300))],
)
def test_huge_labels(value: float, places: slice) -> None:
    X, y = stream("numbers", 4000)
    y[places] = value
    model = make("numbers")
    for first in range(0, 4000, 100):
        model.learn_many(X[first : first + 100], y[first : first + 100])
        assert np.isfinite(model.decision_many(X[:50])).all()
    assert_sound(model)
    fresh, expected = stream("numbers", 500, seed=5)
    if places.stop <= 520:  # after more, the spread of the labels is another
        error = np.abs(model.predict_many(fresh) - expected)
        assert error.mean() < 0.6 * np.std(expected)


# --- for long ---------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["two", "four", "numbers"])
def test_a_long_run_takes_no_more_memory(kind: str) -> None:
    model = make(kind)
    rng = np.random.default_rng(0)
    sizes, held = [], []
    for part in range(20):
        X, y = stream(kind, 10_000, d=8, seed=part)
        X[rng.random(len(X)) < 1e-3] *= 1e6
        for first in range(0, len(X), 100):
            some = slice(first, first + 100)
            decided = model.decision_many(X[some])
            assert np.isfinite(decided).all()
            if kind != "numbers":
                assert 0.0 <= decided.min() <= decided.max() <= 1.0
            model.learn_many(X[some], y[some])
        sizes.append(model.nbytes)
        held.append(resident())
    assert sizes[-1] <= sizes[2]
    assert held[-1] < held[2] + (16 << 20)
    assert_sound(model)
