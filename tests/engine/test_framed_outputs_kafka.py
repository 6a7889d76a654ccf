"""Predictions as framed records on a real broker: written once, and read back exactly."""

from __future__ import annotations

import functools
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import forked_kit
import pytest
from cli_kit import click_events, streamk
from crash_kit import BORN, fill, read_all
from kafka_kit import until
from schema_kit import Registry

from connectors.base import Output
from connectors.errors import BadRecord
from connectors.fields import Field, RecordType
from connectors.kafka import KafkaSink, KafkaSource
from connectors.records import FRAME_BYTES, json_body, schema_id_of
from connectors.schemas.protobuf import ProtobufSchema, as_output
from streamk.engine.training.outputs import prediction_type

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

MakeTopic = Callable[..., str]
SCORE = RecordType("Score", (Field("value", 1, "number"),))


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        yield one


@pytest.fixture
def clicks(kafka_address: str, kafka_topic: MakeTopic) -> str:
    """The address of a topic of events, some of which cannot be used."""
    values = [json.dumps(event).encode() for event in click_events(400)]
    values[100] = b"{"
    topic = kafka_topic(**{"retention.ms": "-1"})
    fill(kafka_address, topic, ((0, BORN + i, value) for i, value in enumerate(values)))
    return f"kafka://{kafka_address}/{topic}"


def expected(source: str, folder: Path, *more: str) -> list[dict[str, Any]]:
    """What the same job writes to a file."""
    streamk("run", source, *more, "--to", "file:plain.ndjson", cwd=folder)
    places = ("partition", "offset", "timestamp", "key")
    rows = [json.loads(line) for line in (folder / "plain.ndjson").read_text().splitlines()]
    return [{name: row[name] for name in row if name not in places} for row in rows]


def avro(value: bytes, registry: Registry) -> dict[str, Any]:
    schema = json.loads(registry.schemas[f"/schemas/ids/{schema_id_of(value)}"]["schema"])
    body = io.BytesIO(value[FRAME_BYTES:])
    return fastavro.schemaless_reader(body, fastavro.parse_schema(schema))  # type: ignore[return-value]


def protobuf(value: bytes, registry: Registry) -> dict[str, Any]:
    text = registry.schemas[f"/schemas/ids/{schema_id_of(value)}"]["schema"]
    record = prediction_type(("prediction_set",), classification=True, revised=False)
    return as_output(compiled(text).read(value), record)


compiled = functools.cache(ProtobufSchema)


def of_json(value: bytes, _: Registry) -> dict[str, Any]:
    return json.loads(json_body(value))  # type: ignore[no-any-return]


def written(address: str, topic: str, encoding: str, registry: Registry) -> list[dict[str, Any]]:
    return [READ[encoding](one.value, registry) for one in read_all(address, topic)]


READ = {"avro": avro, "json-schema": of_json, "protobuf": protobuf}
JOB = ("--label", "clicked", "--until-end", "--quiet", "--max-skew", "inf")


@pytest.mark.parametrize("encoding", READ)
def test_predictions_are_those_of_a_file_once_each(
    encoding: str,
    kafka_address: str,
    kafka_topic: MakeTopic,
    clicks: str,
    registry: Registry,
    tmp_path: Path,
) -> None:
    """Also where the job goes on from a checkpoint."""
    job = (*JOB, "--prediction-set", "0.9")
    plain = expected(clicks, tmp_path, *job)
    topic = kafka_topic()
    to = f"kafka://{kafka_address}/{topic}?encoding={encoding}&schemas={registry.address}"
    for limit in (("--max-events", "250"), ()):
        streamk("run", clicks, *job, "--to", to, "--checkpoint", "state", *limit, cwd=tmp_path)
    assert written(kafka_address, topic, encoding, registry) == plain
    assert len(registry.subjects[f"{topic}-value"]) == 1


