"""Transactions of Kafka on simulated brokers: seeds of kills, zombies, lost and late requests.

The source, the sinks and the transaction are the real ones, on a client of simulated brokers.
`python -m tests.simulation --transactions --seed N --trace` repeats a seed step by step.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from simulation.runs import Verdict, simulate

from connectors.kafka import KafkaSink, transaction
from connectors.kafka.tail import Standing, Tail
from connectors.kafka.transaction import Transaction
from streamk.engine.recovery.coordinator import CheckpointCoordinator

BLOCK = 30
"""Seeds a test: enough to be quick, few enough to share among cores."""


def run(root: Path, seed: int) -> Verdict:
    return simulate(seed, root / str(seed), transactions=True)


def failing(root: Path, seeds: range) -> list[str]:
    """What is wrong with each seed of which something is wrong."""
    repeats = "python -m tests.simulation --transactions --trace --seed"
    verdicts = (run(root, seed) for seed in seeds)
    return [f"{one}; {repeats} {one.seed} repeats it" for one in verdicts if one.problems]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", range(0, 300, BLOCK))
def test_everything_is_seen_once(tmp_path: Path, first: int) -> None:
    assert failing(tmp_path, range(first, first + BLOCK)) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(300, 6000, 570))
def test_everything_is_seen_once_of_many_seeds(tmp_path: Path, first: int) -> None:
    assert failing(tmp_path, range(first, first + 570)) == []


def test_a_run_is_a_function_of_its_seed(tmp_path: Path) -> None:
    def steps(seed: int) -> list[str]:
        lines: list[str] = []
        simulate(seed, tmp_path / str(seed), trace=lines.append, transactions=True)
        return lines

    for seed in (0, 10, 22):
        assert steps(seed) == steps(seed)


# --- faults of the library that the simulator must find -----------------------------------------

commit, save, mark = Transaction.commit, CheckpointCoordinator.save, KafkaSink.mark


def offsets_first(self: Any, offsets: Any = None) -> None:
    """Commit the offsets in a transaction of their own, before the outputs."""
    if offsets is not None:
        name = transaction.Transacting("apart", self._timeout, self._delivery_timeout)
        producer = self._client.producer(self._cluster, name)
        producer.begin()
        producer.add_offsets(*offsets)
        producer.commit()
    commit(self)


def offsets_last(self: Any, offsets: Any = None) -> None:
    """Commit the outputs in a transaction of their own, before the offsets."""
    commit(self)
    commit(self, offsets)


def each_its_own(name: str) -> str:
    """Give every process an identifier that fences no other one."""
    return f"streamk-{name}-{uuid.uuid4().hex}"


def nothing_stands(_: Any, __: str, after: Any) -> Any:
    """Write again what was committed before a crash."""
    return Standing("", 0), dict(after)


def ends_of_now(self: Any) -> None:
    """Take a mark after the commit, when another process may have written before it."""
    self._ends = self._tail.ends()


def renewed_when_needed(self: Any) -> None:
    """Take a new producer with the next output, not knowing who has begun by then."""
    self.close()


@contextlib.contextmanager
def after_the_checkpoint() -> Any:
    """Commit the outputs of a job without a group after the checkpoint that counts them."""

    def flushed(self: Any) -> Any:
        if self._transaction.with_offsets:
            return mark(self)
        self.flush()
        ends = self._known_ends() if self._from is None else self._from
        return {"writer": self._name, "ends": {str(number): end for number, end in ends.items()}}

    def saved(self: Any, **options: Any) -> None:
        save(self, **options)
        transactions = self._transactions
        if transactions is not None and not transactions.with_offsets:
            transactions.commit()

    with (
        mock.patch.object(KafkaSink, "mark", flushed),
        mock.patch.object(CheckpointCoordinator, "save", saved),
    ):
        yield


FAULTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], int, str]] = {
    "offsets first": (
        lambda: mock.patch.object(Transaction, "commit", offsets_first),
        42,
        "unwritten",
    ),
    "offsets last": (
        lambda: mock.patch.object(Transaction, "commit", offsets_last),
        48,
        "written twice",
    ),
    "no fencing": (
        lambda: mock.patch.object(transaction, "transactional_id", each_its_own),
        10,
        "written twice",
    ),
    "no reading of the topic": (
        lambda: mock.patch.object(Tail, "find", nothing_stands),
        30,
        "written twice",
    ),
    "committed after the checkpoint": (after_the_checkpoint, 30, "unwritten"),
    "slow commits trusted": (
        lambda: mock.patch.object(transaction, "_SURE", math.inf),
        805,
        "written twice",
    ),
    "a process that was replaced goes on": (
        lambda: mock.patch.object(KafkaSink, "is_alone", return_value=True),
        1732,
        "written twice",
    ),
    "marked after the commit": (
        lambda: mock.patch.object(KafkaSink, "committed", ends_of_now),
        250,
        "written twice",
    ),
    "a zombie begins again": (
        lambda: mock.patch.object(Transaction, "_renew", renewed_when_needed),
        250,
        "written twice",
    ),
}
"""How to plant each, a seed that finds it, and what is wrong then."""


@pytest.mark.parametrize("name", FAULTS)
def test_the_simulator_finds(name: str, tmp_path: Path) -> None:
    plant, seed, kind = FAULTS[name]
    with plant():
        found = run(tmp_path, seed)
    assert kind in {problem.kind for problem in found.problems}
    assert run(tmp_path, seed).problems == []
