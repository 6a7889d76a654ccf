"""The statistics that the benchmarks share, and those of single ones."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import common, doubly_stochastic, signals
from benchmarks.multi_kernel import calibration_error


def test_a_mean_has_the_interval_of_students_t() -> None:
    figure = common.mean([1.0, 2.0, 3.0])
    assert figure["mean"] == 2.0
    assert figure["half"] == pytest.approx(4.302653 / 3**0.5)
    assert common.cell(figure, 2) == "2.00 ± 2.48"
    assert common.cell(common.mean([0.5])) == "0.5000"


def test_contestants_take_turns() -> None:
    order: list[str] = []

    def contestant(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = common.in_turn({name: lambda name=name: contestant(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 3
    assert found == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_a_slope_of_logarithms_is_that_of_a_power() -> None:
    t = np.array([10, 100, 1000])
    assert doubly_stochastic.slope(t, 5.0 / t) == pytest.approx(-1.0)


def test_calibration_error() -> None:
    p = np.array([0.9, 0.91, 0.52, 0.55, 1.0])
    right = np.array([True, False, True, True, True])
    # 0.9 and 0.91 share a bin, 0.52 another one with 0.55's neighbour left alone, 1 is the last.
    expected = (abs(0.9 + 0.91 - 1) + abs(0.52 - 1) + abs(0.55 - 1) + 0.0) / 5
    assert calibration_error(p, right) == pytest.approx(expected)
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 1, 100_000)
    assert calibration_error(p, rng.random(len(p)) < p) < 0.01


def test_the_lowest_coverage_is_of_successive_events() -> None:
    held = np.ones(5000)
    held[2000:3000:4] = 0.0
    assert signals.lowest(held) == 0.75
    assert signals.lowest(np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])) == 0.5
