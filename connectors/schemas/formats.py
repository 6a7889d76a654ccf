"""The format of a source's framed records: schemas are fetched ahead, then records are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from connectors.base import Trouble
from connectors.errors import BadRecord, BadURL, Unavailable
from connectors.records import (
    FRAME_BYTES,
    ReadRecord,
    RecordFormat,
    Tombstone,
    json_body,
    schema_id_of,
)
from connectors.schemas.stores import (
    Away,
    SchemaDirectory,
    SchemaRegistry,
    SchemaStore,
    StoredSchema,
)

__all__ = [
    "ENVELOPES",
    "Debezium",
    "SchemaFormat",
    "enveloped",
    "format_of",
    "open_format",
    "store_of",
]

_FIRST_REST, _LONGEST_REST = 0.1, 5.0
"""Seconds between two questions while no registry answers: they double up to the longest."""
_UNKNOWN_SECONDS = 60.0
"""Time after which a schema that was unknown is asked for again, if a record has its id."""
_MOST_UNKNOWN = 10_000


class CompiledSchema(Protocol):
    """A schema by which records are read.

    `read` reads a framed record, or raises `BadRecord`. With `has_aliases` it is an `AvroSchema`,
    whose fields may have had other names.
    """

    @property
    def read(self) -> Callable[[bytes], dict[str, Any]]: ...
    @property
    def has_aliases(self) -> bool: ...


class SchemaFormat:
    """Framed records of one encoding.

    A record is given to its reader only after its schema was asked for (`ready`), so that reading
    one never waits.

    Parameters
    ----------
    store : SchemaStore
    compile_schema : function of a StoredSchema
        Returns the schema to read by; raises `BadRecord`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from connectors.schemas.avro import AvroSchema
    >>> text = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    >>> store = SimpleNamespace(fetch=lambda number: StoredSchema(text))
    >>> avro = SchemaFormat(store, lambda schema: AvroSchema(schema.text))
    >>> record = bytes([0, 0, 0, 0, 7, 62])
    >>> avro.ready([record]), avro.reading(frozenset)(record)
    (1, {'a': 31})
    """

    def __init__(
        self, store: SchemaStore, compile_schema: Callable[[StoredSchema], CompiledSchema]
    ) -> None:
        self._store, self._compile = store, compile_schema
        self._schemas: dict[int, Any] = {}
        """By id a `CompiledSchema`, or a text that says why it cannot be used."""
        self._reads: dict[bytes, Callable[[bytes], dict[str, Any]] | None] = {}
        """By the beginning of its records, the function of a schema that has nothing special."""
        self._unknown: dict[int, tuple[float, str]] = {}
        """Until when, and why."""
        self._trouble: Trouble | None = None
        self._rest, self._again = 0.0, 0.0

    @property
    def rest(self) -> float:
        """Seconds until the next question, 0.0 unless no registry answers."""
        return max(0.0, self._again - time.monotonic()) if self._trouble is not None else 0.0

    def trouble(self) -> Trouble | None:
        """Tell of a registry that is gone."""
        return self._trouble

    def ready(self, values: Sequence[Any]) -> int:
        """Return how many of the records, from the first on, are ready: readable, or never so.

        Asks for the schemas that are not known yet.

        Raises
        ------
        ConnectorError
            If the place of schemas cannot be used.
        """
        heads = {value[:FRAME_BYTES] for value in values if value is not None}
        if heads <= self._reads.keys():
            return len(values)
        asked = set[bytes]()
        for i, value in enumerate(values):
            head = b"" if value is None else value[:FRAME_BYTES]
            if head in self._reads or head in asked:
                continue
            asked.add(head)
            if not self._know(head):
                return i
        return len(values)

    def _know(self, head: bytes) -> bool:
        """Ask for the schema of a record; return False where no registry answers."""
        try:
            number = schema_id_of(head)
        except BadRecord:
            return True  # which reading it says again
        if number in self._unknown and time.monotonic() < self._unknown[number][0]:
            return True
        if self.rest > 0.0:
            return False
        try:
            stored = self._store.fetch(number)
        except Away as away:
            # The first reason stays: another one would be another trouble.
            self._trouble = self._trouble or away.trouble
            self._rest = min(2.0 * self._rest or _FIRST_REST, _LONGEST_REST)
            self._again = time.monotonic() + self._rest
            return False
        except BadRecord as error:
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[number] = time.monotonic() + _UNKNOWN_SECONDS, str(error)
            self._trouble, self._rest = None, 0.0
            return True
        self._trouble, self._rest = None, 0.0
        self._reads[head] = None
        try:
            found = self._schemas[number] = self._compile(stored)
        except (BadRecord, RecursionError) as error:
            self._schemas[number] = f"schema {number} cannot be used: {error}"
            return True
        if not found.has_aliases:
            self._reads[head] = found.read
        return True

    def reading(self, names: Callable[[], frozenset[str]], *, settled: bool = False) -> ReadRecord:
        """Return a function that reads a record, see `connectors.records.RecordFormat`."""
        schemas, reads = self._schemas, self._reads
        renamed: dict[int, tuple[frozenset[str], Any]] = {}

        def read(value: Any) -> dict[str, Any]:
            plain = reads.get(value[:FRAME_BYTES]) if type(value) is bytes else None
            return read_carefully(value) if plain is None else plain(value)

        def read_carefully(value: Any) -> dict[str, Any]:
            """Read a record of a schema that is not known, or has aliases."""
            number = schema_id_of(value)
            schema = schemas.get(number)
            if schema is None or isinstance(schema, str):
                unknown = self._unknown.get(number, (0.0, f"schema {number} is unknown"))[1]
                raise BadRecord(schema or unknown)
            if not schema.has_aliases:
                return schema.read(value)  # type: ignore[no-any-return]
            known = names()
            if number not in renamed or renamed[number][0] is not known:
                renamed[number] = known, schema.renamed(known)
            found = renamed[number][1]
            if settled and not found.is_settled:
                raise BadRecord(f"the names of schema {number} may change")
            return found.read(value)  # type: ignore[no-any-return]

        return read


def open_format(
    encoding: str, place: str | None, reader_schema: int | None = None
) -> SchemaFormat | None:
    """Return the format of an encoding, whose schemas are at a place; None if it needs none.

    Parameters
    ----------
    encoding : str
        That of a source, as "avro", "protobuf" or "json".
    place : str, optional
        The address of a registry, or a directory.
    reader_schema : int, optional
        The number of the schema of Avro whose names fields get, see `AvroSchema`.

    Raises
    ------
    BadURL
        If options do not go together, there is no such directory, or the reader's schema is none.
    Unavailable
        If no registry answers, or a package is missing.
    """
    if reader_schema is not None and encoding != "avro":
        raise BadURL(f"reader_schema= is for encoding=avro, encoding={encoding} has none")
    if encoding not in _READ_BY_SCHEMA:
        if place is not None:
            raise BadURL(f"schemas= is for encoding=avro or protobuf, encoding={encoding} has none")
        return None
    if place is None:
        raise BadURL(
            f"encoding={encoding} needs schemas=, the address of a schema registry or a directory"
        )
    return format_of(encoding, store_of(encoding, place), reader_schema)


def store_of(encoding: str, place: str) -> SchemaStore:
    """Return the place of the schemas of an encoding. Raises as `open_format` does."""
    for package in _NEEDED.get(encoding, ()):
        if find_spec(package) is None:
            raise Unavailable(
                f"encoding={encoding} needs {package}: pip install 'streamk[schemas]'"
            )
    if "://" in place:
        return SchemaRegistry(place, _KINDS[encoding])
    return SchemaDirectory(Path(place), _SUFFIXES[encoding])


def format_of(encoding: str, store: SchemaStore, reader_schema: int | None = None) -> SchemaFormat:
    """Return the format of an encoding, "avro" or "protobuf", with the schemas of a place.

    Raises as `open_format` does.
    """
    if encoding == "protobuf":
        from connectors.schemas.protobuf import ProtobufSchema

        return SchemaFormat(store, lambda one: ProtobufSchema(one.text, one.references))
    from connectors.schemas.avro import AvroSchema

    reader: AvroSchema | None = None
    if reader_schema is not None:
        try:
            stored = store.fetch(reader_schema)
            reader = AvroSchema(stored.text, stored.references)
        except Away as away:
            raise Unavailable(str(away)) from None
        except BadRecord as error:
            raise BadURL(f"reader_schema={reader_schema}: {error}") from None
    return SchemaFormat(store, lambda one: AvroSchema(one.text, one.references, reader=reader))


_KINDS = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
_SUFFIXES = {"avro": ".avsc", "json-schema": ".json", "protobuf": ".proto"}
_READ_BY_SCHEMA = ("avro", "protobuf")


_NEEDED = {"avro": ("fastavro",), "protobuf": ("grpc_tools", "google.protobuf")}


# --- envelopes ------------------------------------------------------------------------------------


ENVELOPES = ("debezium",)

_AFTER = "after."
_EVENTS, _DELETIONS = ("c", "u", "r"), ("d", "t")
"""Values of `op`: created, updated, read for a snapshot; deleted, the table truncated."""


class Debezium:
    """The envelope of Debezium: the row as it is after a change is the event.

    A row that was deleted is a `Tombstone`.

    Parameters
    ----------
    inner : RecordFormat, optional
        That of the envelope itself; by default it is read by `read`.
    read : function, optional
        From a record to the envelope.

    Examples
    --------
    >>> read = Debezium(read=msgspec.json.decode).reading(frozenset)
    >>> read(b'{"before": null, "after": {"a": 1}, "op": "c"}')
    {'a': 1}
    """

    def __init__(
        self, inner: RecordFormat | None = None, read: Callable[[Any], Any] | None = None
    ) -> None:
        self._inner, self._read = inner, read

    def reading(self, names: Callable[[], frozenset[str]], *, settled: bool = False) -> ReadRecord:
        """Return a function that reads a record, see `connectors.records.RecordFormat`."""
        if self._inner is None:
            read = self._read
        else:
            read = self._inner.reading(_inside(names), settled=settled)
        assert read is not None
        return lambda value: _row(read(value))


def _inside(names: Callable[[], frozenset[str]]) -> Callable[[], frozenset[str]]:
    """Return the fields' names within the envelope; the same object while they do not change."""
    last: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()

    def found() -> frozenset[str]:
        nonlocal last
        known = names()
        if last[0] is not known:
            last = known, frozenset(_AFTER + name for name in known)
        return last[1]

    return found


