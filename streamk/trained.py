"""The model of a checkpoint, to predict events that are dicts."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.adapters.rows import Model
from streamk.encoding import Schema
from streamk.engine.checkpoints.files import key_of
from streamk.engine.checkpoints.opening import marker
from streamk.engine.checkpoints.places import Remote, location
from streamk.engine.checkpoints.reading import Checkpoint, newest_of_all
from streamk.engine.evaluation.metrics import Metrics
from streamk.engine.training.beside import RegionGiver
from streamk.engine.training.fields import KnownFields, Unknown
from streamk.engine.training.options import Details
from streamk.errors import InvalidInput, StateError, StreamkError
from streamk.extensions import find
from streamk.learners import Learner, from_state
from streamk.learners.common.classes import Label
from streamk.learners.common.predictor import Decider
from streamk.learners.common.prequential import Prequential, nothing
from streamk.learners.explaining import Fields
from streamk.learners.registry import champion_state, initials

_log = logging.getLogger("streamk.serving")


class Following:
    """Looks for newer models; where that fails the model stays as it is, and a warning says so.

    Parameters
    ----------
    refresh : function
        Goes on with the newest model, and returns True if it has changed.
    failed : function, optional
        Is called each time that fails.
    """

    def __init__(
        self, refresh: Callable[[], bool], failed: Callable[[], None] = lambda: None
    ) -> None:
        self._refresh, self._failed = refresh, failed
        self._told = ""

    def look(self) -> bool:
        """Go on with the newest model; return True if it has changed."""
        try:
            found = self._refresh()
        except (StreamkError, OSError) as error:
            self._failed()
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("cannot read a newer model, keeping the current one: %s", error)
            return False
        if self._told:
            self._told = ""
            _log.warning("newer models can be read again")
        return found


def answers(
    learner: Learner, X: NDArray[np.float64], regions: RegionGiver | None = None
) -> list[dict[str, Any]]:
    """Return predictions and, of classes, probabilities; None, {} and 0 where nothing is known.

    Parameters
    ----------
    learner : Learner
    X : float64 array of shape (n, d)
    regions : RegionGiver, optional
        Intervals or sets of classes that are to go with them.

    Returns
    -------
    list of n dict
    """
    if learner.horizons:
        givers = repeat(None) if regions is None else (regions, *regions.others)
        told = {
            name: answers(one, X, giver)
            for (name, one), giver in zip(learner.horizons.items(), givers, strict=False)
        }
        return [
            {**each[0], "ahead": [{"horizon": n, **one} for n, one in zip(told, each, strict=True)]}
            for each in zip(*told.values(), strict=True)
        ]
    found = _predicted(learner, X)
    labels = found.predictions.tolist()
    if found.probabilities is None:
        values: list[dict[str, Any]] = [{"prediction": number} for number in labels]
    else:
        names = [_text(label) for label in learner.classes]
        values = [
            {"prediction": label, "probabilities": dict(zip(names, row, strict=True))}
            for label, row in zip(labels, found.probabilities.tolist(), strict=True)
        ]
    if regions is not None:
        more, _ = regions.give(found, learner.classes)
        values = [one | region for one, region in zip(values, more, strict=True)]
    return values


def _text(label: Label) -> str:
    return label if isinstance(label, str) else msgspec.json.encode(label).decode()


def _predicted(learner: Learner, X: NDArray[np.float64]) -> Prequential:
    if not _can_predict(learner):
        return nothing(learner, len(X))
    if isinstance(learner, Decider):  # whose outputs are computed once for both
        F = learner.decision_many(X)
        P = learner.probabilities(F) if learner.is_classifier else None
        return Prequential(learner.predictions(F), P)
    labels = np.asarray(learner.predict_many(X))
    return Prequential(labels, learner.predict_proba_many(X) if learner.is_classifier else None)


_TOLD = 100
"""Unknown fields at most that are told, each once."""


Event = Mapping[Hashable, Any]


def load(
    directory: str | os.PathLike[str] | Remote,
    *,
    follow: float | None = None,
    key: str | os.PathLike[str] | None = None,
) -> TrainedModel:
    """Open the newest model that a job has saved, to predict with it.

    The job may be running. Nothing is written to its directory.

    Parameters
    ----------
    directory : path or str
        The one given to `streamk run --checkpoint`, or that of a member or an epoch inside it. Of
        several members it is the one that has learned the most events. An address in an object
        store is a text, ``s3://bucket/job``.
    follow : float, optional
        Seconds after which a prediction looks for a newer checkpoint first; where none can be read
        a warning is logged, and the model stays. By default only `TrainedModel.refresh` looks.
    key : path, optional
        File with the key that checkpoints must be signed with, that of `--state-key`. Without one
        signatures are not checked.

    Returns
    -------
    TrainedModel

    Raises
    ------
    InvalidInput
        If there is no checkpoint there, `follow` is negative, or the key cannot be used.
    StateError
        If there are checkpoints and none can be used, with the reason for each, or one is not
        signed with the key.
    OSError
        If an object store is away.

    Examples
    --------
    >>> import tempfile
    >>> import streamk
    >>> from connectors.memory import MemorySource
    >>> from streamk.engine import Checkpoints, Engine, Stream
    >>> from streamk.learners import MultiKernel
    >>> directory = tempfile.mkdtemp()
    >>> events = [{"x": n % 7, "late": n % 7 > 3} for n in range(500)]
    >>> saved = Checkpoints(directory)
    >>> stream = Stream(label="late")
    >>> _ = Engine(MemorySource(events), MultiKernel(), stream=stream, checkpoints=saved).run()
    >>> model = streamk.load(directory)
    >>> model.predict_one({"x": 6}), model.predict_one({"x": 1})
    (True, False)
    """
    return TrainedModel(directory, follow=follow, key=key)


class TrainedModel:
    """A model that was learned by a job and learns no more; `load` opens it.

    Events are dicts as the job reads them, with or without the label. Fields that the model does
    not have are passed over; a warning is logged for each, once. One object may be used by several
    threads.

    Attributes
    ----------
    path : Path or Remote
        The checkpoint.
    epoch : int
        Its number.
    written : float
        When it was written, in seconds since 1970.
    n_events : int
        Events the model has learned.
    label : str or int or None
        The field that is predicted.
    horizon : str or None
        So many events or so much time ahead, as `streamk run --horizon` has it.
    classes : tuple
        The labels known, empty for regression.
    schema : Schema
        The columns, of mode "fixed".
    learner : Learner
        The model itself, of arrays.
    champion : str or None
        The name of the model, where challengers learn beside it.
    challengers : tuple of str
        Their names.
    encoding : str
        That of the events of the job (`connectors.base.ENCODINGS`).
    late_labels : bool
        Whether their labels come from a source of their own.

    Raises
    ------
    InvalidInput
        As `load`. Methods raise it if a value is not usable, naming it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | Remote,
        *,
        follow: float | None = None,
        key: str | os.PathLike[str] | None = None,
    ) -> None:
        if follow is not None and not follow >= 0:
            raise InvalidInput(f"follow={follow!r} must be a number of seconds, at least 0")
        self._directory = location(directory)
        self._follow = follow
        self._key = key_of(key)
        self._figures: tuple[Mapping[str, Any], dict[str, dict[str, float]]] | None = None
        """Of the metrics of a checkpoint, and these."""
        self._following = Following(self.refresh)
        self._told: set[str] = set()
        """Unknown fields that were told."""
        self._seen = marker(self._directory)
        self._looked = time.monotonic()
        self._use(newest_of_all(self._directory, self._key))

    def _use(self, found: Checkpoint) -> None:
        learner = from_state(champion_state(found.model))
        learner.expect_no_labels()
        models = list(initials(found.model))
        self.champion = str(found.model.header["champion"]) if models else None
        self.challengers = tuple(name for name in models if name != self.champion)
        config = found.body["config"]
        late = config["labels"] or {}
        self.encoding, self.late_labels = str(config["encoding"]), "key" in late
        self._metrics: Mapping[str, Any] = found.body["training"]["metrics"]
        data = found.body["training"]["schema"]
        saved = Schema(label=config["label"])
        if data is not None:
            saved = Schema.from_json(data)
        key = (late["key"],) if self.late_labels else ()
        columns, ignore = learner.columns or (), (*saved.ignore, *key)
        self.schema = replace(saved, columns=columns, ignore=ignore, mode="fixed")
        self._known = KnownFields(self.schema)
        self.label, self.horizon = config["label"], config["horizon"]
        ignore = ignore if saved.label is None else (*ignore, saved.label)
        # The first prediction in a process loads compiled code: a request is not to wait for that.
        answers(learner, np.zeros((1, len(learner.columns or ()))))
        model = Model(learner, replace(self.schema, ignore=ignore))
        kept = _kept(found, learner)
        self._opened = model, self.schema, kept  # at once, as other threads predict
        self.path, self.epoch, self.written = found.path, found.epoch, found.written

    def refresh(self) -> bool:
        """Go on with the newest checkpoint; return True if it has changed.

        Raises
        ------
        StateError
            If none can be used; the model stays as it was.
        OSError
            If an object store is away; likewise.
        """
        self._looked, seen = time.monotonic(), marker(self._directory)
        if seen == self._seen:
            return False
        try:
            found = newest_of_all(self._directory, self._key)
        except (StateError, FileNotFoundError):
            if seen == marker(self._directory):
                raise
            found = newest_of_all(self._directory, self._key)  # the job removed what was being read
        self._seen = seen
        if found.path == self.path:
            return False
        self._use(found)
        return True

    @property
    def age(self) -> float:
        """Seconds since the checkpoint was written."""
        return max(0.0, time.time() - self.written)

    @property
    def current(self) -> tuple[Learner, Schema, RegionGiver | None]:
        """The model, its schema and what its job keeps for regions, of one checkpoint."""
        model, schema, kept = self._opened
        return model.learner, schema, kept

    @property
    def kept(self) -> RegionGiver | None:
        """Regions as the job has learned them, intervals or sets; None where it gives none."""
        return self._opened[2]

    @property
    def figures(self) -> dict[str, dict[str, float]]:
        """Figures of the job when it saved the model, by name, but not those by River's names.

        Of the "whole" stream, of the last events ("window"), and of the "baselines" in these. All
        are empty where they cannot be read, which is not a reason not to predict.
        """
        data, known = self._metrics, self._figures
        if known is None or known[0] is not data:
            known = self._figures = data, _figures(data)
        return known[1]

    @property
    def learner(self) -> Learner:
        """The model itself."""
        return self._opened[0].learner

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels known, empty for regression."""
        return self.learner.classes

    @property
    def n_events(self) -> int:
        """Events the model has learned."""
        return self.learner.n_events

    def _current(self) -> tuple[Model, Schema, RegionGiver | None]:
        if self._follow is not None and time.monotonic() - self._looked >= self._follow:
            self._following.look()
        return self._opened

    def _rows(self, model: Model, events: Sequence[Event]) -> NDArray[np.float64]:
        """Return events as the learner takes them, an array of their own."""
        rows = model.rows(events)
        for event in events:
            unknown = self._known.of(event)
            if unknown.names:
                self._tell(unknown)
        return rows if model.learner.takes_missing else np.nan_to_num(rows)

    def _tell(self, unknown: Unknown) -> None:
        """Warn of unknown fields that were not told before."""
        for name in map(str, unknown.names):
            if name in self._told or len(self._told) >= _TOLD:
                continue
            self._told.add(name)
            _log.warning("%s", self._known.sentence(name, is_all=unknown.is_all))
            if len(self._told) == _TOLD:
                _log.warning("further unknown fields are not reported")

    def _row(self, model: Model, x: Event) -> NDArray[np.float64]:
        row: NDArray[np.float64] = self._rows(model, [x])[0]
        return row

    def predict_one(self, x: Event) -> Any:
        """Return the most probable label, None where none is known, or the number, 0 at first.

        Parameters
        ----------
        x : dict
        """
        model, _, _ = self._current()
        if not _can_predict(model.learner):
            return _nothing(model.learner)
        found = model.learner.predict_one(self._row(model, x))
        return found if model.learner.is_classifier else float(found)

    def predict_many(self, events: Sequence[Event]) -> list[Any]:
        """Return what `predict_one` does, for each of several events.

        Parameters
        ----------
        events : sequence of n dicts
        """
        model, _, _ = self._current()
        if not _can_predict(model.learner):
            return [_nothing(model.learner)] * len(events)
        found: list[Any] = model.learner.predict_many(self._rows(model, events)).tolist()
        return found

    def predict_ahead_one(self, x: Event) -> dict[str, Any]:
        """Return the label or number predicted for each of several horizons, by their names.

        Raises
        ------
        InvalidInput
            If a value is not usable, naming it, or the job has one horizon or none.
        """
        model, _, _ = self._current()
        (found,) = answers(model.learner, self._rows(model, [x]))
        if "ahead" not in found:
            raise InvalidInput("the job of this model has one horizon or none")
        return {one["horizon"]: one["prediction"] for one in found["ahead"]}

    def predict_proba_one(self, x: Event) -> dict[Any, float]:
        """Return the probability of each label; {} where none is known.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is not usable, naming it, or the model predicts numbers.
        """
        model, _, _ = self._current()
        if model.learner.is_classifier and not model.learner.classes:
            return {}
        return model.learner.predict_proba_one(self._row(model, x))

    def predict_interval_one(self, x: Event, level: float = 0.9) -> tuple[float, float]:
        """Return an interval that holds the number with about that probability.

        It is the one that the job gives, where that runs with `--interval` of this level; of other
        levels the one that the model `multi-kernel` knows itself.

        Parameters
        ----------
        x : dict
        level : float, default 0.9
            Above 0 and at most 0.99.

        Raises
        ------
        InvalidInput
            If a value or the level is not usable, there is no such interval, or no label has come
            yet.
        """
        low, high = self._region_of(x, Details(interval=level))
        return low, high

    def predict_set_one(self, x: Event, level: float = 0.9) -> list[Any]:
        """Return the classes that hold the label with about that probability, most probable first.

        Parameters
        ----------
        x : dict
        level : float, default 0.9
            That of the job's `--prediction-set`.

        Raises
        ------
        InvalidInput
            If a value or the level is not usable, or the job gives no such sets.
        """
        return self._region_of(x, Details(prediction_set=level))

    def _region_of(self, x: Event, wanted: Details) -> list[Any]:
        model, _, kept = self._current()
        details, regions = wanted.served(model.learner, kept)
        rows = self._rows(model, [x])
        if regions is None:
            (answer,) = details.of(model.learner, Fields(), rows, [None])
        else:
            (answer,) = answers(model.learner, rows, regions)
        found = answer["interval" if wanted.interval is not None else "prediction_set"]
        if found is None:
            raise InvalidInput("nothing is learned yet, so there is no interval")
        return list(found)

    def debug_one(self, x: Event) -> str:
        """Explain the prediction for an event by its experts and its most important fields.

        Parameters
        ----------
        x : dict
        """
        model, _, _ = self._current()
        return model.report(x, self._row(model, x))

    def __repr__(self) -> str:
        kind = self.learner.innermost.TYPE
        return f"<{kind} of {self.path}: {self.n_events:,} events, label {self.label!r}>"


def _kept(found: Checkpoint, learner: Learner) -> RegionGiver | None:
    """Return what the job of a checkpoint keeps for intervals or sets. Raises `StateError`.

    Intervals of a model that is further off than it was in its job are wider by that.
    """
    data = found.body["training"]["regions"]
    if data is None:
        return None
    name = "interval" if data.get("region") == "interval" else "prediction_set"
    kind = find("regions", name)  # without which the rest of the model is as good
    if kind is None:
        return None
    kept: RegionGiver = kind.from_json(data)
    learners = learner.horizons.values() or (learner,)
    first, *others = map(_widened, (kept, *kept.others), learners)
    first.others = tuple(others)
    return first


def _widened(kept: RegionGiver, learner: Learner) -> RegionGiver:
    """Return what a job keeps, or of the errors of a model without labels, whatever is wider."""
    errors = learner.innermost.errors_without_labels
    if errors is None:
        return kept
    own = type(kept)(kept.level)
    nothing_said = Prequential(np.zeros(len(errors)), None)
    own.learn_later(nothing_said, (), errors, np.full(len(errors), np.nan), [0] * len(errors))
    one = Prequential(np.zeros(1), None)
    return max(kept, own, key=lambda each: np.nan_to_num(each.give(one, ())[1]).item())


def _figures(data: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the figures in the metrics of a checkpoint, see `TrainedModel.figures`."""
    try:
        metrics = Metrics.from_json(data, names=())
    except StateError:
        return {"whole": {}, "window": {}, "baselines": {}}
    baselines = metrics.baselines()["window"]
    return {"whole": metrics.whole(), "window": metrics.window(), "baselines": baselines}


def _can_predict(learner: Learner) -> bool:
    """Return whether there is anything to predict from."""
    return bool(learner.classes) if learner.is_classifier else learner.n_events > 0


def _nothing(learner: Learner) -> Any:
    return None if learner.is_classifier else 0.0
