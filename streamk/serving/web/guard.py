"""The guard of every path of our applications: who may ask, counting, and errors in JSON."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from streamk.errors import InvalidInput

__all__ = ["COOKIE", "JSON", "Guard", "Handler", "as_json", "healthz", "refused"]

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

    Parameters
    ----------
    token : str, optional
        None lets everybody ask who is on this machine.
    answered : function of a path and a status
        Called after each request.
    """

    def __init__(self, token: str | None, answered: Callable[[str, int], None]) -> None:
        self._token = None if token is None else token.encode()
        self._answered = answered

    def of(self, handler: Handler, *, is_open: bool = False) -> Handler:
        """Return a handler behind this guard.

        Parameters
        ----------
        handler : Handler
        is_open : bool, default False
            It is for everybody, as it shows and takes nothing of events or the model.
        """

        async def answer(request: Request) -> Response:
            """Answer a request that is allowed, and refuse any other."""
            try:
                if not is_open:
                    self._check(request)
                response = await handler(request)
            except HTTPException as error:
                response = refused(request, error)
            except InvalidInput as error:
                response = _refused_input(error)
            except ClientDisconnect:  # nobody reads this
                response = as_json({"error": "the connection ended before the body"}, 400)
            except Exception:
                _log.exception("%s failed", request.url.path)
                response = as_json({"error": "something failed here; the log has it"}, 500)
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
                "the header Authorization: Bearer with the server's token is needed",
                {"WWW-Authenticate": "Bearer"},
            )
        if request.method not in _SAFE:
            _check_kind(request.headers.get("content-type"))

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
            403,
            "a page of another site may not ask this server; its own server may",
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
            f"without a token nothing is answered at {host[:_LONGEST]!r}: give one (--token-file),"
            " or ask at localhost or an IP address",
        ) from None


def _check_kind(given: str | None) -> None:
    """Raise `HTTPException` unless a body says that it is JSON."""
    if given is None or given.partition(";")[0].strip().lower() != JSON:
        raise HTTPException(415, f"the body must be JSON and say so: Content-Type: {JSON}")


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


def _refused_input(error: InvalidInput) -> Response:
    events = getattr(error, "events", None)
    if events is None:
        return as_json({"error": str(error)}, 400)
    return as_json({"error": str(error), "events": events}, 422)
