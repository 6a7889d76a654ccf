"""`streamk rollback`: undo the last promotion of a job."""

from __future__ import annotations

from collections.abc import Sequence

from streamk.cli.promote import changed, checkpoint_parser

__all__ = ["main"]

DESCRIPTION = """\
Undo the last promotion of a job that is stopped, by command or by rule: the
champion before it predicts from the next event on. Each further call goes
back one promotion more.
"""
EPILOG = """\
examples:
  streamk rollback state
"""


def main(arguments: Sequence[str]) -> int:
    """Undo a promotion."""
    parser = checkpoint_parser("streamk rollback", DESCRIPTION, EPILOG)
    parser.add_common()
    return changed(parser.parse(arguments), lambda contest: contest.roll_back())
