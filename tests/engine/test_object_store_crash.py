"""A job that saves in an object store and is killed while it does, and two jobs on one address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_job
import object_store_job
import pytest
from object_store_kit import S3, s3_server

from streamk.engine import Checkpoint, newest_checkpoint
from streamk.engine.checkpoints.object_path import location
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
    found = newest_checkpoint(location(place))
    assert found is not None
    return found


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

    def run(whim: int, number: int, moment: str) -> int:
        command = [sys.executable, object_store_job.__file__, str(tmp_path), address]
        command += [str(whim), str(number), moment]
        return subprocess.run(command, cwd=Path(engine_job.__file__).parent, check=False).returncode

    for whim, (number, moment) in enumerate(STRIKES):
        assert run(whim, number, moment) == -9
    assert run(99, 10**9, "before") == 0

    a, b = newest(whole / "checkpoint" / "member-0"), newest(address)
    assert fingerprint(a.model) == fingerprint(b.model)
    assert a.body["training"] == b.body["training"]
    assert a.body["feed"] == b.body["feed"]
    name = "predictions.ndjson"
    assert (whole / name).read_bytes() == (tmp_path / name).read_bytes()
