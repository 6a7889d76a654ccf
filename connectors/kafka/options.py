"""The options of a topic that is read."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from connectors.errors import BadURL
from connectors.records import FRAMED

_ENCODINGS = ("json", "float32", "csv", *FRAMED)


def check_options(
    encoding: str, isolation_level: str, group: str | None, group_instance_id: str | None
) -> None:
    """Raise `BadURL` for options of a source that have no meaning, alone or together."""
    if encoding not in _ENCODINGS:
        raise BadURL(
            f"kafka: encoding {encoding!r} must be {', '.join(_ENCODINGS[:-1])} or {_ENCODINGS[-1]}"
        )
    if isolation_level not in ("read_committed", "read_uncommitted"):
        raise BadURL(
            f"kafka: isolation_level {isolation_level!r} must be read_committed or read_uncommitted"
        )
    if group_instance_id is not None and group is None:
        raise BadURL("kafka: group_instance_id names a member of a group: give group too")


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
