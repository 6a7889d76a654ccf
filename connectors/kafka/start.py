"""The option `start` of a topic."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

from connectors.errors import BadURL


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
