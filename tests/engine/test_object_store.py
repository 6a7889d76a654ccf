"""Checkpoints in an object store: whole or not there, of one writer, and refused where damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fsspec", reason="pip install 'streamk[object-store]'")

import fsspec
from engine_kit import BATCH, attached, events, learner, same_model
from fsspec.implementations.memory import MemoryFileSystem
from test_checkpoint import key_file
from test_engine_resume import survives

import streamk
from connectors.memory import MemorySource
from streamk.engine import Key, Untrusted, kept_model, newest_checkpoint
from streamk.engine.checkpoints.opening import open_store
from streamk.engine.checkpoints.places import location
from streamk.engine.checkpoints.store import Fenced, NotSaved
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.object_store.store import ObjectPath, ObjectStore, StoreUnavailable
from streamk.state import State

JOB = "memory://models/job"
GONE = r"manifest\.json is gone|now writes"


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def place() -> ObjectPath:
    return ObjectPath(JOB)


def state(n: int = 3) -> State:
    return State({"type": "test", "format": 1}, {"coef": np.arange(n, dtype=np.float32)})


def opened(place: ObjectPath, saved: int = 0, **options: Any) -> ObjectStore:
    """A store that a job has begun to write, with so many checkpoints."""
    store = ObjectStore(place, **options)
    store.find()
    assert store.own()
    for n in range(saved):
        store.save({"n": n}, state(50))
    return store


def names(place: ObjectPath) -> list[str]:
    """All objects of a job."""
    found = [name.removeprefix("/models/job/") for name in MemoryFileSystem.store]
    return sorted(name for name in found if place.name)


def newest(place: ObjectPath, key: Key | None = None) -> Any:
    found = newest_checkpoint(place, key=key)
    return None if found is None else found.body


# --- one writer -----------------------------------------------------------------------------------


def test_it_comes_back_as_it_was(place: ObjectPath) -> None:
    store = opened(place)
    assert store.save({"events": 5, "x": [1.5, None, "é"]}, state(), state(7)) == 2
    assert names(place) == [
        "00000001/manifest.json",
        "00000002/held.safetensors",
        "00000002/manifest.json",
        "00000002/model.safetensors",
        "current.json",
    ]
    again = ObjectStore(place)
    found = again.open()
    assert (found.epoch, again.epoch, str(found.path)) == (2, 2, f"{JOB}/00000002")
    assert found.body == {"events": 5, "x": [1.5, None, "é"]}
    assert np.array_equal(found.model.arrays["coef"], state().arrays["coef"])
    assert len(found.held.arrays["coef"]) == 7
    assert kept_model(place) == state().header
    assert json.loads((place / "current.json").read()) == {"epoch": 2}


def test_the_last_ones_are_kept(place: ObjectPath) -> None:
    store = opened(place)
    for n in range(5):
        store.save({"n": n}, state())
        store.write_passes([Pass("p", n, 0)])
    numbers = sorted({name[:8] for name in names(place)} - {"current."})
    assert numbers == ["00000008", "00000009", "00000010", "00000011"]
    assert newest(place) == {"n": 4}


def test_a_checkpoint_without_its_manifest_is_not_there(place: ObjectPath) -> None:
    opened(place, 2)
    (place / "00000004" / "model.safetensors").write(b"half")
    assert newest(place) == {"n": 1}
    again = opened(place)
    assert again.epoch == 3
    assert again.save({"n": 2}, state()) == 5
    assert newest(place) == {"n": 2}


def test_notes_since_the_checkpoint_come_back(place: ObjectPath) -> None:
    passes = [Pass("topic-0", 5, 100), Pass("tö pic", 6, -3)]
    store = opened(place)
    store.save({}, state())
    assert store.read_passes() == []
    store.write_passes(passes)
    store.write_passes(passes[:1])
    again = opened(place)
    assert again.read_passes() == [*passes, *passes[:1]]
    again.save({}, state())
    assert again.read_passes() == []
    again.find(lambda found: found.epoch == 2)
    assert again.read_passes() == [*passes, *passes[:1]], "of an older one, what came after holds"


@pytest.mark.parametrize("passes", [[["p", "1", 2]], [1], [["p", 1, True]]])
def test_a_note_of_wrong_types_is_told(place: ObjectPath, passes: Any) -> None:
    store = opened(place)
    store.write_passes([Pass("p", 1, 2)])
    manifest = json.loads((place / "00000002" / "manifest.json").read())
    del manifest["sha256"]
    from streamk.engine.checkpoints.files import sealed

    (place / "00000002" / "manifest.json").write(sealed({**manifest, "passes": passes}, None))
    with pytest.raises(StateError, match="is not a partition, offset and clock"):
        store.read_passes()


# --- two writers ----------------------------------------------------------------------------------


def test_the_job_that_began_last_goes_on_and_the_other_is_told(place: ObjectPath) -> None:
    first, second = opened(place, 1), opened(place)
    assert second.epoch == 2
    with pytest.raises(Fenced, match=r"process \d+ on .* now writes memory://models/job"):
        first.save({"n": "of the first"}, state())
    with pytest.raises(Fenced, match="has taken number 3: a job is one process"):
        first.write_passes([Pass("p", 1, 2)])
    assert newest(place) == {"n": 0}
    second.save({"n": 2}, state())
    assert newest(place) == {"n": 2}


@pytest.mark.parametrize("saved", [0, 1, 6])
def test_a_job_whose_place_was_emptied_ends_and_the_one_that_began_there_goes_on(
    place: ObjectPath, saved: int
) -> None:
    first = opened(place, 3)
    MemoryFileSystem.store.clear()
    if saved:
        second = opened(place, saved - 1)
    before = names(place)
    with pytest.raises(Fenced, match=GONE):
        first.save({"n": "of the first"}, state())
    with pytest.raises(Fenced, match=GONE):
        first.write_passes([Pass("p", 1, 2)])
    assert names(place) == before
    if saved:
        second.save({"n": "the last of the second"}, state())
        assert newest(place) == {"n": "the last of the second"}


def test_a_job_of_the_same_number_is_another(place: ObjectPath) -> None:
    first = opened(place, 3)
    MemoryFileSystem.store.clear()
    opened(place, 3)
    with pytest.raises(Fenced, match=r"process .* has taken number 4"):
        first.save({"n": "of the first"}, state())


def test_what_was_written_since_it_was_read_is_found(place: ObjectPath) -> None:
    first, second = opened(place), ObjectStore(place)
    assert second.find() is None
    first.save({"n": 1}, state())
    assert not second.own()
    found = second.find()
    assert found.body == {"n": 1}
    assert second.own()


def test_one_who_is_overtaken_between_arrays_and_manifest(
    place: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(place)
    write, others = ObjectPath.write, []

    def overtaken(self: ObjectPath, data: bytes) -> None:
        write(self, data)
        if not others:
            others.append(None)
            others[0] = opened(place)

    monkeypatch.setattr(ObjectPath, "write", overtaken)
    with pytest.raises(Fenced):
        first.save({"n": "of the first"}, state())
    assert newest(place) is None
    others[0].save({"n": 2}, state())
    assert newest(place) == {"n": 2}


def test_a_process_that_stood_still_for_long_is_told(
    place: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, create = opened(place), ObjectPath.create
    monkeypatch.setattr(ObjectPath, "create", lambda self, data: others(self, data))

    def others(self: ObjectPath, data: bytes) -> None:
        """Before its number is taken another one has taken it, and removed it as too old."""
        monkeypatch.setattr(ObjectPath, "create", create)
        opened(place, 4)
        assert not self.exists()
        create(self, data)

    with pytest.raises(Fenced):
        first.save({"n": "of the first"}, state())
    assert newest(place) == {"n": 3}


def test_an_answer_that_was_lost_is_no_other_job(
    place: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, create = opened(place), ObjectPath.create

    def lost(self: ObjectPath, data: bytes) -> None:
        create(self, data)
        raise StoreUnavailable(self, "timed out")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "create", lost)
        with pytest.raises(NotSaved, match=r"cannot write .*: timed out; .* epoch 0, is intact"):
            store.save({"n": 1}, state())
    assert store.save({"n": 2}, state(4)) == 3
    assert newest(place) == {"n": 2}

    def repeated(self: ObjectPath, data: bytes) -> None:
        """As a client that asks again by itself where the answer was lost."""
        create(self, data)
        create(self, data)

    monkeypatch.setattr(ObjectPath, "create", repeated)
    assert store.save({"n": 3}, state()) == 4


def test_a_store_that_lets_two_create_one_object_is_refused() -> None:
    class Careless(MemoryFileSystem):
        protocol = "careless"

        def pipe_file(self, path: str, value: bytes, mode: str = "", **_: Any) -> None:
            super().pipe_file(path, value)

    fsspec.register_implementation("careless", Careless, clobber=True)
    with pytest.raises(EngineError, match="two jobs could write"):
        run(events(9), "careless://models/job")


def test_a_group_does_not_share_an_object_store(place: ObjectPath) -> None:
    with pytest.raises(InvalidInput, match=r"only one process can use.* Leave out \?group="):
        open_store(place, alone=False, key=None)


# --- damage, and what others wrote ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_object_is_passed_over(
    place: ObjectPath, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened(place, 2)
    path = place / "00000003" / name
    data = bytearray(path.read())
    data[len(data) // 2] ^= 1
    path.remove()
    if damage != "gone":
        path.write(bytes(data if damage == "flip" else data[:-1]))
    assert newest(place) == {"n": 0}
    # Without a manifest it is one that was never finished.
    assert ("skipping a damaged" in caplog.text) == ((name, damage) != ("manifest.json", "gone"))
    again = opened(place)
    assert again.read_passes() == []
    assert again.save({"n": 9}, state()) > 3
    assert newest(place) == {"n": 9}


def test_all_damaged(place: ObjectPath) -> None:
    opened(place, 1)
    (place / "00000002" / "manifest.json").write(b"{}")
    with pytest.raises(StateError, match=r"no checkpoint in memory://models/job can be used"):
        newest(place)


def test_what_was_not_signed_is_refused(place: ObjectPath, tmp_path: Any) -> None:
    key = Key.read(key_file(tmp_path / "key"))
    signed = opened(place, key=key)
    signed.save({"n": 1}, state())
    signed.write_passes([Pass("p", 1, 2)])
    assert opened(place, key=key).read_passes() == [Pass("p", 1, 2)]
    assert newest(place, key) == {"n": 1}
    with pytest.raises(Untrusted, match="is signed"):
        ObjectStore(place).find()
    unsigned = opened(ObjectPath("memory://models/other"))
    unsigned.save({}, state())
    with pytest.raises(Untrusted, match="is not signed"):
        newest(ObjectPath("memory://models/other"), key)
    (place / "00000003" / "manifest.json").write(
        (ObjectPath("memory://models/other") / "00000001" / "manifest.json").read()
    )
    with pytest.raises(Untrusted, match="is not signed"):
        opened(place, key=key).read_passes()


# --- jobs -----------------------------------------------------------------------------------------


def run(stream: Any, checkpoint: str | None, **options: Any) -> Any:
    options = {"label": "y", "ignore": ("id",), "checkpoint_every": 3 * BATCH, **options}
    return attached(MemorySource(stream), learner(), checkpoint=checkpoint, **options).run()


def test_a_job_goes_on_and_others_begin_with_its_model() -> None:
    stream = events(200)
    for most in (0, 77, 100, 200):
        report = run(stream, JOB, max_events=most)
    plain = run(stream, None)
    assert same_model(report.model, plain.model)
    assert report.learned == plain.learned
    assert streamk.load(JOB).n_events == 200
    assert streamk.load(f"{JOB}/{report.epoch:08d}").epoch == report.epoch
    assert run(events(50), None, start_from=JOB).model.n_events == 250
    assert run(events(50), "memory://models/other", start_from=JOB).model.n_events == 250
    with pytest.raises(InvalidInput, match="memory://models/none holds no checkpoint"):
        streamk.load("memory://models/none")


def test_a_job_with_other_options_does_not_stop_one_that_runs(place: ObjectPath) -> None:
    run(events(50), JOB)
    running = opened(place)
    with pytest.raises(StateError, match="was made with label='y', but this run has 'c'"):
        run(events(50), JOB, label="c")
    running.save(newest(place), state())


@pytest.mark.parametrize("seed", range(3))
def test_passing_over_silent_partitions_survives_crashes(seed: int, place: ObjectPath) -> None:
    """The time of day decides it, so it is in the store before it is used."""
    kinds = set()

    def crashed() -> None:
        written = [one / "manifest.json" for one in place.iterdir()]
        kinds.update(json.loads(one.read()).get("kind") for one in written if one.exists())

    survives(seed, JOB, crashed)
    assert "silence" in kinds


def test_a_store_that_is_away_for_a_while_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream, write, tried = events(400), ObjectPath.write, []
    run(stream, JOB, max_events=48)

    def away(self: ObjectPath, data: bytes) -> None:
        tried.append(self.name)
        if len(tried) <= 2:
            raise StoreUnavailable(self, "no answer")
        write(self, data)

    monkeypatch.setattr(ObjectPath, "write", away)
    report = run(stream, JOB)
    assert same_model(report.model, run(stream, None).model)
    assert "no answer; the checkpoint before it, epoch" in caplog.text
    assert "checkpoints can be written again" in caplog.text
    assert newest_checkpoint(ObjectPath(JOB)).epoch == report.epoch  # type: ignore[union-attr]


def test_a_store_that_is_away_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    run(events(100), JOB)
    read = ObjectPath.read

    def away(self: ObjectPath, most: int | None = None) -> bytes:
        if self.name == "model.safetensors":
            raise StoreUnavailable(self, "no answer")
        return read(self, most)

    monkeypatch.setattr(ObjectPath, "read", away)
    with pytest.raises(StoreUnavailable, match=r"memory://models/job/\d+/model.safetensors: no"):
        run(events(100), JOB)


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nowhere://bucket/job", "Protocol not known: nowhere"),
        ("sftp://me:secret@host/job", "holds a password; put it into the environment"),
        ("s3://", "names no place; write s3://BUCKET/NAME"),
    ],
)
def test_addresses_that_cannot_be_used(address: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as error:
        location(address)
    assert "secret" not in str(error.value)


def test_errors_of_any_kind_name_the_address(
    place: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoCredentials(Exception):
        pass

    def fails(*_: Any, **__: Any) -> None:
        raise NoCredentials("nothing found")

    monkeypatch.setattr(MemoryFileSystem, "ls", fails)
    with pytest.raises(StoreUnavailable, match="job: nothing found; credentials come from"):
        place.sizes()
