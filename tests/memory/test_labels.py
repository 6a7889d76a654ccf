"""The memory of labels: its columns are those of their definition, however labels come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.errors import StateError
from streamk.memory import labels as module
from streamk.memory.labels import COLUMNS, LabelMemory, find_seasons
from tests.reference import labels as naive
from tests.state_kit import reopened


def seasonal(n: int, *seasons: int, noise: float = 0.5, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    found = noise * rng.normal(size=n)
    for season in seasons:
        found += rng.normal(size=season)[np.arange(n) % season]
    return found


def test_columns_are_those_of_their_definition() -> None:
    labels, memory = 5.0 + seasonal(1_100, 24), LabelMemory()
    for n, label in enumerate(labels.tolist()):
        if n < 12 or n > 1_060:
            expected = naive.columns(labels[:n].tolist(), [0] * n, 0, memory.seasons)
            np.testing.assert_array_equal(memory.now(), expected)
        memory.follow(np.array([label]))
    assert memory.seasons == (24,)


def test_columns_of_late_labels_are_those_of_what_was_known_then() -> None:
    labels, memory, late = 5.0 + seasonal(1_200, 24, seed=1), LabelMemory(), 30
    lags: list[int] = []
    for n in range(len(labels)):
        if n > 1_150:
            expected = naive.columns(labels[: len(lags)].tolist(), lags, late, memory.seasons)
            np.testing.assert_allclose(memory.now(n), expected, rtol=1e-12)
            np.testing.assert_array_equal(memory.now(n), memory.now())
        if n >= late:
            known = max(0, n - 2 * late)
            memory.take(labels[n - late : n - late + 1], np.array([known]), n - late)
            lags.append(n - late - known)
    assert memory.seasons == (24,)


def test_events_predicted_together_are_each_at_their_place_in_the_season() -> None:
    labels, memory = seasonal(2_048, 24, noise=0.1), LabelMemory()
    for first in range(0, len(labels), 8):
        known = np.full(8, max(0, first - 40))
        memory.take(labels[first : first + 8], known, first + 7)
    at = COLUMNS.index("season 1")
    for number in range(2_048, 2_100):
        found = memory.now(number)[[at, COLUMNS.index("level")]].sum()
        place = number % 24 + 24 * ((2_047 - number % 24) // 24)
        assert found == pytest.approx(labels[place])


@pytest.mark.parametrize("cuts", [[1], [7, 300, 1], [5_000]])
def test_any_cut_gives_the_same_columns_and_state(cuts: list[int]) -> None:
    labels = seasonal(9_000, 96, seed=2)
    whole, one = LabelMemory(), LabelMemory()
    expected, found, first, n = whole.follow(labels), [], 0, 0
    while first < len(labels):
        some = labels[first : first + cuts[n % len(cuts)]]
        found.append(one.follow(some))
        if n % 1_000 == 1:
            one = reopened(one)
        first, n = first + len(some), n + 1
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert one.state().header == whole.state().header
    for name, array in whole.state().arrays.items():
        np.testing.assert_array_equal(one.state().arrays[name], array)


def test_seasons_are_found_where_there_are_some() -> None:
    first, *others = find_seasons(seasonal(4_096, 24))
    assert first == 24
    assert all(season % 24 == 0 for season in others), "of the noise of two the mean is less"
    assert find_seasons(seasonal(8_192, 24, 168))[0] == 168, "the longer one has both"
    for seed in range(30):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=2_048)
        for labels in (noise, np.cumsum(noise), np.exp(3 * noise), np.round(noise), noise > 1.5):
            assert find_seasons(np.asarray(labels, np.float64)) == ()


def test_seasons_are_found_where_most_labels_are_one_value() -> None:
    hours = np.arange(4_096)
    sun = np.maximum(0.0, np.sin(2.0 * np.pi * hours / 24.0) - 0.3)
    cloudy = sun * np.random.default_rng(1).uniform(0.5, 1.0, len(sun))
    assert np.mean(cloudy == 0.0) > 0.55
    assert find_seasons(cloudy)[0] == 24


def test_the_second_season_is_no_neighbour_of_the_first() -> None:
    hours = np.arange(8_192)
    weekend = (hours // 24) % 7 >= 5
    labels = np.sin(2.0 * np.pi * hours / 24.0) * np.where(weekend, 0.3, 1.0)
    found = find_seasons(labels + 0.3 * np.random.default_rng(2).normal(size=len(labels)))
    assert found[0] == 24
    assert all(abs(season - 24) > 3 for season in found[1:])


def test_a_season_in_use_stays_while_it_is_about_as_good() -> None:
    labels = seasonal(4_096, 24)
    assert find_seasons(labels, (48,))[0] == 48
    assert find_seasons(labels, (31,))[0] == 24


@pytest.mark.parametrize("labels", [np.zeros(2_048), np.full(2_048, 1e300), np.zeros(0)])
def test_labels_that_do_not_vary_have_no_season(labels: NDArray[Any]) -> None:
    assert find_seasons(labels) == ()


def test_labels_are_bounded_and_huge_ones_do_no_harm() -> None:
    memory = LabelMemory()
    memory.follow(np.array([1e299, -1e299, 1.0]))
    memory.follow(seasonal(3 * module._KEPT, 24))
    assert np.isfinite(memory.now()[: COLUMNS.index("season 2")]).all()
    assert len(memory.state().arrays["labels"]) == module._KEPT
    assert memory.nbytes < 250_000


def test_a_damaged_state_is_refused() -> None:
    memory = LabelMemory()
    memory.follow(seasonal(2_048, 24))
    state = memory.state()
    for name, value in (
        ("n_labels", -1), ("n_labels", 7), ("lag", "x"), ("offset", -9_999), ("seasons", [3]),
        ("seasons", [24, 48, 96]), ("seasons", None), ("seasons", [True]), ("seasons", [9_999]),
    ):  # fmt: skip
        with pytest.raises(StateError):
            LabelMemory.from_state(replace(state, header={**state.header, name: value}))
    for name, array in (("labels", np.full(2_048, np.nan)), ("means", np.zeros(2))):
        with pytest.raises(StateError):
            LabelMemory.from_state(replace(state, arrays={**state.arrays, name: array}))
