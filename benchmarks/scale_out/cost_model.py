"""What a round of shards takes, out of the seconds and bytes of its parts.

The driver packs a task for each worker and sends them, one after the other, over its link. A worker
opens the common model, has its shards learn and merges them. The driver receives the outcomes in
the order of the workers, opens them and merges them one by one. A round is over with the last one.

Star is this, what streamk does. Tree is a design that is not built: a worker sends the common model
on to others and takes over what others learned, so that both take as many steps as the number of
workers has binary digits, and the driver sends and receives no more than events and predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.sharded.replicas import plan
from streamk.learners.sharded.sharded import ROUND_EVENTS


@dataclass(frozen=True)
class Link:
    """What carries messages between the driver and its workers.

    Attributes
    ----------
    bandwidth : float
        Bytes a second, one message at a time.
    latency : float
        Seconds.
    """

    bandwidth: float
    latency: float

    def seconds(self, n_bytes: float) -> float:
        """Seconds of one message, without its latency."""
        return n_bytes / self.bandwidth


ONE_MACHINE = Link(bandwidth=math.inf, latency=1e-4)
"""Between processes, where moving bytes is among the processor seconds of either."""


@dataclass(frozen=True)
class Costs:
    """Processor seconds and bytes of the parts of a round.

    Attributes
    ----------
    event : float
        Seconds in which an event is predicted and learned.
    task, shard : float
        Seconds of a worker for a task, and for each of its shards besides: models are opened,
        merged and packed.
    driver_round, driver_worker : float
        Seconds of the driver for a round, and for each worker besides.
    spread : float
        Standard deviation of the logarithm of a worker's seconds over its processor seconds.
    state, sent, received : float
        Bytes of a model, of an event that is sent, and of its prediction that comes back.
    """

    event: float
    task: float
    shard: float
    driver_round: float
    driver_worker: float
    spread: float
    state: float
    sent: float
    received: float


def first_events(shards: int) -> int:
    """Return how many events are learned before the first round.

    Examples
    --------
    >>> first_events(4), first_events(1024)
    (8192, 2097152)
    """
    return plan(0, shards, ROUND_EVENTS)[0]


def lengths(events: int, shards: int, most: int = ROUND_EVENTS) -> Iterator[int]:
    """Yield how many events, at most so many, each shard has in the rounds of a stream.

    Examples
    --------
    >>> list(lengths(12_000, 4))
    [256, 288, 324]
    """
    before = first_events(shards)
    while True:
        each, _ = plan(before, shards, most)
        before += shards * each
        if before > events:
            return
        yield each


def round_seconds(
    costs: Costs,
    link: Link,
    *,
    each: int,
    shards: int,
    workers: int,
    design: str = "star",
    slowness: NDArray[Any] | None = None,
) -> float:
    """Return the seconds of a round.

    Parameters
    ----------
    costs : Costs
    link : Link
    each : int
        Events of a shard.
    shards, workers : int
        Each worker has shards / workers of them.
    design : {"star", "tree"}
    slowness : array of shape (workers,), optional
        By how much a worker's seconds are multiplied; 1 by default.
    """
    own = shards / workers
    busy = np.full(workers, costs.task + own * (costs.shard + each * costs.event))
    if slowness is not None:
        busy *= slowness
    turn = np.arange(1, workers + 1)
    sent, received = own * each * costs.sent, own * each * costs.received
    if design == "star":
        begun = turn * link.seconds(costs.state + sent) + link.latency
        end = _gathered(begun + busy, link, costs.state + received)
        return end + costs.driver_round + workers * costs.driver_worker
    there = _steps(workers) * (link.seconds(costs.state) + link.latency)
    done = np.maximum(there, turn * link.seconds(sent) + link.latency) + busy
    predicted = _gathered(done, link, received)
    merged = _tree(done, link.seconds(costs.state) + link.latency + costs.driver_worker)
    return max(predicted, merged) + costs.driver_round


def _steps(workers: int) -> int:
    """Return after how many steps all have what one had, when each sends it to one a step."""
    return (workers - 1).bit_length()


def _gathered(done: NDArray[Any], link: Link, n_bytes: float) -> float:
    """Return when the driver has the last of messages that it receives in the workers' order."""
    left = np.arange(len(done), 0, -1)
    return float(np.max(done + left * link.seconds(n_bytes))) + link.latency


def _tree(done: NDArray[Any], step: float) -> float:
    """Return when the models of all are one, where a step merges two that are both there."""
    while len(done) > 1:
        last = done[len(done) - len(done) % 2 :]
        pairs = done[: len(done) - len(last)].reshape(-1, 2)
        done = np.concatenate([pairs.max(axis=1) + step, last])
    return float(done[0])


def mean_round(
    costs: Costs,
    link: Link,
    *,
    each: int,
    shards: int,
    workers: int,
    design: str = "star",
    rounds: int = 100,
) -> float:
    """Return the mean seconds of rounds whose workers are slow and fast at random, seeded."""
    rng = np.random.default_rng(workers)
    return float(
        np.mean(
            [
                round_seconds(
                    costs,
                    link,
                    each=each,
                    shards=shards,
                    workers=workers,
                    design=design,
                    slowness=np.exp(costs.spread * rng.standard_normal(workers)),
                )
                for _ in range(rounds)
            ]
        )
    )
