"""Figures of a server for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from streamk.serving.trained import TrainedModel

__all__ = ["CONTENT_TYPE", "Monitoring"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds. A prediction takes some 50 µs."""


class Monitoring:
    """Counts of requests and predictions, times, and the age of the model.

    Parameters
    ----------
    model : TrainedModel
    """

    def __init__(self, model: TrainedModel) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._requests = Counter(
            "streamk_requests",
            "Requests that were answered.",
            ("path", "status"),
            registry=registry,
        )
        self._events = Counter("streamk_events_predicted", "Events predicted.", registry=registry)
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
        age.set_function(lambda: max(0.0, time.time() - model.written))

    def answered(self, path: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()

    def predicted(self, events: int, seconds: float) -> None:
        """Count the events of a request, and note how long it took."""
        self._events.inc(events)
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """Count a checkpoint that could not be read."""
        self._failures.inc()

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self._registry)
