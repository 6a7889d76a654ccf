"""Framed records of a real broker, with their schemas in a registry that comes and goes."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, streamk
from crash_kit import BORN, fill
from engine_kit import attached
from kafka_kit import until
from schema_kit import Registry, avro_record, record_schema

from connectors.base import Chunk
from connectors.errors import BadURL
from connectors.kafka import KafkaSource
from connectors.memory import MemorySink, MemorySource
from connectors.records import framed
from connectors.registry import open_source
from connectors.schemas.protobuf import ProtobufSchema
from streamk.kernels import Gaussian
from streamk.late import LateLabels
from streamk.late.source import JoinedSource
from streamk.learners import DoublyStochastic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

MakeTopic = Callable[..., str]
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


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        one.add(1, FIRST)
        one.add(2, SECOND)
        yield one


def records(n: int, change: int) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Events, and their records: from `change` on those of the second schema."""
    events = click_events(n)
    values = [avro_record(1, FIRST, event) for event in events[:change]]
    for event in events[change:]:
        renamed = {"years" if name == "age" else name: value for name, value in event.items()}
        values.append(avro_record(2, SECOND, renamed))
    return events, values


def filled(address: str, make: MakeTopic, values: list[bytes]) -> str:
    topic = make(**{"retention.ms": "-1"})
    fill(address, topic, ((0, BORN + i, value) for i, value in enumerate(values)))
    return topic


def numbers(chunks: list[Chunk]) -> list[int]:
    return [int(offset) for chunk in chunks for offset in chunk.offsets]


def polled(source: KafkaSource, count: int) -> list[Chunk]:
    chunks: list[Chunk] = []
    deadline = time.monotonic() + 60
    while sum(map(len, chunks)) < count:
        assert time.monotonic() < deadline
        chunks += source.poll(1000, 0.2)
    return chunks


@pytest.mark.usefixtures("kafka_client")
def test_records_whose_schema_cannot_be_had_are_read_later(
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry
) -> None:
    _, values = records(30, 20)
    topic = filled(kafka_address, kafka_topic, [*values, b"none", *values])
    address = registry.address
    source = KafkaSource((kafka_address,), topic, encoding="avro", schemas=address)
    with contextlib.closing(source):
        registry.gone = {SECOND_PATH}
        first = polled(source, 20)
        while (trouble := source.trouble()) is None:
            first += source.poll(1000, 0.2)
        assert trouble.short == "registry gone"
        assert numbers(first) == list(range(20))
        assert source.position(f"{topic}:0") == 20
        assert source.lag() in (41, None)
        assert source.poll(1000, 0.05) == []
        registry.gone = set()
        rest = polled(source, 41)
        assert numbers(rest) == list(range(20, 61))
        assert source.trouble() is None
        read = source.record_format.reading(frozenset)
        assert read(rest[0].values[0]).keys() == {"seconds", "years", "device", "clicked"}
        source.seek(f"{topic}:0", 10)
        assert numbers(polled(source, 51)) == list(range(10, 61))


def test_older_records_after_newer_ones_have_the_names_of_the_readers_schema(
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry
) -> None:
    _, values = records(20, 10)
    topic = filled(kafka_address, kafka_topic, values[::-1])
    address = f"kafka://{kafka_address}/{topic}?encoding=avro&schemas={registry.address}"
    source = open_source(f"{address}&reader_schema=2")
    model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=256)
    report = attached(source, model, label="clicked", until_end=True).run()
    assert report.counts.learned == 20
    assert {name.partition("=")[0] for name in report.schema.columns} == {
        "years",
        "seconds",
        "device",
    }


def test_options_are_checked_before_a_broker_is_asked(tmp_path: Path) -> None:
    for options, complaint in (
        ({"encoding": "avro"}, "needs schemas="),
        ({"schemas": str(tmp_path)}, "encoding=json has none"),
        ({"encoding": "xml"}, "must be json, float32, csv, avro, json-schema or protobuf"),
    ):
        with pytest.raises(BadURL, match=complaint):
            KafkaSource(("localhost:1",), "t", **options)


