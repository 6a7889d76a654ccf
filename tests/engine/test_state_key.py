"""Signed checkpoints: what was not signed with the run's key is refused, every byte of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from engine_kit import events, reseal, run, same_model
from test_engine_group import heir, learned

import streamk
from streamk.cli import main
from streamk.engine import Key, Untrusted, newest_checkpoint, read_checkpoint
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.order.sequence import IdleAdvance
from streamk.errors import InvalidInput, StateError
from streamk.state import State


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
        (b"k" * 32, 0o640, r"open to others than its owner \(mode 0640\); run: chmod 600 .*/key"),
        (b"k" * 32, 0o604, r"mode 0604"),
        (b"k" * 31, 0o600, r"has 31 bytes, where 32 to 65,536 are needed; make one: .*urandom"),
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
    with pytest.raises(InvalidInput, match="needs a place of checkpoints or start_from="):
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
    with pytest.raises(Untrusted, match=r"is signed, and what this run writes would not be"):
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
    with pytest.raises(StateError, match="SHA-256 is not the manifest's"):
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

PASSES = [IdleAdvance("t:0", 5, 100), IdleAdvance("t:1", 6, 200), IdleAdvance("t:2", 7, 300)]


def signed_store(directory: Path, key: Path | None) -> DirectoryStore:
    store = DirectoryStore(directory, key=None if key is None else Key.read(key))
    if store.open() is None:
        store.save({}, State({"type": "test", "format": 1}))
    return store


def test_a_signed_journal_is_read_back(tmp_path: Path, key: Path) -> None:
    store = signed_store(tmp_path / "state", key)
    store.note(PASSES[:1])
    store.close()
    store = signed_store(tmp_path / "state", key)
    store.note(PASSES[1:])
    assert store.noted() == PASSES
    path = store.path / "00000001.journal"
    path.write_bytes(path.read_bytes()[:-3])  # as a crash leaves it
    assert store.noted() == PASSES[:2]
    store.note(PASSES[2:])
    assert store.noted() == PASSES
    store.close()


def test_lines_of_others_in_a_signed_journal_are_refused(tmp_path: Path, key: Path) -> None:
    store = signed_store(tmp_path / "state", key)
    store.note(PASSES)
    path = store.path / "00000001.journal"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    other = signed_store(tmp_path / "other", None)
    other.note(PASSES[:1])
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
            store.noted()
    path.write_bytes(first + second + third)
    path.rename(store.path / "00000002.journal")  # of another epoch
    with pytest.raises(Untrusted, match="line 1 is not signed"):
        store.noted()
    (other.path / "00000001.journal").write_bytes(first)
    with pytest.raises(Untrusted, match="line 1 is signed; give the key"):
        other.noted()
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
        assert "manifest.json: is not signed, and this run takes what was signed with key" in told
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
