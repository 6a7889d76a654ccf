"""After a crash at any moment a run goes on as if nothing had happened."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import engine_job
import forked_kit
import pytest
from engine_kit import (
    BATCH,
    Crash,
    CrashingSink,
    WhimsicalSource,
    attached,
    events,
    learner,
    reseal,
    same_model,
    split,
)

from connectors.base import Chunk, Output
from connectors.errors import ConnectorError
from connectors.memory import MemorySink, MemorySource
from streamk.engine import Engine, newest_checkpoint, read_checkpoint
from streamk.engine.checkpoints import directory_store as checkpoint
from streamk.engine.checkpoints.store import Store
from streamk.errors import EngineError, StateError
from streamk.learners import MultiKernel, Scaled

N = 400


def engine(source: Any, directory: Path | None, model: Any = None, **options: Any) -> Engine:
    options = {"label": "y", "ignore": ("id",), "until_end": True, **options}
    options = {"checkpoint_every": 3 * BATCH, **options}
    return attached(source, model or learner(), checkpoint=directory, **options)


class Topic:
    """Partitions that fill up by a plan, and how much of each has arrived."""

    def __init__(self, rng: random.Random) -> None:
        self.data, self.times = split(N, 3, seed=rng.randrange(1000))
        self.arrived = dict.fromkeys(self.data, 0)
        self.rng = rng

    def arrive(self) -> None:
        name = self.rng.choice(sorted(self.data))
        more = self.rng.randint(0, 25)
        self.arrived[name] = min(len(self.data[name]), self.arrived[name] + more)

    def complete(self) -> bool:
        return all(self.arrived[name] == len(self.data[name]) for name in self.data)


class LiveSource(WhimsicalSource):
    """Reads from a `Topic`; each poll lets a little more arrive."""

    def __init__(self, topic: Topic, whim: int) -> None:
        super().__init__(topic.data, timestamps=topic.times, whim=whim, live=True)
        self.topic = topic

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        self.topic.arrive()
        at = dict(self._next)
        kept = []
        for chunk in super().poll(max_events, 0):
            name = chunk.partition
            n = min(len(chunk), self.topic.arrived[name] - at[name])
            self._next[name] = at[name] + max(n, 0)
            if n > 0:
                kept.append(chunk.slice(0, n))
        return kept

    def end(self, partition: str) -> int:
        return self.topic.arrived[partition]

    def finished(self) -> bool:
        return self.topic.complete() and self.lag() == 0


class KeepingSink(CrashingSink):
    """Like a topic: what was written stays, also what is written last before a crash."""

    def write(self, outputs: Sequence[Output]) -> None:
        MemorySink.write(self, outputs)
        self.left -= 1
        if self.left < 0:
            raise Crash

    def mark(self) -> Any:
        return None


def survives(seed: int, place: Any, crashed: Callable[[], object] = lambda: None) -> int:
    """Run a job on partitions that fall silent until it has crashed enough; return how often.

    Every event was predicted, and where a crash made it be predicted again, the same way.
    """
    rng = random.Random(seed)
    topic, sink, crashes = Topic(rng), KeepingSink(), 0
    while True:
        source = LiveSource(topic, rng.randrange(100))
        sink.left = rng.randrange(12) if crashes < 8 else 10**9
        try:
            report = engine(source, place, sink=sink, until_end=False, idle_timeout=0).run()
            break
        except Crash:
            crashes += 1
            crashed()
    assert report.counts.learned == report.events == N
    values = defaultdict(list)
    for output in sink.outputs:
        values[output.partition, output.offset].append(output.value)
    assert len(values) == N
    assert max(map(len, values.values())) > 1
    assert all(value == found[0] for found in values.values() for value in found)
    return crashes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(25))
def test_passing_over_silent_partitions_survives_crashes(seed: int, tmp_path: Path) -> None:
    assert survives(seed, tmp_path)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(
    "model", ["doubly-stochastic", pytest.param("feature-machine", marks=pytest.mark.nightly)]
)
def test_killed_at_random_moments(model: str, tmp_path: Path) -> None:
    """A real process, real files, SIGKILL."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    engine_job.main(str(whole), 0, model)

    rng = random.Random(7)
    kills = 0
    for whim in range(200):
        command = [sys.executable, engine_job.__file__, str(killed), str(whim), model]
        with forked_kit.popen(command, cwd=Path(engine_job.__file__).parent) as process:
            if kills < 6:
                member = killed / "checkpoint" / "member-0"
                while not member.exists() and process.poll() is None:
                    time.sleep(0.01)
                try:
                    process.wait(rng.uniform(0.0, 0.35))
                except subprocess.TimeoutExpired:
                    process.kill()
                    kills += 1
        if process.returncode == 0:
            break
        assert process.returncode == -9
    assert kills >= 3

    a, b = (newest_checkpoint(d / "checkpoint" / "member-0") for d in (whole, killed))
    name = "model.safetensors"
    assert (a.path / name).read_bytes() == (b.path / name).read_bytes()
    assert a.model.header == b.model.header
    assert a.body["training"] == b.body["training"]
    assert a.body["feed"] == b.body["feed"]
    name = "predictions.ndjson"
    assert (whole / name).read_bytes() == (killed / name).read_bytes()
    assert (whole / name).read_bytes().count(b"\n") == engine_job.EVENTS


