"""The exit status of what goes wrong while a job runs, and what is said of it."""

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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    events = [{"a": n % 5, "y": n % 5 > 2} for n in range(20)]
    Path("events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    return tmp_path


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
    settings = ("--set", "kernel=rbf", "--set", "gamma=2")
    assert main((*RUN, "--model", "doubly-stochastic", *settings)) == 0
