"""A source is known by more than its name: a file by its beginning, a topic by its identifier."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from connectors.base import Identified, Source
from connectors.errors import ConnectorError
from streamk.engine.checkpoints.reading import Checkpoint

__all__ = ["fingerprint", "identities", "renamed", "replaced"]

_log = logging.getLogger("streamk.engine")


@runtime_checkable
class _Recognizable(Protocol):
    """A source of a single file that is known by its beginning."""

    def fingerprint(self, length: int = ...) -> tuple[int, str]:
        """The number of the first bytes, up to `length`, and their digest."""
        ...

    def partitions(self) -> tuple[str, ...]:
        """The file's name."""
        ...


def renamed(found: Checkpoint, source: Source) -> Checkpoint:
    """Return a checkpoint of a single file with the name that this file has now."""
    sequence, ranges = found.body["feed"]["sequence"], found.body["feed"]["learned"]
    known = found.body.get("fingerprint")
    if not known or not isinstance(source, _Recognizable):
        return found
    (before,), (now,) = sequence["partitions"], source.partitions()
    if before == now or list(source.fingerprint(known[0])) != known:
        return found
    _log.info("%s is the file that was called %s", now, before)
    feed = {
        **found.body["feed"],
        "sequence": {**sequence, "partitions": {now: sequence["partitions"][before]}},
        "learned": {now: ranges[before]},
    }
    return replace(found, body={**found.body, "feed": feed})


def fingerprint(source: Source, offsets: Mapping[str, int]) -> list[Any] | None:
    """Return by which bytes the source's only file is known, if it is one and not empty."""
    if not isinstance(source, _Recognizable) or len(offsets) != 1:
        return None
    try:
        length, digest = source.fingerprint()
    except (ConnectorError, OSError):  # it is gone, or being replaced
        return None
    return [length, digest] if length else None


def identities(source: Source) -> dict[str, str]:
    """Return by what each partition is told from a later one of its name, where the source can."""
    if not isinstance(source, Identified):
        return {}
    found = {partition: source.identity(partition) for partition in source.partitions()}
    return {partition: identity for partition, identity in found.items() if identity is not None}


def replaced(found: Checkpoint, source: Source) -> list[str]:
    """Return the partitions of a checkpoint that are others in the source by now."""
    if not isinstance(source, Identified):
        return []
    known = found.body.get("identities", {})  # of all partitions: those of a group come later
    return [name for name, one in known.items() if source.identity(name) not in (None, one)]
