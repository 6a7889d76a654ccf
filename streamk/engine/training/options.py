"""The options of a stream, of what is told of a run, and of one that learns nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from connectors.base import Sink
from streamk.encoding import Absent, LabelType, Mode, Schema
from streamk.engine.order.feed import DataLoss
from streamk.engine.progress import Snapshot
from streamk.engine.training.bad_events import OnError
from streamk.engine.training.beside import RegionGiver, Watcher
from streamk.errors import InvalidInput
from streamk.learners.base import Learner
from streamk.options import Checked, Choice, Real, Seconds, Whole, choice_of

__all__ = ["Fixed", "Newer", "Stream", "Watch"]


@dataclass(frozen=True, kw_only=True)
class Stream(Checked):
    """The events: their fields, how many are taken, and the fate of those of no use.

    Parameters
    ----------
    label : str, int, optional
        The field that holds the label; without one events are only predicted.
    schema : "open", "strict" or Schema, default "open"
        Fields and texts become columns when the first event with them is learned (open), or the
        first event learned has all of them and one with others is a bad one (strict). A `Schema`
        brings its own label.
    absent : "zero" or "missing", default "zero"
        What the columns of a field that an event lacks count as: 0 or NaN. A null is NaN anyway.
    ignore : tuple of str or int
        Fields that are no columns.
    until_end : bool, default False
        Each partition ends where it ended when the run began (for a restart: the first run).
    max_events : int, optional
        Stop after so many events of the sequence, restarts included.
    dead_letters : Sink, optional
        Gets the events that cannot be used, as they came, with position and reason.
    on_error : "raise", "skip" or "dead-letter"
        What becomes of such events; they are counted in any case. "dead-letter" if there is a
        sink for it, else "skip".
    max_bad_share : float, default 1.0
        The run ends where more than this share of the events, of at least 1,000 or all of them,
        cannot be used.
    data_loss : "fail", "earliest" or "latest", default "fail"
        What to do when the next events of a partition are gone from the source.
    """

    label: str | int | None = None
    schema: Schema | Mode = "open"
    absent: Annotated[Absent, choice_of(Absent)] = "zero"
    ignore: tuple[str | int, ...] = ()
    until_end: bool = False
    max_events: Annotated[int | None, Whole(least=0, optional=True)] = None
    dead_letters: Sink | None = None
    on_error: Annotated[OnError | None, choice_of(OnError)] = None
    max_bad_share: Annotated[float, Real(most=1.0)] = 1.0
    data_loss: Annotated[DataLoss, choice_of(DataLoss)] = "fail"

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if an option is out of its domain; complete label and policy."""
        super().__post_init__()
        policy = self.on_error or ("skip" if self.dead_letters is None else "dead-letter")
        if (policy == "dead-letter") != (self.dead_letters is not None):
            raise InvalidInput('dead_letters= and on_error="dead-letter" go together')
        object.__setattr__(self, "on_error", policy)
        if not isinstance(self.schema, Schema):
            Choice(choices=("open", "strict")).check("schema", self.schema)
        elif self.label not in (None, self.schema.label):
            raise InvalidInput(
                f"label={self.label!r}, but the schema's label is {self.schema.label!r}"
            )
        else:
            object.__setattr__(self, "label", self.schema.label)

    def schema_for(self, model: Learner) -> Schema:
        """Return the schema that was given, or one whose columns are found along the stream."""
        if isinstance(self.schema, Schema):
            return self.schema
        kind: LabelType | None = None if self.label is None or model.is_classifier else "float"
        return Schema(
            label=self.label,
            label_type=kind,
            mode=self.schema,
            absent=self.absent,
            ignore=self.ignore,
        )


@dataclass(frozen=True, kw_only=True)
class Watch(Checked):
    """Figures, alarms and progress of a run, as they are told.

    Parameters
    ----------
    window : int, default 1000
        Events in the windowed figures.
    metrics : sequence of str, optional
        Further figures by their names in `river.metrics`, as "F1", "ROCAUC", "CohenKappa" or "R2".
        Where they are of one class it is True or 1, or named, as "F1=spam".
    slice : str or int, optional
        A field of the events; each of the 20 values that come first has figures of its own, all
        others together.
    alarms : Sink, optional
        Gets an event when the error rises against its past, the columns drift, labels come later
        than before, or coverage or calibration leave their bounds, see `streamk.drift.alarms`.
    on_progress : function of a Snapshot, optional
        Called every `progress_interval` seconds, and at the end unless it is as it was then; by
        another thread where the run waits for a source or sink that is gone.
    progress_interval : float, default 1.0
    observer : Watcher, optional
        Gets samples of the predictions, with their reasons, and the events that cannot be used, see
        `streamk.serving.observing`.
    """

    window: Annotated[int, Whole()] = 1000
    metrics: Sequence[str] = ()
    slice: str | int | None = None
    alarms: Sink | None = None
    on_progress: Callable[[Snapshot], None] | None = None
    progress_interval: Annotated[float, Seconds()] = 1.0
    observer: Watcher | None = None


Newer = tuple[Learner, Schema, RegionGiver | None]
"""A model, its columns, and what its job has learned for intervals or sets of classes."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """The events are predicted and never learned.

    The schema of the stream is then one of mode "fixed" with the model's columns, as `streamk.load`
    gives it.

    Parameters
    ----------
    kept : RegionGiver, optional
        What the job of the model has learned for intervals or sets of classes
        (`TrainedModel.kept`).
    newer : function, optional
        Called each second: returns a model, its schema and its `kept` to predict with from there
        on, or None.
    """

    kept: RegionGiver | None = None
    newer: Callable[[], Newer | None] | None = None
