"""Schemas of records: where they are kept, and how records are read by them."""

from __future__ import annotations

from connectors.schemas.avro import AvroSchema
from connectors.schemas.formats import SchemaFormat, open_format
from connectors.schemas.protobuf import ProtobufSchema
from connectors.schemas.registry import SchemaRegistry
from connectors.schemas.stores import SchemaDirectory, SchemaStore, StoredSchema

__all__ = [
    "AvroSchema",
    "ProtobufSchema",
    "SchemaDirectory",
    "SchemaFormat",
    "SchemaRegistry",
    "SchemaStore",
    "StoredSchema",
    "open_format",
]
