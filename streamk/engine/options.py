"""The options of an engine, each once: its type, its domain, its default and what it is for."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, get_args, get_type_hints

from connectors.base import Sink
from streamk.conformal import Regions
from streamk.encoding import Absent, LabelType, Mode, Schema
from streamk.engine.checkpoints.manifests import Key, key_of
from streamk.engine.checkpoints.object_path import Location, ObjectPath, location
from streamk.engine.checkpoints.opening import open_store
from streamk.engine.checkpoints.store import Store
from streamk.engine.observing import Observer
from streamk.engine.progress import Snapshot
from streamk.engine.training.bad_events import OnError
from streamk.engine.training.details import Details
from streamk.errors import InvalidInput
from streamk.learners.base import Learner
from streamk.options import Choice, Option, Real, Whole

__all__ = ["FLAGS", "Checkpoints", "Fixed", "Order", "Stream", "Watch", "grouped"]

DataLoss = Literal["fail", "earliest", "latest"]
Place = str | os.PathLike[str] | ObjectPath


@dataclass(frozen=True, kw_only=True)
class _Seconds(Option):
    """A number of seconds, at least 0."""

    infinite: bool = False

    @property
    def _domain(self) -> str:
        return f"a number of seconds, at least 0{', or infinite' if self.infinite else ''}"

    def _holds(self, value: Any) -> bool:
        is_number = isinstance(value, int | float)
        return is_number and value >= 0 and (self.infinite or value < math.inf)


def _choice(literal: Any) -> Choice:
    """Return the domain of a literal type."""
    return Choice(choices=get_args(literal), optional=True)


class _Options:
    """Options that are checked where they are given."""

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if an option is out of its domain."""
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for domain in getattr(hint, "__metadata__", ()):
                domain.check(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Stream(_Options):
    """What the events are, how many are taken, and what becomes of those of no use.

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
    absent: Annotated[Absent, _choice(Absent)] = "zero"
    ignore: tuple[str | int, ...] = ()
    until_end: bool = False
    max_events: Annotated[int | None, Whole(least=0, optional=True)] = None
    dead_letters: Sink | None = None
    on_error: Annotated[OnError | None, _choice(OnError)] = None
    max_bad_share: Annotated[float, Real(most=1.0)] = 1.0
    data_loss: Annotated[DataLoss, _choice(DataLoss)] = "fail"

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
class Order(_Options):
    """How partitions become one sequence, see `streamk.engine.order.partitions`.

    Parameters
    ----------
    idle_timeout : float, default 1.0
        Seconds that the other partitions of a live stream wait for one that brings nothing.
    max_skew : float, default 60.0
        Seconds that the timestamp of an event may be ahead of its partition's clock; infinite for
        no bound.
    buffer_events : int, default 65536
    buffer_bytes : int, default 2^28
        About how much is read ahead while partitions wait for each other.
    """

    idle_timeout: Annotated[float, _Seconds()] = 1.0
    max_skew: Annotated[float, _Seconds(infinite=True)] = 60.0
    buffer_events: Annotated[int, Whole()] = 1 << 16
    buffer_bytes: Annotated[int, Whole()] = 1 << 28


@dataclass(frozen=True)
class Checkpoints(_Options):
    """Where and when model and position are saved, and what a run goes on from.

    Parameters
    ----------
    place : path or str, optional
        Directory of checkpoints, made if need be, or an address in an object store,
        ``s3://bucket/job``, for jobs of one process. Without one nothing is saved.
    every : int, default 100000
        Checkpoints are written after so many events of the sequence, twice as many and so on.
    grace : int, default 1000000
        Where a checkpoint cannot be written, it is tried again each second while the run goes on,
        until so many events have come since the last one; 0 ends the run at once.
    transactions : float, optional
        Predictions, dead letters, alarms and, of a consumer group, the offsets are written in one
        transaction for each checkpoint, which is then also written where one is so many seconds
        old, between 0.1 and 60. For sinks of Kafka.
    start_from : path or str, optional
        Directory or address of another job's checkpoints. A job that has no checkpoint of its own
        begins with the newest model there, its columns and its labels, and with nothing else of it;
        the model and the options of the stream must be those of that job, `encoding` apart.
    state_key : path, optional
        File with a key of 32 bytes or more. Checkpoints are signed with it (HMAC-SHA256), and what
        is not signed with it is refused: the checkpoint to go on from, that of `start_from`, and
        those of other members.
    """

    place: Place | None = None
    every: Annotated[int, Whole()] = 100_000
    grace: Annotated[int, Whole(least=0)] = 1_000_000
    transactions: Annotated[float | None, Real(least=0.1, most=60.0, optional=True)] = None
    start_from: Place | None = None
    state_key: str | os.PathLike[str] | Key | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if an option is out of its domain, or there is no place for it."""
        super().__post_init__()
        if self.state_key is not None and self.at is None and self.first_from is None:
            raise InvalidInput("state_key= needs a place of checkpoints or start_from=")
        if self.transactions is not None and self.place is None:
            raise InvalidInput(
                "transactions= needs a place of checkpoints: one is committed with each checkpoint"
            )
        _ = self.key, self.at, self.first_from

    @cached_property
    def at(self) -> Location | None:
        """The place."""
        return None if self.place is None else location(self.place)

    @cached_property
    def first_from(self) -> Location | None:
        """The place of the other job."""
        return None if self.start_from is None else location(self.start_from)

    @cached_property
    def key(self) -> Key | None:
        """The key in the file."""
        return key_of(self.state_key)

    def open(self, *, alone: bool) -> Store | None:
        """Return the store of the job, see `open_store`; None without a place."""
        return None if self.at is None else open_store(self.at, alone=alone, key=self.key)


@dataclass(frozen=True, kw_only=True)
class Watch(_Options):
    """What is told of a run: figures, alarms and progress.

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
        than before, or coverage or calibration leave their bounds, see `streamk.engine.alarms`.
    on_progress : function of a Snapshot, optional
        Called every `progress_interval` seconds, and at the end unless it is as it was then; by
        another thread where the run waits for a source or sink that is gone.
    progress_interval : float, default 1.0
    observer : Observer, optional
        Gets samples of the predictions, with their reasons, and the events that cannot be used, see
        `streamk.engine.observing`.
    """

    window: Annotated[int, Whole()] = 1000
    metrics: Sequence[str] = ()
    slice: str | int | None = None
    alarms: Sink | None = None
    on_progress: Callable[[Snapshot], None] | None = None
    progress_interval: Annotated[float, _Seconds()] = 1.0
    observer: Observer | None = None


Newer = tuple[Learner, Schema, Regions | None]
"""A model, its columns, and what its job has learned for intervals or sets of classes."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """The events are predicted and never learned.

    The schema of the stream is then one of mode "fixed" with the model's columns, as `streamk.load`
    gives it.

    Parameters
    ----------
    kept : Regions, optional
        What the job of the model has learned for intervals or sets of classes
        (`TrainedModel.kept`).
    newer : function, optional
        Called each second: returns a model, its schema and its `kept` to predict with from there
        on, or None.
    """

    kept: Regions | None = None
    newer: Callable[[], Newer | None] | None = None


_STRUCTS: dict[str, Any] = {
    "stream": Stream,
    "order": Order,
    "checkpoints": Checkpoints,
    "watch": Watch,
    "details": Details,
}
_NAMES = {"place": "checkpoint", "every": "checkpoint_every", "grace": "checkpoint_grace"}

FLAGS: Mapping[str, tuple[str, str]] = {
    _NAMES.get(field.name, field.name): (part, field.name)
    for part, struct in _STRUCTS.items()
    for field in fields(struct)
}
"""By an option's name in commands: the argument of `Engine` that it is part of, and its name."""


def grouped(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `Engine` for options by their names in commands; others are passed over.

    >>> grouped({"label": "y", "checkpoint_every": 10, "quiet": True})["checkpoints"].every
    10
    """
    parts: dict[str, dict[str, Any]] = {part: {} for part in _STRUCTS}
    for name in FLAGS.keys() & options.keys():
        part, field = FLAGS[name]
        parts[part][field] = options[name]
    return {part: _STRUCTS[part](**given) for part, given in parts.items()}
