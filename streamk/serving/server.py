"""HTTP by uvicorn, with limits on a client's requests and connections."""

from __future__ import annotations

import asyncio
import atexit
import http
import ipaddress
import os
import resource
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httptools
import msgspec
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streamk.errors import InvalidInput

_HEAD_BYTES, _HEADERS = 1 << 14, 100
"""Of a request before its body, and of what stands between and after the pieces of a body."""
_QUEUED = 16
"""Requests of one client that wait for the answer to one before."""

_NEXT, _HEAD, _BODY = "next request", "head", "body"
"""Parts that are to come from the client."""
_SECONDS = {_NEXT: 10.0, _HEAD: 10.0, _BODY: 60.0}
"""In which it has to be there, whole. Between two requests uvicorn waits for less."""
_UNREAD_SECONDS = 60.0
"""Time in which a client has to take some of an answer."""
_LOOK_SECONDS = 1.0
"""Between two looks at the time; and for a client to read that it was refused."""

_FIRST = b"HTTP/1.1 "
"""The beginning of all heads of answers."""


class _Refused(Exception):
    """Ends the parser's work on what is refused."""


class HTTPConnection(HttpToolsProtocol):
    """uvicorn's protocol with limits on the length and the time of a request's head.

    What a client sends is counted here, so that a connection costs bounded memory whatever comes,
    and it has a time for each part of a request, and for taking the answer. Where there are as many
    connections as may be, the one whose client has let us wait longest gives way to a new one.

    The head of an answer and its body are one piece. Two writes are two calls of the system and two
    packets, and the first of them wakes a client that cannot go on without the second.
    """

    def connection_made(  # type: ignore[override] # the transports of loops have no common type
        self, transport: asyncio.Transport
    ) -> None:
        """Begin with a connection."""
        super().connection_made(_Transport(transport, self.loop))  # type: ignore[arg-type]
        self.headers = []
        self._piece = self._framing = 0
        """Bytes of what came last, and of what came before it since the last head or body."""
        self._ends: float | None = None
        """Time at which a connection is closed that was refused."""
        self._is_refused = False
        self._unread = 0
        self._taken = self.loop.time()
        """Time at which the client last took some of what there is to be sent."""
        self._go_on(_NEXT)
        self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self._make_room()

    def _make_room(self) -> None:
        """Cut the connection whose client has let us wait longest, if any lets us wait."""
        ours = [one for one in self.connections if isinstance(one, HTTPConnection)]
        waiting = [one for one in ours if one is not self and one._lets_wait]
        if waiting:
            oldest = min(waiting, key=lambda one: one._since)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with a connection."""
        self._timer.cancel()
        super().connection_lost(exc)

    # --- what is to come --------------------------------------------------------------------------

    @property
    def _lets_wait(self) -> bool:
        """True if it is the client's turn."""
        idle = self.cycle is None or self.cycle.response_complete
        return idle or self._expected is not _NEXT

    def _look(self) -> None:
        """Close the connection if the client has had its time, and look again later."""
        now, unread = self.loop.time(), self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread:
            self._unread, self._taken = unread, now
        late = now - self._since > _SECONDS[self._expected]
        if now - self._taken > _UNREAD_SECONDS:
            self.transport.abort()
        elif self._is_refused:
            if self._ends is not None and now >= self._ends:
                self.transport.close()
        elif late and self._lets_wait:
            if self._expected is _NEXT:
                self.transport.close()
            else:
                seconds = f"{_SECONDS[self._expected]:g} seconds"
                self._refuse(408, f"the {self._expected} of a request must come in {seconds}")
        self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)

    # --- what comes -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take received bytes, unless they exceed a limit or are not HTTP."""
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        self._piece = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # to no other protocol: it is answered as any request
        except httptools.HttpParserError:
            if not self._is_refused:
                self._refuse(400, "this is not an HTTP/1.1 request")
        self._framing += len(data)
        if self._framing > _HEAD_BYTES:
            self._refuse_head()

    def _go_on(self, part: str) -> None:
        """Expect another part, since one is whole; in what came last it may have begun."""
        self._framing = -self._piece
        self._expected, self._since = part, self.loop.time()

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        self._expected, self._since = _HEAD, self.loop.time()

    def on_headers_complete(self) -> None:
        """Go on from the head of a request."""
        # Most are whole in what came last, which is short.
        is_short = self._framing <= 0 and self._piece <= _HEAD_BYTES
        if len(self.headers) > _HEADERS or not (is_short or self._head_bytes() <= _HEAD_BYTES):
            self._refuse_head()
            raise _Refused
        if len(self.pipeline) == _QUEUED:
            self._is_refused = True  # a client sends again what has no answer
            raise _Refused
        self._go_on(_BODY)
        super().on_headers_complete()
        self.headers = []  # of trailers, which are none of the request's

    def _head_bytes(self) -> int:
        """Return the length of a head as it is usually written."""
        line = len(self.parser.get_method()) + len(self.url) + len(b"  HTTP/1.1\r\n\r\n")
        return line + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._framing = -self._piece
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End with a request."""
        self._go_on(_NEXT)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on from an answer."""
        if self._is_refused and not self.pipeline:
            self.transport.close()
        if self._expected is _NEXT:  # from here on it is the client who lets us wait
            self._since = self.loop.time()
        super().on_response_complete()

    # --- what is refused --------------------------------------------------------------------------

    def _refuse_head(self) -> None:
        self._refuse(431, f"a head has {_HEAD_BYTES} bytes and {_HEADERS} headers at most")

    def _refuse(self, status: int, reason: str) -> None:
        """Take nothing more, answer with an error if it is its turn, and close."""
        if self._is_refused:
            return
        self._is_refused, cycle = True, self.cycle
        if cycle is not None and not cycle.response_complete:
            is_queued = bool(self.pipeline)
            if is_queued and cycle.more_body:
                self.pipeline.popleft()  # no more is taken of it
            if is_queued or cycle.response_started or not cycle.more_body:
                return  # closed after the answers to what came before
            cycle.disconnected = True
            cycle.message_event.set()
        text = msgspec.json.encode({"error": reason})
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(text)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode())
        self.transport.write(text)
        # Were it closed now, with more that comes, the client's system might drop the answer.
        self._ends = self.loop.time() + _LOOK_SECONDS


