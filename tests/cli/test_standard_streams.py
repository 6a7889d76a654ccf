"""Standard streams that are closed or break end no job; where they are the data, an error says so.

Each command runs in a shell, which closes its streams as supervisors and pipes do.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import streamk

from connectors.errors import Unavailable
from connectors.stdio import StdinSource, StdoutSink
from streamk import cli

N = 40
RUN = "run csv:events.csv --label y --model doubly-stochastic --set max_features=64"
ALL = "<&- >&- 2>&-"
WAYS = [">&-", "2>&-", "<&-", ALL, ">/dev/full", "2>/dev/full", "| true", "2>&1 | true"]
JOBS = {
    "run": f"{RUN} --to file:new.ndjson --checkpoint new",
    "run in JSON": f"{RUN} --to file:new.ndjson --json",
    "run quietly": f"{RUN} --to file:new.ndjson --quiet",
    "predict": "predict state csv:events.csv --to file:new.ndjson",
    "compile": "compile state csv:events.csv --to new.safetensors",
    "plot": "plot state --to new.png",
}
"""Commands that leave something behind, "new" in its name, whatever becomes of their streams."""


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("learned")
    rows = "".join(f"{n % 7},{n % 2}\n" for n in range(N))
    (home / "events.csv").write_text(f"x,y\n{rows}")
    streamk(*RUN.split(), "--checkpoint", "state", cwd=home)
    return home


@pytest.fixture
def home(learned: Path, tmp_path: Path) -> Path:
    for name in ("events.csv", "state"):
        (tmp_path / name).symlink_to(learned / name)
    return tmp_path


def shell(line: str, home: Path) -> tuple[int, str, str]:
    """Return the status of the command in a line of bash, what it wrote, and its errors."""
    command = f"{sys.executable} -m streamk {line}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=home, capture_output=True, text=True, timeout=180, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.one_in(12)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("job", list(JOBS))
def test_a_job_does_its_work_whatever_its_streams_are(job: str, way: str, home: Path) -> None:
    status, _, err = shell(f"{JOBS[job]} {way}", home)
    assert status == 0, err
    assert not {"Traceback", "unexpected", "Exception"} & {*err.split()}
    (made,) = (path for path in home.glob("new.*"))
    if made.suffix == ".ndjson":
        rows = [json.loads(line) for line in made.read_text().splitlines()]
        assert [row["offset"] for row in rows] == list(range(N))
    else:
        assert made.stat().st_size > 1000


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("inspect state >&-", "standard output is closed"),
        ("models >/dev/full", "standard output cannot be written: No space"),
        ("--version >&-", "standard output is closed"),
        ("run --help >/dev/full", "standard output cannot be written: No space"),
        (f"{RUN} --to stdout: >&-", "standard output is closed"),
        (f"{RUN} --to stdout: >/dev/full", "standard output cannot be written: No space"),
        (f"{RUN} --to stdout: | true", "the reader of standard output has gone"),
        ("run stdin: --label y <&-", "standard input is closed"),
        ("run csv:events.csv --label y --key x --labels stdin: <&-", "standard input is closed"),
        ("run stdin: --label y 0>written", "standard input cannot be read: Bad file descriptor"),
    ],
)
def test_a_stream_that_is_asked_for_and_cannot_be_used_is_an_error(
    line: str, says: str, home: Path
) -> None:
    status, _, err = shell(line, home)
    assert status in (1, 2)
    last = err.splitlines()[-1]
    assert says in last
    assert last.startswith("streamk")
    assert "unexpected" not in err


@pytest.mark.parametrize("show", ["inspect state", "models"])
def test_a_reader_that_has_enough_is_no_error(show: str, home: Path) -> None:
    assert shell(f"{show} | true", home) == (0, "", "")


def test_a_report_that_is_lost_is_told(home: Path) -> None:
    status, _, err = shell(f"{RUN} >/dev/full", home)
    assert (status, "output cannot be written: No space" in err) == (0, True)
    assert "Exception ignored" not in err
    assert shell(f"{RUN} --quiet >&-", home) == (0, "", "")


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("out", ["--to=stdout:", "--alarms=stdout:", "--to=file:new.ndjson"])
def test_no_progress_is_among_outputs_on_a_terminal(
    out: str, terminal: bool, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for stream in (sys.stdout, sys.stderr):
            patch.setattr(stream, "isatty", lambda: terminal)
        assert cli.main([*RUN.split(), out]) == 0
    found = capsys.readouterr().err
    progress = re.search(r"\d events  ", found) is not None
    assert progress is not (terminal and "stdout" in out)


@pytest.mark.parametrize("out", ["", "--to=stdout:"])
def test_quiet_shows_nothing_of_what_went_well(out: str, home: Path) -> None:
    told = shell(f"{RUN} --quiet {out} >/dev/null", home)
    assert told == (0, "", "")


IN_PLACE = """
import os, sys
from streamk.cli import standing
with standing():
    files = [open("new.txt", "w") for _ in range(2)]
    assert all(file.fileno() > 2 for file in files)
    print("to standard output"), print("to standard error", file=sys.stderr)
    os.write(1, b"of a library"), os.write(2, b"of a library")
    assert os.system("echo of another process && echo and its errors >&2 && cat") == 0
assert (sys.stdin, sys.stdout, sys.stderr) == (None, None, None)
"""


def test_no_file_gets_what_is_written_to_a_closed_stream(home: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" -c "$1" {ALL}', sys.executable, IN_PLACE], cwd=home, check=False
    )
    assert done.returncode == 0
    assert (home / "new.txt").read_text() == ""


def test_errors_are_not_written_among_predictions(home: Path) -> None:
    status, out, _ = shell(f"{RUN} --to stdout: 2>&-", home)
    assert status == 0
    assert [json.loads(line)["offset"] for line in out.splitlines()] == list(range(N))
    assert shell("run csv:absent.csv --label y 2>&-", home) == (2, "", "")


def test_connectors_refuse_streams_that_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    for opened, name in ((StdinSource, "input"), (StdoutSink, "output")):
        with pytest.raises(Unavailable, match=f"standard {name} is closed"):
            opened()
    with os.fdopen(os.open(os.devnull, os.O_RDONLY), "rb") as stream:
        sink = StdoutSink(stream)
        with pytest.raises(Unavailable, match="standard output cannot be written"):
            sink.write([])
