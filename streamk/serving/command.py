"""`streamk serve`: answer requests over HTTP by a model that has been learned."""

from __future__ import annotations

import contextlib
import logging
import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connectors.registry import open_log, parse_url
from streamk.cli.arguments import (
    Add,
    Parser,
    UsageError,
    checkpoint_place,
    existing_path,
    seconds,
    whole,
)
from streamk.cli.parts import Making, Part
from streamk.engine.progress import Snapshot
from streamk.serving.observing import Observer

DESCRIPTION = """\
Serve predictions over HTTP by the newest model of a checkpoint, which `streamk
run` has learned or is still learning, here or on another machine. When the job
saves a newer model, the server switches to it without a pause; if that cannot
be read, it keeps the one before. The server itself learns nothing: with --learn
it appends events to the job's source.
"""

EPILOG = """\
paths:
  POST /predict       an event, an object of JSON, or an array of them;
                      ?reasons=true and ?interval=0.9 ask for more
  POST /learn         with --learn: the same with labels, added to what the job
                      learns from
  GET /               a page: figures, times of requests, experts, columns
  GET /model          task, label, classes, columns, events learned
  GET /metrics        figures for Prometheus
  GET /healthz        200 while the process answers
  GET /readyz         200 where there is a model to predict by, and not older
                      than --max-age; else 503
  GET /openapi.json   all of this for programs

examples:
  streamk serve state
  streamk serve s3://models/clicks --max-age 600
  streamk serve state --learn kafka://localhost:9092/clicks
  streamk serve state --http 0.0.0.0:8000 --token-file token \\
      --tls-cert server.pem --tls-key server.key
  curl -d '{"age": 31, "device": "phone"}' \\
      -H 'Content-Type: application/json' localhost:8000/predict

It takes the extra: pip install 'streamk[serve]'.
"""


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal comes."""
    options = _parser().parse(arguments)
    if "model" not in options:
        raise UsageError("CHECKPOINT is needed: streamk serve state")
    needed()
    from streamk.learners.warming import preparing
    from streamk.serving.application import application
    from streamk.serving.server import DEFAULT, Server, address, listening, token_for
    from streamk.trained import load

    host, port = address(options["http"]) if "http" in options else DEFAULT
    token = token_for(host, token_file(options))
    tls = _tls(options)
    directory = checkpoint_place(options["model"])
    model = load(directory, key=options.get("state_key"))
    with contextlib.ExitStack() as stack:
        log = None
        if "learn" in options:
            log = stack.enter_context(contextlib.closing(open_log(options["learn"])))
        app = application(
            model,
            token=token,
            **{name: options[name] for name in ("max_body", "max_events") if name in options},
            refresh=options.get("refresh", 1.0),
            max_age=options.get("max_age"),
            log=log,
        )
        import ssl

        try:
            server = Server(app, connections=options.get("max_connections", 1000), **tls)
        except ssl.SSLError as error:
            given = f"{options['tls_cert']} and {options['tls_key']}"
            raise UsageError(f"{given} are not a certificate and its key: {error}") from None
        listener = stack.enter_context(listening(host, port))
        stack.enter_context(preparing(model.learner))
        print(f"streamk serve: {model!r} at {server.url(listener)}", file=sys.stderr, flush=True)
        _log_to_stderr()
        server.run(listener)
    return 0


def needed() -> None:
    """Raise `UsageError` where a package is missing."""
    try:
        from streamk.serving import monitoring, server  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serving needs the package {error.name}: pip install 'streamk[serve]'"
        ) from None


def add_address(add: Add, about: str) -> None:
    """Add the options of all that listen."""
    add("--http HOST:PORT", f"{about}; port 0 for any that is free")
    add(
        "--token-file FILE",
        "file with the token that requests must send (default: the environment's STREAMK_TOKEN)",
    )


def _parser() -> Parser:
    parser = Parser("streamk serve", DESCRIPTION, EPILOG)
    parser.usage = "streamk serve CHECKPOINT [--http HOST:PORT] ..."
    add = parser.group("the model")
    parser.add_checkpoint(add)
    parser.add_key(add)
    add(
        "--learn ADDRESS",
        "file:PATH or kafka://HOST:PORT/TOPIC that the job reads; events posted to /learn are "
        "appended to it",
    )
    add("--refresh SECONDS", "time between two checks for a newer model (1)", _period)
    add(
        "--max-age SECONDS",
        "/readyz answers 503 if the model was saved longer ago (default: any age will do)",
        seconds,
    )
    add = parser.group("the address")
    add_address(add, "where to listen (127.0.0.1:8000)")
    add("--tls-cert FILE", "certificate and its chain, in PEM")
    add("--tls-key FILE", "its private key in PEM")
    add = parser.group("limits")
    add("--max-body BYTES", "most bytes of a request (1048576)", whole(1))
    add("--max-events N", "most events of a request (1000)", whole(1))
    add(
        "--max-connections N",
        "most connections at a time; further ones get status 503 (1000)",
        whole(1),
    )
    parser.add_common()
    return parser


def _period(text: str) -> float:
    """Return a time in seconds, long enough for other work."""
    found = seconds(text)
    if found < 0.1:
        raise ArgumentTypeError(f"{text} is too short; the minimum is 0.1")
    return found


def token_file(options: Mapping[str, Any]) -> str | None:
    """Return the path of the token that was given, if it is there. Raises `UsageError`."""
    if "token_file" not in options:
        return None
    return str(existing_path(options["token_file"], "token file"))


def _tls(options: dict[str, Any]) -> dict[str, Path]:
    """Return the files of TLS as the server takes them."""
    given = [name for name in ("tls_cert", "tls_key") if name in options]
    if len(given) == 1:
        raise UsageError("--tls-cert and --tls-key must be given together")
    names = {"tls_cert": "ssl_certfile", "tls_key": "ssl_keyfile"}
    return {names[name]: existing_path(options[name], "file") for name in given}


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name, level in (("streamk", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False


_CONNECTIONS = 100
"""At a time; a browser has one for each page that is open."""


class PagePart(Part):
    """The live page of a job."""

    FIRST = ("http",)

    def add(self, parser: Parser) -> None:
        """Add the options of the page."""
        about = "show the job on a live page there, with figures for Prometheus"
        add_address(parser.group("watching"), about)

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise `UsageError` for a token without a page."""
        if "token_file" in options and "http" not in options:
            raise UsageError("--token-file is for a job with --http")

    def connect(self, job: Making, engine_options: dict[str, Any]) -> None:
        """Serve the page of a job until it ends, where it is asked for.

        Raises `UsageError` and `InvalidInput` if a package is missing, or the address or the token
        is not usable, and `OSError` if it cannot listen there.
        """
        options = job.options
        if "http" not in options:
            return
        show, observer = engine_options.get("on_progress"), Observer()
        needed()
        from streamk.serving.pages import PageHistory, live_page
        from streamk.serving.server import Server, address, listening, token_for

        host, port = address(options["http"])
        token = token_for(host, token_file(options))
        # An address may hold what others are not to see.
        source = parse_url(options["source"])
        about = {"label": options.get("label"), "model": job.name}
        about["from"] = f"{source.scheme}: {Path(source.path).name}".removesuffix(": ")
        history = PageHistory({name: str(text) for name, text in about.items() if text}, observer)
        listener = job.stack.enter_context(listening(host, port))
        server = Server(live_page(history, token=token), connections=_CONNECTIONS)
        server.start(listener)
        url = server.url(listener)
        if options.get("quiet") or sys.stderr.isatty():
            print(f"streamk run: the live page is at {url}", file=sys.stderr, flush=True)
        else:  # in the log, beside the other lines
            log, told = logging.getLogger("streamk.engine"), {"streamk": {"url": url}}
            log.info("the live page is at %s", url, extra=told)

        def both(snapshot: Snapshot) -> None:
            history(snapshot)
            if show is not None:
                show(snapshot)

        engine_options |= {"on_progress": both, "observer": observer}
