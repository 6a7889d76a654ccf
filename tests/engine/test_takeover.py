"""Two consumers in one group on a real broker; one is killed, and another one comes back."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from crash_kit import (
    Job,
    MakeJob,
    Position,
    Process,
    every,
    fill,
    newest,
    output_topic,
    outputs,
    owns,
    positions,
    stream,
)
from crash_kit import make_job as make_job

from connectors.kafka import KafkaSource
from streamk.engine import Checkpoint, newest_checkpoint
from streamk.engine.recovery.group import Group, Owner, contents
from streamk.learners import from_state

WAYS = [("kafka-python", "classic"), ("confluent", "classic"), ("confluent", "consumer")]
"""Clients, and the protocols of groups that they know."""

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.parametrize(("kafka_client", "protocol"), WAYS, indirect=["kafka_client"]),
]


SHARES = (0.3, 0.3, 0.2, 0.2)
PART = 2000
"""Events that come at a time, when those who are to read them are there."""
LEARNED = 400
"""Predictions, two checkpoints' or more, that a member has written before it may be killed."""


@pytest.fixture
def job(make_job: MakeJob, protocol: str) -> Job:
    """One member of a group that shares a topic of four partitions."""
    options = {"checkpoint_every": 160, "idle_timeout": 0.1}
    one = make_job(4, protocol=protocol, session_timeout=3.0, options=options)
    return one.but(group=f"g-{one.topic}")


def more(job: Job, part: int) -> None:
    fill(job.address, job.topic, stream(PART, SHARES, seed=part, first=part * PART))


def last_word(job: Job) -> Checkpoint:
    """The checkpoint that member-1 has committed last."""
    with closing(KafkaSource((job.address,), job.topic, group=job.group)) as source:
        places = [source.committed(f"{job.topic}:{n}") for n in range(len(SHARES))]
    owners = [Owner.parse(metadata) for _, metadata in places]
    last = min(owner.epoch for owner in owners if owner.member == "member-1")
    slot = Path(job.directory) / "member-1"
    return newest_checkpoint(slot, lambda found: found.epoch <= last)


def taken(checkpoint: Checkpoint) -> list[Position]:
    return positions(checkpoint.body["feed"]["learned"])


def n_events(checkpoint: Checkpoint) -> int:
    """Events in a model, of whomever it was learned."""
    return from_state(checkpoint.model).n_events


def own(checkpoint: Checkpoint) -> int:
    """Events in a model that its own lineage has learned."""
    return contents(checkpoint.body, n_events(checkpoint))[checkpoint.body["lineage"]]


