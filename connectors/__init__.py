"""Sources of events and sinks of predictions; they know nothing about learning."""

from connectors.base import Chunk, Connector, Output, Rows, Sink, Source, concatenate
from connectors.errors import BadRecord, BadURL, ConnectorError, OffsetOutOfRange, Unavailable

__all__ = [
    "BadRecord",
    "BadURL",
    "Chunk",
    "Connector",
    "ConnectorError",
    "OffsetOutOfRange",
    "Output",
    "Rows",
    "Sink",
    "Source",
    "Unavailable",
    "concatenate",
]
