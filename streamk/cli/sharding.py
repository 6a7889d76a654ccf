"""Options of `streamk run` for many workers, which learn shards, and for challengers."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from streamk.cli.arguments import Parser, UsageError, flag_of, whole

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


def add_challengers(parser: Parser) -> None:
    """Add the options of challengers."""
    add = parser.group("challengers")
    add(
        "--challenger NAME=MODEL...",
        "a model that learns beside the champion, which predicts; options follow a colon"
        " (lean=doubly-stochastic:kernel=laplacian,step=0.5); may be repeated",
        _named_model,
    )
    add(
        "--promote-after N",
        "test each challenger after every N labelled events, and make it the champion where it"
        " is better (default: streamk promote alone does); give it at each start",
        whole(1),
    )


def _named_model(text: str) -> tuple[str, str]:
    """Read NAME=MODEL, or NAME=MODEL:option=value,..."""
    name, equals, model = text.partition("=")
    if not (equals and name.strip() and model.strip()) or ":" in name:
        raise argparse.ArgumentTypeError(
            "it is written NAME=MODEL, for example lean=doubly-stochastic:kernel=laplacian"
        )
    return name.strip(), model.strip()


def contested(
    model: Any, name: str, options: Mapping[str, Any], described: Callable[[str, str, str], Any]
) -> Any:
    """Return the model with its challengers, if there are any. Raises `UsageError`.

    `name` is its own among them, and `described` makes the challenger of a name out of a text and
    the option that it was given by, for messages.
    """
    from streamk.learners import Contest
    from streamk.learners.contest.contest import WINDOW

    given: Sequence[tuple[str, str]] = options.get("challenger", ())
    if not given:
        if "promote_after" in options:
            raise UsageError("--promote-after is for a job with --challenger")
        return model
    if "labels" in options:
        raise UsageError("--labels and --challenger exclude each other; leave one")
    if type(model).TYPE not in Contest.INNER:
        raise UsageError(
            "--challenger excludes --workers and --shards, and a job that began"
            " with one of them; leave one, or begin in another directory"
        )
    models = {name: model}
    for challenger, text in given:
        if challenger in models:
            what = "this job's own model" if challenger == name else "another challenger"
            raise UsageError(
                f"--challenger {challenger}={text}: {what} is called {challenger}; choose another"
                " name"
            )
        models[challenger] = described(challenger, text, f"--challenger {challenger}={text}")
    return Contest(
        models,
        promote_after=options.get("promote_after", 0),
        window=options.get("window", WINDOW),
    )
