"""Merging as the reduction of a round needs it: associative, and independent of the order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.distributed.replicas import reduced, subtrees
from streamk.learners.common.base import Learner
from streamk.learners.registry import from_state
from streamk.packing import fingerprint
from streamk.scaling.quantiles import RunningQuantiles
from tests.rounds_kit import MODELS, TASKS, events, model


@pytest.mark.parametrize("shards", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_parts_of_workers_come_to_what_the_whole_tree_does(shards: int, workers: int) -> None:
    def leaf(shard: int) -> str | None:
        return str(shard) if shard % 4 != 2 else None

    def nothing(_: Any) -> None:
        return None

    join = "({}+{})".format
    expected = reduced((0, shards), nothing, leaf, join)
    known: dict[tuple[int, int], str] = {}
    bounds = [shards * n // workers for n in range(workers + 1)]
    for first, stop in itertools.pairwise(bounds):
        spans = list(subtrees((first, stop), (0, shards)))
        assert [n for span in spans for n in range(*span)] == list(range(first, stop))
        for span in spans:
            found = reduced(span, nothing, leaf, join)
            if found is not None:
                known[span] = found
    assert reduced((0, shards), known.get, nothing, join) == expected


COMMON = 64


def replicas(name: str, task: str, counts: Sequence[int]) -> list[Learner]:
    """Learners that learned so many events each since they were one."""
    X, y = events(COMMON + sum(counts), task)
    y = ["same" if label == "far" else label for label in y]
    first = model(name, task)
    first.learn_many(X[:COMMON], y[:COMMON])
    found, start = [], COMMON
    for count in counts:
        learner = from_state(first.state())
        learner.learn_many(X[start : start + count], y[start : start + count])
        found.append(learner)
        start += count
    return found


def outputs(merged: Learner) -> NDArray[np.float64]:
    X = events(40, "regression", seed=5)[0]
    return np.asarray(merged.decision_many(X))


def merged(learners: Sequence[Learner], tree: Any) -> Learner:
    """Merge copies as nested tuples of numbers tell."""
    if isinstance(tree, int):
        return from_state(learners[tree].state())
    one, *others = (merged(learners, part) for part in tree)
    for other in others:
        one.merge(other, common_events=COMMON)
    return one


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", MODELS)
def test_merging_is_deterministic_and_counts_each_event_once(name: str, task: str) -> None:
    learners = replicas(name, task, (10, 6, 9, 11))
    one, other = (merged(learners, ((0, 1), (2, 3))) for _ in range(2))
    assert fingerprint(one.state()) == fingerprint(other.state())
    assert one.n_events == COMMON + 36
    assert np.isfinite(outputs(one)).all()


def test_samples_of_columns_are_joined_by_their_shares() -> None:
    """Half of the rows come from each, and those before they parted stay."""
    rng = np.random.default_rng(0)
    first = RunningQuantiles(1, seed=3)
    first.observe(rng.uniform(0.0, 1.0, (500, 1)))
    one, other = (RunningQuantiles.from_state(first.state()) for _ in range(2))
    one.observe(rng.uniform(10.0, 11.0, (500, 1)))
    other.observe(rng.uniform(20.0, 21.0, (500, 1)))
    kept = one.sample[:, 0] < 5.0
    one.join(other, 0.5, 1000)
    rows = one.sample[:, 0]
    assert len(rows) == 1000
    assert (rows[kept] < 5.0).all()
    assert 200 < (rows > 15.0).sum() < 300
    assert one.moment == first.moment * 2


def test_a_review_that_no_shard_reached_is_held_on_the_losses_of_all() -> None:
    """Of rounds of 2 events a shard no shard ever learns the 32 events of a review."""
    learners = replicas("multi-kernel", "classification", (10, 10, 10, 10))
    before = learners[0].state().arrays["pool.drift"][0]
    assert [learner.state().arrays["pool.drift"][0] for learner in learners] == [before] * 4
    found = merged(learners, ((0, 1), (2, 3)))
    assert found.state().arrays["pool.drift"][0] == before + 1
    assert found.state().arrays["pool.bank_costs"][-2] == 0.0
