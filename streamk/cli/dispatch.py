"""The subcommands of `streamk`: finding the one that is called, and saying what went wrong.

A subcommand's module is imported when it is called, so that ``streamk --help`` is quick.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from textwrap import fill

from connectors.errors import BadRecord, BadURL, ConnectorError
from streamk import __version__
from streamk.cli import ForPeople, started
from streamk.cli.arguments import UsageError, nearest
from streamk.errors import InvalidInput, StreamkError
from streamk.extensions import find, provided

COMMANDS = {
    "run": "predict and learn on a stream until it ends or is stopped",
    "init": "look at a stream and write a job file for it",
    "predict": "predict a stream with a learned model",
    "compile": "turn a learned model into one that predicts in microseconds",
    "demo": "learn a small real data set that is included",
    "inspect": "show what a checkpoint holds, and check it",
    "plot": "draw the figures of a run along its stream",
    "models": "list the models, their options, the kernels and the losses",
    **{name: provided("about").get(name, "") for name in provided("commands")},
}

SHOWING = ("", "demo", "inspect", "models")
"""Those that do nothing but show something; "" is streamk itself. The others have done their work
where what they tell of it is lost."""

HELP = """\
usage: streamk COMMAND ...

streamk predicts each event of a stream with a kernel model, then learns it.
Stopped or killed, a job resumes exactly where it was.

commands:
{commands}

streamk COMMAND --help tells the options of one; streamk --version the version.

examples:
  streamk demo
  streamk run file:events.ndjson --label clicked --to file:predictions.ndjson
  streamk run kafka://localhost:9092/events --label clicked --checkpoint state \\
      --to kafka://localhost:9092/predictions
  streamk inspect state
"""


def dispatch(given: Sequence[str], interrupts: Sequence[int], out: ForPeople) -> int:
    """Run the subcommand that the arguments name, and return the exit status.

    What is for people goes to `out`. An error after one of the interrupts that came is raised.
    """
    name = given[0] if given and given[0] in COMMANDS else ""
    program = f"streamk {name}".rstrip()
    try:
        command = command_of(name) if name else None
        if name != "run":  # which says itself when it has
            started()
        status = _top(given) if command is None else command(given[1:])
    except SystemExit:  # after --help
        status, name = 0, ""
    except Exception as error:
        if interrupts or "--debug" in given:
            raise
        return _failed(program, error)
    out.flush()
    if out.trouble is None:
        return status
    print(f"{program}: {out.trouble}", file=sys.stderr)
    return status or int(name in SHOWING)


def command_of(name: str) -> Callable[[Sequence[str]], int]:
    """Return the function of a subcommand."""
    found: Callable[[Sequence[str]], int] | None = find("commands", name)
    if found is None:
        found = importlib.import_module(f"streamk.cli.{name}").main
    return found


def _top(given: Sequence[str]) -> int:
    listed = "\n".join(f"  {name:<12}{what}" for name, what in COMMANDS.items())
    help_text = HELP.format(commands=listed)
    match given:
        case []:
            print(help_text, end="", file=sys.stderr)
            return 2
        case ["help", name, *_] if name in COMMANDS:
            return command_of(name)(["--help"])
        case ["-h" | "--help" | "help", *_]:
            print(help_text, end="")
        case ["--version", *_]:
            print(f"streamk {__version__}")
        case [word, *_]:
            kind = "option" if word.startswith("-") else "command"
            word = word.partition("=")[0]
            raise UsageError(
                f"no {kind} {word!r}{nearest(word, (*COMMANDS, '--help', '--version'))}"
            )
    return 0


def _failed(program: str, error: Exception) -> int:
    """Say what went wrong in a sentence, and return the exit status for it."""
    known = isinstance(error, StreamkError | ConnectorError | OSError)
    message = str(error) if known else f"unexpected {type(error).__name__}: {error}"
    wrong_input = isinstance(error, UsageError | BadURL | BadRecord | InvalidInput)
    message = f"{program}: {message}"
    if sys.stderr.isatty():
        message = fill(message, 79, break_long_words=False, break_on_hyphens=False)
    print(message, file=sys.stderr)
    if isinstance(error, UsageError):
        print(f"Try '{program} --help'.", file=sys.stderr)
    elif not known:
        print("Run it again with --debug to see where.", file=sys.stderr)
    return 2 if wrong_input else 1
