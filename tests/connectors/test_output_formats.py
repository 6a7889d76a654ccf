"""Outputs as framed records: what other implementations read, and where their schemas are kept."""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_kit import Registry

from connectors.errors import BadRecord, BadURL, ConnectorError, Unavailable
from connectors.fields import Field, ListOf, MapOf, RecordType
from connectors.formats import open_format, open_output_format
from connectors.records import framed, schema_id_of
from connectors.schemas.outputs import FramedOutputs, avro_text, json_schema_text, protobuf_text
from connectors.schemas.stores import SchemaDirectory
from streamk.drift.alarms import ALARM
from streamk.engine.training.outputs import DEAD_LETTER, prediction_type

ENCODINGS = ("avro", "json-schema", "protobuf")
CLASSES = prediction_type(("prediction_set", "reasons"), classification=True, revised=True)
NUMBERS = prediction_type(("interval",), classification=False, revised=False)
AHEAD = prediction_type(
    ("prediction_set",), classification=True, revised=False, ahead=("prediction_set",)
)
RECORDS = (CLASSES, NUMBERS, AHEAD, DEAD_LETTER, ALARM)

# --- values of types ------------------------------------------------------------------------------

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_WHOLE = st.integers(-(2**63), 2**63 - 1)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": _WHOLE,
    "number": _FLOATS,
    "text": _TEXTS,
    "label": st.booleans() | _WHOLE | _TEXTS,
    "value": st.booleans() | st.integers(-(2**53), 2**53) | _FLOATS | _TEXTS,
}


def values_of(kind: Any, *, least: int = 0) -> st.SearchStrategy[Any]:
    match kind:
        case ListOf(items):
            return st.lists(values_of(items), min_size=least, max_size=3)
        case MapOf(values):
            return st.dictionaries(_TEXTS, values_of(values), max_size=3)
        case RecordType():
            return outputs_of(kind)
        case _:
            return _SCALARS[kind]


def outputs_of(record: RecordType) -> st.SearchStrategy[dict[str, Any]]:
    """Outputs of a type; a list that may be None is that, or has an item."""
    needed, optional = {}, {}
    for field in record.fields:
        values = values_of(field.type, least=int(field.nullable))
        if field.optional:
            optional[field.name] = values
        else:
            needed[field.name] = values | st.none() if field.nullable else values
    return st.fixed_dictionaries(needed, optional=optional)


@st.composite
def examples(draw: st.DrawFn) -> tuple[RecordType, dict[str, Any]]:
    record = draw(st.sampled_from(RECORDS))
    return record, draw(outputs_of(record))


# --- as other implementations read them -----------------------------------------------------------


def read_avro(body: bytes, text: str) -> dict[str, Any]:
    source = io.BytesIO(body)
    found = fastavro.schemaless_reader(source, fastavro.parse_schema(json.loads(text)))
    assert source.read() == b""
    return found  # type: ignore[return-value]


def read_json_schema(body: bytes, text: str) -> dict[str, Any]:
    found = json.loads(body)
    schema = json.loads(text)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(found, schema)
    return found  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The classes of messages by the texts of their files, which protoc makes of them."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="not installed: streamk[schemas]")
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message_factory import GetMessageClass

    found = {}
    for record in RECORDS:
        folder = tmp_path_factory.mktemp("proto")
        text = protobuf_text(record)
        (folder / "a.proto").write_text(text)
        out = folder / "out"
        assert protoc.main(["", f"-I{folder}", f"--descriptor_set_out={out}", "a.proto"]) == 0
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        found[text] = GetMessageClass(pool.FindMessageTypeByName(f"streamk.{record.name}"))
    return found


def read_protobuf(body: bytes, record: RecordType, message: Any) -> dict[str, Any]:
    """The output in a message, by its fields alone."""
    assert body[:1] == b"\0"
    return fields_of(message.FromString(body[1:]), record)


