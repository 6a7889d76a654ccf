"""Pages of servers: the guard of their paths, the history that they show, and the live page."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamk.engine.progress import Snapshot
from streamk.errors import InvalidInput
from streamk.serving.monitoring import JobMonitoring, Requests
from streamk.serving.observing import Observer

JSON = "application/json"
COOKIE = "streamk_token"
"""Has the token where a browser asks, which sends no header of its own."""

_LONGEST = 60
_SAFE = ("GET", "HEAD")
"""Methods that change nothing and have no body."""

_log = logging.getLogger("streamk.serving")
Handler = Callable[[Request], Awaitable[Response]]


class Guard:
    """Asks who asks, counts answers, and tells of errors in JSON.

    A browser asks for any page that is open in it, also for one of another site, and it reaches
    what only this machine can. So what such a page asks is refused. It is told by the browser, by
    the name that led here, and by the kind of a body, which no page may give for another site.
    Without a token everybody may ask who is on this machine. `answered` is told path and status of
    each request.
    """

    def __init__(self, token: str | None, answered: Callable[[str, int], None]) -> None:
        self._token = None if token is None else token.encode()
        self._answered = answered

    def of(self, handler: Handler, *, is_open: bool = False) -> Handler:
        """Return a handler behind this guard; `is_open` one shows nothing, and is for everybody."""

        async def answer(request: Request) -> Response:
            """Answer a request that is allowed, and refuse any other."""
            try:
                if not is_open:
                    self._check(request)
                response = await handler(request)
            except HTTPException as error:
                response = refused(request, error)
            except InvalidInput as error:
                events = {} if (bad := getattr(error, "events", None)) is None else {"events": bad}
                response = as_json({"error": str(error), **events}, 422 if events else 400)
            except ClientDisconnect:  # nobody reads this
                response = as_json({"error": "the connection ended before the body"}, 400)
            except Exception:
                _log.exception("%s failed", request.url.path)
                response = as_json(
                    {"error": "internal error; the server's log has the details"}, 500
                )
            self._answered(request.scope["path"], response.status_code)
            return response

        return answer

    def _check(self, request: Request) -> None:
        """Raise `HTTPException` unless a request may be answered."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        has_header = self._token is not None and scheme.lower() == "bearer"
        if not has_header:  # which no browser sends by itself
            given = request.cookies.get(COOKIE, "")
            _check_site(request)
        if self._token is None:
            _check_host(request.headers.get("host", ""))
        if not self.accepts(given):
            raise HTTPException(
                401,
                "the request needs the header Authorization: Bearer with the server's token",
                {"WWW-Authenticate": "Bearer"},
            )
        if request.method not in _SAFE:
            kind = request.headers.get("content-type", "")
            if kind.partition(";")[0].strip().lower() != JSON:
                raise HTTPException(415, f"the body must be JSON and say so: Content-Type: {JSON}")

    @property
    def asks(self) -> bool:
        """A token is asked for."""
        return self._token is not None

    def accepts(self, given: str) -> bool:
        """Return whether a token is the right one; any is where none is asked for."""
        return self._token is None or hmac.compare_digest(given.encode(), self._token)


def _check_site(request: Request) -> None:
    """Raise `HTTPException` if a page of another site has a browser ask, as the browser says."""
    headers = request.headers
    site = headers.get("sec-fetch-site")
    if site is None:  # of an older browser, or of none
        origin = headers.get("origin")
        foreign = origin is not None and origin.rpartition("//")[2] != headers.get("host")
    else:
        foreign = site not in ("same-origin", "none")
    # Who follows a link sees what it leads to, and the page that has the link does not.
    is_link = request.method in _SAFE and headers.get("sec-fetch-mode") == "navigate"
    if foreign and not is_link:
        raise HTTPException(
            403, "a page of another site may not ask this server; its own server may"
        )


