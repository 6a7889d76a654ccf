"""The model of a checkpoint, to predict events that are dicts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.adapters.rows import Model
from streamk.encoding import Schema
from streamk.engine.checkpoints.keys import key_of
from streamk.engine.checkpoints.object_path import ObjectPath, location
from streamk.engine.checkpoints.reading import Checkpoint, newest_of_all
from streamk.engine.checkpoints.watching import marker
from streamk.errors import InvalidInput, StateError
from streamk.learners import Learner, MultiKernel, from_state
from streamk.learners.common.predictor import innermost
from streamk.learners.report import report
from streamk.serving.following import Following

__all__ = ["TrainedModel", "load"]

Event = Mapping[Hashable, Any]


def load(
    directory: str | os.PathLike[str] | ObjectPath,
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
    >>> from streamk.engine import Engine
    >>> from streamk.learners import MultiKernel
    >>> directory = tempfile.mkdtemp()
    >>> events = [{"x": n % 7, "late": n % 7 > 3} for n in range(500)]
    >>> engine = Engine(MemorySource(events), MultiKernel(), label="late", checkpoint=directory)
    >>> _ = engine.run()
    >>> model = streamk.load(directory)
    >>> model.predict_one({"x": 6}), model.predict_one({"x": 1})
    (True, False)
    """
    return TrainedModel(directory, follow=follow, key=key)


class TrainedModel:
    """A model that was learned by a job and learns no more; `load` opens it.

    Events are dicts as the job reads them, with or without the label; what is no column of the
    model is passed over. One object may be used by several threads.

    Attributes
    ----------
    path : Path or ObjectPath
        The checkpoint.
    epoch : int
        Its number.
    written : float
        When it was written, in seconds since 1970.
    n_events : int
        Events the model has learned.
    label : str or int or None
        The field that is predicted.
    classes : tuple
        The labels known, empty for regression.
    schema : Schema
        The columns, of mode "fixed".
    learner : Learner
        The model itself, of arrays.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | ObjectPath,
        *,
        follow: float | None = None,
        key: str | os.PathLike[str] | None = None,
    ) -> None:
        if follow is not None and not follow >= 0:
            raise InvalidInput(f"follow={follow!r} must be a number of seconds, at least 0")
        place = location(directory)
        self._directory = place if isinstance(place, ObjectPath) else place.expanduser()
        self._follow = follow
        self._key = key_of(key)
        self._lock = threading.Lock()
        """Of the array that the model writes an event to before it is copied."""
        self._following = Following(self.refresh)
        self._seen = marker(self._directory)
        self._looked = time.monotonic()
        self._use(newest_of_all(self._directory, self._key))

    def _use(self, found: Checkpoint) -> None:
        learner = from_state(found.model)
        data = found.body["training"]["schema"]
        saved = Schema(label=found.body["config"]["label"])
        if data is not None:
            saved = Schema.from_json(data)
        self.schema = replace(saved, columns=learner.columns or (), mode="fixed")
        self.label = saved.label
        ignore = saved.ignore if saved.label is None else (*saved.ignore, saved.label)
        # One assignment each, for the sake of other threads.
        self._pair = learner, self.schema
        self._model = Model(learner, replace(self.schema, ignore=ignore))
        self.path, self.epoch, self.written = found.path, found.epoch, found.written

    def refresh(self) -> bool:
        """Go on with the newest checkpoint; return whether it is another one than before.

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
    def current(self) -> tuple[Learner, Schema]:
        """The model and the schema that belongs to it, of one checkpoint."""
        return self._pair

    @property
    def learner(self) -> Learner:
        """The model itself."""
        return self._model.learner

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels known, empty for regression."""
        return self.learner.classes

    @property
    def n_events(self) -> int:
        """Events the model has learned."""
        return self.learner.n_events

    def _current(self) -> Model:
        if self._follow is not None and time.monotonic() - self._looked >= self._follow:
            self._following.look()
        return self._model

    def _rows(self, model: Model, events: Sequence[Event]) -> NDArray[np.float64]:
        """Return events as the learner takes them, an array of their own."""
        with self._lock:
            rows = model.rows(events)
        return rows if model.learner.takes_missing else np.nan_to_num(rows)

    def _row(self, model: Model, x: Event) -> NDArray[np.float64]:
        row: NDArray[np.float64] = self._rows(model, [x])[0]
        return row

    def predict_one(self, x: Event) -> Any:
        """Return the most probable label, None where none is known, or the number, 0 at first.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        model = self._current()
        if not _can_predict(model.learner):
            return _nothing(model.learner)
        found = model.learner.predict_one(self._row(model, x))
        return found if model.learner.is_classifier else float(found)

    def predict_many(self, events: Sequence[Event]) -> list[Any]:
        """Return what `predict_one` does, for each of several events.

        Parameters
        ----------
        events : sequence of n dicts

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        model = self._current()
        if not _can_predict(model.learner):
            return [_nothing(model.learner)] * len(events)
        found: list[Any] = model.learner.predict_many(self._rows(model, events)).tolist()
        return found

    def predict_proba_one(self, x: Event) -> dict[Any, float]:
        """Return the probability of each label; {} where none is known.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it, or the model predicts numbers.
        """
        model = self._current()
        if model.learner.is_classifier and not model.learner.classes:
            return {}
        return model.learner.predict_proba_one(self._row(model, x))

    def predict_interval_one(self, x: Event, level: float = 0.9) -> tuple[float, float]:
        """Return an interval that holds the number with about that probability.

        Parameters
        ----------
        x : dict
        level : float, default 0.9
            Between 0 and 0.99.

        Raises
        ------
        InvalidInput
            If a value or the level is of no use, or the model has no intervals.
        """
        model = self._current()
        if not isinstance(model.learner, MultiKernel):
            raise InvalidInput("intervals are for numbers predicted by the model multi-kernel")
        rows = self._rows(model, [x])
        low, high = model.learner.predict_interval_many(rows, level)[0].tolist()
        return low, high

    def debug_one(self, x: Event) -> str:
        """Tell what is predicted for an event, which experts carry the weight, and which columns.

        Parameters
        ----------
        x : dict

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        model = self._current()
        return report(model.learner, self._row(model, x))

    def __repr__(self) -> str:
        kind = getattr(innermost(self.learner), "TYPE", "model")
        return f"<{kind} of {self.path}: {self.n_events:,} events, label {self.label!r}>"


def _can_predict(learner: Learner) -> bool:
    """Return whether there is anything to predict from."""
    return bool(learner.classes) if learner.is_classifier else learner.n_events > 0


def _nothing(learner: Learner) -> Any:
    return None if learner.is_classifier else 0.0