def _row(envelope: Any) -> dict[str, Any]:
    """Return the event of an envelope. Raises `Tombstone`, or `BadRecord` where it is none."""
    if isinstance(envelope, dict) and envelope.keys() == {"schema", "payload"}:
        envelope = envelope["payload"]  # as Connect's JSON converter writes it with schemas
    if envelope is None:
        raise Tombstone("the record has no value")
    if not isinstance(envelope, dict) or "op" not in envelope:
        raise BadRecord("it is no envelope of Debezium, which is an object with an `op`")
    op, row = envelope["op"], envelope.get("after")
    if op in _DELETIONS or (op in _EVENTS and row is None and "after" in envelope):
        raise Tombstone(f"the row was deleted (op {op!r})")
    if op not in _EVENTS:
        raise BadRecord(f"in its envelope of Debezium `op` is {op!r}, not c, u, r or d")
    if not isinstance(row, dict):
        what = f"a {type(row).__name__}" if "after" in envelope else "not there"
        raise BadRecord(f"in its envelope of Debezium `after` is {what}, not an object")
    return row


def _json(value: Any) -> Any:
    """Return a value of JSON."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise BadRecord(str(error)) from None


def enveloped(envelope: str, encoding: str, inner: RecordFormat | None) -> RecordFormat | None:
    """Return the format of records in an envelope; the inner format without one.

    Raises `BadURL` where there is no such envelope, or not of this encoding.
    """
    if not envelope:
        return inner
    if envelope not in ENVELOPES:
        raise BadURL(f"kafka: envelope {envelope!r} must be {' or '.join(ENVELOPES)}")
    if inner is not None:
        return Debezium(inner)
    if encoding == "json":
        return Debezium(read=_json)
    if encoding == "json-schema":
        return Debezium(read=lambda value: _json(json_body(value)))
    raise BadURL(f"kafka: envelope={envelope} is of records with named fields, not of {encoding}")
