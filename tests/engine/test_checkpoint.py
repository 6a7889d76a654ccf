"""A checkpoint is whole, and signed where there is a key, or it is refused.

The one before it is still there. What was not signed with the run's key is refused, every byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import events, reseal, run, same_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_engine_group import heir, learned

import streamk
from streamk.cli import main
from streamk.engine import Key, Untrusted, newest_checkpoint
from streamk.engine.checkpoints import reading
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.reading import Checkpoint, read_checkpoint
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.packing import fingerprint
from streamk.state import State


def state(n: int = 3) -> State:
    arrays = {
        "coef": np.arange(n, dtype=np.float32)[:, None] / 7,
        "flag": np.array([True, False]),
        "scalar": np.array(2.5),
        "strided": np.arange(10, dtype=np.int64)[::2],
        "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
        "big-endian": np.arange(3, dtype=">f4"),
        "none": np.zeros((0, 4)),
    }
    return State({"type": "test", "format": 1, "name": "ä", "scale": 0.1}, arrays)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def same(a: State, b: State) -> bool:
    return a.header == b.header and all(
        np.array_equal(a.arrays[name], b.arrays[name])
        and a.arrays[name].shape == b.arrays[name].shape
        for name in [*a.arrays, *b.arrays]
    )


@pytest.fixture
def store(tmp_path: Path) -> Any:
    store = DirectoryStore(tmp_path / "deep" / "checkpoints")
    yield store
    store.close()


def test_it_comes_back_as_it_was(store: DirectoryStore) -> None:
    assert store.open() is None
    assert store.save({"events": 5, "x": [1.5, None, "é"]}, state()) == 1
    found = store.open()
    assert found.epoch == 1
    assert found.body == {"events": 5, "x": [1.5, None, "é"]}
    assert same(found.model, state())
    assert fingerprint(found.model) == fingerprint(state())
    assert fingerprint(state(4)) != fingerprint(state())
    assert all(array.flags.writeable for array in found.model.arrays.values())
    assert names(found.path) == ["manifest.json", "model.safetensors"]
    assert json.loads((found.path / "manifest.json").read_bytes())["model"]["name"] == "ä"


def test_the_last_ones_are_kept(store: DirectoryStore) -> None:
    for epoch in range(1, 6):
        assert store.save({"epoch": epoch}, state()) == epoch
        store.write_passes([Pass("p", epoch, 0)])
    assert names(store.path) == [
        "00000004",
        "00000004.journal",
        "00000005",
        "00000005.journal",
        "lock",
    ]


def test_slots(store: DirectoryStore) -> None:
    other = DirectoryStore(store.directory)
    assert (store.name, other.name) == ("member-0", "member-1")
    assert other.peers() == [store.path]
    other.save({}, state())
    store.close()
    store.close()
    third = DirectoryStore(store.directory)
    assert third.name == "member-0"
    other.close()
    third.close()


def test_a_slot_is_free_when_its_process_is_dead(store: DirectoryStore) -> None:
    code = (
        "import sys, time; from streamk.engine.checkpoints.directory_store import DirectoryStore;"
    )
    code += "s = DirectoryStore(sys.argv[1]);"
    code += "print(s.name, flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store.directory)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "member-1\n"
        second = DirectoryStore(store.directory)
        assert second.name == "member-2"
        process.kill()
        process.wait()
        third = DirectoryStore(store.directory)
        assert third.name == "member-1"
        second.close()
        third.close()


def test_a_job_that_is_alone_has_one_slot(store: DirectoryStore) -> None:
    with pytest.raises(EngineError, match=rf"member-0 is in use by process {os.getpid()} on "):
        DirectoryStore(store.directory, alone=True)
    store.close()
    DirectoryStore(store.directory, alone=True).close()


def test_only_the_owner_can_read_what_is_kept(store: DirectoryStore) -> None:
    store.save({}, state())
    store.write_passes([Pass("p", 1, 2)])
    for path in store.path.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "member-0").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "member-0" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(EngineError, match="cannot write"):
        DirectoryStore(tmp_path)
    assert (tmp_path / "precious").read_text() == "precious"


def test_what_lies_about_under_a_temporary_name_is_removed_and_links_are_not_followed(
    store: DirectoryStore, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "precious").write_text("precious")
    (store.path / ".new-00000001").write_text("a file")
    (store.path / ".new-00000002").symlink_to(away)
    (store.path / ".new-00000003").mkdir()
    (store.path / ".new-00000003" / "model.safetensors").write_bytes(b"half")
    store.close()
    again = DirectoryStore(store.directory)
    assert again.path == store.path
    assert names(again.path) == ["lock"]
    assert (away / "precious").exists()
    again.close()


@pytest.mark.parametrize("line", ['["p", "1", 2]', "[1]", '{"p": 1}', '["p", 1, true]', "null"])
def test_a_journal_of_wrong_types_is_told_with_its_line(store: DirectoryStore, line: str) -> None:
    store.save({}, state())
    store.write_passes([Pass("p", 1, 2)])
    with (store.path / "00000001.journal").open("a") as file:
        file.write(f"{zlib.crc32(line.encode()):08x} {line}\n")
    with pytest.raises(StateError, match="line 2 is not a partition, offset and clock"):
        store.read_passes()


def two(store: DirectoryStore) -> Path:
    """Two checkpoints; the directory of the newer."""
    store.save({"n": 1}, state())
    store.save({"n": 2}, state(50))
    return store.path / "00000002"


def link(path: Path) -> None:
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


def junk(path: Path) -> None:
    path.write_bytes(b"\xff" * 100)
    reseal(path.parent, files={path.name: hashlib.sha256(path.read_bytes()).hexdigest()})


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda path: (path / "manifest.json").unlink(), "manifest.json: is missing"),
        (lambda path: (path / "model.safetensors").unlink(), "model.safetensors: is missing"),
        (lambda path: (path / "model.pickle").write_bytes(b"\x80"), "pickle: does not belong"),
        (lambda path: link(path / "model.safetensors"), "not a regular file"),
        (lambda path: junk(path / "model.safetensors"), "model.safetensors"),
        (lambda path: reseal(path, epoch=7), "epoch 7"),
        (lambda path: reseal(path, format=2), "has format 2, this version of streamk reads 1"),
        *(
            (lambda path, name=name: reseal(path, files={name: "0" * 64}), "lists other files")
            for name in ("../00000001/model.safetensors", "/etc/passwd", "extra")
        ),
        *(
            (lambda path, changes=changes: reseal(path, **changes), "not a complete manifest")
            for changes in ({"engine": 3}, {"model": {"format": 1}}, {"model": 3}, {"epoch": "2"})
        ),
    ],
)
def test_a_damaged_one_is_told_and_the_one_before_is_taken(
    store: DirectoryStore, damage: Any, match: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage(two(store))
    if match != "epoch 7":
        with pytest.raises(StateError, match=match):
            read_checkpoint(store.path / "00000002")
    found = store.open()
    assert found.body == {"n": 1}
    assert "damaged checkpoint" in caplog.text
    assert match in caplog.text if "epoch" in match else "00000002" in caplog.text
    # The damaged one is out of the way and its number is not used again.
    assert (store.path / "00000002.set-aside").is_dir()
    assert store.save({"n": 3}, state()) == 3
    found = store.open()
    assert found.body == {"n": 3}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = DirectoryStore(tmp_path_factory.mktemp("whole"))
    path = two(store)
    store.close()
    return path


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_damage_is_seen(written: Path, tmp_path: Path, data: st.DataObject) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(written, copy)
    path = copy / data.draw(st.sampled_from(["manifest.json", "model.safetensors"]))
    raw = bytearray(path.read_bytes())
    match data.draw(st.sampled_from(["flip", "cut", "append", "zero"])):
        case "flip":
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del raw[data.draw(st.integers(0, len(raw) - 1)) :]
        case "append":
            raw += data.draw(st.binary(min_size=1))
        case "zero":
            start = data.draw(st.integers(0, len(raw) - 1))
            if not any(raw[start:]):
                return
            raw[start:] = bytes(len(raw) - start)
    path.write_bytes(raw)
    with pytest.raises(StateError, match="copy"):
        read_checkpoint(copy)


def test_all_damaged(store: DirectoryStore) -> None:
    two(store)
    for path in store.path.glob("*/manifest.json"):
        path.write_text("{}")
    with pytest.raises(StateError, match=r"no checkpoint in .* remove the directory to start anew"):
        store.open()


def test_a_reader_of_a_running_job_finds_one_though_others_are_removed(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        store.save({}, state())

    def slow(path: Path, key: Any) -> Checkpoint:
        """Read a checkpoint after the job has written two more, which removes it."""
        if store.epoch < 6:
            store.save({}, state())
            store.save({}, state())
        return read_checkpoint(path, key)

    monkeypatch.setattr(reading, "read_checkpoint", slow)
    found = reading.newest_checkpoint(store.path)
    assert found.epoch == 6
    assert not caplog.records


def test_no_newer_than_committed(store: DirectoryStore) -> None:
    two(store)
    store.save({"n": 3}, state())
    found = store.find(lambda found: found.epoch <= 2)
    assert found.epoch == store.epoch == 2
    assert (store.path / "00000003").exists()
    found = store.open(lambda found: found.epoch <= 2)
    assert found.epoch == 2
    assert not (store.path / "00000003").exists()
    with pytest.raises(StateError, match="00000002 holds more than the group has committed"):
        store.open(lambda found: found.epoch < 1)
    assert store.save({}, state()) == 4


def test_a_failed_write_leaves_the_old_one(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save({"n": 1}, state())
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(EngineError, match=r"No space left on device; .* epoch 1, is intact"):
            store.save({"n": 2}, state())
    assert names(store.path) == ["00000001", "lock"]
    assert store.save({"n": 2}, state()) == 2


def test_unusable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match=r"cannot write .*file: Not a directory"):
        DirectoryStore(tmp_path / "file")


def test_journal(store: DirectoryStore) -> None:
    passes = [Pass("topic-0", 5, 100), Pass("tö pic", 6, -3)]
    store.save({}, state())
    assert store.read_passes() == []
    store.write_passes(passes[:1])
    store.save({}, state())
    store.write_passes(passes[1:])
    assert store.read_passes() == passes[1:]
    store.open(
        lambda found: found.epoch == 1
    )  # an older epoch: what was decided after it still holds
    assert store.read_passes() == passes


def test_a_torn_last_line_of_the_journal_is_dropped(store: DirectoryStore) -> None:
    passes = [Pass("a", 5, 100), Pass("b", 6, 200)]
    store.save({}, state())
    store.write_passes(passes)
    path = store.path / "00000001.journal"
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert store.read_passes() == passes[: whole[:cut].count(b"\n")]
        store.write_passes([Pass("c", 1, 1)])
        assert store.read_passes()[-1] == Pass("c", 1, 1)


def test_a_damaged_journal_is_refused(store: DirectoryStore) -> None:
    store.save({}, state())
    store.write_passes([Pass("a", 5, 100), Pass("b", 6, 200)])
    path = store.path / "00000001.journal"
    path.write_bytes(path.read_bytes().replace(b"100", b"900"))
    with pytest.raises(StateError, match=r"journal: is damaged in line 1"):
        store.read_passes()


# --- signatures -----------------------------------------------------------------------------------


def key_file(path: Path, content: bytes = b"k" * 32, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return key_file(tmp_path / "key")


# --- the key ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (
            b"k" * 32,
            0o640,
            r"open to other users than its owner \(mode 0640\); run: chmod 600 .*/key",
        ),
        (b"k" * 32, 0o604, r"mode 0604"),
        (b"k" * 31, 0o600, r"has 31 bytes, but needs 32 to 65,536; make one: .*urandom"),
        (b"", 0o600, r"has 0 bytes"),
        (b"k" * 70_000, 0o600, r"has over 65,536 bytes"),
    ],
)
def test_a_key_that_is_no_secret_is_refused(
    tmp_path: Path, content: bytes, mode: int, reason: str
) -> None:
    path = key_file(tmp_path / "key", content, mode)
    with pytest.raises(InvalidInput, match=reason) as error:
        run([], checkpoint=tmp_path / "state", state_key=path)
    assert "kkkk" not in str(error.value)
    assert not (tmp_path / "state").exists()


def test_a_key_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, reason in (("pipe", "not a regular"), ("none", "No such file"), (".", "directory")):
        with pytest.raises(InvalidInput, match=reason):
            Key.read(tmp_path / name)


def test_a_key_does_not_show_itself(key: Path) -> None:
    found = Key.read(key)
    assert "kkkk" not in f"{found!r} {found} {vars(type(found))}"


def test_a_key_without_a_checkpoint_is_a_mistake(key: Path) -> None:
    with pytest.raises(InvalidInput, match="needs a place for checkpoints or start_from="):
        run([], checkpoint=None, state_key=key)


# --- a run --------------------------------------------------------------------------------------


def test_a_signed_job_goes_on_as_one_without_a_signature(tmp_path: Path, key: Path) -> None:
    stream = events(200)
    run(stream, checkpoint=tmp_path / "state", state_key=key, max_events=77)
    signed = run(stream, checkpoint=tmp_path / "state", state_key=key)
    assert same_model(signed.model, run(stream, checkpoint=None).model)
    found = newest_checkpoint(tmp_path / "state", key=Key.read(key))
    assert found.signed


@pytest.mark.parametrize("signed", [False, True])
def test_what_is_not_signed_or_by_another_key_is_refused(
    tmp_path: Path, key: Path, signed: bool
) -> None:
    state = tmp_path / "state"
    run(events(50), checkpoint=state, state_key=key if signed else None)
    other = key_file(tmp_path / "other-key", b"o" * 32)
    says = r"manifest\.json: is not signed.*leave out --state-key"
    if signed:
        says = r"signed with another key than .*other-key, or forged"
    with pytest.raises(Untrusted, match=says):
        run(events(60), checkpoint=state, state_key=other)
    with pytest.raises(Untrusted, match=says.partition(".*")[0]):
        run(events(60), checkpoint=tmp_path / "other", start_from=state, state_key=other)
    with pytest.raises(Untrusted, match=says.partition(".*")[0]):
        streamk.load(state, key=other)


def test_a_signed_job_is_read_and_not_continued_without_the_key(tmp_path: Path, key: Path) -> None:
    state = tmp_path / "state"
    run(events(50), checkpoint=state, state_key=key)
    with pytest.raises(
        Untrusted, match=r"is signed, but this run would write unsigned checkpoints"
    ):
        run(events(60), checkpoint=state)
    assert streamk.load(state).n_events == streamk.load(state, key=key).n_events == 50
    assert run(events(60), checkpoint=None, start_from=state).model.n_events == 110
    assert run(events(60), checkpoint=None, start_from=state, state_key=key).model.n_events == 110


@pytest.mark.parametrize(
    "changes",
    [
        {"hmac": None},
        {"hmac": 7},
        {"hmac": "é\ud800"},
        {"hmac": ""},
        {"streamk": "9.9.9"},
        {"slot": "member-1"},
        {"more": 1},
        {"files": {"model.safetensors": "0" * 64}},
        {"epoch": 99},
        {"engine": {}},
        {"model": {"type": "doubly-stochastic", "format": 1}},
    ],
    ids=str,
)
def test_no_change_of_a_manifest_passes(tmp_path: Path, key: Path, changes: dict[str, Any]) -> None:
    run(events(50), checkpoint=tmp_path / "state", state_key=key)
    newest = max((tmp_path / "state" / "member-0").glob("0*/manifest.json"))
    reseal(newest.parent, **changes)
    with pytest.raises(Untrusted, match=r"is not signed|or forged"):
        read_checkpoint(newest.parent, Key.read(key))
    with pytest.raises(Untrusted):  # and the one before it is not taken instead
        run(events(60), checkpoint=tmp_path / "state", state_key=key)


def test_other_arrays_under_a_signed_manifest_are_damage(tmp_path: Path, key: Path) -> None:
    run(events(50), checkpoint=tmp_path / "a", state_key=key)
    run(events(50, seed=1), checkpoint=tmp_path / "b", state_key=key)
    mine, other = (
        max((tmp_path / name / "member-0").glob("0*/model.safetensors")) for name in "ab"
    )
    shutil.copy(other, mine)
    with pytest.raises(StateError, match="SHA-256 does not match the manifest"):
        read_checkpoint(mine.parent, Key.read(key))


def test_a_checkpoint_of_another_slot_is_refused(tmp_path: Path, key: Path) -> None:
    run(events(50), checkpoint=tmp_path / "state", state_key=key)
    member = tmp_path / "state" / "member-0"
    member.rename(member.with_name("member-1"))
    with pytest.raises(Untrusted, match="written as member-0, not as member-1; move it back"):
        newest_checkpoint(tmp_path / "state", key=Key.read(key))
    member.with_name("member-1").rename(tmp_path / "copy")  # a name that claims no slot
    assert newest_checkpoint(tmp_path / "copy", key=Key.read(key)) is not None


def test_a_dead_member_that_did_not_sign_is_not_taken_over(tmp_path: Path, key: Path) -> None:
    known = []

    def other(member: Path) -> None:
        known.append(learned(member.parent, "member-1"))
        for manifest in member.glob("0*/manifest.json"):
            reseal(manifest.parent, hmac=None)

    report = heir(tmp_path / "state", other, state_key=key)
    assert known[0] > 0
    assert [sum(one["stop"] - one["start"] for one in report.lost)] == known
    assert all("is not signed" in one["reason"] for one in report.lost)
    assert not heir(tmp_path / "signed", state_key=key).lost


# --- the journal --------------------------------------------------------------------------------

PASSES = [Pass("t:0", 5, 100), Pass("t:1", 6, 200), Pass("t:2", 7, 300)]


def signed_store(directory: Path, key: Path | None) -> DirectoryStore:
    store = DirectoryStore(directory, key=None if key is None else Key.read(key))
    if store.open() is None:
        store.save({}, State({"type": "test", "format": 1}))
    return store


def test_a_signed_journal_is_read_back(tmp_path: Path, key: Path) -> None:
    store = signed_store(tmp_path / "state", key)
    store.write_passes(PASSES[:1])
    store.close()
    store = signed_store(tmp_path / "state", key)
    store.write_passes(PASSES[1:])
    assert store.read_passes() == PASSES
    path = store.path / "00000001.journal"
    path.write_bytes(path.read_bytes()[:-3])  # as a crash leaves it
    assert store.read_passes() == PASSES[:2]
    store.write_passes(PASSES[2:])
    assert store.read_passes() == PASSES
    store.close()


def test_lines_of_others_in_a_signed_journal_are_refused(tmp_path: Path, key: Path) -> None:
    store = signed_store(tmp_path / "state", key)
    store.write_passes(PASSES)
    path = store.path / "00000001.journal"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    other = signed_store(tmp_path / "other", None)
    other.write_passes(PASSES[:1])
    unsigned = (other.path / "00000001.journal").read_bytes()
    for lines in (
        [unsigned],
        [first, unsigned],
        [second],
        [first, third],
        [first, first],
        [second, first, third],
    ):
        path.write_bytes(b"".join(lines))
        with pytest.raises(Untrusted, match=r"journal: line \d is not signed with .*/key"):
            store.read_passes()
    path.write_bytes(first + second + third)
    path.rename(store.path / "00000002.journal")  # of another epoch
    with pytest.raises(Untrusted, match="line 1 is not signed"):
        store.read_passes()
    (other.path / "00000001.journal").write_bytes(first)
    with pytest.raises(Untrusted, match="line 1 is signed; give the key"):
        other.read_passes()
    store.close()
    other.close()


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    key_file(tmp_path / "key")
    lines = [json.dumps({"x": i % 7, "y": i % 7 > 3}) for i in range(300)]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


MODEL = ("--model", "doubly-stochastic", "--set", "max_features=64")
RUN = ("run", "file:events.ndjson", "--label", "y", *MODEL, "--quiet")


@pytest.mark.usefixtures("home")
def test_the_commands_take_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--checkpoint", "state", "--state-key", "key"]) == 0
    assert main([*RUN, "--checkpoint", "state", "--state-key", "key"]) == 0
    assert main(["inspect", "state", "--state-key", "key"]) == 0
    assert "SHA-256 ok, signature ok" in capsys.readouterr().out
    assert main(["inspect", "state"]) == 0
    assert "SHA-256 ok, signature not checked" in capsys.readouterr().out
    assert main(["plot", "state", "--state-key", "key", "--to", "a.png"]) == 0
    live = ("predict", "state", "file:events.ndjson", "--quiet", "--to", "file:out.ndjson")
    assert main([*live, "--state-key", "key"]) == 0
    assert main([*live, "--checkpoint", "at", "--state-key", "key"]) == 0
    assert main(["inspect", "at", "--state-key", "key"]) == 0
    start = (*RUN, "--start-from", "state", "--checkpoint", "next", "--state-key", "key")
    assert main([*start]) == 0


def test_the_commands_refuse_what_the_key_did_not_sign(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--checkpoint", "state"]) == 0
    for arguments in (
        (*RUN, "--checkpoint", "state"),
        ("run", *RUN[1:4], "--quiet", "--checkpoint", "state"),
        (*RUN, "--start-from", "state", "--checkpoint", "next"),
        ("predict", "state", "file:events.ndjson", "--quiet"),
        ("inspect", "state"),
        ("plot", "state"),
    ):
        capsys.readouterr()
        assert main([*arguments, "--state-key", "key"]) == 1
        told = capsys.readouterr().err
        assert (
            "manifest.json: is not signed, but this run accepts only checkpoints signed with key"
            in told
        )
    (home / "job.toml").write_text('state-key = "key"\ncheckpoint = "state"\n')
    assert main([*RUN, "--config", "job.toml"]) == 1


@pytest.mark.usefixtures("home")
def test_a_key_that_is_missing_is_a_mistake_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in ((*RUN, "--checkpoint", "s"), ("inspect", "."), ("plot", ".")):
        assert main([*arguments, "--state-key", "kay"]) == 2
        assert "no state key kay; did you mean 'key'?" in capsys.readouterr().err
    assert main([*RUN, "--state-key", "key"]) == 2
    assert "needs --checkpoint or --start-from" in capsys.readouterr().err
