"""Framed records of a real broker, with their schemas in a registry that comes and goes.

They are read as the events that they hold; predictions are written once, and read back exactly.
"""

from __future__ import annotations

import functools
import io
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import forked_kit
import pytest
from cli_kit import click_events, streamk
from crash_kit import BORN, fill, read_all
from engine_kit import attached
from kafka_kit import read, until
from schema_kit import Registry, avro_record, record_schema

from connectors.base import Chunk, Output
from connectors.errors import BadRecord
from connectors.fields import Field, RecordType
from connectors.kafka import KafkaSink, KafkaSource
from connectors.memory import MemorySink, MemorySource
from connectors.records import FRAME_BYTES, framed, json_body, schema_id_of
from connectors.registry import open_source
from connectors.schemas.protobuf import ProtobufSchema, as_output
from streamk.engine.training.outputs import prediction_type
from streamk.kernels import Gaussian
from streamk.late import LateLabels
from streamk.late.source import JoinedSource
from streamk.learners import DoublyStochastic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

SECOND_PATH = "/schemas/ids/2"
FIRST = record_schema(
    ("age", "int"), ("seconds", "double"), ("device", "string"), ("clicked", "boolean")
)
SECOND = record_schema(
    ("seconds", "double"),
    {"name": "years", "aliases": ["age"], "type": "long"},
    ("device", ["null", "string"]),
    ("clicked", ["null", "boolean"]),
)
SCORE = RecordType("Score", (Field("value", 1, "number"),))
JOB = ("--label", "clicked", "--until-end", "--quiet", "--max-skew", "inf")


class Broker:
    """Topics, and a registry with two schemas unless it is to be empty."""

    def __init__(self, address: str, topic: Callable[..., str], registry: Registry) -> None:
        self.address, self.topic, self.registry = address, topic, registry

    def filled(self, values: list[bytes]) -> str:
        """A new topic of some records."""
        topic = self.topic(**{"retention.ms": "-1"})
        fill(self.address, topic, ((0, BORN + i, value) for i, value in enumerate(values)))
        return topic

    def url(self, topic: str, encoding: str = "") -> str:
        schemas = f"?encoding={encoding}&schemas={self.registry.address}" if encoding else ""
        return f"kafka://{self.address}/{topic}{schemas}"

    def source(self, topic: str, encoding: str = "avro") -> KafkaSource:
        schemas = self.registry.address if encoding == "avro" else None
        return KafkaSource((self.address,), topic, encoding=encoding, schemas=schemas)

    def sink(self, topic: str, record: RecordType, encoding: str = "avro") -> KafkaSink:
        schemas = self.registry.address
        one = KafkaSink((self.address,), topic, encoding=encoding, schemas=schemas)
        one.declare(record)
        return one

    def written(self, topic: str, encoding: str) -> list[dict[str, Any]]:
        return [READ[encoding](one.value, self) for one in read_all(self.address, topic)]


@pytest.fixture
def empty(kafka_address: str, kafka_topic: Callable[..., str]) -> Iterator[Broker]:
    with Registry() as registry:
        yield Broker(kafka_address, kafka_topic, registry)


@pytest.fixture
def broker(empty: Broker) -> Broker:
    empty.registry.add(1, FIRST)
    empty.registry.add(2, SECOND)
    return empty


def small() -> DoublyStochastic:
    return DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=256)


