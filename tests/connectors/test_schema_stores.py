"""Schemas of a registry, over HTTP, and of a directory; records whose schema cannot be had yet."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from schema_kit import Registry, avro_record, record_schema

from connectors.errors import BadRecord, BadURL, ConnectorError, Unavailable
from connectors.formats import open_format
from connectors.records import framed
from connectors.schemas import formats as formats_module
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.stores import Away, SchemaDirectory, SchemaRegistry

CLICK = record_schema(("age", "int"))


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        one.add(7, CLICK, subject="clicks-value")
        yield one


def read(of: SchemaFormat, value: Any, *names: str) -> dict[str, Any]:
    return of.reading(lambda: frozenset(names))(value)


def opened(encoding: str, place: Any) -> SchemaFormat:
    found = open_format(encoding, str(place))
    assert found is not None
    return found


# --- a registry -----------------------------------------------------------------------------------


def test_a_schema_with_all_that_it_refers_to(registry: Registry) -> None:
    size = record_schema(("w", "int"), name="Size")
    item = record_schema(("size", "Size"), name="Item")
    registry.add(1, size, subject="size")
    registry.add(2, item, subject="item/a", references=[("Size", "size", 1)])
    both = record_schema(("item", "Item"), ("size", "Size"))
    registry.add(3, both, references=[("Item", "item/a", 1), ("Size", "size", 1)])
    found = SchemaRegistry(registry.address, "AVRO").fetch(3)
    assert json.loads(found.text) == both
    assert list(found.references) == ["Size", "Item"]
    value = framed(3, b"\4\6")
    of = opened("avro", registry.address)
    assert of.ready([value]) == 1
    assert read(of, value) == {"item": {"size": {"w": 2}}, "size": {"w": 3}}


def test_schemas_are_asked_for_once(registry: Registry) -> None:
    of = opened("avro", f"{registry.address}/")
    values = [avro_record(7, CLICK, {"age": age}) for age in (1, 2)]
    for _ in range(3):
        assert of.ready([*values, None, b"", b"\1abcdef", *values]) == 7
    assert registry.asked == ["/", "/schemas/ids/7"]
    assert [read(of, value) for value in values] == [{"age": 1}, {"age": 2}]


def test_an_unknown_schema_is_told_and_asked_for_again_after_a_while(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = opened("avro", registry.address)
    value = avro_record(9, CLICK, {"age": 1})
    now = time.monotonic()
    monkeypatch.setattr(formats_module.time, "monotonic", lambda: now)
    assert of.ready([value]) == of.ready([value]) == 1
    assert registry.asked.count("/schemas/ids/9") == 1
    with pytest.raises(BadRecord, match=r"schema 9 is unknown to the registry at http.*\(404\)"):
        read(of, value)
    registry.add(9, CLICK)
    now += 59
    assert of.ready([value]) == 1
    with pytest.raises(BadRecord, match="schema 9 is unknown"):
        read(of, value)
    now += 2
    assert of.ready([value]) == 1
    assert read(of, value) == {"age": 1}


def test_unknown_references_and_other_types_are_told(registry: Registry) -> None:
    registry.add(1, CLICK, references=[("Size", "size", 4)])
    registry.add(2, "{}", kind="JSON")
    store = SchemaRegistry(registry.address, "AVRO")
    with pytest.raises(BadRecord, match="version 4 of 'size', to which a schema refers"):
        store.fetch(1)
    with pytest.raises(BadRecord, match="schema 2 is of type JSON, not AVRO"):
        store.fetch(2)


def test_references_in_a_circle_end(registry: Registry) -> None:
    registry.add(1, CLICK, subject="a", references=[("B", "b", 1)])
    registry.add(2, CLICK, subject="b", references=[("A", "a", 1)])
    with pytest.raises(BadRecord, match="more than"):
        SchemaRegistry(registry.address, "AVRO").fetch(1)


def test_a_schema_that_cannot_be_used_is_told_for_each_of_its_records(registry: Registry) -> None:
    registry.add(8, '"int"')
    of = opened("avro", registry.address)
    value = framed(8, b"\2")
    assert of.ready([value]) == of.ready([value]) == 1
    assert registry.asked.count("/schemas/ids/8") == 1
    with pytest.raises(BadRecord, match="schema 8 cannot be used: it is not the schema of a rec"):
        read(of, value)


def test_a_password_is_sent_to_the_registry_and_to_no_other(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.login = ("ada", "pässword:1")
    with pytest.raises(ConnectorError, match=r"refused this user \(status 401\); set STREAM"):
        SchemaRegistry(registry.address, "AVRO")
    monkeypatch.setenv("STREAMK_SCHEMAS_USERNAME", "ada")
    with pytest.raises(BadURL, match="STREAMK_SCHEMAS_PASSWORD is not set"):
        SchemaRegistry(registry.address, "AVRO")
    monkeypatch.setenv("STREAMK_SCHEMAS_PASSWORD", "pässword:1")
    store = SchemaRegistry(registry.address, "AVRO")
    assert json.loads(store.fetch(7).text) == CLICK
    with Registry() as other:
        registry.location = other.address
        with pytest.raises(BadRecord, match="unknown"):
            store.fetch(7)
        assert other.headers
        assert not any("Authorization" in headers for headers in other.headers)
    registry.location, registry.status = None, 403
    with pytest.raises(ConnectorError, match="status 403") as error:
        store.fetch(7)
    assert "pässword" not in str(error.value) + repr(store.__dict__.keys())


def test_addresses_that_are_none() -> None:
    for address in ("ftp://localhost", "http://", "http://host:x", "http://host?a=b", "://"):
        with pytest.raises(BadURL, match="is not http://HOST:PORT"):
            open_format("avro", address)


def test_an_address_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(BadURL, match="set STREAMK_SCHEMAS_USERNAME") as error:
        open_format("avro", "http://ada:secret@localhost:8081")
    assert "secret" not in str(error.value)


def test_what_is_no_registry_ends_it(registry: Registry) -> None:
    store = SchemaRegistry(registry.address, "AVRO")
    registry.schemas["/schemas/ids/7"] = {"title": "a web page"}
    with pytest.raises(ConnectorError, match=r"ids/7 returned no schema \(status 200\).*schemas="):
        store.fetch(7)
    registry.status = 404  # without the code of a schema that is not there
    with pytest.raises(ConnectorError, match=r"returned no schema \(status 404\)"):
        store.fetch(7)


# --- a registry that is gone ----------------------------------------------------------------------


def test_at_the_start_a_registry_must_answer(registry: Registry) -> None:
    registry.stop()
    with pytest.raises(Unavailable, match=r"no schema registry answers at http.*refused.*it runs"):
        SchemaRegistry(registry.address, "AVRO")


@pytest.mark.parametrize("status", [None, 429, 500, 503])
def test_records_wait_for_a_registry_that_is_gone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    now = 1000.0
    monkeypatch.setattr(formats_module.time, "monotonic", lambda: now)
    of = opened("avro", registry.address)
    registry.add(8, CLICK)
    known, waiting = (avro_record(number, CLICK, {"age": 1}) for number in (7, 8))
    assert of.ready([known]) == 1
    assert (of.rest, of.trouble()) == (0.0, None)
    if status is None:
        registry.stop()
    registry.status = status
    rests = []
    for _ in range(9):
        assert of.ready([known, known, waiting, known]) == 2
        assert of.ready([waiting]) == 0
        trouble = of.trouble()
        assert trouble is not None
        rests.append(of.rest)
        now += of.rest
    assert trouble.short == "registry gone"
    assert f"no schema registry answers at {registry.address}" in trouble.text
    assert rests == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])
    assert registry.asked.count("/schemas/ids/8") == (0 if status is None else 9)
    assert of.ready([known]) == 1
    registry.status = None
    registry.start() if status is None else None
    assert of.ready([known, waiting]) == 2
    assert (of.rest, of.trouble()) == (0.0, None)
    assert read(of, waiting) == {"age": 1}


def test_a_registry_that_says_nothing_is_gone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    store = SchemaRegistry(registry.address, "AVRO")
    monkeypatch.setattr("connectors.schemas.stores._TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(store, "_address", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Away):
            store.fetch(7)


# --- a directory ----------------------------------------------------------------------------------


def test_a_directory_has_schemas_by_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(CLICK))
    of = opened("avro", tmp_path)
    known, unknown = avro_record(7, CLICK, {"age": 3}), avro_record(8, CLICK, {"age": 4})
    assert of.ready([known, unknown]) == 2
    assert read(of, known) == {"age": 3}
    with pytest.raises(BadRecord, match=r"schema 8 is unknown: there is no file .*/8\.avsc"):
        read(of, unknown)
    (tmp_path / "9.avsc").write_bytes(b"\xff")
    with pytest.raises(BadRecord, match=r"9\.avsc cannot be read"):
        SchemaDirectory(tmp_path, ".avsc").fetch(9)


def test_a_proto_file_brings_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "1.proto").write_text('import "parts/a.proto";\nimport public "b.proto";\n')
    (tmp_path / "parts" / "a.proto").write_text('import "b.proto";')
    (tmp_path / "b.proto").write_text('import "../secret.proto"; import "1.proto";')
    found = SchemaDirectory(tmp_path, ".proto").fetch(1)
    assert set(found.references) == {"parts/a.proto", "b.proto", "1.proto"}


def test_the_schema_of_the_reader_comes_from_the_same_place(registry: Registry) -> None:
    renamed = record_schema({"name": "years", "aliases": ["age"], "type": "int"})
    registry.add(8, renamed)
    registry.add(9, '"int"')
    of = open_format("avro", registry.address, 8)
    assert of is not None
    values = [avro_record(7, CLICK, {"age": 3}), avro_record(8, renamed, {"years": 4})]
    assert of.ready(values) == 2
    assert [read(of, value) for value in values] == [{"years": 3}, {"years": 4}]
    for number, complaint in ((9, "is not the schema of a record"), (99, "schema 99 is unknown")):
        with pytest.raises(BadURL, match=f"reader_schema={number}: .*{complaint}"):
            open_format("avro", registry.address, number)
    registry.gone = {"/schemas/ids/8"}
    with pytest.raises(Unavailable, match="its status is 503"):
        open_format("avro", registry.address, 8)
    with pytest.raises(BadURL, match="reader_schema= is for encoding=avro"):
        open_format("protobuf", registry.address, 8)


@pytest.mark.parametrize("encoding", ["avro", "protobuf"])
def test_a_format_without_its_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr("connectors.schemas.formats.find_spec", lambda _name: None)
    with pytest.raises(Unavailable, match=r"pip install 'streamk\[schemas\]'"):
        open_format(encoding, "/tmp")
