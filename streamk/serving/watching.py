"""Points of a server for its page: one each second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from streamk.engine.observing.observer import Observer
from streamk.engine.progress import Pace, process_bytes
from streamk.learners.common.predictor import innermost
from streamk.serving.answers import Answers, RefusedEvents
from streamk.serving.trained import TrainedModel
from streamk.serving.web.history import History

__all__ = ["Watch"]

_SECONDS = 1.0
_log = logging.getLogger("streamk.serving")


class Watch:
    """Figures of a server and of its model over time.

    Of requests it has counts, times and means alone: nothing of what one client asks is shown to
    another.

    Parameters
    ----------
    model : TrainedModel
    answers : Answers

    Attributes
    ----------
    history : History
    """

    def __init__(self, model: TrainedModel, answers: Answers) -> None:
        self._model, self._answers = model, answers
        name = getattr(innermost(model.learner), "TYPE", type(model.learner).__name__)
        about = {"label": model.label, "model": name, "from": "a checkpoint"}
        self.history = History({key: str(text) for key, text in about.items() if text is not None})
        self._pace = Pace(_SECONDS)
        self._pace.rate(0)
        self._events = 0
        self._seconds: list[float] = []
        self._bad: dict[str, int] = {}

    @property
    def observer(self) -> Observer:
        """The means of what was explained."""
        return self.history.observer

    def predicted(self, events: int, seconds: float) -> None:
        """Count the events of a request, and note how long it took."""
        self._events += events
        self._seconds.append(seconds)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Count the events that are refused, by kind."""
        try:
            yield
        except RefusedEvents as error:
            for event in error.events:
                kind = str(event["reason"]).partition(":")[0].partition(";")[0]
                self._bad[kind] = self._bad.get(kind, 0) + 1
            raise

    async def go_on(self) -> None:
        """Add a point each second."""
        while True:
            try:
                await asyncio.to_thread(self.add_point)
            except Exception:
                _log.exception("the live page has one point less")
            await asyncio.sleep(_SECONDS)

    def add_point(self) -> None:
        """Explain the event that was predicted last, and add a point."""
        asked = self._answers.asked()
        if asked is not None:
            explanation = self.observer.explain(*asked)
            if explanation is not None:
                self.observer.add(explanation)
        self.history.add(self._figures())

    def _figures(self) -> dict[str, Any]:
        """Return the figures of now, with names as those of a job's `Snapshot`."""
        model, (seconds, self._seconds) = self._model, (self._seconds, [])
        times = None
        if seconds:
            median, slow = np.quantile(seconds, (0.5, 0.99)).tolist()
            times = {"median": median, "p99": slow}
        return {
            "events": self._events,
            "learned": model.n_events,
            "events_per_s": self._pace.rate(self._events),
            "seconds": times,
            "bad": sum(self._bad.values()),
            "bad_kinds": dict(self._bad),
            "model_bytes": model.learner.nbytes,
            "process_bytes": process_bytes(),
            "epoch": model.epoch,
            "age": model.age,
            "lag": None,
            **model.figures,
        }
