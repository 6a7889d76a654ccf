"""The formats in which outputs are written to a topic: JSON, and framed records of a schema."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from connectors.base import Trouble
from connectors.errors import BadRecord, BadURL, ConnectorError, Unavailable
from connectors.fields import RecordType
from connectors.records import FRAMED, framed, json_body
from connectors.schemas.avro_output import avro_writer
from connectors.schemas.formats import SchemaFormat, format_of, store_of
from connectors.schemas.generated import avro_text, json_schema_text, protobuf_text
from connectors.schemas.protobuf_output import as_output, protobuf_writer
from connectors.schemas.stores import Away, SchemaStore

__all__ = ["FramedOutputs", "JSONOutputs", "OutputFormat", "open_output_format"]

_log = logging.getLogger("streamk.connectors")

_ENCODINGS = ("json", *FRAMED)

Encode = Callable[[Mapping[str, Any]], bytes]


class OutputFormat(Protocol):
    """The way from outputs to records, and back.

    Attributes
    ----------
    name : str
        For messages.
    encode : function of an output's value
        Returns a record; raises a `ValueError` or `TypeError` for what it cannot hold.
    """

    name: str
    encode: Encode

    def declare(self, record: RecordType, subject: str) -> None:
        """Write outputs of this type from here on; see `connectors.fields.Declaring`."""

    def contents(self, records: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """Return what records say; {}, as no output does, of what is none of this format.

        Waits for a registry that is gone.
        """

    def trouble(self) -> Trouble | None:
        """Tell of a registry that is gone."""


class JSONOutputs:
    """Outputs as JSON, without a schema."""

    name = "JSON"

    def __init__(self) -> None:
        self.encode: Encode = msgspec.json.Encoder().encode

    def declare(self, record: RecordType, subject: str) -> None:
        """Does nothing: JSON holds every output."""

    def contents(self, records: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """Return the objects; {} of what is none."""
        return [_json_object(record or b"") for record in records]

    def trouble(self) -> Trouble | None:
        """None: there is no registry."""
        return None


class FramedOutputs:
    """Outputs as framed records, whose schema is made of their fields.

    Parameters
    ----------
    encoding : "avro", "json-schema" or "protobuf"
    place : str
        The address of a registry, or a directory; see `connectors.schemas.formats.open_format`.

    Raises
    ------
    BadURL, Unavailable
        As `open_format` does.
    """

    def __init__(self, encoding: str, place: str) -> None:
        self.name = _NAMES[encoding]
        self.encode: Encode = _undeclared
        self._encoding = encoding
        self._store: SchemaStore = store_of(encoding, place)
        self._read: SchemaFormat | None = None
        if encoding != "json-schema":
            self._read = format_of(encoding, self._store)
        self._record = RecordType("", ())

    def declare(self, record: RecordType, subject: str) -> None:
        """Make the schema of these outputs, and have it kept under a subject.

        Raises
        ------
        Unavailable
            If no registry answers.
        ConnectorError
            If the schema is not taken: it is not compatible with the subject's, say.
        """
        text = _TEXTS[self._encoding](record)
        try:
            number = self._store.keep(text, subject)
        except Away as away:
            raise Unavailable(
                f"{away}. It must take the schema of what is written to begin with"
            ) from None
        self._record = record
        self.encode = _encoder(self._encoding, record, text, number)

    def contents(self, records: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """Return the outputs that were written as these records, {} of what cannot be read.

        Asks for the schemas that are not known yet, and waits for a registry that is gone.
        """
        if self._read is None:
            return [_json_object(_body(record)) for record in records]
        told = False
        while self._read.ready(records) < len(records):
            trouble = self._read.trouble()
            if trouble is not None and not told:
                told = True
                _log.warning("the end of the output cannot be read: %s", trouble.text)
            time.sleep(self._read.rest)
        read = self._read.reading(frozenset)
        return [self._content(read, record) for record in records]

    def _content(self, read: Callable[[Any], dict[str, Any]], record: Any) -> dict[str, Any]:
        try:
            found = read(record)
        except BadRecord:
            return {}
        if self._encoding == "protobuf":
            found = as_output(found, self._record)
        for field in self._record.fields:
            if field.optional and found.get(field.name) is None:
                found.pop(field.name, None)
        return found

    def trouble(self) -> Trouble | None:
        """Tell of a registry that is gone."""
        return None if self._read is None else self._read.trouble()


def open_output_format(encoding: str, place: str | None) -> OutputFormat:
    """Return the format of an encoding, whose schemas are kept at a place.

    Parameters
    ----------
    encoding : "json", "avro", "json-schema" or "protobuf"
    place : str, optional
        The address of a registry, or a directory; needed by all but "json".

    Raises
    ------
    BadURL
        If options do not go together, or there is no such directory.
    Unavailable
        If no registry answers, or a package is missing.
    """
    if encoding not in _ENCODINGS:
        raise BadURL(
            f"encoding {encoding!r} of what is written must be {', '.join(_ENCODINGS[:-1])} or"
            f" {_ENCODINGS[-1]}"
        )
    if encoding == "json":
        if place is not None:
            raise BadURL("schemas= is for encoding=avro, json-schema or protobuf; json has none")
        return JSONOutputs()
    if place is None:
        raise BadURL(
            f"encoding={encoding} needs schemas=, the address of a schema registry or a directory,"
            " to write by"
        )
    return FramedOutputs(encoding, place)


_NAMES = {"avro": "Avro", "json-schema": "JSON Schema", "protobuf": "Protobuf"}
_TEXTS: Mapping[str, Callable[[RecordType], str]] = {
    "avro": avro_text,
    "json-schema": json_schema_text,
    "protobuf": protobuf_text,
}


def _encoder(encoding: str, record: RecordType, text: str, number: int) -> Encode:
    """Return the function from outputs to framed records of a schema."""
    write: Encode
    match encoding:
        case "avro":
            write = avro_writer(record)
        case "protobuf":
            write = protobuf_writer(record, text)
        case _:
            write = msgspec.json.Encoder().encode
    head = framed(number, b"")
    all_names = frozenset(field.name for field in record.fields)
    needed = frozenset(field.name for field in record.fields if not field.optional)

    def encode(value: Mapping[str, Any]) -> bytes:
        names = value.keys()
        if names != all_names and not needed <= names <= all_names:
            odd = ", ".join(sorted(needed - names | names - all_names))
            raise BadRecord(f"its fields are not those of {record.name}: {odd}")
        return head + write(value)

    return encode


def _undeclared(_: Mapping[str, Any]) -> bytes:
    raise ConnectorError(
        "a sink with a schema must be told the fields of outputs before the first one is written:"
        " call declare"
    )


def _body(record: bytes | None) -> bytes:
    with contextlib.suppress(BadRecord):
        return json_body(record)
    return b""


def _json_object(text: bytes) -> dict[str, Any]:
    with contextlib.suppress(msgspec.DecodeError):
        found = msgspec.json.decode(text)
        if isinstance(found, dict):
            return found
    return {}
