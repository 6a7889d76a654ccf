"""The engine among crashes, torn writes, lost answers, rebalances and zombies, by seed and script.

`python -m tests.simulation --seed N --trace` repeats a seed step by step, with `--transactions` one
of a job that writes in transactions.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from simulation.plan import Plan
from simulation.runs import Run, simulate
from simulation.stage import Stage

from connectors.kafka import KafkaSink, transaction
from connectors.kafka.tail import Standing, Tail
from connectors.kafka.transaction import Transaction
from streamk.engine.recovery.coordinator import CheckpointCoordinator

BLOCK = 30
"""Seeds a test: enough to be quick, few enough to share among cores."""


def failing(root: Path, seeds: range, *, transactions: bool) -> list[str]:
    """What is wrong with each seed of which something is wrong."""
    repeats = "python -m tests.simulation --trace" + transactions * " --transactions"
    verdicts = (simulate(n, root / str(n), transactions=transactions) for n in seeds)
    return [f"{one}; {repeats} --seed {one.seed} repeats it" for one in verdicts if one.problems]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", range(0, 300, BLOCK))
@pytest.mark.parametrize("transactions", [False, True])
def test_seeds(tmp_path: Path, first: int, transactions: bool) -> None:
    """In transactions the source, the sinks and the transaction are the real ones."""
    assert failing(tmp_path, range(first, first + BLOCK), transactions=transactions) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("first", "size", "transactions"),
    [
        *((first, 970, False) for first in range(300, 10_000, 970)),
        *((first, 570, True) for first in range(300, 6000, 570)),
    ],
)
def test_many_seeds(tmp_path: Path, first: int, size: int, transactions: bool) -> None:
    assert failing(tmp_path, range(first, first + size), transactions=transactions) == []


def growing(seed: int) -> Plan:
    """The plan of a job whose source gets partitions, and which dies often between checkpoints."""
    plan = Plan.of(seed)
    return replace(
        plan,
        kind="single",
        workers=1,
        shared=True,
        late=True,
        partitions=max(2, plan.partitions),
        sink="topic" if seed % 3 else "file",
        until_end=False,
        real=False,
        retention=False,
        span=20.0,
        calm=30.0,
        most=5,
        rates={**plan.rates, "kill": 0.05},
        budget=12,
        options={**plan.options, "checkpoint_every": 64, "data_loss": "fail"},
    )


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 2000), marks=pytest.mark.nightly)]
)
def test_partitions_that_come_later(tmp_path: Path, seeds: range) -> None:
    """They come behind all that was taken without them, also by a process that was killed."""
    problems = {seed: Run(growing(seed), tmp_path / str(seed)).verdict() for seed in seeds}
    assert not any(problems.values()), {seed: one for seed, one in problems.items() if one}


@pytest.mark.parametrize(
    ("seed", "transactions"),
    [*((seed, False) for seed in (1, 3, 12, 17)), *((seed, True) for seed in (0, 10, 22))],
)
def test_a_run_is_a_function_of_its_seed(tmp_path: Path, seed: int, transactions: bool) -> None:
    def steps() -> list[str]:
        lines: list[str] = []
        simulate(seed, tmp_path / str(seed), trace=lines.append, transactions=transactions)
        return lines

    assert steps() == steps()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    yield from staged(tmp_path, shared=True)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Stage]:
    """Two workers whose directories are not one."""
    yield from staged(tmp_path, shared=False)


def staged(root: Path, *, shared: bool) -> Iterator[Stage]:
    made = Stage(root / "stage", shared=shared)
    made.share(a=("t:0",), b=("t:1",))
    with made.inside():
        yield made
    made.end()
    shutil.rmtree(root / "stage", ignore_errors=True)


BOTH = ("t:0", "t:1")


def both_at_work(stage: Stage) -> None:
    """Each has one partition, has learned some of it, and the group knows."""
    stage.a.start()
    stage.b.start()
    stage.together(stage.is_shared)
    stage.together(lambda: stage.all_done() > 0)


def test_nothing_happens(stage: Stage) -> None:
    both_at_work(stage)
    stage.together(lambda: stage.all_done() > 16)
    assert stage.finish() == []


def test_a_zombie_is_killed_between_checkpoint_and_commit(stage: Stage) -> None:
    """Another member has taken over meanwhile: what it had not committed was learned there."""
    stage.a.start()
    stage.until(stage.a, lambda: stage.all_done() > 0)
    stage.until(stage.a, "commit")
    stage.wait(10.0)
    stage.b.start()
    stage.until(stage.b, lambda: stage.all_done() > 20)
    stage.kill(stage.a)
    stage.a.start()
    stage.together(stage.is_shared)
    assert stage.finish() == []


def test_members_with_directories_of_their_own_know_each_other_apart(apart: Stage) -> None:
    """The slots of both are called member-0; what the other one knew is lost and reported."""
    apart.b.start()
    apart.until(apart.b, lambda: apart.all_done() > 8)
    apart.kill(apart.b)
    apart.wait(10.0)
    apart.a.start()
    apart.until(apart.a, lambda: apart.owns(apart.a, BOTH) and apart.done("t:0") > 20)
    assert apart.finish() == []


def test_an_heir_dies_between_checkpoint_and_commit(stage: Stage) -> None:
    """What it took over is taken over after all, or still there when the dead one comes back."""
    both_at_work(stage)
    stage.kill(stage.a)
    stage.wait(10.0)
    stage.until(stage.b, lambda: stage.stands(stage.b, "commit") and stage.absorbed("member-1"))
    stage.kill(stage.b)
    stage.wait(10.0)
    stage.a.start()  # in the first slot that is free: its own
    stage.until(stage.a, lambda: stage.owns(stage.a, BOTH))
    stage.until(stage.a, "poll")
    stage.b.start()
    stage.together(stage.is_shared)
    assert stage.finish() == []


def test_a_commit_is_taken_and_nobody_hears_of_it(stage: Stage) -> None:
    """In a rebalance: the group goes on behind it, so what was committed has to stay learned."""
    stage.a.start()
    stage.until(stage.a, lambda: stage.all_done() > 8)
    stage.until(stage.a, "write")  # more than it has committed
    stage.b.start()
    stage.until(stage.b, "idle")
    stage.until(stage.a, "revoked")
    taken = len(stage.broker.accepted)
    stage.world.faults.ordered.add("lost acknowledgement")
    stage.until(stage.a, "idle")
    assert len(stage.broker.accepted) > taken
    stage.together(lambda: stage.done("t:0") > 30 and stage.done("t:1") > 20)
    assert stage.finish() == []


def test_an_heir_takes_over_all_that_was_committed(stage: Stage) -> None:
    """The dead one's last commit was of a partition that somebody else gets."""
    stage.a.start()
    stage.until(stage.a, lambda: stage.all_done() > 8)
    stage.b.start()
    stage.until(stage.b, "idle")
    stage.until(stage.a, lambda: stage.owns(stage.a, ("t:0",)))
    stage.until(stage.b, "assigned")  # and has not taken over anything yet
    before = stage.done("t:0")
    stage.until(stage.a, lambda: stage.done("t:0") > before)
    stage.kill(stage.a)
    after = stage.done("t:0")
    stage.until(stage.b, lambda: stage.owns(stage.b, BOTH) and stage.done("t:0") > after)
    assert stage.finish() == []