def _check_host(host: str) -> None:
    """Raise `HTTPException` if a browser was led here by another name than of this machine.

    Names can be made to mean any address after a page was loaded (DNS rebinding); addresses cannot.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name not in ("", "localhost"):
            ipaddress.ip_address(name)
    except ValueError:
        raise HTTPException(
            421,
            f"a server without a token does not answer at {host[:_LONGEST]!r}: give it one "
            "(--token-file), or use localhost or an IP address",
        ) from None


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response with a value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


async def healthz(_: Request) -> Response:
    """Tell that the process answers."""
    return as_json({"status": "ok"})


def refused(request: Request, error: Exception) -> Response:
    """Return the response to a request that raised an `HTTPException`."""
    assert isinstance(error, HTTPException)
    headers = None if error.headers is None else dict(error.headers)
    reason = error.detail
    if error.status_code in (404, 405):
        reason = f"no {request.method} {request.url.path} here"
    return as_json({"error": reason}, error.status_code, headers)


MOST = 2000
"""Points that are kept; where there are more, every second one of the older half goes."""


class PageHistory:
    """Points in time, with the explanations of an observer.

    Points come from one thread and are read by others. `about` is said of the job or server.
    """

    def __init__(self, about: Mapping[str, str], observer: Observer | None = None) -> None:
        self.about = dict(about)
        self.observer = Observer() if observer is None else observer
        self._lock = threading.Lock()
        self._points: list[tuple[int, dict[str, Any]]] = []
        self._count = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Add a point of a job."""
        self.add(asdict(snapshot))

    def add(self, figures: Mapping[str, Any]) -> None:
        """Add a point."""
        observer = self.observer
        means = {"experts": observer.experts, "importances": observer.importances}
        point = {"time": time.time(), **figures, **means}
        with self._lock:
            self._count += 1
            self._points.append((self._count, point))
            if len(self._points) > MOST:
                half = MOST // 2
                self._points = self._points[:half:2] + self._points[half:]

    def since(self, number: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the points after a number, each with its number, counted from 1."""
        with self._lock:
            if self._count == number:
                return []
            return [point for point in self._points if point[0] > number]

    @property
    def last(self) -> dict[str, Any] | None:
        """The last point; None before the first."""
        with self._lock:
            return self._points[-1][1] if self._points else None


_LOOK, _ALIVE = 0.2, 15.0
"""Seconds between looks for a new point, and between signs of life where there is none."""
_FILES = Path(__file__).parent / "page"
_KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
}


def page_routes(
    history: PageHistory, guard: Guard, figures: Requests, readyz: Handler
) -> list[Route]:
    """Return the routes of a page that shows a history, and of those who watch over the server.

    None is without the guard. A browser gives its token once, as ``/?token=``, and keeps it in a
    cookie.
    """
    page = _Page(history)
    guarded_file = guard.of(page.file)

    async def front(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is None or not guard.asks:
            return await guarded_file(request)
        if not guard.accepts(given):
            raise HTTPException(401, "wrong token")
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=secure)
        return response

    async def metrics(_: Request) -> Response:
        return Response(figures.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    hidden: dict[str, Any] = {"methods": ["GET"], "include_in_schema": False}
    return [
        Route("/", front, **hidden),
        Route("/page/{name}", guarded_file, **hidden),
        Route("/points", guard.of(page.points), **hidden),
        Route("/events", guard.of(page.events), **hidden),
        Route("/status", guard.of(page.status), methods=["GET"]),
        Route("/metrics", guard.of(metrics), methods=["GET"]),
        # They tell nothing of the model.
        Route("/healthz", guard.of(healthz, is_open=True), methods=["GET"]),
        Route("/readyz", guard.of(readyz, is_open=True), methods=["GET"]),
    ]


def guarded(routes: list[Route], lifespan: Any = None) -> Starlette:
    """Return an application that tells of errors in JSON, and keeps browsers in bounds."""
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: refused},
        middleware=[Middleware(SecurityHeaders)],
    )


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
    def __init__(self, history: PageHistory) -> None:
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


def live_page(history: PageHistory, *, token: str | None = None) -> Starlette:
    """Return an application with a page for people, its points, and figures for Prometheus.

    All but ``/healthz`` and ``/readyz`` take the token, as ``Authorization: Bearer`` or, in a
    browser, once as ``/?token=``.
    """
    figures = JobMonitoring(lambda: history.last)
    guard = Guard(token, figures.answered)

    async def readyz(_: Request) -> Response:
        last = history.last
        if last is None:
            return as_json({"status": "nothing has come yet"}, 503)
        if last["trouble"]:
            return as_json({"status": last["trouble"]}, 503)
        return as_json({"status": "ready"})

    return guarded(page_routes(history, guard, figures, readyz))
