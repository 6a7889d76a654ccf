"""A job that saves in an object store and is killed while it does, and two jobs on one address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_job
import forked_kit
import pytest
from object_store_kit import S3, s3_server

from streamk.engine import Checkpoint, newest_checkpoint
from streamk.engine.checkpoints.places import location
from streamk.packing import fingerprint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that nothing disturbs."""
    directory = tmp_path_factory.mktemp("whole")
    engine_job.main(str(directory), whim=0)
    return directory


def newest(place: Any) -> Checkpoint:
    return newest_checkpoint(location(place))


def started(
    directory: Path, address: str, whim: int, number: int = 10**9, moment: str = "before"
) -> forked_kit.Popen:
    command = [sys.executable, engine_job.__file__, str(directory), str(whim)]
    command += ["doubly-stochastic", address, str(number), moment]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return forked_kit.popen(command, cwd=Path(engine_job.__file__).parent, **pipes)


def alike(a: Checkpoint, b: Checkpoint) -> None:
    """Check that two checkpoints hold the same, bit by bit."""
    assert fingerprint(a.model) == fingerprint(b.model)
    assert a.body["training"] == b.body["training"]
    assert a.body["feed"] == b.body["feed"]


# A run writes its start (1), then for each checkpoint the arrays, the manifest and the name of the
# current one, and from the third one on it removes an older one in two steps.
STRIKES = [
    (1, "after"),
    (2, "half"),
    (3, "before"),
    (3, "after"),
    (4, "half"),
    (9, "after"),
    (11, "before"),
    (12, "after"),
]


def test_killed_at_any_moment_of_saving(s3: S3, whole: Path, tmp_path: Path) -> None:
    address = s3.address()

    for whim, (number, moment) in enumerate(STRIKES):
        with started(tmp_path, address, whim, number, moment) as job:
            _, err = job.communicate(timeout=120)
            assert job.returncode == -9, err
    with started(tmp_path, address, 99) as job:
        _, err = job.communicate(timeout=120)
        assert job.returncode == 0, err

    alike(newest(whole / "checkpoint" / "member-0"), newest(address))
    name = "predictions.ndjson"
    assert (whole / name).read_bytes() == (tmp_path / name).read_bytes()


# Before the arrays of the second checkpoint, before its manifest, before the current one's name.
@pytest.mark.parametrize(
    "number", [5, *(pytest.param(n, marks=pytest.mark.nightly) for n in (6, 7))]
)
def test_of_two_jobs_the_one_that_began_last_goes_on(
    s3: S3, whole: Path, tmp_path: Path, number: int
) -> None:
    address = s3.address()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with started(tmp_path / "first", address, 1, number, "pause") as first:
        assert first.stdout.readline() == b"waiting\n"
        with started(tmp_path / "second", address, 2) as second:
            second.communicate(timeout=120)
            assert second.returncode == 0
        _, err = first.communicate(b"go on\n", 120)
        assert first.returncode == 1
        assert f"Fenced: process {second.pid} on " in err.decode()
    alike(newest(whole / "checkpoint" / "member-0"), newest(address))
