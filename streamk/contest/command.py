"""Challengers: their options of `streamk run`, `streamk promote` and `streamk rollback`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamk.cli.arguments import Parser, UsageError, checkpoint_place, whole
from streamk.cli.model_options import learner_header
from streamk.cli.parts import Header, Making, Part
from streamk.contest.contest import WINDOW, Contest, part_of
from streamk.engine.checkpoints.changing import change_models
from streamk.engine.checkpoints.files import Key, key_of
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import Checkpoint
from streamk.errors import InvalidInput
from streamk.learners.registry import in_shards
from streamk.state import State


def change_champion(
    directory: Location, change: Callable[[Contest], None], key: Key | None = None
) -> list[tuple[Location, Contest]]:
    """Change the champion of a job; the next start goes on with it at the same event.

    As `change_models`, which see; raises `InvalidInput` also if a checkpoint has no challengers, or
    `change` raises it. Returns where the checkpoints lie, and what they hold.
    """
    contests: list[Contest] = []

    def changed(found: Sequence[Checkpoint]) -> list[State]:
        for one in found:
            if one.model.type != Contest.TYPE:
                raise InvalidInput(
                    f"{one.path} has no challengers; add them with `streamk run --challenger`"
                )
            contests.append(Contest.from_state(one.model))
        for contest in contests:
            change(contest)
        return [contest.state() for contest in contests]

    return list(zip(change_models(directory, changed, key), contests, strict=True))


PROMOTE = """\
Make a challenger the champion of a job that is stopped: it predicts from the
next event on. The champion until then becomes a challenger of the same name.
"""
AFTER_PROMOTE = """\
Start the job again with the command that it had. streamk rollback CHECKPOINT
undoes the promotion, and streamk inspect CHECKPOINT shows all of them.

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


class ContestPart(Part):
    """Challengers that learn beside the champion."""

    def add(self, parser: Parser) -> None:
        """Add the options of challengers."""
        add = parser.group("challengers")
        add(
            "--challenger NAME=MODEL...",
            "a model that learns beside the champion; only the champion predicts. Options follow a "
            "colon (lean=doubly-stochastic:kernel=laplacian,step=0.5); may be repeated",
            _named_model,
        )
        add(
            "--promote-after N",
            "test each challenger every N labelled events, and promote it if it is better (default:"
            " only streamk promote does); give it at each start",
            whole(1),
        )

    def own_header(self, kept: Header, options: Mapping[str, Any]) -> Header | None:
        """Return the header of the job's own model in a saved contest.

        That is the champion's or else the first one's, of those that no ``--challenger`` has named.
        """
        if kept["type"] != Contest.TYPE:
            return None
        named = {name for name, _ in options.get("challenger", ())}
        names = [each["name"] for each in kept["models"] if each["name"] not in named]
        is_champion = not names or kept["champion"] in names
        return header_of(kept, kept["champion"] if is_champion else names[0])

    def model(self, model: Any, job: Making) -> Any:
        """Return the model, with its challengers if it has some. Raises `UsageError`."""
        options = job.options
        given: Sequence[tuple[str, str]] = options.get("challenger", ())
        if not given:
            if "promote_after" in options:
                raise UsageError("--promote-after is for a job with --challenger")
            return model
        if "labels" in options:
            raise UsageError("--labels and --challenger cannot be combined; leave one out")
        if {"workers", "shards"} & options.keys() or in_shards(job.own):
            raise UsageError(
                "--challenger cannot be combined with --workers or --shards, nor with a job that "
                "began with them; leave it out, or begin in another directory"
            )
        models = {job.name: model}
        for name, text in given:
            option = f"--challenger {name}={text}"
            if name in models:
                what = "this job's own model" if name == job.name else "another challenger"
                raise UsageError(f"{option}: {what} is already called {name}; choose another name")
            models[name] = job.described(text, option, header_of(job.kept, name))
        return Contest(
            models,
            promote_after=options.get("promote_after", 0),
            window=options.get("window", WINDOW),
        )


def header_of(kept: Header | None, name: str) -> Header | None:
    """Return the header of a named model in a saved contest; None if it is missing."""
    if kept is None or kept["type"] != Contest.TYPE:
        return None
    if name not in [each["name"] for each in kept["models"]]:
        return None
    return learner_header(kept["parts"][part_of(name, kept["champion"])])


def _named_model(text: str) -> tuple[str, str]:
    """Read NAME=MODEL, or NAME=MODEL:option=value,..."""
    name, equals, model = text.partition("=")
    if not (equals and name.strip() and model.strip()) or ":" in name:
        raise argparse.ArgumentTypeError(
            "write NAME=MODEL, for example lean=doubly-stochastic:kernel=laplacian"
        )
    return name.strip(), model.strip()


def promote(arguments: Sequence[str]) -> int:
    """Promote a challenger."""
    parser = Parser("streamk promote", PROMOTE, AFTER_PROMOTE)
    parser.add_checkpoint()
    parser.add_argument("name", metavar="NAME", help="name of the challenger")
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
    place, key = checkpoint_place(options["model"]), key_of(options.get("state_key"))
    changed = change_champion(place, lambda contest: change(contest, options.get("name")), key)
    for path, contest in changed:
        former = contest.promotions[-1].former
        print(f"{path}: {contest.champion} is the champion, {former} a challenger")
    return 0
