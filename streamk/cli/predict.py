"""`streamk predict`: predict a stream with a model that has been learned."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from connectors.registry import schemes
from streamk.cli.arguments import Parser, UsageError, checkpoint_place, resolved
from streamk.cli.job import add_details, add_running, check, connected, display
from streamk.cli.report import show
from streamk.engine import Engine, Fixed
from streamk.engine.options import grouped
from streamk.learners.warming import preparing
from streamk.trained import Following, load

DESCRIPTION = """\
Predict every event of a stream with the newest model of a checkpoint, which
`streamk run` has learned or is still learning. Nothing is learned. Events that
have the label are scored, too.
"""

EPILOG = """\
examples:
  streamk predict state csv:new.csv
  streamk predict state file:requests.ndjson --to file:answers.ndjson
  streamk predict state csv:new.csv --to csv:answers.csv --explain
  streamk predict state kafka://localhost:9092/requests --follow \\
      --to kafka://localhost:9092/answers --checkpoint answering

Sources, sinks and what becomes of events that cannot be used are those of
`streamk run`, see its help.
"""


def main(arguments: Sequence[str]) -> int:
    """Predict a stream, and report how it went."""
    options = _parser().parse(arguments)
    if "source" not in options:
        raise UsageError("CHECKPOINT and SOURCE are needed: streamk predict state file:new.ndjson")
    model, source = options["model"], options["source"]
    if model.partition(":")[0] in schemes() and ":" not in source:
        raise UsageError(f"CHECKPOINT comes first: streamk predict {source} {model}")
    named = "to" in options
    options.setdefault("to", "stdout:")
    check(options)
    with ExitStack() as stack:
        report = _engine(options, stack).run()
    if not named and options.get("json"):
        del options["to"]  # both are asked for: the report is the last line behind the answers
    show(report, options)
    return 0


def _parser() -> Parser:
    parser = Parser("streamk predict", DESCRIPTION, EPILOG)
    parser.usage = "streamk predict CHECKPOINT SOURCE [--to SINK] ..."
    add = parser.group("what is read and written")
    parser.add_checkpoint(add)
    add("SOURCE", "address of the events")
    add("--to SINK", "address that the predictions go to (default stdout:)")
    add_details(add)
    add("--follow", "switch to each newer model that the job saves, checked every second")
    add = parser.group("running")
    add(
        "--checkpoint DIR",
        "save the position there, a directory or an address as s3://BUCKET/NAME, and go on"
        " from there if there is one",
    )
    parser.add_key(add)
    add_running(parser, add)
    parser.add_common()
    return parser


def _engine(options: dict[str, Any], stack: ExitStack) -> Any:
    """Everything put together, cheapest mistakes first."""
    directory = checkpoint_place(options["model"])
    if "checkpoint" in options and resolved(options["checkpoint"]) == resolved(directory):
        raise UsageError(
            f"--checkpoint {directory} is where the model comes from; the position needs another"
        )
    model = load(directory, key=options.get("state_key"))
    schema = model.schema
    engine_options = {
        **options,
        "schema": schema,
        "absent": schema.absent,
        "ignore": schema.ignore,
    }
    if "checkpoint" not in options:
        engine_options.pop("state_key", None)  # it was for the model
    following = Following(model.refresh)

    def newer() -> Any:
        """Return what to go on with where the job has saved a newer model, else None."""
        return model.current if following.look() else None

    fixed = Fixed(kept=model.kept, newer=newer if options.get("follow") else None)
    display(options, engine_options, stack)
    source, sink = connected(options, engine_options, stack)
    with preparing(model.learner):
        return Engine(source, model.learner, sink=sink, fixed=fixed, **grouped(engine_options))
