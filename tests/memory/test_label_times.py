"""Labels by their times: columns are those of their definition, whatever clocks say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.errors import StateError
from streamk.memory.labels import LabelMemory
from streamk.memory.seasons import find_spans
from streamk.memory.times import COLUMNS, LabelTimes
from tests.reference import labels as naive
from tests.state_kit import reopened

HOUR, DAY, WEEK = 3_600.0, 86_400.0, 604_800.0


def hours(n: int, *, lost: float = 0.2, seed: int = 0) -> NDArray[Any]:
    """Times of an hourly stream some events of which are lost, and some come twice."""
    rng = np.random.default_rng(seed)
    kept = np.repeat(np.arange(2 * n), rng.choice([0, 1, 2], 2 * n, p=[lost, 0.9 - lost, 0.1]))
    return HOUR * kept[:n]


def daily(times: NDArray[Any], *, noise: float = 0.3, seed: int = 1) -> NDArray[Any]:
    """Labels with the shape of a day."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=24)[(times // HOUR % 24).astype(int)] + noise * rng.normal(
        size=len(times)
    )


def broken(times: NDArray[Any], seed: int = 2) -> NDArray[Any]:
    """Times of which some are missing, long ago, or far in the future."""
    wrong = times.copy()
    rng = np.random.default_rng(seed)
    for what in (math.nan, -1e15, 1e15, 0.0):
        wrong[rng.choice(len(times), len(times) // 40)] = what
    odd = rng.choice(len(times), len(times) // 10)
    wrong[odd] += rng.normal(size=len(odd)) * DAY
    return wrong


@pytest.mark.parametrize("late", [0, 30])
@pytest.mark.parametrize("clocks", [np.copy, broken])
def test_columns_are_those_of_their_definition(late: int, clocks: Any) -> None:
    times = hours(400)
    labels, times = daily(times), clocks(times)
    known, kept = LabelTimes(150), 150
    known.spans = DAY, HOUR
    for n, time in enumerate(times.tolist()):
        first, until = max(0, n - late - kept), max(0, n - late)
        past = labels[first:until].tolist(), times[first:until].tolist()
        expected = naive.timed_columns(*past, time, 2.5, known.spans)
        np.testing.assert_array_equal(known.now(time, 2.5), expected)
        if n >= late:
            known.add(times[n - late], labels[n - late])


@pytest.mark.parametrize("cuts", [[1], [7, 300, 1], [5_000]])
def test_any_cut_gives_the_same_columns_and_state(cuts: list[int]) -> None:
    times = hours(9_000)
    labels, times = daily(times), broken(times)
    whole, one = LabelMemory(has_times=True), LabelMemory(has_times=True)
    expected, found, first, n = whole.follow(labels, times), [], 0, 0
    while first < len(labels):
        some = slice(first, first + cuts[n % len(cuts)])
        found.append(one.follow(labels[some], times[some]))
        if n % 1_000 == 1:
            one = reopened(one)
        first, n = first + len(found[-1]), n + 1
    assert whole.times is not None
    assert whole.times.spans[0] == DAY
    np.testing.assert_array_equal(np.concatenate(found), expected)
    plain = LabelMemory().follow(labels)
    np.testing.assert_array_equal(expected[:, : -len(COLUMNS)], plain)
    assert one.state().header == whole.state().header
    for name, array in whole.state().arrays.items():
        np.testing.assert_array_equal(one.state().arrays[name], array)


def test_spans_are_found_where_labels_repeat_by_the_clock() -> None:
    times = hours(4_096)
    assert find_spans(times, daily(times))[0] == DAY
    weekend = np.where(times // DAY % 7 >= 5, 0.2, 1.0)
    assert {*find_spans(times, daily(times, noise=0.1) * weekend)} == {DAY, WEEK}
    apart = DAY * np.arange(4_096)
    assert find_spans(apart, daily(HOUR * np.arange(4_096) * 24 / 7))[0] == WEEK
    for seed in range(10):
        noise = np.random.default_rng(seed).normal(size=4_096)
        for labels in (noise, np.cumsum(noise), np.exp(3 * noise), noise > 1.5):
            assert find_spans(times, np.asarray(labels, np.float64)) == ()


@pytest.mark.parametrize("when", [0.0, math.nan, 1e15])
def test_times_that_say_nothing_have_no_seasons(when: float) -> None:
    memory = LabelMemory(has_times=True)
    labels = daily(hours(2_048))
    found = memory.follow(labels, np.full(len(labels), when))
    assert memory.times is not None
    assert memory.times.spans == ()
    assert np.nanmax(found[1:, -len(COLUMNS)], initial=0.0) == 0.0


def test_times_as_far_apart_as_may_be_give_a_column_that_may_be() -> None:
    labels = LabelTimes(8)
    labels.spans = (DAY,)
    for time, last in itertools.permutations((-LARGEST, 0.0, LARGEST), 2):
        labels.add(last, 1.0)
        since = labels.now(time, 0.0)[0]
        assert abs(since) <= LARGEST
        assert since == pytest.approx(np.clip(time - last, -LARGEST, LARGEST))


def test_a_damaged_state_is_refused() -> None:
    memory = LabelMemory(has_times=True)
    memory.follow(np.arange(5.0), np.arange(5.0))
    state = memory.state()
    for spans in (None, [5.0], [[DAY]], [DAY] * 3):
        with pytest.raises(StateError, match="spans"):
            LabelMemory.from_state(replace(state, header={**state.header, "spans": spans}))
    for times in (np.zeros(4), np.full(5, math.inf)):
        with pytest.raises(StateError, match="times"):
            LabelMemory.from_state(replace(state, arrays={**state.arrays, "times": times}))
