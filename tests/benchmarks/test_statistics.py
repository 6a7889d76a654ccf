"""The statistics that the benchmarks share, and those of single ones."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import common, doubly_stochastic, drift, feature_machine, signals, soak
from benchmarks.multi_kernel import calibration_error


def test_a_mean_has_the_interval_of_students_t() -> None:
    figure = common.mean([1.0, 2.0, 3.0])
    assert figure["mean"] == 2.0
    assert figure["half"] == pytest.approx(4.302653 / 3**0.5)
    assert common.cell(figure, 2) == "2.00 ± 2.48"
    assert common.cell(common.mean([0.5])) == "0.5000"


def test_a_spread_is_median_least_and_greatest() -> None:
    figure = common.spread([3.0, 1.0, 2.0, 10.0])
    assert (figure["median"], figure["low"], figure["high"]) == (2.5, 1.0, 10.0)
    assert figure["values"] == [3.0, 1.0, 2.0, 10.0]
    assert common.ranged(figure, 1) == ("2.5", "1.0 to 10.0")


def test_contestants_take_turns() -> None:
    order: list[str] = []

    def contestant(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = common.in_turn({name: lambda name=name: contestant(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 3
    assert found == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_columns_of_a_table_are_aligned() -> None:
    text = common.table(["name", "s"], [["long name", "1"], ["b", "10"]])
    assert text.splitlines() == ["name        s", "-" * 13, "long name   1", "b          10"]


def test_a_function_is_called_in_a_process_of_its_own() -> None:
    assert common.fresh(common.resident, {"line": "VmRSS"}) != common.resident()


def test_the_error_of_a_slope_covers_noise_whose_samples_are_alike() -> None:
    """Of 200 lines with noise about 95% lie within 2.2 errors, the bound of 10 degrees."""
    rng = np.random.default_rng(3)
    seconds = np.arange(600.0)
    within = 0
    for _ in range(200):
        noise = np.convolve(rng.normal(size=609), np.ones(10), "valid")  # ten in a row are alike
        found, error = soak.slope(seconds, 3.0 * seconds + noise)
        within += abs(found - 3.0) < 2.2 * error
    assert 180 <= within <= 198


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


@pytest.mark.parametrize("kind", drift.KINDS)
def test_streams_change_where_they_are_to(kind: str) -> None:
    one, other = (drift.changed(kind, 400, before, seed=1) for before in (200, 400))
    np.testing.assert_array_equal(one[:200], other[:200])
    assert (one[200:] != other[200:]).any()


def test_a_fifth_is_held_back() -> None:
    assert feature_machine.held_back(50, 3).sum() == 10
