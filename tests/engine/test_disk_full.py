"""Disks that are really full: limits of the system on files, and a file system without room."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from cli_kit import click_events, ndjson

from streamk.engine import newest_checkpoint

pytestmark = pytest.mark.slow

EVENTS = 4000
RUN = (
    *("run", "file:events.ndjson", "--label", "clicked", "--quiet"),
    *("--model", "doubly-stochastic", "--set", "max_features=4096"),
    *("--checkpoint-every", "200"),
)
STATE, OUT = ("--checkpoint", "disk/state"), ("--to", "file:disk/out.ndjson")


def streamk_command(*options: str) -> list[str]:
    return [sys.executable, "-m", "streamk", *RUN, *options]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the events, and with all that a run writes that has room."""
    home = tmp_path_factory.mktemp("plain")
    (home / "disk").mkdir()
    (home / "events.ndjson").write_bytes(ndjson(click_events(EVENTS)))
    subprocess.run(streamk_command(*STATE, *OUT), cwd=home, check=True, timeout=120)
    return home


def assert_same(disk: Path, plain: Path) -> None:
    """Model and predictions are those of a run that had room, bit for bit."""
    assert (disk / "out.ndjson").read_bytes() == (plain / "disk" / "out.ndjson").read_bytes()
    found, expected = (
        newest_checkpoint(at / "state" / "member-0") for at in (disk, plain / "disk")
    )
    assert found.model.header == expected.model.header
    model = "model.safetensors"
    assert (found.path / model).read_bytes() == (expected.path / model).read_bytes()


def assert_told(said: str, reason: str) -> None:
    assert "Traceback" not in said
    assert reason in said.splitlines()[-1], said


def test_files_that_may_not_grow(plain: Path, tmp_path: Path) -> None:
    """The sink's file comes to the limit that the system sets; later there is none."""
    shutil.copy(plain / "events.ndjson", tmp_path)
    (tmp_path / "disk").mkdir()
    size = (plain / "disk" / "out.ndjson").stat().st_size
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size // 2, size // 2))
    command = streamk_command(*STATE, *OUT)
    run = partial(subprocess.run, command, cwd=tmp_path, capture_output=True, text=True)
    done = run(preexec_fn=limit, timeout=120)
    assert done.returncode == 1
    assert_told(done.stderr, "out.ndjson: File too large")
    found = newest_checkpoint(tmp_path / "disk" / "state" / "member-0")
    assert 0 < found.body["feed"]["sequence"]["events"] < EVENTS
    assert run(timeout=120).returncode == 0
    assert_same(tmp_path / "disk", plain)


SCRIPT = """
mount -t tmpfs -o size="$SIZE" none disk || exit 77
"$@" 2> first.log; echo $? > first.status
mount -o remount,size=64m disk
"$@" 2> second.log; echo $? > second.status
cp -r disk kept
[ ! -f out.ndjson ] || cp out.ndjson kept
"""


@pytest.mark.parametrize(
    ("size", "to", "reason"),
    [
        ("300k", "file:disk/out.ndjson", "out.ndjson: No space left on device"),
        ("600k", "file:out.ndjson", "No space left on device; the checkpoint before it, "),
    ],
    ids=["predictions", "checkpoints"],
)
def test_a_file_system_without_room(
    plain: Path, tmp_path: Path, size: str, to: str, reason: str
) -> None:
    """A file system in memory, in a name space of the test's own, is full and grows later."""
    if shutil.which("unshare") is None:
        pytest.skip("a small file system is made by the command unshare, which is not here")
    shutil.copy(plain / "events.ndjson", tmp_path)
    (tmp_path / "disk").mkdir()
    command = streamk_command(*STATE, "--to", to)
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", *command],
        cwd=tmp_path,
        env={**os.environ, "SIZE": size},
        capture_output=True,
        text=True,
        timeout=240,
    )
    if done.returncode and not (tmp_path / "first.status").exists():
        pytest.skip(f"this system lets no user mount a file system: {done.stderr.strip()}")
    assert (tmp_path / "first.status").read_text() == "1\n"
    assert_told((tmp_path / "first.log").read_text(), reason)
    assert (tmp_path / "second.status").read_text() == "0\n", (tmp_path / "second.log").read_text()
    assert_same(tmp_path / "kept", plain)
