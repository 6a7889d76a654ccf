"""With transactions a reader of what was committed sees everything once, whatever dies when."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_kit import (
    Job,
    MakeJob,
    assert_same,
    every,
    fill,
    killed,
    newest,
    outputs,
    owns,
    stream,
)
from crash_kit import make_job as make_job
from engine_kit import attached
from kafka_kit import until

from connectors.errors import Aborted, ConnectorError, Unavailable
from connectors.memory import MemorySink, MemorySource
from streamk.engine import Checkpoints, saving
from streamk.engine import saving as again
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

SHARES = (0.5, 0.3, 0.2)


def on_broker(test: Any) -> Any:
    """Mark a test that takes a broker."""
    for mark in (pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)):
        test = mark(test)
    return test


# Of the first checkpoint come no outputs, and without a group no transaction.
STRIKES = {
    "alone": [("ended", 2), ("mark", 3), ("end", 2), ("fsync", 5), ("fsync", 8), ("fsync", 12)],
    "in a group": [("end", 3), ("ended", 3), ("mark", 3), ("commit", 3), ("fsync", 9)],
}


def with_bad_ones(size: int, first: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """A stream of which one event in twenty cannot be used."""
    for i, (partition, timestamp, value) in enumerate(
        stream(size, SHARES, seed=first, first=first)
    ):
        yield partition, timestamp, b"{" if i % 20 == 7 else value


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """A job that writes predictions and dead letters to two topics, in transactions."""
    options = {"until_end": True, "idle_timeout": 0.1, "transactions": 30.0}
    return make_job(3, 3, 2, session_timeout=3.0, options=options)


def seen(job: Job) -> dict[Any, list[Any]]:
    """The predictions and dead letters that a reader of what is committed sees, by their input."""
    found: dict[Any, list[Any]] = {}
    for sink in (job.output, job.dead_letters):
        topic = sink.rpartition("/")[2]
        for place, values in outputs(job.address, topic, "read_committed").items():
            found.setdefault(place, []).extend(values)
    return found


def until_seen(job: Job, count: int) -> None:
    until(lambda: len(seen(job)) >= count)


def assert_once(job: Job) -> None:
    """Check that everything is seen, once."""
    until_seen(job, len(every(job)))
    found = seen(job)
    assert sorted(found) == every(job)
    assert {len(values) for values in found.values()} == {1}
    assert not any(value.get("revision") for (value,) in found.values())


@on_broker
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", STRIKES)
@pytest.mark.parametrize(
    ("size", "kills", "strikes"),
    [(3_000, 1, 1), pytest.param(60_000, 10, 9, marks=pytest.mark.nightly)],
)
def test_killed_at_random_moments(
    size: int, kills: int, strikes: int, kind: str, job: Job, tmp_path: Path
) -> None:
    fill(job.address, job.topic, with_bad_ones(size))
    group = f"g-{job.topic}" if kind == "in a group" else None
    options = {**job.options, "checkpoint_every": size // 20}
    job = job.but(group=group, instance=group and "a", options=options, whim=0)
    undisturbed = job.but(
        directory=str(tmp_path / "undisturbed"),
        output=f"file:{tmp_path / 'predictions.ndjson'}",
        dead_letters=f"file:{tmp_path / 'dead.ndjson'}",
        group=None,
        instance=None,
        options={name: one for name, one in options.items() if name != "transactions"},
    )
    expected = undisturbed.run()
    plan: list[tuple[str, int] | None] = [*STRIKES[kind][:strikes], *[None] * kills]
    random.Random(3).shuffle(plan)
    killed(job, plan, size, seed=3)
    report = job.but(whim=99).run()
    assert 0 < report["events_now"] < size
    assert_same(report, job, expected, undisturbed)
    assert_once(job)
    right = {}
    for line in (tmp_path / "predictions.ndjson").read_text().splitlines():
        value = json.loads(line)
        right[value["partition"], value["offset"]] = value["prediction"], value["probabilities"]
    assert right == {
        place: (value["prediction"], value["probabilities"])
        for place, (value,) in seen(job).items()
        if "prediction" in value
    }


@on_broker
def test_of_two_that_go_on_from_one_checkpoint_the_last_one_does(job: Job, tmp_path: Path) -> None:
    """The directory was copied, to another machine say, where no lock tells of the other one."""
    live = {"idle_timeout": 0.1, "transactions": 0.2}
    job = job.but(options=live)
    fill(job.address, job.topic, with_bad_ones(600))
    with job.start() as first:
        until_seen(job, 600)
        copied = str(tmp_path / "copied")
        shutil.copytree(job.directory, copied, ignore=shutil.ignore_patterns("lock"))
        with job.but(directory=copied, options={**live, "max_events": 1200}).start() as second:
            assert second.until(lambda p: len(p.owned) == 3)
            fill(job.address, job.topic, with_bad_ones(600, first=600))
            assert first.wait() == 1
            assert "another process has begun with the transactional identifier" in first.log
            assert second.report()["events"] == 1200
    assert_once(job)


@on_broker
def test_a_dead_member_is_taken_over(job: Job) -> None:
    """Nobody sees what it wrote after its last commit, and no prediction is revised."""

    options = {"idle_timeout": 0.1, "checkpoint_every": 200, "transactions": 1.0}
    job = job.but(group=f"g-{job.topic}", options=options)
    fill(job.address, job.topic, with_bad_ones(2000))
    with job.start() as first:
        assert first.until(owns(3))
        with job.but(strike=("commit", 1), armed=300).start() as second:
            assert second.until(lambda p: bool(p.owned))
            assert first.until(lambda p: len(p.owned) < 3)
            size = 2000
            while second.is_running:  # it may own the smallest partition alone
                fill(job.address, job.topic, with_bad_ones(1000, first=size))
                size += 1000
            assert second.wait() == -signal.SIGKILL
        assert newest(job.directory, 1).epoch >= 3
        assert first.until(owns(3))
        # Its transaction does not keep readers back until the brokers end it.
        until_seen(job, size)
        first.signal(signal.SIGTERM)
        assert not first.report()["lost"]
    assert_once(job)


@on_broker
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("kind", "times"),
    [("in a group", 2), *(pytest.param(kind, 10, marks=pytest.mark.nightly) for kind in STRIKES)],
)
def test_a_broker_that_restarts_at_random_moments(
    times: int, kind: str, restarted: Any, job: Job
) -> None:
    """Killed or stopped, and away for a while: transactions are aborted, and done again."""
    size = 1000 * (times + 1)
    job = job.but(
        options={"idle_timeout": 0.1, "transactions": 0.3, "max_events": size},
        pause=0.01,
        group=f"g-{job.topic}" if kind == "in a group" else None,
    )
    rng = random.Random(times)
    fill(job.address, job.topic, with_bad_ones(1000))
    with job.start() as process:
        for first in range(1000, size, 1000):
            # Of the events one in twenty is written as a dead letter.
            assert process.until_written(first * 9 // 10 - rng.randrange(500))
            rng.choice((restarted.kill, restarted.stop))()
            time.sleep(rng.choice((0.0, rng.uniform(0.0, 0.5 * times))))
            restarted.start()
            fill(job.address, job.topic, with_bad_ones(1000, first=first))
        report = process.report()
    assert (report["events"], report["lost"]) == (size, [])
    assert_once(job)


class _Coordinator:
    """What decides when a checkpoint is written."""

    saved_events, is_current = 0, False

    def __init__(self) -> None:
        self.saves = 0

    def save(self) -> None:
        self.saves += 1


def test_a_checkpoint_is_written_when_the_last_one_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(saving.time, "monotonic", lambda: now[0])
    coordinator: Any = _Coordinator()
    one = saving.Saving(coordinator, Checkpoints("x", 1000, 0, transactions=5.0))
    assert not one.is_due_by_time
    now[0] += 5.0
    assert one.is_due_by_time
    coordinator.is_current = True
    assert not one.is_due_by_time
    coordinator.is_current = False
    one.save(10)
    assert not one.is_due_by_time
    now[0] += 4.9
    assert not one.is_due_by_time
    now[0] += 0.2
    assert one.is_due_by_time
    assert not saving.Saving(coordinator, Checkpoints("x", 1000, 0)).is_due_by_time


class _Failing:
    """A coordinator that goes back at the n-th try, and what the group says meanwhile."""

    commits = 0

    def __init__(self, tries: int, now: list[float]) -> None:
        self.left, self.polls, self._now = tries, 0, now

    def restart_from_commit(self, error: ConnectorError) -> None:
        self._now[0] += 50.0
        self.left -= 1
        if self.left:
            raise Aborted(f"try {self.left}")

    def poll(self, timeout: float) -> None:
        self.polls += 1
        raise Unavailable("nobody is there")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(again.time, "monotonic", lambda: now[0])
    return now


def test_what_is_aborted_is_done_again_until_it_is_committed(now: list[float]) -> None:
    failing: Any = _Failing(4, now)
    one = again.Restarts(failing, failing, lambda: False)
    one.restart(Aborted("first"))
    assert failing.polls == 3
    with pytest.raises(Aborted, match="second"):  # nothing was committed for 200 s
        one.restart(Aborted("second"))
    failing.commits, failing.left = 1, 1
    one.restart(Aborted("third"))


def test_a_run_that_is_stopped_does_nothing_again(now: list[float]) -> None:
    failing: Any = _Failing(1, now)
    with pytest.raises(Aborted, match="first"):
        again.Restarts(failing, failing, lambda: True).restart(Aborted("first"))
    assert failing.left == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"transactions": 10.0}, "needs a place for checkpoints"),
        ({"transactions": 10.0, "checkpoint": "x"}, "need a sink that can write in them"),
        ({"transactions": 0.0, "checkpoint": "x"}, r"at least 0\.1 and at most 60"),
        ({"transactions": 61, "checkpoint": "x"}, r"at least 0\.1 and at most 60"),
        ({"transactions": True, "checkpoint": "x"}, r"at least 0\.1 and at most 60"),
    ],
)
def test_options_that_cannot_be_followed(options: dict[str, Any], text: str) -> None:
    model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=64)
    with pytest.raises(InvalidInput, match=text):
        attached(MemorySource([{"x": 1.0}]), model, label="y", sink=MemorySink(), **options)
