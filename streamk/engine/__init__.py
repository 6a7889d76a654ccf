"""The loop: consume, predict, emit, learn, measure, checkpoint."""

from __future__ import annotations

from streamk.engine.checkpoints.manifests import Key, Untrusted
from streamk.engine.checkpoints.reading import (
    Checkpoint,
    kept_model,
    newest_checkpoint,
    read_checkpoint,
)
from streamk.engine.loop import Engine
from streamk.engine.progress import Snapshot, shown_on
from streamk.engine.report import Report
from streamk.engine.training.bad_events import Counts

__all__ = [
    "Checkpoint",
    "Counts",
    "Engine",
    "Key",
    "Report",
    "Snapshot",
    "Untrusted",
    "kept_model",
    "newest_checkpoint",
    "read_checkpoint",
    "shown_on",
]
