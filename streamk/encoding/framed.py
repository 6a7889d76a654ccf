"""Framed records of Avro and Protobuf into arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from connectors.records import RecordFormat
from streamk.encoding.expected import Expected
from streamk.encoding.fast import Read, ReadAll, Rowset, read_none
from streamk.encoding.named import NamedDecoder
from streamk.encoding.schema import Kind, Schema
from streamk.encoding.values import Name, flatten

__all__ = ["RecordDecoder"]


class RecordDecoder(NamedDecoder):
    """Decodes framed records; see `streamk.encoding.decoders.decoder`.

    A field may have had another name before, in Avro; it keeps its column where its own name has
    none. So names depend on the columns that there are, and a record is read by those before it.
    """

    def __init__(
        self,
        encoding: str,
        schema: Schema,
        max_event_bytes: int,
        expected: Expected,
        record_format: RecordFormat,
    ) -> None:
        self._read_any = record_format.reading(self._names)
        self._read_settled = record_format.reading(self._names, settled=True)
        super().__init__(encoding, schema, None, max_event_bytes, ",", expected, self._read_any)
        self._known = -1, frozenset[str]()
        """The number of fields with columns, and all names that a field may have had before."""
        self._asked = self._in_order = False
        """True if a record asked for those, and True if such records are read in their order."""
        self._nulls: set[Name] = set()
        """Fields without a column that were null in records of the fast way."""

    def _names(self) -> frozenset[str]:
        self._asked = True
        kinds = self.table.kinds
        if self._known[0] != len(kinds):
            names = (*kinds, *self._ignore, self._label)
            self._known = len(kinds), frozenset(name for name in names if isinstance(name, str))
        return self._known[1]

    def _reading(self, names: list[Name]) -> tuple[Read, ReadAll]:
        def read_record(value: Any) -> dict[str, Any]:
            return self._read_settled(value) if self._in_order else self._read_any(value)

        kinds = {name: kind for name, kind in self.table.kinds.items() if name not in self._ignore}
        absent = float("nan") if self._missing else 0.0
        return record_reading(
            names, kinds, self._ignore, self._nulls, read_record, absent=absent, most=self._max
        )

    def _quick(self, values: Sequence[Any], start: int) -> tuple[Rowset, list[int]]:
        self._asked = self._in_order = False
        self._nulls.clear()
        rows, refused = super()._quick(values, start)
        if refused and self._asked:
            # Each of these may bring columns, and so change the names of records after it.
            self._in_order = True
            self._nulls.clear()
            rows, refused = super()._quick(values, start)
        return rows, refused

    def _is_outdated(self, known: int) -> bool:
        # A field that was null may be one of the new ones.
        return bool(self._nulls and len(self.table.kinds) > known) or super()._is_outdated(known)


def record_reading(
    names: Sequence[Name],
    kinds: Mapping[Name, Kind],
    ignore: tuple[Name, ...],
    nulls: set[Name],
    read_record: Callable[[Any], Mapping[Any, Any]],
    *,
    absent: float,
    most: int,
) -> tuple[Read, ReadAll]:
    """Return the functions that read a framed record of these fields, and many at once.

    Parameters
    ----------
    names : sequence of fields
        The order of the values, nested ones with dots.
    kinds : mapping of field to kind
    ignore : tuple of fields
        Those that are left out.
    nulls : set of fields
        Takes those of no kind that were null: they may be there, as long as they have no column.
    read_record : function
        From a record to its fields.
    absent : float
        The number in the place of one that is not there.
    most : int
        Bytes of an event that is read.
    """
    known, used = frozenset(names), {*kinds, *ignore}
    lacking = [absent if kinds.get(name) == "number" else msgspec.UNSET for name in names]

    def read(value: bytes) -> Sequence[Any]:
        if len(value) > most:
            raise ValueError
        event = read_record(value)
        if dict in map(type, event.values()):
            event = flatten(event, ignore)
        if not event.keys() <= known:
            others = event.keys() - known
            if any(event[name] is not None or name in used for name in others):
                raise ValueError  # a field has no place here
            nulls.update(others)
        return list(map(event.get, names, lacking))

    return read, read_none
