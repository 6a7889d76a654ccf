"""Reading events of JSON or dicts that look like the usual one: their values, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from connectors.records import json_body
from streamk.encoding.fast import Read, ReadAll, opens, read_none
from streamk.encoding.schema import Kind
from streamk.encoding.values import Name

__all__ = ["dict_reading", "framed_json_reading", "json_reading"]


def dict_reading(names: Sequence[Name]) -> tuple[Read, ReadAll]:
    """Return the functions that read a dict of just these fields, and many at once."""
    n = len(names)

    def read(event: Any) -> Sequence[Any]:
        if len(event) != n:
            raise ValueError
        return [event[name] for name in names]

    if n < 2:
        return read, read_none
    pick = itemgetter(*names)

    def read_at_once(event: Any) -> Sequence[Any]:
        if len(event) != n:
            raise ValueError
        return pick(event)  # type: ignore[no-any-return]

    return read_at_once, read_none


def framed_json_reading(read: Read, read_all: ReadAll) -> tuple[Read, ReadAll]:
    """Return the functions that read JSON behind a frame, made of those that read it alone."""

    def read_all_framed(values: Sequence[Any]) -> list[Sequence[Any]] | None:
        return read_all(list(map(json_body, values)))

    return lambda value: read(json_body(value)), read_all_framed


def json_reading(
    names: Sequence[Name],
    kinds: Mapping[Name, Kind],
    label: Name | None,
    *,
    absent: float,
    most: int,
) -> tuple[Read, ReadAll]:
    """Return the functions that read a JSON object of these fields, and many at once.

    Parameters
    ----------
    names : sequence of fields
        The order of the values.
    kinds : mapping of field to kind
        Fields without one, except the label, may hold anything.
    label : field, optional
    absent : float
        The number in the place of one that is not there.
    most : int
        Bytes of an event that is read.
    """
    fields: list[tuple[str, Any, Any]] = []
    for i, name in enumerate(names):
        if name == label:
            kind: Any = bool | int | float | str | msgspec.UnsetType | None
            fields.append((f"f{i}", kind, msgspec.UNSET))
        elif name not in kinds:
            fields.append((f"f{i}", msgspec.Raw, msgspec.Raw()))
        elif kinds[name] in ("text", "time"):
            fields.append((f"f{i}", str | msgspec.UnsetType | None, msgspec.UNSET))
        else:
            fields.append((f"f{i}", float | bool | None, absent))
    try:
        shape = msgspec.defstruct(
            "Event",
            fields,
            rename={f"f{i}": str(name) for i, name in enumerate(names)},
            forbid_unknown_fields=True,
            gc=False,
        )
    except ValueError:
        # A name that msgspec cannot give to a field (a quote, a control character).
        return _refuse, read_none
    decode, unpack = msgspec.json.Decoder(shape).decode, msgspec.structs.astuple

    def read(value: bytes) -> Sequence[Any]:
        if len(value) > most:
            raise ValueError
        return unpack(decode(value))

    if any(name not in kinds for name in names if name != label):
        return read, read_none
    decode_all = msgspec.json.Decoder(list[shape]).decode  # type: ignore[valid-type]

    def read_all(values: Sequence[Any]) -> list[Sequence[Any]] | None:
        """Read events as one list, if none can begin or end in the midst of another.

        Fields are no objects here. So where there are as many objects as braces and events, and
        each event begins with a brace, that is where an object begins, and none else does.
        """
        if not all(map(opens, values)) or max(map(len, values)) > most:
            return None
        text = b",".join(values)
        if text.count(b"{") != len(values):
            return None
        found = decode_all(b"[%b]" % text)
        return list(map(unpack, found)) if len(found) == len(values) else None

    return read, read_all


def _refuse(_value: Any) -> Sequence[Any]:
    raise ValueError
