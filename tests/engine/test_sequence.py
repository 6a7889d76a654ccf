"""The order of events is a property of the log, not of the polls that read it.

One record from a machine whose time is wrong does not move the clock of its partition.
"""

from __future__ import annotations

import json
import logging
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import events, run
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.clocks import NaiveClock

from connectors.base import Chunk, Rows
from connectors.memory import MemorySource
from streamk.cli import main
from streamk.cli.report import as_json, as_text
from streamk.engine.order.partitions import Batch
from streamk.engine.order.sequence import Pass, Sequencer
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.memory.clock import NEVER, UNBOUNDED, Clock

MINUTE = 60_000
Log = dict[str, list[tuple[int, int]]]  # partition -> [(offset, timestamp), ...]
Place = tuple[str, int]

# How long an example takes depends on what else the machine does.
unhurried = settings(deadline=None, max_examples=120)
whims = st.integers(0, 2**32).map(random.Random)
"""What arrives when; drawn as one number, so that an example costs one draw, not hundreds."""


def some_times(whim: random.Random) -> list[int]:
    """Timestamps of stretches of all sorts: dense, sparse, late, far ahead, in bursts."""
    now, found = whim.choice([0, 0, whim.randrange(100_000)]), []
    for _ in range(whim.randrange(1, 7)):
        gap = whim.choice([0, 1, 10, 900, 1100, 5000])
        now += whim.choice([0, 0, 10**6])
        wrong = whim.choice([0.0, 0.02, 0.3, 0.9])
        for _ in range(whim.randrange(1, 60)):
            now += whim.choice([gap, whim.randrange(gap + 1)])
            ahead = whim.choice([1000, 1001, -5000, 50_000, 10**15, whim.randrange(3000)])
            found.append(now + ahead * (whim.random() < wrong))
    return found


def naive(times: list[int], skew: int) -> tuple[list[int], NaiveClock]:
    clock = NaiveClock(skew)
    clocks = [clock.record(time) for time in times]
    return [NEVER if now is None else now for now in clocks], clock


def clocks_of(times: list[int], skew: int = MINUTE) -> tuple[list[int], Clock]:
    after, found = Clock().advance(np.array(times), skew)
    assert (found.tolist(), after.skewed) == (naive(times, skew)[0], naive(times, skew)[1].skewed)
    return found.tolist(), after


# --- the clock --------------------------------------------------------------------------------


@settings(unhurried, max_examples=300)
@given(whims)
def test_chunks_of_any_size_give_the_clocks_of_the_rule(whim: random.Random) -> None:
    times, skew = some_times(whim), whim.choice([0, 1000, 10**7])
    clock, found, at = Clock(), [], 0
    while at < len(times):
        size = whim.choice([1, 3, 16, 40, 1000])
        clock, some = clock.advance(np.array(times[at : at + size]), skew)
        found += some.tolist()
        at += size
        clock = Clock.from_json(json.loads(json.dumps(clock.to_json())))
    expected, last = naive(times, skew)
    assert found == expected
    assert (clock.moves, clock.beyond) == (tuple(last.moves[-16:]), tuple(last.beyond))
    assert clock.skewed == last.skewed


@unhurried
@given(whims)
def test_the_clock_is_never_before_the_smallest_of_the_last_16(whim: random.Random) -> None:
    times = [time for time in some_times(whim) if time < 10**15]
    found, _ = clocks_of(times, 1000) if times else ([], None)
    for i in range(15, len(found)):
        assert found[i] >= min(times[i - 15 : i + 1])


@pytest.mark.parametrize("gap", [2 * MINUTE, 5 * MINUTE, 24 * 60 * MINUTE])
def test_a_sparse_partition_keeps_its_pace(gap: int) -> None:
    times = [i * gap for i in range(200)]
    found, after = clocks_of(times)
    assert found[:16] == [0] * 16
    assert found[16:] == times[16:]
    assert after.skewed == 15


def test_a_record_at_the_bound_moves_the_clock_and_one_past_it_does_not() -> None:
    found, after = clocks_of([0, MINUTE, 2 * MINUTE + 1])
    assert found == [0, MINUTE, MINUTE]
    assert after.skewed == 1
    assert clocks_of([0, MINUTE + 1, 1], skew=MINUTE)[0] == [0, 0, 1]


def test_fifteen_records_ahead_are_not_believed_and_sixteen_are() -> None:
    ahead = [50 * MINUTE + i for i in range(16)]
    assert clocks_of([0, *ahead[:15], 5, *ahead[:15]])[0][-1] == 5
    found, after = clocks_of([0, *ahead])
    assert found == [0] * 16 + [ahead[-1]]
    assert after.skewed == 15


def test_after_a_night_the_first_fifteen_records_stand_at_its_beginning() -> None:
    evening, morning = list(range(1000)), [8 * 60 * MINUTE + i for i in range(1000)]
    found, _ = clocks_of(evening + morning)
    assert found[:1000] == evening
    assert found[1000:1015] == [999] * 15
    assert found[1015:] == morning[15:]
    # The night is no pace: a record far ahead just after it is not believed.
    found, _ = clocks_of([*evening, *morning[:20], morning[0] + 50 * MINUTE, *morning[20:]])
    assert found[-1] == morning[-1]


