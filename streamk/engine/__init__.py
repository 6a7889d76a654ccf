"""The loop: consume, predict, emit, learn, measure, checkpoint."""

from __future__ import annotations

from streamk.engine.loop import Engine, Report
from streamk.engine.progress import Snapshot, shown_on
from streamk.engine.reading import Checkpoint, kept_model, newest_checkpoint, read_checkpoint
from streamk.engine.training import Counts

__all__ = [
    "Checkpoint",
    "Counts",
    "Engine",
    "Report",
    "Snapshot",
    "kept_model",
    "newest_checkpoint",
    "read_checkpoint",
    "shown_on",
]
