"""The exit status of what cannot be followed is 2, and a message names the place and the fix."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from connectors.registry import open_sink
from streamk.cli import main
from streamk.engine import newest_checkpoint
from streamk.engine.checkpoints.directory_store import DirectoryStore

RUN = ("run", "file:events.ndjson", "--label", "y")
ONE_KERNEL = (*RUN, "--model", "doubly-stochastic", "--set")

WRONG: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no command": (("rum",), ("no command 'rum'", "run")),
    "no source": (("run",), ("no SOURCE is given", "file:events.ndjson")),
    "flag": ((*RUN, "--lable", "z"), ("no option '--lable'", "--label", "--help")),
    "flag by its value": ((*RUN, "--sink", "z"), ("no option '--sink'; there is --to SINK",)),
    "value": ((*RUN, "--seed", "x"), ("--seed", "whole number", "'x'")),
    "missing file": (
        ("run", "file:event.ndjson", "--label", "y"),
        ("event.ndjson", "'events.ndjson'"),
    ),
    "scheme": (("run", "kafak://h/t", "--label", "y"), ("no connector 'kafak'", "kafka")),
    "no scheme": (
        ("run", "events.ndjson", "--label", "y"),
        ("is no address", "file:events.ndjson"),
    ),
    "no host": (("run", "kafka://", "--label", "y"), ("kafka://HOST:PORT/TOPIC",)),
    "address option": (
        ("run", "file:events.ndjson?folow=1", "--label", "y"),
        ("'folow'", "'follow'"),
    ),
    "sink": ((*RUN, "--to", "nope:x"), ("no connector 'nope'", "stdout")),
    "sink is a directory": ((*RUN, "--to", "file:empty"), ("empty", "Is a directory")),
    "label of a header": (("run", "csv:table.csv", "--label", "z"), ("label 'z'", "header")),
    "task": ((*RUN, "--task", "regresion"), ("'regresion'", "'regression'")),
    "task of the label": (
        (*RUN, "--task", "regression"),
        ("not a number", "check the label"),
    ),
    "model": ((*RUN, "--model", "multikernel"), ("'multikernel'", "multi-kernel")),
    "option": ((*RUN, "--set", "los=huber"), ("--set los", "loss")),
    "option of another model": ((*RUN, "--set", "kernel=rbf"), ("--model doubly-stochastic",)),
    "option's value": ((*ONE_KERNEL, "kernel=gausian"), ("'gausian'", "'gaussian'")),
    "option's domain": ((*ONE_KERNEL, "bandwidth=-1"), ("bandwidth=-1.0", "positive")),
    "no configuration": ((*RUN, "--config", "no.toml"), ("no.toml",)),
    "configuration": ((*RUN, "--config", "text"), ("text is not valid TOML", "line 1")),
    "schema": ((*RUN, "--schema", "text"), ("text is not JSON", "line 1")),
    "no schema": ((*RUN, "--schema", "no.json"), ("no.json", "open", "strict")),
    "checkpoint is a file": ((*RUN, "--checkpoint", "text"), ("text is a file", "directory")),
    "start from nothing": ((*RUN, "--start-from", "empty"), ("empty holds no checkpoint",)),
    "inspect what is not there": (("inspect", "nothing"), ("no checkpoint nothing",)),
    "inspect no checkpoint": (("inspect", "empty"), ("empty holds no checkpoint", "--checkpoint")),
    "inspect a file": (("inspect", "text"), ("text is a file", "directory")),
    "predict by nothing": (("predict", "empty", "file:events.ndjson"), ("holds no checkpoint",)),
    "flag of another command": (("models", "--bogus"), ("no option '--bogus'",)),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    events = [{"a": n % 5, "y": n % 5 > 2} for n in range(20)]
    Path("events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    Path("table.csv").write_text("a,y\n1,2\n")
    Path("text").write_text("some text\n")
    Path("empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(("arguments", "named"), WRONG.values(), ids=list(WRONG))
@pytest.mark.usefixtures("here")
def test_what_is_wrong_is_named(
    arguments: tuple[str, ...], named: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith(("streamk", "Try 'streamk"))
    assert "Traceback" not in said
    assert "unexpected" not in said
    for words in named:
        assert words in said


@pytest.mark.usefixtures("here")
def test_a_damaged_checkpoint_fails_while_running(capsys: pytest.CaptureFixture[str]) -> None:
    assert main((*RUN, "--checkpoint", "state")) == 0
    found = newest_checkpoint(Path("state"))
    assert found is not None
    assert found.path.parent == Path("state/member-0")
    assert main(("inspect", "state")) == 0
    (found.path / "manifest.json").write_text("{}")
    assert main(("inspect", "state")) == 1
    assert "damaged: " in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_second_process_of_one_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    job = (*RUN, "--checkpoint", "state", "--to", "file:out.ndjson")
    first = DirectoryStore("state")
    assert main(job) == 1
    said = capsys.readouterr().err
    assert f"in use by process {os.getpid()} on" in said
    assert "another checkpoint directory" in said
    first.close()
    assert main(job) == 0
    assert len(Path("out.ndjson").read_text().splitlines()) == 20
    sink = open_sink("file:out.ndjson")
    assert main((*RUN, "--to", "file:out.ndjson")) == 2
    assert "out.ndjson is being written by another sink or process" in capsys.readouterr().err
    sink.close()


@pytest.mark.usefixtures("here")
def test_rbf_is_a_kernel() -> None:
    assert main((*ONE_KERNEL, "kernel=rbf", "--set", "gamma=2")) == 0
