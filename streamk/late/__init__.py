"""Labels that come later than their events: from a source of their own, or with later events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, get_args

from connectors.base import Source
from streamk.encoding import Name
from streamk.engine.training.bad_events import Revisions
from streamk.engine.training.options import Stream
from streamk.engine.training.trainer import Trainer
from streamk.errors import InvalidInput
from streamk.late.horizon import Horizon
from streamk.late.source import JoinedSource, check_source
from streamk.late.trainer import LateTrainer
from streamk.learners.common.base import Learner
from streamk.options import Choice, Whole

__all__ = ["Horizon", "LateLabels"]


@dataclass(frozen=True)
class LateLabels:
    """Labels that come from a source of their own, later than their events.

    Parameters
    ----------
    source : Source
        Records with the key of an event and its label, under the names that both have in the job.
        Its encoding is one whose values have names, and so is that of the events.
    key : str
        The field by which a label finds its event: text or a whole number. It is not a column.
    timeout : float, optional
        Seconds, by the clocks of the sequence, that an event waits for its label. By default it
        waits until `held_events` others have come after it.
    default : str, int, bool or float, optional
        The label of an event whose time is over; by default it is not learned.
    held_events : int, default 1000000
        Events that wait at once, and labels; the oldest go first. As many keys that are over are
        remembered.
    revisions : "ignore" or "learn", default "ignore"
        Of a label that contradicts the one before: the event is learned again with it, as
        long as its key is remembered, and scored again; or the first one stays.
    time : str, optional
        The field, in events and labels, that holds when they were: milliseconds since 1970 or a
        text of ISO 8601. By default the sources' timestamps count, which in a file are ordinals.

    Examples
    --------
    >>> from connectors.memory import MemorySource
    >>> LateLabels(MemorySource([{"id": 1, "y": True}]), key="id", timeout=60.0).timeout_ms
    60000
    """

    source: Source
    key: Name
    timeout: float | None = None
    default: Any = None
    held_events: int = 1_000_000
    revisions: Revisions = "ignore"
    time: Name | None = None

    @property
    def timeout_ms(self) -> int | None:
        """The timeout in milliseconds."""
        return None if self.timeout is None else round(1000.0 * self.timeout)

    def check(self, events: Source, label: Name | None) -> None:
        """Raise `InvalidInput` if the events cannot have late labels, or an option is wrong."""
        Whole(least=1).check("held_events", self.held_events)
        Choice(choices=get_args(Revisions)).check("revisions", self.revisions)
        if label is None:
            raise InvalidInput("late labels need label=, the field of the label in their records")
        if self.key == label:
            raise InvalidInput(f"key={self.key!r} is the label; it must be another field")
        seconds = self.timeout
        if seconds is not None and not (
            isinstance(seconds, int | float) and 0 <= seconds < math.inf
        ):
            raise InvalidInput(f"timeout={seconds!r} must be a number of seconds, at least 0")
        if self.default is not None and seconds is None:
            raise InvalidInput("default= is the label after a timeout; give timeout= too")
        for what, source in (("events", events), ("labels", self.source)):
            check_source(source, what, "late labels")

    def joined(
        self, events: Source, label: Name | None, model: Learner, *, learn: bool
    ) -> JoinedSource:
        """Return events and labels as one source.

        Raises `InvalidInput` where a job cannot have late labels.
        """
        self.check(events, label)
        if not learn:
            raise InvalidInput("labels= is for a job that learns")
        if model.models:
            raise InvalidInput(
                "challengers do not take late labels; leave out labels=, or give the champion alone"
            )
        return JoinedSource(events, self.source, time=self.time)

    def trainer(self, model: Learner, source: Source, stream: Stream, **options: Any) -> Trainer:
        """Return the trainer of a job with these labels; `options` as for `Trainer`."""
        return LateTrainer(model, source, stream, late=self, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the options that must be the same in a checkpoint and in a resumed run."""
        return {
            "key": self.key,
            "timeout": self.timeout_ms,
            "default": self.default,
            "held_events": self.held_events,
            "time": self.time,
            "encoding": self.source.encoding,
            "delimiter": self.source.delimiter,
            "revisions": self.revisions,
        }