# --- what may change between runs, and what may not --------------------------------------------


def first_part(tmp_path: Path, **options: Any) -> Any:
    return engine(MemorySource(events(100)), tmp_path, max_events=5 * BATCH, **options).run()


def test_a_limit_counts_from_the_beginning(tmp_path: Path) -> None:
    assert first_part(tmp_path).events == 5 * BATCH
    assert first_part(tmp_path).events_now == 0
    report = engine(MemorySource(events(100)), tmp_path).run()
    assert (report.events, report.events_now) == (100, 100 - 5 * BATCH)


def test_a_finished_job_goes_on_with_what_was_added(tmp_path: Path) -> None:
    engine(MemorySource(events(40)), tmp_path).run()
    report = engine(MemorySource(events(40) + events(20, first=40)), tmp_path).run()
    assert report.events == 60
    assert report.events_now == 20


def test_a_resumed_model_works_where_it_was_told_to(tmp_path: Path) -> None:
    """Device and threads are in no state; they are those of the run that goes on."""

    def model() -> MultiKernel:
        expert = learner(threads=1, loss="logistic")
        return MultiKernel(external_experts=[expert], threads=1)

    place = {"threads": 1, "placings": [{"threads": 1, "backend": "auto"}]}
    engine(MemorySource(events(40)), tmp_path, model()).run()
    report = engine(MemorySource(events(60)), tmp_path, model()).run()
    assert report.events_now == 20
    assert report.model.placing == place
    scaled = Scaled(learner(threads=1))
    assert Scaled.from_state(scaled.state(), **scaled.placing).placing == place["placings"][0]


def test_the_end_of_a_crashed_job_stays(tmp_path: Path) -> None:
    sink = CrashingSink()
    sink.left = 1
    with pytest.raises(Crash):
        engine(MemorySource(events(60)), tmp_path, sink=sink).run()
    sink.left = 10**9
    report = engine(MemorySource(events(90)), tmp_path, sink=sink).run()
    assert report.events == 60


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"schema": "strict"}, "schema='open', but this run has 'strict'"),
        ({"label": "c"}, "label='y', but this run has 'c'"),
        ({"model": learner(regularization=0.5)}, r"regularization=0\.0, but this run has 0\.5"),
        ({"model": Scaled(learner())}, "type='doubly-stochastic', but this run has 'scaled'"),
        ({"model": Scaled(MultiKernel())}, "but this run has 'multi-kernel'"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, options: dict[str, Any], match: str) -> None:
    first_part(tmp_path)
    with pytest.raises(StateError, match=match + "; use the same options, also those of its model"):
        engine(MemorySource(events(100)), tmp_path, **options).run()


