"""Any job on a stream: its options, their checks, and the sources and sinks opened for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from connectors.base import URL, Sink, Source
from connectors.errors import BadURL, Unavailable
from connectors.registry import open_sink, open_source, parse_url
from streamk.backends.first_use import FIRST_USE
from streamk.cli.job.signals import add_signals
from streamk.cli.parsing.arguments import (
    Parser,
    UsageError,
    checkpoint_place,
    one_of,
    seconds,
    seconds_or_inf,
    share,
    state_key,
    whole,
)

__all__ = ["add_running", "check", "connected", "display", "opened", "writes_to_stdout"]


def add_running(parser: Parser, add: Callable[..., Any]) -> None:
    """Add the options of any job on a stream: when it ends, what it shows, what may go wrong."""
    add(
        "--metrics",
        metavar="NAMES",
        action="append",
        help="further figures by River's names, as F1,ROCAUC,CohenKappa or R2,MAPE; of one class as"
        " F1=spam",
    )
    add_signals(add)
    add(
        "--checkpoint-every",
        metavar="N",
        type=whole(1),
        help="events between checkpoints (default 100000)",
    )
    add(
        "--checkpoint-grace",
        metavar="N",
        type=whole(0),
        help="events for which a run goes on where no checkpoint can be written (default 1000000)",
    )
    add(
        "--transactions",
        metavar="SECONDS",
        type=seconds,
        nargs="?",
        const=10.0,
        help="write predictions, dead letters, alarms and the offsets of a group in transactions of"
        " Kafka, one for each checkpoint, which is then at most SECONDS old (0.1 to 60, default"
        " 10)",
    )
    add("--max-events", metavar="N", type=whole(0), help="stop after N events, restarts included")
    add(
        "--until-end",
        action="store_true",
        help="stop where a live source ends when the job begins",
    )
    add(
        "--idle-timeout",
        metavar="SECONDS",
        type=seconds,
        help="how long other partitions wait for a silent one (default 1)",
    )
    add(
        "--max-skew",
        metavar="SECONDS",
        type=seconds_or_inf,
        help="how far the timestamp of one event may be ahead of its partition's (default 60; inf:"
        " any)",
    )
    add("--json", action="store_true", help="end with one line of JSON instead of a table")
    add("--quiet", action="store_true", help="show warnings and errors only")
    _add_trouble(parser)


def _add_trouble(parser: Parser) -> None:
    add = parser.add_argument_group("when something is wrong").add_argument
    add(
        "--dead-letters",
        metavar="SINK",
        help="address for events that cannot be used, with position and reason",
    )
    add(
        "--on-error",
        metavar="WHAT",
        type=one_of("raise", "skip", "dead-letter"),
        help="what to do with such events: raise, skip (default) or dead-letter (default with"
        " --dead-letters)",
    )
    add(
        "--max-bad-share",
        metavar="SHARE",
        type=share,
        help="end with an error where a larger part of the events, of 1,000 at least, cannot be"
        " used (default 1)",
    )
    add(
        "--data-loss",
        metavar="WHAT",
        type=one_of("fail", "earliest", "latest"),
        help="what to do when the next events are gone from the source: fail (default), or go on"
        " at the earliest or latest",
    )


def check(options: dict[str, Any]) -> None:
    """Raise `UsageError` for options of any job that make no sense together."""
    if "transactions" in options and "checkpoint" not in options:
        raise UsageError(
            "--transactions commits one with each checkpoint; it needs --checkpoint DIR"
        )
    if options.get("on_error") == "dead-letter" and "dead_letters" not in options:
        raise UsageError("--on-error dead-letter needs --dead-letters SINK")
    if options.get("on_error") in ("raise", "skip") and "dead_letters" in options:
        raise UsageError(f"--dead-letters gets nothing with --on-error {options['on_error']}")
    _check_places(options)
    if "checkpoint" in options:
        from streamk.engine.checkpoints.object_path import location

        checkpoint = location(options["checkpoint"])
        if isinstance(checkpoint, Path):
            checkpoint = checkpoint.expanduser()
            if checkpoint.exists() and not checkpoint.is_dir():
                raise UsageError(f"--checkpoint {checkpoint} is a file; it must be a directory")
        options["checkpoint"] = checkpoint
    if "start_from" in options:
        options["start_from"] = checkpoint_place(options["start_from"])
    if "state_key" in options:
        options["state_key"] = state_key(options)


def _check_places(options: dict[str, Any]) -> None:
    """Raise `UsageError` where two addresses are one, or outputs would be read as events."""
    flags = {
        "source": "SOURCE",
        "labels": "--labels",
        "to": "--to",
        "dead_letters": "--dead-letters",
        "alarms": "--alarms",
    }
    used: dict[str | Path, str] = {}
    for name, flag in flags.items():
        if name in options:
            url = parse_url(options[name])
            place = _place(url)
            for other, its in used.items():
                if place == other:
                    raise UsageError(f"{its} and {flag} are both {url.text}")
                if its in ("SOURCE", "--labels") and _is_of(url, other):
                    raise UsageError(f"{flag} {url.text} would be one of the files of {its}")
            used[place] = flag


def _place(url: URL) -> str | Path:
    """Return what an address names: a file, which has many names, or the address."""
    is_file = url.scheme in ("file", "csv", "parquet")
    return Path(url.path).expanduser().resolve() if is_file else url.text


def _is_of(url: URL, others: str | Path) -> bool:
    """Return whether a file matches a pattern, or is Parquet below a directory of that."""
    place = _place(url)
    if isinstance(place, str) or isinstance(others, str):
        return False
    if url.scheme == "parquet" and others in place.parents:
        return True
    return "*" in str(others) and place.match(str(others))


def display(options: dict[str, Any], engine_options: dict[str, Any], stack: ExitStack) -> None:
    """Put the display of progress, which tells of a first use too, among the engine's options.

    Where a terminal gets outputs, no progress is shown among them.
    """
    from streamk.engine import shown_on

    if options.get("quiet"):
        stack.enter_context(FIRST_USE.hidden())
        return
    show = stack.enter_context(shown_on(sys.stderr))
    if not (writes_to_stdout(options) and sys.stdout.isatty() and sys.stderr.isatty()):
        engine_options["on_progress"] = show


def writes_to_stdout(options: dict[str, Any]) -> bool:
    """Return whether outputs of a job go to standard output, where nothing else belongs then."""
    sinks = [options[name] for name in ("to", "dead_letters", "alarms") if name in options]
    return "stdout" in [parse_url(sink).scheme for sink in sinks]


def connected(
    options: dict[str, Any], engine_options: dict[str, Any], stack: ExitStack
) -> tuple[Source, Sink | None]:
    """Open the source and the sink of predictions, which are returned, and the other sinks.

    These go among the engine's options, and so do the figures that are asked for.
    """
    source: Source = opened(open_source, options["source"])
    stack.callback(source.close)
    sinks: dict[str, Sink] = {}
    for name in ("to", "dead_letters", "alarms"):
        if name in options:
            sinks[name] = opened(open_sink, options[name])
            stack.callback(sinks[name].close)
    sink = sinks.pop("to", None)
    engine_options |= sinks
    names = [name.strip() for text in options.get("metrics", ()) for name in text.split(",")]
    engine_options["metrics"] = tuple(dict.fromkeys(filter(None, names)))
    return source, sink


def opened(opener: Callable[[str], Any], address: str) -> Any:
    """Return the source or sink at an address; one that cannot be there is a `BadURL`."""
    try:
        return opener(address)
    except Unavailable as error:
        if parse_url(address).host:
            raise  # a host may be back in a minute, so this is no mistake of the command line
        raise BadURL(str(error)) from error
