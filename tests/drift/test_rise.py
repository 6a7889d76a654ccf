"""The tests of a rise: against their definitions, and what they promise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamk.drift import RankTest, ShareTest
from streamk.drift.rise import Draws, RiseTest
from streamk.errors import InvalidInput, StateError

POWERS = (0.3, 0.5, 0.7, 0.9)
TESTS = [RankTest, ShareTest]
Numbers = np.ndarray[Any, Any]


def by_rank(bag: list[float], x: float, tie: float) -> list[float]:
    """The bets on the rank of the last number of a bag, counted one by one."""
    above, equal = sum(other > x for other in bag), sum(other == x for other in bag)
    above += int(tie * equal)
    low, high = above / len(bag), (above + 1) / len(bag)
    return [(high**power - low**power) * len(bag) for power in POWERS]


def by_share(bag: list[float], x: float, tie: float) -> list[float]:
    """The bets on the last number of a bag, as an error of that probability."""
    del tie
    m = (sum(bag) + 1) / (len(bag) + 1)
    errors = [m**power / m for power in POWERS]
    others = [(1 - m**power) / (1 - m) for power in POWERS]
    return [
        math.exp(x * math.log(a) + (1 - x) * math.log(b))
        for a, b in zip(errors, others, strict=True)
    ]


def naive(numbers: list[float], reference: int, bets: Callable[..., list[float]]) -> list[float]:
    """The evidence after each number."""
    draws, sample, found = Draws(0), [], []
    stakes = [0.0] * len(POWERS)
    for t, x in enumerate(numbers):
        bag = [*sample, x]
        drawn = draws.take(t, 1)[0]
        if len(sample) >= 50:
            stakes = [
                (stake + 1.0) * bet
                for stake, bet in zip(stakes, bets(bag, x, drawn[2]), strict=True)
            ]
        if len(bag) > reference:
            leaves = int(drawn[1] * len(bag))
            sample[min(leaves, reference - 1)] = x if leaves < reference else sample[-1]
        else:
            sample = bag
        found.append(sum(stakes) / 4)
    return found


def alarms(test: RiseTest, numbers: Numbers) -> list[int]:
    return [t for t, number in enumerate(numbers.tolist()) if test.update(number)]


@pytest.mark.parametrize("kind", ["far", "whole", "errors", "probabilities"])
@pytest.mark.parametrize(("make", "bets"), [(RankTest, by_rank), (ShareTest, by_share)])
def test_the_evidence_is_that_of_the_definition(make: Any, bets: Any, kind: str) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=600) + np.where(np.arange(600) < 550, 0.0, 0.5)
    match kind:
        case "whole":
            numbers = np.round(numbers)
        case "errors":
            numbers = (numbers > 1.0).astype(float)
        case "probabilities":
            numbers = 1.0 / (1.0 + np.exp(-numbers))
    if make is ShareTest and kind in ("far", "whole"):
        numbers = np.clip(numbers, 0.0, 1.0)
    test, found = make(reference=100, run_length=1e12), []
    for number in numbers.tolist():
        test.update(number)
        found.append(test.evidence)
    np.testing.assert_allclose(found, naive(numbers.tolist(), 100, bets), rtol=1e-9)


@pytest.mark.parametrize("make", TESTS)
@pytest.mark.parametrize("rate", [0.001, 0.1, 0.97])
def test_false_alarms_about_errors_are_as_rare_as_promised(make: Any, rate: float) -> None:
    wrong = np.random.default_rng(7).random(20_000) < rate
    assert len(alarms(make(run_length=2000.0), wrong)) <= 10


@pytest.mark.parametrize("level", [0.02, 0.3, 0.5])
def test_probabilities_that_wander_a_little_are_no_rise(level: float) -> None:
    """A model that learns is a little surer now and then, of all events together."""
    n = 15_000
    wander = 1.0 + 0.1 * np.sin(np.arange(n) / 500.0)
    noise = np.random.default_rng(5).beta(2.0, 2.0 / level - 2.0, size=n)
    for numbers in (level * wander, np.minimum(1.0, noise * wander)):
        assert not alarms(ShareTest(), numbers)
    assert alarms(
        ShareTest(), np.append(level * wander, np.full(900, min(0.9, 2.0 * level + 0.05)))
    )


@pytest.mark.parametrize("make", TESTS)
def test_a_rise_is_found_and_a_fall_is_none(make: Any) -> None:
    rng = np.random.default_rng(4)
    rate = np.concatenate([np.full(2000, 0.4), np.full(2000, 0.1), np.full(1000, 0.3)])
    found = alarms(make(), rng.random(5000) < rate)
    assert found
    assert 4000 < found[0] < 4400


@pytest.mark.parametrize("make", TESTS)
def test_it_goes_on_from_its_state(make: Any) -> None:
    rng = np.random.default_rng(5)
    numbers = (rng.random(3000) * np.linspace(0.05, 1.0, 3000)).tolist()
    whole, cut = make(reference=200, run_length=200.0), make(reference=200, run_length=200.0)
    one, other = [], []
    for t, number in enumerate(numbers):
        one.append((whole.update(number), whole.evidence))
        if t % 97 == 0:
            cut = make.from_json(json.loads(json.dumps(cut.to_json())))
        other.append((cut.update(number), cut.evidence))
    assert one == other
    assert any(alarm for alarm, _ in one)


@pytest.mark.parametrize("make", TESTS)
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
def test_damaged_data_is_refused(make: Any, damage: dict[str, Any]) -> None:
    test = make()
    for number in range(60):
        test.update(number / 60)
    data = test.to_json()
    make.from_json(data)
    with pytest.raises(StateError):
        make.from_json({**data, **damage})
    with pytest.raises(StateError):
        make.from_json({name: one for name, one in data.items() if name not in damage})


@pytest.mark.parametrize("x", [math.nan, math.inf, -0.01, 1.01])
def test_what_is_no_share_is_refused(x: float) -> None:
    test = ShareTest()
    with pytest.raises(InvalidInput, match="NaN" if math.isnan(x) else "not a share"):
        test.update(x)
    assert test.n == 0
    data = test.to_json() | {"sample": [x], "n": 1}
    with pytest.raises(StateError):
        ShareTest.from_json(data)


@pytest.mark.parametrize("make", TESTS)
def test_what_is_no_number_is_refused(make: Any) -> None:
    with pytest.raises(InvalidInput, match="NaN"):
        make().update(math.nan)
    with pytest.raises(InvalidInput):
        make(run_length=1.0)
