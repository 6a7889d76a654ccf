"""Figures of servers for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from streamk.serving.trained import TrainedModel

__all__ = ["CONTENT_TYPE", "JobMonitoring", "Monitoring"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds. A prediction takes some 50 µs."""


class _Requests:
    """Counts of requests, among other figures."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "streamk_requests",
            "Requests that were answered.",
            ("path", "status"),
            registry=self._registry,
        )

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
    model : TrainedModel
    """

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        registry = self._registry
        self._events = Counter("streamk_events_predicted", "Events predicted.", registry=registry)
        self._taken = Counter(
            "streamk_events_taken", "Events posted to be learned, and taken.", registry=registry
        )
        self._seconds = Histogram(
            "streamk_predict_seconds",
            "Time from the body of a request to its answer.",
            buckets=_BOUNDS,
            registry=registry,
        )
        self._failures = Counter(
            "streamk_refresh_failures",
            "Times that a newer checkpoint could not be read.",
            registry=registry,
        )
        epoch = Gauge("streamk_model_epoch", "Number of the checkpoint.", registry=registry)
        epoch.set_function(lambda: model.epoch)
        events = Gauge("streamk_model_events", "Events the model has learned.", registry=registry)
        events.set_function(lambda: model.n_events)
        age = Gauge(
            "streamk_model_age_seconds", "Time since the checkpoint was written.", registry=registry
        )
        age.set_function(lambda: model.age)

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
        self._last, registry = last, self._registry
        self._gauges = {
            name: Gauge(f"streamk_job_{name}", about, registry=registry)
            for name, about in _GAUGES.items()
        }
        self._figures = Gauge(
            "streamk_job_figure",
            "Figures of progressive validation, of the last events or of all.",
            ("name", "of"),
            registry=registry,
        )
        self._waits = Gauge(
            "streamk_job_waits", "Whether the job waits for a source or sink.", registry=registry
        )

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        last = self._last()
        if last is not None:
            for name, gauge in self._gauges.items():
                gauge.set(float("nan") if last[name] is None else last[name])
            for of in ("window", "whole", "baselines"):
                for name, value in last[of].items():
                    self._figures.labels(name, of).set(value)
            self._waits.set(last["trouble"] is not None)
        return super().text()
