"""A page that shows a job while it runs, and figures of it for Prometheus."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamk.engine.progress import Snapshot
from streamk.serving.guard import COOKIE, Guard, as_json, healthz, refused
from streamk.serving.monitoring import CONTENT_TYPE, JobMonitoring

__all__ = ["MOST", "History", "live_page"]

MOST = 2000
"""Points that are kept; where there are more, every second one of the older half goes."""
_LOOK, _ALIVE = 0.2, 15.0
"""Seconds between looks for a new point, and between signs of life where there is none."""
_FILES = Path(__file__).parent / "page"
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
}


class History:
    """Where a job stood, point by point.

    Called with each snapshot by the thread of the job, read by others.

    Parameters
    ----------
    about : mapping of str to str
        What the page says of the job.
    """

    def __init__(self, about: Mapping[str, str]) -> None:
        self.about = dict(about)
        self._lock = threading.Lock()
        self._points: list[tuple[int, dict[str, Any]]] = []
        self._count = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Add a point."""
        point = {"time": time.time(), **asdict(snapshot)}
        with self._lock:
            self._count += 1
            self._points.append((self._count, point))
            if len(self._points) > MOST:
                half = MOST // 2
                self._points = self._points[:half:2] + self._points[half:]

    def since(self, number: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the points after one, each with its number, the first of which is 1."""
        with self._lock:
            if self._count == number:
                return []
            return [point for point in self._points if point[0] > number]

    @property
    def last(self) -> dict[str, Any] | None:
        """The last point, if there is one."""
        with self._lock:
            return self._points[-1][1] if self._points else None


def live_page(history: History, *, token: str | None = None) -> Starlette:
    """Return an application with a page for people, its points, and figures for Prometheus.

    Parameters
    ----------
    history : History
    token : str, optional
        All but ``/healthz`` and ``/readyz`` take it, as ``Authorization: Bearer`` or, in a browser,
        once as ``/?token=``.
    """
    page = _Page(history)
    guard = Guard(token, page.figures.answered)
    guarded_file = guard.of(page.file)

    async def front(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is None or token is None:
            return await guarded_file(request)
        if not guard.accepts(given):
            raise HTTPException(401, "the token is another one")
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=secure)
        return response

    routes = [
        Route("/", front, methods=["GET"]),
        Route("/page/{name}", guarded_file, methods=["GET"]),
        Route("/points", guard.of(page.points), methods=["GET"]),
        Route("/events", guard.of(page.events), methods=["GET"]),
        Route("/metrics", guard.of(page.metrics), methods=["GET"]),
        Route("/healthz", guard.of(healthz, is_open=True), methods=["GET"]),
        Route("/readyz", guard.of(page.readyz, is_open=True), methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: refused}
    return Starlette(routes=routes, exception_handlers=handlers, middleware=[Middleware(_Headers)])


class _Headers:
    """Adds the headers that keep a browser from doing more than is needed here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS.items()]
            await send(message)

        await self._app(scope, receive, sending)


class _Page:
    def __init__(self, history: History) -> None:
        self._history = history
        self.figures = JobMonitoring(lambda: history.last)
        files = (path for path in _FILES.iterdir() if path.suffix in _KINDS)
        self._files = {path.name: (path.read_bytes(), _KINDS[path.suffix]) for path in files}

    async def file(self, request: Request) -> Response:
        """Return a file of the page, the page itself where none is named."""
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            raise HTTPException(404)
        content, kind = self._files[name]
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    async def points(self, _: Request) -> Response:
        """Return what is said of the job, and all points."""
        points = self._history.since(0)
        return as_json(
            {
                "about": self._history.about,
                "number": points[-1][0] if points else 0,
                "points": [point for _, point in points],
            }
        )

    async def events(self, request: Request) -> Response:
        """Send each point that comes, as an event for a browser."""
        try:
            number = int(request.headers.get("last-event-id", request.query_params.get("after", 0)))
        except ValueError:
            raise HTTPException(400, "after must be the number of a point") from None
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        sent = self._sent(number)
        return StreamingResponse(sent, media_type="text/event-stream", headers=headers)

    async def _sent(self, number: int) -> AsyncIterator[bytes]:
        quiet = 0.0
        yield b"retry: 1000\n\n"
        while True:
            found = self._history.since(number)
            for number, point in found:
                yield b"id: %d\ndata: %s\n\n" % (number, msgspec.json.encode(point))
            quiet = 0.0 if found else quiet + _LOOK
            if quiet >= _ALIVE:
                quiet = 0.0
                yield b":\n\n"
            await asyncio.sleep(_LOOK)

    async def metrics(self, _: Request) -> Response:
        """Return figures for Prometheus."""
        return Response(self.figures.text(), headers={"Content-Type": CONTENT_TYPE})

    async def readyz(self, _: Request) -> Response:
        """Tell whether the job is at work."""
        last = self._history.last
        if last is None:
            return as_json({"status": "nothing has come yet"}, 503)
        if last["trouble"]:
            return as_json({"status": last["trouble"]}, 503)
        return as_json({"status": "ready"})