@contextmanager
def pair(job: Job, **of_second: Any) -> Iterator[tuple[Process, Process]]:
    """Two members that share the topic, when a second part has come."""
    more(job, 0)
    with job.start() as first:
        assert first.until(lambda p: len(p.owned) == 4 and p.written >= PART // 2)
        with job.but(**of_second).start() as second:
            assert second.until(owns(2))
            assert first.until(owns(2))
            more(job, 1)
            yield first, second


def ended(member: Process) -> dict[str, Any]:
    """The report of a member that leaves in order."""
    member.signal(signal.SIGTERM)
    return member.report()


def finished(job: Job) -> dict[str, Any]:
    """The report of one who learns what is left, when everything is predicted."""
    last = job.but(options={**job.options, "until_end": True}).run()
    assert last["stopped"] == "end"
    assert sorted(outputs(job.address, output_topic(job))) == every(job)
    return last


@pytest.mark.parametrize(
    "strike",
    [pytest.param("committed", marks=pytest.mark.nightly), "commit"],
    ids=["after-a-commit", "between-checkpoint-and-commit"],
)
def test_a_dead_member_is_taken_over(job: Job, strike: str) -> None:
    with pair(job, strike=(strike, 1), armed=LEARNED) as (first, second):
        assert second.wait() == -signal.SIGKILL
        dead = last_word(job)
        if strike == "commit":
            assert newest(job.directory, 1).epoch == dead.epoch + 1
        assert own(dead) == len(taken(dead)) > 0

        # The other one goes on at the committed offsets, with what the dead one knew. It has
        # nothing left to commit when the third one looks for a model to begin with.
        assert first.until(owns(4))
        more(job, 2)
        assert first.until_written(first.written + PART)
        successor = newest(job.directory, 0)
        assert successor.body["absorbed"] == [dead.body["lineage"]]
        assert n_events(successor) == len(taken(successor)) + len(taken(dead))
        assert not set(taken(successor)) & set(taken(dead))
        assert not successor.body["feed"]["lost"]

        # A third comes back into the dead one's place; what was absorbed stays absorbed.
        with job.start() as third:
            assert third.until(owns(2))
            assert first.until(owns(2))
            assert "member-1 was taken over by another member" in third.log
            more(job, 3)
            assert third.until_written(PART // 4)
            back = newest(job.directory, 1)
            assert back.body["lineage"] != dead.body["lineage"]
            assert own(back) == len(taken(back)) > 0
            assert n_events(back) > own(back)  # it began with a copy of the first one's model

            # The first one leaves in order: gone is gone, it is taken over as well.
            left = ended(first)
            assert left["stopped"] == "request"
            assert third.until(owns(4))
            right = ended(third)
        assert right["n_events"] == len(positions(right["learned"])) + left["n_events"]
        assert not right["lost"]

    # Whoever is last knows every event, each once.
    last = finished(job)
    assert (last["n_events"], last["lost"]) == (4 * PART, [])
    parts = [taken(dead), *(positions(one["learned"]) for one in (left, right, last))]
    assert sorted(place for part in parts for place in part) == every(job)


def test_what_cannot_be_taken_over_is_reported(job: Job) -> None:
    with pair(job, strike=("committed", 1), armed=LEARNED) as (first, second):
        assert second.wait() == -signal.SIGKILL
        # Its checkpoints go before the group finds out: sooner than any question to a broker.
        dead = newest(job.directory, 1)
        shutil.rmtree(dead.path.parent)
        assert first.until(owns(4))
        ended(first)
    last = finished(job)
    lost: dict[str, Any] = {one["partition"]: [] for one in last["lost"]}
    for one in last["lost"]:
        lost[one["partition"]].append([one["start"], one["stop"]])
        assert "learned by member-1" in one["reason"]
    # Lost is what the dead one had learned: neither less nor what others have learned too.
    assert positions(lost) == taken(dead)
    assert sorted(positions(last["learned"]) + taken(dead)) == every(job)
    assert last["n_events"] == 2 * PART - len(taken(dead))


def test_a_member_that_was_only_asleep_gives_up_what_it_had_not_committed(job: Job) -> None:
    """Stopped for longer than the group waits, then woken in the middle of its work."""
    with pair(job, pause=0.02) as (first, second):
        assert second.until_written(500)
        second.signal(signal.SIGSTOP)
        assert first.until(owns(4))
        more(job, 2)
        assert first.until_written(first.written + PART // 2)
        second.signal(signal.SIGCONT)
        assert first.until(owns(2))
        assert second.until(lambda p: "going back to the last committed" in p.log)
        more(job, 3)
        assert second.until_written(second.written + 320)
        left = ended(first)
        assert second.until(owns(4))
        right = ended(second)
    assert not left["lost"]
    assert right["n_events"] == len(positions(right["learned"])) + left["n_events"]
    last = finished(job)
    assert (last["n_events"], last["lost"]) == (4 * PART, [])


def last_words(job: Job) -> dict[str, list[Position]]:
    """Positions that the newest committed checkpoint of each slot has learned, by lineage."""
    with closing(KafkaSource((job.address,), job.topic, group=job.group)) as source:
        agrees = Group(source, None, 0).agrees
        found = [newest_checkpoint(slot, agrees) for slot in Path(job.directory).glob("member-*")]
    return {one.body["lineage"]: taken(one) for one in found if one is not None}


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_twenty_kills_of_three_members(job: Job) -> None:
    """Each is killed in turn at a random moment, and comes back once the others have moved on."""
    rng, learned, kills = random.Random(7), dict[str, list[Position]](), 20
    job = job.but(pause=0.002)
    more(job, 0)
    with ExitStack() as stack:
        members = [stack.enter_context(job.start()) for _ in range(3)]
        for member in members:
            assert member.until(lambda p: 1 <= len(p.owned) <= 2)
        for kill in range(kills):
            more(job, kill + 1)
            victim = members[kill % 3]
            assert victim.until_written(victim.written + 100)
            time.sleep(rng.random())
            victim.kill()
            learned |= last_words(job)
            if rng.random() < 0.5:  # half of the time it is back before the group misses it
                time.sleep(job.session_timeout + 2.0)
                learned |= last_words(job)
            members[kill % 3] = stack.enter_context(job.start())
            assert members[kill % 3].until(lambda p: len(p.owned) >= 1)
        for member in members:
            assert ended(member)["lost"] == []
            learned |= last_words(job)
    last = finished(job)
    learned |= last_words(job)
    assert (last["n_events"], last["lost"]) == ((kills + 1) * PART, [])
    assert sorted(place for places in learned.values() for place in places) == every(job)
