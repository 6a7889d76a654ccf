"""The order of events is a property of the log, not of the polls that read it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import Chunk, Rows
from streamk.engine.order.partitions import Batch
from streamk.engine.order.sequence import IdleAdvance, Sequencer
from streamk.errors import EngineError, StateError

Log = dict[str, list[tuple[int, int]]]  # partition -> [(offset, timestamp), ...]
Place = tuple[str, int]


def oracle(log: Log, passes: Sequence[IdleAdvance] = ()) -> list[Place]:
    """Sort by (running maximum of the partition's timestamps, partition, offset)."""
    keyed = []
    for partition, events in log.items():
        clock = -(10**18)
        for offset, timestamp in events:
            reached = [p.clock for p in passes if p.partition == partition and p.offset <= offset]
            clock = max([clock, timestamp, *reached])
            keyed.append((clock, partition, offset))
    return [(partition, offset) for _, partition, offset in sorted(keyed)]


def chunk(partition: str, events: list[tuple[int, int]]) -> Chunk:
    offsets, times = zip(*events, strict=True)
    values = [f"{partition}:{offset}".encode() for offset in offsets]
    return Chunk(partition, np.array(offsets), np.array(times), values, list(values))


def places(batch: Batch) -> list[Place]:
    found = [batch.position(i) for i in range(len(batch))]
    names = [f"{partition}:{offset}".encode() for partition, offset in found]
    assert list(batch.values) == names  # values and keys move with their positions
    assert batch.keys == names
    return found


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log: Log = {}
    for partition in draw(st.sets(st.sampled_from("abcde"), min_size=1)):
        gaps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12)), max_size=12))
        offsets = itertools.accumulate(gap for gap, _ in gaps)
        log[partition] = [(o, t) for o, (_, t) in zip(offsets, gaps, strict=True)]
    return log


def start(log: Log, *, bounded: bool = True) -> Sequencer:
    sequencer = Sequencer()
    for partition, events in log.items():
        end = (events[-1][0] + 1 if events else 0) if bounded else None
        sequencer.assign(partition, 0, end=end)
    return sequencer


whims = st.integers(0, 2**32).map(random.Random)
"""What arrives when; drawn as one number, so that an example costs one draw, not hundreds."""

# How long an example takes depends on what else the machine does.
unhurried = settings(deadline=None)


def feed(sequencer: Sequencer, log: Log, whim: random.Random) -> str | None:
    """Add the next few events of some partition; None when all have been added."""
    left = {}
    for partition in sequencer.partitions:
        at = sequencer.next_offset(partition)
        left[partition] = [event for event in log[partition] if event[0] >= at]
    open_ones = sorted(partition for partition, events in left.items() if events)
    if not open_ones:
        return None
    partition = whim.choice(open_ones)
    n = whim.randint(1, len(left[partition]))
    sequencer.add(chunk(partition, left[partition][:n]))
    return partition


@unhurried
@given(logs(), st.integers(1, 5), whims)
def test_any_arrival_gives_the_sorted_order(log: Log, size: int, whim: random.Random) -> None:
    sequencer = start(log)
    got: list[Place] = []
    while feed(sequencer, log, whim):
        while sequencer.ready >= size:
            got += places(sequencer.take(size))
            assert got == oracle(log)[: len(got)]
    while sequencer.ready:
        got += places(sequencer.take(size))
    assert got == oracle(log)
    assert sequencer.exhausted
    assert sequencer.events == len(got)
    assert sequencer.buffered == sequencer.buffered_bytes == 0


def test_a_replayed_pass_does_not_wait() -> None:
    sequencer = Sequencer()
    sequencer.assign("a", 0)
    sequencer.assign("b", 0)
    sequencer.replay([IdleAdvance("b", 0, 100)])
    sequencer.add(chunk("a", [(0, 50), (1, 99), (2, 101)]))
    assert places(sequencer.take(sequencer.ready)) == [("a", 0), ("a", 1)]
    assert sequencer.waiting_for() == ("b",)
    sequencer.add(chunk("b", [(0, 60)]))
    assert sequencer.ready == 1
    assert places(sequencer.take(1)) == [("b", 0)]


