"""`streamk forget`: remove the data of one entity from a job."""

from __future__ import annotations

from collections.abc import Sequence

from streamk.cli.arguments import Parser, UsageError, checkpoint_place
from streamk.cli.inspect import field_entity, number_of, tables_of
from streamk.engine import Checkpoint
from streamk.engine.checkpoints.changing import change_models
from streamk.engine.checkpoints.files import key_of
from streamk.learners import from_state
from streamk.state import State

DESCRIPTION = """\
Remove what the model of a job that is stopped knows of one entity: a user, a
card. The job goes on from there, and the entity is a new one if it comes
again. Older checkpoints of the job are removed.
"""
EPILOG = """\
What was learned from all events together stays, and so do the events where
they came from and the predictions where they went.

examples:
  streamk forget state user=42
"""


def main(arguments: Sequence[str]) -> int:
    """Forget an entity."""
    parser = Parser("streamk forget", DESCRIPTION, EPILOG)
    parser.add_checkpoint()
    parser.add_argument("entity", metavar="FIELD=ENTITY", type=field_entity, help="as user=42")
    parser.add_key()
    parser.add_common()
    options = parser.parse(arguments)
    field, text = options["entity"]
    held = False

    def changed(found: Sequence[Checkpoint]) -> list[State]:
        nonlocal held
        models = [from_state(one.model) for one in found]
        known = [table.forget(number_of(text)) for one in models for table in tables_of(one, field)]
        if not any(known):
            raise UsageError(f"no {field} {text!r} is known in {options['model']}")
        held = any(one.held is not None for one in found)
        return [one.state() for one in models]

    place, key = checkpoint_place(options["model"]), key_of(options.get("state_key"))
    for path in change_models(place, changed, key, keep=1):
        print(f"{path}: {field} {text!r} is forgotten")
    if held:
        print("its events that wait for their labels are held until these come")
    return 0
