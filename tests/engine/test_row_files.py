"""Large tables in checkpoints: rows that have not changed are not written again.

What is read is the table to the last bit, after any changes of it and any failure of the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import same_model
from state_kit import assert_same, reopened
from test_jobs_of_entities import payments, run

from connectors.memory import MemorySink
from streamk.cli import main
from streamk.engine import newest_checkpoint
from streamk.engine.checkpoints import row_files
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.files import sizes
from streamk.engine.checkpoints.reading import MODEL, epochs, read_checkpoint
from streamk.engine.checkpoints.segment_files import SEGMENTS, SUFFIX
from streamk.engine.checkpoints.store import NotSaved
from streamk.errors import StateError
from streamk.memory import EntityTable, entity_number
from streamk.packing import fingerprint
from streamk.state import State
from streamk.trained import load

ROWS = 8
"""Of a file."""


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are written by their rows, into small files."""
    for name, value in {"LEAST": 1, "_BITS": 3, "FILE_ROWS": ROWS, "_SMALL": 5}.items():
        monkeypatch.setattr(row_files, name, value)


@pytest.fixture(params=["a directory", "an object store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "a directory":
        store: Any = DirectoryStore(tmp_path, alone=True)
    else:
        pytest.importorskip("fsspec", reason="pip install 'streamk[object-store]'")
        from fsspec.implementations.memory import MemoryFileSystem

        from streamk.object_store.store import ObjectPath, ObjectStore

        store = ObjectStore(ObjectPath(f"memory://{tmp_path}"))
        store.find()
        assert store.own()
    yield store
    store.close()
    if not isinstance(store, DirectoryStore):
        MemoryFileSystem.store.clear()


def saved(store: Any, table: EntityTable) -> None:
    store.save({}, State.nest({"table": table.lent_state()}, {"type": "test"}))


def found(store: Any) -> EntityTable:
    newest = newest_checkpoint(store.path)
    assert newest is not None
    return EntityTable.from_state(newest.model.child("table"))


def files(store: Any) -> set[str]:
    return {path.name.removesuffix(SUFFIX) for path in (store.path / SEGMENTS).iterdir()}


def named(store: Any) -> set[str]:
    """Names of files in all checkpoints."""
    return set().union(*(read_checkpoint(store.path / f"{n:08d}").rows for n in kept(store)))


def kept(store: Any) -> list[int]:
    return [n for n in epochs(store.path) if MODEL in sizes(store.path / f"{n:08d}")]


def grown(n: int) -> EntityTable:
    table = EntityTable("user", ["a"], spans=[60.0], max_entities=70)
    see(table, range(n))
    return table


def see(table: EntityTable, keys: Sequence[int]) -> None:
    table.follow(keys, np.ones(len(keys)), np.ones((len(keys), 1)), np.ones(len(keys)))


@pytest.mark.usefixtures("_small")
def test_each_of_two_stores_has_what_changed_before_the_other_wrote(
    store: Any, tmp_path: Path
) -> None:
    other, table = DirectoryStore(tmp_path / "other", alone=True), grown(30)
    for turn in range(3):
        for place, one in enumerate((store, other)):
            see(table, [turn, 10 * place])
            saved(one, table)
            assert_same(found(one), table)
    other.close()


@pytest.mark.usefixtures("_small")
def test_a_file_that_was_removed_is_written_once_more(tmp_path: Path) -> None:
    store, table = DirectoryStore(tmp_path, alone=True), grown(30)
    saved(store, table)
    for path in (store.path / SEGMENTS).iterdir():
        path.unlink()
    see(table, [3])
    saved(store, table)
    assert_same(found(store), table)
    store.close()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("seed", range(2))
def test_any_change_comes_back_and_any_failure_leaves_what_was(
    store: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    table = EntityTable("user", ["a"], spans=[60.0], max_entities=70)
    before, failures, sync = table, 0, os.fsync
    for step in range(60):
        n = int(rng.integers(1, 9))
        keys = (rng.zipf(1.3, n) % 110).astype(float)
        X = rng.normal(size=(n, len(table.numbers)))
        table.follow(keys, np.full(n, float(step)), X, rng.normal(size=n))
        chance = rng.random()
        if chance < 0.2:
            table.learn_labels(keys, np.full(n, step + 0.5), rng.normal(size=n))
        elif chance < 0.3:
            table.forget(float(keys[0]))
        elif chance < 0.33 and len(table.numbers) < 3:
            table.add_columns([f"b{step}"])
        elif chance < 0.36:
            other = reopened(table)
            other.follow([500.0 + step, keys[-1]], [step, step], np.ones((2, X.shape[1])), [1, 2])
            table.merge(other)
        elif chance < 0.4:
            table = found(store) if step > 20 else table
        left = int(rng.integers(0, 12))

        def failing(descriptor: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(28, "No space left on device")
            sync(descriptor)

        with monkeypatch.context() as patched:
            if rng.random() < 0.4 and step > 10:
                patched.setattr(os, "fsync", failing)
            try:
                saved(store, table)
            except NotSaved:  # of a failure after all was written there is a checkpoint
                failures += 1
                left_there = fingerprint(found(store).state())
                assert left_there in {fingerprint(one.state()) for one in (before, table)}
                before = found(store)
            else:
                before = reopened(table)
                assert_same(found(store), before)
    saved(store, table)
    assert_same(found(store), table)
    assert files(store) == named(store)
    assert failures


@pytest.mark.usefixtures("_small")
def test_only_what_has_changed_is_written(store: Any) -> None:
    table = EntityTable("user")
    table.follow(np.arange(400.0), np.zeros(400), np.zeros((400, 0)), np.zeros(400))
    saved(store, table)
    first = files(store)
    assert len(first) == 400 // ROWS
    table.learn_labels([3.0], [1.0], [5.0])
    table.follow([390.0, 7.0], [2.0, 3.0], np.zeros((2, 0)), [np.nan] * 2)
    saved(store, table)
    assert len(files(store) - first) == 1
    second = files(store)
    saved(store, table)
    assert files(store) == second
    rng = np.random.default_rng(0)
    for step in range(60):
        some = rng.choice(400, 12) * 1.0
        table.follow(some, np.full(12, 4.0 + step), np.zeros((12, 0)), np.zeros(12))
        saved(store, table)
        newest = newest_checkpoint(store.path)
        assert newest is not None
        assert len(newest.rows) <= 2 * 400 // ROWS + row_files._SMALL + 1
    assert files(store) == named(store)
    assert_same(found(store), table)


def test_a_small_table_is_in_the_file_of_the_model(store: Any) -> None:
    table = EntityTable("user")
    table.follow(np.arange(40.0), np.zeros(40), np.zeros((40, 0)), np.zeros(40))
    saved(store, table)
    assert SEGMENTS not in [path.name for path in store.path.iterdir()]
    assert_same(found(store), table)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("how", ["missing", "cut short", "a bit"])
@pytest.mark.parametrize("store", ["a directory"], indirect=True)
def test_a_damaged_file_is_passed_over(store: Any, how: str) -> None:
    table = EntityTable("user")
    for step in range(2):
        table.follow(np.arange(9.0), np.full(9, step), np.zeros((9, 0)), np.zeros(9))
        saved(store, table)
        if step == 0:
            before = reopened(table)
    newest = newest_checkpoint(store.path)
    assert newest is not None
    path = store.segments.place(min(newest.rows))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    if how != "missing":
        path.write_bytes(data[:-1] if how == "cut short" else data)
    assert_same(found(store), before)


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (np.arange(3), ["0" * 63]),
        (np.arange(3), "0" * 64),
        (np.arange(3), []),
        (np.arange(3), ["1" * 64]),
        (np.arange(3.0), ["0" * 64]),
        (np.arange(0), ["0" * 64]),
        (np.array([0, 5, 1]), ["0" * 64]),
        (np.array([0, 1 << 14, 1]), ["0" * 64]),
        (np.array([0, -1, 1]), ["0" * 64]),
        (np.array([0, 1 << 62, 1]), ["0" * 64]),
        (np.arange(3)[:, None], ["0" * 64]),
        (np.array([0, 1 << 14]), ["0" * 64, "1" * 64]),
        (np.array([0, 1 << 14]), ["0" * 64, "2" * 64]),
    ],
)
def test_places_that_do_not_fit_are_refused(places: Any, names: Any) -> None:
    contents = {
        "0" * 64: {"rows": np.zeros((5, 2))},
        "1" * 64: {"others": np.zeros((5, 2))},
        "2" * 64: {"rows": np.zeros((5, 3))},
    }
    state = State({"type": "test"}, {"rows": places})
    with pytest.raises(StateError):
        row_files.with_rows(state, {"rows": names}, lambda name: row_files.pack(contents[name]))
    with pytest.raises(StateError):
        row_files.with_rows(replace(state, arrays={}), {"rows": names}, contents.__getitem__)


@pytest.mark.usefixtures("_small")
def test_a_job_goes_on_from_it_and_forgets(tmp_path: Path) -> None:
    events, expected, outputs = payments(), MemorySink(), MemorySink()
    whole = run(events, sink=expected)
    for stop in (90, 205, 400):
        report = run(
            events, sink=outputs, checkpoint=tmp_path, max_events=stop, checkpoint_every=100
        )
    assert outputs.outputs == expected.outputs
    assert same_model(report.model, whole.model)
    inside = tmp_path / "member-0"
    number = np.float64(entity_number("7")).tobytes()
    assert any(number in path.read_bytes() for path in (inside / "held").iterdir())
    assert load(tmp_path).predict_one(events[9]) is not None
    assert main(["forget", str(tmp_path), "user=7"]) == 0
    assert not any(number in path.read_bytes() for path in inside.rglob("*.safetensors"))
    model: Any = load(tmp_path)
    assert model.predict_one(events[9]) is not None
