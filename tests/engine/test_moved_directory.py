"""A checkpoint directory that is taken away from a job that runs: it ends, and writes no more."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, ndjson

from streamk.engine.checkpoints import directory_store
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.store import Fenced
from streamk.engine.order.sequence import IdleAdvance
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
    assert "is not the directory any more that this job has locked" in err
    assert "Its last checkpoint is epoch 1" in err
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
        lambda: store.note([IdleAdvance("p", 1, 2)]),
        lambda: store.segments.write(b"events"),
        store._prune,
    ):
        with pytest.raises(Fenced, match="was moved away, removed or replaced"):
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
