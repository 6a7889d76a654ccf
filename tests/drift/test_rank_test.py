"""The rank test: against its definition, and what it promises."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from streamk.drift import RankTest
from streamk.drift.draws import Draws
from streamk.errors import InvalidInput, StateError

POWERS = (0.3, 0.5, 0.7, 0.9)


def naive(numbers: list[float], reference: int) -> list[float]:
    """The evidence after each number, with ranks counted one by one."""
    draws, sample, found = Draws(0), [], []
    stakes = dict.fromkeys(POWERS, 0.0)
    for t, x in enumerate(numbers):
        bag = [*sample, x]
        if len(sample) >= 50:
            first, last = sum(other > x for other in bag), sum(other >= x for other in bag)
            equal = last - first - 1
            if min(equal, len(sample) - equal) < 10:
                first += int(draws.take(t, 1)[0, 2] * (equal + 1))
                last = first + 1
            above, upto = first / len(bag), last / len(bag)
            for power in POWERS:
                bet = (upto**power - above**power) / (upto - above)
                stakes[power] = (stakes[power] + 1.0) * bet
        if len(bag) > reference:
            leaves = int(draws.take(t, 1)[0, 1] * len(bag))
            sample[min(leaves, reference - 1)] = x if leaves < reference else sample[-1]
        else:
            sample = bag
        found.append(sum(stakes.values()) / 4)
    return found


@pytest.mark.parametrize("above", [None, 1.0, 2.0])
def test_the_evidence_is_that_of_the_definition(above: float | None) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=600) + np.where(np.arange(600) < 550, 0.0, 0.5)
    numbers = numbers if above is None else (numbers > above).astype(float)
    test, found = RankTest(reference=100, run_length=1e12), []
    for number in numbers.tolist():
        test.update(number)
        found.append(test.evidence)
    np.testing.assert_allclose(found, naive(numbers.tolist(), 100), rtol=1e-12)


def test_bets_are_fair() -> None:
    """Over all numbers of a bag, each as the last one, the factors have the mean 1."""
    bag = np.random.default_rng(2).permutation(np.repeat(np.arange(6), 14)).tolist()
    growth = []
    for last in range(len(bag)):
        test = RankTest()
        for number in [*bag[:last], *bag[last + 1 :]]:
            test._enter(float(number))
        test.update(bag[last])
        growth.append(test.evidence)
    assert np.mean(growth) == pytest.approx(1.0)


def test_false_alarms_are_as_rare_as_promised() -> None:
    rng, alarms = np.random.default_rng(3), 0
    for stream in (rng.normal(size=20_000), rng.random(20_000) < 0.1, rng.standard_cauchy(20_000)):
        test = RankTest(run_length=5000.0)
        alarms += sum(test.update(number) for number in stream.tolist())
    assert alarms <= 60_000 / 5000


def test_rare_errors_are_false_alarms_no_more_often() -> None:
    """Of few equal numbers the share in the sample is far from that in the stream."""
    wrong = np.random.default_rng(7).random(200_000) < 0.001
    test = RankTest(run_length=10_000.0)
    assert sum(test.update(number) for number in wrong.tolist()) <= 200_000 / 10_000


def test_a_rise_is_found_and_a_fall_is_none() -> None:
    rng = np.random.default_rng(4)
    rate = np.concatenate([np.full(2000, 0.4), np.full(2000, 0.1), np.full(1000, 0.3)])
    test = RankTest()
    found = [t for t, wrong in enumerate((rng.random(5000) < rate).tolist()) if test.update(wrong)]
    assert found
    assert 4000 < found[0] < 4400


def test_it_goes_on_from_its_state() -> None:
    rng = np.random.default_rng(5)
    numbers = (rng.random(3000) < np.linspace(0.05, 0.5, 3000)).tolist()
    whole, cut = (
        RankTest(reference=200, run_length=200.0),
        RankTest(reference=200, run_length=200.0),
    )
    one, other = [], []
    for t, number in enumerate(numbers):
        one.append((whole.update(number), whole.evidence))
        if t % 97 == 0:
            cut = RankTest.from_json(json.loads(json.dumps(cut.to_json())))
        other.append((cut.update(number), cut.evidence))
    assert one == other
    assert any(alarm for alarm, _ in one)


@pytest.mark.parametrize(
    "damage",
    [
        {"n": 3},
        {"stakes": [1.0]},
        {"stakes": [-1.0, 0.0, 0.0, 0.0]},
        {"stakes": [math.inf, 0.0, 0.0, 0.0]},
        {"sample": [math.nan] * 60},
        {"sample": [0.0] * 2000},
        {"sample": None},
        {"reference": 3},
        {"run_length": "x"},
    ],
)
def test_damaged_data_is_refused(damage: dict[str, Any]) -> None:
    test = RankTest()
    for number in range(60):
        test.update(number)
    data = test.to_json()
    RankTest.from_json(data)
    with pytest.raises(StateError):
        RankTest.from_json({**data, **damage})
    with pytest.raises(StateError):
        RankTest.from_json({name: one for name, one in data.items() if name not in damage})


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="NaN"):
        RankTest().update(math.nan)
    with pytest.raises(InvalidInput):
        RankTest(run_length=1.0)
