"""The engine: how fast it is, and how long an event takes.

rates    events/s from files and topics, beside what the client and the learner need alone
latency  event in to prediction out through Kafka, beside an echo by the same client

How each figure is taken stands above its part. A broker is started by demos/local_kafka.py, which
needs Java and Maven, unless --kafka names one; without any there are the figures from files only.
Contestants run in turn and repeatedly; tables give median and range.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import DataError, Dataset, Directory, load
from connectors.kafka import KafkaSink, KafkaSource
from connectors.kafka.client import (
    BATCH_BYTES,
    FETCH_MAX_BYTES,
    MAX_UNFLUSHED,
    PARTITION_FETCH_BYTES,
)
from connectors.memory import MemorySource
from connectors.registry import open_sink, open_source
from streamk.engine import Engine, Stream
from streamk.learners import Learner, create

# --- broker ---------------------------------------------------------------------------------------
#
# A broker, its topics, and its share of the processor.


@dataclass(frozen=True)
class Broker:
    """A broker that answers at an address; `pid` is known of one that was started here."""

    address: str
    pid: int | None = None

    def new_topic(self, **configs: str) -> str:
        """Make a topic of one partition."""
        from confluent_kafka.admin import AdminClient, NewTopic

        name = f"benchmark-{secrets.token_hex(6)}"
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, 1, 1, config=configs)])[name].result(60)
        return name

    def cpu_seconds(self) -> float | None:
        """Seconds of one core that the broker has used so far; None of one started elsewhere."""
        return None if self.pid is None else cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """Seconds of one core that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def broker(address: str | None) -> Iterator[Broker | None]:
    """The broker at the address given, else one of demos/local_kafka.py; None if there can be none.

    Why there is none is noted.
    """
    if address:
        yield Broker(address)
        return
    path = common.ROOT / "demos" / "local_kafka.py"
    spec = importlib.util.spec_from_file_location("local_kafka", path)
    assert spec is not None
    assert spec.loader is not None
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    lacks = local.missing()
    if lacks:
        common.note(f"no Kafka figures: needs {' and '.join(lacks)}, or --kafka HOST:PORT")
        yield None
        return
    with local.LocalKafka() as running:
        yield Broker(running.address, running.pid)


# --- clients --------------------------------------------------------------------------------------
#
# Plain readers and writers of one topic by librdkafka, as the connector uses it.
#
# They have the connector's settings (what is fetched at once, delivery to every in-sync replica
# without doubles, how long a batch may fill) and nothing around them: no decoding, no order over
# partitions, no positions.

CLIENT = "confluent"
READ_AT_ONCE = 4096
"""Records of one read."""
LINGER_MS = 2
"""How long a batch may fill, as in the connector."""

Take = Callable[[float], list[bytes]]
"""Returns the values of the next records, waiting so many seconds for the first."""
Headers = list[tuple[str, bytes]]


