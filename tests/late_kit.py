"""Held events in segments of few rows, as if there were many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from streamk.engine.late import queue
from streamk.engine.late.segments import segment_log


@contextmanager
def small_segments(rows: int) -> Iterator[None]:
    """Segments of so many rows, and no more than those in memory; 1 << 15 is as ever."""
    memory = queue.MEMORY if rows == segment_log.SEGMENT_ROWS else 0
    with (
        mock.patch.object(queue, "MEMORY", memory),
        mock.patch.object(queue, "SEGMENT_ROWS", rows),
        mock.patch.object(segment_log, "SEGMENT_ROWS", rows),
    ):
        yield
