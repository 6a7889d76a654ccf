"""Events that wait for their labels survive crashes: predictions and model are the same bits."""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import forked_kit
import late_job
import numpy as np
import pytest
from engine_kit import Crash, CrashingSink, same_model
from late_kit import small_segments, waiting
from multi_kernel_kit import pool_alone

from connectors.memory import MemorySink
from streamk.distributed import Sharded
from streamk.engine import newest_checkpoint
from streamk.errors import StateError
from streamk.late.held import packed, record_type, unpacked
from streamk.serving.observing import Observer
from streamk.state import State


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("late")
    late_job.write(path)
    return path


def in_shards() -> Sharded:
    return Sharded(pool_alone(seed=1), shards=2, round_events=25)


@pytest.mark.parametrize(
    ("make", "rows", "revisions"),
    [
        pytest.param(lambda: None, 4, "ignore", marks=pytest.mark.nightly),
        (lambda: None, 4, "learn"),
        pytest.param(in_shards, 1 << 15, "ignore", marks=pytest.mark.nightly),
        pytest.param(in_shards, 4, "learn", marks=pytest.mark.nightly),
    ],
)
def test_crashes_leave_no_trace(
    files: Path, tmp_path: Path, make: Callable[[], Any], rows: int, revisions: str
) -> None:
    """Also where most of the events are in segments, though they were not when nothing crashed.

    The runs that crash are observed.
    """
    rng, plain, sink = random.Random(0), MemorySink(), CrashingSink()
    expected = late_job.engine(files, plain, model=make(), revisions=revisions).run()
    fates = expected.fates
    assert min(fates.joined, fates.early, fates.defaulted, fates.overflow, fates.too_late) > 0
    assert min(fates.duplicates, fates.duplicate_events, fates.conflicts + fates.revised) > 0
    assert (fates.revised > 0) == (revisions == "learn")
    crashes = 0
    while True:
        sink.left = rng.randrange(1, 5) if crashes < 4 else 10**9
        every = rng.choice([50, 100])
        options: Any = {"checkpoint": tmp_path, "checkpoint_every": every, "revisions": revisions}
        options["observer"] = Observer()
        with small_segments(rows):
            job = late_job.engine(files, sink, model=make(), **options)
            try:
                report = job.run()
                break
            except Crash:
                crashes += 1
    assert any((tmp_path / "member-0" / "held").glob("*")) == (rows == 4)
    assert crashes >= 2
    assert sink.outputs == plain.outputs
    assert same_model(report.model, expected.model)
    assert report.fates == fates
    assert report.counts == expected.counts
    assert report.whole == expected.whole
    assert report.history == expected.history
    assert report.schema == expected.schema


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rows", [pytest.param(1 << 15, marks=pytest.mark.nightly), 4])
def test_killed_at_random_moments(files: Path, tmp_path: Path, rows: int) -> None:
    """A real process, real files, SIGKILL; the other one is whole, and all in memory."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for path in (whole, killed):
        path.mkdir()
        for name in ("events.ndjson", "labels.ndjson"):
            shutil.copy(files / name, path / name)
    late_job.main(str(whole))
    rng = random.Random(7)
    command = [sys.executable, late_job.__file__, str(killed), str(rows)]
    for epoch in (2, 3, 4, None):
        with forked_kit.popen(command, cwd=Path(late_job.__file__).parent) as process:
            if epoch is None:
                assert process.wait() == 0
                break
            while process.poll() is None and _epoch(killed) < epoch:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.05))
            process.kill()
        assert process.returncode == -9
    a, b = (newest_checkpoint(path / "checkpoint" / "member-0") for path in (whole, killed))
    assert a is not None
    assert b is not None
    assert a.held is not None
    assert b.held is not None
    same = ["model.safetensors", "held.safetensors"][: 1 if rows == 4 else 2]
    for name in same:
        assert (a.path / name).read_bytes() == (b.path / name).read_bytes()
    assert waiting(a) == waiting(b)
    assert bool(b.segments) == (rows == 4)
    assert {**a.held.header, "segments": {}} == {**b.held.header, "segments": {}}
    assert a.body["training"] == b.body["training"]
    name = "predictions.ndjson"
    assert (whole / name).read_bytes() == (killed / name).read_bytes()


def _epoch(path: Path) -> int:
    found = (path / "checkpoint").glob("member-0/0*")
    return max((int(one.name) for one in found), default=0)


def test_a_changed_option_is_refused(files: Path, tmp_path: Path) -> None:
    late_job.engine(files, MemorySink(), checkpoint=tmp_path, max_events=300).run()
    job = late_job.engine(files, MemorySink(), checkpoint=tmp_path)
    job._config["labels"]["timeout"] = 5
    with pytest.raises(StateError, match="labels="):
        job.run()


def test_damaged_held_events_are_refused(files: Path, tmp_path: Path) -> None:
    job = late_job.engine(files, MemorySink(), checkpoint=tmp_path, max_events=400)
    job.run()
    trainer, found = job._trainer, newest_checkpoint(tmp_path / "member-0")
    assert found is not None
    assert found.held is not None
    held = found.held
    trainer.restore_held(held)
    events, n_said = unpacked(dict(held.arrays), "held events"), len(held.arrays["said_numbers"])
    assert len(events)
    assert n_said

    def changed(name: str, value: Any) -> dict[str, Any]:
        other = events.copy()
        other[name] = value
        return packed(other)

    damages: list[dict[str, Any]] = [
        packed(np.zeros(len(events), record_type(99, 3))),
        changed("P", 2.0),
        changed("said", 7.0),
        changed("number", 1 << 50),
        packed(events[1:]),
        {"layout": np.array([1, 1])},
        {"held": np.frombuffer(b'[["a", 1], ["a", 2]]', np.uint8)},
        {"early": np.frombuffer(b"[[", np.uint8)},
        {"over": np.zeros(3)},
        {"said_forecasts": np.full((n_said, 2, 1), 0.0, np.float32)},
        {"said_numbers": np.full(3, -1)},
    ]
    for damage in damages:
        with pytest.raises(StateError):
            trainer.restore_held(replace(held, arrays={**held.arrays, **damage}))
    for name in held.arrays:
        without = {other: array for other, array in held.arrays.items() if other != name}
        with pytest.raises(StateError):
            trainer.restore_held(State(held.header, without))
    for name in ("records", "number", "fates", "schema", "segments"):
        with pytest.raises(StateError):
            trainer.restore_held(replace(held, header={**held.header, name: "x"}))
    with pytest.raises(StateError, match="holds no waiting events"):
        trainer.restore_held(None)