@contextlib.contextmanager
def reader(address: str, topic: str) -> Iterator[Take]:
    """Read the only partition of a topic from its start; fetching begins with the first call."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "benchmark",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "fetch.max.bytes": FETCH_MAX_BYTES,
            "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
            "queued.min.messages": 20_000,
            "queued.max.messages.kbytes": FETCH_MAX_BYTES >> 10,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.list_topics(topic, timeout=10)
    begun = False

    def take(timeout: float) -> list[bytes]:
        nonlocal begun
        if not begun:
            consumer.assign([TopicPartition(topic, 0, 0)])
            begun = True
        messages = consumer.consume(READ_AT_ONCE, 0.0)
        if not messages:
            first = consumer.poll(timeout)
            messages = [] if first is None else [first, *consumer.consume(READ_AT_ONCE - 1, 0.0)]
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [message.value() for message in messages]

    try:
        yield take
    finally:
        consumer.close()


class Writer:
    """Writes records to a topic; without `idempotent` they may come twice after an error."""

    def __init__(self, address: str, topic: str, *, idempotent: bool = True) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "enable.idempotence": idempotent,
                "batch.size": BATCH_BYTES,
                "linger.ms": LINGER_MS,
                "queue.buffering.max.messages": MAX_UNFLUSHED,
            }
        )
        self._producer.list_topics(topic, timeout=10)

    def send(self, value: bytes, headers: Headers) -> None:
        """Hand over a record."""
        while True:
            try:
                return self._producer.produce(self._topic, value, partition=0, headers=headers)
            except BufferError:
                self._producer.poll(0.1)

    def close(self) -> None:
        """Wait until everything is delivered."""
        left = self._producer.flush(120)
        assert not left, f"{left} records were not delivered"


def fill(address: str, topic: str, values: Sequence[bytes]) -> None:
    """Write records to the only partition of a topic."""
    one = Writer(address, topic)
    for value in values:
        one.send(value, [])
    one.close()


# --- events ---------------------------------------------------------------------------------------
#
# Data sets as events: dicts with their labels, and their JSON.

LABEL = "label"

Event = tuple[dict[str, Any], Any]


def load_events(name: str, directory: Directory, n: int, *, quick: bool) -> list[Event]:
    """The first n events of a set (0: all), None in place of what is missing."""
    data = load(name, directory, quick=quick).first(n)
    columns = [[None if v != v else v for v in column.tolist()] for column in data.X.T]
    rows = (dict(zip(data.columns, row, strict=True)) for row in zip(*columns, strict=True))
    return list(zip(rows, data.y.tolist(), strict=True))


def encoded(events: Iterable[Event]) -> list[bytes]:
    """Each event as a JSON object, the label among its fields."""
    encode = msgspec.json.Encoder().encode
    return [encode({**x, LABEL: label}) for x, label in events]


def encoded_rows(data: Dataset) -> list[bytes]:
    """The events of a set of numbers alone as JSON objects."""
    rows = data.X.tolist()
    assert not np.isnan(data.X).any(), data.name
    names = data.columns
    return encoded(
        (dict(zip(names, row, strict=True)), label)
        for row, label in zip(rows, data.y.tolist(), strict=True)
    )


def write(path: Path, values: Sequence[bytes]) -> None:
    """Write values as lines."""
    path.write_bytes(b"\n".join(values) + b"\n")


# --- latency --------------------------------------------------------------------------------------
#
# Event in to prediction out through Kafka, at fixed rates, beside an echo by the same client.
#
# A process produces events at a fixed rate, a second one runs the engine with its default model,
# but without a feature machine, and this one consumes the predictions. An event's latency runs from
# the moment at which it was due to be sent, also where the producer was late, to the moment at
# which its prediction was read. All clocks are the machine's one monotonic clock. The same with a
# plain loop in place of the engine, which sends every event back as it is, shows what Kafka, its
# client and the machine take; the client of that loop is the engine's, with the connector's
# settings. Producing and consuming is done by the connector's first choice for all.
#
# The process that sends shall leave the machine to those that are measured. It has the connector's
# linger, so that records travel by some together, and wakes once a millisecond. And it is not
# idempotent: librdkafka 2.16 has one request of an idempotent producer under way at a time, and
# waits for its answer busily once the linger of the next record is over. To send each record at
# once so took half a core, and half a core more of the broker for requests of one record.
#
# A third contestant is the echo that computes for an event as long as the engine did in that round
# more than the echo: it shows what any program waits that needs so much of the processor. The cores
# that each process used are in the results, not in the table.
#
# They take turns. A ratio is that of a round; the table has the medians of all rounds.

RATES = (100, 1_000, 10_000, 30_000)
"""Events/s."""
PERCENTILES = (50, 99)
WARM_UP = 8192
"""Events that are sent at once before those that are measured."""
LEAST_SLEEP = 1_000_000
"""Nanoseconds: what is due in so short a time is sent together."""
PATIENCE = 120.0
"""Seconds without a prediction after which the run is given up."""

Server = Callable[[str, str, str], None]


_PREFIX = {"engine": "", "busy echo": "busy_"}
"""Of the names of ratios to the echo."""


def measure_latency(
    broker: Broker, data: Dataset, seconds: float, rates: Sequence[int], rounds: int
) -> dict[str, Any]:
    """Latencies at each rate."""
    values = encoded_rows(data)
    few = data.first(WARM_UP)
    # What is compiled is kept: the processes that run the engine find it.
    Engine(
        MemorySource((few.X, few.y), columns=few.columns), _model(), stream=Stream(label=LABEL)
    ).run()
    # The broker compiles, too.
    _measure(broker, _echo, values, max(rates), round(max(rates) * seconds))
    cases = []
    for rate in rates:
        n = max(1, round(rate * seconds))
        common.note(f"  {rate:,} events/s")
        cases.append(_case(broker, values, rate, n, rounds))
    return {"seconds": seconds, "cases": cases}


def _case(broker: Broker, values: list[bytes], rate: int, n: int, rounds: int) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {"engine": [], "busy echo": [], "echo": []}
    for number in range(rounds):
        for name, serve in (("engine", _serve), ("echo", _echo)):
            found[name].append(_measure(broker, serve, values, rate, n))
        cores = (found[name][-1]["serves_cores"] for name in ("engine", "echo"))
        busy = partial(_echo, seconds=max(0.0, next(cores) - next(cores)) / rate)
        found["busy echo"].append(_measure(broker, busy, values, rate, n))
        for name, many in found.items():
            common.note(f"    round {number + 1}: {name}: {many[-1]}")
    ratios = {}
    for name, prefix in _PREFIX.items():
        for p in PERCENTILES:
            pairs = zip(found[name], found["echo"], strict=True)
            of_echo = (one[f"p{p}_ms"] / echo[f"p{p}_ms"] for one, echo in pairs)
            ratios[f"{prefix}p{p}"] = common.spread(of_echo)
    return {
        "rate": rate,
        "client": CLIENT,
        "events": n,
        "figures": {
            name: {key: common.spread(one[key] for one in many) for key in many[0]}
            for name, many in found.items()
        },
        "ratios": ratios,
    }


def _measure(
    broker: Broker, serve: Server, values: list[bytes], rate: int, n: int
) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    address, events, predictions = broker.address, broker.new_topic(), broker.new_topic()
    server = context.Process(target=serve, args=(address, events, predictions))
    server.start()
    mine, theirs = context.Pipe()
    warm, measured = _cut(values, 0, WARM_UP), _cut(values, WARM_UP, n)
    producer = context.Process(
        target=_produce, args=(address, events, warm, measured, rate, theirs)
    )
    producer.start()
    try:
        with reader(address, predictions) as take:
            _receive(take, WARM_UP)
            pids = {
                "serves": server.pid,
                "sends": producer.pid,
                "reads": os.getpid(),
                "broker": broker.pid,  # None of one started elsewhere
            }
            before = {name: cpu_seconds(pid) for name, pid in pids.items() if pid}
            mine.send("go")
            arrived = _receive(take, n)
            used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items() if pid}
        began, ended = mine.recv()
    finally:
        # SIGTERM: the engine stops in order; the producer may wait for a word that never comes.
        for process in (server, producer):
            process.terminate()
            process.join()
    waited = (arrived - began - np.arange(n) * (1e9 / rate)) / 1e6
    return {
        "sent_per_s": round((n - 1) / max(ended - began, 1) * 1e9, 1),
        **{f"p{p}_ms": round(float(np.percentile(waited, p)), 3) for p in PERCENTILES},
        "max_ms": round(float(waited.max()), 3),
        **{f"{name}_cores": round(seconds * rate / n, 3) for name, seconds in used.items()},
    }


def _cut(values: list[bytes], start: int, n: int) -> list[bytes]:
    """n values from a place on, around and around."""
    return [values[i % len(values)] for i in range(start, start + n)]


def _receive(take: Take, n: int) -> NDArray[np.int64]:
    """When each of the next n predictions arrives; they come in the order of their events."""
    arrived, done = np.empty(n, dtype=np.int64), 0
    patient_until = time.monotonic() + PATIENCE
    while done < n:
        found = len(take(0.1))
        now = time.monotonic_ns()
        assert done + found <= n, "an event was predicted twice"
        arrived[done : done + found] = now
        done += found
        if found:
            patient_until = time.monotonic() + PATIENCE
        elif time.monotonic() > patient_until:
            raise RuntimeError(f"{n - done} predictions did not come in {PATIENCE:g} s")
    return arrived


def _produce(
    address: str, topic: str, warm: list[bytes], measured: list[bytes], rate: int, pipe: Connection
) -> None:
    """Send the first events at once and, on the word, the others at the rate."""
    writer = Writer(address, topic, idempotent=False)
    for value in warm:
        writer.send(value, [])
    pipe.recv()
    began = time.monotonic_ns() + 10_000_000
    for number, value in enumerate(measured):
        ahead = began + number * 1_000_000_000 // rate - time.monotonic_ns()
        if ahead > 0:
            time.sleep(max(ahead, LEAST_SLEEP) / 1e9)
        writer.send(value, [])
    ended = time.monotonic_ns()
    writer.close()
    pipe.send((began, ended))


def _model() -> Learner:
    return create("multi-kernel", task="classification", external_experts=())


def _serve(address: str, events: str, predictions: str) -> None:
    """Run the engine until SIGTERM."""
    Engine(
        KafkaSource((address,), events),
        _model(),
        stream=Stream(label=LABEL),
        sink=KafkaSink((address,), predictions),
    ).run()


def _echo(address: str, events: str, predictions: str, *, seconds: float = 0.0) -> None:
    """Send each event back, until SIGTERM; compute for so many seconds of a core an event first."""
    writer = Writer(address, predictions)
    done = 0
    with reader(address, events) as take:
        while True:
            values = take(0.1)
            until = time.thread_time() + seconds * len(values)
            while seconds and time.thread_time() < until:
                pass
            for value in values:
                writer.send(value, [("streamk-offset", b"%d" % done)])
                done += 1


def render_latency(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    rows = []
    for case in found["cases"]:
        for name, figures in case["figures"].items():
            cells = [f"{figures[key]['median']:,.1f}" for key in ("p50_ms", "p99_ms", "max_ms")]
            known = name in _PREFIX
            ratios = [
                f"{case['ratios'][f'{_PREFIX[name]}p{p}']['median']:.2f}" if known else ""
                for p in PERCENTILES
            ]
            rows.append(
                [
                    f"{case['rate']:,} events/s, {case['client']}: {name}",
                    f"{figures['sent_per_s']['median']:,.0f}",
                    *cells,
                    *ratios,
                ]
            )
    header = ["event in to prediction out, ms", "sent/s", "p50", "p99", "max", "p50 ratio", "p99"]
    return common.table(header, rows)


# --- rates ----------------------------------------------------------------------------------------
#
# Events/s of the engine on elec2 as JSON, beside what the Kafka client and the learner need alone.
#
# The set is tiled four times. Each event is decoded, predicted and learned; where predictions are
# written, they go to a file of one JSON object a line or to a topic. A source is opened, and a
# client connected, before the clock starts; it stops when the last prediction is delivered.
#
# The learner alone takes arrays of 1,024 events from memory (`predict_then_learn_many`). The floors
# are the client's own: "reading" is a loop over the topic; "reading and writing" sends each record
# back, with one header, to another topic. Both have the connector's settings and nothing else.
#
# Beside the rates from topic to topic stands how many cores the broker and this process used
# meanwhile: where their sum is the number of cores of the machine, all of them run on it.

COPIES = 4
"""Times that the file and the topic hold the set, for a steadier figure."""
FEATURES = AT_ONCE = 1024


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("multi-kernel", {}),
    "no metric": ("multi-kernel", {"external_experts": ()}),
    "one kernel": ("doubly-stochastic", {"block_size": FEATURES, "max_features": FEATURES}),
}
"""As the table calls them; "no metric" is `streamk run --expert none`."""
FLOORS = "client alone"
ALONE, FROM_FILE, TO_FILE = "learner alone", "file", "file to file"
READING, ECHO = f"reading, {CLIENT}", f"reading and writing, {CLIENT}"
FROM_TOPIC, TO_TOPIC = f"topic, {CLIENT}", f"topic to topic, {CLIENT}"


def make(name: str) -> Learner:
    """A new model of the table."""
    model, options = MODELS[name]
    return create(model, task="classification", **options)


def measure_rates(broker: Broker | None, data: Dataset, rounds: int) -> dict[str, Any]:
    """Rates of all ways, and shares of the processor."""
    data = replace(data, X=np.tile(data.X, (COPIES, 1)), y=np.tile(data.y, COPIES))
    with tempfile.TemporaryDirectory() as directory:
        bench = _Bench(broker, data, Path(directory))
        contestants = bench.contestants()
        for name in MODELS:
            contestants[f"{name}: {FROM_FILE}"]()  # compiles
        bench.cores.clear()
        rates = common.in_turn(contestants, rounds)
    return {
        "events": len(data),
        "machine_cores": os.cpu_count(),
        "events_per_s": {name: common.spread(values) for name, values in rates.items()},
        "cores": {
            name: {who: common.spread(used) for who, used in found.items()}
            for name, found in bench.cores.items()
        },
    }


class _Bench:
    """The events in a file and a topic, and the ways to take them."""

    def __init__(self, broker: Broker | None, data: Dataset, directory: Path) -> None:
        self._broker, self._data = broker, data
        self._file, self._output = directory / "events.ndjson", directory / "predictions.ndjson"
        values = encoded_rows(data)
        write(self._file, values)
        if broker is not None:
            self._events, self._predictions = broker.new_topic(), broker.new_topic()
            fill(broker.address, self._events, values)
        self.cores: dict[str, dict[str, list[float]]] = {}

    def contestants(self) -> dict[str, Callable[[], float]]:
        """Functions that return events/s, by name."""
        found: dict[str, Callable[[], float]] = {}
        if self._broker is not None:
            found[f"{FLOORS}: {READING}"] = self._read
            name = f"{FLOORS}: {ECHO}"
            found[name] = partial(self._shared, name, self._echo)
        for name in MODELS:
            found |= self._of_model(name)
        return found

    def _of_model(self, model: str) -> dict[str, Callable[[], float]]:
        source, sink = f"file:{self._file}", f"file:{self._output}"
        found: dict[str, Callable[[], float]] = {
            f"{model}: {ALONE}": partial(self._alone, model),
            f"{model}: {FROM_FILE}": partial(self._engine, model, source),
            f"{model}: {TO_FILE}": partial(self._engine, model, source, sink),
        }
        if self._broker is not None:
            events, output = (
                f"kafka://{self._broker.address}/{topic}"
                for topic in (self._events, self._predictions)
            )
            found[f"{model}: {FROM_TOPIC}"] = partial(self._engine, model, events)
            name = f"{model}: {TO_TOPIC}"
            work = partial(self._engine, model, events, output)
            found[name] = partial(self._shared, name, work)
        return found

    def _shared(self, name: str, work: Callable[[], float]) -> float:
        """Return what the work returns; note the cores that the broker and this process used."""
        broker = self._broker
        assert broker is not None
        began, before, mine = time.perf_counter(), broker.cpu_seconds(), time.process_time()
        rate = work()
        seconds = time.perf_counter() - began
        used = self.cores.setdefault(name, {"process": []})
        used["process"].append((time.process_time() - mine) / seconds)
        after = broker.cpu_seconds()
        if before is not None and after is not None:
            used.setdefault("broker", []).append((after - before) / seconds)
        return rate

    def _alone(self, name: str) -> float:
        model, data = make(name), self._data
        X, y = data.X.astype(np.float64), data.y.tolist()
        model.add_columns(data.columns)

        def learn() -> None:
            for first in range(0, len(X), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                model.predict_then_learn_many(X[some], y[some])

        return len(data) / common.timed(learn)

    def _engine(self, name: str, source: str, sink: str | None = None) -> float:
        self._output.unlink(missing_ok=True)
        engine = Engine(
            open_source(source),
            make(name),
            stream=Stream(label=LABEL, until_end=True),
            sink=None if sink is None else open_sink(sink),
        )
        began = time.perf_counter()
        report = engine.run()
        seconds = time.perf_counter() - began
        assert report.counts.learned == len(self._data), report.counts
        return len(self._data) / seconds

    def _read(self) -> float:
        assert self._broker is not None
        with reader(self._broker.address, self._events) as take:
            began, left = time.perf_counter(), len(self._data)
            while left:
                left -= len(take(1.0))
            return len(self._data) / (time.perf_counter() - began)

    def _echo(self) -> float:
        assert self._broker is not None
        writer = Writer(self._broker.address, self._predictions)
        with reader(self._broker.address, self._events) as take:
            began, done = time.perf_counter(), 0
            while done < len(self._data):
                for value in take(1.0):
                    writer.send(value, [("streamk-offset", b"%d" % done)])
                    done += 1
            writer.close()
            return len(self._data) / (time.perf_counter() - began)


# --- the table ----------------------------------------------------------------------------------


def render_rates(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    rows = []
    for name, figure in found["events_per_s"].items():
        cores = found["cores"].get(name, {})
        used = [f"{cores[who]['median']:.2f}" if who in cores else "" for who in _WHO]
        rows.append([name, *common.ranged(figure), *used])
    title = f"{found['events']:,} events, events/s"
    rates = common.table([title, "median", "range", "cores", "broker's"], rows)
    text = (
        f"Events of elec2 as JSON. cores: used by this process, of {found['machine_cores']};"
        " broker's: by the broker meanwhile."
    )
    return f"{rates}\n{text}"


_WHO = ("process", "broker")


# --- the parts ------------------------------------------------------------------------------------

NAME = "engine"


def _rounds(options: argparse.Namespace) -> int:
    return 1 if options.quick else int(options.rounds)


def _rates(options: argparse.Namespace) -> dict[str, Any]:
    with broker(options.kafka) as running:
        data = load("elec2", options.data, quick=options.quick)
        return measure_rates(running, data, _rounds(options))


def _latency(options: argparse.Namespace) -> dict[str, Any]:
    with broker(options.kafka) as running:
        if running is None:
            raise DataError("latency needs a broker, see --help")
        data = load("elec2", options.data, quick=options.quick)
        wanted = RATES[:1] if options.quick else RATES
        seconds = 0.5 if options.quick else options.seconds
        return measure_latency(running, data, seconds, wanted, _rounds(options))


PARTS = {
    "rates": Part(_rates, render_rates),
    "latency": Part(_latency, render_latency),
}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker to use")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="a round of latency (default: %(default)s)"
    )


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("rounds", "seconds")}


render, run = common.topic(NAME, __doc__, PARTS, settings=_settings, rounds=5, add=_options)


if __name__ == "__main__":
    sys.exit(common.main(run))
