"""Reading of events that look like the usual one: values in a fixed order, and which to pack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from connectors.records import json_body
from streamk.encoding.schema import Kind
from streamk.encoding.values import AS_NUMBERS, Moment, Name

Read = Callable[[Any], Sequence[Any]]
ReadAll = Callable[[Sequence[Any]], list[Sequence[Any]] | None] | None


@dataclass(slots=True)
class Fast:
    """The way to read the events that look like the usual one.

    `read` gives the values of an event in a fixed order, `numbers` picks those to pack, `filled`
    does so with NaN instead of nulls. `read_all`, if there is one, gives the values of many
    events at once, or None where it cannot tell.
    """

    read: Read
    read_all: ReadAll
    numbers: Callable[[Sequence[Any]], Sequence[Any]]
    filled: Callable[[Sequence[Any]], Sequence[Any]]
    number_fields: list[Name]
    texts: list[tuple[int, Name]]
    label_at: int | None


@dataclass(slots=True)
class Rowset:
    """The events that went the fast way, by columns; `packed` are the numbers of one or more."""

    index: list[int] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    codes: list[list[int]] = field(default_factory=list)
    times: list[Moment] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)


Pick = Callable[[Sequence[Any]], Sequence[Any]]


def picker(places: list[int]) -> Pick:
    """The function that picks these places, which ascend, out of a sequence."""
    if not places:
        return lambda _cells: ()
    if places[-1] - places[0] == len(places) - 1:
        return itemgetter(slice(places[0], places[-1] + 1))
    return itemgetter(*places)


def filling(pick: Pick) -> Pick:
    """`pick` with NaN instead of None."""
    return lambda cells: [np.nan if cell is None else cell for cell in pick(cells)]


def parsing(pick: Pick, *, filled: bool) -> Pick:
    """`pick` with CSV cells parsed; `filled` also those that are missing or booleans."""

    def parse(cells: Sequence[Any]) -> list[float]:
        chosen = pick(cells)
        if "_" in "".join(chosen):
            # Python reads 1_000 as a number, which no other reader of CSV does.
            raise ValueError
        if filled:
            chosen = [AS_NUMBERS.get(cell, cell) for cell in chosen]
        return list(map(float, chosen))

    return parse


def dict_reading(names: Sequence[Name]) -> tuple[Read, ReadAll]:
    """Return the functions that read a dict of just these fields, and many at once."""
    n = len(names)
    pick: Read = itemgetter(*names) if n > 1 else lambda event: [event[name] for name in names]

    def read(event: Any) -> Sequence[Any]:
        if len(event) != n:
            raise ValueError
        return pick(event)

    return read, None


def framed_json_reading(read: Read, read_all: ReadAll) -> tuple[Read, ReadAll]:
    """Return the functions that read JSON behind a frame, made of those that read it alone."""

    def read_framed(value: Any) -> Sequence[Any]:
        return read(json_body(value))

    if read_all is None:
        return read_framed, None
    return read_framed, lambda values: read_all(list(map(json_body, values)))


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
        The number for a missing one.
    most : int
        Bytes of an event that is read.
    """
    fields: list[tuple[str, Any, Any]] = []
    for i, name in enumerate(names):
        if name == label or kinds.get(name) in ("entity", "clock"):
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
        return _refuse, None
    decode, unpack = msgspec.json.Decoder(shape).decode, msgspec.structs.astuple

    def read(value: bytes) -> Sequence[Any]:
        if len(value) > most:
            raise ValueError
        return unpack(decode(value))

    if any(name not in kinds for name in names if name != label):
        return read, None
    decode_all = msgspec.json.Decoder(list[shape]).decode  # type: ignore[valid-type]

    def read_all(values: Sequence[Any]) -> list[Sequence[Any]] | None:
        """Read events as one list, if none can begin or end in the midst of another.

        Fields are not objects here. So where there are as many objects as braces and events, and
        each event begins with a brace, that is where an object begins, and none else does.
        """
        is_odd = set(map(type, values)) != {bytes} or max(map(len, values)) > most
        if is_odd or not all(map(bytes.startswith, values, repeat(b"{"))):
            return None
        text = b",".join(values)
        if text.count(b"{") != len(values):
            return None
        found = decode_all(b"[%b]" % text)
        return list(map(unpack, found)) if len(found) == len(values) else None

    return read, read_all


def _refuse(_value: Any) -> Sequence[Any]:
    raise ValueError
