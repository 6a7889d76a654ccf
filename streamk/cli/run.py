"""`streamk run`: attach a model to a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from connectors.registry import schemes
from streamk.backends.memory import share_free
from streamk.cli import started
from streamk.cli.arguments import (
    Parser,
    UsageError,
    durations,
    flag_of,
    named_value,
    nearest,
    one_of,
    whole,
)
from streamk.cli.job import add_details, add_running, check, connected, display
from streamk.cli.model_options import build, described, experts_of, learner_header, task_of
from streamk.cli.parts import Making, parts
from streamk.cli.report import show
from streamk.encoding import Schema
from streamk.engine import Engine, kept_model
from streamk.engine.checkpoints.files import key_of
from streamk.engine.options import FLAGS, grouped
from streamk.engine.recovery.job import AnotherJob
from streamk.errors import StateError
from streamk.learners.remembering import remembering
from streamk.learners.warming import preparing

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
{examples}  streamk run --config job.toml --max-events 100000

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

FIRST = (
    *("source", "label", "to", "interval", "explain", "ignore", "config"),
    *("model", "task", "set", "expert", "checkpoint", "start_from"),
    *("metrics", "max_events", "json", "quiet", "dead_letters"),
)
"""Options that a first user needs, those of ``--help``, beside those of extensions."""


def main(arguments: Sequence[str]) -> int:
    """Run a stream, and report how it went."""
    share_free()
    options = _options(arguments)
    with ExitStack() as stack, told_by_options():
        engine = _engine(options, stack)
        started()
        report = engine.run()
    show(report, options)
    return 0


def _options(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options of the configuration file and the flags. Raises `UsageError`."""
    parser = _parser()
    options = parser.parse(arguments)
    if "config" in options:
        known, given = parser.read_config(options["config"]), options.get("set", [])
        # Single options of the model may be overridden too.
        options = known | options | {"set": [*known.get("set", []), *given]}
    for name in ("config", "debug"):
        options.pop(name, None)
    _check(options)
    return options


def _parser() -> Parser:
    first = [name for part in parts() for name in part.FIRST]
    epilog = EPILOG.format(examples="".join(part.EXAMPLE for part in parts()))
    parser = Parser("streamk run", DESCRIPTION, epilog, (*FIRST, *first))
    parser.usage = "streamk run SOURCE --label NAME [--to SINK] [--checkpoint DIR] ..."
    add = parser.group("what is read and written")
    add("SOURCE", "address of the events")
    add("--label NAME", "the field to be predicted (river: it is called label)")
    add("--to SINK", "address that the predictions go to")
    add_details(add)
    add("--ignore NAME...", "a field to leave out; may be repeated")
    add("--text NAME...", "a field whose texts are bags of words; may be repeated")
    add(
        "--entity NAME...",
        "a field that names a user, a card or the like: the model knows what each did before an"
        " event; may be repeated",
    )
    add(
        "--time NAME",
        "the field that tells when an event was, and a label of --labels, in milliseconds since"
        " 1970 or as text (default: for --labels the sources' timestamps, and lines of files are"
        " numbered; else none); a model of numbers without --entity, --labels and --horizon then"
        " knows the time since the last label, and labels of a day or a week ago",
    )
    add(
        "--spans SPANS",
        "of what is known of an entity beside its whole past (default 1h,1d,30d with --time)",
        durations,
    )
    add(
        "--max-entities N",
        "entities of a field that are remembered; those seen longest ago go first (default"
        " 1000000)",
        whole(1),
    )
    add(
        "--schema WHICH",
        "open (fields that come later become columns, the default), strict (an event with other "
        "fields than the first is a bad one), or a JSON file with the columns",
    )
    add(
        "--absent WHICH",
        "what a field that an event lacks counts as: zero (default) or missing, as a null"
        " always does",
        one_of("zero", "missing"),
    )
    add("--config FILE", "TOML file with any of these options")
    add = parser.group("the model (see: streamk models)")
    add("--model NAME", f"default: {MODEL}, or the checkpoint's")
    add(
        "--task TASK",
        "classification (default, unless the loss is for numbers) or regression",
        one_of("classification", "regression"),
    )
    add("--seed N", "of all random numbers (default 0)", whole(0))
    add("--set NAME=VALUE...", "an option of the model; may be repeated", named_value)
    add(
        "--expert MODEL...",
        "a model of one kernel among the experts of multi-kernel, with options after a colon "
        "(eigenpro:kernel=matern,nu=0.5), instead of the feature-machine, the default without "
        "--workers or --shards; may be repeated; none: no such expert",
    )
    add = parser.group("running")
    add(
        "--checkpoint DIR",
        "save model and position there, a directory or an address as s3://BUCKET/NAME, and go"
        " on from there if there is one",
    )
    add(
        "--start-from DIR",
        "begin with the model of another job's checkpoint, where there is none of this job",
    )
    parser.add_key(add)
    add("--window N", "events that the windowed figures are about (default 1000)", whole(1))
    add_running(parser, add)
    for part in parts():
        part.add(parser)
    parser.add_common()
    return parser


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
        raise UsageError("--label NAME is needed: the field to learn and predict")
    if "entity" not in options:
        for name in ("spans", "max_entities"):
            if name in options:
                raise UsageError(f"{flag_of(name)} is for entities; it needs --entity NAME")
    if "spans" in options and "time" not in options:
        raise UsageError("--spans are measured in the time of events; they need --time NAME")
    for part in parts():
        part.check(options)
    check(options, [name for part in parts() for name in part.SOURCES])


