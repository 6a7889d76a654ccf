"""The formats of a topic's records: JSON, envelopes, and those that need schemas.

What reads and writes by schemas is registered in the group `streamk.formats`: ``read`` is called
with an encoding, the place of the schemas and the number of a reader's schema or None, ``write``
with an encoding and the place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

import msgspec

from connectors.base import Trouble
from connectors.errors import BadRecord, BadURL, Unavailable
from connectors.fields import RecordType
from connectors.records import FRAMED, ReadRecord, RecordFormat, Tombstone, json_body

GROUP = "streamk.formats"

_ENCODINGS = ("json", *FRAMED)

Encode = Callable[[Mapping[str, Any]], bytes]


def _by_schemas(name: str, encoding: str) -> Any:
    """Return what opens formats of records with schemas. Raises `Unavailable` if it is not here."""
    for entry in entry_points(group=GROUP, name=name):
        try:
            return entry.load()
        except ModuleNotFoundError as error:
            if not entry.module.startswith(str(error.name)):
                raise
    raise Unavailable(
        f"encoding={encoding} needs connectors/schemas, which is missing; install streamk again"
    )


class FramedFormat(RecordFormat, Protocol):
    """The format of framed records; it fetches their schemas before it reads them."""

    @property
    def rest(self) -> float:
        """Seconds until the registry is asked again."""

    def ready(self, values: Sequence[Any]) -> int:
        """Return how many of the first records can be read: their schemas are there."""

    def trouble(self) -> Trouble | None:
        """Tell of a registry that is gone."""


def open_format(
    encoding: str, place: str | None, reader_schema: int | None = None
) -> FramedFormat | None:
    """Return the format of an encoding with its place of schemas; None if it needs none.

    Raises `BadURL` if options do not go together, there is no such directory, or the reader's
    schema is none, and `Unavailable` if no registry answers, or a package is missing.

    Parameters
    ----------
    encoding : str
        That of a source, as "avro", "protobuf" or "json".
    place : str, optional
        The address of a registry, or a directory.
    reader_schema : int, optional
        The number of the schema of Avro whose names fields get, see `AvroSchema`.
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
    found: FramedFormat = _by_schemas("read", encoding)(encoding, place, reader_schema)
    return found


_READ_BY_SCHEMA = ("avro", "protobuf")


class JSONOutputs:
    """The way from outputs to records, and back: as JSON, which needs no schema."""

    name = "JSON"
    """For messages."""

    def __init__(self) -> None:
        self.encode: Encode = msgspec.json.Encoder().encode
        """Makes a record; raises a `ValueError` or `TypeError` for what it cannot hold."""

    def declare(self, record: RecordType, subject: str) -> None:
        """Write outputs of this type from here on; see `connectors.fields.Declaring`."""

    def contents(self, records: Sequence[bytes | None]) -> list[dict[str, Any]]:
        """Return the outputs of records; {} for a record of another format."""
        return [json_object(record or b"") for record in records]

    def trouble(self) -> Trouble | None:
        """Tell of a registry that is gone."""
        return None


def json_object(text: bytes) -> dict[str, Any]:
    """Return the object that a text is; {} if it is none."""
    with contextlib.suppress(msgspec.DecodeError):
        found = msgspec.json.decode(text)
        if isinstance(found, dict):
            return found
    return {}


def open_output_format(encoding: str, place: str | None) -> JSONOutputs:
    """Return the output format of an encoding, with the place where it keeps schemas.

    Raises `BadURL` if options do not go together, or there is no such directory, and `Unavailable`
    if no registry answers, or a package is missing.

    Parameters
    ----------
    encoding : "json", "avro", "json-schema" or "protobuf"
    place : str, optional
        The address of a registry, or a directory; needed by all but "json".
    """
    if encoding not in _ENCODINGS:
        raise BadURL(
            f"the output encoding {encoding!r} must be {', '.join(_ENCODINGS[:-1])} or "
            f"{_ENCODINGS[-1]}"
        )
    if encoding == "json" and place is not None:
        raise BadURL("schemas= is for encoding=avro, json-schema or protobuf; json has none")
    if encoding == "json":
        return JSONOutputs()
    if place is None:
        raise BadURL(
            f"encoding={encoding} needs schemas=, the address of a schema registry or a "
            "directory, to write its schema to"
        )
    found: JSONOutputs = _by_schemas("write", encoding)(encoding, place)
    return found


ENVELOPES = ("debezium",)

_AFTER = "after."
_EVENTS, _DELETIONS = ("c", "u", "r"), ("d", "t")
"""Values of `op`: created, updated, read for a snapshot; deleted, the table truncated."""


class Debezium:
    """The envelope of Debezium: the row as it is after a change is the event.

    A row that was deleted is a `Tombstone`. `inner` is the `RecordFormat.reading` of the envelope
    itself.

    Examples
    --------
    >>> read = Debezium(lambda *_, **__: msgspec.json.decode).reading(frozenset)
    >>> read(b'{"before": null, "after": {"a": 1}, "op": "c"}')
    {'a': 1}
    """

    def __init__(self, inner: Callable[..., Callable[[Any], Any]]) -> None:
        self._inner = inner

    def reading(self, names: Callable[[], frozenset[str]], *, settled: bool = False) -> ReadRecord:
        """Return a function that reads a record, see `connectors.records.RecordFormat`."""
        read = self._inner(_inside(names), settled=settled)
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
        raise BadRecord("it is not a Debezium envelope, which is an object with an `op`")
    op, row = envelope["op"], envelope.get("after")
    if op in _DELETIONS or (op in _EVENTS and row is None and "after" in envelope):
        raise Tombstone(f"the row was deleted (op {op!r})")
    if op not in _EVENTS:
        raise BadRecord(f"in its Debezium envelope `op` is {op!r}, not c, u, r or d")
    if not isinstance(row, dict):
        what = f"a {type(row).__name__}" if "after" in envelope else "not there"
        raise BadRecord(f"in its Debezium envelope `after` is {what}, not an object")
    return row


def _json(value: Any) -> Any:
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
        return Debezium(inner.reading)
    if encoding == "json":
        return Debezium(lambda *_, **__: _json)
    if encoding == "json-schema":
        return Debezium(lambda *_, **__: lambda value: _json(json_body(value)))
    raise BadURL(f"kafka: envelope={envelope} is for records with named fields, not for {encoding}")