def test_events_and_labels_have_formats_of_their_own(
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry
) -> None:
    kind = record_schema(
        ("id", "int"), ("when", {"type": "long", "logicalType": "timestamp-millis"})
    )
    registry.add(3, kind)
    events = filled(
        kafka_address,
        kafka_topic,
        [avro_record(3, kind, {"id": i, "when": BORN + 1000 * i}) for i in range(3)],
    )
    label = framed(9, b'{"id": 1, "when": %d, "y": 1}' % (BORN + 5))
    labels = filled(kafka_address, kafka_topic, [label])
    with (
        contextlib.closing(
            KafkaSource((kafka_address,), events, encoding="avro", schemas=registry.address)
        ) as one,
        contextlib.closing(KafkaSource((kafka_address,), labels, encoding="json-schema")) as other,
    ):
        LateLabels(other, key="id", time="when").check(one, "y")
        both = JoinedSource(one, other, time="when")
        assert both.record_format is one.record_format
        chunks = polled(both, 4)  # type: ignore[arg-type]
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
    kafka_address: str, kafka_topic: MakeTopic, tmp_path: Path, written: Any
) -> None:
    events = click_events(300)
    values, options = written(events, tmp_path)
    topic = filled(kafka_address, kafka_topic, [*values[:200], b"\0\0", *values[200:]])
    if written is as_protobuf:
        events = [{**event, "device": {"name": event["device"]}} for event in events]
    found = []
    for source in (KafkaSource((kafka_address,), topic, **options), MemorySource(events)):
        model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=256)
        sink = MemorySink()
        report = attached(source, model, label="clicked", sink=sink, until_end=True).run()
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
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry, tmp_path: Path
) -> None:
    """Also where it goes on from a checkpoint; what cannot be read is a dead letter."""
    events, values = records(400, 250)
    bad = {50: b"", 120: b"\1\0\0\0\1", 260: values[0][:-1], 270: values[0] + b"\0"}
    bad[300] = framed(77, b"")
    for i, value in bad.items():
        values[i] = value
    avro = filled(kafka_address, kafka_topic, values)
    as_json = [json.dumps(event).encode() for event in events]
    plain = filled(
        kafka_address, kafka_topic, [b"{" if i in bad else e for i, e in enumerate(as_json)]
    )
    source = f"kafka://{kafka_address}/{avro}?encoding=avro&schemas={registry.address}"
    common = ("--label", "clicked", "--until-end", "--quiet", "--max-skew", "inf")
    streamk(
        *("run", f"kafka://{kafka_address}/{plain}", *common),
        *("--to", "file:plain.ndjson", "--dead-letters", "file:plain-bad.ndjson"),
        cwd=tmp_path,
    )
    job = ("--to", "file:avro.ndjson", "--dead-letters", "file:avro-bad.ndjson")
    for limit in (("--max-events", "180"), ("--max-events", "290"), ()):
        streamk("run", source, *common, *job, "--checkpoint", "state", *limit, cwd=tmp_path)
    assert outputs(tmp_path / "avro.ndjson") == outputs(tmp_path / "plain.ndjson")
    letters = [json.loads(line) for line in (tmp_path / "avro-bad.ndjson").read_text().splitlines()]
    assert [letter["offset"] for letter in letters] == sorted(bad)
    reasons = [letter["reason"].removeprefix("undecodable: ") for letter in letters]
    assert [reason[:22] for reason in reasons] == [
        "0 bytes, a frame with ",
        "the first byte is 1, n",
        "its 21 bytes are not w",
        "1 bytes stand behind w",
        "schema 77 is unknown t",
    ]
    streamk(
        *("predict", "state", source, "--until-end", "--quiet", "--to", "file:again.ndjson"),
        cwd=tmp_path,
    )
    assert len(outputs(tmp_path / "again.ndjson")) == 400 - len(bad)


def begun(arguments: Sequence[str], folder: Path) -> forked_kit.Popen:
    """The command, when it waits for the registry; what it writes to stderr is in the file log."""
    log = folder / "log"
    with log.open("wb") as file:
        run = forked_kit.popen(
            [sys.executable, "-m", "streamk", *arguments], cwd=folder, stderr=file
        )
    until(lambda: "no schema registry answers at" in log.read_text(), log.read_text, run)
    return run


@pytest.mark.slow
def test_a_run_waits_for_a_registry_and_goes_on_after_a_kill(
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry, tmp_path: Path
) -> None:
    _, values = records(900, 500)
    topic = filled(kafka_address, kafka_topic, values)
    address = f"kafka://{kafka_address}/{topic}?encoding=avro&schemas={registry.address}"
    common = ("run", address, "--label", "clicked", "--until-end", "--max-skew", "inf")
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
def test_a_run_that_waits_ends_gently(
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry, tmp_path: Path
) -> None:
    _, values = records(100, 60)
    topic = filled(kafka_address, kafka_topic, values)
    address = f"kafka://{kafka_address}/{topic}?encoding=avro&schemas={registry.address}"
    registry.gone = {SECOND_PATH}
    job = ("run", address, "--label", "clicked", "--to", "file:out.ndjson")
    waiting = begun(job, tmp_path)
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) == 0
    assert len(outputs(tmp_path / "out.ndjson")) == 60
