"""The format of a source's framed records: schemas are fetched ahead, then records are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from connectors.base import Trouble
from connectors.errors import BadRecord, BadURL, Unavailable
from connectors.records import FRAME_BYTES, ReadRecord, schema_id_of
from connectors.schemas.stores import (
    Away,
    SchemaDirectory,
    SchemaRegistry,
    SchemaStore,
    StoredSchema,
)

_FIRST_REST, _LONGEST_REST = 0.1, 5.0
"""Seconds between two questions while no registry answers: they double up to the longest."""
_UNKNOWN_SECONDS = 60.0
"""Time after which a schema that was unknown is asked for again, if a record has its id."""
_MOST_UNKNOWN = 10_000


class SchemaFormat:
    """Framed records of one encoding.

    A record is given to its reader only after its schema was asked for (`ready`), so that reading
    one never waits. `compile_schema` makes the schema to read by of a stored one, or raises
    `BadRecord`, as does its `read` of a framed record. With `has_aliases` it is an `AvroSchema`,
    whose fields may have had other names.

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

    def __init__(self, store: SchemaStore, compile_schema: Callable[[StoredSchema], Any]) -> None:
        self._store, self._compile = store, compile_schema
        self._schemas: dict[int, Any] = {}
        """By id what was made of it, or a text that says why it cannot be used."""
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

        Asks for the schemas that are not known yet. Raises `ConnectorError` if the place of schemas
        cannot be used.
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


def open_schemas(encoding: str, place: str, reader_schema: int | None = None) -> SchemaFormat:
    """Return the format of "avro" or "protobuf"; see `connectors.formats.open_format`."""
    return format_of(encoding, store_of(encoding, place), reader_schema)


def store_of(encoding: str, place: str) -> SchemaStore:
    """Return the place of the schemas of an encoding. Raises `BadURL` and `Unavailable`."""
    for package in _NEEDED.get(encoding, ()):
        if find_spec(package) is None:
            raise Unavailable(
                f"encoding={encoding} needs {package}: pip install 'streamk[schemas]'"
            )
    if "://" in place:
        return SchemaRegistry(place, _KINDS[encoding])
    return SchemaDirectory(Path(place), _SUFFIXES[encoding])


def format_of(encoding: str, store: SchemaStore, reader_schema: int | None = None) -> SchemaFormat:
    """Return the format of "avro" or "protobuf" by a place of schemas; see `open_schemas`."""
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
_NEEDED = {"avro": ("fastavro",), "protobuf": ("grpc_tools", "google.protobuf")}
