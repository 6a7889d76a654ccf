"""The live page of a job: `streamk run ... --http`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from connectors.registry import parse_url
from streamk.cli.serve import needed, token_file
from streamk.engine.observing import Observer
from streamk.engine.progress import Snapshot

__all__ = ["watched"]

_CONNECTIONS = 100
"""At a time; a browser has one for each page that is open."""


def watched(
    options: dict[str, Any],
    model: str,
    show: Callable[[Snapshot], None] | None,
    observer: Observer,
    stack: ExitStack,
) -> Callable[[Snapshot], None]:
    """Serve the page of a job until it ends; return a function that is to get all snapshots.

    Parameters
    ----------
    options : dict
    model : str
        Its name.
    show : function of a Snapshot, optional
        Gets them, too.
    observer : Observer
        Of the job.
    stack : ExitStack
        Closes the socket.

    Raises
    ------
    UsageError, InvalidInput
        If a package is missing, or the address or the token is of no use.
    OSError
        If it cannot listen there.
    """
    needed()
    from streamk.serving.pages import History, live_page
    from streamk.serving.server import Server, address, listening, token_for

    host, port = address(options["http"])
    token = token_for(host, token_file(options))
    # An address may hold what others are not to see.
    source = parse_url(options["source"])
    about = {"label": options.get("label"), "model": model}
    about["from"] = f"{source.scheme}: {Path(source.path).name}".removesuffix(": ")
    history = History({name: str(text) for name, text in about.items() if text}, observer)
    listener = stack.enter_context(listening(host, port))
    server = Server(live_page(history, token=token), connections=_CONNECTIONS)
    server.start(listener)
    _tell(server.url(listener), quiet=options.get("quiet", False))

    def both(snapshot: Snapshot) -> None:
        history(snapshot)
        if show is not None:
            show(snapshot)

    return both


def _tell(url: str, *, quiet: bool) -> None:
    """Say where the page is, in JSON where the other lines are."""
    if quiet or sys.stderr.isatty():
        print(f"streamk run: the live page is at {url}", file=sys.stderr, flush=True)
    else:
        logging.getLogger("streamk.engine").info("live page", extra={"streamk": {"url": url}})