class _Transport:
    """A transport that holds the head of an answer until the body comes, or the loop goes on."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""

    def write(self, data: bytes) -> None:
        """Write, or hold a head."""
        if not self._head and data.startswith(_FIRST):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        data, self._head = self._head + data, b""
        self._transport.write(data)

    def _flush(self) -> None:
        """Write a head whose body is not there yet, unless the connection has gone meanwhile."""
        if self._head and not self._transport.is_closing():
            self.write(b"")

    def close(self) -> None:
        """Close, once what is held is written."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


DEFAULT = ("127.0.0.1", 8000)
TOKEN = "STREAMK_TOKEN"
"""The variable of the environment with the token."""
_STOP_SECONDS = 5
"""Time that requests at work have to end."""
_SHORTEST = 16
_FILES = 100
"""That the process may open beside its connections."""


def address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, :PORT or PORT; IPv6 hosts stand in brackets.

    Raises `InvalidInput` if it is none of these.

    Examples
    --------
    >>> address(":8000"), address("[::1]:80")
    (('127.0.0.1', 8000), ('::1', 80))
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(
            f"{text!r} is not an address; write HOST:PORT, for example 127.0.0.1:8000"
        )
    return host or DEFAULT[0], int(port)


def token_for(host: str, file: str | None) -> str | None:
    """Return the token of a file or of the environment; None where none is needed.

    Raises `InvalidInput` if other machines can reach the host and there is none, it is too short,
    or others can read the file.
    """
    if file is None:
        token, place = os.environ.get(TOKEN), TOKEN
    else:
        path = Path(file).expanduser()
        if path.stat().st_mode & 0o077:
            raise InvalidInput(f"others can read the token file {path}: chmod 600 {path}")
        token, place = path.read_text(encoding="utf-8").strip(), str(path)
    if token is None and not _is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached from other machines: give a token, --token-file FILE or the"
            f" environment's {TOKEN}, or listen on 127.0.0.1"
        )
    if token is None:
        return None
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise InvalidInput(f"the token of {place} must have 16 printable ASCII letters or more")
    return token


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises `OSError` naming the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error


def _affordable(connections: int) -> int:
    """Return how many connections there may be, so that files are left for all else."""
    wanted = connections + _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, wanted - _FILES)


class Server:
    """Serves an application on a socket, with so many connections at a time.

    A new one takes the place of the one whose client has let us wait longest; where all are at work
    it has status 503. `tls` are ``ssl_certfile`` and ``ssl_keyfile``, as uvicorn has them. Raises
    `ssl.SSLError` if these are not a certificate and its key.
    """

    def __init__(self, app: Starlette, *, connections: int = 1000, **tls: Any) -> None:
        self._config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            http=HTTPConnection,
            ws="none",
            limit_concurrency=_affordable(connections) + 1,  # the first that uvicorn refuses
            timeout_graceful_shutdown=_STOP_SECONDS,
            **tls,
        )
        self._config.load()
        self._app = app
        self._scheme = "https" if tls else "http"

    def url(self, listener: socket.socket) -> str:
        """Return the address of a socket as one opens it."""
        host, port = listener.getsockname()[:2]
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, listener: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT comes."""
        # uvicorn raises the signal again once it has closed, which would end the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._server().run(sockets=[listener])

    def start(self, listener: socket.socket) -> threading.Thread:
        """Serve in a thread that ends before the process, which might crash otherwise."""
        server = self._server()
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="streamk-http", daemon=True
        )

        def stop() -> None:
            server.should_exit = True
            thread.join(_STOP_SECONDS + 1.0)

        atexit.register(stop)
        thread.start()
        return thread

    def _server(self) -> uvicorn.Server:
        server = uvicorn.Server(self._config)
        # Answers without an end are to see that theirs has come.
        self._app.state.is_leaving = lambda: server.should_exit
        return server
