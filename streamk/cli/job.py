"""Options of `streamk run` and `streamk predict`: their checks, and what is opened for them."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable, Mapping
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
    number,
    one_of,
    seconds,
    seconds_or_inf,
    share,
    state_key,
    whole,
)
from streamk.engine import shown_on
from streamk.engine.checkpoints.object_path import location
from streamk.engine.late import LateLabels

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_OF_LABELS = {
    "key": "key",
    "time": "time",
    "label_timeout": "timeout",
    "label_default": "default",
    "held_events": "held_events",
    "label_revisions": "revisions",
}
"""Options of late labels, and the names that the engine has for them."""


def add_details(add: Add) -> None:
    """Add the options of what goes with a prediction."""
    add(
        "--interval SHARE",
        "predicted numbers come with an interval that holds so large a share of them",
        share,
    )
    add(
        "--prediction-set SHARE",
        "predicted classes come with a set of them that holds so large a share of the labels",
        share,
    )
    add(
        "--explain",
        "predictions come with their reasons: the fields of the largest effect, and their values",
    )


def duration(text: str) -> float:
    """Read a time span in seconds: a number, or one with a unit.

    >>> duration("7d"), duration("90"), duration("250ms")
    (604800.0, 90.0, 0.25)
    """
    plain = text.strip().lower()
    unit = plain.lstrip("0123456789.")
    if unit and unit not in _UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time span; write seconds or a number with ms, s, m, h or d, as 7d"
        )
    return number(plain.removesuffix(unit)) * _UNITS[unit or "s"]


def add_late(parser: Parser) -> None:
    """Add the options of late labels."""
    add = parser.group("labels that come later than their events")
    add(
        "--labels SOURCE",
        "address of the labels: records with a key and the field that --label names; an event"
        " is predicted at once and learned when its label comes",
    )
    add("--key NAME", "the field that is equal in an event and its label")
    add(
        "--time NAME",
        "the field of both that tells when they were, in milliseconds since 1970 or as text"
        " (default: the sources' timestamps; lines of files are numbered)",
    )
    add(
        "--label-timeout SPAN",
        "how long an event waits for its label, as 7d or 30m, in the time of the stream"
        " (default: as long as there is room)",
        duration,
    )
    add(
        "--label-default VALUE",
        "the label of events whose own has not come in time (default: they are not learned)",
    )
    add(
        "--held-events N",
        "events that wait at once, the oldest go first (default 1000000)",
        whole(1),
    )
    add(
        "--label-revisions POLICY",
        "of a label that says otherwise than the one before: ignore (default), or learn: the"
        " event is learned again with it, as long as its key is remembered",
        one_of("ignore", "learn"),
    )


def check_late(options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for options of late labels that make no sense together."""
    if "labels" not in options:
        for name in _OF_LABELS:
            if name in options:
                raise UsageError(
                    f"{flag_of(name)} is for labels of their own; it needs --labels SOURCE"
                )
        return
    if "key" not in options:
        raise UsageError(
            "--labels needs --key NAME: the field that is equal in an event and its label"
        )
    if "label" not in options:
        raise UsageError("--labels needs --label NAME: the field of the label in its records")
    if options["key"] == options["label"]:
        raise UsageError(f"--key and --label are both {options['key']!r}")
    if "label_default" in options and "label_timeout" not in options:
        raise UsageError("--label-default is the label after a time; it needs --label-timeout SPAN")


def late_labels(options: Mapping[str, Any], source: Source) -> LateLabels:
    """Return the options of the engine for late labels."""
    given = {to: options[name] for name, to in _OF_LABELS.items() if name in options}
    return LateLabels(source, **given)


def add_running(parser: Parser, add: Add) -> None:
    """Add the options of any job on a stream: when it ends, what it shows, what may go wrong."""
    add(
        "--metrics NAMES...",
        "further figures by River's names, as F1,ROCAUC,CohenKappa or R2,MAPE; of one class as"
        " F1=spam",
    )
    add(
        "--alarms SINK",
        "address for events that tell when errors rise, labels come later, or calibration or"
        " coverage leave their bounds",
    )
    add("--slice NAME", "a field of the events: its first 20 values have figures of their own")
    add("--checkpoint-every N", "events between checkpoints (default 100000)", whole(1))
    add(
        "--checkpoint-grace N",
        "events for which a run goes on where no checkpoint can be written (default 1000000)",
        whole(0),
    )
    add(
        "--transactions SECONDS",
        "write predictions, dead letters, alarms and the offsets of a group in transactions of"
        " Kafka, one for each checkpoint, which is then at most SECONDS old (0.1 to 60, default"
        " 10)",
        seconds,
        nargs="?",
        const=10.0,
    )
    add("--max-events N", "stop after N events, restarts included", whole(0))
    add("--until-end", "stop where a live source ends when the job begins")
    add(
        "--idle-timeout SECONDS",
        "how long other partitions wait for a silent one (default 1)",
        seconds,
    )
    add(
        "--max-skew SECONDS",
        "how far the timestamp of one event may be ahead of its partition's (default 60; inf: any)",
        seconds_or_inf,
    )
    add("--json", "end with one line of JSON instead of a table")
    add("--quiet", "show warnings and errors only")
    _add_trouble(parser)