def _engine(options: dict[str, Any], stack: ExitStack) -> Any:
    """Everything put together, cheapest mistakes first."""
    schema = _schema(options.get("schema", "open"))
    settings = options.get("set", [])
    task = options.get("task") or _task(schema) or task_of(settings)
    key = key_of(options.get("state_key"))
    own = kept_model(options["checkpoint"], key) if "checkpoint" in options else None
    first = None
    if own is None and "start_from" in options:
        first = kept_model(options["start_from"], key)
    kept = own or first
    before = None
    if kept is not None:
        own_headers = (part.own_header(kept, options) for part in parts())
        before = next(filter(None, own_headers), None) or learner_header(kept)
    name = options.get("model") or (MODEL if before is None else str(before["type"]))
    experts = options.get("expert")
    if before is not None and name == MODEL:  # as the model has them that the job goes on with
        experts = experts_of(before, experts)
    made = partial(_made, options, task=task, seed=options.get("seed", 0))
    model = made(name, settings=settings, experts=experts)
    job = Making(options, name, own, first, partial(_described, made=made), stack)
    for part in parts():
        model = part.model(model, job)
    names = {name: tuple(options.get(name, ())) for name in ("ignore", "text", "entity")}
    engine_options = {**options, "schema": schema, **names}
    if _time_is_of_labels(options):
        engine_options.pop("time", None)
    display(options, engine_options, stack)
    for part in parts():
        part.connect(job, engine_options)
    source, sink = connected(options, engine_options, stack)
    labels = engine_options.pop("labels", None)
    labels = None if labels is None else labels()
    with preparing(model):
        return Engine(source, model, sink=sink, labels=labels, **grouped(engine_options))


def _time_is_of_labels(options: Mapping[str, Any]) -> bool:
    """Return whether --time is that of late labels or a horizon alone, and none of the model's."""
    return not (options.get("entity") or options.keys().isdisjoint({"labels", "horizon"}))


def _made(options: Mapping[str, Any], name: str, **given: Any) -> Any:
    """Return what `build` does, which knows entities, or labels by their times, if it is to."""
    known = {one: options[one] for one in ("time", "spans", "max_entities") if one in options}
    if _time_is_of_labels(options):
        known.pop("time", None)
    return remembering(build(name, **given), options.get("entity", ()), **known)


def _described(text: str, option: str, before: Any, *, made: Callable[..., Any]) -> Any:
    """Return a model that is described; external experts are as a saved one has them."""
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


_OF_MODEL = {"type": "--model", "task": "--task", "seed": "--seed"}
"""Options of the command that are not settings of a model; external experts are one too."""


@contextmanager
def told_by_options() -> Iterator[None]:
    """Name the option of the command where a checkpoint is found to be of another job.

    Raises `StateError` instead of an `AnotherJob` that is raised inside.
    """
    try:
        yield
    except AnotherJob as error:
        part, _, option = error.name.partition(" ")
        if part == "model":
            is_expert = option.startswith("external_experts")
            flag = _OF_MODEL.get(option, "--expert" if is_expert else "--set")
        elif part in ("encoding", "delimiter"):
            flag = "SOURCE"
        elif part in (*FLAGS, "labels", "horizon"):
            flag = flag_of(part)
        else:
            raise
        raise StateError(f"{flag}: {error}") from error
