"""Held events in files: found by their keys, shared by checkpoints, told if they are damaged."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import late_job
import numpy as np
import pytest
from engine_kit import attached
from fsspec.implementations.memory import MemoryFileSystem
from late_kit import small_segments
from multi_kernel_kit import pool_alone

from connectors.memory import MemorySink, MemorySource
from streamk.conformal import Regions
from streamk.engine import Checkpoint, newest_checkpoint
from streamk.engine.checkpoints.reading import read_checkpoint
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.errors import EngineError, StateError
from streamk.late import LateLabels, segments
from streamk.late.held import HeldEvents, record_type
from streamk.late.join import Join, Predict
from streamk.late.segments import KeyIndex, Segment, SegmentLog, hashes_of
from streamk.object_store.store import ObjectPath

ENTRY = tuple[str, int]


# --- the index of keys ----------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [64, 6])
def test_the_index_finds_what_a_dict_does(bits: int) -> None:
    """Rows come, go and are found, in several runs; of 6 bits most hashes are several's."""
    rng = np.random.default_rng(0)
    live = np.full(12_000, True)
    index = KeyIndex(lambda rows: live[rows])
    spread = np.uint64(64 - bits)
    hashes = rng.integers(0, 1 << 63, len(live), np.uint64) >> spread << spread
    n, step = (len(live), 997) if bits == 64 else (3000, 97)
    for first in range(0, n, step):
        rows = np.arange(first, min(n, first + step))
        index.add(hashes[rows], rows)
        live[rng.integers(0, first + 1, step // 2)] = False
        asked = rng.integers(0, n, 20)
        found: list[set[int]] = [set() for _ in asked]
        for place, row in zip(*(some.tolist() for some in index.find(hashes[asked])), strict=True):
            if live[row]:
                found[place].add(row)
        there = np.flatnonzero(live[: rows[-1] + 1])
        for place, one in enumerate(asked):
            assert found[place] == set(there[hashes[there] == hashes[one]].tolist())


def test_the_index_does_not_grow_with_rows_that_are_gone() -> None:
    """A thousand of those that came last are there."""
    last = 0
    index = KeyIndex(lambda rows: rows > last - 1000)
    for last in range(100, 50_000, 100):
        index.add(hashes_of([str(n) for n in range(100)]), np.arange(last - 100, last))
        assert sum(len(rows) for _, rows in index._runs) <= 5 * 1000


def test_hashes_are_equal_anywhere() -> None:
    assert hashes_of(["a", "ä"]).tolist() == [3405396810240292928, 4152366542966443504]


# --- segments -------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    return SegmentFiles(tmp_path / "held")


def records_of(numbers: list[int], columns: int = 1) -> Any:
    records = np.zeros(len(numbers), record_type(columns, 0))
    records["number"] = numbers
    return records


def test_rows_are_those_of_a_dict(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order; keys of one hash are told apart by the file."""
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 8)
    monkeypatch.setattr(segments, "blake2b", Digest)
    rng = random.Random(0)
    log, plain = SegmentLog(files, ENTRY), dict[str, int]()
    for n in range(120):
        numbers = list(range(8 * n, 8 * n + 8))
        log.append([(str(m), m) for m in numbers], records_of(numbers, 1 + n // 60))
        plain |= {str(m): m for m in numbers}
        gone = rng.sample(sorted(plain), 7)
        found = log.find([*gone, "none", gone[0]])
        assert {key: one.entry for key, one in found.items()} == {
            key: (key, plain[key]) for key in gone
        }
        for key in gone:
            assert np.frombuffer(found[key].record, found[key].type)["number"] == plain[key]
            log.remove(found[key].row)
            del plain[key]
        oldest = log.oldest()
        assert oldest is not None
        assert oldest.entry[1] == min(plain.values())
        due = [one.entry[1] for one in log.due(10**9, 3)]
        assert due == sorted(plain.values())[: len(due)]
        assert len(log) == len(plain)
        assert len(log.names()) <= 4 * len(plain) / 8 + 3
    again = SegmentLog(files, ENTRY)
    again.restore(log.names(), log.live(), accept)
    assert len(again) == len(plain)
    assert set(again.find(list(plain))) == set(plain)


class Digest:
    """A hash of very few values."""

    def __init__(self, key: bytes, digest_size: int) -> None:
        self._digest = key[-1:] * digest_size

    def digest(self) -> bytes:
        return self._digest


def accept(records: Any) -> None:
    """Take any events."""
    assert len(records)


def test_a_segment_that_is_none_is_refused(files: SegmentFiles) -> None:
    entries = [("a", 1), ("b", 2)]
    name = Segment.written(files, entries, records_of([1, 2])).name
    path = files.place(name)
    data = path.read_bytes()
    log, both = SegmentLog(files, ENTRY), np.packbits([1, 1])
    log.restore([name], both, accept)
    for live in (both[:0], np.zeros(2), np.packbits([0, 0]), np.packbits([1] * 16)):
        with pytest.raises(StateError):
            SegmentLog(files, ENTRY).restore([name], live, accept)
    with pytest.raises(StateError, match="does not have the rows"):
        log.restore([name], both, None)
    path.write_bytes(data[:-1] + b"?")
    with pytest.raises(StateError, match="is damaged, its SHA-256 does not match its name"):
        log.restore([name], both, accept)
    assert (files.write(data), files.read(name)) == (name, data)  # written anew
    path.write_bytes(data[:100])
    segment = Segment(files, name, data)
    with pytest.raises(StateError, match="cannot be read: it was cut short"):
        segment.records(np.array([0]))
    path.unlink()
    with pytest.raises(StateError, match="cannot be read"):
        log.restore([name], both, accept)
    with pytest.raises(StateError, match="cannot be read"):
        segment.records(np.array([0]))


def test_temporary_files_are_removed() -> None:
    files = SegmentFiles()
    log = SegmentLog(files, ENTRY)
    log.append([("a", 1)], None)
    log.append([("b", 1)], None)
    (name,) = log.names()  # the two were put together
    path = files.place(name)
    assert [path] == list(path.parent.iterdir())
    for key in "ab":
        log.remove(log.find([key])[key].row)
    assert list(path.parent.iterdir()) == []
    files.close()
    assert not path.parent.exists()


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("late")
    late_job.write(path)
    return path


@pytest.fixture
def small() -> Iterator[None]:
    with small_segments(4):
        yield


def checkpoints(path: Path) -> list[Checkpoint]:
    """All there are of a job, the oldest first."""
    found = [one for one in path.glob("member-0/[0-9]*") if one.is_dir()]
    return [read_checkpoint(one) for one in sorted(found)]


@pytest.mark.usefixtures("small")
def test_checkpoints_share_files(streams: Path, tmp_path: Path) -> None:
    """One writes what is new, and what none needs is removed."""
    seen, shared, sink = dict[str, int](), 0, MemorySink()
    for most in range(100, 500, 50):
        late_job.engine(streams, sink, checkpoint=tmp_path, max_events=most).run()
        held = (tmp_path / "member-0" / "held").iterdir()
        there = {path.name: path.stat().st_ino for path in held}
        assert all(there[name] == inode for name, inode in seen.items() if name in there)
        kept = checkpoints(tmp_path)
        assert len(kept) == 2
        assert {f"{name}.safetensors" for one in kept for name in one.segments} == set(there)
        shared += len(kept[0].segments & kept[1].segments)
        seen = there
    assert shared > 10


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_file_is_passed_over_or_told(
    streams: Path, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink = MemorySink()
    for most in (300, 330):
        late_job.engine(streams, sink, checkpoint=tmp_path, max_events=most).run()
    older, newer = checkpoints(tmp_path)
    files = SegmentFiles(tmp_path / "member-0" / "held")

    def hurt(name: str) -> None:
        path = files.place(name)
        data = path.read_bytes()
        path.unlink()
        if damage == "changed":
            path.write_bytes(data[:-9] + b"otherwise")

    hurt(min(newer.segments - older.segments))
    late_job.engine(streams, sink, checkpoint=tmp_path, max_events=330).run()
    assert "skipping a damaged checkpoint" in caplog.text
    expected = MemorySink()
    late_job.engine(streams, expected, max_events=330).run()
    assert sink.outputs == expected.outputs
    (*_, again) = checkpoints(tmp_path)
    assert again.segments == newer.segments
    for name in again.segments:
        files.read(name)
    for name in frozenset[str]().union(*(one.segments for one in checkpoints(tmp_path))):
        hurt(name)
    with pytest.raises(StateError, match=r"no checkpoint in .* can be used"):
        late_job.engine(streams, sink, checkpoint=tmp_path, max_events=340).run()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_keys_are_over_before_any_label_has_come(tmp_path: Path, task: str) -> None:
    """Their places in the files of events that may be learned again hold no event."""
    for most in (150, 200):
        events = MemorySource([{"id": n, "at": 10 * n, "a": n % 7} for n in range(200)])
        labels = MemorySource([{"id": 0, "at": 10**6, "y": 1}])
        late = LateLabels(labels, key="id", time="at", timeout=0.5, revisions="learn")
        options: Any = {"label": "y", "labels": late, "ignore": ("at",), "max_skew": np.inf}
        model = pool_alone(seed=1, task=task)
        engine = attached(events, model, checkpoint=tmp_path, max_events=most, **options)
        report = engine.run()
        assert report.fates.missing == most - 51
    (*_, last) = checkpoints(tmp_path)
    assert last.held is not None
    queues: Any = last.held.header["segments"]
    assert queues["over"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("default", [None, True])
def test_memory_does_not_grow_with_events_that_may_be_learned_again(default: Any) -> None:
    """Slots that were lent to events on the disk are used again, also of those that are kept."""
    held, files = HeldEvents(0.0), SegmentFiles()
    join = Join(200, 10**6, default, held=held, files=files, revisions="learn")
    for clock in range(0, 1_500, 10):
        keys = [str(n) for n in range(clock, clock + 10)]
        labels = [str(n) for n in range(max(0, clock - 100), max(0, clock - 90), 3)]
        join.begin(keys + labels, clock)
        steps = [step for some, _ in join.due(clock) for step in some]
        steps += [step for key in keys for step in join.event(key, clock)]
        steps += [step for key in labels for step in join.label(key, True, clock)]
        for step in steps:
            if isinstance(step, Predict):
                held.put([step.slot], np.eye(1), [1], None, [0.0], [0], np.nan, np.nan)
        join.end()
    assert join.fates.joined > 400
    assert len(join.slots) < 30
    assert held.take() < 150
    files.close()


@pytest.mark.usefixtures("small")
def test_a_full_disk_ends_the_job(
    streams: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, expected = MemorySink(), MemorySink()
    late_job.engine(streams, sink, checkpoint=tmp_path, max_events=200).run()

    def full(path: Path, data: Sequence[bytes]) -> None:
        path.write_bytes(data[0][:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("streamk.engine.checkpoints.segment_files.write_file", full)
        with pytest.raises(EngineError, match=r"cannot write .*held: No space left on device"):
            late_job.engine(streams, sink, checkpoint=tmp_path).run()
    assert not list((tmp_path / "member-0" / "held").glob(".new-*"))
    late_job.engine(streams, sink, checkpoint=tmp_path).run()
    late_job.engine(streams, expected).run()
    assert sink.outputs == expected.outputs


@pytest.fixture
def place() -> Iterator[ObjectPath]:
    yield ObjectPath("memory://late/job")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_an_object_store_holds_them_too(streams: Path, tmp_path: Path, place: ObjectPath) -> None:
    """Written once, removed when no checkpoint has them; what is learned is the same."""
    whole = tmp_path / "whole"
    expected, sink, counts = MemorySink(), MemorySink(), list[int]()
    late_job.engine(streams, expected, checkpoint=whole, max_events=500).run()
    with small_segments(4):
        for most in (200, 400, 500):
            options: Any = {"checkpoint": place, "checkpoint_every": 50, "max_events": most}
            job = late_job.engine(streams, sink, **options)
            job.run()
            assert not job._coordinator._store.segments._path  # type: ignore[union-attr]
            of_models = [path for path in place.iterdir() if (path / "model.safetensors").exists()]
            named = [read_checkpoint(path).segments for path in of_models]
            there = [path.name for path in (place / "held").iterdir()]
            assert {f"{name}.safetensors" for some in named for name in some} <= set(there)
            counts.append(len(there))
    assert 0 < max(counts) < 60
    assert sink.outputs == expected.outputs
    kept = newest_checkpoint(place)
    (*_, last) = checkpoints(whole)
    assert kept is not None
    assert kept.body["training"] == last.body["training"]
    for path in (place / "held").iterdir():
        path.write(b"something else")
    with small_segments(4), pytest.raises(StateError, match="is damaged"):
        late_job.engine(streams, sink, checkpoint=place).run()


@pytest.mark.usefixtures("small")
def test_a_name_that_leads_elsewhere_is_refused(streams: Path, tmp_path: Path) -> None:
    job = late_job.engine(streams, MemorySink(), checkpoint=tmp_path, max_events=400)
    job.run()
    held = checkpoints(tmp_path)[-1].held
    assert held is not None
    queues: Any = held.header["segments"]
    for name in ("../../lock", "0" * 63, 7):
        header = {**held.header, "segments": {**queues, "held": [name]}}
        with pytest.raises(StateError, match="counts or files are missing"):
            job._trainer.restore_held(replace(held, header=header))


@pytest.mark.usefixtures("small")
def test_regions_of_another_level_are_forgotten(
    streams: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of events in files, too, and also by a run with the first level again."""
    learn, known, sink = Regions.learn_later, list[bool](), MemorySink()

    def learned(*arguments: Any) -> Any:
        known.extend(~np.isnan(arguments[4]))
        return learn(*arguments)

    monkeypatch.setattr(Regions, "learn_later", learned)
    shares = []
    for most, level in ((400, 0.9), (450, 0.9), (500, 0.5), (550, 0.9)):
        known.clear()
        options: Any = {"checkpoint": tmp_path, "max_events": most, "level": level}
        late_job.engine(streams, sink, **options).run()
        shares.append(np.mean(known))
        assert checkpoints(tmp_path)[-1].segments
    assert shares[1] == 1.0
    assert max(shares[2:]) < 0.5
