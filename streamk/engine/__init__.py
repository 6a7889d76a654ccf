"""The loop: consume, predict, emit, learn, measure, checkpoint."""

from __future__ import annotations

from streamk.engine.checkpoints.files import Key, Untrusted
from streamk.engine.checkpoints.opening import Checkpoints
from streamk.engine.checkpoints.reading import (
    Checkpoint,
    kept_model,
    newest_checkpoint,
    read_checkpoint,
)
from streamk.engine.loop import Engine
from streamk.engine.order.feed import Order
from streamk.engine.progress import Snapshot, shown_on
from streamk.engine.report import Report
from streamk.engine.training.bad_events import Counts
from streamk.engine.training.options import Details, Fixed, Stream, Watch

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Counts",
    "Details",
    "Engine",
    "Fixed",
    "Key",
    "Order",
    "Report",
    "Snapshot",
    "Stream",
    "Untrusted",
    "Watch",
    "kept_model",
    "newest_checkpoint",
    "read_checkpoint",
    "shown_on",
]