def test_what_an_heir_takes_over_lacks_is_on_its_record(stage: Stage) -> None:
    """Events were gone from the source before the dead one could read them."""
    both_at_work(stage)
    before = stage.done("t:0")
    stage.delete("t:0", 20)
    stage.until(stage.a, lambda: stage.done("t:0") > before + 20)
    stage.kill(stage.a)
    stage.until(stage.b, lambda: stage.owns(stage.b, BOTH) and stage.absorbed("member-1"))
    assert stage.finish() == []


def test_a_partition_that_was_lost_unheard_of_is_gone_from_the_source(stage: Stage) -> None:
    """The member polls once more before it learns that it has no partition."""
    both_at_work(stage)
    stage.kill(stage.b)
    stage.until(stage.a, lambda: stage.owns(stage.a, BOTH) and stage.stands(stage.a, "commit"))
    stage.wait(10.0)
    stage.delete("t:0", 10)
    before = stage.done("t:1")
    stage.until(stage.a, lambda: stage.done("t:1") > before)
    assert stage.finish() == []


def test_a_member_that_dies_without_a_partition(stage: Stage) -> None:
    """What it has learned is not forgotten because all its partitions had moved on before."""
    both_at_work(stage)
    stage.share(a=("t:0", "t:1"), b=())
    stage.rebalance()
    stage.together(lambda: stage.owns(stage.a, BOTH) and stage.owns(stage.b, ()))
    before = stage.broker.committed["t:1"]
    stage.together(lambda: stage.broker.committed["t:1"] != before)
    stage.kill(stage.b)
    stage.wait(10.0)
    assert stage.finish() == []


def test_a_slot_is_still_there_when_the_power_was_gone(tmp_path: Path) -> None:
    """Its name is in a directory too, which must be synced as well as the slot."""
    made = Stage(tmp_path / "stage", ordered=False)
    with made.inside():
        made.a.start()
        made.until(made.a, lambda: made.done("t:0") > 0)
        assert made.disk.unsynced("shared") == []
    made.end()


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


FAULTS: dict[str, tuple[tuple[Any, str, Any] | None, int, str]] = {
    "offsets first": ((Transaction, "commit", offsets_first), 42, "unwritten"),
    "offsets last": ((Transaction, "commit", offsets_last), 55, "written twice"),
    "no fencing": ((transaction, "transactional_id", each_its_own), 10, "written twice"),
    "no reading of the topic": ((Tail, "find", nothing_stands), 30, "written twice"),
    "committed after the checkpoint": (None, 30, "unwritten"),
    "slow commits trusted": ((transaction, "_SURE", math.inf), 1297, "written twice"),
    "a process that was replaced goes on": (
        (KafkaSink, "is_alone", lambda *_: True),
        1732,
        "written twice",
    ),
    "marked after the commit": ((KafkaSink, "committed", ends_of_now), 250, "written twice"),
    "a zombie begins again": ((Transaction, "_renew", renewed_when_needed), 250, "written twice"),
}
"""What each puts in the place of what, a seed that finds it, and what is wrong then."""


@pytest.mark.parametrize("name", FAULTS)
def test_the_simulator_finds(name: str, tmp_path: Path) -> None:
    fault, seed, kind = FAULTS[name]
    with mock.patch.object(*fault) if fault else after_the_checkpoint():
        found = simulate(seed, tmp_path / "faulty", transactions=True)
    assert kind in {problem.kind for problem in found.problems}
    assert simulate(seed, tmp_path / "right", transactions=True).problems == []