def fields_of(parsed: Any, record: RecordType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in record.fields:
        value, nothing = getattr(parsed, field.name), None if field.nullable else []
        match field.type:
            case ListOf("label"):
                found[field.name] = [label(item) for item in value] or nothing
            case ListOf("number"):
                found[field.name] = list(value) or nothing
            case ListOf(RecordType() as items):
                found[field.name] = [fields_of(item, items) for item in value] or nothing
            case MapOf():
                found[field.name] = dict(value)
            case "label" | "value":
                found[field.name] = label(value)
            case _:
                there = not field.nullable or parsed.HasField(field.name)
                found[field.name] = value if there else None
    return found


def label(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    return None if kind is None else getattr(message, kind)


def whole(record: RecordType, value: dict[str, Any]) -> dict[str, Any]:
    """The output with None for what it lacks."""
    return {**dict.fromkeys(field.name for field in record.fields), **value}


@settings(deadline=None, max_examples=40)
@given(examples())
def test_other_implementations_read_what_was_written(
    messages: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, example: Any
) -> None:
    record, value = example
    folder = tmp_path_factory.getbasetemp() / record.name
    folder.mkdir(exist_ok=True)
    for encoding, of in formats(record, folder).items():
        written = of.encode(value)
        body = written[5:]
        if encoding == "avro":
            found = read_avro(body, avro_text(record))
        elif encoding == "json-schema":
            found = whole(record, read_json_schema(body, json_schema_text(record)))
        else:
            found = read_protobuf(body, record, messages[protobuf_text(record)])
        expected = whole(record, value)
        assert found == expected
        assert [type(found[name]) for name in expected] == list(map(type, expected.values()))
        assert of.contents([written, b"none", None]) == [value, {}, {}]


_FORMATS: dict[tuple[str, RecordType], dict[str, FramedOutputs]] = {}


def formats(record: RecordType, folder: Path) -> dict[str, FramedOutputs]:
    """The formats that write a type, opened once."""
    key = str(folder), record
    if key not in _FORMATS:
        _FORMATS[key] = {encoding: opened(encoding, folder, record) for encoding in ENCODINGS}
    return _FORMATS[key]


def opened(encoding: str, place: Any, record: RecordType) -> FramedOutputs:
    of = open_output_format(encoding, str(place))
    assert isinstance(of, FramedOutputs)
    of.declare(record, "scores-value")
    return of


def test_what_may_be_missing_is_nullable() -> None:
    with pytest.raises(ValueError, match="'size' may be missing"):
        Field("size", 1, "integer", optional=True)


def test_numbers_that_are_none_are_kept_by_binary_formats(tmp_path: Path) -> None:
    for encoding in ("avro", "protobuf"):
        of = opened(encoding, tmp_path, NUMBERS)
        written = of.encode({"prediction": math.nan, "interval": [math.inf, -math.inf]})
        (found,) = of.contents([written])
        assert math.isnan(found["prediction"])
        assert found["interval"] == [math.inf, -math.inf]


ONE = prediction_type((), classification=True, revised=False)
OTHER_FIELDS = [
    ({"prediction": 1.0}, "its fields are not those of Prediction: interval"),
    ({"prediction": 1.0, "interval": None, "x": 1}, "not those of Prediction: x"),
]
OTHER_TYPES = [
    *((NUMBERS, {"prediction": 1.0, "interval": interval}) for interval in (["a"], 3)),
    (NUMBERS, {"prediction": "text", "interval": None}),
    *(
        (ONE, {"prediction": label, "probabilities": {}})
        for label in (1 << 63, -(1 << 63) - 1, 1.5, ["a"])  # no label, or of more than 64 bits
    ),
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_outputs_of_other_fields_and_types_are_refused(encoding: str, tmp_path: Path) -> None:
    for value, reason in OTHER_FIELDS:
        with pytest.raises(BadRecord, match=reason):
            opened(encoding, tmp_path, NUMBERS).encode(value)
    for record, value in OTHER_TYPES if encoding != "json-schema" else ():
        with pytest.raises((ValueError, TypeError)):
            opened(encoding, tmp_path, record).encode(value)


def test_nothing_is_written_before_the_fields_are_known(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="call declare"):
        FramedOutputs("avro", str(tmp_path)).encode({})


# --- schemas that change --------------------------------------------------------------------------


def test_records_are_read_by_older_and_newer_schemas(tmp_path: Path) -> None:
    """As a consumer does that has not got the newer schema yet, or that reads older records."""
    before, after = ONE, CLASSES
    old = {"prediction": "a", "probabilities": {"a": 1.0}}
    new = {**old, "prediction_set": ["a"], "reasons": None, "revision": True}
    by = {
        name: fastavro.parse_schema(json.loads(avro_text(record)))
        for name, record in (("old", before), ("new", after))
    }
    body = opened("avro", tmp_path, before).encode(old)[5:]
    found = fastavro.schemaless_reader(io.BytesIO(body), by["old"], by["new"])
    assert found == {**old, "prediction_set": [], "reasons": None, "revision": False}
    body = opened("avro", tmp_path, after).encode(new)[5:]
    assert fastavro.schemaless_reader(io.BytesIO(body), by["new"], by["old"]) == old


def test_a_field_has_one_number_whatever_fields_there_are() -> None:
    kinds = [
        prediction_type(details, classification=c, revised=r, ahead=ahead)
        for details in ((), ("interval",), ("prediction_set",), ("reasons",))
        for c in (True, False)
        for r in (True, False)
        for ahead in (None, (), details)
    ]
    numbers = {(field.number, field.name) for kind in kinds for field in kind.fields}
    assert len({number for number, _ in numbers}) == len({name for _, name in numbers}) == 7
    for kind in (*kinds, *RECORDS):
        assert len({field.number for field in kind.fields}) == len(kind.fields)


# --- a registry -----------------------------------------------------------------------------------


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        one.add(1, '"int"', subject="others-value")
        yield one


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_schema_is_registered_once(encoding: str, registry: Registry) -> None:
    for record, number in ((NUMBERS, 2), (NUMBERS, 2), (CLASSES, 3), (NUMBERS, 2)):
        of = opened(encoding, registry.address, record)
        value = {"prediction": None, "interval": None}
        if record is CLASSES:
            value = {"prediction": 1, "probabilities": {}, "prediction_set": [], "reasons": None}
            value["revision"] = False
        written = of.encode(value)
        assert schema_id_of(written) == number
        assert of.contents([written]) == [value]
    assert registry.subjects == {"scores-value": [2, 3]}
    kind = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}[encoding]
    assert registry.schemas["/schemas/ids/2"].get("schemaType", "AVRO") == kind


def test_a_schema_that_is_there_needs_no_right_to_register(registry: Registry) -> None:
    opened("avro", registry.address, NUMBERS)
    registry.refusal = 403, {"error_code": 40301, "message": "User is denied operation Write"}
    opened("avro", registry.address, NUMBERS)
    with pytest.raises(ConnectorError, match=r"does not take .*'scores-value': User is denied"):
        opened("avro", registry.address, CLASSES)


def test_a_schema_that_is_not_compatible_is_told_with_what_to_do(registry: Registry) -> None:
    registry.refusal = 409, {"error_code": 409, "message": "READER_FIELD_MISSING_DEFAULT_VALUE"}
    with pytest.raises(ConnectorError, match=r"is not compatible.*MISSING_DEFAULT.*another topic"):
        opened("avro", registry.address, NUMBERS)
    registry.refusal = 200, {"title": "a web page"}
    with pytest.raises(ConnectorError, match="does not take the schema"):
        opened("avro", registry.address, NUMBERS)


def test_a_registry_must_answer_to_begin_with(registry: Registry) -> None:
    registry.gone = {"/subjects/scores-value"}
    with pytest.raises(
        Unavailable, match=r"no schema registry answers.*503.*before any is written"
    ):
        opened("avro", registry.address, NUMBERS)
    registry.stop()
    with pytest.raises(Unavailable, match="Check that it runs"):
        open_output_format("avro", registry.address)


def test_what_was_written_is_read_again_when_the_registry_is_back(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    value = {"prediction": 0.5, "interval": None}
    written = opened("avro", registry.address, NUMBERS).encode(value)
    of = opened("avro", registry.address, NUMBERS)
    registry.gone = {"/schemas/ids/2"}
    seen = []

    def sleep(seconds: float) -> None:
        seen.append(of.trouble())
        registry.gone = set()
        monkeypatch.undo()
        time.sleep(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    assert of.contents([written]) == [value]
    assert seen[0] is not None
    assert seen[0].short == "registry gone"
    assert of.trouble() is None
    assert "the end of the output cannot be read: no schema registry answers" in caplog.text


# --- a directory ----------------------------------------------------------------------------------


def test_schemas_in_a_directory_have_the_next_numbers(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"int"')
    (tmp_path / "notes.avsc").write_text("none")
    (tmp_path / "9.proto").write_text("none")
    numbers = [
        SchemaDirectory(tmp_path, ".avsc").keep(text, "any") for text in ("a", "b", "a", '"int"')
    ]
    assert numbers == [8, 9, 8, 7]
    assert (tmp_path / "9.avsc").read_text() == "b"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("7.avsc", "8.avsc", "9.avsc", "9.proto", "notes.avsc")
    ]


def test_two_processes_do_not_take_one_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, other = (SchemaDirectory(tmp_path, ".avsc") for _ in range(2))
    link = Path.hardlink_to

    def late(self: Path, target: Any) -> None:
        monkeypatch.undo()
        assert other.keep("theirs", "any") == 1
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", late)
    assert directory.keep("ours", "any") == 2


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    directory = SchemaDirectory(tmp_path, ".avsc")
    tmp_path.rmdir()
    with pytest.raises(ConnectorError, match=r"1\.avsc cannot be written"):
        directory.keep("a", "any")


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opening", "encoding", "place", "reason"),
    [
        (open_output_format, "csv", None, "must be json, avro, json-schema or protobuf"),
        (open_output_format, "json", "http://localhost:8081", "json has none"),
        (open_output_format, "json-schema", None, "needs schemas="),
        (open_format, "json", "schemas", "encoding=json has none"),
        (open_format, "json-schema", "schemas", "encoding=json-schema has none"),
        (open_format, "protobuf", None, "encoding=protobuf needs schemas="),
        *((one, "avro", None, "avro needs schemas=") for one in (open_format, open_output_format)),
        *((one, "avro", "no/such", "no such dir") for one in (open_format, open_output_format)),
    ],
)
def test_options_that_do_not_go_together(
    opening: Any, encoding: str, place: str | None, reason: str
) -> None:
    with pytest.raises(BadURL, match=reason):
        opening(encoding, place)


def test_json_has_no_schema() -> None:
    of = open_output_format("json", None)
    of.declare(NUMBERS, "scores-value")
    assert of.contents([of.encode({"a": 1}), b"[1]", b"{", None, framed(1, b"{}")]) == [
        {"a": 1},
        *[{}] * 4,
    ]
    assert of.trouble() is None
