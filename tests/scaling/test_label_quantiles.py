"""Quantiles of labels that begin anew after a jump: any cut, states, and the default model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import pool_alone
from state_kit import assert_same, reopened

from streamk.errors import StateError
from streamk.kernels import Laplacian
from streamk.learners import OnlineKernelRidge
from streamk.scaling.labels import BLOCK, LabelQuantiles, LabelScale
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import State

Numbers = np.ndarray[Any, Any]
N = 1500


def labels(kind: str, n: int = N) -> Numbers:
    """Return labels whose scale jumps at 700, but for those "at rest"."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=n)
    after = slice(700, n)
    if kind == "level":
        y[after] += 50.0
    elif kind == "unit":
        y[after] = 1e6 + 1e3 * y[after]
    elif kind == "smaller":
        y[after] *= 1e-4
    elif kind == "constant":
        y[after] = 1e3
    elif kind == "outliers":
        y[::40] *= 1e6
    elif kind == "heavy tails":
        y = rng.standard_cauchy(n)
    return y


KINDS = ("at rest", "level", "unit", "smaller", "constant", "outliers", "heavy tails")
JUMPING = ("level", "unit", "smaller", "constant")


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_gives_the_same_bits(kind: str) -> None:
    y = labels(kind)[:, None]
    whole, other = LabelQuantiles(1), LabelQuantiles(1)
    whole.observe(y)
    for start, stop in itertools.pairwise([0, 1, 2, 63, 64, 65, 127, 700, 701, 767, 900, N]):
        other.observe(y[start:stop])
        other = reopened(other)
    assert_same(whole, other)


@pytest.mark.parametrize("kind", KINDS)
def test_none_but_the_first_of_a_run_changes_it(kind: str) -> None:
    y = labels(kind)
    runs, ones = LabelQuantiles(1), LabelQuantiles(1)
    first, jumps = 0, 0
    while first < N:
        stop = min(N, first + runs.until_change(y[first : first + 256]))
        ones.observe(y[first : first + 1, None])
        used = ones.center[0], ones.inverse[0]
        for row in range(first + 1, stop):
            assert not ones.observe(y[row : row + 1, None]), row
            assert (ones.center[0], ones.inverse[0]) == used
        runs.observe(y[first:stop, None])
        jumps += runs.jumped
        first = stop
    assert_same(runs, ones)
    assert (jumps > 0) == (kind in JUMPING)


@pytest.mark.parametrize("kind", ["at rest", "outliers", "heavy tails"])
def test_without_a_jump_they_are_running_quantiles(kind: str) -> None:
    y = labels(kind)[:, None]
    mine, plain = LabelQuantiles(1, seed=5), RunningQuantiles(1, seed=5)
    mine.observe(y)
    plain.observe(y)
    assert (mine.center, mine.inverse) == (plain.center, plain.inverse)
    np.testing.assert_array_equal(mine.sample, plain.sample)


@pytest.mark.parametrize("period", [500, 4000])
@pytest.mark.parametrize("kind", ["level", "unit", "bursts"])
@pytest.mark.parametrize("scale", ["quantiles", "mean and deviation"])
def test_labels_that_come_and_go_jump_a_few_times_only(kind: str, period: int, scale: str) -> None:
    rng = np.random.default_rng(0)
    times = np.arange(10 * period)
    y, apart = rng.normal(size=len(times)), times % period < period // 2
    if kind == "bursts":
        y = np.where(times % period < period // 10, 50.0 * np.abs(y), 0.0)
    else:
        y = y + 100.0 * apart if kind == "level" else np.where(apart, 100.0 * y, y)
    jumps = 0
    mine: Any = LabelQuantiles(1) if scale == "quantiles" else LabelScale()
    for start in range(0, len(y), BLOCK):
        (mine.observe if scale == "quantiles" else mine.update)(y[start : start + BLOCK, None])
        jumps += mine._jumps.found > jumps
    assert jumps <= 3


def test_labels_that_go_on_to_new_places_are_followed_each_time() -> None:
    rng = np.random.default_rng(0)
    mine = LabelQuantiles(1)
    for place in range(5):
        mine.observe(1e3 * place + rng.normal(size=(1024, 1)))
        assert abs(mine.center[0] - 1e3 * place) < 1.0
    assert mine._jumps.found == 4


def test_undo() -> None:
    y = labels("unit")[:, None]
    mine = LabelQuantiles(1)
    mine.observe(y[:750])
    before = LabelQuantiles.from_state(mine.state())
    back = mine.undo(300)
    mine.observe(y[750:1000])
    back()
    assert_same(mine, before)
    mine.observe(y[750:])
    before.observe(y[750:])
    assert_same(mine, before)


def test_classes_have_none() -> None:
    mine = LabelQuantiles(0)
    assert not mine.observe(np.zeros((100, 0))) or len(mine) == 0
    assert mine.until_change(np.zeros(100)) > 0


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"far": 2}, {}),
        ({"shrunk": 8}, {}),
        ({"far": -1}, {}),
        ({"found": 1}, {}),
        ({"found": 1, "lowest": 1.0, "highest": 0.0}, {}),
        ({"found": 1, "lowest": 0.0, "highest": 1.0, "shrunk": 32}, {}),
        ({"format": 9}, {}),
        ({}, {"recent": np.zeros(BLOCK)}),
        ({}, {"recent": np.array([np.nan])}),
    ],
)
def test_a_damaged_state_is_refused(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    mine = LabelQuantiles(1)
    mine.observe(labels("at rest")[:, None])
    state = mine.state()
    with pytest.raises(StateError):
        LabelQuantiles.from_state(State({**state.header, **header}, {**state.arrays, **arrays}))


# --- the default model ----------------------------------------------------------------------------


def stream(a: float, b: float, n: int = 3000, at: int = 1500) -> tuple[Numbers, Numbers, float]:
    """Return events, labels that become ``a + b f`` at an event, and the deviation of these."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    f = np.sin(3.0 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=n)
    deviation = float(f.std())
    return X, np.where(np.arange(n) < at, f, a + b * f), b * deviation


@pytest.mark.parametrize(("a", "b"), [(1e6, 1e3), (-1e3, 1.0)])
def test_a_jump_of_level_or_unit_is_forgotten_within_some_hundred_events(
    a: float, b: float
) -> None:
    X, y, deviation = stream(a, b)
    model = pool_alone(task="regression", seed=1)
    found = np.asarray(model.predict_then_learn_many(X, y).predictions)
    later = slice(2000, 3000)
    assert np.abs(found[later] - y[later]).mean() < 0.25 * abs(deviation)


@pytest.mark.parametrize("external", [False, True])
def test_any_cut_of_a_stream_with_a_jump(external: bool) -> None:
    X, y, _ = stream(1e6, 1e3, 600, 300)
    experts = {
        "external_experts": [OnlineKernelRidge(Laplacian(), max_centers=64, task="regression")]
    }

    def made() -> Any:
        return pool_alone(task="regression", seed=1, **(experts if external else {}))

    whole, other, ones = made(), made(), made()
    expected = whole.predict_then_learn_many(X, y).predictions
    found: list[float] = []
    for start, stop in itertools.pairwise([0, 1, 64, 100, 300, 383, 384, 385, 447, 448, 600]):
        found += other.predict_then_learn_many(X[start:stop], y[start:stop]).predictions.tolist()
        other = reopened(other)
    assert found == expected.tolist()
    assert_same(whole, other)
    if not external:
        for x, label in zip(X, y.tolist(), strict=True):
            ones.learn_one(x, label)
        learned = made()
        learned.learn_many(X, y)
        assert_same(learned, ones)
