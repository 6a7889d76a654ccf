"""The model of a round's cost and its simulation, by hand; the fit of its constants."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks.scale_out import cost_model, simulation
from benchmarks.scale_out.cost_model import Costs, Link, round_seconds
from benchmarks.scale_out.fitting import SHARDS, Round, fitted
from streamk.learners import Sharded, create

LINK = Link(bandwidth=100.0, latency=0.5)
COSTS = Costs(
    event=1.0,
    task=2.0,
    shard=3.0,
    driver_round=5.0,
    driver_worker=7.0,
    spread=0.0,
    state=100.0,
    sent=10.0,
    received=1.0,
)


def test_a_round_of_one_worker() -> None:
    # Two shards of 10 events: 300 bytes there, 2 + 2 (3 + 10) seconds, 120 bytes back.
    taken = round_seconds(COSTS, LINK, each=10, shards=2, workers=1)
    assert taken == pytest.approx(3.0 + 0.5 + 28.0 + 1.2 + 0.5 + 5.0 + 7.0)


def test_a_round_of_two_workers() -> None:
    # The second task is sent after the first one, 200 bytes each, and so are 110 bytes back.
    taken = round_seconds(COSTS, LINK, each=10, shards=2, workers=2)
    assert taken == pytest.approx(2 * 2.0 + 0.5 + 15.0 + 1.1 + 0.5 + 5.0 + 2 * 7.0)


def test_the_driver_waits_for_the_slowest_worker() -> None:
    # The first one comes after the second, whose outcome waits for it.
    slowness = np.array([3.0, 1.0])
    taken = round_seconds(COSTS, LINK, each=10, shards=2, workers=2, slowness=slowness)
    assert taken == pytest.approx(2.0 + 0.5 + 45.0 + 2 * 1.1 + 0.5 + 5.0 + 2 * 7.0)


def test_a_round_in_a_tree() -> None:
    # One step of the model (1.5), then events by the driver: the second worker's are there at 2.5.
    # It has learned at 17.5; one step of merging is 1 + 0.5 + 7.
    taken = round_seconds(COSTS, LINK, each=10, shards=2, workers=2, design="tree")
    assert taken == pytest.approx(2.5 + 15.0 + 8.5 + 5.0)


def test_a_tree_of_three_takes_two_steps() -> None:
    quick = dataclasses.replace(COSTS, sent=0.0, received=0.0, event=0.0)
    taken = round_seconds(quick, LINK, each=10, shards=3, workers=3, design="tree")
    assert taken == pytest.approx(2 * 1.5 + 5.0 + 2 * 8.5 + 5.0)


def test_the_spread_makes_rounds_longer() -> None:
    spread = dataclasses.replace(COSTS, spread=0.2)
    seconds = [
        cost_model.mean_round(costs, LINK, each=10, shards=8, workers=8)
        for costs in (COSTS, spread)
    ]
    assert seconds[0] == pytest.approx(round_seconds(COSTS, LINK, each=10, shards=8, workers=8))
    assert seconds[1] > seconds[0]


def test_rounds_are_those_of_a_sharded_learner() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8000, 1)), rng.normal(size=8000).tolist()
    inner = create("doubly-stochastic", task="regression", max_features=64, block_size=64)
    model = Sharded(inner, shards=2)
    model.add_columns([0])
    left = []
    first = 0
    while first + model.events_left <= len(y):
        left.append(model.events_left)
        part = slice(first, first + left[-1])
        model.learn_many(X[part], y[part])
        first = part.stop
    assert left[0] == cost_model.first_events(2)
    assert left[1:] == [2 * each for each in cost_model.lengths(len(y), 2)]


def test_a_whole_stream() -> None:
    # 4,096 events without shards, a round of 2 x 256, and 100 events that are left.
    whole = cost_model.first_events(2) + 512
    rounds = [round_seconds(COSTS, LINK, each=n, shards=2, workers=2) for n in (256, 50)]
    taken = [
        simulation.stream_seconds(COSTS, LINK, events, 2, "star")
        for events in (4095, whole, whole + 100)
    ]
    assert taken == pytest.approx([4095.0, 4096.0 + rounds[0], 4096.0 + sum(rounds)])


def test_workers_that_pay_and_that_keep_up() -> None:
    speeds = {1: 10.0, 2: 19.0, 4: 30.0, 8: 31.0, 16: 60.0}
    assert simulation.pays_to(speeds) == 4
    assert simulation.pays_to({1: 10.0, 2: 19.0}) == 2
    assert [simulation.workers_for(rate, speeds) for rate in (10.0, 25.0, 61.0)] == [1, 4, None]


def test_constants_are_found_again() -> None:
    rounds: dict[int, list[Round]] = {1: [], 2: []}
    for count, found in rounds.items():
        own = SHARDS / count
        for each in (8, 16, 32):
            sent, received = 100.0 + own * each * 10.0, 100.0 + own * each
            busy = [COSTS.task + own * (COSTS.shard + each * COSTS.event)] * count
            driver = COSTS.driver_round + count * COSTS.driver_worker
            waited = [2.0 * seconds for seconds in busy]
            found.append(Round(each, 0.0, driver, busy, waited, sent, received))
    found_costs = dataclasses.asdict(fitted(rounds, COSTS.state))
    assert found_costs == pytest.approx(dataclasses.asdict(COSTS), abs=1e-9)
