"""Late labels and horizons on the command line: their options of `streamk run`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from connectors.base import Source
from connectors.registry import open_source
from streamk.cli.arguments import Parser, UsageError, duration, flag_of, one_of, whole, with_commas
from streamk.cli.job import opened
from streamk.cli.parts import Making, Part
from streamk.late import Horizon, LateLabels

_OF_LABELS = {
    "key": "key",
    "time": "time",
    "label_timeout": "timeout",
    "label_default": "default",
    "held_events": "held_events",
    "label_revisions": "revisions",
}
"""Options of late labels, and the names that the engine has for them."""
_OF_HORIZON = {"key": "series", "time": "time", "held_events": "held_events"}
"""The same of a horizon."""


@with_commas
def ahead(text: str) -> tuple[int | timedelta, ...]:
    """Read horizons, with commas between: numbers of events, or spans of time with a unit.

    >>> ahead("24"), ahead("6h,24h")
    ((24,), (datetime.timedelta(seconds=21600), datetime.timedelta(days=1)))
    """
    try:
        found = tuple(map(_one, text.split(",")))
    except (argparse.ArgumentTypeError, OverflowError):
        found = ()
    if not all(found) or not found:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a horizon; write a number of events, such as 24, or a time "
            "span, such as 24h"
        )
    return found


def _one(text: str) -> int | timedelta:
    if text.strip().isdecimal():
        return int(text)
    return timedelta(seconds=duration(text)) if text.strip()[-1:].isalpha() else 0


def _is_timed(options: Mapping[str, Any]) -> bool:
    return any(isinstance(one, timedelta) for one in options["horizon"])


class LatePart(Part):
    """Labels that come later: from a source of their own, or with later events."""

    FIRST = "labels", "key"
    SOURCES = ("labels",)
    EXAMPLE = """\
  streamk run kafka://localhost:9092/ads --label clicked --key ad \\
      --labels kafka://localhost:9092/clicks \\
      --label-timeout 7d --label-default false
"""

    def add(self, parser: Parser) -> None:
        """Add the options of late labels."""
        add = parser.group("labels that come later than their events")
        add(
            "--labels SOURCE",
            "address of the labels: records with a key and the field that --label names; an event"
            " is predicted at once and learned when its label comes",
        )
        add(
            "--key NAME",
            "the field with the same value in an event and its label; with --horizon, in the "
            "events of one series (default: all are one)",
        )
        add(
            "--horizon SPAN",
            "predict the label of a later event: so many events later, as 24, or so much time, as"
            " 24h (by --time NAME, or the topic's timestamps); several as 1h,6h,24h",
            ahead,
        )
        add(
            "--label-timeout SPAN",
            "how long an event waits for its label, as 7d or 30m, in the time of the stream"
            " (default: as long as there is room)",
            duration,
        )
        add(
            "--label-default VALUE",
            "the label of events whose own has not come in time (default: they are not learned)",
        )
        add(
            "--held-events N",
            "events that wait at once, the oldest go first (default 1000000)",
            whole(1),
        )
        add(
            "--label-revisions POLICY",
            "of a label that contradicts the one before: ignore (default), or learn: the"
            " event is learned again with it, as long as its key is remembered",
            one_of("ignore", "learn"),
        )

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise `UsageError` for options of late labels that make no sense together."""
        if "horizon" in options:
            if "labels" in options:
                raise UsageError(
                    "--horizon is for labels in the events themselves; leave out --horizon or "
                    "--labels"
                )
            if "time" in options and not (_is_timed(options) or "entity" in options):
                raise UsageError("--time is for a --horizon of time, such as 24h; leave it out")
        if "labels" not in options:
            known = _OF_HORIZON if "horizon" in options else {}
            for name in _OF_LABELS:
                if name in options and name not in known and name != "time":
                    either = " or --horizon SPAN" if name in _OF_HORIZON else ""
                    raise UsageError(
                        f"{flag_of(name)} is for labels that come later; it needs --labels"
                        f" SOURCE{either}"
                    )
            return
        if "key" not in options:
            raise UsageError(
                "--labels needs --key NAME: the field that has the same value in an event and "
                "its label"
            )
        if "label" not in options:
            raise UsageError("--labels needs --label NAME: the field of the label in its records")
        if "label_default" in options and "label_timeout" not in options:
            raise UsageError(
                "--label-default is the label after a time; it needs --label-timeout SPAN"
            )

    def connect(self, job: Making, engine_options: dict[str, Any]) -> None:
        """Open the source of the labels, if there is one, after that of the events."""
        if "labels" in job.options:
            engine_options["labels"] = partial(_opened_labels, job)
        if "horizon" in job.options:
            given = _given(_OF_HORIZON, job.options)
            if not _is_timed(job.options):
                given.pop("time", None)  # it is of the entities
            engine_options["labels"] = partial(Horizon, job.options["horizon"], **given)


def _opened_labels(job: Making) -> LateLabels:
    source: Source = opened(open_source, job.options["labels"])
    job.stack.callback(source.close)
    return LateLabels(source, **_given(_OF_LABELS, job.options))


def _given(names: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the options that were given, by the names that the engine has for them."""
    return {to: options[name] for name, to in names.items() if name in options}
