"""A consumer of a Kafka topic as a process of its own, to be stopped, killed and started again.

`Job` says what the process does; run as a program, this file does it. It tells how far it is on
its standard output, one JSON object a line, so that a test can strike by progress, not by time.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import forked_kit
import pytest
from engine_kit import attached

from connectors.base import Chunk, Output, Sink
from connectors.kafka import KafkaSink, KafkaSource
from connectors.registry import open_sink
from streamk.encoding import Schema
from streamk.engine import Checkpoint, newest_checkpoint
from streamk.learners import create

PATIENCE = 120.0
"""Seconds after which a process that shows no progress is a failure."""

BORN = 1_700_000_000_000
"""Timestamp of the first event, in milliseconds."""

Position = tuple[str, int]


@dataclass(frozen=True)
class Job:
    """What one process does: `Engine` on a topic, with a small model.

    `directory`: of checkpoints.
    `output, dead_letters`: addresses of sinks.
    `group, instance`: consumer group, and name of a static member in it.
    `protocol`: of the group.
    `client`: of Kafka, for the source and the sinks.
    `whim`: seed of random poll sizes.
    `strike`: the process kills itself the n-th time (from 1) that it comes to this point: before
      the operating system syncs a file ("fsync"), before or after a commit ("commit", "committed"),
      when a checkpoint asks the sink for its mark ("mark"), or when a transaction is about to be
      committed ("end", after the offsets of a group) or has been ("ended").
    `armed`: predictions that the process has written before it counts the points.
    `pause`: seconds to rest after each batch: a slow model.
    `options`: of the engine; a schema as JSON data.
    """

    address: str
    topic: str
    directory: str
    output: str | None = None
    dead_letters: str | None = None
    group: str | None = None
    instance: str | None = None
    protocol: str = "classic"
    client: str | None = None
    session_timeout: float = 6.0
    whim: int | None = None
    strike: tuple[str, int] | None = None
    armed: int = 0
    pause: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)

    def start(self) -> Process:
        return Process(self)

    def run(self) -> dict[str, Any]:
        """The report of a run that nothing disturbs."""
        with self.start() as process:
            return process.report()

    def but(self, **changes: Any) -> Job:
        return replace(self, **changes)


KEPT = {"retention.ms": "-1"}
"""The events are older than what a broker keeps by default."""
MakeTopic = Callable[..., str]


MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(
    kafka_address: str, kafka_topic: MakeTopic, kafka_client: str, tmp_path: Path
) -> MakeJob:
    """Make a job on a new topic, and new topics to write to, of so many partitions or none."""

    def made(
        partitions: int = 1, written: int = 1, dead: int = 0, configs: Any = KEPT, **fields: Any
    ) -> Job:
        topic, to = kafka_topic(partitions, **configs), {"output": written, "dead_letters": dead}
        sinks = {
            name: f"kafka://{kafka_address}/{kafka_topic(n, **KEPT)}" for name, n in to.items() if n
        }
        fields = {"client": kafka_client, **sinks, **fields}
        return Job(kafka_address, topic, str(tmp_path / "checkpoints"), **fields)

    return made


# --- in the test's process ------------------------------------------------------------------------


class Process:
    """A running `Job`."""

    def __init__(self, job: Job) -> None:
        self._log = Path(job.directory + ".log")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._popen = forked_kit.popen(
                [sys.executable, __file__, json.dumps(asdict(job))],
                cwd=Path(__file__).parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.written = 0
        """Predictions that this process has handed to its sink."""
        self.owned: tuple[str, ...] = ()
        """Partitions that it reads."""
        self._report: dict[str, Any] | None = None

    def _read(self) -> None:
        with self._popen.stdout as out:
            for line in out:
                self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, condition: Callable[[Process], bool]) -> bool:
        """Wait until the condition holds; False if the process ends before."""
        while not condition(self):
            try:
                line = self._lines.get(timeout=PATIENCE)
            except queue.Empty:
                pytest.fail(f"no progress in {PATIENCE} s; its log:\n{self.log[-4000:]}")
            if line is None:
                self._lines.put(None)
                return False
            if not line.endswith("\n"):
                continue  # cut short by a kill
            news = json.loads(line)
            self.written = news.get("written", self.written)
            self.owned = tuple(news.get("owned", self.owned))
            self._report = news.get("report")
        return True

    def until_written(self, count: int) -> bool:
        return self.until(lambda self: self.written >= count)

    def kill(self) -> None:
        """SIGKILL, as `kill -9`."""
        self._popen.kill()
        self.wait()

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def wait(self) -> int:
        """The exit status, once it has ended."""
        self.until(lambda _: False)
        self._reader.join()
        return self._popen.wait(PATIENCE)

    def report(self) -> dict[str, Any]:
        """What it says at its end, which must be a good one."""
        status = self.wait()
        assert status == 0, f"exit status {status}; its log:\n{self.log[-4000:]}"
        return self._report


def fill(
    address: str, topic: str, records: Iterable[tuple[int, int, bytes | None]], **options: Any
) -> None:
    """Write records (partition, timestamp, value), in this order."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, linger_ms=20, batch_size=1 << 18, **options)
    try:
        for partition, timestamp, value in records:
            key = b"key" if value is None else None  # only a key can be buried
            producer.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp)
        producer.flush()
    finally:
        producer.close()


