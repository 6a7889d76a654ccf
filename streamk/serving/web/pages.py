"""The page for people, and what it asks for: points as they come, and rows of tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamk.serving.web.guard import COOKIE, Guard, as_json
from streamk.serving.web.history import History

__all__ = ["SecurityHeaders", "page_routes"]

_LOOK, _ALIVE = 0.2, 15.0
"""Seconds between looks for a new point, and between signs of life where there is none."""
_FILES = Path(__file__).parent.parent / "page"
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
}


def page_routes(history: History, guard: Guard) -> list[Route]:
    """Return the routes of a page that shows a history, none of which is without the guard.

    Parameters
    ----------
    history : History
    guard : Guard
        A browser gives its token once, as ``/?token=``, and keeps it in a cookie.
    """
    page = _Page(history)
    guarded_file = guard.of(page.file)

    async def front(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is None or not guard.asks:
            return await guarded_file(request)
        if not guard.accepts(given):
            raise HTTPException(401, "the token is another one")
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=secure)
        return response

    hidden: dict[str, Any] = {"methods": ["GET"], "include_in_schema": False}
    return [
        Route("/", front, **hidden),
        Route("/page/{name}", guarded_file, **hidden),
        Route("/points", guard.of(page.points), **hidden),
        Route("/events", guard.of(page.events), **hidden),
        Route("/status", guard.of(page.status), methods=["GET"]),
    ]


class SecurityHeaders:
    """Adds the headers that keep a browser from doing more than is needed here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS.items()]
            await send(message)

        await self._app(scope, receive, sending)


class _Page:
    def __init__(self, history: History) -> None:
        self._history = history
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
        """Return what is said of the job, all points, and the rows that are kept."""
        history = self._history
        version = history.observer.version
        points = history.since(0)
        return as_json(
            {
                "about": history.about,
                "number": points[-1][0] if points else 0,
                "points": [point for _, point in points],
                "version": version,
                **history.observer.rows(),
            }
        )

    async def status(self, _: Request) -> Response:
        """Return what is said of the job, the last point, and the rows that are kept."""
        history = self._history
        return as_json({"about": history.about, "now": history.last, **history.observer.rows()})

    async def events(self, request: Request) -> Response:
        """Send each point that comes, and the rows since the one before, as events."""
        asked = request.query_params
        try:
            number = int(request.headers.get("last-event-id", asked.get("after", 0)))
            version = int(asked.get("rows", 0))
        except ValueError:
            raise HTTPException(
                400, "after and rows must be numbers of a point and a row"
            ) from None
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        is_leaving = getattr(request.app.state, "is_leaving", lambda: False)
        sent = self._sent(number, version, is_leaving)
        return StreamingResponse(sent, media_type="text/event-stream", headers=headers)

    async def _sent(
        self, number: int, version: int, is_leaving: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        observer, quiet = self._history.observer, 0.0
        yield b"retry: 1000\n\n"
        while not is_leaving():
            found = self._history.since(number)
            for number, point in found:
                yield b"id: %d\ndata: %s\n\n" % (number, msgspec.json.encode(point))
            if found and observer.version > version:
                # Rows come with points, so that many a second are one message. One that comes just
                # now may be sent again with the next.
                last = observer.version
                rows: dict[str, Any] = observer.rows(version)
                version = last
                yield b"event: rows\ndata: %s\n\n" % msgspec.json.encode(rows)
            quiet = 0.0 if found else quiet + _LOOK
            if quiet >= _ALIVE:
                quiet = 0.0
                yield b":\n\n"
            await asyncio.sleep(_LOOK)
