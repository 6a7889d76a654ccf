"""Events/s of decoding: JSON beside framed records of the same events, in bytes and in columns.

Decoding is all that comes between the bytes of a record and its row and label, as the engine does
it for 1,024 events at once, and nothing else: no broker, no learner. Numbers of Avro and Protobuf
are doubles, texts are strings; what is null in some event is optional.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.engine.events import LABEL, Event, encoded, load
from connectors.records import RecordFormat, framed
from connectors.schemas.avro import AvroSchema
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.protobuf import ProtobufSchema
from connectors.schemas.stores import StoredSchema
from streamk.encoding import Schema, decoder

SETS = ("elec2", "airlines_h2o_44k")
EVENTS = 20_000
AT_ONCE = 1024
NUMBER = 1
"""Of the schema."""


class _One:
    """A place of one schema."""

    def __init__(self, text: str) -> None:
        self._stored = StoredSchema(text)

    def fetch(self, number: int) -> StoredSchema:
        assert number == NUMBER
        return self._stored


def measure(directory: Directory, rounds: int, *, quick: bool) -> dict[str, Any]:
    """Rates, and the bytes of a record, of all encodings on each set."""
    found = {}
    for name in SETS:
        events = load(name, directory, EVENTS, quick=quick)
        ways = _ways(events)
        contestants = {
            encoding: partial(_decode, encoding, values, of)
            for encoding, (values, of) in ways.items()
        }
        rates = common.in_turn(contestants, rounds)
        found[name] = {
            "events": len(events),
            "events_per_s": {way: common.spread(values) for way, values in rates.items()},
            "bytes": {way: sum(map(len, v)) / len(v) for way, (v, _) in ways.items()},
        }
    return found


def _ways(events: Sequence[Event]) -> dict[str, tuple[list[bytes], RecordFormat | None]]:
    plain = encoded(events)
    rows = [{**x, LABEL: label} for x, label in events]
    kinds = {
        name: (
            "string" if any(isinstance(row[name], str) for row in rows) else "double",
            any(row[name] is None for row in rows),
        )
        for name in rows[0]
    }
    return {
        "json": (plain, None),
        "json-schema": ([framed(NUMBER, value) for value in plain], None),
        "avro": _as_avro(rows, kinds),
        "protobuf": _as_protobuf(rows, kinds),
    }


def _as_avro(
    rows: Sequence[dict[str, Any]], kinds: Mapping[str, tuple[str, bool]]
) -> tuple[list[bytes], RecordFormat]:
    import fastavro

    fields = [
        {"name": f"f{i}", "type": ["null", kind] if optional else kind}
        for i, (kind, optional) in enumerate(kinds.values())
    ]
    schema = {"type": "record", "name": "Event", "fields": fields}
    text = json.dumps({**schema, "fields": _named(fields, kinds)})
    write = partial(fastavro.schemaless_writer, schema=fastavro.parse_schema(schema))
    values = []
    for row in rows:
        out = io.BytesIO()
        write(out, record={f"f{i}": _typed(row[name], kinds[name]) for i, name in enumerate(kinds)})
        values.append(framed(NUMBER, out.getvalue()))
    return values, SchemaFormat(_One(text), lambda stored: AvroSchema(stored.text))


def _named(fields: Sequence[dict[str, Any]], names: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields under the names of the set, which need not be Avro's."""
    return [{**field, "name": name} for field, name in zip(fields, names, strict=True)]


def _as_protobuf(
    rows: Sequence[dict[str, Any]], kinds: Mapping[str, tuple[str, bool]]
) -> tuple[list[bytes], RecordFormat]:
    from google.protobuf.message_factory import GetMessageClass

    fields = "".join(
        f"{'optional ' if optional else ''}{kind} {name} = {i};"
        for i, (name, (kind, optional)) in enumerate(kinds.items(), 1)
    )
    text = f'syntax = "proto3"; message Event {{ {fields} }}'
    schema = ProtobufSchema(text)
    message = GetMessageClass(schema.message((0,)))
    values = [
        framed(
            NUMBER,
            b"\0"
            + message(
                **{k: _typed(v, kinds[k]) for k, v in row.items() if v is not None}
            ).SerializeToString(),
        )
        for row in rows
    ]
    return values, SchemaFormat(_One(text), lambda _: schema)


def _typed(value: Any, kind: tuple[str, bool]) -> Any:
    if value is None:
        return None
    return str(value) if kind[0] == "string" else float(value)


def _decode(encoding: str, values: Sequence[bytes], of: Any) -> float:
    if of is not None:
        assert of.ready(values) == len(values)
    decoding = decoder(encoding, Schema(label=LABEL), record_format=of)
    decoding.decode(values[:AT_ONCE])  # columns come, and the ways to read them are made

    def decode() -> None:
        for first in range(0, len(values), AT_ONCE):
            found = decoding.decode(values[first : first + AT_ONCE])
            assert not found.bad, found.bad[:1]

    return len(values) / common.timed(decode)


# --- the table ----------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [
        [f"{name}: {way}", *common.ranged(figure), f"{one['bytes'][way]:.0f}"]
        for name, one in found.items()
        for way, figure in one["events_per_s"].items()
    ]
    return common.table(["decoding alone, events/s", "median", "range", "bytes"], rows)