def records(n: int, change: int) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Events, and their records: from `change` on those of the second schema."""
    events = click_events(n)
    values = [avro_record(1, FIRST, event) for event in events[:change]]
    for event in events[change:]:
        renamed = {"years" if name == "age" else name: value for name, value in event.items()}
        values.append(avro_record(2, SECOND, renamed))
    return events, values


def numbers(chunks: list[Chunk]) -> list[int]:
    return [int(offset) for chunk in chunks for offset in chunk.offsets]


@pytest.mark.usefixtures("kafka_client")
def test_records_whose_schema_cannot_be_had_are_read_later(broker: Broker) -> None:
    _, values = records(30, 20)
    topic = broker.filled([*values, b"none", *values])
    registry = broker.registry
    with closing(broker.source(topic)) as source:
        registry.gone = {SECOND_PATH}
        first = read(source, 20)
        while (trouble := source.trouble()) is None:
            first += source.poll(1000, 0.2)
        assert trouble.short == "registry gone"
        assert numbers(first) == list(range(20))
        assert source.position(f"{topic}:0") == 20
        assert source.lag() in (41, None)
        assert source.poll(1000, 0.05) == []
        registry.gone = set()
        rest = read(source, 41)
        assert numbers(rest) == list(range(20, 61))
        assert source.trouble() is None
        reading = source.record_format.reading(frozenset)
        assert reading(rest[0].values[0]).keys() == {"seconds", "years", "device", "clicked"}
        source.seek(f"{topic}:0", 10)
        assert numbers(read(source, 51)) == list(range(10, 61))


def test_older_records_after_newer_ones_have_the_names_of_the_readers_schema(
    broker: Broker,
) -> None:
    _, values = records(20, 10)
    topic = broker.filled(values[::-1])
    source = open_source(f"{broker.url(topic, 'avro')}&reader_schema=2")
    report = attached(source, small(), label="clicked", until_end=True).run()
    assert report.counts.learned == 20
    assert {name.partition("=")[0] for name in report.schema.columns} == {
        *("years", "seconds", "device")
    }


def test_events_and_labels_have_formats_of_their_own(broker: Broker) -> None:
    kind = record_schema(
        ("id", "int"), ("when", {"type": "long", "logicalType": "timestamp-millis"})
    )
    broker.registry.add(3, kind)
    events = broker.filled(
        [avro_record(3, kind, {"id": i, "when": BORN + 1000 * i}) for i in range(3)]
    )
    label = framed(9, b'{"id": 1, "when": %d, "y": 1}' % (BORN + 5))
    labels = broker.filled([label])
    with (
        closing(broker.source(events)) as one,
        closing(broker.source(labels, "json-schema")) as other,
    ):
        LateLabels(other, key="id", time="when").check(one, "y")
        both = JoinedSource(one, other, time="when")
        assert both.record_format is one.record_format
        chunks = read(both, 4)
        times = {chunk.partition: chunk.timestamps.tolist() for chunk in chunks}
    assert times[f"stream/{events}:0"] == [BORN, BORN + 1000, BORN + 2000]
    assert times[f"labels/{labels}:0"] == [BORN + 5]


PROTO = """
syntax = "proto3";
import "parts/device.proto";
message Other {}
message Click { int32 age = 1; double seconds = 2; Device device = 3; optional bool clicked = 4; }
"""
DEVICE = 'syntax = "proto3"; message Device { oneof of { string name = 1; } }'


def as_protobuf(events: list[dict[str, Any]], folder: Path) -> tuple[list[bytes], dict[str, str]]:
    pytest.importorskip("grpc_tools", reason="protoc is not installed: streamk[schemas]")
    from google.protobuf.message_factory import GetMessageClass

    (folder / "parts").mkdir()
    (folder / "parts" / "device.proto").write_text(DEVICE)
    (folder / "5.proto").write_text(PROTO)
    schema = ProtobufSchema(PROTO, {"parts/device.proto": DEVICE})
    click = GetMessageClass(schema.message((1,)))
    messages = [click(**{**event, "device": {"name": event["device"]}}) for event in events]
    values = [framed(5, b"\2\2" + message.SerializeToString()) for message in messages]
    return values, {"encoding": "protobuf", "schemas": str(folder)}


def as_json_schema(events: list[dict[str, Any]], _: Path) -> tuple[list[bytes], dict[str, str]]:
    values = [framed(5, json.dumps(event).encode()) for event in events]
    return values, {"encoding": "json-schema"}


@pytest.mark.parametrize("written", [as_protobuf, as_json_schema])
def test_other_formats_are_learned_as_the_same_events_in_memory(
    broker: Broker, tmp_path: Path, written: Any
) -> None:
    events = click_events(300)
    values, options = written(events, tmp_path)
    topic = broker.filled([*values[:200], b"\0\0", *values[200:]])
    if written is as_protobuf:
        events = [{**event, "device": {"name": event["device"]}} for event in events]
    found = []
    for source in (KafkaSource((broker.address,), topic, **options), MemorySource(events)):
        sink = MemorySink()
        report = attached(source, small(), label="clicked", sink=sink, until_end=True).run()
        found.append([output.value for output in sink.outputs])
        assert report.counts.learned == 300
    assert found[0] == found[1]


# --- the command ----------------------------------------------------------------------------------


def outputs(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for output in found:
        output["partition"] = output["partition"].rpartition(":")[2]
    return found


def test_the_command_predicts_avro_as_the_same_events_in_json(
    broker: Broker, tmp_path: Path
) -> None:
    """Also where it goes on from a checkpoint; what cannot be read is a dead letter."""
    events, values = records(400, 250)
    bad = {50: b"", 120: b"\1\0\0\0\1", 260: values[0][:-1], 270: values[0] + b"\0"}
    bad[300] = framed(77, b"")
    for i, value in bad.items():
        values[i] = value
    avro = broker.filled(values)
    as_json = [json.dumps(event).encode() for event in events]
    plain = broker.filled([b"{" if i in bad else e for i, e in enumerate(as_json)])
    source = broker.url(avro, "avro")
    streamk(
        *("run", broker.url(plain), *JOB),
        *("--to", "file:plain.ndjson", "--dead-letters", "file:plain-bad.ndjson"),
        cwd=tmp_path,
    )
    job = ("--to", "file:avro.ndjson", "--dead-letters", "file:avro-bad.ndjson")
    for limit in (("--max-events", "180"), ("--max-events", "290"), ()):
        streamk("run", source, *JOB, *job, "--checkpoint", "state", *limit, cwd=tmp_path)
    assert outputs(tmp_path / "avro.ndjson") == outputs(tmp_path / "plain.ndjson")
    letters = [json.loads(line) for line in (tmp_path / "avro-bad.ndjson").read_text().splitlines()]
    assert [letter["offset"] for letter in letters] == sorted(bad)
    reasons = [letter["reason"].removeprefix("undecodable: ") for letter in letters]
    assert [reason[:22] for reason in reasons] == [
        "0 bytes, but a frame w",
        "the first byte is 1, n",
        "its 21 bytes do not fi",
        "1 bytes follow the rec",
        "schema 77 is unknown t",
    ]
    streamk(
        *("predict", "state", source, "--until-end", "--quiet", "--to", "file:again.ndjson"),
        cwd=tmp_path,
    )
    assert len(outputs(tmp_path / "again.ndjson")) == 400 - len(bad)


def running(arguments: Sequence[str], folder: Path) -> forked_kit.Popen:
    command = [sys.executable, "-m", "streamk", *arguments]
    with (folder / "log").open("wb") as log:
        return forked_kit.popen(command, cwd=folder, stderr=log)


def begun(arguments: Sequence[str], folder: Path) -> forked_kit.Popen:
    """The command, when it waits for the registry; what it writes to stderr is in the file log."""
    run = running(arguments, folder)
    log = folder / "log"
    until(lambda: "no schema registry answers at" in log.read_text(), log.read_text, run)
    return run


@pytest.mark.slow
def test_a_run_waits_for_a_registry_and_goes_on_after_a_kill(
    broker: Broker, tmp_path: Path
) -> None:
    _, values = records(900, 500)
    topic = broker.filled(values)
    registry, common = broker.registry, ("run", broker.url(topic, "avro"), *JOB[:3], *JOB[4:])
    streamk(*common, "--quiet", "--to", "file:whole.ndjson", cwd=tmp_path)
    job = (*common, "--checkpoint", "state", "--checkpoint-every", "100", "--to", "file:out.ndjson")
    registry.gone = {SECOND_PATH}
    waiting = begun(job, tmp_path)
    waiting.send_signal(signal.SIGKILL)
    assert waiting.wait() == -signal.SIGKILL
    waiting = begun(job, tmp_path)
    registry.gone = set()
    assert waiting.wait(120) == 0
    assert "answers again, after" in (tmp_path / "log").read_text()
    assert outputs(tmp_path / "out.ndjson") == outputs(tmp_path / "whole.ndjson")


@pytest.mark.slow
def test_a_run_that_waits_ends_gently(broker: Broker, tmp_path: Path) -> None:
    _, values = records(100, 60)
    topic = broker.filled(values)
    broker.registry.gone = {SECOND_PATH}
    job = ("run", broker.url(topic, "avro"), "--label", "clicked", "--to", "file:out.ndjson")
    waiting = begun(job, tmp_path)
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) == 0
    assert len(outputs(tmp_path / "out.ndjson")) == 60


# --- predictions --------------------------------------------------------------------------------


@pytest.fixture
def clicks(empty: Broker) -> str:
    """The address of a topic of events, some of which cannot be used."""
    values = [json.dumps(event).encode() for event in click_events(400)]
    values[100] = b"{"
    return empty.url(empty.filled(values))


def expected(source: str, folder: Path, *more: str) -> list[dict[str, Any]]:
    """What the same job writes to a file."""
    streamk("run", source, *more, "--to", "file:plain.ndjson", cwd=folder)
    places = ("partition", "offset", "timestamp", "key")
    rows = [json.loads(line) for line in (folder / "plain.ndjson").read_text().splitlines()]
    return [{name: row[name] for name in row if name not in places} for row in rows]


def avro(value: bytes, broker: Broker) -> dict[str, Any]:
    schema = json.loads(broker.registry.schemas[f"/schemas/ids/{schema_id_of(value)}"]["schema"])
    body = io.BytesIO(value[FRAME_BYTES:])
    return fastavro.schemaless_reader(body, fastavro.parse_schema(schema))  # type: ignore[return-value]


def protobuf(value: bytes, broker: Broker) -> dict[str, Any]:
    text = broker.registry.schemas[f"/schemas/ids/{schema_id_of(value)}"]["schema"]
    record = prediction_type(("prediction_set",), classification=True, revised=False)
    return as_output(compiled(text).read(value), record)


compiled = functools.cache(ProtobufSchema)


def of_json(value: bytes, _: Broker) -> dict[str, Any]:
    return json.loads(json_body(value))  # type: ignore[no-any-return]


READ = {"avro": avro, "json-schema": of_json, "protobuf": protobuf}


@pytest.mark.parametrize("encoding", READ)
def test_predictions_are_those_of_a_file_once_each(
    encoding: str, empty: Broker, clicks: str, tmp_path: Path
) -> None:
    """Also where the job goes on from a checkpoint."""
    job = (*JOB, "--prediction-set", "0.9")
    plain = expected(clicks, tmp_path, *job)
    topic = empty.topic()
    to = empty.url(topic, encoding)
    for limit in (("--max-events", "250"), ()):
        streamk("run", clicks, *job, "--to", to, "--checkpoint", "state", *limit, cwd=tmp_path)
    assert empty.written(topic, encoding) == plain
    assert len(empty.registry.subjects[f"{topic}-value"]) == 1


def test_a_schema_of_before_is_read_by_itself(
    empty: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = empty.topic()
    more = RecordType("Score", (*SCORE.fields, Field("more", 2, "text")))
    sinks = [empty.sink(topic, record) for record in (SCORE, more)]
    mark = sinks[0].mark()
    sinks[0].write([Output("a", i, 0, None, {"value": 0.5}) for i in range(5)])
    sinks[0].close()
    sinks[1].rewind(mark)
    sinks[1].write([Output("a", i, 0, None, {"value": 0.5, "more": ""}) for i in range(7)])
    sinks[1].close()
    assert len(list(read_all(empty.address, topic))) == 7
    assert "differs from its record" in caplog.text


def test_what_the_format_cannot_hold_is_told_with_its_place(empty: Broker) -> None:
    sink = empty.sink(empty.topic(), SCORE)
    with pytest.raises(BadRecord, match="output for a offset 7 cannot be written as Avro: could"):
        sink.write([Output("a", 7, 0, None, {"value": "text"})])
    sink.close()


def test_dead_letters_have_a_schema_too_and_predictions_are_events(
    empty: Broker, clicks: str, tmp_path: Path
) -> None:
    """A second job learns from the predictions of the first one."""
    predicted, letters = empty.topic(), empty.topic()
    to = ("--to", empty.url(predicted, "avro"), "--dead-letters", empty.url(letters, "avro"))
    streamk("run", clicks, *JOB, *to, cwd=tmp_path)
    (letter,) = empty.written(letters, "avro")
    assert (letter["offset"], letter["kind"], letter["value"]) == (100, "undecodable", "{")
    assert letter["size"] is None
    again = ("--label", "prediction", "--until-end", "--quiet", "--max-skew", "inf")
    report, _ = streamk("run", empty.url(predicted, "avro"), *again, "--json", cwd=tmp_path)
    assert json.loads(report.splitlines()[-1])["events"] == 399
    with closing(empty.source(predicted)) as source:
        found = [value for chunk in read(source, 399) for value in chunk.values]
        reading = source.record_format.reading(frozenset)
        assert [reading(value) for value in found] == [avro(value, empty) for value in found]


def test_members_of_a_group_say_what_is_a_revision(
    empty: Broker, clicks: str, tmp_path: Path
) -> None:
    topic = empty.topic()
    to = empty.url(topic, "protobuf")
    job = (*JOB, "--checkpoint", "state", "--transactions", "--to", to)
    streamk("run", f"{clicks}?group={topic}", *job, cwd=tmp_path)
    records = list(read_all(empty.address, topic, "read_committed"))
    text = empty.registry.schemas["/schemas/ids/1"]["schema"]
    assert [compiled(text).read(one.value)["revision"] for one in records] == [False] * 399


@pytest.mark.slow
def test_each_prediction_is_there_once_after_kills(
    empty: Broker, clicks: str, tmp_path: Path
) -> None:
    """The last start waits for a registry that is gone, to read what stands there."""
    plain = expected(clicks, tmp_path, *JOB)
    topic, registry = empty.topic(), empty.registry
    to = ("--to", empty.url(topic, "avro"), "--checkpoint", "state")
    job = ("run", clicks, *JOB[:2], *JOB[4:], *to)
    job = (*job, "--checkpoint-every", "90")
    for count in (50, 380):  # beyond the last checkpoint, 360, so that the last start has to read
        with running(job, tmp_path) as run:
            until(lambda n=count: len(list(read_all(empty.address, topic))) >= n, process=run)
            run.send_signal(signal.SIGKILL)
    registry.gone = {"/schemas/ids/1"}
    with running((*job, "--until-end"), tmp_path) as run:
        until(lambda: "no schema registry answers" in (tmp_path / "log").read_text(), process=run)
        registry.gone = set()
        assert run.wait(120) == 0
    assert empty.written(topic, "avro") == plain
    assert "differs from its record" not in (tmp_path / "log").read_text()