@pytest.mark.parametrize(
    "encoding", ["avro", *(pytest.param(n, marks=pytest.mark.nightly) for n in READ if n != "avro")]
)
def test_what_stands_in_the_topic_is_not_written_again(
    encoding: str,
    kafka_address: str,
    kafka_topic: MakeTopic,
    registry: Registry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    record = prediction_type(("reasons",), classification=True, revised=True)

    def outputs(start: int, stop: int) -> list[Output]:
        values = [
            {
                "prediction": None if i < 3 else ("a", 7, True)[i % 3],
                "probabilities": {"7": i / 9, "a": 0.5, "true": 0.25, "x" * i: 1.0},
                "reasons": None if i < 3 else [{"column": "c", "value": "x", "effect": -i / 7}],
                "revision": False,
            }
            for i in range(start, stop)
        ]
        return [Output("clicks:3", start + i, i, None, value) for i, value in enumerate(values)]

    topic = kafka_topic()

    def sink() -> KafkaSink:
        one = KafkaSink((kafka_address,), topic, encoding=encoding, schemas=registry.address)
        one.declare(record)
        return one

    first = sink()
    mark = first.mark()
    first.write(outputs(0, 200))
    first.close()
    second = sink()
    second.rewind(mark)
    second.write(outputs(0, 250))
    second.close()
    found = written(kafka_address, topic, encoding, registry)
    if encoding != "protobuf":
        assert found == [output.value for output in outputs(0, 250)]
    assert len(found) == 250
    assert "differs from its record" not in caplog.text


def test_a_schema_of_before_is_read_by_itself(
    kafka_address: str,
    kafka_topic: MakeTopic,
    registry: Registry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = kafka_topic()
    sinks = []
    for record in (SCORE, RecordType("Score", (*SCORE.fields, Field("more", 2, "text")))):
        one = KafkaSink((kafka_address,), topic, encoding="avro", schemas=registry.address)
        one.declare(record)
        sinks.append(one)
    mark = sinks[0].mark()
    sinks[0].write([Output("a", i, 0, None, {"value": 0.5}) for i in range(5)])
    sinks[0].close()
    sinks[1].rewind(mark)
    sinks[1].write([Output("a", i, 0, None, {"value": 0.5, "more": ""}) for i in range(7)])
    sinks[1].close()
    assert len(list(read_all(kafka_address, topic))) == 7
    assert "differs from its record" in caplog.text


def test_what_the_format_cannot_hold_is_told_with_its_place(
    kafka_address: str, kafka_topic: MakeTopic, registry: Registry
) -> None:
    sink = KafkaSink((kafka_address,), kafka_topic(), encoding="avro", schemas=registry.address)
    sink.declare(SCORE)
    with pytest.raises(BadRecord, match="output for a offset 7 cannot be written as Avro: could"):
        sink.write([Output("a", 7, 0, None, {"value": "text"})])
    sink.close()


def test_dead_letters_have_a_schema_too_and_predictions_are_events(
    kafka_address: str, kafka_topic: MakeTopic, clicks: str, registry: Registry, tmp_path: Path
) -> None:
    """A second job learns from the predictions of the first one."""
    predicted, letters = kafka_topic(), kafka_topic()
    options = f"?encoding=avro&schemas={registry.address}"
    streamk(
        *("run", clicks, *JOB, "--to", f"kafka://{kafka_address}/{predicted}{options}"),
        *("--dead-letters", f"kafka://{kafka_address}/{letters}{options}"),
        cwd=tmp_path,
    )
    (letter,) = written(kafka_address, letters, "avro", registry)
    assert (letter["offset"], letter["kind"], letter["value"]) == (100, "undecodable", "{")
    assert letter["size"] is None
    again = ("--label", "prediction", "--until-end", "--quiet", "--max-skew", "inf")
    source = f"kafka://{kafka_address}/{predicted}{options}"
    report, _ = streamk("run", source, *again, "--json", cwd=tmp_path)
    assert json.loads(report.splitlines()[-1])["events"] == 399
    read = KafkaSource((kafka_address,), predicted, encoding="avro", schemas=registry.address)
    values: list[Any] = []
    while len(values) < 399:
        values += [value for chunk in read.poll(1000, 0.2) for value in chunk.values]
    reading = read.record_format.reading(frozenset)
    assert [reading(value) for value in values] == [avro(value, registry) for value in values]
    read.close()


def test_members_of_a_group_say_what_is_a_revision(
    kafka_address: str, kafka_topic: MakeTopic, clicks: str, registry: Registry, tmp_path: Path
) -> None:
    topic = kafka_topic()
    to = f"kafka://{kafka_address}/{topic}?encoding=protobuf&schemas={registry.address}"
    job = (*JOB, "--checkpoint", "state", "--transactions", "--to", to)
    streamk("run", f"{clicks}?group={topic}", *job, cwd=tmp_path)
    records = list(read_all(kafka_address, topic, "read_committed"))
    text = registry.schemas["/schemas/ids/1"]["schema"]
    assert [compiled(text).read(one.value)["revision"] for one in records] == [False] * 399


def test_a_job_ends_at_once_where_its_schema_is_not_taken(
    kafka_address: str, kafka_topic: MakeTopic, clicks: str, registry: Registry, tmp_path: Path
) -> None:
    to = f"kafka://{kafka_address}/{kafka_topic()}?encoding=avro&schemas={registry.address}"
    registry.refusal = 409, {"error_code": 409, "message": "TYPE_MISMATCH"}
    _, told = streamk("run", clicks, *JOB, "--to", to, cwd=tmp_path, status=1)
    assert "is not compatible with those of" in told
    assert "TYPE_MISMATCH" in told
    registry.stop()
    _, told = streamk("run", clicks, *JOB, "--to", to, cwd=tmp_path, status=1)
    assert "no schema registry answers at" in told


@pytest.mark.slow
def test_each_prediction_is_there_once_after_kills(
    kafka_address: str, kafka_topic: MakeTopic, clicks: str, registry: Registry, tmp_path: Path
) -> None:
    """The last start waits for a registry that is gone, to read what stands there."""
    plain = expected(clicks, tmp_path, *JOB)
    topic = kafka_topic()
    to = f"kafka://{kafka_address}/{topic}?encoding=avro&schemas={registry.address}"
    job = ("run", clicks, *JOB[:2], *JOB[4:], "--to", to, "--checkpoint", "state")
    job = (*job, "--checkpoint-every", "90")
    for count in (50, 380):  # beyond the last checkpoint, 360, so that the last start has to read
        with running(job, tmp_path) as run:
            until(lambda n=count: len(list(read_all(kafka_address, topic))) >= n, process=run)
            run.send_signal(signal.SIGKILL)
    registry.gone = {"/schemas/ids/1"}
    with running((*job, "--until-end"), tmp_path) as run:
        until(lambda: "no schema registry answers" in (tmp_path / "log").read_text(), process=run)
        registry.gone = set()
        assert run.wait(120) == 0
    assert written(kafka_address, topic, "avro", registry) == plain
    assert "differs from its record" not in (tmp_path / "log").read_text()


def running(job: tuple[str, ...], folder: Path) -> forked_kit.Popen:
    with (folder / "log").open("wb") as log:
        return forked_kit.popen(
            [sys.executable, "-m", "streamk", *job], cwd=folder, stderr=log, env=os.environ
        )
