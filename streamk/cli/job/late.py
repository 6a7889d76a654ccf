"""Options of `streamk run` for labels that come later than their events."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from connectors.base import Source
from streamk.cli.parsing.arguments import Parser, UsageError, number, one_of, whole

__all__ = ["add_late", "check_late", "duration", "late_labels"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_FLAGS = {
    "key": "--key",
    "time": "--time",
    "label_timeout": "--label-timeout",
    "label_default": "--label-default",
    "held_events": "--held-events",
    "label_revisions": "--label-revisions",
}


def duration(text: str) -> float:
    """Read a time span in seconds: a number, or one with a unit.

    >>> duration("7d"), duration("90"), duration("250ms")
    (604800.0, 90.0, 0.25)
    """
    plain = text.strip().lower()
    unit = plain.lstrip("0123456789.")
    if unit and unit not in _UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time span; write seconds or a number with ms, s, m, h or d, as 7d"
        )
    return number(plain.removesuffix(unit)) * _UNITS[unit or "s"]


def add_late(parser: Parser) -> None:
    """Add the options of late labels."""
    add = parser.add_argument_group("labels that come later than their events").add_argument
    add(
        "--labels",
        metavar="SOURCE",
        help="address of the labels: records with a key and the field that --label names; an event"
        " is predicted at once and learned when its label comes",
    )
    add("--key", metavar="NAME", help="the field that is equal in an event and its label")
    add(
        "--time",
        metavar="NAME",
        help="the field of both that tells when they were, in milliseconds since 1970 or as text"
        " (default: the sources' timestamps; lines of files are numbered)",
    )
    add(
        "--label-timeout",
        metavar="SPAN",
        type=duration,
        help="how long an event waits for its label, as 7d or 30m, in the time of the stream"
        " (default: as long as there is room)",
    )
    add(
        "--label-default",
        metavar="VALUE",
        help="the label of events whose own has not come in time (default: they are not learned)",
    )
    add(
        "--held-events",
        metavar="N",
        type=whole(1),
        help="events that wait at once, the oldest go first (default 1000000)",
    )
    add(
        "--label-revisions",
        metavar="POLICY",
        type=one_of("ignore", "learn"),
        help="of a label that says otherwise than the one before: ignore (default), or learn: the"
        " event is learned again with it, as long as its key is remembered",
    )


def check_late(options: Mapping[str, Any]) -> None:
    """Raise `UsageError` for options of late labels that make no sense together."""
    if "labels" not in options:
        for name, flag in _FLAGS.items():
            if name in options:
                raise UsageError(f"{flag} is for labels of their own; it needs --labels SOURCE")
        return
    if "key" not in options:
        raise UsageError(
            "--labels needs --key NAME: the field that is equal in an event and its label"
        )
    if "label" not in options:
        raise UsageError("--labels needs --label NAME: the field of the label in its records")
    if options["key"] == options["label"]:
        raise UsageError(f"--key and --label are both {options['key']!r}")
    if "label_default" in options and "label_timeout" not in options:
        raise UsageError("--label-default is the label after a time; it needs --label-timeout SPAN")


def late_labels(options: Mapping[str, Any], source: Source) -> Any:
    """Return the options of the engine for late labels."""
    from streamk.engine.late import LateLabels

    names = {
        "key": "key",
        "time": "time",
        "label_timeout": "timeout",
        "label_default": "default",
        "held_events": "held_events",
        "label_revisions": "revisions",
    }
    given = {to: options[name] for name, to in names.items() if name in options}
    return LateLabels(source, **given)
