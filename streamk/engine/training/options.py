"""The options of a stream, of a run's reports, and of a run that learns nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from connectors.base import Sink
from streamk.encoding import Absent, Kind, LabelType, Mode, Schema
from streamk.engine.order.feed import DataLoss
from streamk.engine.progress import Snapshot
from streamk.engine.training.bad_events import OnError
from streamk.engine.training.beside import RegionGiver, Watcher, regions_of
from streamk.errors import InvalidInput, shown
from streamk.learners.common.base import Learner
from streamk.learners.explaining import TOLD, Event, Fields, reasons_of
from streamk.learners.remembering import check_entities, remembering
from streamk.memory.entities import MAX_ENTITIES, SPANS
from streamk.options import Checked, Choice, Real, Seconds, Whole, choice_of


@dataclass(frozen=True, kw_only=True)
class Stream(Checked):
    """The options of events: their fields, their number, and the fate of unusable ones.

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
        Fields that are not columns.
    text : tuple of str or int
        Fields whose texts are bags of words from the first one on. By default that is found out,
        see `streamk.encoding.words`. A `Schema` has `kinds` instead.
    entities : tuple of str
        Fields that name entities, as users or cards: the model knows what each did before an event,
        see `streamk.learners.EntityMemory`, which is put around it. These are columns of no other
        kind. A `Schema` has `kinds` instead.
    time : str, optional
        The field of the time of events, for entities, and without them for the memory of labels
        (`MultiKernel`): a time, or milliseconds since 1970.
    spans : sequence of float, optional
        Of what is known of entities, in seconds, as `EntityMemory` has them.
    max_entities : int, default 1000000
        Entities of a field that are remembered.
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
    text: tuple[str | int, ...] = ()
    entities: tuple[str | int, ...] = ()
    time: str | int | None = None
    spans: tuple[float, ...] | None = None
    max_entities: Annotated[int, Whole()] = MAX_ENTITIES
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
        self._check_kinds()
        if not isinstance(self.schema, Schema):
            Choice(choices=("open", "strict")).check("schema", self.schema)
        elif self.label not in (None, self.schema.label):
            raise InvalidInput(
                f"label={self.label!r}, but the schema's label is {self.schema.label!r}"
            )
        else:
            object.__setattr__(self, "label", self.schema.label)

    def _check_kinds(self) -> None:
        """Raise `InvalidInput` for fields that cannot have the kind asked for."""
        time, spans = self.time, self.spans
        check_entities(self.entities, time=time, spans=spans, max_entities=self.max_entities)
        if self.entities and self.time is not None and self.spans is None:
            object.__setattr__(self, "spans", SPANS)
        fields: list[tuple[str, str | int]] = [("text", name) for name in self.text]
        fields += [("entities", name) for name in self.entities]
        fields += [] if self.time is None else [("time", self.time)]
        taken: dict[str | int | None, str] = {self.label: "the label"}
        taken |= dict.fromkeys(self.ignore, "ignored")
        for option, name in fields:
            if name in taken:
                raise InvalidInput(
                    f"{option}={name!r} is also {taken[name]}; leave out one of them"
                )
            taken[name] = f"among {option}="
        if isinstance(self.schema, Schema) and fields:
            raise InvalidInput(
                f"{fields[0][0]}= cannot be combined with a Schema; give the Schema "
                f"kinds={self._kinds!r}"
            )

    @property
    def _kinds(self) -> dict[str | int, Kind]:
        """The kinds of fields, as far as they are given."""
        kinds: dict[str | int, Kind] = dict.fromkeys(self.text, "words")
        kinds |= dict.fromkeys(self.entities, "entity")
        return kinds if self.time is None else {**kinds, self.time: "clock"}

    def remembering(self, model: Any) -> Any:
        """Return a model that knows the past of the entities, also of a schema's; `remembering`."""
        entities, time = self.entities, self.time
        if isinstance(self.schema, Schema) and self.schema.mode != "fixed":
            kinds = self.schema.kinds
            entities = tuple(name for name, kind in kinds.items() if kind == "entity")
            clocks = [name for name, kind in kinds.items() if kind == "clock"]
            time = clocks[0] if clocks and entities else None
        more: dict[str, Any] = {"spans": self.spans, "max_entities": self.max_entities}
        return remembering(model, entities, time=time, **more)

    def schema_for(self, model: Learner) -> Schema:
        """Return the given schema, or one that finds its columns along the stream."""
        if isinstance(self.schema, Schema):
            return self.schema
        kind: LabelType | None = None if self.label is None or model.is_classifier else "float"
        return Schema(
            label=self.label,
            label_type=kind,
            kinds=self._kinds,
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


@dataclass(frozen=True)
class Details:
    """The details that are wanted.

    Parameters
    ----------
    interval : float, optional
        Part of the numbers that the intervals are to hold, above 0 and at most 0.99.
    prediction_set : float, optional
        Part of the labels that the sets of classes are to hold, above 0 and at most 0.99.
    explain : bool, default False
        The fields with the largest effects, see `streamk.learners.explaining`.

    Examples
    --------
    >>> from streamk.encoding import Schema
    >>> from streamk.learners import MultiKernel
    >>> model = MultiKernel(seed=1, columns=("a", "b"))
    >>> model.learn_many(np.eye(2)[[0, 1] * 20], [True, False] * 20)
    >>> fields = Fields()
    >>> fields.follow(Schema(("a", "b")), ("a", "b"))
    >>> (details,) = Details(explain=True).of(model, fields, np.array([[1.0, 0.0]]), [None])
    >>> [(reason["column"], reason["value"]) for reason in details["reasons"]]
    [('a', 1), ('b', 0)]
    """

    interval: float | None = None
    prediction_set: float | None = None
    explain: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the details that are wanted."""
        return (*(name for name, _ in self._levels), *["reasons"] * self.explain)

    @property
    def _levels(self) -> list[tuple[str, float]]:
        levels = ("interval", self.interval), ("prediction_set", self.prediction_set)
        return [(name, level) for name, level in levels if level is not None]

    def check(self, model: Learner) -> None:
        """Raise `InvalidInput` if a model cannot give them, or one that may become champion."""
        if model.models:
            for each in model.models.values():
                self.check(each)
            return
        if self.explain and not model.takes_missing:
            raise InvalidInput("reasons need a model that takes missing values")
        for name, level in self._levels:
            if not 0.0 < level <= 0.99:
                raise InvalidInput(f"{name}={shown(level)} must lie between 0 and 0.99")
        if self.interval is not None and model.is_classifier:
            raise InvalidInput("intervals are for numbers; for classes ask for a prediction set")
        if self.prediction_set is not None and not model.is_classifier:
            raise InvalidInput("prediction sets are for classes; for numbers ask for an interval")

    def regions(self) -> RegionGiver | None:
        """Return intervals or sets that have met nothing yet, None where neither is wanted."""
        if not self._levels:
            return None
        name, level = self._levels[0]
        made: RegionGiver = regions_of(name)(level)
        return made

    def served(
        self, model: Learner, kept: RegionGiver | None
    ) -> tuple[Details, RegionGiver | None]:
        """Return the options that still apply to a model that learns no more, and its regions.

        Those that its job has `kept`, or of other levels what the model knows itself.

        Raises
        ------
        InvalidInput
            If there are none that are wanted.
        """
        self.check(model)
        wanted = self.regions()
        if wanted is None:
            return self, None
        if kept is not None and kept.level == wanted.level:
            return Details(explain=self.explain), kept
        if model.mixes_experts and self.interval is not None:
            return self, None
        flag = f"--{wanted.NAME.replace('_', '-')}"
        if kept is None:
            raise InvalidInput(
                f"the job of this model runs without {flag}, which learns from its errors; run it"
                f" with {flag} {wanted.level:g}"
            )
        raise InvalidInput(
            f"the job of this model runs with {flag} {kept.level:g}; ask for that instead of"
            f" {wanted.level:g}"
        )

    def of(
        self, model: Learner, fields: Fields, X: NDArray[np.float64], events: Sequence[Event]
    ) -> list[dict[str, Any]]:
        """Return the reasons for events X (n, d), and the model's own intervals, by name.

        None where nothing is learned yet. The model is as it was afterwards.
        """
        predicting: Any = model.predicting
        nothing = [None] * len(X)
        found: dict[str, Sequence[Any]] = {}
        if self.interval is not None:
            found["interval"] = nothing
            if predicting.n_events:
                with predicting.aside():
                    found["interval"] = predicting.predict_interval_many(X, self.interval).tolist()
        if self.explain:
            found["reasons"] = nothing
            if predicting.n_events:
                told = reasons_of(predicting, fields, X, events, most=TOLD)
                found["reasons"] = [[reason._asdict() for reason in some] for some in told]
        return [{name: column[i] for name, column in found.items()} for i in range(len(X))]