def test_a_pass_is_no_move_and_lets_go_what_it_reaches() -> None:
    clock, _ = Clock().advance(np.array([0, 1, 10 * MINUTE, 90 * MINUTE]), MINUTE)
    raised = clock.raised(9 * MINUTE, MINUTE)
    assert (raised.time, raised.moves) == (9 * MINUTE, clock.moves)
    assert raised.beyond == (90 * MINUTE,)
    assert raised.raised(5, MINUTE) is raised


def test_timestamps_that_would_overflow_are_ordered_all_the_same() -> None:
    lowest = NEVER + 1
    assert clocks_of([lowest, 0, 5, 6], skew=1000)[0] == [lowest] * 4
    assert clocks_of([lowest, *range(20)], skew=1000)[0][-1] == 19
    assert clocks_of([2**63 - 1, 3, 2**63 - 1, 4])[0] == [NEVER, 3, 3, 4]


# --- the order --------------------------------------------------------------------------------


def some_log(whim: random.Random) -> Log:
    """Partitions, some of them empty, whose offsets have gaps."""
    log: Log = {}
    for name in whim.sample("abcde", whim.randrange(1, 5)):
        at, log[name] = -1, []
        for time in some_times(whim) if whim.random() < 0.9 else ():
            at += whim.choice([1, 1, 1, 3])
            log[name].append((at, time))
    return log


def oracle(log: Log, skew: int, passes: list[Pass] | None = None) -> list[Place]:
    """Sort by (clock, partition, offset)."""
    keyed = []
    for partition, some in log.items():
        clock = NaiveClock(skew)
        for offset, time in some:
            for one in sorted(passes or [], key=lambda one: one.offset):
                if one.partition == partition and one.offset <= offset:
                    clock.passed(one.clock)
            now = clock.record(time)
            keyed.append((-math.inf if now is None else now, partition, offset))
    return [(partition, offset) for _, partition, offset in sorted(keyed)]


def chunk(partition: str, some: list[tuple[int, int]]) -> Chunk:
    offsets, times = zip(*some, strict=True)
    values = [f"{partition}:{offset}".encode() for offset in offsets]
    return Chunk(partition, np.array(offsets), np.array(times), values, list(values))


def places(batch: Batch) -> list[Place]:
    found = [batch.position(i) for i in range(len(batch))]
    names = [f"{partition}:{offset}".encode() for partition, offset in found]
    assert list(batch.values) == batch.keys == names  # these move with their positions
    return found


def start(log: Log, skew: int = UNBOUNDED, *, bounded: bool = True) -> Sequencer:
    sequencer = Sequencer(skew)
    for partition, some in log.items():
        end = some[-1][0] + 1 if some else 0
        sequencer.assign(partition, 0, end=end if bounded else None)
    return sequencer


def add_some(sequencer: Sequencer, log: Log, whim: random.Random) -> bool:
    """Add the next few events of some partition; False where all have been added."""
    left = {
        name: [one for one in log[name] if one[0] >= sequencer.next_offset(name)]
        for name in sequencer.partitions
    }
    names = sorted(name for name, some in left.items() if some)
    if names:
        name = whim.choice(names)
        sequencer.add(chunk(name, left[name][: whim.choice([1, 5, 50, 400])]))
    return bool(names)


@unhurried
@given(whims)
def test_any_arrival_and_restarts_at_any_point_give_the_sorted_order(whim: random.Random) -> None:
    log, skew, got = some_log(whim), whim.choice([0, 1000, UNBOUNDED]), list[Place]()
    sequencer, expected = start(log, skew), oracle(log, skew)
    while not sequencer.exhausted:
        match whim.choice(["add", "add", "take", "take", "restart", "drop", "reassign", "cut"]):
            case "add":
                add_some(sequencer, log, whim)
            case "take" if sequencer.ready:
                got += places(sequencer.take(whim.randrange(1, 100)))
                assert got == expected[: len(got)]
            case "restart":
                saved = json.loads(json.dumps(sequencer.to_json()))
                sequencer = Sequencer.from_json(saved, skew)
                assert sequencer.to_json() == saved
            case "drop":
                sequencer.drop(())
            case "reassign":
                name = whim.choice(sorted(log))
                place = sequencer.to_json()["partitions"][name]
                sequencer.drop([name])
                clock = Clock.from_json(place)
                sequencer.assign(name, place["offset"], clock=clock, end=place["end"])
            case "cut":
                for name in sequencer.partitions:
                    cut = sequencer.cut_tail(name, 1)
                    assert cut is None or cut == sequencer.next_offset(name)
    assert got == expected
    assert sequencer.events == len(got)
    assert sequencer.buffered == sequencer.buffered_bytes == 0
    clocks = {name: naive([time for _, time in some], skew)[1] for name, some in log.items()}
    skewed = {name: one.skewed for name, one in clocks.items() if one.skewed}
    assert sequencer.skewed() == (skewed if len(log) > 1 else {}), "of one none is too far ahead"