def read_all(address: str, topic: str, isolation_level: str = "read_uncommitted") -> Iterator[Any]:
    """Every record of a topic."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=address,
        enable_auto_commit=False,
        fetch_max_bytes=64 << 20,
        isolation_level=isolation_level,
    )
    try:
        every = [TopicPartition(topic, n) for n in sorted(consumer.partitions_for_topic(topic))]
        ends = consumer.end_offsets(every)
        consumer.assign(every)
        consumer.seek_to_beginning(*every)
        deadline = time.monotonic() + PATIENCE
        while any(consumer.position(tp) < ends[tp] for tp in every):
            assert time.monotonic() < deadline, f"topic {topic} cannot be read to its end"
            for records in consumer.poll(200, max_records=10_000).values():
                yield from records
    finally:
        consumer.close()


def outputs(
    address: str, topic: str, isolation_level: str = "read_uncommitted"
) -> dict[Position, list[dict[str, Any]]]:
    """What an output topic says of each input, in the order of writing."""
    found: dict[Position, list[dict[str, Any]]] = defaultdict(list)
    for record in read_all(address, topic, isolation_level):
        headers = dict(record.headers)
        names = ("streamk-offset", "streamk-partition", "streamk-topic", "streamk-writer")
        assert tuple(sorted(headers)) == names
        partition = b"%s:%s" % (headers["streamk-topic"], headers["streamk-partition"])
        found[partition.decode(), int(headers["streamk-offset"])].append(json.loads(record.value))
    return dict(found)


def output_topic(job: Job) -> str:
    """The topic that a job writes to."""
    return job.output.rpartition("/")[2].partition("?")[0]


def newest(directory: str | Path, member: int = 0) -> Checkpoint:
    """The checkpoint that a member would go on from."""
    return newest_checkpoint(Path(directory) / f"member-{member}")


def assert_same(report: dict[str, Any], job: Job, expected: dict[str, Any], plain: Job) -> None:
    """Model, counts, figures and all events are those of another run, to the last bit."""
    for same in ("events", "counts", "n_events", "whole", "learned", "lost"):
        assert report[same] == expected[same]
    a, b = newest(plain.directory), newest(job.directory)
    assert a.model.header == b.model.header
    assert a.body["training"] == b.body["training"]
    model = "model.safetensors"
    assert (a.path / model).read_bytes() == (b.path / model).read_bytes()


def killed(job: Job, plan: Sequence[tuple[str, int] | None], size: int, seed: int) -> list[int]:
    """Kill a job by strikes, and by SIGKILL where there is none; return how far each had come.

    The latter come after some batches and a bit, so that all kills together span the run of so
    many events; some strike while the process is still starting.
    """
    rng, found_at = random.Random(seed), [0]
    for whim, strike in enumerate(plan):
        with job.but(whim=whim, strike=strike).start() as process:
            if strike is None:
                left = (size - found_at[-1]) / (len(plan) - whim + 2)
                process.until_written(int(rng.uniform(-0.1, 2.1) * left))
                time.sleep(rng.uniform(0, 0.05))
                process.kill()
            assert process.wait() == -9, f"{strike}\n{process.log[-2000:]}"
        member = Path(job.directory) / "member-0"
        last = newest_checkpoint(member) if member.is_dir() else None
        found_at.append(last.body["feed"]["sequence"]["events"] if last else 0)
    return found_at


def assert_as_undisturbed(job: Job, report: dict[str, Any], *, once: bool = False) -> None:
    """Model, counts and predictions, each written `once`, are those of a run without trouble."""
    plain = job.but(directory=job.directory + "-plain", output=None, group=None, pause=0.0)
    assert_same(report, job, plain.run(), plain)
    written = outputs(job.address, output_topic(job))
    assert sorted(written) == positions(report["learned"])
    assert all(value == found[0] for found in written.values() for value in found)
    assert not once or {len(found) for found in written.values()} == {1}


def every(job: Job) -> list[Position]:
    """Every position of the topic."""
    with contextlib.closing(KafkaSource((job.address,), job.topic)) as source:
        return positions({name: [[0, source.end(name)]] for name in source.partitions()})


def owns(n: int) -> Callable[[Process], bool]:
    """Whether a process reads so many partitions."""
    return lambda process: len(process.owned) == n


def positions(learned: Mapping[str, Sequence[Sequence[int]]]) -> list[Position]:
    """Every offset in a table of ranges, as often as it is in it."""
    return sorted(
        (name, offset)
        for name, ranges in learned.items()
        for start, stop in ranges
        for offset in range(start, stop)
    )


def stream(
    count: int, shares: Sequence[float], *, seed: int = 0, first: int = 0
) -> Iterator[tuple[int, int, bytes]]:
    """JSON events in partitions of unequal rates, whose times interleave and sometimes go back.

    Yields (partition, timestamp, value). From the middle on a new column comes up.
    """
    rng = random.Random(seed)
    numbers = range(len(shares))
    for i in range(first, first + count):
        a, b = rng.uniform(-2, 2), rng.uniform(-2, 2)
        label = "far" if a * a + b * b > 3 else "up" if a * b > 0 else "down"
        late = f', "late": {rng.uniform(-1, 1):.4f}' if i >= count / 2 else ""
        value = f'{{"a": {a:.5f}, "b": {b:.5f}, "c": "{rng.choice("xyz")}"{late}, "y": "{label}"}}'
        (partition,) = rng.choices(numbers, shares)
        yield partition, BORN + 10 * i - rng.randrange(60), value.encode()


# --- in the process of the job --------------------------------------------------------------------


def _tell(**news: Any) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


class _Striker:
    """Ends the process with SIGKILL the n-th time that it comes to a point."""

    def __init__(self, strike: tuple[str, int] | None, armed: int) -> None:
        self._point, self._left = strike or ("", 0)
        self._armed = armed
        self.written = 0

    def __call__(self, point: str) -> None:
        if point == self._point and self.written >= self._armed:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


class _Source(KafkaSource):
    """Asks for a random number of events each time, if it has a whim."""

    def set_up(self, whim: int | None, striker: _Striker) -> Self:
        self._whim = None if whim is None else random.Random(whim)
        self._striker = striker
        self._raised_by: tuple[str, ...] = ()
        return self

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        if self._whim is not None:
            # Sizes of every order: from single events to more than was asked for.
            max_events = round(10 ** self._whim.uniform(0, 4))
        chunks = super().poll(max_events, timeout)
        if self._raised_by != self.partitions():
            self._raised_by = self.partitions()
            _tell(owned=self._raised_by)
        return chunks

    def commit(self, offsets: Mapping[str, int], metadata: Mapping[str, str]) -> None:
        self._striker("commit")
        super().commit(offsets, metadata)
        self._striker("committed")


class _ToldSink:
    """Passes on to a sink and tells how much."""

    def __init__(self, inner: Sink, pause: float, striker: _Striker) -> None:
        self._inner, self._pause, self._striker = inner, pause, striker
        self.flush, self.rewind, self.close = inner.flush, inner.rewind, inner.close
        if isinstance(inner, KafkaSink):
            self.address, self.transact = inner.address, inner.transact

    def write(self, outputs: Sequence[Output]) -> None:
        self._inner.write(outputs)
        self._striker.written += len(outputs)
        _tell(written=self._striker.written)
        time.sleep(self._pause)

    def mark(self) -> Any:
        self._striker("mark")
        return self._inner.mark()


def _count_commits(striker: _Striker) -> None:
    """Count the commits of transactions, whatever client makes them."""
    from connectors.kafka.confluent_client import _Producer as confluent
    from connectors.kafka.python_client import _Producer as python

    for producer in (confluent, python):

        def counted(self: Any, commit: Callable[[Any], None] = producer.commit) -> None:
            striker("end")
            commit(self)
            striker("ended")

        producer.commit = counted  # type: ignore[method-assign]


def _count_fsyncs(striker: _Striker) -> None:
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        striker("fsync")
        fsync(descriptor)

    os.fsync = counted


def _open_sink(job: Job, url: str) -> Sink:
    by = {"client": job.client} if job.client and url.startswith("kafka:") else {}
    return open_sink(url, **by)


def work(job: Job) -> None:
    striker = _Striker(job.strike, job.armed)
    _count_fsyncs(striker)
    if "transactions" in job.options:
        _count_commits(striker)
    options = {"label": "y", "checkpoint": job.directory, **job.options}
    if "schema" in options:
        options["schema"] = Schema.from_json(options["schema"])
    if job.output is not None:
        options["sink"] = _ToldSink(_open_sink(job, job.output), job.pause, striker)
    if job.dead_letters is not None:
        options["dead_letters"] = _open_sink(job, job.dead_letters)
    of_model = {"seed": 5, "max_features": 64, "block_size": 64}
    model = create("doubly-stochastic", task="classification", **of_model)
    source = _Source(
        (job.address,),
        job.topic,
        group=job.group,
        group_instance_id=job.instance,
        group_protocol=job.protocol,
        session_timeout=job.session_timeout if job.protocol == "classic" else None,
        client=job.client,
    )
    with contextlib.closing(source.set_up(job.whim, striker)):
        report = attached(source, model, **options).run()
    names = ("stopped", "events", "events_now", "whole", "learned", "lost", "epoch")
    told = {name: getattr(report, name) for name in names}
    _tell(report={**told, "counts": asdict(report.counts), "n_events": report.model.n_events})


def main() -> None:
    raw = json.loads(sys.argv[1])
    raw["strike"] = raw["strike"] and tuple(raw["strike"])
    work(Job(**raw))


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("streamk").setLevel(logging.INFO)
    main()
