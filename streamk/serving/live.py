"""A page that shows a job while it runs, and figures of it for Prometheus."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamk.serving.monitoring import CONTENT_TYPE, JobMonitoring
from streamk.serving.web.guard import Guard, as_json, healthz, refused
from streamk.serving.web.history import History
from streamk.serving.web.pages import SecurityHeaders, page_routes

__all__ = ["live_page"]


def live_page(history: History, *, token: str | None = None) -> Starlette:
    """Return an application with a page for people, its points, and figures for Prometheus.

    Parameters
    ----------
    history : History
    token : str, optional
        All but ``/healthz`` and ``/readyz`` take it, as ``Authorization: Bearer`` or, in a browser,
        once as ``/?token=``.
    """
    figures = JobMonitoring(lambda: history.last)
    guard = Guard(token, figures.answered)

    async def metrics(_: Request) -> Response:
        return Response(figures.text(), headers={"Content-Type": CONTENT_TYPE})

    async def readyz(_: Request) -> Response:
        last = history.last
        if last is None:
            return as_json({"status": "nothing has come yet"}, 503)
        if last["trouble"]:
            return as_json({"status": last["trouble"]}, 503)
        return as_json({"status": "ready"})

    routes = [
        *page_routes(history, guard),
        Route("/metrics", guard.of(metrics), methods=["GET"]),
        Route("/healthz", guard.of(healthz, is_open=True), methods=["GET"]),
        Route("/readyz", guard.of(readyz, is_open=True), methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: refused}
    middleware = [Middleware(SecurityHeaders)]
    return Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)
