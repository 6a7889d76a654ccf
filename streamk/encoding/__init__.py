"""Events to columns: the rules by which values become numbers, the same for every way in."""

from __future__ import annotations

from streamk.encoding.columns import ColumnTable
from streamk.encoding.decoders import decoder
from streamk.encoding.fields import FieldReader, LoneReader, alone, key_of
from streamk.encoding.labels import LabelReader
from streamk.encoding.named import Decoder
from streamk.encoding.schema import (
    SAID,
    Absent,
    BadEvent,
    Decoded,
    Expected,
    Kind,
    LabelType,
    Mode,
    Schema,
    vector_of,
)
from streamk.encoding.values import (
    BAD_KINDS,
    TOMBSTONE,
    Name,
    Rejected,
    flatten,
    milliseconds_of,
    shortened,
)

__all__ = [
    "BAD_KINDS",
    "SAID",
    "TOMBSTONE",
    "Absent",
    "BadEvent",
    "ColumnTable",
    "Decoded",
    "Decoder",
    "Expected",
    "FieldReader",
    "Kind",
    "LabelReader",
    "LabelType",
    "LoneReader",
    "Mode",
    "Name",
    "Rejected",
    "Schema",
    "alone",
    "decoder",
    "flatten",
    "key_of",
    "milliseconds_of",
    "shortened",
    "vector_of",
]
