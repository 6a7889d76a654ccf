"""An application for HTTP that predicts by a model, and by each newer one that its job saves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
from prometheus_client import Counter, Gauge, Histogram
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.base import EventLog
from connectors.errors import BadRecord, ConnectorError
from streamk import __version__
from streamk.encoding import BadEvent, Schema, decoder
from streamk.engine.progress import Pace, process_bytes
from streamk.engine.training.options import Details
from streamk.errors import InvalidInput
from streamk.serving.answers import Answers, RefusedEvents, split
from streamk.serving.monitoring import Requests
from streamk.serving.pages import Guard, PageHistory, as_json, guarded, page_routes
from streamk.trained import Following, TrainedModel

_EVENT = {
    "type": "object",
    "description": "An event as the job reads it; nested objects and texts are columns, too.",
    "examples": [{"age": 31, "device": "phone"}],
}
_PREDICTION = {
    "type": "object",
    "required": ["prediction"],
    "properties": {
        "prediction": {
            "description": "The most probable label, or the number.",
            "type": ["string", "number", "boolean", "null"],
        },
        "probabilities": {
            "description": "Of each class.",
            "type": "object",
            "additionalProperties": {"type": "number"},
        },
        "interval": {
            "description": "Bounds that hold the number with the probability asked for.",
            "type": ["array", "null"],
            "items": {"type": "number"},
        },
        "prediction_set": {
            "description": "Classes that hold the label with the probability asked for, in order.",
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]},
        },
        "reasons": {
            "description": "The fields of the largest effect.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "properties": {
                    "column": {"type": "string"},
                    "value": {"type": ["string", "number", "boolean", "null"]},
                    "effect": {"type": "number"},
                },
            },
        },
        "unknown": {
            "description": "Fields of the event that the model does not have, if there are any.",
            "type": "array",
            "items": {"type": "string"},
        },
        "nearest": {
            "description": "Of these, once in an answer, the fields that may have been meant.",
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string"},
        "events": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "index": {"type": "integer"},
                    "column": {"type": ["string", "integer", "null"]},
                    "reason": {"type": "string"},
                },
            },
        },
    },
}


def description(body: int, events: int, with_token: bool, learns: bool) -> dict[str, Any]:
    """Return the description, with the bytes and events that a request may have."""
    one, many = _ref("Prediction"), {"type": "array", "items": _ref("Prediction")}
    predict = {
        "summary": "Predict one event, or several",
        "parameters": [
            _parameter("interval", "With numbers an interval of this probability.", "number"),
            _parameter("prediction_set", "With classes a set of this probability.", "number"),
            _parameter("reasons", "With each prediction its reasons.", "boolean"),
        ],
        "requestBody": _body(body, events),
        "responses": {
            "200": _response("In the order of the events.", {"oneOf": [one, many]}),
            "422": _response("Some events are not usable; none is predicted.", _ref("Error")),
            **_REFUSALS,
        },
    }
    learn = {
        "summary": "Add one event with its label, or several, to what the job learns from",
        "requestBody": _body(body, events),
        "responses": {
            "202": _response("The events are in the log.", _TAKEN),
            "422": _response("Some events are not usable; none is taken.", _ref("Error")),
            "503": _response("The log does not take them now.", _ref("Error")),
            **_REFUSALS,
        },
    }
    paths: dict[str, Any] = {
        "/predict": {"post": predict},
        **({"/learn": {"post": learn}} if learns else {}),
        "/model": _get(
            "The model: task, classes, columns, events, age in seconds, and the names of the"
            " champion and its challengers"
        ),
        "/status": _get("The last point of the live page: figures, weights and importances"),
        "/metrics": _get("Figures for Prometheus"),
        "/healthz": _get("Whether the process answers"),
        "/readyz": _get("Whether there is a model to predict by, and new enough; 503 if not"),
    }
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "streamk", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Event": _EVENT, "Prediction": _PREDICTION, "Error": _ERROR}},
    }
    if with_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in paths.keys() - {"/healthz", "/readyz"}:
            for operation in paths[path].values():
                operation["security"] = [{"token": []}]
    return found


def _body(most: int, events: int) -> dict[str, Any]:
    schema = {"oneOf": [_ref("Event"), {"type": "array", "items": _ref("Event")}]}
    about = f"At most {most} bytes and {events} events."
    return {"required": True, "description": about, "content": _content(schema)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _response(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": _content(schema)}


def _parameter(name: str, about: str, kind: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": {"type": kind}}


def _get(about: str) -> dict[str, Any]:
    return {"get": {"summary": about, "responses": {"200": {"description": about}}}}


_TAKEN = {"type": "object", "properties": {"taken": {"type": "integer"}}}
_REFUSALS = {
    "400": _response("The body or a parameter is not valid.", _ref("Error")),
    "403": _response("A page of another site asks.", _ref("Error")),
    "413": _response("The request is too large.", _ref("Error")),
    "415": _response("The content type is not JSON.", _ref("Error")),
    "421": _response("A server without a token does not answer at this host name.", _ref("Error")),
}


_ENCODINGS = ("json", "dict")
"""Of jobs that read what is posted; dicts in memory stand for JSON."""


class Intake:
    """Adds events with labels to a log, checked by the columns and label of a model.

    May be used by several threads. Raises `InvalidInput` if the job of the model could not learn
    them: its events are not plain JSON, or its labels come from a source of their own.
    """

    def __init__(self, model: TrainedModel, log: EventLog) -> None:
        if model.encoding not in _ENCODINGS:
            raise InvalidInput(
                f"the job of this model reads events of encoding {model.encoding!r}, but posted "
                "events are JSON; post them to a job that reads JSON"
            )
        if model.late_labels:
            raise InvalidInput(
                "the job of this model reads its labels from another source, so the label of a "
                "posted event would be ignored; add events and labels to the two sources of the "
                "job"
            )
        self._model, self._log = model, log
        self._lock = threading.Lock()
        """Of the decoder, and so that requests stay in one piece in the log."""
        self._use(model.schema)

    def _use(self, schema: Schema) -> None:
        self._schema, self._decoder = schema, decoder("json", schema)

    def append(self, events: Sequence[bytes | msgspec.Raw]) -> None:
        """Add the events of a request, each an object of JSON; durable when it returns.

        Raises `RefusedEvents` if some cannot be used, or have no label, and `ConnectorError` as
        `connectors.base.EventLog.append`. None is added then.
        """
        with self._lock:
            if self._model.schema is not self._schema:
                self._use(self._model.schema)
            events = list(map(bytes, events))
            decoded = self._decoder.decode(events)
            label = self._schema.label
            bad = [
                *decoded.bad,
                *(
                    BadEvent(int(row), str(label), "no label; an event to be learned has one")
                    for row, known in zip(decoded.good, decoded.y, strict=True)
                    if known is None and label is not None  # else it may come with later ones
                ),
            ]
            if bad:
                raise RefusedEvents(sorted(bad, key=lambda event: event.row))
            self._log.append([msgspec.json.format(event, indent=-1) for event in events])


_SECONDS = 1.0
_log = logging.getLogger("streamk.serving")


_BOUNDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds. A prediction takes some 50 µs."""