def test_checkpoints_fall_at_exact_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "keep", 50)
    for most in (37, 61, 100):
        engine(MemorySource(events(100)), tmp_path, max_events=most).run()
    found = [read_checkpoint(tmp_path / "member-0" / f"{epoch:08d}") for epoch in range(1, 6)]
    counts = [one.body["feed"]["sequence"]["events"] for one in found]
    assert counts == [0, 37, 48, 61, 96]


def test_another_source_is_refused(tmp_path: Path) -> None:
    first_part(tmp_path)
    with pytest.raises(EngineError, match="has read partition '0', which the source does not"):
        engine(MemorySource({"1": events(100)}), tmp_path).run()


def test_a_trained_model_can_go_on(tmp_path: Path) -> None:
    trained = engine(MemorySource(events(50)), None).run().model
    model = type(trained).from_state
    state = trained.state()
    part = engine(MemorySource(events(60, seed=4)), tmp_path, model(state), max_events=32).run()
    report = engine(MemorySource(events(60, seed=4)), tmp_path, model(state)).run()
    plain = engine(MemorySource(events(60, seed=4)), None, model(state)).run()
    assert part.events == 32
    assert same_model(report.model, plain.model)


def full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_ends_the_run_with_the_old_checkpoint_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the grace, in events; at once where there is none, or when the run ends."""

    def job(**options: Any) -> Engine:
        return engine(MemorySource(events(1000)), tmp_path, progress_interval=0.0, **options)

    job(max_events=48).run()
    before, seen = names(tmp_path / "member-0"), list[int]()
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_file", full)
        for grace, least, most in ((0, 0, 100), (200, 200, 400), (10**6, 999, 1001)):
            options = {"on_progress": lambda s: seen.append(s.events), "checkpoint_grace": grace}
            with pytest.raises(EngineError, match="No space left on device"):
                job(**options).run()
            assert names(tmp_path / "member-0") == before
            assert least < seen[-1] < most
    assert job().run().events == 1000


def test_a_disk_that_is_full_for_a_while_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, tried = checkpoint.write_file, []

    def full_at_first(path: Path, data: bytes) -> None:
        tried.append(path.parent.name)
        if len(tried) <= 2:
            full()
        write(path, data)

    engine(MemorySource(events(250)), tmp_path, max_events=48).run()
    monkeypatch.setattr(checkpoint, "write_file", full_at_first)
    report = engine(MemorySource(events(250)), tmp_path).run()
    plain = engine(MemorySource(events(250)), None).run()
    assert same_model(report.model, plain.model)
    assert len(tried) > 3
    first, last = [text for text in caplog.messages if "checkpoint" in text]
    assert "No space left on device" in first
    assert "retrying every second while the run goes on, for at most 999,952 events" in first
    assert last.startswith("checkpoints can be written again; one was written after ")


def test_the_checkpoint_needs_the_sink(tmp_path: Path) -> None:
    """A checkpoint never says more than the sink has."""

    class Lossy(MemorySink):
        def mark(self) -> Any:
            raise ConnectorError("3 outputs were lost")

    with pytest.raises(ConnectorError, match="were lost"):
        engine(MemorySource(events(100)), tmp_path, sink=Lossy()).run()
    assert newest_checkpoint(tmp_path / "member-0") is None


@pytest.mark.parametrize("spot", ["feed sequence", "training metrics", "training schema"])
def test_a_damaged_body_is_refused(tmp_path: Path, spot: str) -> None:
    first_part(tmp_path)
    found, (part, name) = newest_checkpoint(tmp_path), spot.split()
    body = {**found.body, part: {**found.body[part], name: {"partitions": {}}}}
    reseal(found.path, engine=body)
    # Those before it would be taken, were it damaged as a file.
    with pytest.raises(StateError, match="checkpoint"):
        engine(MemorySource(events(100)), tmp_path).run()
