"""Options of `streamk run` and `streamk predict`: their checks, and what is opened for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from connectors.base import URL, Sink, Source
from connectors.errors import BadURL, Unavailable
from connectors.registry import open_sink, open_source, parse_url
from streamk.backends.first_use import FIRST_USE
from streamk.cli.arguments import (
    Add,
    Parser,
    UsageError,
    checkpoint_place,
    flag_of,
    one_of,
    seconds,
    seconds_or_inf,
    share,
    whole,
)
from streamk.engine import shown_on
from streamk.engine.checkpoints.places import location


def add_details(add: Add) -> None:
    """Add the options of what goes with a prediction."""
    add(
        "--interval SHARE",
        "add an interval that contains this share of the numbers, as 0.9",
        share,
    )
    add(
        "--prediction-set SHARE",
        "add a set of classes that contains this share of the labels, as 0.9",
        share,
    )
    add(
        "--explain",
        "add the reasons for each prediction: the fields with the largest effect, and their values",
    )


def add_running(parser: Parser, add: Add) -> None:
    """Add the options of any job on a stream: when it ends, what it shows, what may go wrong."""
    add(
        "--metrics NAMES...",
        "more metrics by River's names, as F1,ROCAUC,CohenKappa or R2,MAPE; F1=spam for one class",
    )
    add(
        "--alarms SINK",
        "address for alarms: errors rise, labels come later, or calibration or coverage leave "
        "their bounds",
    )
    add("--slice NAME", "a field: each of its first 20 values gets its own metrics")
    add("--checkpoint-every N", "events between checkpoints (default 100000)", whole(1))
    add(
        "--checkpoint-grace N",
        "events that a run may go on for while no checkpoint can be written (default 1000000)",
        whole(0),
    )
    add(
        "--transactions SECONDS",
        "write predictions, dead letters, alarms and group offsets in Kafka transactions, one "
        "for each checkpoint; a checkpoint follows at least every SECONDS (0.1 to 60, default "
        "10)",
        seconds,
        nargs="?",
        const=10.0,
    )
    add("--max-events N", "stop after N events, restarts included", whole(0))
    add("--until-end", "stop at the end that a live source has when the job begins")
    add(
        "--idle-timeout SECONDS",
        "how long the other partitions wait for a silent one (default 1)",
        seconds,
    )
    add(
        "--max-skew SECONDS",
        "how far an event's timestamp may jump ahead in its partition (default 60; inf for any)",
        seconds_or_inf,
    )
    add("--json", "write the report, and the log of a run without a terminal, as JSON")
    add("--quiet", "show warnings and errors only")
    add = parser.group("when something is wrong")
    add("--dead-letters SINK", "address for bad events, with position and reason")
    add(
        "--on-error WHAT",
        "what to do with bad events: raise, skip (default) or dead-letter (default with "
        "--dead-letters)",
        one_of("raise", "skip", "dead-letter"),
    )
    add(
        "--max-bad-share SHARE",
        "fail when more than this share of the events is bad, from 1,000 events on (default 1)",
        share,
    )
    add(
        "--data-loss WHAT",
        "what to do when the source has deleted the next events: fail (default), or continue at"
        " the earliest or latest",
        one_of("fail", "earliest", "latest"),
    )


def check(options: dict[str, Any], sources: Sequence[str] = ()) -> None:
    """Raise `UsageError` for options of any job that make no sense together."""
    if "transactions" in options and "checkpoint" not in options:
        raise UsageError(
            "--transactions commits one with each checkpoint; it needs --checkpoint DIR"
        )
    if options.get("on_error") == "dead-letter" and "dead_letters" not in options:
        raise UsageError("--on-error dead-letter needs --dead-letters SINK")
    if options.get("on_error") in ("raise", "skip") and "dead_letters" in options:
        raise UsageError(f"--dead-letters gets nothing with --on-error {options['on_error']}")
    _check_places(options, sources)
    if "checkpoint" in options:
        place = options["checkpoint"] = location(options["checkpoint"])
        if isinstance(place, Path) and place.exists() and not place.is_dir():
            raise UsageError(f"--checkpoint {place} is a file; it must be a directory")
    if "start_from" in options:
        options["start_from"] = checkpoint_place(options["start_from"])


def _check_places(options: dict[str, Any], sources: Sequence[str]) -> None:
    """Raise `UsageError` where two addresses are one, or outputs would be read as events."""
    used: dict[str | Path, str] = {}
    for name in ("source", *sources, "to", "dead_letters", "alarms"):
        if name in options:
            flag = "SOURCE" if name == "source" else flag_of(name)
            url = parse_url(options[name])
            place = _place(url)
            for other, its in used.items():
                if place == other:
                    raise UsageError(f"{its} and {flag} are both {url.text}")
                if its in ("SOURCE", *map(flag_of, sources)) and _is_of(url, other):
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
    if options.get("quiet"):
        stack.enter_context(FIRST_USE.hidden())
        return
    show = stack.enter_context(shown_on(sys.stderr, structured="json" in options))
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
