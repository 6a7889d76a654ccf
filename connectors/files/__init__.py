"""Files of records as sources and sinks: JSON lines, a JSON array, CSV, compressed or not."""

from __future__ import annotations

from connectors.files.sinks import CSVSink, NDJSONSink
from connectors.files.source import CSV, NDJSON, FileSource

__all__ = ["CSV", "NDJSON", "CSVSink", "FileSource", "NDJSONSink"]
