"""Figures of servers for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from streamk.serving.observing import Observer
from streamk.trained import TrainedModel

_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds. A prediction takes some 50 µs."""


Figure = TypeVar("Figure", Counter, Gauge)


class _Requests:
    """Counts of requests, among other figures."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        about = "Requests that were answered."
        self._requests = self._of(Counter, "requests", about, "path", "status")
        about = "Share of what the experts of one kind say, of the last predictions explained."
        self._experts = self._of(Gauge, "expert_weight", about, "expert")

    def _of(self, kind: type[Figure], name: str, about: str, *labels: str) -> Figure:
        """Return a new figure."""
        return kind(f"streamk_{name}", about, labels, registry=self._registry)

    def weigh(self, experts: Mapping[str, float]) -> None:
        """Take the shares of the experts."""
        self._experts.clear()
        for name, share in experts.items():
            self._experts.labels(name).set(share)

    def answered(self, path: str, status: int) -> None:
        """Count a request."""
        path = "/page" if path.startswith("/page/") else path
        self._requests.labels(path, str(status)).inc()

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self._registry)


class Monitoring(_Requests):
    """Counts of requests and predictions, times, and the age of the model.

    Parameters
    ----------
    observer : Observer
        Of the requests.
    """

    def __init__(self, model: TrainedModel, observer: Observer) -> None:
        super().__init__()
        self._observer = observer
        self._events = self._of(Counter, "events_predicted", "Events predicted.")
        self._taken = self._of(Counter, "events_taken", "Events posted to be learned, and taken.")
        self._seconds = Histogram(
            "streamk_predict_seconds",
            "Time from the body of a request to its answer.",
            buckets=_BOUNDS,
            registry=self._registry,
        )
        about = "Times that a newer checkpoint could not be read."
        self._failures = self._of(Counter, "refresh_failures", about)
        epoch = self._of(Gauge, "model_epoch", "Number of the checkpoint.")
        epoch.set_function(lambda: model.epoch)
        events = self._of(Gauge, "model_events", "Events the model has learned.")
        events.set_function(lambda: model.n_events)
        age = self._of(Gauge, "model_age_seconds", "Time since the checkpoint was written.")
        age.set_function(lambda: model.age)

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        self.weigh(self._observer.experts)
        return super().text()

    def predicted(self, events: int, seconds: float) -> None:
        """Count the events of a request, and note how long it took."""
        self._events.inc(events)
        self._seconds.observe(seconds)

    def taken(self, events: int) -> None:
        """Count events that were posted to be learned."""
        self._taken.inc(events)

    def failed(self) -> None:
        """Count a checkpoint that could not be read."""
        self._failures.inc()


_GAUGES = {
    "events": "Events taken since the job began, restarts included.",
    "learned": "Events learned.",
    "predicted": "Events predicted.",
    "bad": "Events that could not be used.",
    "tombstones": "Records that tell of a deletion, which are no events.",
    "events_per_s": "Events a second.",
    "lag": "Events in the source that are not yet taken.",
    "features": "Random features or landmarks in use.",
    "model_bytes": "Memory of the model.",
    "process_bytes": "Memory of the process.",
    "epoch": "Number of the last checkpoint.",
}


class JobMonitoring(_Requests):
    """The last point of a job, and counts of requests.

    Parameters
    ----------
    last : function
        Returns the point, or None where there is none yet.
    """

    def __init__(self, last: Callable[[], Mapping[str, Any] | None]) -> None:
        super().__init__()
        self._last = last
        self._gauges = {
            name: self._of(Gauge, f"job_{name}", about) for name, about in _GAUGES.items()
        }
        about = "Figures of progressive validation, of the last events or of all."
        self._figures = self._of(Gauge, "job_figure", about, "name", "of")
        about = "Figures of the champion and of its challengers, by the name of the model."
        self._models = self._of(Gauge, "job_model_figure", about, "model", "name", "of")
        about = "Whether a model is the champion."
        self._champion = self._of(Gauge, "job_champion", about, "model")
        about = "Figures of the events with a value of the column that --slice names."
        self._slices = self._of(Gauge, "job_slice", about, "slice", "name", "of")
        self._alarms = self._of(Gauge, "job_alarms", "Alarms since the job began.", "kind")
        about = "Events that could not be used, by kind."
        self._bad_kinds = self._of(Gauge, "job_bad_kind", about, "kind")
        self._waits = self._of(Gauge, "job_waits", "Whether the job waits for a source or sink.")

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        last = self._last()
        if last is not None:
            for name, gauge in self._gauges.items():
                gauge.set(float("nan") if last[name] is None else last[name])
            for of in ("window", "whole", "baselines"):
                for name, value in last[of].items():
                    self._figures.labels(name, of).set(value)
            for value, figures in last["slices"].items():
                window = {"events": 0, **figures["window"]}
                for name in figures.keys() - {"window"}:
                    self._slices.labels(value, name, "whole").set(figures[name])
                    # An accuracy of none of the last events is none.
                    self._slices.labels(value, name, "window").set(window.get(name, float("nan")))
            for kind, n in last["alarms"].items():
                self._alarms.labels(kind).set(n)
            for kind, n in last["bad_kinds"].items():
                self._bad_kinds.labels(kind).set(n)
            self.weigh(last["experts"])
            self._waits.set(last["trouble"] is not None)
            if last["contest"] is not None:
                self._compare(last["contest"])
        return super().text()

    def _compare(self, contest: Mapping[str, Any]) -> None:
        """Set the figures of all models of a contest."""
        for model, figures in contest["models"].items():
            self._champion.labels(model).set(model == contest["champion"])
            for of in ("window", "whole"):
                for name, value in figures[of].items():
                    self._models.labels(model, name, of).set(value)
