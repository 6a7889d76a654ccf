"""Members of one group: partitions move, members die and come back, every event counts once."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import BATCH, attached, learner, same_model, split

from connectors.base import AssignedCallback, Chunk, RevokedCallback
from connectors.errors import ConnectorError, Revoked
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink
from streamk.contest import Contest
from streamk.engine import Report, newest_checkpoint, saving
from streamk.engine.checkpoints import directory_store
from streamk.engine.checkpoints.files import lock
from streamk.engine.recovery.group import Owner, contents
from streamk.errors import EngineError
from streamk.learners import EntityMemory, Scaled, from_state
from streamk.memory import entity_number

N = 400
DATA, TIMES = split(N, 4)
ALL = tuple(DATA)


class Killed(Exception):
    pass


class Member(MemorySource):
    """A member of a group; what happens to it is scripted by the number of the poll."""

    def __init__(
        self,
        group: dict[str, tuple[int, str]],
        first: tuple[str, ...],
        script: Mapping[int, Callable[[Member], None]],
        data: Any = None,
    ) -> None:
        super().__init__(data or DATA, timestamps=TIMES)
        self.commits = group
        self.mine: tuple[str, ...] = ()
        self.group = "g"
        self.script = {1: lambda member: member.rebalance(first), **script}
        self.polls = 0
        self.fenced = False
        self.calls: list[str] = []

    def set_rebalance(self, on_revoked: RevokedCallback, on_assigned: AssignedCallback) -> None:
        self.on_revoked, self.on_assigned = on_revoked, on_assigned

    def rebalance(self, partitions: tuple[str, ...]) -> None:
        if self.mine:
            self.on_revoked(self.mine)
        self.mine, self.fenced = partitions, False
        self._next = {p: self.commits.get(p, (0, ""))[0] for p in ALL}
        self.on_assigned(partitions)

    def partitions(self) -> tuple[str, ...]:
        return self.mine

    def every(self) -> tuple[str, ...]:
        return tuple(self._values)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        self.polls += 1
        if self.polls in self.script:
            self.script[self.polls](self)
        chunks = []
        for name in self.mine:
            n = min(10, len(self._values[name]) - self._next[name])
            if n:
                chunks.append(self._take(name, n))
        return chunks

    def lag(self) -> int:
        return sum(len(self._values[name]) - self._next[name] for name in self.mine)

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        if self.fenced:
            raise ConnectorError("the group has given the partitions away")
        assert set(offsets) <= set(self.mine)
        super().commit(offsets, metadata)

    def finished(self) -> bool:
        return bool(self.mine) and self.lag() == 0


def run(
    directory: Path,
    group: dict[str, tuple[int, str]],
    first: tuple[str, ...],
    script: Mapping[int, Callable[[Member], None]] | None = None,
    *,
    data: Any = None,
    kind: type[Member] = Member,
    **options: Any,
) -> Report:
    source = kind(group, first, script or {}, data)
    model = options.pop("model", None) or learner()
    options = {"label": "y", "ignore": ("id",), **options}
    options = {"checkpoint": directory, "checkpoint_every": 2 * BATCH, **options}
    return attached(source, model, **options).run()


def dies(_: Member) -> None:
    raise Killed


def run_and_die(directory: Path, group: Any, first: tuple[str, ...], **options: Any) -> None:
    with pytest.raises(Killed):
        run(directory, group, first, {5: dies}, **options)


Change = Callable[[Path], None]


def heir(directory: Path, between: Change = lambda _: None, **options: Any) -> Report:
    """The report of a member that gets the partitions of another, which has died.

    What is done `between` is given the directory; options of the dead one alone begin with "dead_".
    """
    group: dict[str, tuple[int, str]] = {}
    dead = {name.removeprefix("dead_"): options.pop(name) for name in [*options] if "dead_" in name}

    def other_lives_and_dies(member: Member) -> None:
        run_and_die(directory, group, ALL[2:], **{**options, **dead})
        between(directory / "member-1")
        member.rebalance(ALL)

    return run(directory, group, ALL[:2], {4: other_lives_and_dies}, **options)


def learned(directory: Path, member: str) -> int:
    """Events in a member's last checkpoint that it has learned itself."""
    found = newest_checkpoint(directory / member)
    return contents(found.body, from_state(found.model).n_events)[found.body["lineage"]]


