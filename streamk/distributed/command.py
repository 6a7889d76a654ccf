"""Shards and workers on the command line: their options of `streamk run`."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from streamk.cli.arguments import Parser, UsageError, flag_of, whole
from streamk.cli.parts import Making, Part
from streamk.distributed import Processes, RayWorkers, Sharded, TaskDivision
from streamk.distributed.actors import import_ray
from streamk.distributed.sharded import ROUND_EVENTS, SHARDS
from streamk.learners.registry import in_shards

_REACH_SECONDS = 10.0
"""Time that a cluster may take to accept a connection."""


class ShardsPart(Part):
    """Shards of the stream, which workers learn at once."""

    def add(self, parser: Parser) -> None:
        """Add the options of shards and workers."""
        add = parser.group("many workers")
        add(
            "--workers N",
            "processes that learn shards of the stream in parallel; the number does not change the "
            "result, and may differ at each start",
            whole(1),
        )
        add(
            "--shards N",
            "shards in a round; they are merged at its end (default 4, or the first number of "
            "workers); fixed at the first start",
            whole(1),
        )
        add(
            "--round-events N",
            "most events of a shard in a round (default 4096); fixed at the first start",
            whole(1),
        )
        add(
            "--staleness N",
            "rounds that a replica may lag behind, so that no worker waits for a merge or a slower "
            "worker (default 0); fixed at the first start",
            whole(0),
        )
        add(
            "--ray ADDRESS",
            "run the workers on a Ray cluster: auto for the one on this machine, local to start one"
            " here, HOST:PORT, or ray://HOST:PORT",
        )

    def model(self, model: Any, job: Making) -> Any:
        """Return the model, in shards where workers or shards are asked for, or were before."""
        options, own, first = job.options, job.own, job.first
        another = (
            "begin another job with that model: --start-from"
            f" {options.get('checkpoint')} --checkpoint ANOTHER"
        )
        workers, was = options.get("workers", 1), in_shards(own)
        if not (was or "shards" in options or "workers" in options):
            for name in ("round_events", "staleness", "ray"):
                if name in options:
                    raise UsageError(f"{flag_of(name)} needs --workers or --shards")
            return model
        if own is not None and not was:
            raise UsageError(
                "this job has a model that was learned without shards; leave --workers and --shards"
                f" out, or {another}"
            )
        before: Any = first if first is not None and in_shards(first) else {}
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
                    f"{flag_of(name)} {options[name]}: this job's model has {chosen[name]}; leave"
                    f" the option out, or {another}"
                )
        if "effort" in dict(options.get("set", ())) and model.mixes_experts:
            raise UsageError(
                "--set effort is for a feature machine, and a model in shards has none"
            )
        if workers > chosen["shards"]:
            raise UsageError(
                f"{workers} workers are more than the {chosen['shards']} shards of a round; use "
                "fewer workers, or begin with more --shards in another directory"
            )
        return Sharded(
            model, **chosen, workers=_workers(workers, options.get("ray"), model, job.stack)
        )


def _workers(count: int, address: str | None, model: Any, stack: ExitStack) -> Any:
    """Return workers, None where this process does it alone."""
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
    try:
        host, _, port = address.rpartition(":")
        if port.isdecimal() and "/" not in host:  # where nothing listens Ray waits for minutes
            place = host.strip("[]"), int(port)
            socket.create_connection(place, _REACH_SECONDS).close()
        ray = import_ray()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, OSError) as error:
        raise UsageError(
            f"--ray {address}: no Ray cluster answers there ({str(error).splitlines()[0]}); start "
            "one with `ray start --head`, set RAY_AUTH_MODE and RAY_AUTH_TOKEN to its values, or "
            "give --ray local"
        ) from None
    stack.callback(ray.shutdown)