@unhurried
@given(whims)
def test_the_journal_of_passes_reproduces_the_order(whim: random.Random) -> None:
    log, skew = some_log(whim), whim.choice([1000, UNBOUNDED])
    live = start(log, skew, bounded=False)
    journal, got = list[Pass](), list[Place]()
    saved = [(live.to_json(), 0)]
    while True:
        silent = live.waiting_for()
        if silent and whim.random() < 0.5:
            journal += live.pass_over(silent, whim.choice([1, 1000]))
            assert all(live.silent(partition) for partition in silent)
            assert live.ready, "the oldest that has come was let go"
        elif not add_some(live, log, whim):
            break
        if whim.random() < 0.2:
            live.drop(())
        while live.ready and whim.random() < 0.8:
            got += places(live.take(whim.randrange(1, 60)))
            saved.append((live.to_json(), len(got)))

    def rest(sequencer: Sequencer) -> list[Place]:
        sequencer.finish()
        found = list[Place]()
        while sequencer.ready:
            found += places(sequencer.take(60))
        return found

    got += rest(live)
    assert got == oracle(log, skew, journal)
    state, known = whim.choice(saved)
    again = Sequencer.from_json(json.loads(json.dumps(state)), skew)
    again.replay(journal)
    while add_some(again, log, whim):
        pass
    assert rest(again) == got[known:]


def test_a_replayed_pass_does_not_wait() -> None:
    sequencer = Sequencer()
    sequencer.assign("a", 0)
    sequencer.assign("b", 0)
    sequencer.replay([Pass("b", 0, 100)])
    sequencer.add(chunk("a", [(0, 50), (1, 99), (2, 101)]))
    assert places(sequencer.take(sequencer.ready)) == [("a", 0), ("a", 1)]
    assert sequencer.waiting_for() == ("b",)
    sequencer.add(chunk("b", [(0, 60)]))
    assert sequencer.ready == 1
    assert places(sequencer.take(1)) == [("b", 0)]


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
    with pytest.raises(EngineError, match="already being read"):
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


PLACE = {"offset": 0, "clock": 1, "moves": 3, "end": None, "passes": []}


@pytest.mark.parametrize(
    "broken",
    [
        *({}, {"events": 1}, {"partitions": {"a": {}}, "events": 0}),
        *(
            {"partitions": [], "events": 0},
            {"events": 0, "clock": None, "partitions": {"a": PLACE}},
        ),
    ],
)
def test_a_broken_state_is_explained(broken: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="sequence"):
        Sequencer.from_json(broken)


# --- the engine -------------------------------------------------------------------------------

N = 400
WRONG = {
    name: [10 * i + 50 * MINUTE * (name + str(i) == "b100") for i in range(N)] for name in "abc"
}
"""Times of three partitions of the same pace; one record of b is 50 minutes ahead."""


def three_partitions() -> dict[str, Any]:
    return {name: events(N, seed=ord(name)) for name in "abc"}


@pytest.mark.parametrize("skew", [60.0, math.inf])
def test_a_record_50_minutes_ahead_holds_its_partition_only_without_a_bound(
    skew: float, caplog: pytest.LogCaptureFixture
) -> None:
    source = MemorySource({name: [] for name in "abc"}, live=True)
    for name, some in three_partitions().items():
        source.extend(name, some, timestamps=WRONG[name])
    with caplog.at_level(logging.WARNING, "streamk.engine"):
        # All of it is there, and none of the partitions has ended.
        report = run(source, max_skew=skew, max_events=3 * N - 310, idle_timeout=30)
    taken = {name: ranges[-1][1] for name, ranges in report.learned.items()}
    told = [record.message for record in caplog.records if "--max-skew" in record.message]
    if skew == math.inf:
        assert taken["b"] == 100
        assert (report.skewed, told) == ({}, [])
    else:
        assert max(taken.values()) - min(taken.values()) <= 1
        assert report.skewed == as_json(report)["skewed"] == {"b": 1}
        [line] = told
        assert line.startswith("partition b: the timestamp of offset 100 is 3000 s later")
        assert "1 of b: timestamps too far ahead" in as_text(report)


def test_a_checkpoint_belongs_to_its_bound(tmp_path: Path) -> None:
    def source() -> MemorySource:
        return MemorySource(three_partitions(), timestamps=WRONG)

    run(source(), checkpoint=tmp_path, max_events=N)
    with pytest.raises(StateError, match=r"made with max_skew=60.0, but this run has None"):
        run(source(), checkpoint=tmp_path, max_skew=math.inf)


def test_the_command_takes_a_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "events.ndjson").write_text("".join(json.dumps(e) + "\n" for e in events(50)))
    command = ["run", f"file:{tmp_path}/events.ndjson", "--label", "y", "--json", "--quiet"]
    assert main([*command, "--max-skew", "inf"]) == 0
    assert json.loads(capsys.readouterr().out)["skewed"] == {}
    assert main([*command, "--max-skew", "-1"]) == 2
    assert "a time span cannot be negative" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [-1, math.nan, "60"])
def test_the_bound_is_checked(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"max_skew=.* must be a number of seconds"):
        run(MemorySource(events(10)), max_skew=wrong)