class ServerWatch(Requests):
    """Figures of a server and of its model, for Prometheus and over time.

    Of requests it has counts, times and means alone: nothing of what one client asks is shown to
    another.
    """

    def __init__(self, model: TrainedModel, answers: Answers) -> None:
        super().__init__()
        self._model, self._answers = model, answers
        self._predicted = self.of(Counter, "events_predicted", "Events predicted.")
        about = "Posted events that were accepted for learning."
        self.taken = self.of(Counter, "events_taken", about).inc
        self._durations = Histogram(
            "streamk_predict_seconds",
            "Time from the body of a request to its answer.",
            buckets=_BOUNDS,
            registry=self.registry,
        )
        about = "Number of times a newer checkpoint could not be read."
        self.failed = self.of(Counter, "refresh_failures", about).inc
        epoch = self.of(Gauge, "model_epoch", "Number of the checkpoint.")
        epoch.set_function(lambda: model.epoch)
        events = self.of(Gauge, "model_events", "Events the model has learned.")
        events.set_function(lambda: model.n_events)
        age = self.of(Gauge, "model_age_seconds", "Time since the checkpoint was written.")
        age.set_function(lambda: model.age)
        name = model.learner.innermost.TYPE
        told = {"label": model.label, "model": name, "from": "a checkpoint"}
        self.history = PageHistory({key: str(one) for key, one in told.items() if one is not None})
        self._pace = Pace(_SECONDS)
        self._pace.rate(0)
        self._events = 0
        self._seconds: list[float] = []
        self._bad: dict[str, int] = {}

    def predicted(self, events: int, seconds: float) -> None:
        """Count the events of a request, and note how long it took."""
        self._predicted.inc(events)
        self._durations.observe(seconds)
        self._events += events
        self._seconds.append(seconds)

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        self.weigh(self.history.observer.experts)
        return super().text()

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
                _log.exception("the live page misses one point")
            await asyncio.sleep(_SECONDS)

    def add_point(self) -> None:
        """Explain the event that was predicted last, and add a point."""
        asked = self._answers.asked()
        if asked is not None:
            explanation = self.history.observer.explain(*asked)
            if explanation is not None:
                self.history.observer.add(explanation)
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


