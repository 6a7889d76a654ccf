"""Protobuf: records read by the text of a .proto file, and outputs written by one."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from connectors.errors import BadRecord, ConnectorError
from connectors.fields import UNIONS, ListOf, RecordType, Scalar, branches
from connectors.records import FRAME_BYTES, decimal_number, time_after_1970

_COMMAND = (sys.executable, "-m", "grpc_tools.protoc", "--include_imports")
_COMPILING_SECONDS = 60.0
_MOST_VALUES = 1_000_000
"""Of a record."""

_LOGGED = re.compile(r"WARNING: |[IWE]\d{4} ")
"""Beginnings of lines of protoc that are about other things than what is wrong."""

Convert = Callable[[Any], Any]


class ProtobufSchema:
    """A .proto file, with the messages that describe records.

    The frame of a record goes on with the place of its message in the file: those at the top level
    are counted from 0, then those inside it. `references` are files that it imports, by their names
    there; those of ``google/protobuf`` are known. Raises `BadRecord` if protoc refuses the file;
    the message has its reason.
    """

    has_aliases = False
    """Its fields have no former names."""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool

        name, compiled = _protoc(text, references or {})
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
            pool.Add(file)
        self._file = pool.FindFileByName(name)
        self._readers: dict[tuple[int, ...], Callable[[bytes], dict[str, Any]]] = {}
        """By the place of a message."""

    def read(self, value: bytes) -> dict[str, Any]:
        """Read a framed record. Raises `BadRecord`."""
        place, at = _indexes(value)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = _reader(self.message_class(place))
        return reader(value[at:])

    def message_class(self, place: tuple[int, ...]) -> Any:
        """Return the class of the message at a place. Raises `BadRecord` if none is there."""
        from google.protobuf.message_factory import GetMessageClass

        return GetMessageClass(self.message(place))

    def message(self, place: tuple[int, ...]) -> Any:
        """Return the descriptor of the message at a place. Raises `BadRecord` if none is there."""
        inside = list(self._file.message_types_by_name.values())
        found = None
        for index in place:
            if not 0 <= index < len(inside):
                raise BadRecord(f"the schema has no message at {list(place)}")
            found = inside[index]
            inside = list(found.nested_types)
        return found


def _protoc(text: str, references: Mapping[str, str]) -> tuple[str, bytes]:
    """Return the name that a file got, and its descriptors with those of its imports.

    Raises `BadRecord` for a file that is wrong, `ConnectorError` where protoc cannot work.
    """
    name = "schema.proto"
    while name in references:
        name = f"_{name}"
    with tempfile.TemporaryDirectory(prefix="streamk-protoc-") as folder:
        try:
            _write({**_CONFLUENT, **references, name: text}, Path(folder))
            # A process of its own: protoc writes what is wrong to stderr, and may end the process.
            # Its session is its own, too, as Ctrl-C is for the run.
            done = subprocess.run(
                [*_COMMAND, f"-I{folder}", f"--descriptor_set_out={folder}/compiled", name],
                cwd=folder,
                capture_output=True,
                timeout=_COMPILING_SECONDS,
                check=False,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConnectorError(f"protoc cannot compile a schema: {error}") from None
        if done.returncode < 0:
            raise ConnectorError(f"protoc was ended by signal {-done.returncode}")
        if done.returncode:
            told = done.stderr.decode(errors="replace").replace(f"{folder}/", "").splitlines()
            faults = [line for line in told if not _LOGGED.match(line)]
            raise BadRecord(f"protoc refuses it: {'; '.join(faults[:3])}")
        return name, Path(folder, "compiled").read_bytes()


def _write(files: Mapping[str, str], folder: Path) -> None:
    """Write files by their names in a folder. Raises `BadRecord` for a name that leads out."""
    for name, text in files.items():
        path = Path(name)
        if ".." in path.parts or path.is_absolute() or not name.isprintable():
            raise BadRecord(f"it imports {name!r}, which is not a file name")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the place of a record's message, and where its body begins."""
    try:
        count, at = _signed(value, FRAME_BYTES)
        if count == 0:
            return (0,), at
        if not 0 < count <= len(value) - at:
            raise BadRecord(f"{count} levels of messages in a record of {len(value)} bytes")
        place = []
        for _ in range(count):
            index, at = _signed(value, at)
            place.append(index)
    except IndexError:
        raise BadRecord("the record ends before the place of its message") from None
    return tuple(place), at


def _signed(value: bytes, at: int) -> tuple[int, int]:
    """Read a whole number, in zigzag form."""
    found = shift = 0
    while True:
        byte = value[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
        if shift > 28:
            raise BadRecord("the place of the record's message has more than 32 bits")


_CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
        }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
        """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
        """,
}
"""Files that a registry has for all schemas, which name them in no reference."""


# --- messages to dicts ----------------------------------------------------------------------------


def _reader(message: Any) -> Callable[[bytes], dict[str, Any]]:
    """Return the function from bodies to events, of the class of a message."""
    from google.protobuf.message import DecodeError

    parse, descriptor = message.FromString, message.DESCRIPTOR
    converters = _Converters()
    convert = converters.of_message(descriptor)

    def read(body: bytes) -> dict[str, Any]:
        converters.values = 0
        try:
            found: dict[str, Any] = convert(parse(body))
        except DecodeError as error:
            raise BadRecord(f"it is not a {descriptor.full_name}: {error}") from None
        return found

    return read


