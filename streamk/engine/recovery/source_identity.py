"""A source is known by more than its name: a file by what was read of it, a topic by its number."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connectors.base import InGroup, Source
from streamk.engine.checkpoints.reading import Checkpoint

__all__ = ["identities", "renamed", "replaced"]

_log = logging.getLogger("streamk.engine")


def identities(source: Source, offsets: Mapping[str, int]) -> dict[str, str]:
    """Return by what each partition that was read up to these offsets is known again."""
    found = {name: source.identity(name, offset) for name, offset in offsets.items()}
    return {name: identity for name, identity in found.items() if identity is not None}


def renamed(found: Checkpoint, source: Source) -> Checkpoint:
    """Return a checkpoint with the present name of the file that has another one by now.

    Whether it is that file is told by `replaced`.
    """
    feed, known = found.body["feed"], found.body["identities"]
    places, there = feed["sequence"]["partitions"], source.partitions()
    gone, come = set(places).difference(there), set(there).difference(places)
    if isinstance(source, InGroup) or len(gone) != 1 or len(come) != 1 or not gone <= set(known):
        return found
    (before,), (now,) = gone, come
    _log.info("%s is read in the place of %s", now, before)

    def with_name(items: Mapping[str, Any]) -> dict[str, Any]:
        return {now if name == before else name: item for name, item in items.items()}

    sequence = {**feed["sequence"], "partitions": with_name(places)}
    feed = {**feed, "sequence": sequence, "learned": with_name(feed["learned"])}
    return replace(found, body={**found.body, "identities": with_name(known), "feed": feed})


def replaced(found: Checkpoint, source: Source) -> dict[str, str]:
    """Return how partitions of a checkpoint are others in the source by now."""
    known = found.body["identities"]  # of all partitions: those of a group come later
    how = {name: source.recognize(name, one) for name, one in known.items()}
    return {name: what for name, what in how.items() if what is not None}