_FEW = 32
"""Events that are predicted at once; more are by another thread, beside other requests."""


def application(
    model: TrainedModel,
    *,
    token: str | None = None,
    max_body: int = 1 << 20,
    max_events: int = 1000,
    refresh: float = 1.0,
    max_age: float | None = None,
    log: EventLog | None = None,
) -> Starlette:
    """Return an application that answers requests by a model.

    Parameters
    ----------
    token : str, optional
        All but ``/healthz`` and ``/readyz`` take ``Authorization: Bearer`` with it.
    max_body, max_events : int, default 2^20 and 1000
        Bytes and events of a request.
    refresh : float, default 1.0
        Seconds between two looks for a newer checkpoint.
    max_age : float, optional
        Seconds since the checkpoint was written, beyond which ``/readyz`` says 503.
    log : EventLog, optional
        Takes the events that are posted to ``/learn``; without it there is no such path.
    """
    server = _Server(model, max_body, max_events, refresh, max_age, log)
    guard = Guard(token, server.watch.answered)
    about = description(max_body, max_events, with_token=token is not None, learns=log is not None)

    async def openapi(_: Request) -> Response:
        return as_json(about)

    routes = [
        *page_routes(server.watch.history, guard, server.watch, server.readyz),
        Route("/predict", guard.of(server.predict), methods=["POST"]),
        Route("/model", guard.of(server.model), methods=["GET"]),
        Route("/openapi.json", guard.of(openapi), methods=["GET"]),
    ]
    if log is not None:
        routes.append(Route("/learn", guard.of(server.learn), methods=["POST"]))
    return guarded(routes, server.following)