def test_a_dead_member_is_merged_into_its_heir(tmp_path: Path) -> None:
    report = heir(tmp_path)
    known = learned(tmp_path, "member-1")
    assert 0 < known < sum(len(DATA[name]) for name in ALL[2:])
    assert report.model.n_events == N
    assert report.counts.learned == N - known
    assert not report.lost
    found, other = (newest_checkpoint(tmp_path / f"member-{n}") for n in range(2))
    assert found.body["absorbed"] == [other.body["lineage"]]


def test_what_the_heir_learns_is_the_weighted_mean(tmp_path: Path) -> None:
    """A new member that takes over has the dead one's model, exactly."""
    group: dict[str, tuple[int, str]] = {}
    run_and_die(tmp_path, group, ALL)
    held = lock(tmp_path / "member-0")  # somebody else is in that slot now
    found = newest_checkpoint(tmp_path / "member-0")
    before = type(learner()).from_state(found.model)

    def freed(member: Member) -> None:
        os.close(held)
        member.rebalance(ALL)

    with pytest.raises(Killed):
        run(tmp_path, group, (), {2: freed, 3: dies})
    successor = newest_checkpoint(tmp_path / "member-1")
    merged = type(learner()).from_state(successor.model)
    X = np.random.default_rng(0).normal(size=(50, len(before.columns or ())))
    np.testing.assert_array_equal(merged.decision_many(X), before.decision_many(X))
    assert merged.n_events == before.n_events


def test_challengers_of_a_dead_member_are_merged_by_their_names(tmp_path: Path) -> None:
    def several(*names: str) -> Contest:
        return Contest({name: Scaled(learner(regularization=0.1 * len(name))) for name in names})

    report = heir(tmp_path, model=several("a", "bb", "ccc"), dead_model=several("a", "bb"))
    known = learned(tmp_path, "member-1")
    assert not report.lost
    assert 0 < known < N
    assert report.model.n_events == N
    events = {name: each.n_events for name, each in report.model.models.items()}
    assert events == {"a": N, "bb": N, "ccc": N - known}


def test_what_a_dead_member_knew_of_entities_its_heir_knows(tmp_path: Path) -> None:
    """Of one that both knew what the one knew that had seen more of it."""

    def remembering() -> EntityMemory:
        return EntityMemory(Scaled(learner()), entities=["c@entity"])

    report = heir(tmp_path, model=remembering(), dead_model=remembering(), entity=("c",))
    assert not report.lost
    assert report.model.n_events == N
    (table,) = report.model.tables
    rows = [table.row(entity_number(name)) for name in "xyz"]
    assert N - learned(tmp_path, "member-1") <= sum(row["count"] for row in rows) <= N


def test_the_slot_is_free_when_the_group_is_left(tmp_path: Path) -> None:
    """The successor may look at once, and must find that nobody is there."""
    free: list[bool] = []

    class Leaving(Member):
        def close(self) -> None:
            held = lock(tmp_path / "member-0")
            free.append(held is not None)
            if held is not None:
                os.close(held)

    run(tmp_path, {}, ALL, kind=Leaving)
    assert free == [True]


def test_a_revoked_batch_is_read_again(tmp_path: Path) -> None:
    """The same partitions come back: the model is that of an undisturbed run."""
    group: dict[str, tuple[int, str]] = {}
    sink = MemorySink()
    script = {k: lambda member: member.rebalance(ALL) for k in (3, 4, 7)}
    report = run(tmp_path, group, ALL, script, sink=sink)
    plain = run(tmp_path / "plain", {}, ALL)
    assert same_model(report.model, plain.model)
    assert report.whole == plain.whole
    positions = [(output.partition, output.offset) for output in sink.outputs]
    assert len(positions) == len(set(positions)) == N


def test_what_was_not_committed_is_unlearned(tmp_path: Path) -> None:
    """Fenced off: the next owner will learn it, so this member must not have."""
    group: dict[str, tuple[int, str]] = {}

    def fenced(member: Member) -> None:
        member.fenced = True
        member.rebalance(ALL)

    report = run(tmp_path, group, ALL, {6: fenced}, checkpoint_every=10 * BATCH)
    plain = run(tmp_path / "plain", {}, ALL)
    assert report.counts.learned == N
    assert same_model(report.model, plain.model)


