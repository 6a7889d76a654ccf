"""Records that hold an event in an envelope, as those of change data capture do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from connectors.errors import BadRecord, BadURL
from connectors.records import ReadRecord, RecordFormat, Tombstone, json_body

__all__ = ["ENVELOPES", "Debezium", "enveloped"]

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
    """Return the names that fields of the row have in the envelope; the same set while they are."""
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
    """Return what JSON says."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise BadRecord(str(error)) from None


def enveloped(envelope: str, encoding: str, inner: RecordFormat | None) -> RecordFormat | None:
    """Return the format of records of an encoding in an envelope, of which there may be none.

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