def _add_trouble(parser: Parser) -> None:
    add = parser.group("when something is wrong")
    add("--dead-letters SINK", "address for events that cannot be used, with position and reason")
    add(
        "--on-error WHAT",
        "what to do with such events: raise, skip (default) or dead-letter (default with"
        " --dead-letters)",
        one_of("raise", "skip", "dead-letter"),
    )
    add(
        "--max-bad-share SHARE",
        "end with an error where a larger part of the events, of 1,000 at least, cannot be"
        " used (default 1)",
        share,
    )
    add(
        "--data-loss WHAT",
        "what to do when the next events are gone from the source: fail (default), or go on"
        " at the earliest or latest",
        one_of("fail", "earliest", "latest"),
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
        place = options["checkpoint"] = location(options["checkpoint"])
        if isinstance(place, Path) and place.exists() and not place.is_dir():
            raise UsageError(f"--checkpoint {place} is a file; it must be a directory")
    if "start_from" in options:
        options["start_from"] = checkpoint_place(options["start_from"])
    if "state_key" in options:
        options["state_key"] = state_key(options)


def _check_places(options: dict[str, Any]) -> None:
    """Raise `UsageError` where two addresses are one, or outputs would be read as events."""
    used: dict[str | Path, str] = {}
    for name in ("source", "labels", "to", "dead_letters", "alarms"):
        if name in options:
            flag = "SOURCE" if name == "source" else flag_of(name)
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


_REACH_SECONDS = 10.0
"""Time that a cluster may take to accept a connection."""


def add_sharding(parser: Parser) -> None:
    """Add the options of shards and workers."""
    add = parser.group("many workers")
    add(
        "--workers N",
        "processes that learn shards of the stream at once; the result is the same for any"
        " number, and so it may change from start to start",
        whole(1),
    )
    add(
        "--shards N",
        "shards of a round, at whose end they are merged (default 4, or as many as there are"
        " workers at first); given at the first start",
        whole(1),
    )
    add(
        "--round-events N",
        "events of a shard in a round, at most (default 4096); given at the first start",
        whole(1),
    )
    add(
        "--staleness N",
        "rounds before it that the replicas of a round do not know, so that no worker waits"
        " for a merge or for a slower one (default 0); given at the first start",
        whole(0),
    )
    add(
        "--ray ADDRESS",
        "run the workers on the Ray cluster there: auto for one that runs on this machine,"
        " local to start one here, HOST:PORT, or ray://HOST:PORT",
    )


def sharded(
    model: Any,
    options: dict[str, Any],
    own: Mapping[str, Any] | None,
    first: Mapping[str, Any] | None,
    stack: ExitStack,
) -> Any:
    """Return the model, in shards where workers or shards are asked for, or were before.

    `own` is the header of the model that the job goes on with, and `first` that of another job's
    with which it may begin; None where there is none. Raises `UsageError`.
    """
    from streamk.learners import Sharded
    from streamk.learners.sharded.sharded import ROUND_EVENTS, SHARDS

    workers, was = options.get("workers", 1), _in_shards(own)
    if not (was or "shards" in options or "workers" in options):
        for name in ("round_events", "staleness", "ray"):
            if name in options:
                raise UsageError(f"{flag_of(name)} needs --workers or --shards")
        return model
    if own is not None and not was:
        raise UsageError(
            "this job has a model that was learned without shards; leave --workers and --shards"
            " out, or begin another job with that model: --start-from"
            f" {options['checkpoint']} --checkpoint ANOTHER"
        )
    before: Any = first if first is not None and _in_shards(first) else {}
    defaults = {
        "shards": max(before.get("shards", SHARDS), workers),
        "round_events": before.get("round_events", ROUND_EVENTS),
        "staleness": before.get("staleness", 0),
    }
    chosen = {}
    for name, default in defaults.items():
        chosen[name] = options.get(name, default) if own is None else own[name]
        if options.get(name, chosen[name]) != chosen[name]:
            raise UsageError(
                f"{flag_of(name)} {options[name]}: this job's model has {chosen[name]}; leave the"
                " option out, or begin another job with that model: --start-from"
                f" {options['checkpoint']} --checkpoint ANOTHER"
            )
    if workers > chosen["shards"]:
        raise UsageError(
            f"{workers} workers are more than the {chosen['shards']} shards of a round; have fewer"
            " workers, or begin with more --shards in another directory"
        )
    return Sharded(model, **chosen, workers=_workers(workers, options.get("ray"), model, stack))


def _in_shards(header: Mapping[str, Any] | None) -> bool:
    """Return whether a model that was saved is in shards."""
    from streamk.learners import Sharded

    return header is not None and header["type"] == Sharded.TYPE


def _workers(count: int, address: str | None, model: Any, stack: ExitStack) -> Any:
    """Return workers, None where this process does it alone."""
    from streamk.distributed import Processes, RayWorkers, TaskDivision

    if address is not None:
        _connect(address, stack)
        takes = {"num_gpus": 1} if _on_gpu(model.placing) else {"num_cpus": 1}
        return stack.enter_context(TaskDivision(RayWorkers(count, options=takes)))
    if count == 1:
        return None
    return stack.enter_context(TaskDivision(Processes(count)))


def _on_gpu(placing: Mapping[str, Any]) -> bool:
    """Return whether a model, or one of its external experts, computes on a GPU."""
    experts = placing.get("placings", ())
    return placing.get("backend") == "cupy" or any(_on_gpu(expert) for expert in experts)


def _connect(address: str, stack: ExitStack) -> None:
    """Connect to a Ray cluster. Raises `UsageError` where there is none."""
    from streamk.distributed.actors import import_ray

    try:
        _reach(address)
        ray = import_ray()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, OSError) as error:
        raise UsageError(
            f"--ray {address}: no Ray cluster answers there ({str(error).splitlines()[0]}); start"
            " one with `ray start --head`, set RAY_AUTH_MODE and RAY_AUTH_TOKEN as it has them, or"
            " give --ray local"
        ) from None
    stack.callback(ray.shutdown)


def _reach(address: str) -> None:
    """Raise `OSError` where nothing listens at HOST:PORT, for which Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