class Refused(Member):
    """A member whose commits the group refuses as it does where it has moved on."""

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        if self.fenced:
            raise Revoked("the group has given the partitions away")
        super().commit(offsets, metadata)


def test_a_sink_that_cannot_go_back_at_once_goes_back_later(tmp_path: Path) -> None:
    class Sink(MemorySink):
        away = False

        def rewind(self, mark: Any) -> None:
            if self.away:
                self.away = False
                raise ConnectorError("no broker answers")
            super().rewind(mark)

    sink = Sink()

    def fenced(member: Member) -> None:
        member.fenced = sink.away = True
        member.rebalance(ALL)

    run(tmp_path, {}, ALL, {6: fenced}, kind=Refused, checkpoint_every=10 * BATCH, sink=sink)
    positions = [(output.partition, output.offset) for output in sink.outputs]
    assert len(positions) == len(set(positions)) == N


class Disk:
    """A disk that is full for the next writes of checkpoints."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._write, self.refused = directory_store.write_file, 0
        patched.setattr(directory_store, "write_file", self.write)

    def write(self, path: Path, data: Any) -> None:
        if self.refused > 0:
            self.refused -= 1
            raise OSError(28, "No space left on device")
        self._write(path, data)

    def rebalances(self, partitions: tuple[str, ...], refused: int) -> Callable[[Member], None]:
        def change(member: Member) -> None:
            self.refused = refused
            member.rebalance(partitions)

        return change


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_rebalance_while_the_disk_is_full_costs_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refused: int,
) -> None:
    """Learned events that cannot be saved are learned again by whoever gets their partitions."""
    monkeypatch.setattr(saving, "_REST", 0.0)
    script = {6: Disk(monkeypatch).rebalances(ALL, refused)}
    sink = MemorySink()
    report = run(tmp_path, {}, ALL, script, checkpoint_every=10 * BATCH, sink=sink)
    plain = run(tmp_path / "plain", {}, ALL)
    assert report.counts == plain.counts
    assert report.learned == plain.learned
    assert same_model(report.model, plain.model)
    positions = [(output.partition, output.offset) for output in sink.outputs]
    assert len(positions) == len(set(positions)) == N
    (told,) = [text for text in caplog.messages if text.startswith("going back to the last ")]
    assert "No space left on device" in told


@pytest.mark.parametrize("refused", [2, 4])
def test_a_takeover_while_the_disk_is_full_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """Neither is the dead member merged twice, nor are partitions read before they are saved."""
    monkeypatch.setattr(saving, "_REST", 0.0)
    disk = Disk(monkeypatch)
    report = heir(tmp_path, lambda _: setattr(disk, "refused", refused))
    assert report.model.n_events == N
    assert not report.lost
    assert report.counts.learned == N - learned(tmp_path, "member-1")


def test_a_takeover_that_could_not_be_saved_is_undone_before_the_dead_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_REST", 0.0)
    disk, group = Disk(monkeypatch), dict[str, tuple[int, str]]()

    def dies_and_is_taken_over(member: Member) -> None:
        run_and_die(tmp_path, group, ALL[2:])
        disk.refused = 3  # what it gives up, what it gets, and the same once more
        member.rebalance(ALL)

    def comes_back(member: Member) -> None:
        assert not disk.refused
        member.rebalance(ALL[:2])
        run(tmp_path, group, ALL[2:])

    run(tmp_path, group, ALL[:2], {4: dies_and_is_taken_over, 5: comes_back})
    for member, mine in (("member-0", ALL[:2]), ("member-1", ALL[2:])):
        assert learned(tmp_path, member) == sum(len(DATA[name]) for name in mine)
        assert newest_checkpoint(tmp_path / member).body["absorbed"] == []


def test_one_that_was_taken_over_never_goes_back_to_what_it_had_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a checkpoint of its own before it gets partitions, and goes back to that one."""
    monkeypatch.setattr(saving, "_REST", 0.0)
    disk, group = Disk(monkeypatch), dict[str, tuple[int, str]]()

    def lineage(member: str) -> str:
        return str(newest_checkpoint(tmp_path / member).body["lineage"])

    def dies_and_is_taken_over(member: Member) -> None:
        run_and_die(tmp_path, group, ALL[2:])
        member.rebalance(ALL)

    def comes_back(member: Member) -> None:
        dead = lineage("member-1")
        member.rebalance(ALL[:2])
        run(tmp_path, group, (), {2: disk.rebalances(ALL[2:], 1)})
        assert lineage("member-1") != dead
        assert dead in newest_checkpoint(tmp_path / "member-0").body["absorbed"]

    run(tmp_path, group, ALL[:2], {4: dies_and_is_taken_over, 5: comes_back})


