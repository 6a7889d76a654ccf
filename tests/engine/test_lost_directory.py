"""Directories that are taken away from a job that runs, and disks that are really full."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, ndjson

from streamk.engine import newest_checkpoint
from streamk.engine.checkpoints import directory_store
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.store import Fenced
from streamk.engine.order.sequence import Pass
from streamk.state import State

LINES = ndjson(click_events(3000)).splitlines(keepends=True)
EVERY = 100


def away(state: Path) -> Path:
    return state.with_name("away")


def moved(state: Path, what: str = ".") -> Path:
    """Move the directory, or one in it, away, and tell where to."""
    return (state / what).rename(away(state))


def lock(state: Path) -> Path:
    return state / "member-0" / "lock"


TAKEN: dict[str, Callable[[Path], object]] = {
    "moved": moved,
    "its slot moved": lambda state: moved(state, "member-0"),
    "removed": shutil.rmtree,
    "empty": lambda state: (moved(state), state.mkdir()),
    "copied": lambda state: shutil.copytree(moved(state), state),
    "linked": lambda state: (
        shutil.copytree(moved(state), state.with_name("other")),
        state.symlink_to("other"),
    ),
    "a file": lambda state: (moved(state), state.write_text("a file")),
    "another lock": lambda state: (lock(state).unlink(), lock(state).touch()),
    "a linked lock": lambda state: (
        lock(state).rename(state / "lock"),
        lock(state).symlink_to("../lock"),
    ),
    "no lock": lambda state: lock(state).unlink(),
}
KEPT: dict[str, Callable[[Path], object]] = {
    "put back": lambda state: moved(state).rename(state),
    "led to": lambda state: (moved(state), state.symlink_to("away")),
}


def tree(home: Path) -> dict[str, bytes | None]:
    """All that is there."""
    paths = (path for path in home.rglob("*") if path.name != "stderr")
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


class Job:
    """A job that reads a pipe."""

    def __init__(self, home: Path) -> None:
        self.slot = home / "state" / "member-0"
        options = ("--label", "clicked", "--checkpoint", "state", "--checkpoint-every", str(EVERY))
        self.process = forked_kit.popen(
            [sys.executable, "-m", "streamk", "run", "stdin:", *options, "--quiet"],
            cwd=home,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._n = 0

    def feed(self, events: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # it may have ended meanwhile
            for _ in range(events):
                self.process.stdin.write(LINES[self._n])
                self._n += 1
            self.process.stdin.flush()

    def feed_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, "it has ended"
            time.sleep(0.02)

    def saved(self, epoch: int) -> bool:
        return (self.slot / f"{epoch:08d}").exists()

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Job]]:
    jobs: list[Job] = []

    def begin() -> Job:
        jobs.append(Job(tmp_path))
        job = jobs[-1]
        job.feed(EVERY)
        job.feed_until(lambda: job.saved(1))
        return job

    yield begin
    for job in jobs:
        job.process.kill()
        job.process.communicate()


def at_night(kinds: Iterable[str], usual: str) -> list[Any]:
    """Parameters, of which all but one are left to the night: what follows tries each."""
    return [pytest.param(one, marks=() if one == usual else pytest.mark.nightly) for one in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("take", at_night(TAKEN, "copied"))
def test_a_job_whose_directory_was_taken_away_ends(
    start: Callable[[], Job], tmp_path: Path, take: str
) -> None:
    job = start()
    TAKEN[take](tmp_path / "state")
    before = tree(tmp_path)
    job.feed(2 * EVERY)
    status, err = job.end()
    assert status == 1
    assert "is no longer the directory that this job locked" in err
    assert "its last checkpoint is epoch 1" in err
    assert tree(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("keep", at_night(KEPT, "led to"))
def test_a_job_whose_path_leads_to_its_directory_goes_on(
    start: Callable[[], Job], tmp_path: Path, keep: str
) -> None:
    job = start()
    KEPT[keep](tmp_path / "state")
    job.feed(2 * EVERY)
    job.feed_until(lambda: job.saved(3))
    assert job.end() == (0, "")


@pytest.mark.slow
def test_of_two_jobs_the_one_that_has_the_path_goes_on(
    start: Callable[[], Job], tmp_path: Path
) -> None:
    first = start()
    moved(tmp_path / "state")
    second = start()
    first.feed(2 * EVERY)
    assert first.end()[0] == 1
    second.feed(2 * EVERY)
    second.feed_until(lambda: second.saved(3))
    assert second.end() == (0, "")
    assert not (away(tmp_path / "state") / "member-0" / "00000003").exists()


# --- each thing that is written or removed --------------------------------------------------------

MODEL = State({"type": "test", "format": 1}, {})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DirectoryStore]:
    """One with three checkpoints."""
    with contextlib.closing(DirectoryStore(tmp_path / "state")) as made:
        for n in range(3):
            made.save({"n": n}, MODEL)
        yield made


@pytest.mark.parametrize("take", TAKEN)
def test_nothing_is_written_or_removed(store: DirectoryStore, tmp_path: Path, take: str) -> None:
    TAKEN[take](tmp_path / "state")
    before = tree(tmp_path)
    for write in (
        lambda: store.save({"n": 4}, MODEL),
        lambda: store.write_passes([Pass("p", 1, 2)]),
        lambda: store.segments.write(b"events"),
        store._prune,
    ):
        with pytest.raises(Fenced, match="was moved, removed or replaced"):
            write()
    assert tree(tmp_path) == before


def test_it_is_looked_for_again_once_the_files_are_written(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = directory_store.write_file

    def meanwhile(path: Path, data: bytes) -> None:
        write(path, data)
        if path.name == "manifest.json":
            TAKEN["copied"](tmp_path / "state")

    monkeypatch.setattr(directory_store, "write_file", meanwhile)
    with pytest.raises(Fenced):
        store.save({}, MODEL)
    assert not (tmp_path / "state" / "member-0" / "00000004").exists()


def test_newer_ones_are_not_set_aside(store: DirectoryStore, tmp_path: Path) -> None:
    TAKEN["copied"](tmp_path / "state")
    before = tree(tmp_path)
    with pytest.raises(Fenced):
        store.open(lambda found: found.epoch < 3)
    assert tree(tmp_path) == before


# --- full disks -----------------------------------------------------------------------------------


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


@pytest.mark.slow
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


@pytest.mark.slow
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
