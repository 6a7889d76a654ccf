"""Adaptive intervals and sets: against the papers' steps, and what they promise."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.conformal import NaiveQuantile, naive_set

from streamk.conformal import AdaptiveIntervals, AdaptiveQuantile, AdaptiveSets, Said
from streamk.errors import InvalidInput, StateError


def scores_that_drift(n: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    scores = np.abs(rng.normal(size=n)) * np.where(np.arange(n) < n // 2, 1.0, 4.0)
    return np.where(rng.random(n) < 0.3, 0.0, scores).tolist()


@pytest.mark.parametrize(("level", "delay"), [(0.9, 0), (0.5, 7), (0.99, 200)])
def test_thresholds_are_those_of_the_oracle(level: float, delay: int) -> None:
    quantile, naive = AdaptiveQuantile(level), NaiveQuantile(level)
    scores, given = scores_that_drift(2500, 1), []
    for t, score in enumerate(scores):
        if delay and t >= delay:
            old = t - delay
            quantile.learn(scores[old], given[old], delay - 1)
            naive.learn(scores[old], given[old], delay - 1)
        given.append(quantile.threshold())
        assert given[-1] == naive.threshold()
        if not delay:
            quantile.learn(score, given[-1])
            naive.learn(score, given[-1], 0)


@given(st.floats(-1e308, 1e308), st.floats(-1e308, 1e308))
def test_a_number_is_inside_at_its_score(at: float, number: float) -> None:
    intervals, said = AdaptiveIntervals(), Said(np.array([at]))
    far = intervals.scores(said, [number])
    (bounds,) = intervals.regions(said, far)
    assert bounds is None or bounds[0] <= number <= bounds[1]
    if number - (number - at) == at and at + (number - at) == number:
        assert far[0] == abs(at - number)


def test_an_easy_stretch_is_not_paid_back() -> None:
    """Where all scores are 0 for long, the threshold follows within a few hundred scores."""
    quantile = AdaptiveQuantile(0.9)
    rng = np.random.default_rng(3)
    scores = [0.0] * 20_000 + (1.0 + rng.random(1000)).tolist()
    held = []
    for score in scores:
        threshold = quantile.threshold()
        held.append(score <= threshold)
        quantile.learn(score, threshold)
    assert np.mean(held[20_200:]) > 0.89


def in_cuts(regions: Any, said: Said, labels: list[Any], cuts: list[int]) -> np.ndarray:
    found = []
    for first, stop in zip([0, *cuts], [*cuts, len(labels)], strict=True):
        P = None if said.probabilities is None else said.probabilities[first:stop]
        part = Said(said.predictions[first:stop], P, said.classes)
        found.append(regions.follow(part, labels[first:stop]))
        regions = type(regions).from_json(json.loads(json.dumps(regions.to_json())))
    return np.concatenate(found)


def numbers() -> tuple[Said, list[Any]]:
    rng = np.random.default_rng(4)
    labels = rng.normal(size=700).tolist()
    labels[5:600:7] = [None] * len(labels[5:600:7])
    return Said(rng.normal(size=700)), labels


def classes() -> tuple[Said, list[Any]]:
    rng = np.random.default_rng(5)
    P = rng.dirichlet([2.0, 1.0, 0.5], size=700)
    P[:40, 2] = np.nan
    names = ("a", "b", "c")
    predictions = np.array([names[k] for k in np.nanargmax(P, axis=1)], object)
    predictions[:3], P[:3] = None, np.nan
    labels: list[Any] = [names[k] for k in rng.integers(0, 3, 700)]
    labels[10:600:9] = [None] * len(labels[10:600:9])
    return Said(predictions, P, names), labels


@pytest.mark.parametrize(("kind", "made"), [(AdaptiveIntervals, numbers), (AdaptiveSets, classes)])
def test_any_cuts_and_restarts_give_the_same_bits(kind: Any, made: Any) -> None:
    said, labels = made()
    whole = kind(0.9).follow(said, labels)
    np.testing.assert_array_equal(in_cuts(kind(0.9), said, labels, [1, 2, 39, 300, 301]), whole)


def test_sets_are_the_fewest_classes_and_never_empty() -> None:
    said, labels = classes()
    sets = AdaptiveSets(0.6)
    thresholds = sets.follow(said, labels)
    found = sets.regions(said, thresholds)
    measured = sets.measures(said, labels, thresholds)
    assert said.probabilities is not None
    assert found[:3] == [[], [], []]
    for n in range(3, 700):
        row = dict(zip(said.classes, said.probabilities[n].tolist(), strict=True))
        known = {label: p for label, p in row.items() if p == p}
        region = found[n]
        assert region is not None
        assert set(region) == naive_set(known, said.predictions[n], thresholds[n])
        assert sorted(region, key=lambda label: -known[label]) == region
        assert said.predictions[n] in region
        if labels[n] is None or math.isinf(thresholds[n]):
            assert math.isnan(measured[n, 0])
        else:
            assert measured[n].tolist() == [labels[n] in region, len(region)]


def test_intervals_reach_as_far_to_both_sides() -> None:
    said, labels = numbers()
    intervals = AdaptiveIntervals(0.9)
    assert intervals.regions(said, intervals.thresholds(700))[0] is None
    thresholds = intervals.follow(said, labels)
    measured = intervals.measures(said, labels, thresholds)
    low, high = intervals.regions(said, thresholds)[-1] or [0, 0]
    assert (low + high) / 2 == pytest.approx(said.predictions[-1])
    assert measured[-1].tolist() == [low <= labels[-1] <= high, pytest.approx(high - low)]
    assert np.isnan(measured[0]).all(), "there was no interval yet"


def test_at_another_level_the_scores_stay() -> None:
    said, labels = numbers()
    intervals = AdaptiveIntervals(0.9)
    intervals.follow(said, labels)
    wider = AdaptiveIntervals.from_json(intervals.to_json(), 0.98)
    assert wider.level == 0.98
    assert wider.thresholds(1) > intervals.thresholds(1)


@pytest.mark.parametrize("score", [math.inf, math.nan, -1.0])
def test_scores_of_no_use_are_refused(score: float) -> None:
    """An infinite one would be the threshold of all that follow, and no region ever learned."""
    quantile = AdaptiveQuantile(0.9)
    quantile.learn(1.0, math.inf)
    before = quantile.to_json()
    with pytest.raises(InvalidInput, match="finite"):
        quantile.learn(score, quantile.threshold())
    assert quantile.to_json() == before
    with pytest.raises(InvalidInput, match="finite"):
        AdaptiveIntervals(0.9).follow(Said(np.zeros(2)), [1.0, math.inf])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, math.nan, True, "0.9"])
def test_levels_of_no_use_are_refused(level: Any) -> None:
    with pytest.raises(InvalidInput, match=r"between 0 and 0\.99"):
        AdaptiveQuantile(level)


@pytest.mark.parametrize(
    "damage",
    [
        {"region": "prediction_set"},
        {"scores": [1.0, -1.0]},
        {"scores": [math.inf]},
        {"scores": [0.5] * 1001, "n": 1001},
        {"n": 1},
        {"n": -4},
        {"blind": 5},
        {"blind": None},
        {"missed": math.nan},
        {"missed": 7.0},
        {"missed": "x"},
        {"level": 2.0},
        {"level": None},
    ],
)
def test_damaged_data_is_refused(damage: dict[str, Any]) -> None:
    intervals = AdaptiveIntervals(0.9)
    intervals.follow(Said(np.zeros(3)), [1.0, 2.0, 3.0])
    data = intervals.to_json()
    AdaptiveIntervals.from_json(data)
    with pytest.raises((StateError, InvalidInput)):
        AdaptiveIntervals.from_json({**data, **damage})
    with pytest.raises(StateError):
        AdaptiveIntervals.from_json({k: v for k, v in data.items() if k not in damage} | {"x": 1})


def test_intervals_about_no_number_have_no_bounds_and_do_not_count() -> None:
    largest = sys.float_info.max
    at = np.array([0.0, 1.0, math.nan, math.inf, 2.0, -largest, 3.0])
    labels = [1.0, 2.0, 3.0, 4.0, 5.0, largest, 2.0]
    intervals = AdaptiveIntervals(0.5)
    thresholds = intervals.follow(Said(at), labels)
    found = intervals.regions(Said(at), thresholds)
    assert [one is None for one in found] == [True, False, True, True, False, False, False]
    measured = intervals.measures(Said(at), labels, thresholds)
    assert np.isnan(measured[[0, 2, 3]]).all()
    assert np.isfinite(measured[[1, 4, 5, 6]]).all()
    assert intervals.to_json()["scores"] == [1.0, 1.0, 3.0, largest, 1.0]
    for region in found:
        json.dumps(region, allow_nan=False)


def test_a_threshold_is_infinite_before_any_score_alone() -> None:
    quantile = AdaptiveQuantile(0.9)
    for _ in range(100):
        quantile.learn(sys.float_info.max, quantile.threshold())
        assert quantile.threshold() <= sys.float_info.max
    for _ in range(1000):
        quantile.learn(1.0, quantile.threshold())
    assert quantile.threshold() == 1.0


def test_probabilities_that_are_rounded_past_1_are_1() -> None:
    said = Said(np.array(["a"], object), np.array([[-1e-16, 1.0 + 1e-15]]), ("a", "b"))
    found = AdaptiveSets(0.9).scores(said, ["b"])
    assert found.tolist() == [0.0]
