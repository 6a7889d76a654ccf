"""`streamk run`: attach a model to a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from connectors.base import Source
from connectors.registry import open_source, schemes
from streamk.cli.job.challengers import add_challengers, contested
from streamk.cli.job.late import add_late, check_late, late_labels
from streamk.cli.job.running import add_running, check, connected, display, opened
from streamk.cli.job.shards import add_sharding, sharded
from streamk.cli.job.signals import add_details
from streamk.cli.model_options import (
    build,
    challenger_header,
    described,
    experts_of,
    options_of,
    own_header,
    task_of,
)
from streamk.cli.output.report import show
from streamk.cli.parsing.arguments import (
    Parser,
    UsageError,
    named_value,
    nearest,
    one_of,
    whole,
)
from streamk.cli.serve import add_address
from streamk.encoding import Schema

__all__ = ["main"]

DESCRIPTION = """\
Learn and predict on a stream. Every event is predicted by the model that has
not seen it yet, the prediction is written out, then the event is learned.

Sources and sinks are addresses; options of one follow a question mark:
  file:PATH  csv:PATH  parquet:PATH     ?follow=true waits for more (file, csv)
  kafka://HOST:PORT/TOPIC               ?group=NAME shares the partitions
                                        ?encoding=avro&schemas=URL, or protobuf
                                        (to be read and to be written)
  stdin:  stdout:  river:NAME
"""

EPILOG = """\
examples:
  streamk run file:events.ndjson --label clicked --to file:predictions.ndjson
  streamk run csv:prices.csv --label price --task regression --to csv:out.csv
  streamk run river:Phishing --label label --model doubly-stochastic \\
      --set kernel=laplacian
  producer | streamk run stdin: --label y --to stdout: | consumer
  streamk run kafka://localhost:9092/events --label clicked \\
      --to kafka://localhost:9092/predictions --checkpoint state
  streamk run csv:prices.csv --label price --task regression --expert eigenpro
  streamk run csv:history.csv --label clicked --checkpoint history
  streamk run kafka://localhost:9092/events --label clicked \\
      --start-from history --checkpoint state
  streamk run kafka://localhost:9092/ads --label clicked --key ad \\
      --labels kafka://localhost:9092/clicks \\
      --label-timeout 7d --label-default false
  streamk run --config job.toml --max-events 100000

job.toml holds the same names; what is given here goes before it:
  source = "kafka://localhost:9092/events?group=clicks"
  label = "clicked"
  checkpoint = "state"
  model = "doubly-stochastic"
  [set]
  kernel = "laplacian"

Credentials for Kafka come from the environment (STREAMK_KAFKA_SASL_MECHANISM
and so on) or a file (?security_file=PATH), never from the command line.

On Ctrl-C or SIGTERM the events at work are finished, a checkpoint written and
everything closed; a second one ends it at once.
"""

MODEL = "multi-kernel"
"""The model where none is named and no checkpoint has one."""


def main(arguments: Sequence[str]) -> int:
    """Run a stream, and report how it went."""
    from streamk.cli.job.mismatch import told_by_options

    options = _options(arguments)
    with ExitStack() as stack:
        job = _engine(options, stack)
        with told_by_options(options_of):
            report = job.run()
    show(report, options)
    return 0


def _options(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options of the configuration file and the flags. Raises `UsageError`."""
    parser = _parser()
    given = parser.parse(arguments)
    options = given
    if "config" in given:
        options = {**parser.read_config(given["config"]), **given}
        if "set" in given:
            # Single options of the model may be overridden too.
            options["set"] = [*parser.read_config(given["config"]).get("set", []), *given["set"]]
    options.pop("config", None)
    options.pop("debug", None)
    _check(options)
    return options


def _parser() -> Parser:
    parser = Parser("streamk run", DESCRIPTION, EPILOG)
    parser.usage = "streamk run SOURCE --label NAME [--to SINK] [--checkpoint DIR] ..."
    add = parser.add_argument_group("what is read and written").add_argument
    add("source", metavar="SOURCE", nargs="?", help="address of the events")
    add("--label", metavar="NAME", help="the field to be predicted (river: it is called label)")
    add("--to", metavar="SINK", help="address that the predictions go to")
    add_details(add)
    add("--ignore", metavar="NAME", action="append", help="a field to leave out; may be repeated")
    add(
        "--schema",
        metavar="WHICH",
        help="open (fields that come later become columns, the default), strict (an event with"
        " others than the first is a bad one), or a JSON file with the columns",
    )
    add(
        "--absent",
        metavar="WHICH",
        type=one_of("zero", "missing"),
        help="what a field that an event lacks counts as: zero (default) or missing, as a null"
        " always does",
    )
    add("--config", metavar="FILE", help="TOML file with any of these options")
    _add_model(parser)
    add_challengers(parser)
    add_late(parser)
    add_sharding(parser)
    _add_running(parser)
    parser.add_common()
    return parser


def _add_model(parser: Parser) -> None:
    add = parser.add_argument_group("the model (see: streamk models)").add_argument
    add("--model", metavar="NAME", help=f"default: {MODEL}, or the checkpoint's")
    add(
        "--task",
        metavar="TASK",
        type=one_of("classification", "regression"),
        help="classification (default, unless the loss is for numbers) or regression",
    )
    add("--seed", metavar="N", type=whole(0), help="of all random numbers (default 0)")
    add(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        type=named_value,
        help="an option of the model; may be repeated",
    )
    add(
        "--expert",
        metavar="MODEL",
        action="append",
        help="a model of one kernel among the experts of multi-kernel, with options after a colon"
        " (eigenpro:kernel=matern,nu=0.5), in the place of the feature-machine that is there by"
        " default but with --workers or --shards; may be repeated; none for none",
    )


