"""`streamk promote`: make a challenger the champion of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamk.cli.arguments import Parser, checkpoint_place, state_key

__all__ = ["changed", "checkpoint_parser", "main"]

DESCRIPTION = """\
Make a challenger the champion of a job that is stopped: it predicts from the
next event on. The champion until then becomes a challenger of the same name.
"""
EPILOG = """\
Start the job again with the command that it had. streamk rollback CHECKPOINT
undoes the promotion, streamk inspect CHECKPOINT shows all of them.

examples:
  streamk promote state lean
"""


def main(arguments: Sequence[str]) -> int:
    """Promote a challenger."""
    parser = checkpoint_parser("streamk promote", DESCRIPTION, EPILOG)
    parser.add_argument("name", metavar="NAME", help="that of the challenger")
    parser.add_common()
    options = parser.parse(arguments)
    return changed(options, lambda contest: contest.promote(options["name"]))


def checkpoint_parser(program: str, description: str, epilog: str) -> Parser:
    """Return a parser of the place of checkpoints, and of their key."""
    parser = Parser(program, description, epilog)
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="the directory or address given to streamk run --checkpoint",
    )
    parser.add_key()
    return parser


def changed(options: dict[str, Any], change: Callable[[Any], None]) -> int:
    """Change the champion in a checkpoint and say so; return the exit status."""
    from streamk.engine.checkpoints.keys import key_of
    from streamk.engine.recovery.promotion import change_champion

    place = checkpoint_place(options["checkpoint"])
    for path, contest in change_champion(place, change, key_of(state_key(options))):
        former = list(contest.promotions)[-1].former
        print(f"{path}: {contest.champion} is the champion, {former} a challenger")
    return 0