def test_without_grace_a_full_disk_ends_the_run_in_a_rebalance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = {6: Disk(monkeypatch).rebalances(ALL, 1)}
    with pytest.raises(EngineError, match="No space left on device"):
        run(tmp_path, {}, ALL, script, checkpoint_every=10 * BATCH, checkpoint_grace=0)
    report = run(tmp_path, {}, ALL)
    assert report.model.n_events == N


def test_a_disk_that_stays_full_ends_the_run_in_a_rebalance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_REST", 0.0)
    monkeypatch.setattr(saving, "_PATIENCE", 0.1)
    script = {6: Disk(monkeypatch).rebalances(ALL, 10**6)}
    with pytest.raises(EngineError, match="No space left on device"):
        run(tmp_path, {}, ALL, script, checkpoint_every=10 * BATCH)


def test_an_unreadable_dead_member_is_reported_lost(tmp_path: Path) -> None:
    def damaged(member: Path) -> None:
        for path in member.glob("*/model.safetensors"):
            path.write_bytes(b"")

    report = heir(tmp_path, damaged)
    assert [(lost["partition"], lost["start"]) for lost in report.lost] == [
        (name, 0) for name in ALL[2:]
    ]
    assert "no checkpoint in" in report.lost[0]["reason"]
    assert report.model.n_events + sum(lost["stop"] for lost in report.lost) == N


def test_an_older_checkpoint_of_a_dead_member_loses_the_rest(tmp_path: Path) -> None:
    def damaged(member: Path) -> None:
        (newest_checkpoint(member).path / "model.safetensors").unlink()

    report = heir(tmp_path, damaged)
    assert report.lost
    assert_each_once(report)


def test_a_different_model_cannot_be_merged(tmp_path: Path) -> None:
    report = heir(tmp_path, dead_model=learner(regularization=0.1))
    assert "started from another model" in report.lost[0]["reason"]


def test_a_member_on_another_machine_is_reported_lost(tmp_path: Path) -> None:
    group = {ALL[0]: (30, Owner("member-7", 3, "f00").to_metadata())}
    report = run(tmp_path, group, ALL)
    reason = report.lost[0]["reason"]
    assert reason.startswith("learned by member-7, lineage f00: there is no checkpoint of it")
    assert (report.lost[0]["start"], report.lost[0]["stop"]) == (0, 30)
    assert report.events == N - 30


def test_an_offset_that_somebody_has_reset_is_honoured(tmp_path: Path) -> None:
    group: dict[str, tuple[int, str]] = {}
    run_and_die(tmp_path, group, ALL)
    taken, _ = group[ALL[0]]
    group[ALL[0]] = (taken + 5, "")
    report = run(tmp_path, group, ALL)
    assert report.learned[ALL[0]] == [[0, taken], [taken + 5, len(DATA[ALL[0]])]]
    assert report.counts.learned == N - 5


def test_members_that_read_a_field_in_other_ways_are_joined(tmp_path: Path) -> None:
    """To one member `id` is a number, to the other it was text."""
    texts = {p: [{**e, "id": "it" if p in ALL[2:] else e["id"]} for e in DATA[p]] for p in ALL}
    report = heir(tmp_path, data=texts, ignore=())
    assert report.lost == []
    assert report.model.n_events == N
    assert {"id", "id=it"} < set(report.model.columns)
    assert report.model.columns == report.schema.columns


def test_a_commit_that_is_refused_ends_the_run(tmp_path: Path) -> None:
    def fence(member: Member) -> None:
        member.fenced = True

    with pytest.raises(ConnectorError, match="given the partitions away"):
        run(tmp_path, {}, ALL, {3: fence})


