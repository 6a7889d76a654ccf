"""The options of a topic that is read."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from connectors.errors import BadURL
from connectors.records import FRAMED

_ENCODINGS = ("json", "float32", "csv", *FRAMED)


_SESSION = 45.0
"""Seconds of a session where neither the source nor the broker says."""


def check_options(encoding: str, isolation_level: str) -> None:
    """Raise `BadURL` for options of a source that have no meaning."""
    if encoding not in _ENCODINGS:
        raise BadURL(
            f"kafka: encoding {encoding!r} must be {', '.join(_ENCODINGS[:-1])} or {_ENCODINGS[-1]}"
        )
    if isolation_level not in ("read_committed", "read_uncommitted"):
        raise BadURL(
            f"kafka: isolation_level {isolation_level!r} must be read_committed or read_uncommitted"
        )


def session_of(
    group: str | None,
    group_instance_id: str | None,
    group_protocol: str,
    session_timeout: float | None,
) -> float:
    """Return the seconds of a member's session.

    Raises `BadURL` for options of a group that have no meaning, alone or together.
    """
    if group_protocol not in ("classic", "consumer"):
        raise BadURL(f"kafka: group_protocol {group_protocol!r} must be classic or consumer")
    for name, given in (
        ("group_instance_id", group_instance_id is not None),
        ("group_protocol", group_protocol == "consumer"),
    ):
        if given and group is None:
            raise BadURL(f"kafka: {name} is of a member of a group: give group too")
    if group_protocol == "consumer" and group_instance_id is not None:
        raise BadURL(
            "kafka: group_instance_id does not go with group_protocol=consumer: brokers refuse a"
            " member that was killed under its name until its session is over; leave one of them"
            " out"
        )
    if group_protocol == "consumer" and session_timeout is not None:
        raise BadURL(
            "kafka: session_timeout does not go with group_protocol=consumer, where the broker has"
            " it (group.consumer.session.timeout.ms); leave it out"
        )
    return _SESSION if session_timeout is None else session_timeout


def parse_start(text: str) -> str | int:
    """Return "earliest", "latest", or the milliseconds since 1970 of a time. Raises `BadURL`.

    >>> parse_start("1700000000000"), parse_start("2023-11-14T23:13:20+01:00")
    (1700000000000, 1700000000000)
    """
    if text in ("earliest", "latest"):
        return text
    if text.isdecimal():
        return int(text)
    # In an address a plus stands for a space.
    for written in (text, "+".join(text.rsplit(" ", 1))):
        with contextlib.suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(written)
            return round(1000 * moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    raise BadURL(
        f"kafka: start {text!r} must be earliest, latest, a time of ISO 8601 such as"
        " 2024-02-29T18:30:00Z, or milliseconds since 1970"
    )