class _Converters:
    """Makes functions from messages to dicts, one of each type."""

    def __init__(self) -> None:
        self.values = 0
        """Number that the functions have made of a record so far: two bytes may be a message of a
        hundred fields that have their defaults."""
        self._made: dict[str, Convert] = {}

    def of_message(self, descriptor: Any) -> Convert:
        """Return the function of a message's type."""
        name = descriptor.full_name
        if name in _WELL_KNOWN:
            return _WELL_KNOWN[name]
        if name in self._made:
            return self._made[name]
        fields: list[tuple[str, Convert | None]] = []
        optional: list[tuple[str, Convert | None]] = []

        def convert(message: Any) -> dict[str, Any]:
            """Return the values of a message by their fields."""
            self.values += 1 + len(fields)
            if self.values > _MOST_VALUES:
                raise BadRecord(f"it has more than {_MOST_VALUES} values, those not set included")
            found = {
                name: getattr(message, name) if of is None else of(getattr(message, name))
                for name, of in fields
            }
            for name, of in optional:
                if message.HasField(name):
                    value = getattr(message, name)
                    found[name] = value if of is None else of(value)
            return found

        self._made[name] = convert
        for field in descriptor.fields:
            of = self._of_field(field)
            (optional if field.has_presence else fields).append((field.name, of))
        return convert

    def _of_field(self, field: Any) -> Convert | None:
        """Return the function of a field's value, None if it stays as it is."""
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            of_value = self._of_one(kind.fields_by_name["value"])
            return lambda pairs: {_text(k): _converted(of_value, pairs[k]) for k in pairs}
        of_one = self._of_one(field)
        if not field.is_repeated:
            return of_one
        return list if of_one is None else lambda items: [of_one(item) for item in items]

    def _of_one(self, field: Any) -> Convert | None:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            return lambda number: names.get(number, number)
        return None


def _converted(of: Convert | None, value: Any) -> Any:
    return value if of is None else of(value)


def _text(key: Any) -> str:
    """Return the key of a map as JSON has it."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _object(message: Any) -> dict[str, Any]:
    return {key: _any_json(message.fields[key]) for key in message.fields}


def _list(message: Any) -> list[Any]:
    return [_any_json(one) for one in message.values]


def _any_json(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    of = {"struct_value": _object, "list_value": _list}.get(kind)
    return _converted(of, getattr(message, kind))


_WRAPPERS = ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
_WELL_KNOWN: dict[str, Convert] = {
    "confluent.type.Decimal": lambda found: decimal_number(found.value, found.scale),
    "google.protobuf.Duration": lambda found: float(found.seconds + 1e-9 * found.nanos),
    "google.protobuf.ListValue": _list,
    "google.protobuf.Struct": _object,
    "google.protobuf.Timestamp": lambda found: time_after_1970(
        1_000_000_000 * found.seconds + found.nanos, "ns", UTC
    ),
    "google.protobuf.Value": _any_json,
    **{f"google.protobuf.{name}Value": attrgetter("value") for name in _WRAPPERS},
}


# --- outputs --------------------------------------------------------------------------------------


_FIRST_MESSAGE = b"\0"
"""The place of the first message of a file, in the frame of a record."""


def protobuf_writer(record: RecordType, text: str) -> Callable[[Mapping[str, Any]], bytes]:
    """Return the function from outputs to bodies of records, by the text of their schema.

    It raises a `ValueError` or `TypeError` for what is not of this type.
    """
    make = ProtobufSchema(text).message_class((0,))
    convert = _arguments(record)

    def write(value: Mapping[str, Any]) -> bytes:
        body: bytes = make(**convert(value)).SerializeToString(deterministic=True)
        return _FIRST_MESSAGE + body

    return write


def _arguments(record: RecordType) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the function from outputs to the arguments of their messages."""
    changed: list[tuple[str, Callable[[Any], Any]]] = []
    for field in record.fields:
        match field.type:
            case "label" | "value":
                changed.append((field.name, partial(_in_union, field.type)))
            case ListOf("label"):
                changed.append((field.name, _each(partial(_in_union, "label"))))
            case ListOf(RecordType() as items):
                changed.append((field.name, _each(_arguments(items))))

    def convert(value: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(value)
        for name, of in changed:
            if found.get(name) is not None:
                found[name] = of(found[name])
        return found

    return convert


def _each(of: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda items: [of(item) for item in items]


def _in_union(kind: Scalar, value: Any) -> dict[str, Any]:
    branch = UNIONS[kind].get(type(value))
    if branch is None:
        raise BadRecord(f"{value!r} is not a {kind}: a {', '.join(branches(kind))}")
    return {branch: value}


def as_output(event: Mapping[str, Any], record: RecordType) -> dict[str, Any]:
    """Return the output that was written as a message, which was read as an event.

    Protobuf knows no list that is None: one that may be is None where it is empty.

    >>> from connectors.fields import Field
    >>> record = RecordType("Answer", (Field("is", 1, "label"), Field("of", 2, ListOf("label"))))
    >>> as_output({"is": {"text": "a"}, "of": [{"text": "a"}, {"integer": 7}]}, record)
    {'is': 'a', 'of': ['a', 7]}
    """
    found = dict(event)
    for field in record.fields:
        value = found.get(field.name)
        match field.type:
            case "label" | "value" if value is not None:
                value = _out_of_union(value)
            case ListOf("label") if value:
                value = [_out_of_union(item) for item in value]
            case ListOf(RecordType() as items) if value:
                value = [as_output(item, items) for item in value]
        found[field.name] = None if field.nullable and value == [] else value
    return found


def _out_of_union(message: Any) -> Any:
    return next(iter(message.values()), None) if isinstance(message, Mapping) else message
