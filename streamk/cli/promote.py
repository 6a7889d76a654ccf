"""`streamk promote` and `streamk rollback`: another champion of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamk.cli.arguments import Parser, checkpoint_place, state_key
from streamk.engine.checkpoints.keys import key_of
from streamk.engine.recovery.promotion import change_champion

PROMOTE = """\
Make a challenger the champion of a job that is stopped: it predicts from the
next event on. The champion until then becomes a challenger of the same name.
"""
AFTER_PROMOTE = """\
Start the job again with the command that it had. streamk rollback CHECKPOINT
undoes the promotion, streamk inspect CHECKPOINT shows all of them.

examples:
  streamk promote state lean
"""
ROLL_BACK = """\
Undo the last promotion of a job that is stopped, by command or by rule: the
champion before it predicts from the next event on. Each further call goes
back one promotion more.
"""
AFTER_ROLL_BACK = """\
examples:
  streamk rollback state
"""


def main(arguments: Sequence[str]) -> int:
    """Promote a challenger."""
    parser = Parser("streamk promote", PROMOTE, AFTER_PROMOTE)
    parser.add_checkpoint()
    parser.add_argument("name", metavar="NAME", help="that of the challenger")
    return _changed(parser, arguments, lambda contest, name: contest.promote(name))


def roll_back(arguments: Sequence[str]) -> int:
    """Undo a promotion."""
    parser = Parser("streamk rollback", ROLL_BACK, AFTER_ROLL_BACK)
    parser.add_checkpoint()
    return _changed(parser, arguments, lambda contest, _: contest.roll_back())


def _changed(parser: Parser, arguments: Sequence[str], change: Callable[[Any, Any], None]) -> int:
    """Change the champion in a checkpoint and say so; return the exit status."""
    parser.add_key()
    parser.add_common()
    options = parser.parse(arguments)
    place, key = checkpoint_place(options["model"]), key_of(state_key(options))
    changed = change_champion(place, lambda contest: change(contest, options.get("name")), key)
    for path, contest in changed:
        former = list(contest.promotions)[-1].former
        print(f"{path}: {contest.champion} is the champion, {former} a challenger")
    return 0