def _add_running(parser: Parser) -> None:
    add = parser.add_argument_group("running").add_argument
    add(
        "--checkpoint",
        metavar="DIR",
        help="save model and position there, a directory or an address as s3://BUCKET/NAME, and go"
        " on from there if there is one",
    )
    add(
        "--start-from",
        metavar="DIR",
        help="begin with the model of another job's checkpoint, where there is none of this job",
    )
    parser.add_key(add)
    add(
        "--window",
        metavar="N",
        type=whole(1),
        help="events that the windowed figures are about (default 1000)",
    )
    add_running(parser, add)
    add_address(
        parser.add_argument_group("watching").add_argument,
        "show the job on a live page there, with figures for Prometheus",
    )


def _check(options: dict[str, Any]) -> None:
    """Raise `UsageError` for options that make no sense together."""
    if "source" not in options:
        raise UsageError(
            "no SOURCE is given, for example file:events.ndjson"
            f" (there are {', '.join(f'{name}:' for name in schemes() if name != 'stdout')})"
        )
    if "state_key" in options and not {"checkpoint", "start_from"} & options.keys():
        raise UsageError("--state-key signs checkpoints; it needs --checkpoint or --start-from")
    if "label" not in options and options.get("schema") in (None, "open", "strict"):
        raise UsageError("--label NAME is needed: the field that is to be learned and predicted")
    check_late(options)
    check(options)


def _engine(options: dict[str, Any], stack: ExitStack) -> Any:
    """Everything put together, cheapest mistakes first."""
    from streamk.engine import Engine
    from streamk.engine.options import grouped
    from streamk.learners.warming import preparing

    schema = _schema(options.get("schema", "open"))
    settings = options.get("set", [])
    task = options.get("task") or _task(schema) or task_of(settings)
    own = _kept("checkpoint", options)
    first = _kept("start_from", options) if own is None else None
    kept = own or first
    name, seed = _model(options, kept), options.get("seed", 0)
    experts = _experts(options, kept, name)
    made = partial(build, task=task, seed=seed)
    model = made(name, settings=settings, experts=experts)
    model = sharded(model, options, own, first, stack)
    model = contested(model, name, options, partial(_challenger, made=made, kept=kept))
    engine_options = {**options, "schema": schema, "ignore": tuple(options.get("ignore", ()))}
    display(options, engine_options, stack)
    if "http" in options:
        from streamk.cli.live import watched
        from streamk.engine.observing import Observer

        show, observer = engine_options.get("on_progress"), Observer()
        engine_options["on_progress"] = watched(options, name, show, observer, stack)
        engine_options["observer"] = observer
    elif "token_file" in options:
        raise UsageError("--token-file is for a job with --http")
    source, sink = connected(options, engine_options, stack)
    labels = None
    if "labels" in options:
        of_labels: Source = opened(open_source, options["labels"])
        stack.callback(of_labels.close)
        labels = late_labels(options, of_labels)
    with preparing(model):
        return Engine(source, model, sink=sink, labels=labels, **grouped(engine_options))


def _kept(place: str, options: dict[str, Any]) -> Mapping[str, Any] | None:
    """The header of the model in the place that an option names; None if there is none."""
    from streamk.engine import Key, kept_model

    if place not in options:
        return None
    key = Key.read(options["state_key"]) if "state_key" in options else None
    return kept_model(options[place], key)


def _model(options: dict[str, Any], kept: Mapping[str, Any] | None) -> str:
    """The model's name: a job whose checkpoint has one goes on with it, or starts from one."""
    if "model" in options:
        return str(options["model"])
    named = {name for name, _ in options.get("challenger", ())}
    return MODEL if kept is None else str(own_header(kept, named)["type"])


def _experts(
    options: dict[str, Any], kept: Mapping[str, Any] | None, name: str
) -> Sequence[str] | None:
    """External experts as they are named, or as the model has them that the job goes on with."""
    experts: Sequence[str] | None = options.get("expert")
    if kept is None or name != MODEL:
        return experts
    named = {name for name, _ in options.get("challenger", ())}
    return experts_of(own_header(kept, named), experts)


def _challenger(
    name: str, text: str, option: str, *, made: Callable[..., Any], kept: Mapping[str, Any] | None
) -> Any:
    """A challenger that is described; external experts are as the checkpoint has them."""
    before = None if kept is None else challenger_header(kept, name)
    if before is not None and text.partition(":")[0] == MODEL:
        made = partial(made, experts=experts_of(before))
    return described(text, option, made)


def _schema(which: str) -> Any:
    """Open, strict, or the schema in a file."""
    if which in ("open", "strict"):
        return which
    path = Path(which).expanduser()
    if not path.is_file():
        hint = nearest(which, ("open", "strict"))
        raise UsageError(f"--schema {which} is neither open nor strict nor a file{hint}")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    return Schema.from_json(data)


def _task(schema: Any) -> str | None:
    if not isinstance(schema, Schema) or schema.label is None:
        return None
    return "classification" if schema.is_classification else "regression"
