"""An application for HTTP that predicts by a model, and by each newer one that its job saves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.base import EventLog
from connectors.errors import BadRecord, ConnectorError
from streamk import __version__
from streamk.engine.training.details import Details
from streamk.errors import InvalidInput
from streamk.learners.common.predictor import innermost
from streamk.serving.answers import Answers, split
from streamk.serving.description import description
from streamk.serving.following import Following
from streamk.serving.intake import Intake
from streamk.serving.monitoring import CONTENT_TYPE, Monitoring
from streamk.serving.trained import TrainedModel
from streamk.serving.watching import Watch
from streamk.serving.web.guard import Guard, as_json, healthz, refused
from streamk.serving.web.pages import SecurityHeaders, page_routes

__all__ = ["Limits", "application"]

_FEW = 32
"""Events that are predicted at once; more are by another thread, beside other requests."""

_log = logging.getLogger("streamk.serving")


@dataclass(frozen=True)
class Limits:
    """Bounds of a request's size.

    Parameters
    ----------
    body : int, default 2^20
        Bytes.
    events : int, default 1000
    """

    body: int = 1 << 20
    events: int = 1000


def application(
    model: TrainedModel,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    refresh: float = 1.0,
    max_age: float | None = None,
    log: EventLog | None = None,
) -> Starlette:
    """Return an application that answers requests by a model.

    Parameters
    ----------
    model : TrainedModel
    token : str, optional
        All but ``/healthz`` and ``/readyz`` take ``Authorization: Bearer`` with it.
    limits : Limits, optional
    refresh : float, default 1.0
        Seconds between two looks for a newer checkpoint.
    max_age : float, optional
        Seconds since the checkpoint was written, beyond which ``/readyz`` says 503.
    log : EventLog, optional
        Takes the events that are posted to ``/learn``; without it there is no such path.
    """
    answers = Answers(model)
    watch = Watch(model, answers)
    monitoring = Monitoring(model, watch.observer)
    server = _Server(
        model,
        answers,
        watch,
        monitoring,
        Limits() if limits is None else limits,
        refresh=refresh,
        max_age=max_age,
        with_token=token is not None,
        intake=None if log is None else Intake(model, log),
    )
    guard = Guard(token, monitoring.answered)
    routes = [
        *page_routes(watch.history, guard),
        Route("/predict", guard.of(server.predict), methods=["POST"]),
        Route("/model", guard.of(server.model), methods=["GET"]),
        Route("/metrics", guard.of(server.metrics), methods=["GET"]),
        Route("/openapi.json", guard.of(server.openapi), methods=["GET"]),
        # They tell nothing of the model.
        Route("/healthz", guard.of(healthz, is_open=True), methods=["GET"]),
        Route("/readyz", guard.of(server.readyz, is_open=True), methods=["GET"]),
    ]
    if log is not None:
        routes.append(Route("/learn", guard.of(server.learn), methods=["POST"]))
    handlers: dict[Any, Any] = {HTTPException: refused}
    return Starlette(
        routes=routes,
        lifespan=server.following,
        exception_handlers=handlers,
        middleware=[Middleware(SecurityHeaders)],
    )


class _Server:
    def __init__(
        self,
        model: TrainedModel,
        answers: Answers,
        watch: Watch,
        monitoring: Monitoring,
        limits: Limits,
        *,
        refresh: float,
        max_age: float | None,
        with_token: bool,
        intake: Intake | None,
    ) -> None:
        self._model, self._monitoring = model, monitoring
        self._limits, self._refresh, self._max_age = limits, refresh, max_age
        self._with_token, self._intake = with_token, intake
        self._answers, self._watch = answers, watch

    # --- the paths --------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """Predict the events of a body."""
        details = _details(request)
        body = await self._body(request)
        began = time.perf_counter()
        events, several = self._events(body)
        with self._watch.refusals():
            if len(events) <= _FEW and details is None:
                found = self._answers.of(events)
            else:
                found = await asyncio.to_thread(self._answers.of, events, details)
        response = as_json(found if several else found[0])
        seconds = time.perf_counter() - began
        self._monitoring.predicted(len(events), seconds)
        self._watch.predicted(len(events), seconds)
        return response

    async def learn(self, request: Request) -> Response:
        """Add the events of a body to the log that a job learns from."""
        assert self._intake is not None
        if request.query_params:
            raise InvalidInput("/learn has no parameters")
        events, _ = self._events(await self._body(request))
        try:
            # Not cancelled with the request: what was begun is added or refused as a whole.
            with self._watch.refusals():
                await asyncio.shield(asyncio.to_thread(self._intake.append, events))
        except BadRecord as error:
            raise HTTPException(413, str(error)) from None
        except ConnectorError as error:
            _log.error("events were not taken: %s", error)
            raise HTTPException(503, f"the events were not taken: {error}") from None
        self._monitoring.taken(len(events))
        return as_json({"taken": len(events)}, 202)

    def _events(self, body: bytes) -> tuple[list[bytes], bool]:
        """Return the events of a body, and whether they are a list."""
        events, several = split(body)
        if len(events) > self._limits.events:
            raise HTTPException(
                413, f"{len(events)} events in a request, at most {self._limits.events} are taken"
            )
        return events, several

    async def _body(self, request: Request) -> bytes:
        most, found = self._limits.body, bytearray()
        async for chunk in request.stream():
            found += chunk
            if len(found) > most:
                raise HTTPException(413, f"the body has more than {most} bytes")
        return bytes(found)

    async def model(self, _: Request) -> Response:
        """Tell of the model."""
        learner, schema, _kept = self._model.current
        about: dict[str, Any] = {
            "model": getattr(innermost(learner), "TYPE", type(learner).__name__),
            "task": "classification" if learner.is_classifier else "regression",
            "champion": self._model.champion,
            "challengers": list(self._model.challengers),
            "label": schema.label,
            "classes": list(learner.classes),
            "columns": [str(name) for name in learner.columns or ()],
            "events": learner.n_events,
            "epoch": self._model.epoch,
            "written": self._model.written,
            "age": self._model.age,
            "version": __version__,
        }
        return as_json(about)

    async def metrics(self, _: Request) -> Response:
        """Return figures for Prometheus."""
        return Response(self._monitoring.text(), headers={"Content-Type": CONTENT_TYPE})

    async def openapi(self, _: Request) -> Response:
        """Describe the paths."""
        return as_json(
            description(
                self._limits.body, self._limits.events, self._with_token, self._intake is not None
            )
        )

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
        tasks = [asyncio.create_task(work) for work in (self._follow(), self._watch.go_on())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _follow(self) -> None:
        following = Following(self._model.refresh, self._monitoring.failed)
        while True:
            await asyncio.sleep(self._refresh)
            if await asyncio.to_thread(following.look):
                _log.info("predicting by epoch %d", self._model.epoch)


def _details(request: Request) -> Details | None:
    """Return the details that the query asks for."""
    if not request.scope["query_string"]:
        return None
    asked = dict(request.query_params)
    levels = {name: _level(name, asked.pop(name, None)) for name in ("interval", "prediction_set")}
    reasons = asked.pop("reasons", "false")
    if asked:
        raise InvalidInput(
            f"no parameter {min(asked)!r}; there are interval, prediction_set and reasons"
        )
    if reasons not in ("true", "false"):
        raise InvalidInput(f"reasons={reasons!r} must be true or false")
    details = Details(**levels, reasons=reasons == "true")
    return None if details == Details() else details


def _level(name: str, text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise InvalidInput(f"{name}={text!r} must be a number, for example 0.9") from None
