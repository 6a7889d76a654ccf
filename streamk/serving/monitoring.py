"""Figures of servers for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

Figure = TypeVar("Figure", Counter, Gauge)


class Requests:
    """Counts of requests, among other figures."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        about = "Requests that were answered."
        self._requests = self.of(Counter, "requests", about, "path", "status")
        about = "Share of what the experts of one kind say, of the last predictions explained."
        self._experts = self.of(Gauge, "expert_weight", about, "expert")

    def of(self, kind: type[Figure], name: str, about: str, *labels: str) -> Figure:
        """Return a new figure."""
        return kind(f"streamk_{name}", about, labels, registry=self.registry)

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
        return generate_latest(self.registry)


_GAUGES = {
    "events": "Events taken since the job began, restarts included.",
    "learned": "Events learned.",
    "predicted": "Events that got a prediction; before the first label there is none.",
    "bad": "Events that could not be used.",
    "tombstones": "Records of deletions, which are not events.",
    "events_per_s": "Events a second.",
    "lag": "Events in the source that are not yet taken.",
    "features": "Random features or landmarks in use.",
    "model_bytes": "Memory of the model.",
    "process_bytes": "Memory of the process.",
    "epoch": "Number of the last checkpoint.",
}


class JobMonitoring(Requests):
    """The last point of a job, from `last`, and counts of requests."""

    def __init__(self, last: Callable[[], Mapping[str, Any] | None]) -> None:
        super().__init__()
        self._last = last
        self._gauges = {
            name: self.of(Gauge, f"job_{name}", about) for name, about in _GAUGES.items()
        }
        about = "Figures of progressive validation, of the last events or of all."
        self._figures = self.of(Gauge, "job_figure", about, "name", "of")
        about = "Figures of the champion and of its challengers, by the name of the model."
        self._models = self.of(Gauge, "job_model_figure", about, "model", "name", "of")
        about = "Whether a model is the champion."
        self._champion = self.of(Gauge, "job_champion", about, "model")
        about = "Figures of the events with a value of the column that --slice names."
        self._slices = self.of(Gauge, "job_slice", about, "slice", "name", "of")
        self._alarms = self.of(Gauge, "job_alarms", "Alarms since the job began.", "kind")
        about = "Events that could not be used, by kind."
        self._bad_kinds = self.of(Gauge, "job_bad_kind", about, "kind")
        self._waits = self.of(Gauge, "job_waits", "Whether the job waits for a source or sink.")

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