@pytest.mark.parametrize("wrong", [1_795_000_000_000_000, 2**63 - 1])
def test_a_timestamp_in_another_unit_starves_nobody(wrong: int) -> None:
    log = {"a": [(0, 1), (1, wrong), (2, 3), (3, 5)], "b": [(0, 2), (1, 4), (2, 6)]}
    sequencer = start(log)
    for partition, events in log.items():
        sequencer.add(chunk(partition, events))
    expected = [("a", 0), ("a", 1), ("b", 0), ("a", 2), ("b", 1), ("a", 3), ("b", 2)]
    assert places(sequencer.take(sequencer.ready)) == expected


def test_events_past_a_known_end_are_left_out() -> None:
    sequencer = Sequencer()
    sequencer.assign("a", 0, end=2)
    sequencer.assign("empty", 7, end=7)
    assert sequencer.unfinished == ("a",)
    sequencer.add(chunk("a", [(0, 1), (1, 1), (2, 1), (3, 1)]))
    assert sequencer.ready == 2
    sequencer.take(2)
    assert sequencer.exhausted
    assert sequencer.offsets == {"a": 2, "empty": 7}


def test_a_new_partition_goes_behind_what_was_taken() -> None:
    sequencer = Sequencer()
    sequencer.assign("b", 0)
    sequencer.add(chunk("b", [(0, 50)]))
    sequencer.take(1)
    sequencer.assign("a", 5, clock=sequencer.clock)
    sequencer.add(chunk("a", [(5, 10)]))
    assert places(sequencer.take(1)) == [("a", 5)]
    assert sequencer.clock == 50
    with pytest.raises(EngineError, match="read already"):
        sequencer.assign("a", 0)


@pytest.mark.parametrize(("times", "expected"), [([5, 5], "bba"), ([], "a")])
def test_a_partition_that_the_source_gets_later_goes_behind_all(
    times: list[int], expected: str
) -> None:
    sequencer = Sequencer()
    sequencer.assign("b", 0, end=len(times))
    if times:
        sequencer.add(chunk("b", list(enumerate(times))))
    passes = sequencer.behind_all({"a": 0})
    sequencer.assign("a", 0, end=1)
    sequencer.replay(passes)
    sequencer.add(chunk("a", [(0, 5)]))
    assert "".join(name for name, _ in places(sequencer.take(9))) == expected
    assert sequencer.clock == (6 if times else 5)


def test_a_hole_in_the_log_is_skipped() -> None:
    sequencer = Sequencer()
    sequencer.assign("a", 0)
    sequencer.add(chunk("a", [(0, 1)]))
    sequencer.jump("a", 10)
    assert sequencer.offsets == {"a": 0}
    assert sequencer.next_offset("a") == 10
    sequencer.take(1)
    assert sequencer.offsets == {"a": 10}


def test_arrays_keep_their_type_through_a_merge() -> None:
    sequencer = Sequencer()
    sequencer.assign("a", 0)
    sequencer.assign("b", 0)
    for partition, times in (("a", [1, 3]), ("b", [2, 4])):
        x = np.array(times, dtype=np.float32)[:, None]
        for y in (np.array(times),):
            sequencer.add(Chunk(partition, np.arange(2), np.array(times), Rows(x, y)))
    sequencer.finish()
    batch = sequencer.take(4)
    assert isinstance(batch.values, Rows)
    assert batch.values.X[:, 0].tolist() == [1, 2, 3, 4]
    assert list(batch.values.y) == [1, 2, 3, 4]
    assert batch.keys is None


@pytest.mark.parametrize(
    "broken",
    [{}, {"events": 1}, {"partitions": {"a": {}}, "events": 0}, {"partitions": [], "events": 0}],
)
def test_a_broken_state_is_explained(broken: dict[str, object]) -> None:
    with pytest.raises(StateError, match="sequence"):
        Sequencer.from_json(broken)
