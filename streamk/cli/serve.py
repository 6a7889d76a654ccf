"""`streamk serve`: answer requests over HTTP by a model that has been learned."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from streamk.cli.arguments import Parser, UsageError, existing_path, seconds, state_key, whole

__all__ = ["main"]

DESCRIPTION = """\
Answer requests over HTTP by the newest model of a checkpoint, which `streamk run`
has learned or is still learning. Nothing is learned. Each newer model that the
job saves takes the place of the one before, while requests are answered.
"""

EPILOG = """\
paths:
  POST /predict       an event, an object of JSON, or an array of them;
                      ?reasons=true and ?interval=0.9 ask for more
  GET /model          task, label, classes, columns, events learned
  GET /metrics        figures for Prometheus
  GET /healthz        200 while the process answers
  GET /readyz         200 where there is a model to predict by, else 503
  GET /openapi.json   all of this for programs

examples:
  streamk serve state
  streamk serve state --http 0.0.0.0:8000 --token-file token \\
      --tls-cert server.pem --tls-key server.key
  curl -d '{"age": 31, "device": "phone"}' \\
      -H 'Content-Type: application/json' localhost:8000/predict

It takes the extra: pip install 'streamk[serve]'.
"""

TOKEN = "STREAMK_TOKEN"
_DEFAULT = ("127.0.0.1", 8000)
_STOP_SECONDS = 5
"""Time that requests at work have to end."""


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal comes."""
    options = _parser().parse(arguments)
    if "model" not in options:
        raise UsageError("CHECKPOINT is needed: streamk serve state")
    host, port = options.get("http", _DEFAULT)
    token = _token(options)
    tls = _tls(options)
    if token is None and not _is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: give a token, --token-file FILE or the"
            f" environment's {TOKEN}, or listen on 127.0.0.1"
        )
    _serve(options, host, port, token, tls)
    return 0


def _parser() -> Parser:
    parser = Parser("streamk serve", DESCRIPTION, EPILOG)
    parser.usage = "streamk serve CHECKPOINT [--http HOST:PORT] ..."
    add = parser.add_argument_group("the model").add_argument
    add("model", metavar="CHECKPOINT", nargs="?", help="directory of checkpoints, or one of them")
    parser.add_key(add)
    add(
        "--refresh",
        metavar="SECONDS",
        type=_period,
        help="time between two looks for a newer model (1)",
    )
    add = parser.add_argument_group("the address").add_argument
    add(
        "--http",
        metavar="HOST:PORT",
        type=_address,
        help="where to listen (127.0.0.1:8000); port 0 for any that is free",
    )
    add("--tls-cert", metavar="FILE", help="certificate, and those that it rests on, in PEM")
    add("--tls-key", metavar="FILE", help="its private key in PEM")
    add = parser.add_argument_group("who may ask, and how much").add_argument
    add(
        "--token-file",
        metavar="FILE",
        help=f"requests need the token in it; {TOKEN} of the environment by default",
    )
    add("--max-body", metavar="BYTES", type=whole(1), help="of a request (1048576)")
    add("--max-events", metavar="N", type=whole(1), help="of a request (1000)")
    add(
        "--max-connections",
        metavar="N",
        type=whole(1),
        help="at a time; more are refused with 503 (1000)",
    )
    parser.add_common()
    return parser


def _address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, :PORT or PORT; IPv6 hosts stand in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ArgumentTypeError(
            f"{text!r} is no address; write HOST:PORT, for example 127.0.0.1:8000"
        )
    return host or _DEFAULT[0], int(port)


def _period(text: str) -> float:
    """Return a time in seconds, long enough for other work."""
    found = seconds(text)
    if found < 0.1:
        raise ArgumentTypeError(f"{text} is too short, the least is 0.1")
    return found


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _token(options: dict[str, Any]) -> str | None:
    """Return the token that requests need, if any."""
    if "token_file" not in options:
        token, place = os.environ.get(TOKEN), TOKEN
    else:
        path = existing_path(options["token_file"], "token file")
        if path.stat().st_mode & 0o077:
            raise UsageError(f"others can read the token file {path}: chmod 600 {path}")
        token, place = path.read_text(encoding="utf-8").strip(), str(path)
    if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
        raise UsageError(f"the token of {place} must have 16 printable ASCII letters or more")
    return token


def _tls(options: dict[str, Any]) -> dict[str, Path]:
    """Return the files of TLS as the server takes them."""
    given = [name for name in ("tls_cert", "tls_key") if name in options]
    if len(given) == 1:
        raise UsageError("--tls-cert and --tls-key come together")
    names = {"tls_cert": "ssl_certfile", "tls_key": "ssl_keyfile"}
    return {names[name]: existing_path(options[name], "file") for name in given}


def _serve(
    options: dict[str, Any], host: str, port: int, token: str | None, tls: dict[str, Path]
) -> None:
    try:
        import uvicorn

        from streamk.serving.application import Limits, application
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serving needs the package {error.name}: pip install 'streamk[serve]'"
        ) from None
    from streamk.learners.warming import preparing
    from streamk.serving import load

    directory = existing_path(options["model"], "directory of checkpoints")
    model = load(directory, key=state_key(options))
    limits = {"body": options.get("max_body"), "events": options.get("max_events")}
    app = application(
        model,
        token=token,
        limits=Limits(**{name: value for name, value in limits.items() if value is not None}),
        refresh=options.get("refresh", 1.0),
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=options.get("max_connections", 1000),
        timeout_graceful_shutdown=_STOP_SECONDS,
        **tls,  # type: ignore[arg-type]
    )
    try:
        config.load()
    except ssl.SSLError as error:
        given = f"{options['tls_cert']} and {options['tls_key']}"
        raise UsageError(f"{given} are no certificate and its key: {error}") from None
    listening = _listening(host, port)
    with listening, preparing(model.learner):
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if tls else "http"
        print(
            f"streamk serve: {model!r} at {scheme}://{shown}:{listening.getsockname()[1]}",
            file=sys.stderr,
            flush=True,
        )
        _log_to_stderr()
        # The signals that uvicorn raises again once it has closed would end the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises `OSError` with the address."""
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        found = socket.socket(family, kind, protocol)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(2048)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return found


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name, level in (("streamk", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
