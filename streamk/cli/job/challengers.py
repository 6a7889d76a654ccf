"""Options of `streamk run` for challengers that learn beside the model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamk.cli.parsing.arguments import Parser, UsageError, whole

__all__ = ["add_challengers", "contested"]


def add_challengers(parser: Parser) -> None:
    """Add the options of challengers."""
    add = parser.add_argument_group("challengers").add_argument
    add(
        "--challenger",
        metavar="NAME=MODEL",
        action="append",
        type=_named_model,
        help="a model that learns beside the champion, which predicts; options follow a colon"
        " (lean=doubly-stochastic:kernel=laplacian,step=0.5); may be repeated",
    )
    add(
        "--promote-after",
        metavar="N",
        type=whole(1),
        help="test each challenger after every N labelled events, and make it the champion where it"
        " is better (default: streamk promote alone does); give it at each start",
    )


def _named_model(text: str) -> tuple[str, str]:
    """Read NAME=MODEL, or NAME=MODEL:option=value,..."""
    name, equals, model = text.partition("=")
    if not (equals and name.strip() and model.strip()) or ":" in name:
        raise argparse.ArgumentTypeError(
            "it is written NAME=MODEL, for example lean=doubly-stochastic:kernel=laplacian"
        )
    return name.strip(), model.strip()


def contested(
    model: Any, name: str, options: Mapping[str, Any], described: Callable[[str, str, str], Any]
) -> Any:
    """Return the model with its challengers, if there are any.

    Parameters
    ----------
    model : Learner
    name : str
        By which it was chosen; its own name among the challengers.
    options : mapping
    described : callable
        Makes the challenger of a name out of a text and the option that it was given by, for
        messages.

    Raises
    ------
    UsageError
        If a challenger cannot be made, or there is something that excludes challengers.
    """
    from streamk.learners import Contest
    from streamk.learners.contest.contest import WINDOW
    from streamk.learners.kinds import KINDS

    given: Sequence[tuple[str, str]] = options.get("challenger", ())
    if not given:
        if "promote_after" in options:
            raise UsageError("--promote-after is for a job with --challenger")
        return model
    if "labels" in options:
        raise UsageError("--labels and --challenger exclude each other; leave one")
    if model.TYPE not in KINDS:
        raise UsageError(
            "--challenger excludes --workers and --shards, and a job that began"
            " with one of them; leave one, or begin in another directory"
        )
    models = {name: model}
    for challenger, text in given:
        if challenger in models:
            what = "this job's own model" if challenger == name else "another challenger"
            raise UsageError(
                f"--challenger {challenger}={text}: {what} is called {challenger}; choose another"
                " name"
            )
        models[challenger] = described(challenger, text, f"--challenger {challenger}={text}")
    return Contest(
        models,
        promote_after=options.get("promote_after", 0),
        window=options.get("window", WINDOW),
    )
