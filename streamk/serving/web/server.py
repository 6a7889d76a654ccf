"""The server of our applications: where it listens, who may ask, and how it ends."""

from __future__ import annotations

import ipaddress
import os
import resource
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from streamk.errors import InvalidInput
from streamk.serving.web.protocol import Connection

__all__ = ["DEFAULT", "TOKEN", "Server", "address", "listening", "token_for"]

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

    Raises
    ------
    InvalidInput
        If it is none of these.

    Examples
    --------
    >>> address(":8000"), address("[::1]:80")
    (('127.0.0.1', 8000), ('::1', 80))
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"{text!r} is no address; write HOST:PORT, for example 127.0.0.1:8000")
    return host or DEFAULT[0], int(port)


def token_for(host: str, file: str | None) -> str | None:
    """Return the token of a file or of the environment; None where none is needed.

    Raises
    ------
    InvalidInput
        If other machines can reach the host and there is none, it is too short, or others can read
        the file.
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
    """Return a socket that listens.

    Raises
    ------
    OSError
        Naming the address.
    """
    try:
        ((family, kind, protocol, _, place), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        found = socket.socket(family, kind, protocol)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(place)
            found.listen(2048)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return found


def _affordable(connections: int) -> int:
    """Return how many connections there may be, so that files are left for all else."""
    wanted = connections + _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(1, wanted - _FILES)


class Server:
    """Serves an application on a socket.

    Parameters
    ----------
    app : Starlette
    connections : int, default 1000
        At a time. A new one takes the place of the one whose client has let us wait longest; where
        all are at work it has status 503.
    **tls : path
        ``ssl_certfile`` and ``ssl_keyfile``, as uvicorn has them.

    Raises
    ------
    ssl.SSLError
        If the files are no certificate and its key.
    """

    def __init__(self, app: Starlette, *, connections: int = 1000, **tls: Any) -> None:
        self._config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            http=Connection,
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
        """Serve in a thread, which ends with the process."""
        server = self._server()
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="streamk-http", daemon=True
        )
        thread.start()
        return thread

    def _server(self) -> uvicorn.Server:
        server = uvicorn.Server(self._config)
        # Answers without an end are to see that theirs has come.
        self._app.state.is_leaving = lambda: server.should_exit
        return server