def test_a_member_that_the_group_has_given_up_goes_back_and_joins_again(tmp_path: Path) -> None:
    def fence(member: Member) -> None:
        member.fenced = True

    script = {3: fence, 9: lambda member: member.rebalance(ALL)}
    report = run(tmp_path, {}, ALL, script, kind=Refused)
    plain = run(tmp_path / "plain", {}, ALL)
    assert report.counts == plain.counts
    assert report.learned == plain.learned
    assert same_model(report.model, plain.model)


def test_owners() -> None:
    owner = Owner("member-3", 12, "abc")
    assert Owner.parse(owner.to_metadata()) == owner
    assert owner.stop_of("abc", 7) == 7
    assert Owner("m", 1, "x", 5, {"abc": (0, 5)}).stop_of("abc", 7) == 5
    assert Owner("m", 1, "x").stop_of("abc", 7) is None
    another = owner.to_metadata().replace('"streamk":1', '"streamk":2')
    parts = '"member": "m", "epoch": 1, "lineage": "x"}'
    for other in (another, '{"streamk": 1, ' + parts, "{" + parts, "", "{}", "[]", "3", "null"):
        assert Owner.parse(other) is None


def assert_each_once(report: Report) -> None:
    """Every event is in the last model once, or in a range that was lost."""
    lost = sum(one["stop"] - one["start"] for one in report.lost)
    assert report.model.n_events + lost == N


def test_a_committed_checkpoint_that_is_gone_is_reported(tmp_path: Path) -> None:
    group: dict[str, tuple[int, str]] = {}
    run_and_die(tmp_path, group, ALL)
    (newest_checkpoint(tmp_path / "member-0").path / "model.safetensors").unlink()
    report = run(tmp_path, group, ALL)
    assert "committed, but not in" in report.lost[0]["reason"]
    assert_each_once(report)
    assert run(tmp_path, group, ALL).lost == report.lost


def test_an_offset_set_back_is_learned_again_by_whoever_has_it(tmp_path: Path) -> None:
    group: dict[str, tuple[int, str]] = {}
    run_and_die(tmp_path, group, ALL)
    taken, _ = group[ALL[0]]
    group[ALL[0]] = (taken - 5, "")
    run_and_die(tmp_path, group, ALL)
    report = run(tmp_path, group, ALL)
    assert not report.lost
    assert report.counts.learned == N + 5


def test_what_a_takeover_writes_again_says_so(tmp_path: Path) -> None:
    dead, successor = MemorySink(), MemorySink()
    heir(tmp_path, sink=successor, dead_sink=dead, dead_checkpoint_every=1000)
    before = {(one.partition, one.offset) for one in dead.outputs}
    again = [one for one in successor.outputs if (one.partition, one.offset) in before]
    assert again
    assert all(one.value["revision"] is True for one in again)
    once = [one for one in successor.outputs if one.partition in ALL[:2]]
    assert not any(one.value["revision"] for one in once)


def test_a_takeover_writes_a_file_of_one_header(tmp_path: Path) -> None:
    sink = open_sink(f"csv:{tmp_path / 'out.csv'}")
    report = heir(tmp_path, sink=sink, dead_sink=None, dead_checkpoint_every=1000)
    with (tmp_path / "out.csv").open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == report.events
    assert {one["revision"] for one in found} == {"True", "False"}


def test_a_new_member_begins_with_what_one_knows_that_commits_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those checkpoints that agree with what the group was first heard to say are gone by then."""
    group: dict[str, tuple[int, str]] = {}
    early: dict[str, tuple[int, str]] = {}
    asked: list[str] = []

    class Slow(Member):
        def committed(self, partition: str) -> tuple[int, str] | None:
            asked.append(partition)
            first = asked.count(partition) == 1
            return early.get(partition) if first else super().committed(partition)

    def another_begins(_: Member) -> None:
        with caplog.at_level("INFO", "streamk"), pytest.raises(Killed):
            run(tmp_path, group, (), {1: dies}, kind=Slow)

    def heard(member: Member) -> None:
        early.update(member.commits)

    run(tmp_path, group, ALL, {3: heard, 9: another_begins})
    assert "skipping member-0" in caplog.text
    assert "starting from" in caplog.text