class _Server:
    def __init__(
        self,
        model: TrainedModel,
        max_body: int,
        max_events: int,
        refresh: float,
        max_age: float | None,
        log: EventLog | None,
    ) -> None:
        self._model, self._max_body, self._max_events = model, max_body, max_events
        self._refresh, self._max_age = refresh, max_age
        self._answers = Answers(model)
        self.watch = ServerWatch(model, self._answers)
        self._intake = None if log is None else Intake(model, log)

    # --- the paths --------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """Predict the events of a body."""
        details = _details(request)
        body = await self._body(request)
        began = time.perf_counter()
        events, several = self._events(body)
        with self.watch.refusals():
            if len(events) <= _FEW and details is None:
                found = self._answers.of(events)
            else:
                found = await asyncio.to_thread(self._answers.of, events, details)
        response = as_json(found if several else found[0])
        self.watch.predicted(len(events), time.perf_counter() - began)
        return response

    async def learn(self, request: Request) -> Response:
        """Add the events of a body to the log that a job learns from."""
        assert self._intake is not None
        if request.query_params:
            raise InvalidInput("/learn has no parameters")
        events, _ = self._events(await self._body(request), msgspec.Raw)
        try:
            # Not cancelled with the request: what was begun is added or refused as a whole.
            with self.watch.refusals():
                await asyncio.shield(asyncio.to_thread(self._intake.append, events))
        except BadRecord as error:
            raise HTTPException(413, str(error)) from None
        except ConnectorError as error:
            _log.error("events were not taken: %s", error)
            raise HTTPException(503, f"the events were not taken: {error}") from None
        self.watch.taken(len(events))
        return as_json({"taken": len(events)}, 202)

    def _events(self, body: bytes, each: Any = Any) -> tuple[list[Any], bool]:
        """Return the events of a body, and whether they are a list."""
        events, several = split(body, each)
        if len(events) > self._max_events:
            raise HTTPException(
                413,
                f"{len(events)} events in a request, but at most {self._max_events} are accepted",
            )
        return events, several

    async def _body(self, request: Request) -> bytes:
        most, found = self._max_body, bytearray()
        async for chunk in request.stream():
            found += chunk
            if len(found) > most:
                raise HTTPException(413, f"the body has more than {most} bytes")
        return bytes(found)

    async def model(self, _: Request) -> Response:
        """Tell of the model."""
        learner = self._model.learner
        about: dict[str, Any] = {
            "model": learner.innermost.TYPE,
            "task": "classification" if learner.is_classifier else "regression",
            "champion": self._model.champion,
            "challengers": list(self._model.challengers),
            "label": self._model.label,
            "horizon": self._model.horizon,
            "classes": list(learner.classes),
            "columns": [str(name) for name in learner.columns or ()],
            "events": learner.n_events,
            "epoch": self._model.epoch,
            "written": self._model.written,
            "age": self._model.age,
            "version": __version__,
        }
        return as_json(about)

    async def readyz(self, _: Request) -> Response:
        """Tell whether there is anything to predict from, and new enough."""
        learner = self._model.learner
        if not (learner.n_events and (learner.classes or not learner.is_classifier)):
            return as_json({"status": "nothing is learned yet"}, 503)
        if self._max_age is not None and self._model.age > self._max_age:
            return as_json({"status": "the model is too old", "age": self._model.age}, 503)
        return as_json({"status": "ready"})

    # --- newer models -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def following(self, _: Starlette) -> AsyncIterator[None]:
        """Look for newer checkpoints, and add to the page's points, while the server runs."""
        tasks = [asyncio.create_task(work) for work in (self._follow(), self.watch.go_on())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _follow(self) -> None:
        following = Following(self._model.refresh, self.watch.failed)
        while True:
            await asyncio.sleep(self._refresh)
            if await asyncio.to_thread(following.look):
                _log.info("predicting by epoch %d", self._model.epoch)


def _details(request: Request) -> Details | None:
    """Return the details that the query asks for."""
    if not request.scope["query_string"]:
        return None
    asked = dict(request.query_params)
    interval, prediction_set = (
        _level(name, asked.pop(name, None)) for name in ("interval", "prediction_set")
    )
    reasons = asked.pop("reasons", "false")
    if asked:
        raise InvalidInput(
            f"no parameter {min(asked)!r}; there are interval, prediction_set and reasons"
        )
    if reasons not in ("true", "false"):
        raise InvalidInput(f"reasons={reasons!r} must be true or false")
    details = Details(interval, prediction_set, explain=reasons == "true")
    return None if details == Details() else details


def _level(name: str, text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise InvalidInput(f"{name}={text!r} must be a number, for example 0.9") from None
